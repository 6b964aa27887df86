//! What a client sees, free of wire types.

use std::path::PathBuf;

use serde_json::Value;

/// The agent as it introduced itself.
#[derive(Debug, Clone, PartialEq)]
pub struct Agent {
    /// Selected protocol version.
    pub protocol_version: u16,
    /// Name, when it said one.
    pub name: Option<String>,
    /// Title for people, when it said one.
    pub title: Option<String>,
    /// Version, when it said one.
    pub version: Option<String>,
    /// The whole answer.
    pub raw: Value,
}

/// A new session.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    /// Its id.
    pub id: String,
    /// Permission mode in force, when the agent has modes.
    pub mode: Option<String>,
}

/// Why a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StopReason {
    /// The agent has finished.
    EndTurn,
    /// Out of tokens.
    MaxTokens,
    /// Too many model requests in one turn.
    MaxTurnRequests,
    /// The agent refused.
    Refusal,
    /// Cancelled by the client.
    Cancelled,
    /// A reason this client does not know.
    Unknown,
}

impl StopReason {
    /// The name on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            StopReason::EndTurn => "end_turn",
            StopReason::MaxTokens => "max_tokens",
            StopReason::MaxTurnRequests => "max_turn_requests",
            StopReason::Refusal => "refusal",
            StopReason::Cancelled => "cancelled",
            StopReason::Unknown => "unknown",
        }
    }
}

/// One `session/update`.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionUpdate {
    /// Session it belongs to.
    pub session: String,
    /// What it says.
    pub update: Update,
    /// The `update` object as it came, with everything this client does not know.
    pub raw: Value,
}

/// What an update says.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Update {
    /// Part of the agent's answer.
    Message {
        /// Text; other content is named in brackets.
        text: String,
        /// Message the part belongs to.
        id: Option<String>,
    },
    /// Part of the agent's thoughts.
    Thought {
        /// Text; other content is named in brackets.
        text: String,
        /// Message the part belongs to.
        id: Option<String>,
    },
    /// A tool call began or changed.
    Tool(ToolUpdate),
    /// The whole plan.
    Plan(Vec<PlanEntry>),
    /// The permission mode changed.
    Mode(String),
    /// The session got a title.
    Title(String),
    /// A word of the agent to the user.
    Notice(String),
    /// Something this client does not show; the kind as it came.
    Other(String),
}

/// A tool call, whole at first and then only what changed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolUpdate {
    /// Identity of the call.
    pub id: String,
    /// The call is new.
    pub first: bool,
    /// Title.
    pub title: Option<String>,
    /// Kind: `read`, `edit`, `execute`, …
    pub kind: Option<String>,
    /// Progress.
    pub status: Option<ToolStatus>,
    /// Content; replaces what was there.
    pub content: Option<Vec<ToolContent>>,
    /// Files concerned, with a line.
    pub locations: Option<Vec<(PathBuf, Option<u32>)>>,
    /// Input of the tool.
    pub raw_input: Option<Value>,
}

/// Progress of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ToolStatus {
    /// Not begun.
    Pending,
    /// Runs.
    InProgress,
    /// Done.
    Completed,
    /// Failed.
    Failed,
}

impl ToolStatus {
    /// No further change is expected.
    pub const fn is_final(self) -> bool {
        matches!(self, ToolStatus::Completed | ToolStatus::Failed)
    }
}

/// Content of a tool call.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ToolContent {
    /// Text; other content is named in brackets.
    Text(String),
    /// A change to a file.
    Diff(Diff),
    /// Something this client does not show.
    Other(&'static str),
}

/// A change to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diff {
    /// The file.
    pub path: PathBuf,
    /// Its text before; none for a new file.
    pub old: Option<String>,
    /// Its text after.
    pub new: String,
}

/// One entry of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanEntry {
    /// Text.
    pub content: String,
    /// Progress.
    pub status: PlanStatus,
}

/// Progress of a plan entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

/// The agent asks for a permission.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionAsk {
    /// Session it belongs to.
    pub session: String,
    /// The tool call concerned, as far as the request describes it.
    pub tool: ToolUpdate,
    /// Possible answers, in the agent's order.
    pub options: Vec<PermissionOption>,
}

/// A possible answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionOption {
    /// Identity.
    pub id: String,
    /// Name for people.
    pub name: String,
    /// What it means.
    pub kind: OptionKind,
}

/// What a permission option means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// This time.
    AllowOnce,
    /// From now on.
    AllowAlways,
    /// Not this time.
    RejectOnce,
    /// Never.
    RejectAlways,
    /// A kind this client does not know.
    Unknown,
}

/// The user's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// One of the offered options, by id.
    Selected(String),
    /// No choice was made.
    Cancelled,
}
