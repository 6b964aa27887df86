//! From the request for a session to its answer.

use std::sync::Arc;

use diag_model::{Detail, ErrorCode, Failure, SessionId};
use zcode_runtime::model::{CallError, OpenedSession, SessionFacts, Snapshot};

use super::super::mode::{self, Verdict};
use super::super::sequence::Sequence;
use super::super::turn::{PROBE_AFTER, Turn};
use super::super::{Call, CloseCause, Effect};
use super::{CLOSE_WITHIN, Closing, Session, State};
use crate::setup::{ModeState, SessionSetup};

impl Session {
    pub(super) fn created(&mut self, result: Result<OpenedSession, CallError>) {
        match result {
            Ok(opened) => {
                self.id = Some(opened.id);
                if matches!(self.state, State::Opening(_)) {
                    self.first_facts(&opened.facts);
                    self.judge_mode(opened.facts.mode.as_deref());
                } else if let State::Closing(closing) = &mut self.state {
                    // It was withdrawn while it was being created: what exists now is ended again.
                    closing.until = self.now + CLOSE_WITHIN;
                    self.out.push(Effect::Call(Call::Close));
                }
            }
            Err(error) => {
                self.refuse(create_failure(error));
                match self.state {
                    State::Closing(_) => self.finish_closing(&Ok(())),
                    State::Closed(_) => {}
                    _ => self.state = State::Closed(CloseCause::NotOpened),
                }
            }
        }
    }

    pub(super) fn mode_set(&mut self, result: Result<SessionFacts, CallError>) {
        if !matches!(self.state, State::Opening(_)) {
            return;
        }
        match result {
            Ok(facts) => {
                self.first_facts(&facts);
                self.judge_mode(facts.mode.as_deref());
            }
            Err(error) => {
                let why = error.failure().clone();
                self.give_up_opening(
                    Failure::new(ErrorCode::UnsafeMode)
                        .cause(format!("the safe permission mode could not be set: {}", why.cause_text())),
                );
            }
        }
    }

    pub(super) fn subscribed(&mut self, result: Result<Snapshot, CallError>) {
        let State::Opening(opening) = &mut self.state else { return };
        let snapshot = match result {
            Ok(snapshot) => snapshot,
            Err(error) => {
                let failure = error.failure().clone();
                return self.give_up_opening(failure);
            }
        };
        // The snapshot is the latest word on the mode; silence leaves what the answers said.
        if let Some(said) = snapshot.facts.mode.clone() {
            match mode::judge(&self.profile, &opening.asked, Some(&said)) {
                Verdict::Safe(mode) => opening.mode = Some(mode),
                Verdict::Stronger(_) | Verdict::Unknown => {
                    let failure = mode::refusal(&opening.asked, Some(&said));
                    return self.give_up_opening(failure);
                }
            }
        }
        let (Some(session), Some(mode), Some(reply)) =
            (self.id.clone(), opening.mode.clone(), opening.reply.take())
        else {
            return;
        };
        self.out.push(Effect::Introduce { reply, answer: self.setup(session, mode) });
        self.sequence = Sequence::after(snapshot.event_seq);
        self.state = if snapshot.running {
            let mut turn = Turn::of_host(None);
            turn.probe.plan(self.now + PROBE_AFTER);
            State::Background(turn)
        } else {
            State::Idle
        };
        if let Some(title) = self.title.held.take() {
            self.show_title(&title);
        }
        self.facts(&snapshot.facts);
        for ask in snapshot.pending {
            self.permission(ask);
        }
    }

    /// The session as its client needs to know it.
    fn setup(&self, session: SessionId, mode: Arc<str>) -> SessionSetup {
        let modes = ModeState { current: mode, available: Arc::clone(&self.profile.modes) };
        SessionSetup { session, modes, options: Vec::new() }
    }

    /// The mode as the host has just said it: safe, set back once, or refused.
    fn judge_mode(&mut self, said: Option<&str>) {
        let State::Opening(opening) = &mut self.state else { return };
        match mode::judge(&self.profile, &opening.asked, said) {
            Verdict::Safe(mode) => {
                opening.mode = Some(mode);
                self.out.push(Effect::Call(Call::Subscribe));
            }
            Verdict::Stronger(_) if !opening.set_back => {
                opening.set_back = true;
                self.out.push(Effect::Call(Call::SetMode { mode: Arc::clone(&opening.asked) }));
            }
            Verdict::Stronger(_) | Verdict::Unknown => {
                let failure = mode::refusal(&opening.asked, said);
                self.give_up_opening(failure);
            }
        }
    }

    /// Facts that come before the session is introduced wait for that.
    fn first_facts(&mut self, facts: &SessionFacts) {
        if let Some(title) = &facts.title {
            self.title.held = Some(Arc::clone(title));
        }
    }

    /// The client withdrew its request. It is answered at once; what the host makes of it is closed again.
    pub(super) fn open_withdrawn(&mut self) {
        if matches!(self.state, State::Opening(_)) {
            self.give_up_opening(Failure::new(ErrorCode::RequestCancelled));
        }
    }

    pub(super) fn refuse(&mut self, failure: Failure) {
        if let State::Opening(opening) = &mut self.state
            && let Some(reply) = opening.reply.take()
        {
            self.out.push(Effect::Refuse { reply, failure });
        }
    }

    fn give_up_opening(&mut self, failure: Failure) {
        self.refuse(failure);
        if self.id.is_some() {
            self.out.push(Effect::Call(Call::Close));
        }
        // Without an id the creation is still under way; its own deadline bounds it, so there is no earlier one here.
        let patience = if self.id.is_some() { CLOSE_WITHIN } else { CLOSE_WITHIN * 12 };
        let until = self.now + patience;
        self.state = State::Closing(Closing { replies: Vec::new(), cause: CloseCause::NotOpened, until });
    }
}

fn create_failure(error: CallError) -> Failure {
    match error {
        CallError::TimedOut(failure) => {
            let unknown = Failure::new(ErrorCode::CreateOutcomeUnknown);
            failure.details().iter().fold(unknown, |unknown, (detail, value)| unknown.with(*detail, value))
        }
        CallError::Refused { failure, .. } => failure,
        CallError::Gone(failure) => failure.with(Detail::Operation, "create"),
    }
}

/// Names the session in a failure.
pub(super) fn named(failure: Failure, session: Option<&SessionId>) -> Failure {
    match session {
        Some(session) if failure.detail(Detail::Session).is_none() => failure.with(Detail::Session, session),
        _ => failure,
    }
}
