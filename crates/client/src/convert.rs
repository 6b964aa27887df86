//! From wire types to the client's own. The only place that knows both.

use agent_client_protocol::v1::schema as wire;
use serde::Deserialize;
use serde_json::Value;

use crate::model::{
    Agent, Diff, OptionKind, PermissionAsk, PermissionOption, PlanEntry, PlanStatus, Session, SessionUpdate,
    StopReason, ToolContent, ToolStatus, ToolUpdate, Update,
};

/// Reads the parameters of `session/update`. A kind that is not known becomes [`Update::Other`]; only a notification
/// without a session yields nothing.
pub(crate) fn session_update(params: &Value) -> Option<SessionUpdate> {
    let session = params.get("sessionId")?.as_str()?.to_owned();
    let raw = params.get("update")?.clone();
    let update = match wire::SessionUpdate::deserialize(&raw) {
        Ok(update) => convert_update(update, &raw),
        Err(_) => Update::Other(kind_of(&raw)),
    };
    Some(SessionUpdate { session, update, raw })
}

fn kind_of(raw: &Value) -> String {
    raw.get("sessionUpdate").and_then(Value::as_str).unwrap_or("unknown").to_owned()
}

fn convert_update(update: wire::SessionUpdate, raw: &Value) -> Update {
    match update {
        wire::SessionUpdate::AgentMessageChunk(chunk) => {
            Update::Message { text: text_of(&chunk.content), id: message_id(raw) }
        }
        wire::SessionUpdate::AgentThoughtChunk(chunk) => {
            Update::Thought { text: text_of(&chunk.content), id: message_id(raw) }
        }
        wire::SessionUpdate::ToolCall(call) => Update::Tool(ToolUpdate {
            id: call.tool_call_id.0.to_string(),
            first: true,
            title: Some(call.title),
            kind: Some(name_of(&call.kind)),
            status: Some(tool_status(call.status)),
            content: (!call.content.is_empty()).then(|| call.content.into_iter().map(tool_content).collect()),
            locations: Some(call.locations.into_iter().map(|place| (place.path, place.line)).collect()),
            raw_input: call.raw_input,
        }),
        wire::SessionUpdate::ToolCallUpdate(change) => Update::Tool(tool_update(change)),
        wire::SessionUpdate::Plan(plan) => Update::Plan(plan.entries.into_iter().map(plan_entry).collect()),
        wire::SessionUpdate::CurrentModeUpdate(mode) => Update::Mode(mode.current_mode_id.0.to_string()),
        wire::SessionUpdate::SessionInfoUpdate(_) => match raw.get("title").and_then(Value::as_str) {
            Some(title) => Update::Title(title.to_owned()),
            None => Update::Other(kind_of(raw)),
        },
        wire::SessionUpdate::Notice(_) => match raw.get("message").and_then(Value::as_str) {
            Some(message) => Update::Notice(message.to_owned()),
            None => Update::Other(kind_of(raw)),
        },
        _ => Update::Other(kind_of(raw)),
    }
}

fn message_id(raw: &Value) -> Option<String> {
    raw.get("messageId").and_then(Value::as_str).map(str::to_owned)
}

fn text_of(content: &wire::ContentBlock) -> String {
    match content {
        wire::ContentBlock::Text(text) => text.text.clone(),
        wire::ContentBlock::ResourceLink(link) => format!("[{}]", link.uri),
        wire::ContentBlock::Image(_) => "[image]".to_owned(),
        wire::ContentBlock::Audio(_) => "[audio]".to_owned(),
        _ => "[content]".to_owned(),
    }
}

/// The serialized name of a unit variant; the wire's own spelling.
fn name_of<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        _ => "other".to_owned(),
    }
}

fn tool_status(status: wire::ToolCallStatus) -> ToolStatus {
    match status {
        wire::ToolCallStatus::InProgress => ToolStatus::InProgress,
        wire::ToolCallStatus::Completed => ToolStatus::Completed,
        wire::ToolCallStatus::Failed => ToolStatus::Failed,
        _ => ToolStatus::Pending,
    }
}

fn tool_update(change: wire::ToolCallUpdate) -> ToolUpdate {
    let fields = change.fields;
    ToolUpdate {
        id: change.tool_call_id.0.to_string(),
        first: false,
        title: fields.title,
        kind: fields.kind.as_ref().map(name_of),
        status: fields.status.map(tool_status),
        content: fields.content.map(|content| content.into_iter().map(tool_content).collect()),
        locations: fields
            .locations
            .map(|places| places.into_iter().map(|place| (place.path, place.line)).collect()),
        raw_input: fields.raw_input,
    }
}

fn tool_content(content: wire::ToolCallContent) -> ToolContent {
    match content {
        wire::ToolCallContent::Content(content) => ToolContent::Text(text_of(&content.content)),
        wire::ToolCallContent::Diff(diff) => {
            ToolContent::Diff(Diff { path: diff.path, old: diff.old_text, new: diff.new_text })
        }
        wire::ToolCallContent::Terminal(_) => ToolContent::Other("terminal"),
        _ => ToolContent::Other("content"),
    }
}

fn plan_entry(entry: wire::PlanEntry) -> PlanEntry {
    let status = match entry.status {
        wire::PlanEntryStatus::InProgress => PlanStatus::InProgress,
        wire::PlanEntryStatus::Completed => PlanStatus::Completed,
        _ => PlanStatus::Pending,
    };
    PlanEntry { content: entry.content, status }
}

pub(crate) fn permission_ask(request: wire::RequestPermissionRequest) -> PermissionAsk {
    PermissionAsk {
        session: request.session_id.0.to_string(),
        tool: tool_update(request.tool_call),
        options: request
            .options
            .into_iter()
            .map(|option| PermissionOption {
                id: option.option_id.0.to_string(),
                name: option.name,
                kind: match option.kind {
                    wire::PermissionOptionKind::AllowOnce => OptionKind::AllowOnce,
                    wire::PermissionOptionKind::AllowAlways => OptionKind::AllowAlways,
                    wire::PermissionOptionKind::RejectOnce => OptionKind::RejectOnce,
                    wire::PermissionOptionKind::RejectAlways => OptionKind::RejectAlways,
                    _ => OptionKind::Unknown,
                },
            })
            .collect(),
    }
}

pub(crate) fn agent(response: &wire::InitializeResponse) -> Agent {
    let raw = serde_json::to_value(response).unwrap_or(Value::Null);
    let info = response.agent_info.as_ref();
    Agent {
        protocol_version: raw
            .get("protocolVersion")
            .and_then(Value::as_u64)
            .and_then(|version| u16::try_from(version).ok())
            .unwrap_or_default(),
        name: info.map(|info| info.name.clone()),
        title: info.and_then(|info| info.title.clone()),
        version: info.map(|info| info.version.clone()),
        raw,
    }
}

pub(crate) fn session(response: wire::NewSessionResponse) -> Session {
    Session {
        id: response.session_id.0.to_string(),
        mode: response.modes.map(|modes| modes.current_mode_id.0.to_string()),
    }
}

pub(crate) fn stop_reason(reason: wire::StopReason) -> StopReason {
    match reason {
        wire::StopReason::EndTurn => StopReason::EndTurn,
        wire::StopReason::MaxTokens => StopReason::MaxTokens,
        wire::StopReason::MaxTurnRequests => StopReason::MaxTurnRequests,
        wire::StopReason::Refusal => StopReason::Refusal,
        wire::StopReason::Cancelled => StopReason::Cancelled,
        _ => StopReason::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_unknown_kind_keeps_its_name_and_body() {
        let params = json!({"sessionId": "s", "update": {"sessionUpdate": "from_the_future", "x": 1}});
        let update = session_update(&params).unwrap();
        assert_eq!(update.update, Update::Other("from_the_future".to_owned()));
        assert_eq!(update.raw["x"], 1);
    }

    #[test]
    fn a_tool_update_carries_only_what_changed() {
        let params = json!({"sessionId": "s", "update": {
            "sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed",
            "content": [{"type": "diff", "path": "/w/a", "oldText": "1", "newText": "2"}],
        }});
        let Update::Tool(tool) = session_update(&params).unwrap().update else { panic!("not a tool") };
        assert_eq!(tool.status, Some(ToolStatus::Completed));
        assert_eq!(tool.title, None);
        assert_eq!(
            tool.content,
            Some(vec![ToolContent::Diff(Diff {
                path: "/w/a".into(),
                old: Some("1".into()),
                new: "2".into()
            })])
        );
    }

    #[test]
    fn an_update_without_a_session_is_not_one() {
        assert!(session_update(&json!({"update": {"sessionUpdate": "plan", "entries": []}})).is_none());
    }
}
