//! Payloads of the numbered events.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::error::ErrorDetail;
use super::snapshot::Todo;
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
    /// `session.resumed`
    SessionResumed(SessionResumed),
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
    /// Tokens of the turn.
    #[serde(default)]
    pub usage: Lenient<TurnUsage>,
}

/// Tokens of a turn.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TurnUsage {
    /// Input.
    pub input_tokens: Option<u64>,
    /// Output.
    pub output_tokens: Option<u64>,
    /// Both.
    pub total_tokens: Option<u64>,
    /// Reasoning.
    pub reasoning_tokens: Option<u64>,
    /// Read from a cache.
    pub cache_read_tokens: Option<u64>,
    /// Written to a cache.
    pub cache_write_tokens: Option<u64>,
}

/// Payload of `session.resumed`.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SessionResumed {
    /// Messages of the history.
    pub message_count: Lenient<u64>,
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
    /// Exit code of a command.
    #[serde(default)]
    pub exit_code: Lenient<i64>,
    /// Images.
    #[serde(borrow, default)]
    pub images: Lenient<Vec<Image<'a>>>,
    /// Todo list.
    #[serde(borrow, default)]
    pub todos: Lenient<Vec<Todo<'a>>>,
}

/// An image a tool made.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Image<'a> {
    /// The bytes.
    #[serde(borrow)]
    pub base64: Text<'a>,
    /// MIME type.
    #[serde(borrow)]
    pub mime_type: Text<'a>,
}

/// Output of the tool that keeps the todo list.
#[derive(Debug, Clone, Deserialize)]
pub struct TodoOutput<'a> {
    /// The list from now on.
    #[serde(borrow)]
    pub todos: Vec<Todo<'a>>,
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
    /// What a network or compaction update is about.
    #[serde(rename = "type", borrow)]
    pub kind: Lenient<Text<'a>>,
    /// Why a compaction failed: text, or an object with a message.
    #[serde(borrow)]
    pub error: Option<&'a RawValue>,
    /// Id of a background task.
    #[serde(borrow)]
    pub task_id: Lenient<Text<'a>>,
    /// Call that started the background task.
    #[serde(borrow)]
    pub tool_call_id: Lenient<Text<'a>>,
    /// Tool that started the background task.
    #[serde(borrow)]
    pub tool_name: Lenient<Text<'a>>,
    /// Where the background task is.
    #[serde(borrow)]
    pub status: Lenient<Text<'a>>,
    /// What the background task does.
    #[serde(borrow)]
    pub description: Lenient<Text<'a>>,
    /// End of the background task's output.
    #[serde(borrow)]
    pub output_tail: Lenient<Text<'a>>,
    /// Where the retry of a model request is described.
    #[serde(rename = "_meta")]
    pub meta: Lenient<Meta>,
}

/// Remarks beside an update.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Meta {
    /// ZCode's own.
    pub zcode: Lenient<ZcodeMeta>,
}

/// ZCode's remarks.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ZcodeMeta {
    /// A model request is being repeated.
    pub api_retry: Lenient<ApiRetry>,
}

/// The repetition of a model request. The text of the error is not read: it can quote what was sent.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ApiRetry {
    /// Number of the repetition.
    pub attempt: u64,
    /// How many there can be.
    #[serde(default)]
    pub max_retries: Lenient<u64>,
    /// Pause before it.
    #[serde(default)]
    pub retry_delay_ms: Lenient<f64>,
    /// HTTP status.
    #[serde(default)]
    pub error_status: Lenient<u16>,
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
