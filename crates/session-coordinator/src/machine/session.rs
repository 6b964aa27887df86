//! A session as a value.
//!
//! This file holds the state, the dispatch and the deadlines; its parts are opening (`opening`), prompts and the ends
//! of turns (`prompting`), commands (`commands`), what the host says (`events`) and what is shown of it (`showing`), its
//! questions (`asks`), configuration (`settings`), replay of the history (`replay`), the return of a session that the host
//! has put aside (`healing`) and the end of the session (`closing`).

mod asks;
mod closing;
mod commands;
mod events;
mod healing;
mod opening;
mod prompting;
mod replay;
mod settings;
mod showing;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod surface_tests;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diag_model::{AskId, Failure, InputId, SessionId, ToolCallId};
use zcode_runtime::model::{HostEvent, HostProfile, Snapshot, WorkspaceState};

use self::asks::Proposal;
use self::healing::Healing;
use self::replay::Replay;
use self::settings::Settings;
use super::config::Config;
use super::facts::Facts;
use super::interaction::Asks;
use super::ring::Ring;
use super::sequence::Sequence;
use super::tool::Tools;
use super::turn::{Phase, Stop, Turn};
use super::{Call, CloseCause, Effect, Input};
use crate::client::{ClientProfile, Reply, StopReason, Update};
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
    /// What is known of the client.
    pub(crate) client: ClientProfile,
    /// What the workspace offers.
    pub(crate) offers: Arc<WorkspaceState>,
    /// Where the session comes from.
    pub(crate) origin: Origin,
    /// Limit of waiting for a permission.
    pub(crate) permission_timeout: Option<Duration>,
    /// Duty to answer the request.
    pub(crate) reply: Reply<SessionSetup>,
}

/// Where a session comes from.
#[derive(Debug)]
pub(crate) enum Origin {
    /// It is created.
    New {
        /// In this mode, chosen by [`super::mode::choose`].
        mode: Arc<str>,
    },
    /// The host has it stored.
    Stored {
        /// Which.
        session: SessionId,
        /// Its history is shown before the answer.
        history: bool,
    },
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
    /// Stored, and whether its history is wanted.
    stored: Option<bool>,
    /// Mode that must not be exceeded; of a stored session the one it has.
    asked: Option<Arc<str>>,
    set_back: bool,
    mode: Option<Arc<str>>,
    /// The first snapshot, once the subscription stands.
    snapshot: Option<Snapshot>,
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
    /// A slash command at its beginning has been carried out.
    plain: bool,
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
    client: ClientProfile,
    config: Config,
    facts: Facts,
    settings: Settings,
    proposals: Vec<Proposal>,
    /// Calls that questions belong to.
    input_calls: Vec<(AskId, ToolCallId)>,
    replay: Option<Replay>,
    /// What the host says during a replay.
    waiting: Vec<HostEvent>,
    healing: Option<Healing>,
    /// The compaction that runs.
    compaction: Option<Arc<str>>,
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
        let Setup { workspace, profile, client, offers, origin, permission_timeout, reply } = setup;
        let (first, asked, stored) = match origin {
            Origin::New { mode } => (Call::Create { mode: Arc::clone(&mode) }, Some(mode), None),
            Origin::Stored { session, history } => (Call::Resume { session }, None, Some(history)),
        };
        let opening =
            Opening { reply: Some(reply), stored, asked, set_back: false, mode: None, snapshot: None };
        let session = Self {
            id: None,
            profile,
            permission_timeout,
            now,
            state: State::Opening(opening),
            sequence: Sequence::default(),
            asks: Asks::default(),
            tools: Tools::new(Presenter::new(workspace), client.terminal_output),
            held: None,
            fence: None,
            title: Title::default(),
            client,
            config: Config::of(&offers),
            facts: Facts::of(&offers),
            settings: Settings::default(),
            proposals: Vec::new(),
            input_calls: Vec::new(),
            replay: None,
            waiting: Vec::new(),
            healing: None,
            compaction: None,
            muted: Ring::new(REMEMBERED),
            answered: Ring::new(REMEMBERED),
            serial: 0,
            dropped: 0,
            out: Vec::new(),
        };
        (session, vec![Effect::Call(first)])
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
            Input::FormAnswer { ask, answer } => self.form_answered(&ask, answer),
            Input::Set { option, value, reply } => self.set(option, value, reply),
            Input::Reopen { history, reply } => self.reopen(history, reply),
            Input::Resumed(result) => self.resumed(result),
            Input::Counted(result) => self.counted(result),
            Input::History(result) => self.history(result),
            Input::WasSet(result) => self.was_set(result),
            Input::Compacted { input, result } => self.compacted(&input, result),
            Input::GoalDone { input, result } => self.goal_done(&input, result),
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
        let news = self.shows_facts().then(|| self.facts.deadline()).flatten();
        let replay = self.replay.as_ref().and_then(Replay::deadline);
        [state, self.held.as_ref().map(|held| held.until), self.fence, self.asks.deadline(), news, replay]
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
        self.replay_due();
        if self.facts.deadline().is_some_and(|at| at <= now) {
            self.show_facts();
        }
        self.release();
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
