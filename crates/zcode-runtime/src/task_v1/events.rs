//! Host events in neutral words, strictly by the contract's catalogues.
//!
//! What the catalogues do not have, and what lacks a member it must have, is a [`Violation`]; nothing is guessed.

use std::sync::Arc;

use diag_model::{AskId, Detail, ErrorCode, Failure, InputId, ToolCallId};
use runtime_discovery::contract::{EventClass, StreamClass, TurnResultClass};
use serde_json::Value;
use serde_json::value::RawValue;
use zcode_protocol::task_v1::event::name;
use zcode_protocol::task_v1::payload::{Payload, Streaming, TurnCompleted};
use zcode_protocol::task_v1::{DynamicEvent, SessionEvent as WireEvent, Text, snapshot};

use super::asks::is_foreign;
use super::updates::session_updated;
use super::{BadEvent, Memory, REMEMBERED, RefusedAsk, TaskV1, facts};
use crate::model::{
    EventBody, HeadersAsk, HostEvent, SessionEvent, SessionFacts, Snapshot, ToolInput, ToolInputPart,
    TurnResult, TurnUsage, Violation,
};

/// What an event means.
#[derive(Debug, Default)]
pub(crate) struct Neutral {
    /// For the session; none when it means nothing to it.
    pub(crate) event: Option<HostEvent>,
    /// A question in it that is outside the contract and has to be answered with no.
    pub(crate) refuse: Option<RefusedAsk>,
}

pub(super) type Read<T> = Result<T, Violation>;

fn violation(what: impl Into<String>) -> Violation {
    Violation { what: what.into() }
}

pub(super) fn unknown(kind: &str, foreign: &str) -> Violation {
    violation(format!("{kind} {}", name(foreign)))
}

pub(super) fn lacks(event: &str, kind: &str, field: &str) -> Violation {
    violation(format!("{event} {kind} lacks {field}"))
}

pub(super) fn arc(text: &Text<'_>) -> Arc<str> {
    text.to_arc()
}

pub(super) fn call(text: &Text<'_>) -> ToolCallId {
    ToolCallId::new(text.to_arc())
}

fn input(text: &Text<'_>) -> InputId {
    InputId::new(text.to_arc())
}

/// Passed-on JSON. It was well-formed when the line was read.
pub(super) fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or(Value::Null)
}

/// Text as it is, anything else as its JSON.
pub(super) fn text_of(raw: &RawValue) -> String {
    match raw.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw.get()).unwrap_or_default(),
        Some(b'n') => String::new(),
        _ => raw.get().to_owned(),
    }
}

impl TaskV1 {
    /// What an event means.
    pub(crate) fn neutral(&self, event: Result<DynamicEvent<'_>, BadEvent>, memory: &mut Memory) -> Neutral {
        let refused = |violation: Violation, refuse: Option<RefusedAsk>| {
            tracing::warn!(reason = violation.what, "host.event.violation");
            Neutral { event: Some(HostEvent::Violation(violation)), refuse }
        };
        let event = match event {
            Ok(event) if is_foreign(memory, &event) => {
                memory.count_foreign();
                return Neutral::default();
            }
            Ok(event) => event,
            Err(BadEvent { ask: Some(ask), .. }) if memory.is_other(ask.session.as_deref()) => {
                memory.count_foreign();
                return Neutral::default();
            }
            Err(BadEvent { error, ask }) => {
                return refused(violation(error.to_string()), ask.map(|ask| ask.ask));
            }
        };
        let ask = match &event {
            DynamicEvent::PermissionRequest(request) => Some(RefusedAsk::permission(request)),
            DynamicEvent::Snapshot(snapshot) => {
                let mut pending =
                    snapshot.projection.pending_permissions.iter().filter_map(|one| one.0.as_ref());
                pending.find(|one| self.permission(one).is_err()).map(RefusedAsk::permission)
            }
            _ => None,
        };
        match self.event(event, memory) {
            Ok(event) => Neutral { event, refuse: None },
            Err(violation) => refused(violation, ask),
        }
    }

    fn event(&self, event: DynamicEvent<'_>, memory: &mut Memory) -> Read<Option<HostEvent>> {
        let known = &self.contract.protocol.dynamic_events;
        let expect =
            |kind: &str| if known.contains_key(kind) { Ok(()) } else { Err(unknown("event type", kind)) };
        Ok(Some(match event {
            DynamicEvent::Session(event) => {
                expect("session.event")?;
                HostEvent::Event(self.session_event(event, memory)?)
            }
            DynamicEvent::Snapshot(snapshot) => {
                expect("snapshot")?;
                HostEvent::Snapshot(self.snapshot(&snapshot)?)
            }
            DynamicEvent::StateUpdated(notification) => {
                expect("state.updated")?;
                let facts = facts::of_notification(*notification);
                if facts == SessionFacts::default() {
                    return Ok(None);
                }
                HostEvent::Facts(facts)
            }
            DynamicEvent::PermissionRequest(request) => {
                expect("permission.request")?;
                HostEvent::Permission(self.permission(&request)?)
            }
            DynamicEvent::UserInputRequest(request) => {
                expect("userInput.request")?;
                HostEvent::Input(self.input_ask(*request))
            }
            DynamicEvent::UserInputResponse { request_id } => {
                expect("userInput.response")?;
                HostEvent::AskGone(AskId::new(arc(&request_id)))
            }
            DynamicEvent::HeadersRequest(request) => {
                expect("providerRuntimeHeaders.request")?;
                HostEvent::Headers(HeadersAsk { id: AskId::new(arc(&request.request_id)) })
            }
            // A contract may know more types than this program has readers for; only those without effect may pass.
            DynamicEvent::Unknown(kind) => return Err(unknown("event type", &kind)),
        }))
    }

    pub(super) fn snapshot(&self, snapshot: &snapshot::Snapshot<'_>) -> Read<Snapshot> {
        let pending = snapshot.projection.pending_permissions.iter().filter_map(|request| request.0.as_ref());
        Ok(Snapshot {
            event_seq: snapshot.runtime.event_seq,
            running: facts::is_running(snapshot),
            facts: facts::of_snapshot(snapshot),
            pending: pending.map(|request| self.permission(request)).collect::<Read<_>>()?,
        })
    }

    fn session_event(&self, event: WireEvent<'_>, memory: &mut Memory) -> Read<SessionEvent> {
        let Some(class) = self.contract.protocol.session_events.get(&*event.kind) else {
            return Err(unknown("event type", &event.kind));
        };
        let body = match event.payload {
            Payload::Streaming(streaming) => self.streaming(streaming, memory)?,
            Payload::Tool(update) => self.tool(&update, memory)?,
            Payload::TurnStarted(started) => EventBody::TurnStarted {
                background: started.background_source.is_some()
                    || started.input_source.as_deref() == Some("background_task"),
                input: started.input_id.as_ref().map(input),
            },
            Payload::SteerQueued(queued) => {
                if let Some(id) = queued.input_id.as_ref().filter(|_| memory.queued.len() < REMEMBERED) {
                    memory.queued.insert(queued.pending_input_id.to_string(), input(id));
                }
                EventBody::Informational("turn.steerQueued")
            }
            Payload::SteerDrained(drained) => EventBody::Steered {
                // An input the host did not name keeps the host's own id, which no prompt has.
                inputs: drained
                    .pending_input_ids
                    .iter()
                    .map(|id| memory.queued.remove(&**id).unwrap_or_else(|| input(id)))
                    .collect(),
                target: arc(&drained.target_turn_id),
            },
            Payload::TurnCompleted(completed) => self.turn_ended(&completed)?,
            Payload::TurnFailed(failed) => EventBody::TurnFailed {
                failure: self.turn_failure(&failed.error),
                input: failed.input_id.as_ref().map(input),
            },
            Payload::SessionUpdated(updated) => session_updated(&updated),
            Payload::Title(title) if title.title.trim().is_empty() => {
                EventBody::Informational("session.titleUpdated")
            }
            Payload::Title(title) => {
                EventBody::Facts(SessionFacts { title: Some(arc(&title.title)), ..SessionFacts::default() })
            }
            Payload::Resolved(resolved) => match &resolved.request_id {
                Some(id) => EventBody::AskResolved(AskId::new(arc(id))),
                None => EventBody::Informational(informational_name(&event.kind)),
            },
            Payload::SessionResumed(resumed) => {
                EventBody::SessionResumed { message_count: resumed.message_count.0 }
            }
            Payload::SessionClosed => EventBody::SessionClosed,
            Payload::TurnTerminal => EventBody::TurnTerminalHint,
            Payload::Other if *class == EventClass::Informational => {
                EventBody::Informational(informational_name(&event.kind))
            }
            // The contract says that it matters, and this program has no reader for it.
            Payload::Other => return Err(unknown("event type", &event.kind)),
        };
        Ok(SessionEvent {
            seq: event.seq,
            id: arc(&event.event_id),
            turn: event.turn_id.as_ref().map(arc),
            body,
        })
    }

    fn streaming(&self, streaming: Streaming<'_>, memory: &mut Memory) -> Read<EventBody> {
        const EVENT: &str = "model.streaming";
        let kind = &*streaming.kind;
        let Some(class) = self.contract.protocol.model_stream_kinds.get(kind) else {
            return Err(unknown("model.streaming kind", kind));
        };
        let message = streaming.assistant_message_id.as_ref().map(arc);
        let part = match class {
            StreamClass::Text | StreamClass::Thought => {
                let delta = streaming.delta.ok_or_else(|| lacks(EVENT, kind, "delta"))?.into_owned();
                return Ok(match class {
                    StreamClass::Text => EventBody::Text { message, delta },
                    _ => EventBody::Thought { message, delta },
                });
            }
            StreamClass::Informational => return Ok(EventBody::Informational(EVENT)),
            StreamClass::ToolCall => match streaming.input {
                Some(input) => ToolInputPart::Complete(value(input)),
                None => ToolInputPart::End,
            },
            StreamClass::ToolInput => match kind {
                "tool_input_start" => ToolInputPart::Start,
                "tool_input_delta" => ToolInputPart::Delta(
                    streaming.delta.ok_or_else(|| lacks(EVENT, kind, "delta"))?.into_owned(),
                ),
                "tool_input_end" => ToolInputPart::End,
                _ => return Err(unknown("model.streaming kind", kind)),
            },
        };
        let id =
            streaming.tool_call_id.as_ref().ok_or_else(|| lacks(EVENT, &streaming.kind, "toolCallId"))?;
        memory.note_tool(id, streaming.tool_name.as_deref());
        Ok(EventBody::ToolInput(ToolInput {
            call: call(id),
            tool: streaming.tool_name.as_ref().map(arc),
            part,
        }))
    }

    fn turn_ended(&self, completed: &TurnCompleted<'_>) -> Read<EventBody> {
        let result = match self.contract.protocol.turn_results.get(&*completed.result_type) {
            None => return Err(unknown("turn result", &completed.result_type)),
            Some(TurnResultClass::EndTurn) => TurnResult::EndTurn,
            Some(TurnResultClass::MaxTokens) => TurnResult::MaxTokens,
            Some(TurnResultClass::MaxTurnRequests) => TurnResult::MaxTurnRequests,
            Some(TurnResultClass::Refusal) => TurnResult::Refusal,
            Some(TurnResultClass::Cancelled) => TurnResult::Cancelled,
            Some(TurnResultClass::Error) => {
                let result = name(&completed.result_type);
                TurnResult::Error(
                    Failure::new(ErrorCode::TurnFailed)
                        .cause(format!("the turn failed ({result})"))
                        .with(Detail::UpstreamCode, result),
                )
            }
        };
        Ok(EventBody::TurnEnded {
            result,
            input: completed.input_id.as_ref().map(input),
            usage: turn_usage(completed),
        })
    }
}

/// Nothing is made of a usage that counts nothing: a host that did not ask a provider has no figures, not zeros.
fn turn_usage(completed: &TurnCompleted<'_>) -> Option<TurnUsage> {
    let usage = completed.usage.0?;
    let (input, output) = (usage.input_tokens?, usage.output_tokens?);
    let total = usage.total_tokens.unwrap_or_else(|| input.saturating_add(output));
    (input > 0 || output > 0 || total > 0).then_some(TurnUsage {
        total,
        input,
        output,
        thought: usage.reasoning_tokens,
        cached_read: usage.cache_read_tokens,
        cached_write: usage.cache_write_tokens,
    })
}

/// Static names of the types without effect, for records.
fn informational_name(kind: &str) -> &'static str {
    const NAMES: &[&str] = &[
        "session.created",
        "session.updated",
        "message.upserted",
        "message.removed",
        "part.started",
        "part.upserted",
        "part.delta",
        "part.removed",
        "permission.requested",
        "permission.resolved",
        "userInput.requested",
        "userInput.resolved",
        "checkpoint.created",
        "rewind.triggered",
        "streamRecovery.updated",
        "workflow.run.progress",
    ];
    NAMES.iter().find(|name| **name == kind).copied().unwrap_or("informational")
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
