//! What the host says.

use std::sync::Arc;

use diag_model::{Detail, ErrorCode, Failure, InputId, SessionId};
use zcode_runtime::model::{
    EventBody, HostEvent, SessionEvent, ToolDisplay, ToolResult, ToolStage, TurnResult, Violation,
};

use super::super::turn::{Foreign, Outcome, PROBE_AFTER, Stop, Turn};
use super::super::{Call, Effect};
use super::{Session, State};
use crate::client::Update;

impl Session {
    pub(super) fn event(&mut self, event: HostEvent) {
        if matches!(self.state, State::Closed(_)) {
            return self.drop_content();
        }
        let Some(event) = self.wait_for_replay(event) else { return };
        match event {
            HostEvent::Lost(_) if self.healing.is_some() => {}
            // A further snapshot tells facts and open asks; the boundary stays the first one's.
            HostEvent::Snapshot(snapshot) => {
                self.facts(&snapshot.facts);
                for ask in snapshot.pending {
                    self.permission(ask);
                }
            }
            HostEvent::Facts(facts) => self.facts(&facts),
            HostEvent::Permission(ask) => self.permission(ask),
            HostEvent::Input(ask) => self.input_ask(ask),
            HostEvent::Headers(ask) => self.headers_ask(ask),
            HostEvent::AskGone(ask) => self.ask_gone(&ask),
            HostEvent::Event(event) => self.numbered(event),
            HostEvent::Violation(violation) => self.violation(&violation),
            HostEvent::Lost(failure) => self.lost(failure),
        }
    }

    fn numbered(&mut self, event: SessionEvent) {
        let SessionEvent { seq, id, turn, body } = event;
        if !self.sequence.admit(seq, &id) {
            return;
        }
        match body {
            EventBody::TurnStarted { input, background: _ } => self.turn_started(turn, input.as_ref()),
            EventBody::Steered { inputs, target } => self.steered(&inputs, &target),
            EventBody::TurnEnded { result, input, .. } => {
                self.turn_over(turn.as_ref(), input.as_ref(), Outcome::Ended(result));
            }
            EventBody::TurnFailed { failure, input } => {
                self.turn_over(turn.as_ref(), input.as_ref(), Outcome::Ended(TurnResult::Error(failure)));
            }
            EventBody::TurnTerminalHint => self.hinted(turn.as_ref()),
            EventBody::SessionClosed => self.host_closed(),
            EventBody::Text { message, delta } => {
                self.content(turn.as_ref(), Update::AgentText { message, text: delta });
            }
            EventBody::Thought { message, delta } => {
                self.content(turn.as_ref(), Update::AgentThought { message, text: delta });
            }
            EventBody::ToolInput(input) => {
                if self.wants(turn.as_ref()) {
                    let updates = self.tools.input(input);
                    self.show(updates);
                } else {
                    self.drop_content();
                }
            }
            EventBody::Tool(tool) => {
                if self.wants(turn.as_ref()) || self.is_open() && self.tools.in_background(&tool.call) {
                    let todos = match &tool.stage {
                        ToolStage::Result(ToolResult { success: true, display: Some(display), .. }) => {
                            match display {
                                ToolDisplay::Todos(todos) if tool.agent.is_none() => Some(todos.clone()),
                                _ => None,
                            }
                        }
                        _ => None,
                    };
                    let alive = self.tools.sign_of_life(&tool, self.now);
                    let updates = self.tools.stage(tool);
                    self.show(alive.into_iter().chain(updates));
                    if let Some(todos) = todos {
                        self.facts.set_todos(todos);
                        self.show_facts();
                    }
                } else {
                    self.drop_content();
                }
            }
            EventBody::Facts(facts) => self.facts(&facts),
            EventBody::AskResolved(ask) => self.ask_gone(&ask),
            EventBody::BackgroundTask(task) => {
                if self.is_open() {
                    let updates = self.tools.task(&task);
                    self.show(updates);
                }
            }
            EventBody::Compaction(stage) => self.compaction(stage),
            EventBody::Retry(retry) => {
                if self.wants(turn.as_ref()) {
                    self.retry(retry);
                }
            }
            EventBody::SessionResumed { .. } | EventBody::Informational(_) => {}
        }
    }

    fn content(&mut self, turn: Option<&Arc<str>>, update: Update) {
        if self.wants(turn) { self.show([update]) } else { self.drop_content() }
    }

    /// Content is shown while a turn runs, except that of turns which are answered or over.
    pub(super) fn wants(&self, turn: Option<&Arc<str>>) -> bool {
        matches!(self.state, State::Running(_) | State::Background(_))
            && !turn.is_some_and(|turn| self.muted.contains(turn))
    }

    fn turn_started(&mut self, id: Option<Arc<str>>, input: Option<&InputId>) {
        // The turn of a prompt that was answered before it began: it runs unseen, and is stopped if it was cancelled.
        let late = input
            .and_then(|input| self.answered.iter_mut().find(|(known, _)| known == input))
            .map(|(_, owed)| std::mem::take(owed));
        match &mut self.state {
            State::Running(turn) if input.is_some() && turn.input.as_ref() == input => {
                turn.begin(id);
                if turn.stop == Stop::Wanted {
                    self.stop();
                }
            }
            State::Running(turn) => {
                turn.foreign = Some(Foreign(id.clone()));
                if turn.started {
                    turn.probe.plan(self.now + PROBE_AFTER);
                }
                if let Some(owed) = late {
                    self.mute(id.as_ref());
                    if owed {
                        self.stop_unnamed();
                    }
                }
            }
            State::Settling(turn)
                if input.is_some() && turn.input.as_ref() == input || id.is_some() && turn.id == id =>
            {
                turn.begin(id.clone());
                let wanted = turn.stop == Stop::Wanted;
                self.mute(id.as_ref());
                if wanted {
                    self.stop();
                }
            }
            State::Idle | State::Settling(_) | State::Background(_) => {
                self.host_turn(id.as_ref(), input, late);
            }
            State::Opening(_) | State::Closing(_) | State::Closed(_) => self.drop_content(),
        }
    }

    /// A turn that no waiting prompt has asked for. The host runs one at a time, so an earlier one is over.
    fn host_turn(&mut self, id: Option<&Arc<str>>, input: Option<&InputId>, late: Option<bool>) {
        if let State::Settling(earlier) | State::Background(earlier) = &self.state {
            let earlier = earlier.id.clone().filter(|earlier| Some(earlier) != id);
            self.mute(earlier.as_ref());
        }
        let mut turn = Turn::of_host(id.cloned());
        if self.held.is_some() || late.is_some() {
            turn.probe.plan(self.now + PROBE_AFTER);
        }
        if let Some(owed) = late {
            turn.input = input.cloned();
            self.mute(id);
            self.state = State::Settling(turn);
            if owed {
                self.stop();
            }
        } else {
            self.state = State::Background(turn);
        }
    }

    /// A stop for a turn this machine does not hold.
    pub(super) fn stop_unnamed(&mut self) {
        self.serial += 1;
        self.out.push(Effect::Call(Call::Stop { stop: self.serial }));
    }

    /// Inputs were taken into a running turn, which belongs to their prompts from here on.
    fn steered(&mut self, inputs: &[InputId], target: &Arc<str>) {
        if let State::Running(turn) | State::Settling(turn) = &mut self.state
            && turn.input.as_ref().is_some_and(|input| inputs.contains(input))
        {
            turn.begin(Some(Arc::clone(target)));
            if turn.stop == Stop::Wanted {
                self.stop();
            }
            if matches!(self.state, State::Settling(_)) {
                self.mute(Some(target));
            }
            return;
        }
        let Some((input, owed)) = self.answered.iter_mut().find(|(known, _)| inputs.contains(known)) else {
            return;
        };
        let (input, owed) = (input.clone(), std::mem::take(owed));
        self.mute(Some(target));
        if matches!(&self.state, State::Background(turn) if turn.id.as_ref() == Some(target))
            && let State::Background(mut turn) = std::mem::replace(&mut self.state, State::Idle)
        {
            turn.input = Some(input);
            turn.probe.plan(self.now + PROBE_AFTER);
            self.show_end_of_tools("not finished: its prompt is already answered", None);
            self.state = State::Settling(turn);
            if owed {
                self.stop();
            }
        } else if owed && self.is_open() {
            self.stop_unnamed();
        }
    }

    fn hinted(&mut self, id: Option<&Arc<str>>) {
        let at = self.now + PROBE_AFTER;
        if let State::Running(turn) | State::Background(turn) | State::Settling(turn) = &mut self.state
            && (id.is_none() || turn.id.is_none() || turn.id.as_ref() == id)
        {
            turn.probe.plan(at);
        }
    }

    pub(super) fn violation(&mut self, violation: &Violation) {
        let session = self.id.as_ref().map(SessionId::as_str);
        tracing::error!(session, kind = %violation.what, state = self.state_name(), "host.violation");
        let failure = Failure::new(ErrorCode::NativeProtocol)
            .cause(format!("ZCode sent something this adapter does not know: {}", violation.what))
            .with(Detail::Unknown, &violation.what);
        self.abort(failure);
    }
}
