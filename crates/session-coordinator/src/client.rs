//! The client's side of the port: what a session shows and asks, in neutral words.

use std::path::PathBuf;
use std::sync::Arc;

use diag_model::{Failure, SessionId, ToolCallId};
use futures::future::BoxFuture;
use serde_json::Value;
use zcode_runtime::model::{ContextUsage, Question, SlashCommand, Todo};

/// The connection to the client. Implemented once by `acp-server`, and by recorders in tests.
///
/// Order is the contract: what is handed over first is written first, updates, requests and answers alike. No method
/// blocks.
pub trait ClientPort: Send + Sync + 'static {
    /// Queues an update of a session.
    fn update(&self, session: &SessionId, update: Update);

    /// Queues a permission request and returns its answer. Dropping the future withdraws the request
    /// (`$/cancel_request`).
    fn ask_permission(
        &self,
        session: &SessionId,
        prompt: PermissionPrompt,
    ) -> BoxFuture<'static, PermissionAnswer>;

    /// Queues a form and returns its answer. Only for clients with [`ClientProfile::forms`]. Dropping the future
    /// withdraws it.
    fn ask_form(&self, session: &SessionId, form: FormPrompt) -> BoxFuture<'static, FormAnswer>;

    /// Bytes handed over and not yet written to the client.
    fn in_flight(&self) -> usize;

    /// Resolves when [`ClientPort::in_flight`] is at most `bytes`.
    fn room(&self, bytes: usize) -> BoxFuture<'static, ()>;
}

/// The client's answer to a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PermissionAnswer {
    /// An option id, not yet checked against the ones offered.
    Selected(String),
    /// The client withdrew.
    Cancelled,
    /// Error answer, malformed answer, or the connection ended.
    Failed,
}

/// A permission request for the client.
#[derive(Debug, Clone, PartialEq)]
pub struct PermissionPrompt {
    /// The call in question, with everything a person needs to judge it.
    pub call: ToolPatch,
    /// Options in the host's order.
    pub options: Vec<PermissionChoice>,
}

/// One option of a permission request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PermissionChoice {
    /// The host's option id.
    pub id: Arc<str>,
    /// Text for people; an "always" option says its scope as ZCode defines it.
    pub name: String,
    /// Kind.
    pub kind: ChoiceKind,
    /// The host's own kind, diagnostic.
    pub native_kind: Arc<str>,
}

/// Kind of a permission option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChoiceKind {
    /// Runs it this time.
    AllowOnce,
    /// Runs it and later ones.
    AllowAlways,
    /// Does not run it.
    RejectOnce,
    /// Does not run it or later ones.
    RejectAlways,
}

/// An update of a session.
#[derive(Debug, Clone, PartialEq)]
pub enum Update {
    /// Assistant text, to append.
    AgentText {
        /// Message id.
        message: Option<Arc<str>>,
        /// Text.
        text: String,
    },
    /// Assistant reasoning, to append.
    AgentThought {
        /// Message id.
        message: Option<Arc<str>>,
        /// Text.
        text: String,
    },
    /// A new tool call.
    ToolCall(ToolView),
    /// A change of a tool call.
    ToolUpdate(ToolPatch),
    /// Title.
    Title(Arc<str>),
    /// Text of the user, on replay only: clients show what is typed live by themselves.
    UserText {
        /// Message id.
        message: Option<Arc<str>>,
        /// Text.
        text: String,
    },
    /// A file, image or sound of the user, on replay only.
    UserMedia {
        /// Message id.
        message: Option<Arc<str>>,
        /// MIME type.
        mime: String,
        /// Base64.
        data: Arc<str>,
    },
    /// Permission mode in force.
    Mode(Arc<str>),
    /// Configuration, whole.
    Options(Vec<ConfigOption>),
    /// Todo list, whole; empty means there is none any more.
    Plan(Vec<Todo>),
    /// A plan to be approved, for clients that know plans of text.
    Proposal {
        /// Plan id.
        id: String,
        /// Markdown.
        text: String,
    },
    /// A plan is no longer proposed.
    ProposalGone {
        /// Plan id.
        id: String,
    },
    /// Slash commands, whole.
    Commands(Vec<SlashCommand>),
    /// Context occupancy.
    Usage(ContextUsage),
    /// A remark that is not part of the conversation; sent only to clients that know notices.
    Notice {
        /// How serious.
        severity: Severity,
        /// One line.
        title: String,
        /// More, if any.
        text: Option<String>,
    },
    /// The conversation is being compacted; sent only to clients that know compaction.
    Compaction {
        /// Compaction id.
        id: Arc<str>,
        /// Where it is.
        status: CompactionStatus,
    },
}

/// How serious a notice is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Good to know.
    Info,
    /// Something is slower or less than wished.
    Warning,
    /// Something did not work.
    Error,
}

/// Where a compaction is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CompactionStatus {
    /// Running.
    InProgress,
    /// Done.
    Completed,
    /// Failed.
    Failed(String),
}

/// What the client said it can do, as far as a session behaves differently for it. All false until it said so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientProfile {
    /// Forms (`elicitation.form`).
    pub forms: bool,
    /// Plans of text (`plan`).
    pub plans: bool,
    /// Notices (`session.notices`).
    pub notices: bool,
    /// Compaction (`session.compaction`).
    pub compaction: bool,
    /// Terminal stream in `_meta` (`_meta.terminal_output`).
    pub terminal_output: bool,
}

/// A configuration option with one choice in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigOption {
    /// Which.
    pub id: ConfigId,
    /// Value in force; always one of the choices.
    pub current: Arc<str>,
    /// Choices by group; a single group without a name is a flat list.
    pub groups: Vec<ConfigGroup>,
}

/// The options there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ConfigId {
    /// Permission mode.
    Mode,
    /// Model.
    Model,
    /// Thought level.
    Thought,
}

impl ConfigId {
    /// The id on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            ConfigId::Mode => "mode",
            ConfigId::Model => "model",
            ConfigId::Thought => "thought_level",
        }
    }
}

/// Choices that belong together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigGroup {
    /// Id and name; none for a flat list.
    pub name: Option<(Arc<str>, Arc<str>)>,
    /// Choices.
    pub choices: Vec<ConfigChoice>,
}

/// One choice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChoice {
    /// Value.
    pub value: Arc<str>,
    /// Name for people.
    pub name: Arc<str>,
    /// One sentence.
    pub description: Option<Arc<str>>,
}

/// A form for the client: one required field per question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPrompt {
    /// What it is about, one line.
    pub message: String,
    /// Call it belongs to.
    pub call: Option<ToolCallId>,
    /// Questions, in order.
    pub questions: Vec<Question>,
}

/// The client's answer to a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormAnswer {
    /// Values by question, in the order of the questions, each checked to be of the right shape.
    Accepted(Vec<Vec<String>>),
    /// The user does not want to.
    Declined,
    /// The user closed it, or the client withdrew.
    Cancelled,
    /// Error answer, malformed answer, or the connection ended.
    Failed,
}

impl Update {
    /// What it costs in the outbox: the text it carries plus a constant for its envelope, bytes.
    pub fn weight(&self) -> usize {
        const ENVELOPE: usize = 256;
        ENVELOPE
            + match self {
                Update::AgentText { text, .. }
                | Update::AgentThought { text, .. }
                | Update::UserText { text, .. }
                | Update::Proposal { text, .. } => text.len(),
                Update::ToolCall(view) => view.patch().weight(),
                Update::ToolUpdate(patch) => patch.weight(),
                Update::Title(title) => title.len(),
                Update::UserMedia { data, .. } => data.len(),
                Update::Options(options) => options
                    .iter()
                    .flat_map(|option| &option.groups)
                    .map(|group| group.choices.len() * 128)
                    .sum(),
                Update::Plan(todos) => todos.iter().map(|todo| todo.content.len() + 64).sum(),
                Update::Commands(commands) => {
                    commands.iter().map(|command| command.name.len() + command.description.len() + 64).sum()
                }
                Update::Notice { title, text, .. } => title.len() + text.as_ref().map_or(0, String::len),
                Update::Mode(_)
                | Update::ProposalGone { .. }
                | Update::Usage(_)
                | Update::Compaction { .. } => 0,
            }
    }
}

/// A tool call as people see it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolView(ToolPatch);

impl ToolView {
    /// A first sight. `patch` must have a title.
    pub fn new(patch: ToolPatch) -> Self {
        debug_assert!(patch.title.is_some(), "a new tool call has a title");
        Self(patch)
    }

    /// Its fields.
    pub fn patch(&self) -> &ToolPatch {
        &self.0
    }

    /// Its fields, owned.
    pub fn into_patch(self) -> ToolPatch {
        self.0
    }
}

/// Fields of a tool call; `None` leaves a field as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolPatch {
    /// Call.
    pub call: ToolCallId,
    /// Whole title, workspace-relative.
    pub title: Option<String>,
    /// ZCode's tool name.
    pub tool: Option<Arc<str>>,
    /// Kind.
    pub kind: Option<ToolKind>,
    /// Status.
    pub status: Option<ToolStatus>,
    /// Content, replacing.
    pub content: Option<Vec<ToolContent>>,
    /// Locations, replacing.
    pub locations: Option<Vec<Location>>,
    /// Input as it was.
    pub raw_input: Option<Value>,
    /// Output as it was, bounded.
    pub raw_output: Option<Value>,
    /// Call of the agent that made this one.
    pub parent: Option<ToolCallId>,
    /// Subagent.
    pub agent: Option<Arc<str>>,
    /// Piece of the terminal stream.
    pub terminal: Option<TerminalPiece>,
}

impl ToolPatch {
    /// An empty change of a call.
    pub fn new(call: ToolCallId) -> Self {
        Self {
            call,
            title: None,
            tool: None,
            kind: None,
            status: None,
            content: None,
            locations: None,
            raw_input: None,
            raw_output: None,
            parent: None,
            agent: None,
            terminal: None,
        }
    }

    fn weight(&self) -> usize {
        let content = self.content.iter().flatten().map(|content| match content {
            ToolContent::Text(text) | ToolContent::Fenced(text) => text.len(),
            ToolContent::Diff { old, new, .. } => old.as_ref().map_or(0, String::len) + new.len(),
            ToolContent::Image { data, .. } => data.len(),
            ToolContent::Terminal => 0,
        });
        let raw = [&self.raw_input, &self.raw_output].into_iter().flatten().map(value_weight);
        let output = self.terminal.iter().filter_map(|piece| piece.output.as_ref()).map(String::len);
        self.title.as_ref().map_or(0, String::len)
            + output.sum::<usize>()
            + content.sum::<usize>()
            + raw.sum::<usize>()
    }
}

fn value_weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() + 2,
        Value::Array(items) => items.iter().map(value_weight).sum::<usize>() + 2,
        Value::Object(members) => {
            members.iter().map(|(key, value)| key.len() + 4 + value_weight(value)).sum::<usize>() + 2
        }
        _ => 8,
    }
}

/// Kind of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// Reads a file.
    Read,
    /// Changes a file.
    Edit,
    /// Searches.
    Search,
    /// Runs a command.
    Execute,
    /// Thinks or delegates.
    Think,
    /// Fetches from elsewhere.
    Fetch,
    /// Changes the mode.
    SwitchMode,
    /// Anything else.
    Other,
}

/// Status of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolStatus {
    /// Not begun.
    Pending,
    /// Running.
    InProgress,
    /// Done.
    Completed,
    /// Failed or not run.
    Failed,
}

/// Content of a tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolContent {
    /// Markdown.
    Text(String),
    /// Raw output, shown in a fence so that a `#` never becomes a heading.
    Fenced(String),
    /// Change of a file.
    Diff {
        /// Absolute path.
        path: PathBuf,
        /// Old text; none for a new file.
        old: Option<String>,
        /// New text.
        new: String,
    },
    /// Image, base64.
    Image {
        /// MIME type.
        mime: String,
        /// Base64.
        data: Arc<str>,
    },
    /// The terminal stream of this call; only for clients with [`ClientProfile::terminal_output`].
    Terminal,
}

/// A piece of a call's terminal stream, for clients with [`ClientProfile::terminal_output`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TerminalPiece {
    /// Working directory; said once, with the first sight of the call.
    pub cwd: Option<PathBuf>,
    /// Output to append.
    pub output: Option<String>,
    /// The command has ended.
    pub exit: Option<TerminalExit>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalExit {
    /// Exit code, when known.
    pub code: Option<i64>,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// Absolute path.
    pub path: PathBuf,
    /// Line, 1-based.
    pub line: Option<u32>,
}

/// Why a prompt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// Finished.
    EndTurn,
    /// Token limit.
    MaxTokens,
    /// Request, turn or tool limit.
    MaxTurnRequests,
    /// The model declined.
    Refusal,
    /// Cancelled.
    Cancelled,
}

/// The duty to answer one request, exactly once.
///
/// Dropping it unanswered is a defect: a panic where debug assertions are on, an internal-error answer otherwise.
#[must_use = "a request must be answered"]
pub struct Reply<T>(Option<Answerer<T>>);

type Answerer<T> = Box<dyn FnOnce(Result<T, Failure>) + Send>;

impl<T> Reply<T> {
    /// Wraps the way to answer.
    pub fn new(answer: impl FnOnce(Result<T, Failure>) + Send + 'static) -> Self {
        Self(Some(Box::new(answer)))
    }

    /// Answers.
    pub fn send(mut self, result: Result<T, Failure>) {
        if let Some(answer) = self.0.take() {
            answer(result);
        }
    }
}

impl<T> Drop for Reply<T> {
    fn drop(&mut self) {
        if let Some(answer) = self.0.take() {
            answer(Err(Failure::new(diag_model::ErrorCode::Internal)
                .cause("a request was dropped without an answer")));
            debug_assert!(std::thread::panicking(), "a request was dropped without an answer");
        }
    }
}

impl<T> std::fmt::Debug for Reply<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reply")
    }
}
