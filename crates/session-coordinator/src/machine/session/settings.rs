//! Configuration set by the client: one change at a time, in the order of the requests.

use std::collections::VecDeque;

use diag_model::{ErrorCode, Failure, InputId};
use zcode_runtime::model::{CallError, Refusal, SessionFacts};

use super::super::config::Setting;
use super::super::mode::{self, Verdict};
use super::super::{Call, CloseCause, Effect};
use super::opening::named;
use super::{Session, State};
use crate::client::{ConfigId, Reply};
use crate::setup::SessionSetup;

/// Changes that wait for an earlier one.
const QUEUE: usize = 16;

/// Changes of a session.
#[derive(Debug, Default)]
pub(super) struct Settings {
    queue: VecDeque<Change>,
    under_way: Option<UnderWay>,
}

#[derive(Debug)]
struct Change {
    option: ConfigId,
    value: String,
    owner: Owner,
}

/// Who wants a change.
#[derive(Debug)]
enum Owner {
    /// A request.
    Request(Reply<SessionSetup>),
    /// A prompt that is held until the change is made.
    Prompt(InputId),
}

#[derive(Debug)]
struct UnderWay {
    setting: Setting,
    owner: Owner,
    healed: bool,
    set_back: bool,
}

impl Settings {
    /// A change is being made. A prompt waits for it, since it must not run under the old mode.
    pub(super) fn busy(&self) -> bool {
        self.under_way.is_some()
    }
}

impl Session {
    /// Why nothing can be asked of the session, if it is not open.
    pub(super) fn not_open(&self) -> Option<Failure> {
        let failure = match &self.state {
            State::Closed(CloseCause::Failed(failure)) => failure.clone(),
            State::Closed(CloseCause::Shutdown) => Failure::new(ErrorCode::ShuttingDown),
            State::Opening(_) | State::Closing(_) | State::Closed(_) => {
                Failure::new(ErrorCode::SessionClosed)
            }
            State::Idle | State::Background(_) | State::Running(_) | State::Settling(_) => return None,
        };
        Some(named(failure, self.id.as_ref()))
    }

    pub(super) fn set(&mut self, option: ConfigId, value: String, reply: Reply<SessionSetup>) {
        let refused = self.not_open().or_else(|| {
            let full = self.settings.queue.len() >= QUEUE;
            full.then(|| named(Failure::new(ErrorCode::QueueFull), self.id.as_ref()))
        });
        if let Some(failure) = refused {
            return self.out.push(Effect::AnswerSetup { reply, result: Err(failure) });
        }
        self.settings.queue.push_back(Change { option, value, owner: Owner::Request(reply) });
        self.next_change();
    }

    /// A prompt needs a mode before it can be sent.
    pub(super) fn set_mode_for(&mut self, input: InputId, mode: &str) {
        let change = Change { option: ConfigId::Mode, value: mode.to_owned(), owner: Owner::Prompt(input) };
        self.settings.queue.push_back(change);
        self.next_change();
    }

    fn next_change(&mut self) {
        while !self.settings.busy()
            && let Some(Change { option, value, owner }) = self.settings.queue.pop_front()
        {
            match self.config.choose(option, &value, &self.profile) {
                Ok(None) => self.changed(owner, Ok(())),
                Ok(Some(setting)) => {
                    self.out.push(Effect::Call(Call::Set(setting.clone())));
                    self.settings.under_way =
                        Some(UnderWay { setting, owner, healed: false, set_back: false });
                }
                Err(failure) => self.changed(owner, Err(failure)),
            }
        }
    }

    pub(super) fn was_set(&mut self, result: Result<SessionFacts, CallError>) {
        let Some(mut change) = self.settings.under_way.take() else { return };
        let result = match result {
            Ok(facts) => {
                self.config.take(&change.setting);
                self.absorb(&facts);
                match self.exceeded(&change.setting, &facts) {
                    Some(_) if !change.set_back => {
                        change.set_back = true;
                        self.out.push(Effect::Call(Call::Set(change.setting.clone())));
                        self.settings.under_way = Some(change);
                        return;
                    }
                    Some(failure) => Err(failure),
                    None => Ok(()),
                }
            }
            Err(CallError::Refused { why: Refusal::NotActive, .. }) if !change.healed => {
                change.healed = true;
                let call = Call::Set(change.setting.clone());
                self.settings.under_way = Some(change);
                return self.heal(call);
            }
            Err(CallError::Gone(failure)) => {
                self.settings.under_way = Some(change);
                return self.lost(failure);
            }
            Err(error) => Err(error.failure().clone()),
        };
        // What the client itself has set is told at once, whatever is being held back.
        self.show_configuration();
        self.show_facts();
        self.changed(change.owner, result);
        self.next_change();
    }

    /// The refusal, if the host says a mode that allows more than the one set, or none that is known.
    fn exceeded(&self, setting: &Setting, facts: &SessionFacts) -> Option<Failure> {
        let (Setting::Mode(asked), Some(said)) = (setting, facts.mode.as_deref()) else { return None };
        match mode::judge(&self.profile, asked, Some(said)) {
            Verdict::Safe(_) => None,
            Verdict::Stronger(_) | Verdict::Unknown => Some(mode::refusal(asked, Some(said))),
        }
    }

    fn changed(&mut self, owner: Owner, result: Result<(), Failure>) {
        match owner {
            Owner::Request(reply) => {
                let setup = || self.setup().ok_or_else(|| Failure::new(ErrorCode::Internal));
                let result =
                    result.and_then(|()| setup()).map_err(|failure| named(failure, self.id.as_ref()));
                self.out.push(Effect::AnswerSetup { reply, result });
            }
            Owner::Prompt(input) => {
                if let Err(failure) = result
                    && let Some(held) = self.held.take_if(|held| held.input == input)
                {
                    self.answer(held.reply, Err(named(failure, self.id.as_ref())));
                }
            }
        }
    }

    /// The session ends: whoever waits for a change or a replay is told why.
    pub(super) fn drop_requests(&mut self, failure: &Failure) {
        let failure = named(failure.clone(), self.id.as_ref());
        let Settings { queue, under_way } = std::mem::take(&mut self.settings);
        let owners = under_way.map(|change| change.owner).into_iter();
        for owner in owners.chain(queue.into_iter().map(|change| change.owner)) {
            self.changed(owner, Err(failure.clone()));
        }
        if let Some(reply) = self.replay.take().and_then(|replay| replay.reply) {
            self.out.push(Effect::AnswerSetup { reply, result: Err(failure) });
        }
        self.waiting.clear();
        self.healing = None;
    }
}
