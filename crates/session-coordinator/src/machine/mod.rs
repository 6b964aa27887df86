//! Pure state machines: a session is a value that is told inputs and yields effects.
//!
//! [`Session::step`] never waits, reads no clock and knows no runtime; the actor carries its effects out and tells it
//! the results. Time comes in as an argument, and [`Session::deadline`] says when the machine wants to be asked next,
//! so there are no timers that could leak. Duties to answer ([`Reply`]) are moved in and out as values.
//!
//! Deliberately absent: channels, host handles, ACP.

pub(crate) mod config;
mod ended;
mod facts;
pub(crate) mod interaction;
pub(crate) mod mode;
mod question;
mod ring;
mod sequence;
mod session;
mod slash;
mod terminal;
pub(crate) mod tool;
mod turn;
pub(crate) mod workspace;

use std::sync::Arc;

use diag_model::{AskId, Failure, InputId, SessionId};
use zcode_runtime::model::{
    CallError, CompactOutcome, GoalOutcome, HistoryMessage, HostEvent, InputAnswer, OpenedSession,
    PromptInput, SessionFacts, Snapshot,
};

use self::config::Setting;
use crate::client::{
    ConfigId, FormAnswer, FormPrompt, PermissionAnswer, PermissionPrompt, Reply, StopReason, Update,
};
use crate::coordinator::Prompt;
use crate::setup::SessionSetup;

pub(crate) use session::{Origin, Session, Setup};

/// What happens to a session.
#[derive(Debug)]
pub(crate) enum Input {
    /// The client submits a prompt.
    Prompt {
        /// Id that will tie the turn to it.
        input: InputId,
        /// What to send.
        prompt: Prompt,
        /// Duty to answer.
        reply: Reply<StopReason>,
        /// The connection has room for one more turn.
        slot: bool,
        /// It was cancelled before the session saw it.
        withdrawn: bool,
    },
    /// The client cancels.
    Cancel,
    /// The client closes the session.
    Close {
        /// Duty to answer.
        reply: Reply<()>,
    },
    /// The client sets an option.
    Set {
        /// Which.
        option: ConfigId,
        /// To what.
        value: String,
        /// Duty to answer.
        reply: Reply<SessionSetup>,
    },
    /// The client opens the session again that is open already.
    Reopen {
        /// Its history is wanted too.
        history: bool,
        /// Duty to answer.
        reply: Reply<SessionSetup>,
    },
    /// The client answered a form.
    FormAnswer {
        /// Which ask.
        ask: AskId,
        /// How.
        answer: FormAnswer,
    },
    /// The client answered a permission request.
    PermissionAnswer {
        /// Which.
        ask: AskId,
        /// How.
        answer: PermissionAnswer,
    },
    /// The client does not read and the outbox is full.
    ClientStalled,
    /// The client withdrew its request for this session.
    OpenWithdrawn,
    /// The agent ends.
    Shutdown,
    /// Result of [`Call::Create`].
    Created(Result<OpenedSession, CallError>),
    /// Result of [`Call::Resume`].
    Resumed(Result<OpenedSession, CallError>),
    /// Result of [`Call::Count`].
    Counted(Result<Option<u64>, CallError>),
    /// Result of [`Call::History`].
    History(Result<Vec<HistoryMessage>, CallError>),
    /// Result of [`Call::Set`].
    WasSet(Result<SessionFacts, CallError>),
    /// Result of [`Call::Compact`].
    Compacted {
        /// Which prompt.
        input: InputId,
        /// What the host says.
        result: Result<CompactOutcome, CallError>,
    },
    /// Result of [`Call::Goal`].
    GoalDone {
        /// Which prompt.
        input: InputId,
        /// What the host says.
        result: Result<GoalOutcome, CallError>,
    },
    /// Result of [`Call::SetMode`].
    ModeSet(Result<SessionFacts, CallError>),
    /// Result of [`Call::Subscribe`].
    Subscribed(Result<Snapshot, CallError>),
    /// The host says something.
    Event(HostEvent),
    /// Result of [`Call::Send`].
    Sent {
        /// Which prompt.
        input: InputId,
        /// Taken, refused or unknown.
        result: Result<(), CallError>,
    },
    /// Result of [`Call::Stop`].
    Stopped {
        /// Number of the stop.
        stop: u64,
        /// Taken or not.
        result: Result<(), CallError>,
    },
    /// Result of [`Call::Probe`].
    Probed {
        /// Number of the probe.
        probe: u64,
        /// Whether a turn runs.
        result: Result<bool, CallError>,
    },
    /// Result of any answer to an ask.
    AskAnswered {
        /// Which.
        ask: AskId,
        /// `false`: it was already gone.
        result: Result<bool, CallError>,
    },
    /// Result of [`Call::Close`].
    Closed(Result<(), CallError>),
    /// A deadline has passed.
    Tick,
}

/// What a session wants done, in this order.
#[derive(Debug)]
pub(crate) enum Effect {
    /// A host call; its result comes back as an input.
    Call(Call),
    /// Shows something.
    Update(Update),
    /// Asks the client.
    Ask {
        /// Which.
        ask: AskId,
        /// What.
        prompt: PermissionPrompt,
    },
    /// Asks the client with a form.
    AskForm {
        /// Which.
        ask: AskId,
        /// What.
        form: FormPrompt,
    },
    /// Withdraws a question from the client.
    Withdraw {
        /// Which.
        ask: AskId,
    },
    /// Registers the session and answers the request that created it.
    Introduce {
        /// Duty to answer.
        reply: Reply<SessionSetup>,
        /// The answer.
        answer: SessionSetup,
    },
    /// Refuses the request for this session.
    Refuse {
        /// Duty to answer.
        reply: Reply<SessionSetup>,
        /// Why.
        failure: Failure,
    },
    /// Answers a request about an open session's configuration.
    AnswerSetup {
        /// Duty to answer.
        reply: Reply<SessionSetup>,
        /// The answer.
        result: Result<SessionSetup, Failure>,
    },
    /// Answers a prompt.
    AnswerPrompt {
        /// Duty to answer.
        reply: Reply<StopReason>,
        /// The answer.
        result: Result<StopReason, Failure>,
    },
    /// Answers a close.
    AnswerClose {
        /// Duty to answer.
        reply: Reply<()>,
        /// The answer.
        result: Result<(), Failure>,
    },
}

/// A host call about one session.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Call {
    /// Creates the session.
    Create {
        /// In this mode.
        mode: Arc<str>,
    },
    /// Opens the stored session, or opens again one that the host has put aside.
    Resume {
        /// Which.
        session: SessionId,
    },
    /// Counts the messages of the history.
    Count,
    /// Reads a page of the history.
    History {
        /// Behind this message.
        after: Option<Arc<str>>,
    },
    /// Sets an option.
    Set(Setting),
    /// Compacts the conversation.
    Compact {
        /// The prompt that wants it.
        input: InputId,
        /// What to keep in mind.
        instructions: Option<String>,
    },
    /// Shows or changes the goal.
    Goal {
        /// The prompt that wants it.
        input: InputId,
        /// What to do.
        action: &'static str,
        /// The goal.
        objective: Option<String>,
    },
    /// Sets the mode before the session is introduced.
    SetMode {
        /// To this one.
        mode: Arc<str>,
    },
    /// Opens the event stream.
    Subscribe,
    /// Sends a prompt.
    Send(PromptInput),
    /// Stops generation.
    Stop {
        /// Number, to match the result.
        stop: u64,
    },
    /// Reads whether a turn runs.
    Probe {
        /// Number, to match the result.
        probe: u64,
    },
    /// Answers a permission.
    AnswerPermission {
        /// Which.
        ask: AskId,
        /// One of the offered options.
        option: Arc<str>,
    },
    /// Answers a question.
    AnswerInput {
        /// Which.
        ask: AskId,
        /// How.
        answer: InputAnswer,
    },
    /// Refuses provider headers.
    RefuseHeaders {
        /// Which.
        ask: AskId,
    },
    /// Closes the session.
    Close,
}

/// Why a session is closed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CloseCause {
    /// It was never open: creating failed or was withdrawn.
    NotOpened,
    /// The client closed it.
    Client,
    /// The host closed it, or was lost.
    Failed(Failure),
    /// The agent ends.
    Shutdown,
}
