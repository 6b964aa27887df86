//! The host's questions: permissions go to the client, what cannot be served is refused at once.

use std::fmt::Write as _;

use diag_model::{AskId, ErrorCode, Failure, SessionId};
use zcode_runtime::model::{CallError, HeadersAsk, InputAnswer, InputAsk, PermissionAsk};

use super::super::interaction::{OPEN_LIMIT, Verdict, choices};
use super::super::turn::Stop;
use super::super::{Call, Effect};
use super::{Session, State};
use crate::client::{PermissionAnswer, PermissionPrompt, Update};

/// Text of a question or plan shown with its refusal, characters.
const QUOTE_LIMIT: usize = 16 * 1024;

impl Session {
    pub(super) fn permission(&mut self, ask: PermissionAsk) {
        if self.asks.known(&ask.id) {
            return self.drop_content();
        }
        let options = choices(&ask.options);
        if options.len() < ask.options.len() {
            let count = ask.options.len() - options.len();
            let session = self.id.as_ref().map(SessionId::as_str);
            tracing::info!(session, ask = %ask.id, count, "permission.options_left_out");
        }
        if options.is_empty() || self.asks.open() >= OPEN_LIMIT || self.refuses_asks(ask.subagent) {
            let verdict = self.asks.refuse(&ask);
            return self.carry_out(ask.id, verdict);
        }
        self.asks.ask(&ask, self.permission_timeout.map(|limit| self.now + limit));
        let shown = matches!(self.state, State::Running(_) | State::Background(_));
        let call = if shown || self.tools.in_background(&ask.call) {
            let (updates, call) = self.tools.asked(&ask.call, &ask.tool, &ask.input);
            self.show(updates);
            call
        } else {
            self.tools.describe(&ask.call, &ask.tool, &ask.input)
        };
        self.out.push(Effect::Ask { ask: ask.id, prompt: PermissionPrompt { call, options } });
    }

    /// Asks are denied unseen while a turn is being ended and while nobody can answer.
    fn refuses_asks(&self, subagent: bool) -> bool {
        match &self.state {
            State::Running(turn) => {
                turn.cancelled.is_some() || turn.stop != Stop::No || turn.ended.is_some() && !subagent
            }
            State::Background(turn) | State::Settling(turn) => {
                turn.cancelled.is_some() || turn.stop != Stop::No
            }
            State::Idle => false,
            State::Opening(_) | State::Closing(_) | State::Closed(_) => true,
        }
    }

    pub(super) fn permission_answered(&mut self, ask: &AskId, answer: &PermissionAnswer) {
        if let Some(verdict) = self.asks.answer(ask, answer) {
            self.carry_out(ask.clone(), verdict);
        }
    }

    fn carry_out(&mut self, ask: AskId, verdict: Verdict) {
        match verdict {
            Verdict::Option(option) => self.out.push(Effect::Call(Call::AnswerPermission { ask, option })),
            Verdict::Stop if matches!(self.state, State::Idle) => self.stop_unnamed(),
            Verdict::Stop => self.stop(),
        }
    }

    /// Takes a question back from the client and denies it.
    pub(super) fn deny(&mut self, ask: &AskId) {
        if let Some(verdict) = self.asks.deny(ask) {
            self.out.push(Effect::Withdraw { ask: ask.clone() });
            self.carry_out(ask.clone(), verdict);
        }
    }

    pub(super) fn deny_pending(&mut self, main_only: bool) {
        for ask in self.asks.pending_ids(main_only) {
            self.deny(&ask);
        }
    }

    pub(super) fn ask_gone(&mut self, ask: &AskId) {
        if self.asks.gone(ask) {
            self.out.push(Effect::Withdraw { ask: ask.clone() });
        }
    }

    pub(super) fn ask_answered(&mut self, ask: &AskId, result: Result<bool, CallError>) {
        self.asks.confirmed(ask);
        match result {
            Ok(_) => {}
            Err(CallError::Gone(failure)) => self.lost(failure),
            Err(error) => self.note("ask.answer_refused", error.failure()),
        }
    }

    /// Questions and plans cannot be put to the client yet: declined at once, and said so.
    pub(super) fn input_ask(&mut self, ask: InputAsk) {
        if self.asks.known(&ask.id) {
            return self.drop_content();
        }
        self.asks.answered_at_once(ask.id.clone());
        let answer = if self.refuses_asks(false) { InputAnswer::Cancel } else { InputAnswer::Decline };
        if self.wants(None) && answer == InputAnswer::Decline {
            let text = refusal_text(&ask);
            self.show([Update::AgentText { message: None, text }]);
        }
        self.out.push(Effect::Call(Call::AnswerInput { ask: ask.id, answer }));
    }

    /// Headers only the desktop app can make: refused at once, and the prompt ends with that reason.
    pub(super) fn headers_ask(&mut self, ask: HeadersAsk) {
        if self.asks.known(&ask.id) {
            return self.drop_content();
        }
        self.asks.answered_at_once(ask.id.clone());
        if let State::Running(turn) = &mut self.state {
            turn.verdict.get_or_insert_with(|| Failure::new(ErrorCode::DesktopOnlyPlan));
        }
        self.out.push(Effect::Call(Call::RefuseHeaders { ask: ask.id }));
    }
}

/// One sentence that says what was asked and that it was declined; a plan follows whole.
fn refusal_text(ask: &InputAsk) -> String {
    let cut = |text: &str| text.chars().take(QUOTE_LIMIT).collect::<String>();
    if ask.interaction.as_deref() == Some("plan_approval") || ask.plan.is_some() {
        let mut text =
            "\n\nZCode asked for approval of its plan; this adapter cannot ask you for that yet, so it was \
                        declined and ZCode keeps planning.\n\n"
                .to_owned();
        if let Some(plan) = &ask.plan {
            let _ = write!(text, "{}\n\n", cut(plan));
        }
        return text;
    }
    let questions: Vec<_> =
        ask.questions.iter().map(|question| format!("\"{}\"", question.question)).collect();
    let asked = if questions.is_empty() { "for an input".to_owned() } else { cut(&questions.join(" and ")) };
    format!("\n\nZCode asked {asked}; this adapter cannot put questions to you yet, so it was declined.\n\n")
}
