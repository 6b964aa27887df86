//! The session snapshot and the other documents that describe sessions and workspaces.

use serde_json::{Value, json};

use crate::scenario::Scenario;
use crate::session::{Record, Session, State, model_id, model_ref};

/// Whether the whole catalogue is listed, or only the model in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Catalogue {
    Whole,
    CurrentOnly,
}

/// The `session` member: also what a list of sessions has.
pub(crate) fn summary(record: &Record, status: &str) -> Value {
    let mut summary = json!({
        "sessionId": record.session_id,
        "workspace": workspace(&record.workspace_path),
        "sessionKind": "interactive",
        "title": record.title,
        "titleSource": record.title_source,
        "mode": record.mode,
        "status": status,
        "createdAt": record.created_at,
        "updatedAt": record.updated_at,
    });
    if let (Some(model), Some(members)) = (&record.model, summary.as_object_mut()) {
        members.insert("model".into(), model_ref(model));
    }
    summary
}

/// A workspace as it appears everywhere.
pub(crate) fn workspace(path: &str) -> Value {
    json!({ "workspacePath": path, "workspaceKey": path })
}

/// The `settings` member of a session.
fn settings(scenario: &Scenario, record: &Record, catalogue: Catalogue) -> Value {
    let mut settings = workspace_settings(scenario, &record.mode);
    if let Some(model) = &record.model {
        settings["model"]["current"] = model_ref(model);
        if catalogue == Catalogue::CurrentOnly
            && let Some(available) = settings["model"]["available"].as_array_mut()
        {
            available.retain(|one| one["ref"] == model_ref(model));
        }
    }
    if let Some(level) = &record.thought_level {
        settings["thoughtLevel"]["current"] = json!(level);
    }
    settings
}

/// The `settings` member of a workspace: no current thought level.
fn workspace_settings(scenario: &Scenario, mode: &str) -> Value {
    let host = &scenario.host;
    let levels: Vec<Value> =
        host.thought_levels.iter().map(|level| json!({ "value": level, "label": capital(level) })).collect();
    let available: Vec<Value> = if host.signed_in {
        host.models
            .iter()
            .map(|model| {
                let mut entry = json!({
                    "ref": model_ref(&model_id(model)),
                    "label": model.label,
                    "providerLabel": "Z.ai Coding Plan",
                    "contextWindow": model.context_window,
                    "maxOutputTokens": 131_072,
                    "reasoning": { "levels": host.thought_levels, "defaultLevel": host.thought_levels.last() },
                });
                if let Some(reason) = &model.disabled {
                    entry["disabledReason"] = json!(reason);
                }
                entry
            })
            .collect()
    } else {
        Vec::new()
    };
    let mut settings = json!({
        "model": { "available": available },
        "thoughtLevel": { "enabled": !levels.is_empty(), "available": levels },
        "mode": { "current": mode },
    });
    if let Some(level) = host.thought_levels.last() {
        settings["thoughtLevel"]["defaultLevel"] = json!(level);
    }
    settings
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}

/// The answer of `readWorkspaceState`.
pub(crate) fn workspace_state(scenario: &Scenario, path: &str) -> Value {
    let mut settings = workspace_settings(scenario, &scenario.host.workspace_mode);
    let available = settings["model"]["available"].clone();
    if let Some(first) = available.as_array().and_then(|all| all.first()) {
        settings["model"]["current"] = first["ref"].clone();
        settings["model"]["lastUsed"] = first["ref"].clone();
    }
    let providers = if scenario.host.signed_in {
        json!([{ "id": "builtin:zai-coding-plan", "label": "Z.ai Coding Plan" }])
    } else {
        json!([])
    };
    json!({
        "workspace": workspace(path),
        "settings": settings,
        "modelCatalog": { "providers": providers, "available": available },
        "slashCommands": slash_commands(),
    })
}

fn slash_commands() -> Value {
    json!([
        { "name": "compact", "description": "Summarise the conversation to free context", "inputHint": "instructions", "source": "builtin" },
        { "name": "goal", "description": "Show or set the goal of the session", "inputHint": "objective", "source": "builtin" },
        { "name": "plan", "description": "Plan before changing anything", "inputHint": "task", "source": "builtin" },
        { "name": "review", "description": "Review the changes of the working tree", "source": "custom" },
    ])
}

/// The session snapshot.
pub(crate) fn snapshot(scenario: &Scenario, session: &Session, catalogue: Catalogue) -> Value {
    let state = session.state();
    let State { record, turn, pending, open_tools, .. } = &*state;
    let status = if turn.is_some() { "running" } else { "idle" };
    let permissions: Vec<&Value> = pending
        .values()
        .filter(|one| one.kind == crate::session::PendingKind::Permission)
        .map(|one| &one.request)
        .collect();
    let tools: Vec<Value> = open_tools
        .iter()
        .map(|(id, name, status)| json!({ "toolCallId": id, "toolName": name, "status": status }))
        .collect();
    let window = record
        .model
        .as_ref()
        .and_then(|current| scenario.host.models.iter().find(|model| model_id(model) == *current))
        .map_or(200_000, |model| model.context_window);
    let total = record.usage.input + record.usage.output;
    let mut projection = json!({
        "status": status, "mode": record.mode, "turnCount": record.turn_count, "totalTokenCount": total,
        "contextUsed": record.usage.context, "contextWindow": window,
        "pendingPermissions": permissions, "activeToolCalls": tools, "backgroundJobs": state.jobs,
    });
    let mut runtime = json!({
        "eventSeq": session.seq(), "stateRevision": state.revision,
        "pendingRequestIds": pending.keys().collect::<Vec<_>>(),
        "contextUsage": { "used": record.usage.context, "size": window, "cost": null },
    });
    if let Some(turn) = turn {
        projection["currentTurnId"] = json!(turn.id);
        runtime["activeTurnId"] = json!(turn.id);
        runtime["activeTurnKind"] = json!("agent");
    }
    let messages: &[Value] = if state.hydrating { &[] } else { &record.messages };
    json!({
        "protocol": { "name": "ZCode Protocol", "version": 1 },
        "session": summary(record, status),
        "settings": settings(scenario, record, catalogue),
        "projection": projection,
        "runtime": runtime,
        "messages": messages,
        "todos": record.todos,
        "slashCommands": slash_commands(),
    })
}
