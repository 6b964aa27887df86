//! The end of a session: by the client, by the host, or with the agent.

use diag_model::{ErrorCode, Failure};
use zcode_runtime::model::{CallError, Refusal};

use super::super::{Call, CloseCause, Effect};
use super::opening::named;
use super::{CLOSE_WITHIN, Closing, Session, State};
use crate::client::{Reply, StopReason};

/// Close requests that wait for one close.
const CLOSE_REPLIES: usize = 16;

impl Session {
    pub(super) fn close(&mut self, reply: Reply<()>) {
        let result = match &mut self.state {
            State::Closing(closing) if closing.replies.len() < CLOSE_REPLIES => {
                return closing.replies.push(reply);
            }
            State::Closing(_) => Err(Failure::new(ErrorCode::QueueFull)),
            State::Closed(_) => Ok(()),
            State::Opening(_) => Err(Failure::new(ErrorCode::SessionNotFound)),
            State::Idle | State::Background(_) | State::Running(_) | State::Settling(_) => {
                self.deny_pending(false);
                self.stop();
                self.withdraw_prompts();
                self.drop_requests(&Failure::new(ErrorCode::SessionClosed));
                self.out.push(Effect::Call(Call::Close));
                let until = self.now + CLOSE_WITHIN;
                self.state =
                    State::Closing(Closing { replies: vec![reply], cause: CloseCause::Client, until });
                return;
            }
        };
        self.out.push(Effect::AnswerClose { reply, result });
    }

    /// Every prompt is answered `cancelled`. Leaves no turn behind.
    fn withdraw_prompts(&mut self) {
        let now = self.now;
        if let State::Running(mut turn) = std::mem::replace(&mut self.state, State::Idle) {
            turn.cancelled.get_or_insert(now);
            self.answer_turn(&mut turn);
        }
        if let Some(held) = self.held.take() {
            self.answer(held.reply, Ok(StopReason::Cancelled));
        }
        self.fence = None;
    }

    pub(super) fn closed(&mut self, result: Result<(), CallError>) {
        let result = match result {
            // Gone, with its host or by itself, is what was wanted.
            Ok(()) | Err(CallError::Gone(_) | CallError::Refused { why: Refusal::NotActive, .. }) => Ok(()),
            Err(error) => Err(named(error.failure().clone(), self.id.as_ref())),
        };
        self.finish_closing(&result);
    }

    pub(super) fn close_overdue(&mut self) {
        let failure =
            Failure::new(ErrorCode::SessionRefused).cause("ZCode did not confirm the close in time");
        self.finish_closing(&Err(named(failure, self.id.as_ref())));
    }

    pub(super) fn finish_closing(&mut self, result: &Result<(), Failure>) {
        if !matches!(self.state, State::Closing(_)) {
            return;
        }
        if let State::Closing(closing) = std::mem::replace(&mut self.state, State::Idle) {
            for reply in closing.replies {
                self.out.push(Effect::AnswerClose { reply, result: result.clone() });
            }
            self.state = State::Closed(closing.cause);
        }
    }

    /// The event stream or the whole host is gone: nothing more can be known of the session.
    pub(super) fn lost(&mut self, failure: Failure) {
        match &self.state {
            State::Opening(_) | State::Closed(_) => return,
            State::Closing(_) => return self.finish_closing(&Ok(())),
            State::Idle | State::Background(_) | State::Running(_) | State::Settling(_) => {}
        }
        let failure = self.fail_prompts(failure);
        // If the host is still there, it must not go on unseen.
        self.out.push(Effect::Call(Call::Close));
        let until = self.now + CLOSE_WITHIN;
        self.state =
            State::Closing(Closing { replies: Vec::new(), cause: CloseCause::Failed(failure), until });
    }

    /// The host has closed the session by itself.
    pub(super) fn host_closed(&mut self) {
        match &self.state {
            State::Opening(_) | State::Closed(_) => {}
            State::Closing(_) => self.finish_closing(&Ok(())),
            State::Idle | State::Background(_) | State::Running(_) | State::Settling(_) => {
                let failure = Failure::new(ErrorCode::SessionClosed).cause("ZCode closed the session");
                let failure = self.fail_prompts(failure);
                self.state = State::Closed(CloseCause::Failed(failure));
            }
        }
    }

    /// Every prompt is answered with the failure, or `cancelled` if the client had asked for that.
    fn fail_prompts(&mut self, failure: Failure) -> Failure {
        let failure = named(failure, self.id.as_ref());
        self.note("session.lost", &failure);
        self.deny_pending(false);
        let state = std::mem::replace(&mut self.state, State::Idle);
        if let State::Running(mut turn) = state {
            if turn.ended.is_none() {
                turn.verdict = Some(failure.clone());
            }
            self.answer_turn(&mut turn);
        } else {
            self.show_end_of_tools("not finished", Some(&failure));
        }
        if let Some(held) = self.held.take() {
            let unsent = failure.clone().next_step("your prompt was not sent; start a new session");
            self.answer(held.reply, Err(unsent));
        }
        self.drop_requests(&failure);
        self.fence = None;
        failure
    }

    pub(super) fn shutdown(&mut self) {
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Opening(opening) => {
                self.state = State::Opening(opening);
                self.refuse(Failure::new(ErrorCode::ShuttingDown));
            }
            State::Closing(closing) => {
                self.state = State::Closing(closing);
                self.finish_closing(&Ok(()));
            }
            State::Closed(cause) => {
                self.state = State::Closed(cause);
                return;
            }
            state => {
                self.state = state;
                self.deny_pending(false);
                self.withdraw_prompts();
                self.drop_requests(&Failure::new(ErrorCode::ShuttingDown));
            }
        }
        self.replay = None;
        self.waiting.clear();
        self.state = State::Closed(CloseCause::Shutdown);
    }
}
