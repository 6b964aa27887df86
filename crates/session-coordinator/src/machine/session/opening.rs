//! From the request for a session to its answer.

use std::sync::Arc;

use diag_model::{Detail, ErrorCode, Failure, SessionId};
use zcode_runtime::model::{CallError, OpenedSession, SessionFacts, Snapshot};

use super::super::facts::NEWS_AFTER;
use super::super::mode::{self, Verdict};
use super::super::sequence::Sequence;
use super::super::turn::{PROBE_AFTER, Turn};
use super::super::{Call, CloseCause, Effect};
use super::replay::Replay;
use super::{CLOSE_WITHIN, Closing, Session, State};
use crate::setup::{ModeState, SessionSetup};

impl Session {
    pub(super) fn created(&mut self, result: Result<OpenedSession, CallError>) {
        match result {
            Ok(opened) => {
                self.id = Some(opened.id);
                if matches!(self.state, State::Opening(_)) {
                    self.absorb(&opened.facts);
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

    /// A stored session is open. The mode it was left in is the user's own choice, and the one not to be exceeded.
    pub(super) fn resumed(&mut self, result: Result<OpenedSession, CallError>) {
        match &mut self.state {
            State::Opening(_) => {}
            // Withdrawn while it was being opened, or closed while it was being healed.
            State::Closing(closing) => {
                match result {
                    Ok(opened) => {
                        self.id = Some(opened.id);
                        closing.until = self.now + CLOSE_WITHIN;
                        self.out.push(Effect::Call(Call::Close));
                    }
                    Err(_) => self.finish_closing(&Ok(())),
                }
                return;
            }
            _ => return self.healed(result),
        }
        match result {
            Ok(opened) => {
                self.id = Some(opened.id);
                self.absorb(&opened.facts);
                if let State::Opening(opening) = &mut self.state {
                    let said = opened.facts.mode.as_deref();
                    let known = said.and_then(|mode| self.profile.mode(mode));
                    opening.asked = known.map(|mode| Arc::clone(&mode.id));
                    self.judge_mode(said);
                }
            }
            Err(error) => {
                self.refuse(resume_failure(error));
                self.state = State::Closed(CloseCause::NotOpened);
            }
        }
    }

    pub(super) fn mode_set(&mut self, result: Result<SessionFacts, CallError>) {
        if !matches!(self.state, State::Opening(_)) {
            return self.mode_set_back(result);
        }
        match result {
            Ok(facts) => {
                self.absorb(&facts);
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
        let State::Opening(opening) = &mut self.state else { return self.resubscribed(result) };
        let snapshot = match result {
            Ok(snapshot) => snapshot,
            Err(error) => {
                let failure = error.failure().clone();
                return self.give_up_opening(failure);
            }
        };
        // The snapshot is the latest word on the mode; silence leaves what the answers said.
        let said = snapshot.facts.mode.clone();
        let stored = opening.stored.is_some();
        opening.snapshot = Some(snapshot);
        if let Some(said) = said {
            let asked = opening.asked.clone().unwrap_or_default();
            match mode::judge(&self.profile, &asked, Some(&said)) {
                Verdict::Safe(mode) => opening.mode = Some(mode),
                Verdict::Stronger(_) if stored => return self.judge_mode(Some(&said)),
                Verdict::Stronger(_) | Verdict::Unknown => {
                    let failure = mode::refusal(&asked, Some(&said));
                    return self.give_up_opening(failure);
                }
            }
        }
        self.subscription_stands();
    }

    /// The mode is verified and the stream stands: the history is next, or the answer.
    fn subscription_stands(&mut self) {
        let State::Opening(opening) = &mut self.state else { return };
        let Some(snapshot) = &opening.snapshot else { return };
        self.sequence = Sequence::after(snapshot.event_seq);
        if opening.stored == Some(true) {
            self.replay = Some(Replay::settling(self.tools.afresh(), self.now));
            self.out.push(Effect::Call(Call::Count));
        } else {
            self.introduce();
        }
    }

    /// Answers the request; the session is open. What a replay has to show comes before, everything else behind.
    pub(super) fn introduce(&mut self) {
        let State::Opening(opening) = &mut self.state else { return };
        let (Some(mode), Some(snapshot), Some(reply)) =
            (opening.mode.take(), opening.snapshot.take(), opening.reply.take())
        else {
            return;
        };
        let replayed = opening.stored == Some(true);
        self.absorb(&SessionFacts { mode: Some(mode), ..snapshot.facts });
        let Some(answer) = self.setup() else { return };
        self.facts.told(Some(&answer.modes.current), &answer.options);
        self.facts.news_from = Some(if replayed { self.now } else { self.now + NEWS_AFTER });
        let introduce = Effect::Introduce { reply, answer };
        if replayed {
            self.show_known();
            self.out.push(introduce);
        } else {
            self.out.push(introduce);
        }
        self.state = if snapshot.running {
            let mut turn = Turn::of_host(None);
            turn.probe.plan(self.now + PROBE_AFTER);
            State::Background(turn)
        } else {
            State::Idle
        };
        self.show_known();
        for ask in snapshot.pending {
            self.permission(ask);
        }
        self.catch_up();
    }

    /// The session as its client needs to know it.
    pub(super) fn setup(&self) -> Option<SessionSetup> {
        let current = Arc::clone(self.config.mode()?);
        let modes = ModeState { current, available: Arc::clone(&self.profile.modes) };
        let options = self.config.options(&self.profile);
        Some(SessionSetup { session: self.id.clone()?, modes, options })
    }

    /// The mode as the host has just said it: safe, set back once, or refused.
    fn judge_mode(&mut self, said: Option<&str>) {
        let State::Opening(opening) = &mut self.state else { return };
        let asked = opening.asked.clone().unwrap_or_default();
        match mode::judge(&self.profile, &asked, said) {
            Verdict::Safe(mode) => {
                opening.mode = Some(mode);
                if opening.snapshot.is_some() {
                    return self.subscription_stands();
                }
                self.out.push(Effect::Call(Call::Subscribe));
            }
            Verdict::Stronger(_) if !opening.set_back => {
                opening.set_back = true;
                self.out.push(Effect::Call(Call::SetMode { mode: asked }));
            }
            Verdict::Stronger(_) | Verdict::Unknown => {
                let failure = mode::refusal(&asked, said);
                self.give_up_opening(failure);
            }
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

    pub(super) fn give_up_opening(&mut self, failure: Failure) {
        self.replay = None;
        self.waiting.clear();
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

fn resume_failure(error: CallError) -> Failure {
    match error {
        CallError::Refused { failure, .. } | CallError::TimedOut(failure) => failure,
        CallError::Gone(failure) => failure.with(Detail::Operation, "resume"),
    }
}

/// Names the session in a failure.
pub(super) fn named(failure: Failure, session: Option<&SessionId>) -> Failure {
    match session {
        Some(session) if failure.detail(Detail::Session).is_none() => failure.with(Detail::Session, session),
        _ => failure,
    }
}
