//! A session as a value.
//!
//! This file holds the state, the dispatch and the deadlines; its parts are opening (`opening`), prompts and the ends
//! of turns (`prompting`), what the host says (`events`), its questions (`asks`) and the end of the session
//! (`closing`).

mod asks;
mod closing;
mod events;
mod opening;
mod prompting;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diag_model::{Failure, InputId, SessionId};
use zcode_runtime::model::HostProfile;

use super::interaction::Asks;
use super::ring::Ring;
use super::sequence::Sequence;
use super::tool::Tools;
use super::turn::{Phase, Stop, Turn};
use super::{Call, CloseCause, Effect, Input};
use crate::client::{Reply, StopReason, Update};
use crate::coordinator::Prompt;
use crate::presentation::Presenter;
use crate::setup::SessionSetup;

/// How long a prompt waits for a turn that is not its own to end.
pub(crate) const HOLD: Duration = Duration::from_secs(30);
/// How long facts about a session are held back after a cancelled answer.
pub(crate) const FENCE: Duration = Duration::from_millis(2500);
/// How long the host may take to confirm a close before the session counts as closed anyway.
pub(crate) const CLOSE_WITHIN: Duration = Duration::from_secs(5);
/// Turns and prompts that are over and still remembered.
const REMEMBERED: usize = 32;

/// What a new session is made from.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Canonical workspace path.
    pub(crate) workspace: PathBuf,
    /// What is known of the host.
    pub(crate) profile: Arc<HostProfile>,
    /// Mode to create it in, chosen by [`super::mode::choose`].
    pub(crate) mode: Arc<str>,
    /// Limit of waiting for a permission.
    pub(crate) permission_timeout: Option<Duration>,
    /// Duty to answer the request.
    pub(crate) reply: Reply<SessionSetup>,
}

#[derive(Debug)]
enum State {
    /// Being created; belongs to no client yet.
    Opening(Opening),
    /// Nothing runs.
    Idle,
    /// A turn the host started by itself runs.
    Background(Turn),
    /// A prompt's turn runs.
    Running(Turn),
    /// The prompt is answered, its native turn not known to be over.
    Settling(Turn),
    /// Being closed.
    Closing(Closing),
    /// Over.
    Closed(CloseCause),
}

#[derive(Debug)]
struct Opening {
    reply: Option<Reply<SessionSetup>>,
    asked: Arc<str>,
    set_back: bool,
    mode: Option<Arc<str>>,
}

#[derive(Debug)]
struct Closing {
    replies: Vec<Reply<()>>,
    cause: CloseCause,
    until: Instant,
}

/// A prompt that waits, unsent, for a turn that is not its own.
#[derive(Debug)]
struct Held {
    input: InputId,
    prompt: Prompt,
    reply: Reply<StopReason>,
    until: Instant,
}

/// The title as known and as shown.
#[derive(Debug, Default)]
struct Title {
    shown: Option<Arc<str>>,
    held: Option<Arc<str>>,
    fallback: Option<Arc<str>>,
}

/// A session. The actor that owns it carries out its effects.
#[derive(Debug)]
pub(crate) struct Session {
    id: Option<SessionId>,
    profile: Arc<HostProfile>,
    permission_timeout: Option<Duration>,
    now: Instant,
    state: State,
    sequence: Sequence,
    asks: Asks,
    tools: Tools,
    held: Option<Held>,
    fence: Option<Instant>,
    title: Title,
    /// Native turns whose content is not shown any more.
    muted: Ring<Arc<str>>,
    /// Prompts that are answered, and whether a stop is owed should their turn still begin.
    answered: Ring<(InputId, bool)>,
    serial: u64,
    dropped: u64,
    out: Vec<Effect>,
}

impl Session {
    /// A session that is about to be created, and the first things to do.
    pub(crate) fn open(setup: Setup, now: Instant) -> (Self, Vec<Effect>) {
        let Setup { workspace, profile, mode, permission_timeout, reply } = setup;
        let create = vec![Effect::Call(Call::Create { mode: Arc::clone(&mode) })];
        let session = Self {
            id: None,
            profile,
            permission_timeout,
            now,
            state: State::Opening(Opening { reply: Some(reply), asked: mode, set_back: false, mode: None }),
            sequence: Sequence::default(),
            asks: Asks::default(),
            tools: Tools::new(Presenter::new(workspace)),
            held: None,
            fence: None,
            title: Title::default(),
            muted: Ring::new(REMEMBERED),
            answered: Ring::new(REMEMBERED),
            serial: 0,
            dropped: 0,
            out: Vec::new(),
        };
        (session, create)
    }

    /// Takes one step.
    pub(crate) fn step(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        self.now = now;
        match input {
            Input::Prompt { input, prompt, reply, slot, withdrawn } => {
                self.prompt(input, prompt, reply, slot, withdrawn);
            }
            Input::Cancel => self.cancel(),
            Input::Close { reply } => self.close(reply),
            Input::PermissionAnswer { ask, answer } => self.permission_answered(&ask, &answer),
            Input::ClientStalled => self.client_stalled(),
            Input::OpenWithdrawn => self.open_withdrawn(),
            Input::Shutdown => self.shutdown(),
            Input::Created(result) => self.created(result),
            Input::ModeSet(result) => self.mode_set(result),
            Input::Subscribed(result) => self.subscribed(result),
            Input::Event(event) => self.event(event),
            Input::Sent { input, result } => self.sent(&input, result),
            Input::Stopped { stop, result } => self.stopped(stop, result),
            Input::Probed { probe, result } => self.probed(probe, result),
            Input::AskAnswered { ask, result } => self.ask_answered(&ask, result),
            Input::Closed(result) => self.closed(result),
            Input::Tick => {}
        }
        self.due();
        std::mem::take(&mut self.out)
    }

    /// When the machine wants a [`Input::Tick`], if nothing happens before.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let state = match &self.state {
            State::Running(turn) | State::Background(turn) | State::Settling(turn) => turn.deadline(),
            State::Closing(closing) => Some(closing.until),
            State::Opening(_) | State::Idle | State::Closed(_) => None,
        };
        [state, self.held.as_ref().map(|held| held.until), self.fence, self.asks.deadline()]
            .into_iter()
            .flatten()
            .min()
    }

    /// The host's id, once it is known.
    pub(crate) fn id(&self) -> Option<&SessionId> {
        self.id.as_ref()
    }

    /// A prompt waits for its answer.
    pub(crate) fn has_prompt(&self) -> bool {
        self.held.is_some() || matches!(self.state, State::Running(_))
    }

    /// Why it is over, if it is.
    pub(crate) fn close_cause(&self) -> Option<&CloseCause> {
        match &self.state {
            State::Closed(cause) => Some(cause),
            _ => None,
        }
    }

    /// Name of the state, for the log.
    pub(crate) fn state_name(&self) -> &'static str {
        match self.state {
            State::Opening(_) => "opening",
            State::Idle => "idle",
            State::Background(_) => "background",
            State::Running(_) => "running",
            State::Settling(_) => "settling",
            State::Closing(_) => "closing",
            State::Closed(_) => "closed",
        }
    }

    /// What the running turn, or the opening, is doing.
    pub(crate) fn phase(&self) -> Option<Phase> {
        let turn = match &self.state {
            State::Opening(opening) => return opening.mode.as_ref().map(|_| Phase::Subscribing),
            State::Running(turn) => turn,
            _ => return None,
        };
        Some(if turn.ended.is_some() {
            Phase::Completing
        } else if turn.cancelled.is_some() {
            Phase::Cancelling
        } else if self.asks.open() > 0 {
            Phase::AwaitingPermission
        } else if !turn.accepted {
            Phase::Sending
        } else if self.asks.unconfirmed() {
            Phase::AwaitingInput
        } else {
            Phase::Running
        })
    }

    /// Events and content that were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped + self.sequence.dropped()
    }

    /// Does whatever its time has come for.
    fn due(&mut self) {
        let now = self.now;
        for ask in self.asks.overdue(now) {
            self.deny(&ask);
        }
        if self.fence.is_some_and(|at| at <= now) {
            self.lift_fence();
        }
        if self.held.as_ref().is_some_and(|held| held.until <= now) {
            self.refuse_held();
        }
        match &mut self.state {
            State::Running(turn) | State::Background(turn) | State::Settling(turn) => {
                if turn.probe.at.is_some_and(|at| at <= now) {
                    self.serial += 1;
                    turn.probe.at = None;
                    turn.probe.asked = Some(self.serial);
                    self.out.push(Effect::Call(Call::Probe { probe: self.serial }));
                }
                if turn.probe.believe_at.is_some_and(|at| at <= now) {
                    turn.probe.believe_at = None;
                    self.vanished();
                }
            }
            State::Closing(closing) if closing.until <= now => self.close_overdue(),
            _ => {}
        }
        self.turn_due();
    }

    fn show(&mut self, updates: impl IntoIterator<Item = Update>) {
        self.out.extend(updates.into_iter().map(Effect::Update));
    }

    /// Stops the generation of a turn, once it is accepted. Never a second time unless the host did not take it.
    fn stop_turn(turn: &mut Turn, serial: &mut u64, out: &mut Vec<Effect>) {
        if matches!(turn.stop, Stop::Sent(_)) || turn.ended.is_some() {
            return;
        }
        if !turn.accepted {
            turn.stop = Stop::Wanted;
            return;
        }
        *serial += 1;
        turn.stop = Stop::Sent(*serial);
        out.push(Effect::Call(Call::Stop { stop: *serial }));
    }

    /// Stops whatever the state says is running.
    fn stop(&mut self) {
        if let State::Running(turn) | State::Background(turn) | State::Settling(turn) = &mut self.state {
            Self::stop_turn(turn, &mut self.serial, &mut self.out);
            // A stop that is sent is owed no more, whenever the turn begins.
            if matches!(turn.stop, Stop::Sent(_))
                && let Some(input) = &turn.input
                && let Some((_, owed)) = self.answered.iter_mut().find(|(known, _)| known == input)
            {
                *owed = false;
            }
        }
    }

    fn drop_content(&mut self) {
        self.dropped += 1;
    }

    fn note(&self, event: &'static str, failure: &Failure) {
        let session = self.id.as_ref().map(SessionId::as_str);
        let phase = self.phase().map(Phase::as_str);
        tracing::warn!(session, state = self.state_name(), phase, code = failure.code.as_str(), error = %failure, "{event}");
    }
}
