//! Sessions and messages as the host has stored them, and what its session commands answer.

use std::path::PathBuf;
use std::sync::Arc;

use diag_model::{SessionId, ToolCallId};
use serde_json::Value;

use super::{SessionFacts, ToolResult};

/// A stored session that a person can go on with: not archived, and not one that belongs to another session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSummary {
    /// The host's id.
    pub id: SessionId,
    /// Title, unless it is the placeholder.
    pub title: Option<Arc<str>>,
    /// Workspace it belongs to, as the host has it.
    pub cwd: PathBuf,
    /// Last change, milliseconds since 1970.
    pub updated_ms: Option<u64>,
    /// Creation, milliseconds since 1970.
    pub created_ms: Option<u64>,
}

/// A message of the history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryMessage {
    /// The host's id; the page after this message begins behind it.
    pub id: Arc<str>,
    /// Whose it is.
    pub role: Role,
    /// False for what people do not see: reminders, notifications, summaries and whatever else was written for the model
    /// only. It still counts as a message.
    pub shown: bool,
    /// Parts, in order.
    pub parts: Vec<HistoryPart>,
    /// When it was written, milliseconds since 1970.
    pub created_ms: Option<u64>,
}

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The user's.
    User,
    /// The model's.
    Assistant,
}

/// A part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryPart {
    /// Text.
    Text(String),
    /// Reasoning.
    Thought(String),
    /// A file, image or sound.
    File {
        /// Name.
        name: Option<String>,
        /// MIME type.
        mime: String,
        /// Where its bytes are.
        source: HistoryFile,
    },
    /// A tool call.
    Tool(HistoryTool),
    /// Of no consequence, not for people, or unknown. Nothing is running, so nothing fails for it.
    Skipped,
}

/// Where the bytes of a stored file are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HistoryFile {
    /// Here, base64.
    Data(Arc<str>),
    /// In the host's own store, which nobody else reads.
    Artifact,
    /// Behind a URI.
    Link(String),
}

/// A tool call of the history.
#[derive(Debug, Clone, PartialEq)]
pub struct HistoryTool {
    /// Call.
    pub call: ToolCallId,
    /// Tool.
    pub tool: Arc<str>,
    /// Input.
    pub input: Value,
    /// How far it came.
    pub state: HistoryToolState,
}

/// How far a stored tool call came.
#[derive(Debug, Clone, PartialEq)]
pub enum HistoryToolState {
    /// Announced.
    Pending,
    /// Running, or left behind by a host that ended.
    Running,
    /// Over, in the shape a live result has.
    Completed(ToolResult),
    /// Over without a result; what the host says.
    Failed(String),
}

/// Answer to compacting a conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct CompactOutcome {
    /// What the host says, for people.
    pub text: String,
    /// A compaction was running already; this call started none.
    pub already_running: bool,
    /// Facts after it.
    pub facts: SessionFacts,
}

/// Answer to a goal command.
#[derive(Debug, Clone, PartialEq)]
pub struct GoalOutcome {
    /// What the host says, for people.
    pub text: String,
    /// The host has started a turn of its own to pursue the goal.
    pub started_turn: bool,
    /// Facts after it.
    pub facts: SessionFacts,
}

/// What a contract may lack. Something it lacks is neither offered nor called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feature {
    /// Opening a stored session.
    Resume,
    /// Listing stored sessions.
    List,
    /// Reading messages.
    History,
    /// Choosing a model.
    Model,
    /// Choosing a thought level.
    Thought,
    /// Choosing a mode.
    Mode,
    /// Compacting the conversation.
    Compact,
    /// Goals.
    Goal,
}
