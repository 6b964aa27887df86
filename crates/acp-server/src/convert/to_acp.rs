//! Neutral updates, permission requests and outcomes as ACP types. Every `_meta` key the agent sends under a session is
//! made here.

use agent_client_protocol::v1::schema as acp;
use diag_model::SessionId;
use serde_json::{Map, Value};
use session_coordinator::client::{
    ChoiceKind, PermissionAnswer, PermissionPrompt, StopReason, ToolContent, ToolKind, ToolPatch, ToolStatus,
    Update,
};

use crate::capabilities::meta;

/// An update as the notification's params.
pub(crate) fn update(session: &SessionId, update: Update) -> acp::SessionNotification {
    let update = match update {
        Update::AgentText { message, text } => acp::SessionUpdate::AgentMessageChunk(chunk(message, text)),
        Update::AgentThought { message, text } => acp::SessionUpdate::AgentThoughtChunk(chunk(message, text)),
        Update::ToolCall(view) => acp::SessionUpdate::ToolCall(tool_call(view.into_patch())),
        Update::ToolUpdate(patch) => acp::SessionUpdate::ToolCallUpdate(tool_update(patch)),
        Update::Title(title) => {
            acp::SessionUpdate::SessionInfoUpdate(acp::SessionInfoUpdate::new().title(title.to_string()))
        }
    };
    acp::SessionNotification::new(session.as_str().to_owned(), update)
}

/// A permission request's params.
pub(crate) fn permission(session: &SessionId, prompt: PermissionPrompt) -> acp::RequestPermissionRequest {
    let options = prompt.options.into_iter().map(|choice| {
        let kind = match choice.kind {
            ChoiceKind::AllowOnce => acp::PermissionOptionKind::AllowOnce,
            ChoiceKind::AllowAlways => acp::PermissionOptionKind::AllowAlways,
            ChoiceKind::RejectOnce => acp::PermissionOptionKind::RejectOnce,
            ChoiceKind::RejectAlways => acp::PermissionOptionKind::RejectAlways,
        };
        let facts = Map::from_iter([("nativeKind".to_owned(), Value::from(&*choice.native_kind))]);
        acp::PermissionOption::new(choice.id, choice.name, kind).meta(meta(facts))
    });
    acp::RequestPermissionRequest::new(
        session.as_str().to_owned(),
        tool_update(prompt.call),
        options.collect(),
    )
}

/// The client's answer to a permission request. What is not exactly an answer is a failure, never a guess.
pub(crate) fn permission_answer(answer: acp::RequestPermissionResponse) -> PermissionAnswer {
    match answer.outcome {
        acp::RequestPermissionOutcome::Cancelled => PermissionAnswer::Cancelled,
        acp::RequestPermissionOutcome::Selected(selected) => {
            PermissionAnswer::Selected(selected.option_id.0.to_string())
        }
        _ => PermissionAnswer::Failed,
    }
}

/// Why a prompt ended.
pub(crate) fn stop_reason(reason: StopReason) -> acp::StopReason {
    match reason {
        StopReason::EndTurn => acp::StopReason::EndTurn,
        StopReason::MaxTokens => acp::StopReason::MaxTokens,
        StopReason::MaxTurnRequests => acp::StopReason::MaxTurnRequests,
        StopReason::Refusal => acp::StopReason::Refusal,
        StopReason::Cancelled => acp::StopReason::Cancelled,
    }
}

fn chunk(message: Option<std::sync::Arc<str>>, text: String) -> acp::ContentChunk {
    let chunk = acp::ContentChunk::new(acp::ContentBlock::Text(acp::TextContent::new(text)));
    match message {
        Some(message) => chunk.message_id(acp::MessageId::new(message)),
        None => chunk,
    }
}

fn tool_call(patch: ToolPatch) -> acp::ToolCall {
    let update = tool_update(patch);
    let fields = update.fields;
    let mut call = acp::ToolCall::new(update.tool_call_id, fields.title.unwrap_or_default())
        .kind(fields.kind.unwrap_or_default())
        .status(fields.status.unwrap_or_default())
        .content(fields.content.unwrap_or_default())
        .locations(fields.locations.unwrap_or_default());
    call.name = fields.name;
    call.raw_input = fields.raw_input;
    call.raw_output = fields.raw_output;
    call.meta = update.meta;
    call
}

fn tool_update(patch: ToolPatch) -> acp::ToolCallUpdate {
    let mut fields = acp::ToolCallUpdateFields::new();
    fields.title = patch.title;
    fields.name = patch.tool.map(|tool| tool.to_string());
    fields.kind = patch.kind.map(tool_kind);
    fields.status = patch.status.map(|status| match status {
        ToolStatus::Pending => acp::ToolCallStatus::Pending,
        ToolStatus::InProgress => acp::ToolCallStatus::InProgress,
        ToolStatus::Completed => acp::ToolCallStatus::Completed,
        ToolStatus::Failed => acp::ToolCallStatus::Failed,
    });
    fields.content = patch.content.map(|content| content.into_iter().map(tool_content).collect());
    fields.locations = patch.locations.map(|locations| {
        let one = |location: session_coordinator::client::Location| {
            acp::ToolCallLocation::new(location.path).line(location.line)
        };
        locations.into_iter().map(one).collect()
    });
    fields.raw_input = patch.raw_input;
    fields.raw_output = patch.raw_output;

    let mut facts = Map::new();
    if let Some(parent) = patch.parent {
        facts.insert("parentToolCallId".into(), parent.as_str().into());
    }
    if let Some(agent) = patch.agent {
        facts.insert("agentId".into(), (*agent).into());
    }
    let update = acp::ToolCallUpdate::new(patch.call.as_str().to_owned(), fields);
    if facts.is_empty() { update } else { update.meta(meta(facts)) }
}

fn tool_kind(kind: ToolKind) -> acp::ToolKind {
    match kind {
        ToolKind::Read => acp::ToolKind::Read,
        ToolKind::Edit => acp::ToolKind::Edit,
        ToolKind::Search => acp::ToolKind::Search,
        ToolKind::Execute => acp::ToolKind::Execute,
        ToolKind::Think => acp::ToolKind::Think,
        ToolKind::Fetch => acp::ToolKind::Fetch,
        ToolKind::SwitchMode => acp::ToolKind::SwitchMode,
        ToolKind::Other => acp::ToolKind::Other,
    }
}

fn tool_content(content: ToolContent) -> acp::ToolCallContent {
    let text =
        |text: String| acp::ToolCallContent::from(acp::ContentBlock::Text(acp::TextContent::new(text)));
    match content {
        ToolContent::Text(markdown) => text(markdown),
        ToolContent::Fenced(raw) => text(fenced(&raw)),
        ToolContent::Diff { path, old, new } => {
            acp::ToolCallContent::Diff(acp::Diff::new(path, new).old_text(old))
        }
    }
}

/// Raw text in a fence longer than any run of backticks inside, so that nothing in it ends the fence or becomes markup.
fn fenced(raw: &str) -> String {
    let longest = raw.split(|ch| ch != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let end = if raw.is_empty() || raw.ends_with('\n') { "" } else { "\n" };
    format!("{fence}\n{raw}{end}{fence}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use proptest::prelude::*;
    use serde_json::json;
    use session_coordinator::client::{Location, PermissionChoice, ToolView};

    use super::*;
    use crate::capabilities::Identity;

    fn full_patch() -> ToolPatch {
        let mut patch = ToolPatch::new("call-1".into());
        patch.title = Some("Edit src/a.rs".into());
        patch.tool = Some("Edit".into());
        patch.kind = Some(ToolKind::Edit);
        patch.status = Some(ToolStatus::InProgress);
        patch.content = Some(vec![
            ToolContent::Text("**hello**".into()),
            ToolContent::Fenced("# not a heading".into()),
            ToolContent::Diff {
                path: PathBuf::from("/w/src/a.rs"),
                old: Some("a\n".into()),
                new: "b\n".into(),
            },
            ToolContent::Diff { path: PathBuf::from("/w/new.rs"), old: None, new: "c\n".into() },
        ]);
        patch.locations = Some(vec![Location { path: PathBuf::from("/w/src/a.rs"), line: Some(3) }]);
        patch.raw_input = Some(json!({"file_path": "/w/src/a.rs"}));
        patch.raw_output = Some(json!("done"));
        patch.parent = Some("call-0".into());
        patch.agent = Some("explore".into());
        patch
    }

    fn prompt() -> PermissionPrompt {
        let choice = |id: &str, kind| PermissionChoice {
            id: id.into(),
            name: id.to_uppercase(),
            kind,
            native_kind: format!("native-{id}").into(),
        };
        PermissionPrompt {
            call: full_patch(),
            options: vec![
                choice("once", ChoiceKind::AllowOnce),
                choice("always", ChoiceKind::AllowAlways),
                choice("no", ChoiceKind::RejectOnce),
                choice("never", ChoiceKind::RejectAlways),
            ],
        }
    }

    #[test]
    fn wire_forms() {
        let session = SessionId::from("s-1");
        let updates = [
            Update::AgentText { message: Some("m-1".into()), text: "Hi".into() },
            Update::AgentThought { message: None, text: "Hm".into() },
            Update::ToolCall(ToolView::new(full_patch())),
            Update::ToolUpdate({
                let mut patch = ToolPatch::new("call-1".into());
                patch.status = Some(ToolStatus::Completed);
                patch
            }),
            Update::Title("A title".into()),
        ];
        let mut wire: Vec<Value> = Vec::new();
        for one in updates {
            wire.push(serde_json::to_value(update(&session, one)).unwrap());
        }
        wire.push(serde_json::to_value(permission(&session, prompt())).unwrap());
        insta::assert_json_snapshot!(wire);
    }

    fn meta_keys(value: &Value, keys: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| meta_keys(item, keys)),
            Value::Object(members) => {
                for (key, value) in members {
                    if key == "_meta" {
                        for (product, facts) in value.as_object().unwrap() {
                            keys.extend(
                                facts.as_object().unwrap().keys().map(|fact| format!("{product}.{fact}")),
                            );
                        }
                    } else {
                        meta_keys(value, keys);
                    }
                }
            }
            _ => {}
        }
    }

    #[test]
    fn all_meta_keys() {
        let session = SessionId::from("s-1");
        let mut keys = BTreeSet::new();
        let identity = Identity { simulated: true, unofficial_contract: Some("c".into()) };
        meta_keys(&serde_json::to_value(identity.answer()).unwrap(), &mut keys);
        meta_keys(&serde_json::to_value(permission(&session, prompt())).unwrap(), &mut keys);
        let call = Update::ToolCall(ToolView::new(full_patch()));
        meta_keys(&serde_json::to_value(update(&session, call)).unwrap(), &mut keys);
        let known = ["agentId", "contract", "nativeKind", "parentToolCallId", "simulated"];
        assert_eq!(keys.into_iter().collect::<Vec<_>>(), known.map(|key| format!("zcode.{key}")));
    }

    #[test]
    fn answers_to_a_permission_request() {
        let answer = |value| serde_json::from_value(value).map(permission_answer).ok();
        assert_eq!(
            answer(json!({"outcome": {"outcome": "selected", "optionId": "nope"}})),
            Some(PermissionAnswer::Selected("nope".into()))
        );
        assert_eq!(answer(json!({"outcome": {"outcome": "cancelled"}})), Some(PermissionAnswer::Cancelled));
        assert_eq!(answer(json!({"outcome": "allow_once"})), None);
        assert_eq!(answer(json!({"outcome": {"outcome": "selected"}})), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn nothing_inside_ends_the_fence(raw in "[`a#\\n ]{0,40}") {
            let text = fenced(&raw);
            let fence: String = text.chars().take_while(|ch| *ch == '`').collect();
            prop_assert!(fence.len() >= 3);
            prop_assert!(!raw.contains(&fence));
            let body = text.strip_prefix(&format!("{fence}\n")).unwrap().strip_suffix(&fence).unwrap();
            prop_assert_eq!(body.trim_end_matches('\n'), raw.trim_end_matches('\n'));
        }
    }
}
