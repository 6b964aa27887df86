//! What a scenario file says, as types. Field documentation here is the reference; `docs/simulator.md` is the guide.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml::Spanned;

/// A scenario, read and checked.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Version of the file format.
    pub(crate) format: Spanned<u32>,
    /// Name, as `--simulated=NAME` takes it.
    pub(crate) name: String,
    /// One sentence.
    pub(crate) description: String,
    #[serde(default)]
    pub(crate) host: HostSettings,
    #[serde(default)]
    pub(crate) session: SessionSettings,
    #[serde(default)]
    pub(crate) stream: StreamSettings,
    /// Steps of every turn.
    #[serde(default, rename = "step")]
    pub(crate) steps: Vec<Spanned<Step>>,
}

/// How the host and its workspaces behave. Counts only for the scenario the host was started with.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HostSettings {
    /// Somebody is signed in: there are models.
    pub(crate) signed_in: bool,
    /// Time before the ready line.
    pub(crate) ready_delay_ms: u64,
    /// The ready line comes at all.
    pub(crate) ready: bool,
    /// Time `createSession` takes.
    pub(crate) create_delay_ms: u64,
    /// Time `resumeSession` takes.
    pub(crate) resume_delay_ms: u64,
    /// Mode the workspace would use by itself.
    pub(crate) workspace_mode: String,
    /// Mode `createSession` answers, whatever was asked for.
    pub(crate) reply_mode: Option<String>,
    /// `setMode` is answered with `reply_mode` too.
    pub(crate) mode_locked: bool,
    /// A subscription gets its first snapshot.
    pub(crate) snapshot: bool,
    /// Time before that snapshot.
    pub(crate) snapshot_delay_ms: u64,
    /// Time until the history of a resumed session is complete.
    pub(crate) hydrate_ms: u64,
    /// Models, best first.
    pub(crate) models: Vec<ModelSetting>,
    /// Thought levels, the last is the default.
    pub(crate) thought_levels: Vec<String>,
}

impl Default for HostSettings {
    fn default() -> Self {
        let model = |model: &str, label: &str| ModelSetting {
            provider: "builtin:zai-coding-plan".into(),
            model: model.into(),
            variant: None,
            label: label.into(),
            context_window: 200_000,
            disabled: None,
        };
        Self {
            signed_in: true,
            ready_delay_ms: 0,
            ready: true,
            create_delay_ms: 0,
            resume_delay_ms: 0,
            workspace_mode: "build".into(),
            reply_mode: None,
            mode_locked: false,
            snapshot: true,
            snapshot_delay_ms: 0,
            hydrate_ms: 20,
            models: vec![model("glm-5", "GLM-5"), model("glm-5-air", "GLM-5 Air")],
            thought_levels: vec!["low".into(), "high".into(), "max".into()],
        }
    }
}

/// A model of the catalogue.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ModelSetting {
    pub(crate) provider: String,
    pub(crate) model: String,
    pub(crate) variant: Option<String>,
    pub(crate) label: String,
    #[serde(default = "default_window")]
    pub(crate) context_window: u64,
    /// Reason why it cannot be chosen.
    pub(crate) disabled: Option<String>,
}

fn default_window() -> u64 {
    200_000
}

/// How asks and stops behave during a turn of this scenario.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(clippy::struct_field_names, reason = "the keys of the file name their unit")]
pub(crate) struct SessionSettings {
    /// Time between two announcements of an unanswered ask.
    pub(crate) reannounce_ms: u64,
    /// Time after which a question answers itself.
    pub(crate) auto_resolve_ms: u64,
    /// Time between a stop and the end of the turn.
    pub(crate) stop_delay_ms: u64,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self { reannounce_ms: 1000, auto_resolve_ms: 300_000, stop_delay_ms: 30 }
    }
}

/// How text is cut up.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct StreamSettings {
    /// Characters a delta.
    pub(crate) chunk: usize,
    /// Time between two deltas.
    pub(crate) delay_ms: u64,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self { chunk: 24, delay_ms: 8 }
    }
}

/// One step of a turn. A step has exactly one key.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// Assistant text.
    Text(String),
    /// Assistant reasoning.
    Thought(String),
    /// Text with its own pace.
    Stream(Stream),
    /// Many text deltas, as fast as the reader takes them or at a steady pace.
    Flood(Flood),
    /// A text delta of this many bytes in one frame.
    Huge(u64),
    /// A tool call.
    Tool(Box<Tool>),
    /// A question to the user.
    Question(Question),
    /// A plan to be approved.
    Plan(Plan),
    /// The todo list, whole.
    Todos(Vec<Todo>),
    /// Session title.
    Title(String),
    /// Tokens of this turn.
    Usage(Usage),
    /// Waits.
    DelayMs(u64),
    /// The agent changes the mode.
    Mode(String),
    /// A model request is repeated after an upstream error.
    Retry(Retry),
    /// Provider headers are wanted.
    Headers(Headers),
    /// Repeats steps.
    Repeat(Repeat),
    /// Starts a background task that ends after the turn and starts one by itself.
    Background(Background),
    /// A dynamic event as it is.
    Emit(Value),
    /// A `session.event` of any type.
    Event(RawEvent),
    /// Leaves numbers out of the sequence.
    SeqGap(u64),
    /// Sends the last numbered event again, this many times.
    ResendLast(u32),
    /// A line of the wire that is not a frame.
    Line(RawLine),
    /// Lines on stderr.
    Stderr(StderrLines),
    /// The host process ends.
    Crash(Crash),
    /// Nothing more comes.
    Silence(Silence),
    /// The session is evicted when the turn is over.
    Evict(bool),
    /// Ends the turn with this result.
    End(String),
    /// Fails the turn with an error detail as ZCode sends it.
    Fail(Box<ErrorDetail>),
}

/// Text with its own pace.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Stream {
    pub(crate) text: String,
    /// Reasoning instead of text.
    #[serde(default)]
    pub(crate) thought: bool,
    pub(crate) chunk: Option<usize>,
    pub(crate) delay_ms: Option<u64>,
}

/// Many text deltas.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flood {
    pub(crate) text: String,
    pub(crate) count: u64,
    /// The first whole number in the prompt replaces `count`, the second `per_second`.
    #[serde(default)]
    pub(crate) count_from_prompt: bool,
    /// Pace, deltas a second; none means as fast as the reader takes them.
    pub(crate) per_second: Option<u64>,
    /// Every second delta is a thought, so that no two neighbours can be merged.
    #[serde(default)]
    pub(crate) alternate: bool,
}

/// A tool call.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Tool {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) input: Value,
    /// Where the input travels.
    #[serde(default)]
    pub(crate) input_via: InputVia,
    /// Text of the result.
    #[serde(default)]
    pub(crate) result: String,
    /// `false`: the tool ran and failed.
    #[serde(default = "yes")]
    pub(crate) success: bool,
    /// The call fails before it has a result.
    pub(crate) error: Option<String>,
    pub(crate) exit_code: Option<i64>,
    /// Structured presentation, as it is.
    pub(crate) display: Option<Value>,
    /// A file diff, of which the presentation is built.
    pub(crate) diff: Option<Diff>,
    #[serde(default)]
    pub(crate) truncated: bool,
    #[serde(default)]
    pub(crate) progress: Vec<Progress>,
    /// Time between start and result, beside the progress.
    #[serde(default)]
    pub(crate) run_ms: u64,
    pub(crate) ask: Option<Ask>,
    /// Steps before the result; tool calls among them are this call's children.
    #[serde(default)]
    pub(crate) inner: Vec<Spanned<Step>>,
    /// Steps after the result.
    #[serde(default)]
    pub(crate) allowed: Vec<Spanned<Step>>,
    /// Steps after a denial.
    #[serde(default)]
    pub(crate) denied: Vec<Spanned<Step>>,
}

fn yes() -> bool {
    true
}

/// Where a tool's input travels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum InputVia {
    /// On the model stream; the call itself only refers to it.
    #[default]
    Stream,
    /// On the call itself.
    Scheduled,
    /// Nowhere.
    Omitted,
}

/// Output of a running tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Progress {
    #[serde(default = "default_progress")]
    pub(crate) after_ms: u64,
    /// Tail of the output. It replaces the one before.
    pub(crate) tail: Option<String>,
    pub(crate) stderr: Option<String>,
    /// Bytes written so far; the length of the tail if absent.
    pub(crate) bytes: Option<u64>,
}

fn default_progress() -> u64 {
    50
}

/// A change of one file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Diff {
    pub(crate) path: String,
    pub(crate) hunks: Vec<Hunk>,
    #[serde(default)]
    pub(crate) truncated: bool,
}

/// A hunk; lines carry their prefix: space, `-` or `+`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hunk {
    #[serde(default = "one")]
    pub(crate) old_start: u64,
    #[serde(default = "one")]
    pub(crate) new_start: u64,
    pub(crate) lines: Vec<String>,
}

fn one() -> u64 {
    1
}

/// A permission.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ask {
    #[serde(default)]
    pub(crate) reason: String,
    #[serde(default)]
    pub(crate) risk: Risk,
    /// An "always" option is offered.
    #[serde(default = "yes")]
    pub(crate) always: bool,
    /// Options as they are, instead of the usual ones.
    pub(crate) options: Option<Value>,
    /// Asked even where the mode or a remembered rule would not.
    #[serde(default)]
    pub(crate) force: bool,
    /// Announcements at once.
    #[serde(default = "one")]
    pub(crate) announce: u64,
    /// Option id or decision the scenario counts on; another answer fails the turn.
    pub(crate) expect: Option<String>,
}

/// Risk of a permission.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Risk {
    Low,
    #[default]
    Medium,
    High,
    Critical,
}

/// A question.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Question {
    #[serde(default)]
    pub(crate) prompt: String,
    /// `schema.interaction`; absent for a question of the agent.
    pub(crate) interaction: Option<String>,
    pub(crate) questions: Vec<Questioned>,
    /// Action the scenario counts on; another one fails the turn.
    pub(crate) expect: Option<String>,
    /// Steps after an answer.
    #[serde(default)]
    pub(crate) answered: Vec<Spanned<Step>>,
    /// Steps after a refusal.
    #[serde(default)]
    pub(crate) declined: Vec<Spanned<Step>>,
}

/// One question of a question.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Questioned {
    pub(crate) question: String,
    #[serde(default)]
    pub(crate) header: String,
    #[serde(default)]
    pub(crate) options: Vec<Choice>,
    #[serde(default)]
    pub(crate) multi: bool,
}

/// A choice.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Choice {
    pub(crate) label: String,
    pub(crate) description: Option<String>,
}

/// A plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    /// Markdown.
    pub(crate) text: String,
    #[serde(default)]
    pub(crate) approved: Vec<Spanned<Step>>,
    #[serde(default)]
    pub(crate) rejected: Vec<Spanned<Step>>,
}

/// A todo.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Todo {
    pub(crate) content: String,
    pub(crate) status: TodoStatus,
    #[serde(default)]
    pub(crate) priority: Priority,
}

/// Progress of a todo.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

/// Priority of a todo.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Priority {
    High,
    #[default]
    Medium,
    Low,
}

/// Tokens.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Usage {
    pub(crate) input: u64,
    pub(crate) output: u64,
    #[serde(default)]
    pub(crate) reasoning: u64,
    #[serde(default)]
    pub(crate) cache_read: u64,
    #[serde(default)]
    pub(crate) cache_write: u64,
}

/// A repeated model request.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Retry {
    pub(crate) attempt: u64,
    #[serde(default = "eleven")]
    pub(crate) max: u64,
    pub(crate) delay_ms: u64,
    pub(crate) status: Option<u64>,
    pub(crate) error: String,
}

fn eleven() -> u64 {
    11
}

/// A wish for provider headers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Headers {
    pub(crate) reason: HeadersReason,
    #[serde(default = "headers_timeout")]
    pub(crate) timeout_ms: u64,
}

/// Why headers are wanted.
#[derive(Debug, Clone, Copy, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HeadersReason {
    ModelRequest,
    CaptchaRetry,
}

fn headers_timeout() -> u64 {
    180_000
}

/// Repeated steps.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Repeat {
    pub(crate) times: u64,
    pub(crate) steps: Vec<Spanned<Step>>,
}

/// A background task.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Background {
    #[serde(default)]
    pub(crate) description: String,
    /// Command of the task.
    #[serde(default)]
    pub(crate) command: String,
    /// Time from the end of the turn to the end of the task.
    pub(crate) after_ms: u64,
    /// Steps of the turn that follows.
    pub(crate) steps: Vec<Spanned<Step>>,
}

/// A `session.event` of any type.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawEvent {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) payload: Option<Value>,
    /// Added to the number the event would have; the sequence itself does not move.
    pub(crate) seq_offset: Option<i64>,
    /// Members to leave out of the event.
    #[serde(default)]
    pub(crate) without: Vec<String>,
}

/// A line that is not a frame.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawLine {
    pub(crate) text: String,
    /// The line starts with the nonce, so it claims to be a frame.
    #[serde(default)]
    pub(crate) nonce: bool,
    #[serde(default = "one")]
    pub(crate) times: u64,
}

/// Lines on stderr.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StderrLines {
    pub(crate) text: String,
    #[serde(default = "one")]
    pub(crate) times: u64,
}

/// The end of the host process.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Crash {
    pub(crate) code: i32,
    /// The bridge outlives its worker and says so before it ends.
    #[serde(default)]
    pub(crate) announced: bool,
}

/// What falls silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Silence {
    /// The turn: it goes on for ever, and can be stopped.
    Turn,
    /// The whole host: no line comes any more, not even an answer.
    Host,
}

/// An error as ZCode sends it.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[expect(clippy::struct_field_names, reason = "the keys are ZCode's own")]
pub(crate) struct ErrorDetail {
    #[serde(rename = "type", default = "unknown_error")]
    pub(crate) kind: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) code: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) underlying_error_message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) underlying_error_detail: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) attribution: Option<Attribution>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retryable: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) data: Option<Value>,
}

fn unknown_error() -> String {
    "UNKNOWN_ERROR".into()
}

impl ErrorDetail {
    /// An error with nothing but a message.
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self {
            kind: unknown_error(),
            message: message.into(),
            code: None,
            detail: None,
            underlying_error_message: None,
            underlying_error_detail: None,
            attribution: None,
            retryable: None,
            data: None,
        }
    }
}

/// Where an error comes from.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct Attribution {
    /// `provider`, `runtime`, `tool` or `network`.
    pub(crate) source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error_phase: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) exception_kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status_code: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) provider_error_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retryable: Option<bool>,
}
