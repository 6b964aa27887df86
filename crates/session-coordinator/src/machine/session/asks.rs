//! The host's questions: they are put to the client, and what cannot be served is refused at once.

use std::fmt::Write as _;
use std::sync::Arc;

use diag_model::{AskId, ErrorCode, Failure, SessionId, ToolCallId};
use serde_json::{Value, json};
use zcode_runtime::model::{
    CallError, Decision, HeadersAsk, InputAnswer, InputAsk, PermissionAsk, Todo, TodoPriority, TodoStatus,
    Violation,
};

use super::super::interaction::{OPEN_LIMIT, Verdict, choices};
use super::super::question::{Asking, PLAN};
use super::super::turn::Stop;
use super::super::{Call, Effect};
use super::{Session, State};
use crate::client::{FormAnswer, PermissionAnswer, PermissionPrompt, ToolContent, ToolPatch, Update};

/// Text of a question or plan shown with its refusal, characters.
const QUOTE_LIMIT: usize = 16 * 1024;
/// ZCode's tool that presents a plan.
const PLAN_TOOL: &str = "ExitPlanMode";
/// Plans proposed at once that are shown as proposals.
const PROPOSALS: usize = 16;

/// A plan that is shown and waits for its approval, or for the end of the turn that carries it out.
#[derive(Debug)]
pub(super) struct Proposal {
    ask: AskId,
}

impl Proposal {
    fn id(&self) -> String {
        format!("zcode-plan-proposal:{}", self.ask)
    }

    /// As an entry of the todo list, for clients that do not know plans of text.
    pub(super) fn entry() -> Todo {
        Todo {
            content: "Review the proposed plan".to_owned(),
            status: TodoStatus::InProgress,
            priority: TodoPriority::High,
        }
    }
}

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
        if &*ask.tool == PLAN_TOOL {
            let plan = ask.input.get("plan").and_then(Value::as_str).filter(|plan| !plan.trim().is_empty());
            let known = |decision| matches!(decision, Decision::Allow | Decision::Deny);
            let what = match plan {
                None => Some("a plan approval without a plan"),
                Some(_) if ask.options.iter().any(|option| !known(option.decision)) => {
                    Some("a plan approval with an option that neither allows nor denies")
                }
                Some(_) => None,
            };
            if let Some(what) = what {
                let verdict = self.asks.refuse(&ask);
                self.carry_out(ask.id, verdict);
                return self.violation(&Violation { what: what.to_owned() });
            }
            if let Some(plan) = plan.map(str::to_owned) {
                self.propose(&ask.id, Some(&ask.call), &plan);
            }
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

    pub(super) fn permission_answered(&mut self, key: &AskId, answer: &PermissionAnswer) {
        let Some(ask) = self.asks.host_id(key) else { return };
        if let Some(verdict) = self.asks.answer(key, answer) {
            self.carry_out(ask, verdict);
        }
    }

    pub(super) fn form_answered(&mut self, key: &AskId, answer: FormAnswer) {
        let Some(ask) = self.asks.host_id(key) else { return };
        if let Some(verdict) = self.asks.fill(key, answer) {
            self.carry_out(ask, verdict);
        }
    }

    fn carry_out(&mut self, ask: AskId, verdict: Verdict) {
        match verdict {
            Verdict::Option(option) => {
                if !self.asks.allowed(&ask) {
                    self.withdraw_proposal(&ask);
                }
                self.out.push(Effect::Call(Call::AnswerPermission { ask, option }));
            }
            Verdict::Input(answer) => {
                if !matches!(answer, InputAnswer::Accept(_)) {
                    self.withdraw_proposal(&ask);
                }
                self.out.push(Effect::Call(Call::AnswerInput { ask, answer }));
            }
            Verdict::Next(key) => {
                let Some(asking) = self.asks.asking(&key) else { return };
                let call = self.input_calls.iter().find(|(known, _)| *known == ask);
                let call = call.map_or_else(|| own_call(&ask), |(_, call)| call.clone());
                let prompt = asking.prompt(call, None);
                self.out.push(Effect::Ask { ask: key, prompt });
            }
            Verdict::Stop => {
                self.withdraw_proposal(&ask);
                if matches!(self.state, State::Idle) { self.stop_unnamed() } else { self.stop() }
            }
        }
    }

    /// Takes a question back from the client and denies it.
    pub(super) fn deny(&mut self, ask: &AskId) {
        if let Some((key, verdict)) = self.asks.deny(ask) {
            self.out.push(Effect::Withdraw { ask: key });
            self.carry_out(ask.clone(), verdict);
        }
    }

    pub(super) fn deny_pending(&mut self, main_only: bool) {
        for ask in self.asks.pending_ids(main_only) {
            self.deny(&ask);
        }
    }

    pub(super) fn ask_gone(&mut self, ask: &AskId) {
        if let Some(key) = self.asks.gone(ask) {
            self.out.push(Effect::Withdraw { ask: key });
            self.withdraw_proposal(ask);
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

    /// A question or a plan.
    pub(super) fn input_ask(&mut self, ask: InputAsk) {
        if self.asks.known(&ask.id) {
            return self.drop_content();
        }
        if self.refuses_asks(false) {
            return self.answer_input(ask.id, InputAnswer::Cancel);
        }
        let plan = (ask.interaction.as_deref() == Some(PLAN)).then(|| ask.plan.clone().unwrap_or_default());
        if let Some(plan) = &plan {
            let what = match &ask.questions[..] {
                _ if plan.trim().is_empty() => Some("a plan approval without a plan"),
                [question] if !question.options.is_empty() && !question.multi => None,
                _ => Some("a plan approval without its options"),
            };
            if let Some(what) = what {
                self.answer_input(ask.id, InputAnswer::Decline);
                return self.violation(&Violation { what: what.to_owned() });
            }
        }
        let full = self.asks.open() >= OPEN_LIMIT;
        let asking =
            if full { Err("too much is being asked at once") } else { Asking::of(&ask, self.client.forms) };
        let asking = match asking {
            Ok(asking) => asking,
            Err(why) => {
                let text = refusal_text(&ask, why);
                self.answer_input(ask.id, InputAnswer::Decline);
                return self.show([Update::AgentText { message: None, text }]);
            }
        };
        let call = ask.call.clone().unwrap_or_else(|| own_call(&ask.id));
        if let Some(plan) = &plan {
            self.propose(&ask.id, ask.call.as_ref(), plan);
        }
        if self.input_calls.len() >= OPEN_LIMIT {
            self.input_calls.remove(0);
        }
        self.input_calls.push((ask.id.clone(), call.clone()));
        let effect = if self.client.forms {
            Effect::AskForm { ask: ask.id.clone(), form: asking.form(ask.call.clone()) }
        } else {
            Effect::Ask { ask: ask.id.clone(), prompt: asking.prompt(call, plan.as_deref()) }
        };
        self.asks.ask_input(&ask.id, asking, self.permission_timeout.map(|limit| self.now + limit));
        self.out.push(effect);
    }

    fn answer_input(&mut self, ask: AskId, answer: InputAnswer) {
        self.asks.answered_at_once(ask.clone());
        self.out.push(Effect::Call(Call::AnswerInput { ask, answer }));
    }

    /// Shows a plan before it is asked about.
    fn propose(&mut self, ask: &AskId, call: Option<&ToolCallId>, text: &str) {
        if self.proposals.len() < PROPOSALS {
            let proposal = Proposal { ask: ask.clone() };
            if self.client.plans {
                self.show([Update::Proposal { id: proposal.id(), text: text.to_owned() }]);
            }
            self.proposals.push(proposal);
        }
        if self.client.plans {
            return;
        }
        self.show_plan();
        match call {
            Some(call) => {
                let (updates, description) =
                    self.tools.asked(call, &Arc::from(PLAN_TOOL), &json!({ "plan": text }));
                let told = updates.iter().any(|update| match update {
                    Update::ToolCall(view) => view.patch().content.is_some(),
                    Update::ToolUpdate(patch) => patch.content.is_some(),
                    _ => false,
                });
                self.show(updates);
                if !told {
                    let mut patch = ToolPatch::new(call.clone());
                    patch.content =
                        description.content.or_else(|| Some(vec![ToolContent::Text(text.to_owned())]));
                    self.show([Update::ToolUpdate(patch)]);
                }
            }
            None => self.show([Update::AgentText { message: None, text: format!("\n\n{text}\n\n") }]),
        }
    }

    fn withdraw_proposal(&mut self, ask: &AskId) {
        let Some(index) = self.proposals.iter().position(|proposal| proposal.ask == *ask) else { return };
        let proposal = self.proposals.remove(index);
        if self.client.plans {
            self.show([Update::ProposalGone { id: proposal.id() }]);
        } else {
            self.show_plan();
        }
    }

    /// A turn is over, and with it the plan it carried out.
    pub(super) fn withdraw_proposals(&mut self) {
        let waiting = self.asks.pending_ids(false);
        let over: Vec<_> = self.proposals.iter().map(|proposal| proposal.ask.clone()).collect();
        for ask in over.into_iter().filter(|ask| !waiting.contains(ask)) {
            self.withdraw_proposal(&ask);
        }
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

/// A call of our own, for a question that belongs to none.
fn own_call(ask: &AskId) -> ToolCallId {
    format!("zcode-acp-question:{ask}").into()
}

/// One sentence that says what was asked and why it was declined.
fn refusal_text(ask: &InputAsk, why: &str) -> String {
    let cut = |text: &str| text.chars().take(QUOTE_LIMIT).collect::<String>();
    let mut asked = String::new();
    for question in &ask.questions {
        let _ = write!(asked, "{}\"{}\"", if asked.is_empty() { "" } else { " and " }, question.question);
    }
    let asked = if asked.is_empty() { "for an input".to_owned() } else { cut(&asked) };
    format!("\n\nZCode asked {asked}; it was declined, because {why}.\n\n")
}
