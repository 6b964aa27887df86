//! The client's side of the port: what a session shows and asks, in neutral words.

use std::path::PathBuf;
use std::sync::Arc;

use diag_model::{Failure, SessionId, ToolCallId};
use futures::future::BoxFuture;
use serde_json::Value;

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
}

impl Update {
    /// What it costs in the outbox: the text it carries plus a constant for its envelope, bytes.
    pub fn weight(&self) -> usize {
        const ENVELOPE: usize = 256;
        ENVELOPE
            + match self {
                Update::AgentText { text, .. } | Update::AgentThought { text, .. } => text.len(),
                Update::ToolCall(view) => view.patch().weight(),
                Update::ToolUpdate(patch) => patch.weight(),
                Update::Title(title) => title.len(),
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
        }
    }

    fn weight(&self) -> usize {
        let content = self.content.iter().flatten().map(|content| match content {
            ToolContent::Text(text) | ToolContent::Fenced(text) => text.len(),
            ToolContent::Diff { old, new, .. } => old.as_ref().map_or(0, String::len) + new.len(),
        });
        let raw = [&self.raw_input, &self.raw_output].into_iter().flatten().map(value_weight);
        self.title.as_ref().map_or(0, String::len) + content.sum::<usize>() + raw.sum::<usize>()
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
