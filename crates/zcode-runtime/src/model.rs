//! The neutral vocabulary between the session machines and a host of any protocol id.
//!
//! Nothing here names a service, a method or an event type of ZCode. Values are owned: the text of a delta is copied
//! once, out of the line it arrived in.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use diag_model::{AskId, Failure, InputId, SessionId, ToolCallId};
use serde_json::Value;

pub use stored::{
    CompactOutcome, Feature, GoalOutcome, HistoryFile, HistoryMessage, HistoryPart, HistoryTool,
    HistoryToolState, Role, SessionSummary,
};

mod stored;

/// What is known of a host before and while it runs. Comes from the contract, never from the host's own claims.
#[derive(Debug, Clone)]
pub struct HostProfile {
    /// Contract in force, for example `zcode-host-3.11.2`.
    pub contract: Arc<str>,
    /// Protocol id, for example `zcode-task-v1`.
    pub protocol: Arc<str>,
    /// ZCode app version, when there is an install.
    pub app_version: Option<Arc<str>>,
    /// The contract is not the embedded one (`--contract FILE`): every surface says so.
    pub unofficial: bool,
    /// The host is the simulated one: every surface says so.
    pub simulated: bool,
    /// Mode catalogue, in the contract's order.
    pub modes: Arc<[Mode]>,
    /// How long the terminal event may take after a stop.
    pub cancel_terminal: Duration,
}

impl HostProfile {
    /// The mode with this id.
    pub fn mode(&self, id: &str) -> Option<&Mode> {
        self.modes.iter().find(|mode| &*mode.id == id)
    }
}

/// A permission mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mode {
    /// ZCode's own id, never translated.
    pub id: Arc<str>,
    /// Name for people.
    pub name: Arc<str>,
    /// One sentence.
    pub description: Arc<str>,
    /// Order of permission: a higher one allows more without asking.
    pub strength: u8,
    /// May be chosen without the user having said so.
    pub implicit: bool,
}

/// Answer to opening a workspace: its state as far as a new session needs it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WorkspaceState {
    /// Mode the workspace would use by itself. May be unsafe (`yolo`).
    pub mode: Option<Arc<str>>,
    /// Models that can be chosen. Empty means nobody is signed in.
    pub models: Vec<Model>,
    /// Model the workspace would use by itself.
    pub current_model: Option<ModelRef>,
    /// Thought levels.
    pub thought: Option<ThoughtLevels>,
    /// Slash commands.
    pub commands: Vec<SlashCommand>,
}

/// Identity of a model.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelRef {
    /// Provider id.
    pub provider: Arc<str>,
    /// Model id.
    pub model: Arc<str>,
    /// Variant, where the provider has some.
    pub variant: Option<Arc<str>>,
}

/// A model that can be chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Identity.
    pub id: ModelRef,
    /// Label for people.
    pub label: Arc<str>,
    /// Provider's label.
    pub provider_label: Option<Arc<str>>,
    /// Why it cannot be chosen now.
    pub disabled: Option<Arc<str>>,
}

/// Thought levels of a session or workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThoughtLevels {
    /// Level in force, if the host says one.
    pub current: Option<Arc<str>>,
    /// Level used when nothing was chosen.
    pub default: Option<Arc<str>>,
    /// Values with labels.
    pub available: Vec<(Arc<str>, Arc<str>)>,
}

/// A slash command as the host lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    /// Name without the slash.
    pub name: Arc<str>,
    /// One sentence.
    pub description: Arc<str>,
    /// Hint for its argument.
    pub input_hint: Option<Arc<str>>,
    /// Comes with ZCode, as opposed to one the user made.
    pub builtin: bool,
}

/// Parameters of a new session.
#[derive(Debug, Clone)]
pub struct NewSession {
    /// Canonical workspace path.
    pub workspace: PathBuf,
    /// Mode to create it in. There is always one: the safe-mode rule chose it.
    pub mode: Arc<str>,
    /// MCP servers in the host's strict shape.
    pub mcp_servers: Vec<Value>,
}

/// A session the host has opened.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedSession {
    /// The host's id.
    pub id: SessionId,
    /// State as the answer carried it.
    pub facts: SessionFacts,
}

/// Facts about a session that are not turn content. `None` means "not said", never "none".
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionFacts {
    /// Mode in force.
    pub mode: Option<Arc<str>>,
    /// Title.
    pub title: Option<Arc<str>>,
    /// Model in force.
    pub model: Option<ModelRef>,
    /// Thought levels.
    pub thought: Option<ThoughtLevels>,
    /// Todo list, whole.
    pub todos: Option<Vec<Todo>>,
    /// Slash commands, whole.
    pub commands: Option<Vec<SlashCommand>>,
    /// Context occupancy.
    pub context: Option<ContextUsage>,
}

/// One todo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Todo {
    /// Text.
    pub content: String,
    /// `pending`, `in_progress` or `completed`.
    pub status: TodoStatus,
    /// `high`, `medium` or `low`.
    pub priority: TodoPriority,
}

/// Progress of a todo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Being done.
    InProgress,
    /// Done.
    Completed,
}

/// Priority of a todo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TodoPriority {
    /// High.
    High,
    /// Medium.
    Medium,
    /// Low.
    Low,
}

/// How full the context window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextUsage {
    /// Tokens in use by the last main request.
    pub used: u64,
    /// Window size.
    pub size: u64,
}

/// A prompt as the host takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PromptInput {
    /// Id that ties the turn to this prompt.
    pub input: InputId,
    /// Text.
    pub text: String,
    /// Attachments.
    pub attachments: Vec<Attachment>,
}

/// A file, image or sound beside the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Kind.
    pub kind: AttachmentKind,
    /// Display name.
    pub filename: String,
    /// MIME type.
    pub mime_type: String,
    /// Where the bytes are.
    pub source: AttachmentSource,
    /// Size of the decoded bytes.
    pub size_bytes: u64,
}

/// Kind of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentKind {
    /// Image.
    Image,
    /// Sound.
    Audio,
    /// Anything else.
    File,
}

/// Where the bytes of an attachment are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttachmentSource {
    /// On this machine's disk.
    Path(PathBuf),
    /// In the message, base64. Shared, not copied.
    Base64(Arc<str>),
}

/// How a host call failed.
#[derive(Debug, Clone)]
pub enum CallError {
    /// The host answered with an error. `failure` is already worded; `not_active` marks an evicted session, `busy` a
    /// prompt that was provably not taken because another runs, `unavailable` a method the host does not have.
    Refused {
        /// The worded failure.
        failure: Failure,
        /// Why, where the adapter acts on it.
        why: Refusal,
    },
    /// No answer in time: the outcome is unknown. A late answer is discarded and counted.
    TimedOut(Failure),
    /// The host is gone.
    Gone(Failure),
}

/// Reasons of a refusal that the adapter acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The session was evicted; it can be resumed.
    NotActive,
    /// Another prompt is running; this one was not taken.
    Busy,
    /// The host lacks the method.
    Unavailable,
    /// Sign-in is missing.
    SignIn,
    /// There is no such session.
    NotFound,
    /// Anything else.
    Other,
}

impl CallError {
    /// The failure to show.
    pub fn failure(&self) -> &Failure {
        match self {
            CallError::Refused { failure, .. } | CallError::TimedOut(failure) | CallError::Gone(failure) => {
                failure
            }
        }
    }
}

/// What a subscription yields.
#[derive(Debug, Clone, PartialEq)]
pub enum HostEvent {
    /// First event of a subscription and the boundary of the stream.
    Snapshot(Snapshot),
    /// Facts changed, without a sequence number of their own.
    Facts(SessionFacts),
    /// The host asks for a permission.
    Permission(PermissionAsk),
    /// The host asks the user something.
    Input(InputAsk),
    /// The host wants provider headers from the desktop app.
    Headers(HeadersAsk),
    /// An ask was answered elsewhere or by the host itself.
    AskGone(AskId),
    /// A numbered event.
    Event(SessionEvent),
    /// The host sent something outside the contract. The running turn fails; nothing is guessed.
    Violation(Violation),
    /// The stream has ended: host gone, frame malformed, or the subscription was disposed by the host.
    Lost(Failure),
}

/// First event of a subscription.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// Live events up to and including this number are already in the snapshot.
    pub event_seq: u64,
    /// A turn is running.
    pub running: bool,
    /// Facts.
    pub facts: SessionFacts,
    /// Permissions that are still open.
    pub pending: Vec<PermissionAsk>,
}

/// An event with identity and order.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionEvent {
    /// Rises within the session; gaps are legal.
    pub seq: u64,
    /// Identity, to drop repeats.
    pub id: Arc<str>,
    /// Turn the event belongs to.
    pub turn: Option<Arc<str>>,
    /// What happened.
    pub body: EventBody,
}

/// What a numbered event says.
#[derive(Debug, Clone, PartialEq)]
pub enum EventBody {
    /// A turn began.
    TurnStarted {
        /// Prompt it belongs to; none when the host started it by itself.
        input: Option<InputId>,
        /// Started by the end of a background task.
        background: bool,
    },
    /// Queued inputs were taken into a running turn.
    Steered {
        /// Inputs.
        inputs: Vec<InputId>,
        /// Turn that took them.
        target: Arc<str>,
    },
    /// A turn ended by itself.
    TurnEnded {
        /// How.
        result: TurnResult,
        /// Prompt it belongs to.
        input: Option<InputId>,
        /// Tokens of the whole turn, when the host counted some.
        usage: Option<TurnUsage>,
    },
    /// A turn failed.
    TurnFailed {
        /// Worded and redacted.
        failure: Failure,
        /// Prompt it belongs to.
        input: Option<InputId>,
    },
    /// The host hints that the turn is over; only the ends above count.
    TurnTerminalHint,
    /// The session was closed by the host.
    SessionClosed,
    /// Assistant text.
    Text {
        /// Message it belongs to.
        message: Option<Arc<str>>,
        /// New text, to append.
        delta: String,
    },
    /// Assistant reasoning.
    Thought {
        /// Message it belongs to.
        message: Option<Arc<str>>,
        /// New text, to append.
        delta: String,
    },
    /// A tool call's input is being written or is complete.
    ToolInput(ToolInput),
    /// A tool call moved.
    Tool(ToolEvent),
    /// Facts changed.
    Facts(SessionFacts),
    /// A permission was settled (also: elsewhere).
    AskResolved(AskId),
    /// The history of a resumed session is complete.
    SessionResumed {
        /// Messages it has, when said.
        message_count: Option<u64>,
    },
    /// A task that goes on beside the turns moved or ended.
    BackgroundTask(BackgroundTask),
    /// A compaction of the conversation moved.
    Compaction(CompactionStage),
    /// A model request failed and is being repeated.
    Retry(Retry),
    /// Known, and of no consequence. The name is the contract's.
    Informational(&'static str),
}

/// Tokens of one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TurnUsage {
    /// All of them.
    pub total: u64,
    /// Input.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Reasoning, part of the output.
    pub thought: Option<u64>,
    /// Read from a cache, part of the input.
    pub cached_read: Option<u64>,
    /// Written to a cache.
    pub cached_write: Option<u64>,
}

/// A task that goes on beside the turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundTask {
    /// The host's id of the task.
    pub task: Arc<str>,
    /// Tool call that started it.
    pub call: ToolCallId,
    /// Tool.
    pub tool: Option<Arc<str>>,
    /// Where it is.
    pub status: TaskStatus,
    /// What it does, for people.
    pub description: Option<String>,
    /// End of its output; replaces an earlier one.
    pub tail: Option<String>,
}

/// Where a background task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskStatus {
    /// Running.
    Running,
    /// Done.
    Completed,
    /// Failed.
    Failed,
    /// Ended because it took too long.
    TimedOut,
    /// Stopped.
    Cancelled,
    /// Could not be started.
    SpawnError,
    /// The host does not know what became of it.
    Lost,
}

impl TaskStatus {
    /// Nothing comes after this.
    pub const fn is_final(self) -> bool {
        !matches!(self, TaskStatus::Running)
    }
}

/// Where a compaction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionStage {
    /// Running.
    Started,
    /// Done.
    Completed,
    /// Failed, with what the host says, redacted.
    Failed(Option<String>),
}

/// A repeated model request. Nothing of the request or its answer is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// Number of the repetition, from 1.
    pub attempt: u64,
    /// How many there can be.
    pub max: Option<u64>,
    /// How long the host waits before it.
    pub delay: Duration,
    /// HTTP status that led to it.
    pub status: Option<u16>,
}

/// How a turn ended by itself, as the contract classifies the host's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnResult {
    /// Finished.
    EndTurn,
    /// Token limit.
    MaxTokens,
    /// Request, turn or tool limit.
    MaxTurnRequests,
    /// The model declined.
    Refusal,
    /// Stopped.
    Cancelled,
    /// Failed, worded.
    Error(Failure),
}

/// A tool call's input on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolInput {
    /// Call.
    pub call: ToolCallId,
    /// Tool, when said.
    pub tool: Option<Arc<str>>,
    /// Progress of the input.
    pub part: ToolInputPart,
}

/// Progress of a tool call's input.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolInputPart {
    /// It begins.
    Start,
    /// More JSON text, to append.
    Delta(String),
    /// It is complete; the deltas are the JSON text.
    End,
    /// The whole input at once.
    Complete(Value),
}

/// A tool call moved.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolEvent {
    /// Call.
    pub call: ToolCallId,
    /// Tool, when said (later events often do not).
    pub tool: Option<Arc<str>>,
    /// Call of the agent that made this one.
    pub parent: Option<ToolCallId>,
    /// Subagent.
    pub agent: Option<Arc<str>>,
    /// Where it is now.
    pub stage: ToolStage,
}

/// Stage of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolStage {
    /// Announced, with its input unless that came on the model stream.
    Scheduled {
        /// Input.
        input: Option<Value>,
    },
    /// Running.
    Started,
    /// Running, with the current tails of its output, which replace the earlier ones.
    Progress {
        /// Output tail, preview or both streams, as one text.
        tail: Option<String>,
        /// Bytes written so far.
        total_bytes: Option<u64>,
    },
    /// Over.
    Result(ToolResult),
    /// Over, failed before it had a result.
    Failed {
        /// What the host says.
        error: String,
    },
}

/// Result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// Worked.
    pub success: bool,
    /// Output as text.
    pub content: String,
    /// Structured presentation.
    pub display: Option<ToolDisplay>,
    /// Exit code of a command.
    pub exit_code: Option<i64>,
    /// The host cut the output.
    pub truncated: bool,
    /// Size of the whole output.
    pub original_bytes: Option<u64>,
}

/// Structured presentation of a tool result.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolDisplay {
    /// Changes to one file.
    FileDiff {
        /// Path as the host gave it.
        path: String,
        /// Hunks.
        hunks: Vec<DiffHunk>,
        /// Hunks are missing: show text instead of a wrong diff.
        truncated: bool,
    },
    /// The call goes on in the background.
    Backgrounded,
    /// The call replaced the session's todo list with this one.
    Todos(Vec<Todo>),
    /// Images.
    Images(Vec<ToolImage>),
    /// Any other kind, by name.
    Other(Arc<str>),
}

/// An image a tool made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolImage {
    /// MIME type.
    pub mime: String,
    /// Base64.
    pub data: Arc<str>,
}

/// A hunk of a structured patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffHunk {
    /// First line in the old file, 1-based.
    pub old_start: u32,
    /// First line in the new file, 1-based.
    pub new_start: u32,
    /// Lines with their prefix: space, `-` or `+`.
    pub lines: Vec<String>,
}

/// The host asks whether a tool may run.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionAsk {
    /// The host's request id.
    pub id: AskId,
    /// Call it is about.
    pub call: ToolCallId,
    /// Tool.
    pub tool: Arc<str>,
    /// Why the host asks.
    pub reason: Option<String>,
    /// Tool input.
    pub input: Value,
    /// Asked for a subagent of this session.
    pub subagent: bool,
    /// Options in the host's order.
    pub options: Vec<PermissionOption>,
}

/// A choice the host offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionOption {
    /// The host's option id.
    pub id: Arc<str>,
    /// Text for people.
    pub name: String,
    /// What choosing it does.
    pub decision: Decision,
    /// It also changes rules, so it counts for later calls too.
    pub lasting: bool,
    /// Kind as the host names it; diagnostic only.
    pub native_kind: Arc<str>,
}

/// What an option does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Runs the tool.
    Allow,
    /// Does not run it.
    Deny,
    /// Asks somebody else.
    Escalate,
    /// Runs something else.
    Modify,
}

/// The host asks the user something that is not a permission.
#[derive(Debug, Clone, PartialEq)]
pub struct InputAsk {
    /// The host's request id.
    pub id: AskId,
    /// Call it belongs to.
    pub call: Option<ToolCallId>,
    /// Interaction named by the host's schema; `plan_approval` for a plan.
    pub interaction: Option<Arc<str>>,
    /// Plan text of a plan approval.
    pub plan: Option<String>,
    /// Questions.
    pub questions: Vec<Question>,
}

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The question; also the key of its answer.
    pub question: String,
    /// Short heading.
    pub header: Option<String>,
    /// Choices.
    pub options: Vec<QuestionOption>,
    /// More than one may be chosen.
    pub multi: bool,
}

/// A choice of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QuestionOption {
    /// Value sent back.
    pub value: String,
    /// Text for people.
    pub label: String,
    /// Explanation.
    pub description: Option<String>,
}

/// Answer to an [`InputAsk`].
#[derive(Debug, Clone, PartialEq)]
pub enum InputAnswer {
    /// Answers by question text; several values for a multiple choice.
    Accept(Vec<(String, Vec<String>)>),
    /// The user does not want to.
    Decline,
    /// The turn is being stopped.
    Cancel,
}

/// The host wants provider headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadersAsk {
    /// The host's request id.
    pub id: AskId,
}

/// Something outside the contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// What it was: an event type, a kind, or the name of a missing field. Never a payload.
    pub what: String,
}

/// Ending of the host, seen from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExitSummary {
    /// Exit code.
    pub code: Option<i32>,
    /// Signal.
    pub signal: Option<i32>,
    /// Time since the spawn.
    pub uptime: Duration,
    /// Last request sent, by neutral name.
    pub last_request: Option<Arc<str>>,
    /// Last stderr line, redacted.
    pub stderr: Option<String>,
}
