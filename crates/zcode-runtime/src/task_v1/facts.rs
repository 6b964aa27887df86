//! State of sessions and workspaces in neutral words.

use std::sync::Arc;

use zcode_protocol::task_v1::snapshot as wire;

use crate::model::{
    ContextUsage, Model, ModelRef, SessionFacts, SlashCommand, ThoughtLevels, Todo, TodoPriority, TodoStatus,
};

pub(super) fn of_snapshot(snapshot: &wire::Snapshot<'_>) -> SessionFacts {
    let settings = &snapshot.settings;
    let mode = snapshot
        .session
        .mode
        .as_ref()
        .or_else(|| settings.mode.as_ref()?.current.as_ref())
        .or(snapshot.projection.mode.as_ref());
    // A default title is a placeholder, not a title.
    let titled = snapshot.session.title_source.as_deref() != Some("default");
    let title = snapshot.session.title.as_ref().filter(|title| titled && !title.is_empty());
    let usage =
        snapshot.runtime.context_usage.0.map(|usage| ContextUsage { used: usage.used, size: usage.size });
    let projected = || {
        let (used, size) = (snapshot.projection.context_used.0?, snapshot.projection.context_window.0?);
        (size > 0).then_some(ContextUsage { used, size })
    };
    SessionFacts {
        mode: mode.map(wire_arc),
        title: title.map(wire_arc),
        model: settings.model.as_ref().and_then(|model| model.current.as_ref()).map(model_ref),
        thought: settings.thought_level.as_ref().and_then(thought),
        todos: snapshot.todos.as_deref().map(todos),
        commands: snapshot.slash_commands.as_deref().map(commands),
        context: usage.or_else(projected),
    }
}

/// A running turn, by any of the three ways a snapshot says so.
pub(super) fn is_running(snapshot: &wire::Snapshot<'_>) -> bool {
    let status = |text: &Option<zcode_protocol::task_v1::Text<'_>>| {
        matches!(text.as_deref(), Some("running" | "waiting"))
    };
    snapshot.runtime.active_turn_id.is_some()
        || snapshot.projection.current_turn_id.is_some()
        || status(&snapshot.session.status)
        || status(&snapshot.projection.status)
}

/// What a notification says about this session. A mode or title of the workspace is not the session's.
pub(super) fn of_notification(notification: wire::StateNotification<'_>) -> SessionFacts {
    let patch = notification.patch;
    let mut facts =
        SessionFacts { commands: patch.slash_commands.0.as_deref().map(commands), ..SessionFacts::default() };
    if matches!(notification.scope.as_deref(), None | Some("session")) {
        let settings = patch.settings.0.unwrap_or_default();
        let mode = patch.mode.0.or(settings.mode).and_then(|mode| mode.current);
        facts.mode = mode.as_ref().map(wire_arc);
        facts.title = patch.title.0.as_ref().filter(|title| !title.is_empty()).map(wire_arc);
        facts.model = settings.model.and_then(|model| model.current).as_ref().map(model_ref);
        facts.thought = settings.thought_level.as_ref().and_then(thought);
        facts.todos = patch.todos.0.as_deref().map(todos);
    }
    facts
}

fn wire_arc(text: &zcode_protocol::task_v1::Text<'_>) -> Arc<str> {
    text.to_arc()
}

pub(super) fn model_ref(model: &wire::ModelRef<'_>) -> ModelRef {
    ModelRef {
        provider: model.provider_id.to_arc(),
        model: model.model_id.to_arc(),
        variant: model.variant.as_ref().map(wire_arc),
    }
}

pub(super) fn model(model: &wire::Model<'_>) -> Model {
    Model {
        id: model_ref(&model.id),
        label: model.label.as_ref().unwrap_or(&model.id.model_id).to_arc(),
        provider_label: model.provider_label.as_ref().map(wire_arc),
        disabled: model.disabled_reason.as_ref().map(wire_arc),
    }
}

/// None where the model has no levels.
pub(super) fn thought(levels: &wire::ThoughtSettings<'_>) -> Option<ThoughtLevels> {
    if levels.enabled == Some(false) || levels.available.is_empty() {
        return None;
    }
    let available = levels.available.iter().map(|level| {
        let label = level.label.as_ref().unwrap_or(&level.value).to_arc();
        (level.value.to_arc(), label)
    });
    Some(ThoughtLevels {
        current: levels.current.as_ref().map(wire_arc),
        default: levels.default_level.as_ref().map(wire_arc),
        available: available.collect(),
    })
}

/// Todos in a state this program does not know count as pending: a list is information, not a decision.
pub(super) fn todos(todos: &[wire::Todo<'_>]) -> Vec<Todo> {
    let todo = |todo: &wire::Todo<'_>| Todo {
        content: todo.content.0.clone().into_owned(),
        status: match &*todo.status {
            "completed" => TodoStatus::Completed,
            "in_progress" => TodoStatus::InProgress,
            _ => TodoStatus::Pending,
        },
        priority: match todo.priority.as_deref() {
            Some("high") => TodoPriority::High,
            Some("low") => TodoPriority::Low,
            _ => TodoPriority::Medium,
        },
    };
    todos.iter().map(todo).collect()
}

pub(super) fn commands(commands: &[wire::SlashCommand<'_>]) -> Vec<SlashCommand> {
    let command = |command: &wire::SlashCommand<'_>| SlashCommand {
        name: Arc::from(command.name.trim_start_matches('/')),
        description: command.description.as_deref().unwrap_or_default().into(),
        input_hint: command.input_hint.as_ref().map(wire_arc),
        builtin: command.source.as_deref() == Some("builtin"),
    };
    commands.iter().map(command).collect()
}
