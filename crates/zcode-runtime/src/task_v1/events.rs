//! Host events in neutral words, strictly by the contract's catalogues.
//!
//! What the catalogues do not have, and what lacks a member it must have, is a [`Violation`]; nothing is guessed.

use std::sync::Arc;

use diag_model::{AskId, Detail, ErrorCode, Failure, InputId, ToolCallId};
use runtime_discovery::contract::{EventClass, StreamClass, ToolUpdateClass, TurnResultClass};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use zcode_protocol::task_v1::error::ErrorDetail;
use zcode_protocol::task_v1::event::name;
use zcode_protocol::task_v1::payload::{
    Display, Payload, Streaming, TodoOutput, ToolResult as WireResult, ToolUpdated, TurnCompleted,
};
use zcode_protocol::task_v1::{DynamicEvent, Lenient, SessionEvent as WireEvent, Text, ask, snapshot};

use super::updates::session_updated;
use super::{BadEvent, Memory, RefusedAsk, TaskV1, facts, failure};
use crate::model::{
    Decision, DiffHunk, EventBody, HeadersAsk, HostEvent, InputAsk, PermissionAsk, PermissionOption,
    Question, QuestionOption, SessionEvent, SessionFacts, Snapshot, ToolDisplay, ToolEvent, ToolImage,
    ToolInput, ToolInputPart, ToolResult, ToolStage, TurnResult, TurnUsage, Violation,
};

/// The tool that keeps the todo list.
pub(super) const TODO_TOOL: &str = "TodoWrite";

/// Queued inputs and running todo calls that are remembered.
const REMEMBERED: usize = 64;

/// What an event means.
#[derive(Debug, Default)]
pub(crate) struct Neutral {
    /// For the session; none when it means nothing to it.
    pub(crate) event: Option<HostEvent>,
    /// A question in it that is outside the contract and has to be answered with no.
    pub(crate) refuse: Option<RefusedAsk>,
}

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

    fn tool(&self, update: &ToolUpdated<'_>, memory: &mut Memory) -> Read<EventBody> {
        const EVENT: &str = "tool.updated";
        let kind = &*update.kind;
        let Some(class) = self.contract.protocol.tool_update_kinds.get(kind) else {
            return Err(unknown("tool.updated kind", kind));
        };
        // The todo list of a subagent is its own.
        let own_call = (update.parent_tool_call_id.is_none() && update.agent_id.is_none())
            .then_some(update.tool_call_id.as_ref())
            .flatten();
        if let Some(id) = own_call {
            memory.note_tool(id, update.tool_name.as_deref());
        }
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
                ToolStage::Result(tool_result(result, own_call.is_some_and(|id| memory.todo_call_over(id))))
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
        Ok(EventBody::TurnEnded {
            result,
            input: completed.input_id.as_ref().map(input),
            usage: turn_usage(completed),
        })
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

/// A message, wherever it is: errors are texts or details with a message.
pub(super) fn error_text(error: &RawValue) -> String {
    match error.get().as_bytes().first() {
        Some(b'{') => {
            let detail: ErrorDetail<'_> = serde_json::from_str(error.get()).unwrap_or_default();
            failure::telling(&detail).unwrap_or_else(|| error.get().to_owned())
        }
        _ => text_of(error),
    }
}

fn tool_result(result: &WireResult<'_>, is_todo: bool) -> ToolResult {
    let display = result.display.0.as_ref();
    ToolResult {
        success: result.success,
        content: result.content.map(text_of).unwrap_or_default(),
        display: presentation(display, result.content, is_todo && result.success),
        exit_code: result
            .perf
            .0
            .and_then(|perf| perf.exit_code)
            .or_else(|| display.and_then(|display| display.exit_code.0)),
        truncated: result.truncated.0.unwrap_or(false),
        original_bytes: result.original_bytes.0,
    }
}

/// The structured presentation of a result. The todo tool may say its list in the presentation or in the output itself.
pub(super) fn presentation(
    display: Option<&Display<'_>>,
    output: Option<&RawValue>,
    is_todo: bool,
) -> Option<ToolDisplay> {
    if is_todo {
        let shown = display.and_then(|display| display.todos.0.as_deref()).map(facts::todos);
        if let Some(todos) = shown.or_else(|| output.and_then(todos_in)) {
            return Some(ToolDisplay::Todos(todos));
        }
    }
    display.map(self::display)
}

/// The list in the todo tool's output: an object, or the text of one.
fn todos_in(output: &RawValue) -> Option<Vec<crate::model::Todo>> {
    let text = text_of(output);
    let output: TodoOutput<'_> = serde_json::from_str(&text).ok()?;
    Some(facts::todos(&output.todos))
}

fn display(display: &Display<'_>) -> ToolDisplay {
    if display.status.0.as_deref() == Some("backgrounded") {
        return ToolDisplay::Backgrounded;
    }
    if let Some(images) = display.images.0.as_deref().filter(|images| !images.is_empty()) {
        let image = |image: &zcode_protocol::task_v1::payload::Image<'_>| ToolImage {
            mime: image.mime_type.to_string(),
            data: arc(&image.base64),
        };
        return ToolDisplay::Images(images.iter().map(image).collect());
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

/// Whether an event is about another session. A subagent of this one may ask under its own session's id.
fn is_foreign(memory: &Memory, event: &DynamicEvent<'_>) -> bool {
    let says = |origin: Option<&RawValue>| origin.is_some_and(|origin| origin.get() != "null");
    let other = |session: &Lenient<Text<'_>>| memory.is_other(session.0.as_deref());
    match event {
        DynamicEvent::Session(event) => memory.is_other(Some(&event.session_id)),
        DynamicEvent::Snapshot(snapshot) => memory.is_other(Some(&snapshot.session.session_id)),
        DynamicEvent::StateUpdated(notification) => {
            notification.scope.as_deref() == Some("session")
                && memory.is_other(notification.session_id.as_deref())
        }
        DynamicEvent::PermissionRequest(request) => !says(request.origin) && other(&request.session_id),
        DynamicEvent::UserInputRequest(request) => !says(request.origin) && other(&request.session_id),
        DynamicEvent::HeadersRequest(request) => other(&request.session_id),
        DynamicEvent::UserInputResponse { .. } | DynamicEvent::Unknown(_) => false,
    }
}

impl Memory {
    fn is_other(&self, session: Option<&str>) -> bool {
        match (&self.of, session) {
            (Some((own, _)), Some(session)) => own.as_str() != session,
            _ => false,
        }
    }

    fn count_foreign(&mut self) {
        self.foreign += 1;
        // Powers of two: a flood is one record for every doubling.
        if let Some((session, _)) = self.of.as_ref().filter(|_| self.foreign.is_power_of_two()) {
            tracing::debug!(session = %session, count = self.foreign, "host.event.foreign");
        }
    }

    fn note_tool(&mut self, call: &str, tool: Option<&str>) {
        if tool == Some(TODO_TOOL) && self.todo_calls.len() < REMEMBERED && !self.todo_calls.contains(call) {
            self.todo_calls.insert(call.to_owned());
        }
    }

    fn todo_call_over(&mut self, call: &str) -> bool {
        self.todo_calls.remove(call)
    }
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
