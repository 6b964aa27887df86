//! Payloads of the numbered events.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::ErrorDetail;
use super::text::{Lenient, Text};

/// Payload of a numbered event, by type.
///
/// Members that carry headers or repeat content are not among them, so they cannot be kept by mistake.
#[derive(Debug, Clone)]
pub enum Payload<'a> {
    /// `turn.started`
    TurnStarted(TurnStarted<'a>),
    /// `turn.steerQueued`
    SteerQueued(SteerQueued<'a>),
    /// `turn.steerDrained`
    SteerDrained(SteerDrained<'a>),
    /// `turn.completed`
    TurnCompleted(TurnCompleted<'a>),
    /// `turn.failed`
    TurnFailed(TurnFailed<'a>),
    /// `model.streaming`
    Streaming(Streaming<'a>),
    /// `tool.updated`
    Tool(Box<ToolUpdated<'a>>),
    /// `session.updated`
    SessionUpdated(Box<SessionUpdated<'a>>),
    /// `session.titleUpdated`
    Title(TitleUpdated<'a>),
    /// `permission.resolved` and `userInput.resolved`
    Resolved(Resolved<'a>),
    /// `session.closed`
    SessionClosed,
    /// `turn.terminal`
    TurnTerminal,
    /// Any other type, its payload skipped.
    Other,
}

/// Payload of `turn.started`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TurnStarted<'a> {
    /// Input the turn belongs to.
    #[serde(borrow)]
    pub input_id: Option<Text<'a>>,
    /// Who started it.
    #[serde(borrow)]
    pub input_source: Option<Text<'a>>,
    /// Set when a background task started it.
    #[serde(borrow)]
    pub background_source: Option<Text<'a>>,
}

/// Payload of `turn.steerQueued`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SteerQueued<'a> {
    /// Id of the queued input.
    #[serde(borrow)]
    pub pending_input_id: Text<'a>,
    /// Input it stands for.
    #[serde(borrow)]
    pub input_id: Option<Text<'a>>,
}

/// Payload of `turn.steerDrained`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SteerDrained<'a> {
    /// Queued inputs that were taken.
    #[serde(borrow)]
    pub pending_input_ids: Vec<Text<'a>>,
    /// Turn that took them.
    #[serde(borrow)]
    pub target_turn_id: Text<'a>,
}

/// Payload of `turn.completed`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnCompleted<'a> {
    /// Input the turn belongs to.
    #[serde(borrow)]
    pub input_id: Option<Text<'a>>,
    /// How it ended.
    #[serde(borrow)]
    pub result_type: Text<'a>,
}

/// Payload of `turn.failed`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TurnFailed<'a> {
    /// Input the turn belongs to.
    #[serde(borrow)]
    pub input_id: Option<Text<'a>>,
    /// Why.
    #[serde(borrow)]
    pub error: ErrorDetail<'a>,
}

/// Payload of `model.streaming`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Streaming<'a> {
    /// Kind.
    #[serde(borrow)]
    pub kind: Text<'a>,
    /// New text.
    #[serde(borrow)]
    pub delta: Option<Text<'a>>,
    /// Message it belongs to.
    #[serde(borrow)]
    pub assistant_message_id: Option<Text<'a>>,
    /// Tool call it belongs to.
    #[serde(borrow)]
    pub tool_call_id: Option<Text<'a>>,
    /// Tool.
    #[serde(borrow)]
    pub tool_name: Option<Text<'a>>,
    /// Whole input of a tool call.
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
}

/// Payload of `tool.updated`.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolUpdated<'a> {
    /// Kind.
    #[serde(borrow)]
    pub kind: Text<'a>,
    /// Call. Every kind but the ones about several calls has it.
    #[serde(borrow)]
    pub tool_call_id: Option<Text<'a>>,
    /// Tool; absent on later kinds.
    #[serde(borrow)]
    pub tool_name: Option<Text<'a>>,
    /// Call of the agent that made this one.
    #[serde(borrow)]
    pub parent_tool_call_id: Option<Text<'a>>,
    /// Subagent.
    #[serde(borrow)]
    pub agent_id: Option<Text<'a>>,
    /// Input.
    #[serde(borrow)]
    pub input: Option<&'a RawValue>,
    /// The input came on the model stream.
    pub input_omitted: Option<bool>,
    /// Output so far, cut.
    #[serde(borrow, default)]
    pub output_preview: Lenient<Text<'a>>,
    /// End of stdout so far.
    #[serde(borrow, default)]
    pub stdout_tail: Lenient<Text<'a>>,
    /// End of stderr so far.
    #[serde(borrow, default)]
    pub stderr_tail: Lenient<Text<'a>>,
    /// Size of the output so far.
    #[serde(default)]
    pub output_bytes: Lenient<u64>,
    /// Result.
    #[serde(borrow)]
    pub result: Option<ToolResult<'a>>,
    /// Error: text, or an object with a message.
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
}

/// Result of a tool call.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult<'a> {
    /// Worked.
    pub success: bool,
    /// Output: text, or an open shape.
    #[serde(borrow)]
    pub content: Option<&'a RawValue>,
    /// Structured presentation.
    #[serde(borrow, default)]
    pub display: Lenient<Display<'a>>,
    /// Facts about a process.
    #[serde(default)]
    pub perf: Lenient<Perf>,
    /// The output was cut.
    #[serde(default)]
    pub truncated: Lenient<bool>,
    /// Size of the whole output.
    #[serde(default)]
    pub original_bytes: Lenient<u64>,
}

/// Facts about a process.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Perf {
    /// Exit code.
    pub exit_code: Option<i64>,
}

/// Structured presentation of a result.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Display<'a> {
    /// Kind.
    #[serde(borrow)]
    pub kind: Text<'a>,
    /// Status, for example `backgrounded`.
    #[serde(borrow, default)]
    pub status: Lenient<Text<'a>>,
    /// File of a diff.
    #[serde(borrow)]
    pub file_path: Option<Text<'a>>,
    /// Hunks of a diff.
    #[serde(borrow)]
    pub structured_patch: Option<Vec<Hunk<'a>>>,
    /// Hunks are missing.
    pub truncated: Option<bool>,
}

/// A hunk of a diff.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hunk<'a> {
    /// First old line.
    pub old_start: u32,
    /// First new line.
    pub new_start: u32,
    /// Lines with their prefix.
    #[serde(borrow)]
    pub lines: Vec<Text<'a>>,
}

/// The members of `session.updated` that are understood. The payload has many variants, some with HTTP headers; whatever is
/// not named here is skipped unread.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionUpdated<'a> {
    /// Mode now, together with [`SessionUpdated::previous_mode`].
    #[serde(borrow)]
    pub mode: Lenient<Text<'a>>,
    /// Mode before. Says that the event is a change of mode.
    #[serde(borrow)]
    pub previous_mode: Lenient<Text<'a>>,
    /// What a finished model request was for.
    #[serde(borrow)]
    pub query_source: Lenient<Text<'a>>,
    /// Size of the context.
    pub context_window: Lenient<u64>,
    /// Tokens of a finished model request.
    pub usage: Lenient<RequestUsage>,
}

/// Tokens of one model request.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestUsage {
    /// Sum of input and output.
    pub total_tokens: Option<u64>,
    /// Input.
    pub input_tokens: Option<u64>,
    /// Output.
    pub output_tokens: Option<u64>,
}

/// Payload of `session.titleUpdated`.
#[derive(Debug, Clone, Deserialize)]
pub struct TitleUpdated<'a> {
    /// Title.
    #[serde(borrow)]
    pub title: Text<'a>,
}

/// Payload of `permission.resolved` and `userInput.resolved`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resolved<'a> {
    /// Request that is settled.
    #[serde(borrow)]
    pub request_id: Option<Text<'a>>,
}
