//! Host events in neutral words, strictly by the contract's catalogues.
//!
//! What the catalogues do not have, and what lacks a member it must have, is a [`Violation`]; nothing is guessed.

use std::sync::Arc;

use diag_model::{AskId, Detail, ErrorCode, Failure, InputId, ToolCallId};
use runtime_discovery::contract::{EventClass, StreamClass, ToolUpdateClass, TurnResultClass};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use zcode_protocol::task_v1::event::name;
use zcode_protocol::task_v1::payload::{
    Display, Payload, SessionUpdated, Streaming, ToolUpdated, TurnCompleted,
};
use zcode_protocol::task_v1::{DynamicEvent, EventError, SessionEvent as WireEvent, Text, ask, snapshot};

use super::{Memory, TaskV1, facts};
use crate::model::{
    ContextUsage, Decision, DiffHunk, EventBody, HeadersAsk, HostEvent, InputAsk, PermissionAsk,
    PermissionOption, Question, QuestionOption, SessionEvent, SessionFacts, Snapshot, ToolDisplay, ToolEvent,
    ToolInput, ToolInputPart, ToolResult, ToolStage, TurnResult, Violation,
};

/// Queued inputs that are remembered.
const QUEUED: usize = 64;

type Read<T> = Result<T, Violation>;

fn violation(what: impl Into<String>) -> Violation {
    Violation { what: what.into() }
}

fn unknown(kind: &str, foreign: &str) -> Violation {
    violation(format!("{kind} {}", name(foreign)))
}

fn lacks(event: &str, kind: &str, field: &str) -> Violation {
    violation(format!("{event} {kind} lacks {field}"))
}

fn arc(text: &Text<'_>) -> Arc<str> {
    text.to_arc()
}

fn call(text: &Text<'_>) -> ToolCallId {
    ToolCallId::new(text.to_arc())
}

fn input(text: &Text<'_>) -> InputId {
    InputId::new(text.to_arc())
}

/// Passed-on JSON. It was well-formed when the line was read.
fn value(raw: &RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap_or(Value::Null)
}

/// Text as it is, anything else as its JSON.
fn text_of(raw: &RawValue) -> String {
    match raw.get().as_bytes().first() {
        Some(b'"') => serde_json::from_str(raw.get()).unwrap_or_default(),
        Some(b'n') => String::new(),
        _ => raw.get().to_owned(),
    }
}

impl TaskV1 {
    /// What an event means; none when it means nothing to the session machines.
    pub(crate) fn neutral(
        &self,
        event: Result<DynamicEvent<'_>, EventError>,
        memory: &mut Memory,
    ) -> Option<HostEvent> {
        let read =
            event.map_err(|error| violation(error.to_string())).and_then(|event| self.event(event, memory));
        match read {
            Ok(event) => event,
            Err(violation) => {
                tracing::warn!(reason = violation.what, "host.event.violation");
                Some(HostEvent::Violation(violation))
            }
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
            Payload::Streaming(streaming) => self.streaming(streaming)?,
            Payload::Tool(update) => self.tool(&update)?,
            Payload::TurnStarted(started) => EventBody::TurnStarted {
                background: started.background_source.is_some()
                    || started.input_source.as_deref() == Some("background_task"),
                input: started.input_id.as_ref().map(input),
            },
            Payload::SteerQueued(queued) => {
                if let Some(id) = queued.input_id.as_ref().filter(|_| memory.queued.len() < QUEUED) {
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
            Payload::SessionClosed => EventBody::SessionClosed,
            Payload::TurnTerminal => EventBody::TurnTerminalHint,
            Payload::Other if *class == EventClass::Informational || &*event.kind == "session.resumed" => {
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

    fn streaming(&self, streaming: Streaming<'_>) -> Read<EventBody> {
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
        Ok(EventBody::ToolInput(ToolInput {
            call: call(id),
            tool: streaming.tool_name.as_ref().map(arc),
            part,
        }))
    }

    fn tool(&self, update: &ToolUpdated<'_>) -> Read<EventBody> {
        const EVENT: &str = "tool.updated";
        let kind = &*update.kind;
        let Some(class) = self.contract.protocol.tool_update_kinds.get(kind) else {
            return Err(unknown("tool.updated kind", kind));
        };
        let stage = match class {
            ToolUpdateClass::Informational => return Ok(EventBody::Informational(EVENT)),
            ToolUpdateClass::Pending => ToolStage::Scheduled {
                input: update.input.filter(|_| update.input_omitted != Some(true)).map(value),
            },
            ToolUpdateClass::InProgress if kind == "progress" => {
                ToolStage::Progress { tail: tail(update), total_bytes: update.output_bytes.0 }
            }
            ToolUpdateClass::InProgress => ToolStage::Started,
            ToolUpdateClass::Final if kind == "error" => {
                ToolStage::Failed { error: update.error.map(error_text).unwrap_or_default() }
            }
            ToolUpdateClass::Final => {
                let result = update.result.as_ref().ok_or_else(|| lacks(EVENT, kind, "result"))?;
                ToolStage::Result(ToolResult {
                    success: result.success,
                    content: result.content.map(text_of).unwrap_or_default(),
                    display: result.display.0.as_ref().map(display),
                    exit_code: result.perf.0.and_then(|perf| perf.exit_code),
                    truncated: result.truncated.0.unwrap_or(false),
                    original_bytes: result.original_bytes.0,
                })
            }
        };
        let id = update.tool_call_id.as_ref().ok_or_else(|| lacks(EVENT, kind, "toolCallId"))?;
        Ok(EventBody::Tool(ToolEvent {
            call: call(id),
            tool: update.tool_name.as_ref().map(arc),
            parent: update.parent_tool_call_id.as_ref().map(call),
            agent: update.agent_id.as_ref().map(arc),
            stage,
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
        Ok(EventBody::TurnEnded { result, input: completed.input_id.as_ref().map(input) })
    }

    fn permission(&self, request: &ask::PermissionRequest<'_>) -> Read<PermissionAsk> {
        let option = |option: &ask::PermissionOption<'_>| {
            let decision = &*option.response.decision;
            let decision = match decision {
                _ if !self.contract.protocol.permissions.decisions.iter().any(|known| known == decision) => {
                    None
                }
                "allow" => Some(Decision::Allow),
                "deny" => Some(Decision::Deny),
                "escalate" => Some(Decision::Escalate),
                "modify" => Some(Decision::Modify),
                _ => None,
            };
            Ok(PermissionOption {
                id: arc(&option.option_id),
                name: option.name.0.clone().into_owned(),
                decision: decision
                    .ok_or_else(|| unknown("permission decision", &option.response.decision))?,
                lasting: option
                    .response
                    .permission_updates
                    .as_ref()
                    .is_some_and(|updates| !updates.is_empty()),
                native_kind: option.kind.as_ref().map_or_else(|| Arc::from(""), arc),
            })
        };
        Ok(PermissionAsk {
            id: AskId::new(arc(&request.request_id)),
            call: call(&request.tool_call_id),
            tool: arc(&request.tool_name),
            reason: request
                .reason
                .as_ref()
                .filter(|reason| !reason.is_empty())
                .map(|reason| reason.0.clone().into_owned()),
            input: request.input.map_or(Value::Null, value),
            subagent: request.origin.is_some_and(|origin| origin.get() != "null"),
            options: request.options.iter().map(option).collect::<Read<_>>()?,
        })
    }

    fn input_ask(&self, request: ask::UserInputRequest<'_>) -> InputAsk {
        let literals = &self.contract.protocol.interactions.plan_approval;
        let schema: Map<String, Value> =
            request.schema.and_then(|schema| serde_json::from_str(schema.get()).ok()).unwrap_or_default();
        let interaction = schema.get(&literals.schema_field).and_then(Value::as_str);
        let is_plan = interaction == Some(literals.value.as_str());
        let question = |question: ask::Question<'_>| Question {
            question: question.question.into_owned(),
            header: question.header.map(Text::into_owned),
            options: question
                .options
                .into_iter()
                .map(|option| {
                    let label = option.label.into_owned();
                    QuestionOption {
                        value: option.value.map_or_else(|| label.clone(), Text::into_owned),
                        label,
                        description: option.description.map(Text::into_owned),
                    }
                })
                .collect(),
            multi: question.multi_select == Some(true),
        };
        InputAsk {
            id: AskId::new(arc(&request.request_id)),
            call: request.tool_call_id.as_ref().map(call),
            // The neutral name, whatever the contract's literal is.
            interaction: if is_plan { Some("plan_approval".into()) } else { interaction.map(Into::into) },
            plan: request.input.0.and_then(|input| input.plan).filter(|_| is_plan).map(Text::into_owned),
            questions: request.questions.into_iter().map(question).collect(),
        }
    }
}

/// Mode changes and context use; everything else about a session update is of no consequence.
fn session_updated(updated: &SessionUpdated<'_>) -> EventBody {
    let mut facts = SessionFacts::default();
    if updated.previous_mode.0.is_some() {
        facts.mode = updated.mode.0.as_ref().map(arc);
    }
    // Side requests (titles, summaries) say nothing about the conversation's own context.
    if updated.query_source.0.as_deref().is_some_and(|source| source.starts_with("main"))
        && let (Some(usage), Some(size)) = (updated.usage.0, updated.context_window.0)
    {
        let sum = || Some(usage.input_tokens?.saturating_add(usage.output_tokens.unwrap_or(0)));
        facts.context = usage.total_tokens.or_else(sum).map(|used| ContextUsage { used, size });
    }
    if facts == SessionFacts::default() {
        return EventBody::Informational("session.updated");
    }
    EventBody::Facts(facts)
}

/// Both streams, or the preview when there are none.
fn tail(update: &ToolUpdated<'_>) -> Option<String> {
    let streams: Vec<&str> = [&update.stdout_tail, &update.stderr_tail]
        .into_iter()
        .filter_map(|tail| tail.0.as_deref())
        .filter(|tail| !tail.is_empty())
        .collect();
    match streams.as_slice() {
        [] => update.output_preview.0.as_ref().map(|text| text.0.clone().into_owned()),
        [one] => Some((*one).to_owned()),
        [first, rest @ ..] => {
            let gap = if first.ends_with('\n') { "" } else { "\n" };
            Some(format!("{first}{gap}{}", rest.concat()))
        }
    }
}

/// A message, wherever it is.
fn error_text(error: &RawValue) -> String {
    match value(error) {
        Value::String(text) => text,
        Value::Object(members) => match members.get("message").and_then(Value::as_str) {
            Some(message) => message.to_owned(),
            None => error.get().to_owned(),
        },
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

fn display(display: &Display<'_>) -> ToolDisplay {
    if display.status.0.as_deref() == Some("backgrounded") {
        return ToolDisplay::Backgrounded;
    }
    match (&*display.kind, &display.file_path, &display.structured_patch) {
        ("file_diff", Some(path), Some(hunks)) => ToolDisplay::FileDiff {
            path: path.0.clone().into_owned(),
            hunks: hunks
                .iter()
                .map(|hunk| DiffHunk {
                    old_start: hunk.old_start,
                    new_start: hunk.new_start,
                    lines: hunk.lines.iter().map(|line| line.0.clone().into_owned()).collect(),
                })
                .collect(),
            truncated: display.truncated == Some(true),
        },
        (kind, ..) => ToolDisplay::Other(Arc::from(kind)),
    }
}

/// Static names of the types without effect, for records.
fn informational_name(kind: &str) -> &'static str {
    const NAMES: &[&str] = &[
        "session.created",
        "session.resumed",
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
