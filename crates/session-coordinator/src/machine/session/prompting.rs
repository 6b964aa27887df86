//! Prompts, cancelling, and the ends of turns.

use std::sync::Arc;

use diag_model::{ErrorCode, Failure, InputId};
use zcode_runtime::model::{CallError, PromptInput, Refusal};

use super::super::turn::{CONFIRM_WITHIN, Outcome, PROBE_AFTER, PROBE_GRACE, Stop, Turn};
use super::super::{Call, Effect};
use super::opening::named;
use super::{FENCE, HOLD, Held, Session, State};
use crate::client::{Reply, StopReason};
use crate::coordinator::Prompt;

/// Characters of a title made from a prompt.
const TITLE_LIMIT: usize = 80;

impl Session {
    pub(super) fn prompt(
        &mut self,
        input: InputId,
        prompt: Prompt,
        reply: Reply<StopReason>,
        slot: bool,
        withdrawn: bool,
    ) {
        let refused = self.not_open().or_else(|| match () {
            () if self.has_prompt() => Some(Failure::new(ErrorCode::SessionBusy)),
            () if !slot => Some(Failure::new(ErrorCode::TooManyTurns)),
            () => None,
        });
        if let Some(failure) = refused {
            self.answer(reply, Err(failure));
        } else if withdrawn {
            self.answer(reply, Ok(StopReason::Cancelled));
        } else {
            if let State::Background(turn) | State::Settling(turn) = &mut self.state {
                turn.probe.plan(self.now + PROBE_AFTER);
            }
            self.held = Some(Held { input, prompt, reply, until: self.now + HOLD, plain: false });
            self.release();
        }
    }

    fn send(&mut self, held: Held) {
        let Held { input, prompt, reply, plain, .. } = held;
        self.lift_fence();
        if self.title.shown.is_none() && self.title.fallback.is_none() {
            self.title.fallback = title_of(&prompt.text);
        }
        let (input, prompt, reply) = if !plain {
            let Some(prompt) = self.command(input, prompt, reply) else { return };
            prompt
        } else if prompt.text.is_empty() && prompt.attachments.is_empty() {
            return self.plan_mode_is_on(reply);
        } else {
            (input, prompt, reply)
        };
        let Prompt { text, attachments } = prompt;
        let call = Call::Send(PromptInput { input: input.clone(), text, attachments });
        self.state = State::Running(Turn::of_prompt(input, reply, call.clone()));
        self.out.push(Effect::Call(call));
    }

    /// Nothing runs any more: a prompt that was held goes out.
    fn idle(&mut self) {
        self.state = State::Idle;
        self.release();
    }

    /// Sends what is held, unless something has to be done before.
    pub(super) fn release(&mut self) {
        let announces = self.facts.deadline().is_some_and(|at| at > self.now);
        let waits = self.settings.busy() || self.replay.is_some() || announces;
        if matches!(self.state, State::Idle)
            && !waits
            && let Some(held) = self.held.take()
        {
            self.show_facts();
            self.send(held);
        }
    }

    pub(super) fn refuse_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.answer(held.reply, Err(Failure::new(ErrorCode::StillSettling)));
        }
    }

    pub(super) fn sent(&mut self, input: &InputId, result: Result<(), CallError>) {
        let (State::Running(turn) | State::Settling(turn)) = &mut self.state else {
            if let Err(CallError::Gone(failure)) = result {
                self.lost(failure);
            }
            return;
        };
        if turn.input.as_ref() != Some(input) {
            return;
        }
        match result {
            Ok(()) => {
                turn.accepted = true;
                turn.call = None;
                if turn.stop == Stop::Wanted {
                    self.stop();
                }
            }
            Err(CallError::Gone(failure)) => self.lost(failure),
            // The turn began, so the prompt was taken whatever this answer says.
            Err(_) if turn.started => {}
            Err(CallError::TimedOut(_)) => self.never_began(Failure::new(ErrorCode::PromptOutcomeUnknown)),
            // Provably not taken, and the session can be had back: asked again, once.
            Err(CallError::Refused { failure, why: Refusal::NotActive }) => {
                let again = turn.call.take().filter(|_| {
                    turn.reply.is_some()
                        && turn.cancelled.is_none()
                        && !std::mem::replace(&mut turn.healed, true)
                });
                match again {
                    Some(call) => self.heal(call),
                    None => self.never_began(failure),
                }
            }
            Err(CallError::Refused { failure, why: Refusal::Busy }) => {
                self.never_began(Failure::new(ErrorCode::SessionBusy).cause(failure.cause_text()));
            }
            Err(CallError::Refused { failure, .. }) => self.never_began(failure),
        }
    }

    /// A prompt whose turn has not begun and, as far as anybody knows, will not.
    pub(super) fn never_began(&mut self, failure: Failure) {
        if let State::Running(turn) = &mut self.state {
            turn.verdict = Some(failure);
            self.deny_pending(false);
            self.conclude_now();
        } else if let State::Settling(turn) = std::mem::replace(&mut self.state, State::Idle) {
            self.retire(&turn);
            self.after(turn);
        }
    }

    pub(super) fn cancel(&mut self) {
        let by = self.now + self.profile.cancel_terminal;
        match &mut self.state {
            State::Running(turn) => {
                turn.cancelled.get_or_insert(by);
                self.deny_pending(false);
                self.stop();
            }
            State::Background(_) | State::Settling(_) => {
                self.cancel_held();
                self.deny_pending(false);
                self.stop();
            }
            State::Idle => self.cancel_held(),
            State::Opening(_) | State::Closing(_) | State::Closed(_) => {}
        }
    }

    /// A prompt that was never sent. The silence after a cancelled answer holds for it too.
    fn cancel_held(&mut self) {
        if let Some(held) = self.held.take() {
            self.answer(held.reply, Ok(StopReason::Cancelled));
            self.fence = Some(self.now + FENCE);
        }
    }

    pub(super) fn stopped(&mut self, stop: u64, result: Result<(), CallError>) {
        match result {
            Ok(()) => {}
            Err(CallError::Gone(failure)) => self.lost(failure),
            Err(error) => {
                self.note("stop.refused", error.failure());
                if let State::Running(turn) | State::Background(turn) | State::Settling(turn) =
                    &mut self.state
                    && turn.stop == Stop::Sent(stop)
                {
                    turn.stop = Stop::Failed;
                    turn.probe.plan(self.now + PROBE_AFTER);
                }
            }
        }
    }

    pub(super) fn client_stalled(&mut self) {
        self.abort(Failure::new(ErrorCode::ClientStalled));
    }

    /// Ends the turn from this side: asks denied, generation stopped, prompt answered with the failure; the native turn
    /// settles unseen.
    pub(super) fn abort(&mut self, failure: Failure) {
        self.deny_pending(false);
        self.stop();
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Running(mut turn) => {
                turn.verdict.get_or_insert(failure);
                self.settle(turn);
            }
            State::Background(mut turn) => {
                turn.probe.plan(self.now + PROBE_AFTER);
                self.mute(turn.id.as_ref());
                self.show_end_of_tools("not finished", Some(&failure));
                self.state = State::Settling(turn);
            }
            other => self.state = other,
        }
    }

    /// Answers the prompt while its native turn goes on.
    fn settle(&mut self, mut turn: Turn) {
        if turn.ended.is_some() {
            self.state = State::Running(turn);
            return self.conclude_now();
        }
        self.answer_turn(&mut turn);
        turn.probe.plan(self.now + PROBE_AFTER);
        self.state = State::Settling(turn);
    }

    /// The terminal event of a turn.
    pub(super) fn turn_over(&mut self, id: Option<&Arc<str>>, input: Option<&InputId>, outcome: Outcome) {
        let until = self.now + CONFIRM_WITHIN;
        match &mut self.state {
            // A command ends with the answer of its call.
            State::Running(turn) if turn.command && turn.is(id, input) => {}
            State::Running(turn) if turn.is(id, input) => {
                turn.ended.get_or_insert((outcome, until));
                self.conclude();
            }
            State::Running(turn) => {
                if turn
                    .foreign
                    .as_ref()
                    .is_some_and(|foreign| foreign.0.is_none() || foreign.0.as_ref() == id)
                {
                    turn.foreign = None;
                }
                // Should this have been ours after all, asking keeps the prompt from waiting for ever.
                if turn.accepted {
                    turn.probe.plan(self.now + PROBE_AFTER);
                }
                self.mute(id);
            }
            State::Background(turn) if id.is_none() || turn.id.is_none() || turn.id.as_ref() == id => {
                self.background_over(id);
            }
            State::Settling(turn) if turn.is(id, input) => self.settled(),
            _ => self.drop_content(),
        }
    }

    fn background_over(&mut self, id: Option<&Arc<str>>) {
        self.mute(id);
        self.show_end_of_tools("not finished: the turn ended", None);
        self.idle();
    }

    pub(super) fn settled(&mut self) {
        if let State::Settling(turn) = std::mem::replace(&mut self.state, State::Idle) {
            self.retire(&turn);
            self.after(turn);
        }
    }

    /// The host says that nothing runs, and no terminal event has come.
    pub(super) fn vanished(&mut self) {
        match &mut self.state {
            State::Running(turn) if turn.command => {}
            State::Running(turn) => {
                turn.ended.get_or_insert((Outcome::Vanished, self.now + CONFIRM_WITHIN));
                self.conclude();
            }
            State::Background(turn) => {
                let id = turn.id.clone();
                self.background_over(id.as_ref());
            }
            State::Settling(_) => self.settled(),
            _ => {}
        }
    }

    pub(super) fn probed(&mut self, probe: u64, result: Result<bool, CallError>) {
        if let Err(CallError::Gone(failure)) = result {
            return self.lost(failure);
        }
        let (State::Running(turn) | State::Background(turn) | State::Settling(turn)) = &mut self.state else {
            return;
        };
        if turn.probe.asked != Some(probe) {
            return;
        }
        turn.probe.asked = None;
        let running = match result {
            Ok(running) => running,
            Err(CallError::Refused { why: Refusal::NotActive, .. }) => false,
            Err(_) => true,
        };
        if running {
            turn.probe.at = Some(self.now + PROBE_AFTER);
        } else {
            turn.probe.believe_at = Some(self.now + PROBE_GRACE);
        }
    }

    /// The prompt's turn is over: its asks are settled, then it is answered.
    pub(super) fn conclude(&mut self) {
        let State::Running(turn) = &self.state else { return };
        // A subagent may go on in the background after a good end and still needs its answer; otherwise all is denied.
        let natural = turn.answer().is_ok() && turn.cancelled.is_none();
        self.deny_pending(natural);
        self.turn_due();
    }

    /// Answers what has waited long enough, or needs not wait.
    pub(super) fn turn_due(&mut self) {
        let State::Running(turn) = &self.state else { return };
        let over =
            turn.ended.as_ref().is_some_and(|(_, until)| *until <= self.now || !self.asks.unconfirmed());
        if over {
            return self.conclude_now();
        }
        if turn.ended.is_none()
            && turn.cancelled.is_some_and(|by| by <= self.now)
            && let State::Running(turn) = std::mem::replace(&mut self.state, State::Idle)
        {
            self.settle(turn);
        }
    }

    fn conclude_now(&mut self) {
        if let State::Running(mut turn) = std::mem::replace(&mut self.state, State::Idle) {
            self.answer_turn(&mut turn);
            self.retire(&turn);
            self.after(turn);
        }
    }

    /// What runs once a turn is over: another one of the host, or nothing.
    fn after(&mut self, turn: Turn) {
        match turn.foreign {
            Some(foreign) => self.state = State::Background(Turn::of_host(foreign.0)),
            None => self.idle(),
        }
    }

    /// Remembers a turn whose content and late start are of no interest any more.
    fn retire(&mut self, turn: &Turn) {
        self.mute(turn.id.as_ref());
    }

    pub(super) fn mute(&mut self, id: Option<&Arc<str>>) {
        if let Some(id) = id
            && !self.muted.contains(id)
        {
            self.muted.push(Arc::clone(id));
        }
    }

    /// Ends open calls and answers the prompt.
    pub(super) fn answer_turn(&mut self, turn: &mut Turn) {
        let Some(reply) = turn.reply.take() else { return };
        let result = turn.answer().map_err(|failure| named(failure, self.id.as_ref()));
        match &result {
            Ok(StopReason::Cancelled) => self.show_end_of_tools("cancelled", None),
            Ok(_) => self.show_end_of_tools("not finished: the turn ended", None),
            Err(failure) => self.show_end_of_tools("not finished", Some(failure)),
        }
        if let Some(title) = self.title.fallback.take().filter(|_| self.title.shown.is_none()) {
            self.show_title(&title);
        }
        self.mute(turn.id.as_ref());
        if let Some(input) = &turn.input {
            self.answered.push((input.clone(), turn.stop == Stop::Wanted));
        }
        if result == Ok(StopReason::Cancelled) {
            self.fence = Some(self.now + FENCE);
        }
        self.answer(reply, result);
    }

    pub(super) fn show_end_of_tools(&mut self, why: &str, failure: Option<&Failure>) {
        let why =
            failure.map_or_else(|| why.to_owned(), |failure| format!("{why}: {}", failure.cause_text()));
        let updates = self.tools.finish(&why);
        self.show(updates);
        self.withdraw_proposals();
    }

    pub(super) fn answer(&mut self, reply: Reply<StopReason>, result: Result<StopReason, Failure>) {
        self.out.push(Effect::AnswerPrompt { reply, result });
    }
}

/// The first line of a prompt that says something.
fn title_of(text: &str) -> Option<Arc<str>> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let mut title: String = line.chars().take(TITLE_LIMIT).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    Some(title.into())
}
