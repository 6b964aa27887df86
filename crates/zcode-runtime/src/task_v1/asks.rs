//! Questions of the host in neutral words, and which events are about this session at all.

use diag_model::AskId;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use zcode_protocol::task_v1::{DynamicEvent, Lenient, Text, ask};

use super::events::{Read, arc, call, unknown, value};
use super::{Memory, TaskV1};
use crate::model::{Decision, InputAsk, PermissionAsk, PermissionOption, Question, QuestionOption};

impl TaskV1 {
    pub(super) fn permission(&self, request: &ask::PermissionRequest<'_>) -> Read<PermissionAsk> {
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
                native_kind: option.kind.as_ref().map_or_else(|| "".into(), arc),
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

    pub(super) fn input_ask(&self, request: ask::UserInputRequest<'_>) -> InputAsk {
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

/// Whether an event is about another session. A subagent of this one may ask under its own session's id.
pub(super) fn is_foreign(memory: &Memory, event: &DynamicEvent<'_>) -> bool {
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
