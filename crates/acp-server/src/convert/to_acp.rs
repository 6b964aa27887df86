//! Neutral updates, permission requests and outcomes as ACP types. Every `_meta` key the agent sends under a session is
//! made here and in `tool`.
//!
//! What a client has to declare is not made for one that has not: the type is the guard, whoever asked for it.

use std::sync::Arc;

use agent_client_protocol::v1::schema as acp;
use diag_model::SessionId;
use serde_json::{Map, Value};
use session_coordinator::client::{
    ChoiceKind, ClientProfile, CompactionStatus, PermissionAnswer, PermissionPrompt, Severity, StopReason,
    Update,
};
use session_coordinator::model::{SlashCommand, Todo, TodoPriority, TodoStatus};

use super::setup::config_option;
use super::tool::{tool_call, tool_update};
use crate::capabilities::meta;

/// Plan id of the todo list, for clients that know plans by id.
const TODOS: &str = "zcode-todos";

/// An update as the notification's params; none for a client that has not declared that it takes such updates.
pub(crate) fn update(
    session: &SessionId,
    update: Update,
    profile: ClientProfile,
) -> Option<acp::SessionNotification> {
    let update = match update {
        Update::AgentText { message, text } => {
            acp::SessionUpdate::AgentMessageChunk(chunk(message, text_block(text)))
        }
        Update::AgentThought { message, text } => {
            acp::SessionUpdate::AgentThoughtChunk(chunk(message, text_block(text)))
        }
        Update::UserText { message, text } => {
            acp::SessionUpdate::UserMessageChunk(chunk(message, text_block(text)))
        }
        Update::UserMedia { message, mime, data } => {
            acp::SessionUpdate::UserMessageChunk(chunk(message, media(mime, &data)))
        }
        Update::ToolCall(view) => acp::SessionUpdate::ToolCall(tool_call(view.into_patch())),
        Update::ToolUpdate(patch) => acp::SessionUpdate::ToolCallUpdate(tool_update(patch)),
        Update::Title(title) => {
            acp::SessionUpdate::SessionInfoUpdate(acp::SessionInfoUpdate::new().title(title.to_string()))
        }
        Update::Mode(mode) => acp::SessionUpdate::CurrentModeUpdate(acp::CurrentModeUpdate::new(mode)),
        Update::Options(options) => {
            let options = options.into_iter().map(config_option).collect();
            acp::SessionUpdate::ConfigOptionUpdate(acp::ConfigOptionUpdate::new(options))
        }
        Update::Plan(todos) => plan(todos, profile),
        Update::Proposal { id, text } if profile.plans => {
            acp::SessionUpdate::PlanUpdate(acp::PlanUpdate::new(acp::PlanUpdateContent::markdown(id, text)))
        }
        Update::ProposalGone { id } if profile.plans => {
            acp::SessionUpdate::PlanRemoved(acp::PlanRemoved::new(id))
        }
        Update::Commands(commands) => {
            let commands = commands.into_iter().map(command).collect();
            acp::SessionUpdate::AvailableCommandsUpdate(acp::AvailableCommandsUpdate::new(commands))
        }
        Update::Usage(usage) => {
            acp::SessionUpdate::UsageUpdate(acp::UsageUpdate::new(usage.used, usage.size))
        }
        Update::Notice { severity, title, text } if profile.notices => {
            let severity = match severity {
                Severity::Info => acp::NoticeSeverity::Info,
                Severity::Warning => acp::NoticeSeverity::Warning,
                Severity::Error => acp::NoticeSeverity::Error,
            };
            acp::SessionUpdate::Notice(acp::Notice::new(severity, title).description(text))
        }
        Update::Compaction { id, status } if profile.compaction => {
            acp::SessionUpdate::CompactionUpdate(compaction(id, status))
        }
        Update::Proposal { .. }
        | Update::ProposalGone { .. }
        | Update::Notice { .. }
        | Update::Compaction { .. } => return None,
    };
    Some(acp::SessionNotification::new(session.as_str().to_owned(), update))
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

fn chunk(message: Option<Arc<str>>, content: acp::ContentBlock) -> acp::ContentChunk {
    let chunk = acp::ContentChunk::new(content);
    match message {
        Some(message) => chunk.message_id(acp::MessageId::new(message)),
        None => chunk,
    }
}

fn text_block(text: String) -> acp::ContentBlock {
    acp::ContentBlock::Text(acp::TextContent::new(text))
}

/// What the user sent beside text. Only images and sounds have a block of their own.
fn media(mime: String, data: &str) -> acp::ContentBlock {
    let data = data.to_owned();
    match mime.split('/').next() {
        Some("image") => acp::ContentBlock::Image(acp::ImageContent::new(data, mime)),
        Some("audio") => acp::ContentBlock::Audio(acp::AudioContent::new(data, mime)),
        _ => {
            let blob = acp::BlobResourceContents::new(data, "attachment:file").mime_type(mime);
            acp::ContentBlock::Resource(acp::EmbeddedResource::new(
                acp::EmbeddedResourceResource::BlobResourceContents(blob),
            ))
        }
    }
}

/// The todo list: a plan of its own kind for a client that knows plans by id, never both.
fn plan(todos: Vec<Todo>, profile: ClientProfile) -> acp::SessionUpdate {
    let entry = |todo: Todo| {
        let priority = match todo.priority {
            TodoPriority::High => acp::PlanEntryPriority::High,
            TodoPriority::Medium => acp::PlanEntryPriority::Medium,
            TodoPriority::Low => acp::PlanEntryPriority::Low,
        };
        let status = match todo.status {
            TodoStatus::Pending => acp::PlanEntryStatus::Pending,
            TodoStatus::InProgress => acp::PlanEntryStatus::InProgress,
            TodoStatus::Completed => acp::PlanEntryStatus::Completed,
        };
        acp::PlanEntry::new(todo.content, priority, status)
    };
    let entries: Vec<_> = todos.into_iter().map(entry).collect();
    if profile.plans {
        acp::SessionUpdate::PlanUpdate(acp::PlanUpdate::new(acp::PlanUpdateContent::items(TODOS, entries)))
    } else {
        acp::SessionUpdate::Plan(acp::Plan::new(entries))
    }
}

fn command(command: SlashCommand) -> acp::AvailableCommand {
    let input = command.input_hint.map(|hint| {
        acp::AvailableCommandInput::Unstructured(acp::UnstructuredCommandInput::new(hint.to_string()))
    });
    acp::AvailableCommand::new(command.name.to_string(), command.description.to_string()).input(input)
}

fn compaction(id: Arc<str>, status: CompactionStatus) -> acp::CompactionUpdate {
    let (status, error) = match status {
        CompactionStatus::InProgress => (acp::CompactionStatus::InProgress, None),
        CompactionStatus::Completed => (acp::CompactionStatus::Completed, None),
        CompactionStatus::Failed(error) => (acp::CompactionStatus::Failed, Some(error)),
    };
    let update = acp::CompactionUpdate::new(acp::CompactionId::new(id), status);
    match error {
        Some(error) => update.error(error),
        None => update,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use serde_json::json;
    use session_coordinator::client::{
        ConfigChoice, ConfigGroup, ConfigId, ConfigOption, Location, PermissionChoice, TerminalExit,
        TerminalPiece, ToolContent, ToolKind, ToolPatch, ToolStatus, ToolView,
    };
    use session_coordinator::model::ContextUsage;

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

    const EVERYTHING: ClientProfile =
        ClientProfile { forms: true, plans: true, notices: true, compaction: true, terminal_output: true };

    fn wire(update: Update, profile: ClientProfile) -> Option<Value> {
        super::update(&SessionId::from("s-1"), update, profile)
            .map(|sent| serde_json::to_value(sent).unwrap())
    }

    fn updates() -> Vec<Update> {
        let message = || Some("m-1".into());
        let todo = |content: &str, status, priority| Todo { content: content.into(), status, priority };
        let choice = |value: &str, description: Option<&str>| ConfigChoice {
            value: value.into(),
            name: value.to_uppercase().into(),
            description: description.map(Into::into),
        };
        let terminal = |piece| {
            let mut patch = ToolPatch::new("call-1".into());
            patch.terminal = Some(piece);
            Update::ToolUpdate(patch)
        };
        vec![
            Update::AgentText { message: message(), text: "Hi".into() },
            Update::AgentThought { message: None, text: "Hm".into() },
            Update::UserText { message: message(), text: "Do it".into() },
            Update::UserMedia { message: message(), mime: "image/png".into(), data: "aGk=".into() },
            Update::UserMedia { message: None, mime: "audio/wav".into(), data: "aGk=".into() },
            Update::UserMedia { message: None, mime: "application/pdf".into(), data: "aGk=".into() },
            Update::ToolCall(ToolView::new(full_patch())),
            Update::ToolUpdate({
                let mut patch = ToolPatch::new("call-1".into());
                patch.status = Some(ToolStatus::Completed);
                patch.content =
                    Some(vec![ToolContent::Image { mime: "image/png".into(), data: "aGk=".into() }]);
                patch
            }),
            Update::ToolCall(ToolView::new({
                let mut patch = ToolPatch::new("call-2".into());
                patch.title = Some("make".into());
                patch.kind = Some(ToolKind::Execute);
                patch.content = Some(vec![ToolContent::Terminal]);
                patch.terminal = Some(TerminalPiece { cwd: Some("/w".into()), ..TerminalPiece::default() });
                patch
            })),
            terminal(TerminalPiece {
                output: Some("all\n".into()),
                exit: Some(TerminalExit { code: Some(2) }),
                cwd: None,
            }),
            terminal(TerminalPiece { exit: Some(TerminalExit { code: None }), ..TerminalPiece::default() }),
            Update::Title("A title".into()),
            Update::Mode("plan".into()),
            Update::Options(vec![
                ConfigOption {
                    id: ConfigId::Mode,
                    current: "plan".into(),
                    groups: vec![ConfigGroup {
                        name: None,
                        choices: vec![choice("plan", Some("Looks only.")), choice("build", None)],
                    }],
                },
                ConfigOption {
                    id: ConfigId::Model,
                    current: "m1".into(),
                    groups: vec![
                        ConfigGroup {
                            name: Some(("p1".into(), "Provider 1".into())),
                            choices: vec![choice("m1", None)],
                        },
                        ConfigGroup { name: None, choices: vec![choice("m2", None)] },
                    ],
                },
                ConfigOption {
                    id: ConfigId::Thought,
                    current: "high".into(),
                    groups: vec![ConfigGroup { name: None, choices: vec![choice("high", None)] }],
                },
            ]),
            Update::Plan(vec![
                todo("a", TodoStatus::Completed, TodoPriority::High),
                todo("b", TodoStatus::InProgress, TodoPriority::Medium),
                todo("c", TodoStatus::Pending, TodoPriority::Low),
            ]),
            Update::Plan(vec![]),
            Update::Proposal { id: "p-1".into(), text: "# Plan".into() },
            Update::ProposalGone { id: "p-1".into() },
            Update::Commands(vec![
                SlashCommand {
                    name: "compact".into(),
                    description: "Shortens the conversation.".into(),
                    input_hint: Some("what to keep".into()),
                    builtin: true,
                },
                SlashCommand {
                    name: "mine".into(),
                    description: "Mine.".into(),
                    input_hint: None,
                    builtin: false,
                },
            ]),
            Update::Usage(ContextUsage { used: 10, size: 100 }),
            Update::Notice { severity: Severity::Warning, title: "Slow".into(), text: Some("Why.".into()) },
            Update::Notice { severity: Severity::Error, title: "Bad".into(), text: None },
            Update::Compaction { id: "c-1".into(), status: CompactionStatus::InProgress },
            Update::Compaction { id: "c-1".into(), status: CompactionStatus::Completed },
            Update::Compaction { id: "c-2".into(), status: CompactionStatus::Failed("No.".into()) },
        ]
    }

    #[test]
    fn wire_forms() {
        let mut all: Vec<Value> =
            updates().into_iter().map(|update| wire(update, EVERYTHING).unwrap()).collect();
        all.push(serde_json::to_value(permission(&SessionId::from("s-1"), prompt())).unwrap());
        insta::assert_json_snapshot!(all);
    }

    #[test]
    fn what_is_not_declared_is_not_sent() {
        let kinds = |profile| -> BTreeSet<String> {
            let sent = updates().into_iter().filter_map(|update| wire(update, profile));
            sent.map(|sent| sent["update"]["sessionUpdate"].as_str().unwrap().to_owned()).collect()
        };
        let nothing = kinds(ClientProfile::default());
        let everything = kinds(EVERYTHING);
        let only = |kinds: &BTreeSet<String>, others| {
            kinds.difference(others).cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(only(&everything, &nothing), "compaction_update notice plan_removed plan_update");
        assert_eq!(only(&nothing, &everything), "plan");
        let notices = kinds(ClientProfile { notices: true, ..ClientProfile::default() });
        assert_eq!(only(&notices, &nothing), "notice");
        let compaction = kinds(ClientProfile { compaction: true, ..ClientProfile::default() });
        assert_eq!(only(&compaction, &nothing), "compaction_update");
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
        for update in updates() {
            meta_keys(&wire(update, EVERYTHING).unwrap(), &mut keys);
        }
        let known = [
            "terminal_exit.exit_code",
            "terminal_exit.signal",
            "terminal_exit.terminal_id",
            "terminal_info.cwd",
            "terminal_info.terminal_id",
            "terminal_output.data",
            "terminal_output.terminal_id",
            "zcode.agentId",
            "zcode.contract",
            "zcode.nativeKind",
            "zcode.parentToolCallId",
            "zcode.simulated",
        ];
        assert_eq!(keys.into_iter().collect::<Vec<_>>(), known);
    }

    #[test]
    fn every_stop_reason_has_its_own_word() {
        let word = |reason| serde_json::to_value(stop_reason(reason)).unwrap();
        assert_eq!(word(StopReason::EndTurn), "end_turn");
        assert_eq!(word(StopReason::MaxTokens), "max_tokens");
        assert_eq!(word(StopReason::MaxTurnRequests), "max_turn_requests");
        assert_eq!(word(StopReason::Refusal), "refusal");
        assert_eq!(word(StopReason::Cancelled), "cancelled");
    }

    #[test]
    fn every_tool_kind_and_status_has_its_own_word() {
        let sent = |kind, status| {
            let mut patch = ToolPatch::new("c".into());
            (patch.kind, patch.status) = (Some(kind), Some(status));
            wire(Update::ToolUpdate(patch), EVERYTHING).unwrap()["update"].take()
        };
        for (kind, word) in [
            (ToolKind::Read, "read"),
            (ToolKind::Edit, "edit"),
            (ToolKind::Search, "search"),
            (ToolKind::Execute, "execute"),
            (ToolKind::Think, "think"),
            (ToolKind::Fetch, "fetch"),
            (ToolKind::SwitchMode, "switch_mode"),
            (ToolKind::Other, "other"),
        ] {
            assert_eq!(sent(kind, ToolStatus::Pending)["kind"], word);
        }
        for (status, word) in [
            (ToolStatus::Pending, "pending"),
            (ToolStatus::InProgress, "in_progress"),
            (ToolStatus::Completed, "completed"),
            (ToolStatus::Failed, "failed"),
        ] {
            assert_eq!(sent(ToolKind::Read, status)["status"], word);
        }
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
}
