//! Slash commands that become calls of the host: each ends its prompt with visible text.

use diag_model::{ErrorCode, Failure, InputId};
use zcode_runtime::model::{CallError, CompactOutcome, GoalOutcome, Refusal, SessionFacts, TurnResult};

use super::super::slash::{self, Slash};
use super::super::turn::{CONFIRM_WITHIN, Outcome, Turn};
use super::super::{Call, Effect};
use super::{HOLD, Held, Session, State};
use crate::client::{Reply, StopReason, Update};
use crate::coordinator::Prompt;

/// The mode that `/plan` sets.
const PLAN_MODE: &str = "plan";

impl Session {
    /// Carries out the command at the beginning of a prompt. Gives the prompt back if there is none.
    pub(super) fn command(
        &mut self,
        input: InputId,
        prompt: Prompt,
        reply: Reply<StopReason>,
    ) -> Option<(InputId, Prompt, Reply<StopReason>)> {
        let call = match slash::parse(&prompt.text) {
            None => return Some((input, prompt, reply)),
            Some(Slash::Plan(rest)) => {
                self.plan_command(input, Prompt { text: rest, ..prompt }, reply);
                return None;
            }
            Some(Slash::Compact(instructions)) => Call::Compact { input: input.clone(), instructions },
            Some(Slash::Goal { action, objective }) => Call::Goal { input: input.clone(), action, objective },
        };
        self.state = State::Running(Turn::of_command(input, reply, call.clone()));
        self.out.push(Effect::Call(call));
        None
    }

    /// The mode first: the prompt waits for it.
    fn plan_command(&mut self, input: InputId, prompt: Prompt, reply: Reply<StopReason>) {
        self.state = State::Idle;
        self.held = Some(Held { input: input.clone(), prompt, reply, until: self.now + HOLD, plain: true });
        self.set_mode_for(input, PLAN_MODE);
    }

    /// What `/plan` without a prompt says.
    pub(super) fn plan_mode_is_on(&mut self, reply: Reply<StopReason>) {
        let text = "Plan mode is on: ZCode plans and changes nothing until you approve its plan.".to_owned();
        self.show([Update::AgentText { message: None, text }]);
        self.answer(reply, Ok(StopReason::EndTurn));
    }

    pub(super) fn compacted(&mut self, input: &InputId, result: Result<CompactOutcome, CallError>) {
        let result = result.map(|outcome| {
            let text = match (outcome.text.trim(), outcome.already_running) {
                ("", false) => "The conversation was compacted.".to_owned(),
                ("", true) => "The conversation is being compacted already.".to_owned(),
                (text, _) => text.to_owned(),
            };
            (text, outcome.facts)
        });
        self.command_done(input, result);
    }

    pub(super) fn goal_done(&mut self, input: &InputId, result: Result<GoalOutcome, CallError>) {
        let result = result.map(|outcome| {
            let text = match outcome.text.trim() {
                "" if outcome.started_turn => "The goal is set; ZCode has begun to work on it.".to_owned(),
                "" => "Done.".to_owned(),
                text => text.to_owned(),
            };
            (text, outcome.facts)
        });
        self.command_done(input, result);
    }

    fn command_done(&mut self, input: &InputId, result: Result<(String, SessionFacts), CallError>) {
        let (State::Running(turn) | State::Settling(turn)) = &mut self.state else {
            if let Err(CallError::Gone(failure)) = result {
                self.lost(failure);
            }
            return;
        };
        if turn.input.as_ref() != Some(input) {
            return;
        }
        let (text, facts) = match result {
            Ok(done) => done,
            Err(CallError::Gone(failure)) => return self.lost(failure),
            Err(CallError::Refused { why: Refusal::NotActive, .. })
                if !turn.healed && turn.reply.is_some() =>
            {
                turn.healed = true;
                if let Some(call) = turn.call.clone() {
                    self.heal(call);
                }
                return;
            }
            Err(CallError::TimedOut(_)) => {
                let failure = Failure::new(ErrorCode::PromptOutcomeUnknown)
                    .cause("ZCode did not answer the command in time");
                return self.never_began(failure);
            }
            Err(CallError::Refused { failure, .. }) => return self.never_began(failure),
        };
        if let State::Running(turn) = &mut self.state {
            turn.ended = Some((Outcome::Ended(TurnResult::EndTurn), self.now + CONFIRM_WITHIN));
            if turn.cancelled.is_none() {
                self.show([Update::AgentText { message: None, text }]);
            }
            self.facts(&facts);
            self.conclude();
        } else {
            self.facts(&facts);
            self.settled();
        }
    }
}
