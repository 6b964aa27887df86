//! The return of a session that the host has put aside: it is resumed once for everything that needs it, and only what
//! was provably refused is asked again.

use diag_model::{ErrorCode, Failure, SessionId};
use zcode_runtime::model::{CallError, OpenedSession, Refusal, SessionFacts, Snapshot};

use super::super::mode::{self, Verdict};
use super::super::sequence::Sequence;
use super::super::{Call, Effect};
use super::{Session, State};

/// A resume under way.
#[derive(Debug)]
pub(super) struct Healing {
    /// What is asked again afterwards.
    retry: Vec<Call>,
}

impl Session {
    /// Resumes the session, then asks `call` again.
    pub(super) fn heal(&mut self, call: Call) {
        if let Some(healing) = &mut self.healing {
            return healing.retry.push(call);
        }
        let Some(session) = self.id.clone() else { return };
        tracing::info!(session = %session, state = self.state_name(), "session.resuming");
        self.healing = Some(Healing { retry: vec![call] });
        self.out.push(Effect::Call(Call::Resume { session }));
    }

    /// The session is back. Its mode must not be stronger than the one the client knows.
    pub(super) fn healed(&mut self, result: Result<OpenedSession, CallError>) {
        if self.healing.is_none() {
            return;
        }
        let opened = match result {
            Ok(opened) => opened,
            Err(error) => return self.heal_failed(error),
        };
        let known = self.config.mode().cloned().unwrap_or_default();
        match mode::judge(&self.profile, &known, opened.facts.mode.as_deref()) {
            Verdict::Safe(_) => {
                self.facts(&opened.facts);
                self.out.push(Effect::Call(Call::Subscribe));
            }
            Verdict::Stronger(_) => {
                self.facts(&SessionFacts { mode: None, ..opened.facts });
                self.out.push(Effect::Call(Call::SetMode { mode: known }));
            }
            Verdict::Unknown => {
                let failure = mode::refusal(&known, opened.facts.mode.as_deref());
                self.heal_failed(CallError::Refused { failure, why: Refusal::Other });
            }
        }
    }

    /// Result of setting the mode back.
    pub(super) fn mode_set_back(&mut self, result: Result<SessionFacts, CallError>) {
        if self.healing.is_none() {
            return;
        }
        let known = self.config.mode().cloned().unwrap_or_default();
        match result {
            Ok(facts) => match mode::judge(&self.profile, &known, facts.mode.as_deref()) {
                Verdict::Safe(_) => {
                    self.facts(&facts);
                    self.out.push(Effect::Call(Call::Subscribe));
                }
                Verdict::Stronger(_) | Verdict::Unknown => {
                    let failure = mode::refusal(&known, facts.mode.as_deref());
                    self.heal_failed(CallError::Refused { failure, why: Refusal::Other });
                }
            },
            Err(error) => self.heal_failed(error),
        }
    }

    /// The stream stands again.
    pub(super) fn resubscribed(&mut self, result: Result<Snapshot, CallError>) {
        let snapshot = match result {
            Ok(snapshot) => snapshot,
            Err(error) => return self.heal_failed(error),
        };
        let Some(healing) = self.healing.take() else { return };
        self.sequence = Sequence::after(snapshot.event_seq);
        let known = self.config.mode().cloned().unwrap_or_default();
        let said = snapshot.facts.mode.as_deref();
        if said.is_some() && !matches!(mode::judge(&self.profile, &known, said), Verdict::Safe(_)) {
            let failure = mode::refusal(&known, said);
            self.healing = Some(healing);
            return self.heal_failed(CallError::Refused { failure, why: Refusal::Other });
        }
        self.facts(&snapshot.facts);
        for ask in snapshot.pending {
            self.permission(ask);
        }
        self.out.extend(healing.retry.into_iter().map(Effect::Call));
    }

    /// Everything that waited for the session is answered with the reason.
    fn heal_failed(&mut self, error: CallError) {
        let Some(healing) = self.healing.take() else { return };
        if let CallError::Gone(failure) = error {
            return self.lost(failure);
        }
        self.note("session.resume_failed", error.failure());
        let session = self.id.as_ref().map_or("", SessionId::as_str);
        let failure = Failure::new(ErrorCode::SessionRefused)
            .cause(format!(
                "ZCode had put session {session} aside and it could not be resumed: {}",
                error.failure().cause_text()
            ))
            .next_step("load the session again");
        let error = || CallError::Refused { failure: failure.clone(), why: Refusal::Other };
        for call in healing.retry {
            match call {
                Call::Send(input) => self.sent(&input.input, Err(error())),
                Call::Set(_) => self.was_set(Err(error())),
                Call::Count => self.counted(Err(error())),
                Call::History { .. } => self.history(Err(error())),
                Call::Compact { input, .. } => self.compacted(&input, Err(error())),
                Call::Goal { input, .. } => self.goal_done(&input, Err(error())),
                _ => {}
            }
        }
        // Nothing is known of a turn without a stream.
        if let State::Background(_) | State::Settling(_) = self.state {
            self.lost(failure);
        }
    }
}
