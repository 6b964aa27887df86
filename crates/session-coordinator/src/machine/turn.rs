//! What is known of one native turn.

use std::sync::Arc;
use std::time::{Duration, Instant};

use diag_model::{Detail, ErrorCode, Failure, InputId};
use zcode_runtime::model::TurnResult;

use super::Call;
use crate::client::{Reply, StopReason};

/// How long the terminal event may stay away after a hint of it, before the host is asked.
pub(crate) const PROBE_AFTER: Duration = Duration::from_secs(5);
/// Answers overtake events on their way here, so a terminal may still follow when the host says "not running".
pub(crate) const PROBE_GRACE: Duration = Duration::from_millis(500);
/// How long a prompt's answer waits for the host to confirm the answers given to its asks.
pub(crate) const CONFIRM_WITHIN: Duration = Duration::from_secs(1);

/// What a turn is doing, derived from what is known of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The event stream is being opened.
    Subscribing,
    /// The prompt is on its way and not accepted.
    Sending,
    /// Accepted.
    Running,
    /// The client is asked for a permission.
    AwaitingPermission,
    /// An answer to an ask is on its way to the host.
    AwaitingInput,
    /// The client has cancelled.
    Cancelling,
    /// The terminal event has come; the answer waits for its asks.
    Completing,
}

impl Phase {
    /// Name for the log.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Phase::Subscribing => "subscribing",
            Phase::Sending => "sending",
            Phase::Running => "running",
            Phase::AwaitingPermission => "awaiting_permission",
            Phase::AwaitingInput => "awaiting_input",
            Phase::Cancelling => "cancelling",
            Phase::Completing => "completing",
        }
    }
}

/// Stopping the generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Nobody wants it.
    No,
    /// Wanted, but the prompt is not accepted yet.
    Wanted,
    /// Sent, by number.
    Sent(u64),
    /// The host did not take it; a further cancel may try again.
    Failed,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The host said how.
    Ended(TurnResult),
    /// The host says that nothing runs and has not said how it ended.
    Vanished,
}

/// Asking the host whether the turn still runs.
#[derive(Debug, Default)]
pub(crate) struct Probe {
    /// When to ask.
    pub(crate) at: Option<Instant>,
    /// Number of the question under way.
    pub(crate) asked: Option<u64>,
    /// The host said no: when to believe it.
    pub(crate) believe_at: Option<Instant>,
}

impl Probe {
    /// Asks at `at` unless that is already planned or under way.
    pub(crate) fn plan(&mut self, at: Instant) {
        if self.at.is_none() && self.asked.is_none() && self.believe_at.is_none() {
            self.at = Some(at);
        }
    }
}

/// A native turn of somebody else, by id if the host names one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Foreign(pub(crate) Option<Arc<str>>);

/// One native turn: of a prompt while `reply` is there, otherwise host-started or already answered.
#[derive(Debug)]
pub(crate) struct Turn {
    /// The prompt's id.
    pub(crate) input: Option<InputId>,
    /// Duty to answer the prompt.
    pub(crate) reply: Option<Reply<StopReason>>,
    /// The host's id of the turn.
    pub(crate) id: Option<Arc<str>>,
    /// The host has taken the prompt.
    pub(crate) accepted: bool,
    /// The host has said that the turn began.
    pub(crate) started: bool,
    /// The client has cancelled; when its prompt is answered without the host.
    pub(crate) cancelled: Option<Instant>,
    /// Stopping.
    pub(crate) stop: Stop,
    /// An ending that weighs more than the host's own.
    pub(crate) verdict: Option<Failure>,
    /// The terminal event, and until when its answer waits.
    pub(crate) ended: Option<(Outcome, Instant)>,
    /// Asking whether it still runs.
    pub(crate) probe: Probe,
    /// Another native turn that runs in between.
    pub(crate) foreign: Option<Foreign>,
    /// The call that carries the prompt, until it is known to be taken; of a command for ever.
    pub(crate) call: Option<Call>,
    /// A command: it ends with the answer of its call and not with an event.
    pub(crate) command: bool,
    /// The session was put aside by the host and resumed for it.
    pub(crate) healed: bool,
}

impl Turn {
    /// A prompt's turn, about to be sent.
    pub(crate) fn of_prompt(input: InputId, reply: Reply<StopReason>, call: Call) -> Self {
        Self { input: Some(input), reply: Some(reply), call: Some(call), ..Self::of_host(None) }.unaccepted()
    }

    /// A turn the host started by itself.
    pub(crate) fn of_host(id: Option<Arc<str>>) -> Self {
        Self {
            input: None,
            reply: None,
            id,
            accepted: true,
            started: true,
            cancelled: None,
            stop: Stop::No,
            verdict: None,
            ended: None,
            probe: Probe::default(),
            foreign: None,
            call: None,
            command: false,
            healed: false,
        }
    }

    /// A command's turn: the host takes it with its call.
    pub(crate) fn of_command(input: InputId, reply: Reply<StopReason>, call: Call) -> Self {
        Self {
            input: Some(input),
            reply: Some(reply),
            call: Some(call),
            command: true,
            started: false,
            ..Self::of_host(None)
        }
    }

    fn unaccepted(mut self) -> Self {
        (self.accepted, self.started) = (false, false);
        self
    }

    /// The host has begun it.
    pub(crate) fn begin(&mut self, id: Option<Arc<str>>) {
        if self.foreign.as_ref().is_some_and(|foreign| foreign.0 == id) {
            self.foreign = None;
        }
        self.id = id.or_else(|| self.id.take());
        (self.accepted, self.started) = (true, true);
        if !self.command {
            self.call = None;
        }
    }

    /// Whether an event that names this turn and this input is about it.
    pub(crate) fn is(&self, id: Option<&Arc<str>>, input: Option<&InputId>) -> bool {
        if input.is_some() && input == self.input.as_ref() || id.is_some() && id == self.id.as_ref() {
            return true;
        }
        id.is_none() && input.is_none() && self.started && self.foreign.is_none()
    }

    /// What the prompt is answered.
    pub(crate) fn answer(&self) -> Result<StopReason, Failure> {
        if self.cancelled.is_some() {
            return Ok(StopReason::Cancelled);
        }
        if let Some(failure) = &self.verdict {
            return Err(failure.clone());
        }
        match self.ended.as_ref().map(|(outcome, _)| outcome) {
            Some(Outcome::Ended(result)) => match result {
                TurnResult::EndTurn => Ok(StopReason::EndTurn),
                TurnResult::MaxTokens => Ok(StopReason::MaxTokens),
                TurnResult::MaxTurnRequests => Ok(StopReason::MaxTurnRequests),
                TurnResult::Refusal => Ok(StopReason::Refusal),
                TurnResult::Cancelled => Ok(StopReason::Cancelled),
                TurnResult::Error(failure) => Err(failure.clone()),
            },
            Some(Outcome::Vanished) | None => Err(Failure::new(ErrorCode::StreamLost)
                .cause("ZCode no longer runs the turn and did not say how it ended")
                .with(Detail::Operation, "turn")),
        }
    }

    /// The earliest moment it wants to be asked again.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let answer_by = self.cancelled.filter(|_| self.reply.is_some());
        let confirm = self.ended.as_ref().map(|(_, until)| *until);
        [answer_by, confirm, self.probe.at, self.probe.believe_at].into_iter().flatten().min()
    }
}
