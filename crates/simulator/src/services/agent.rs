//! The `agent` service.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{Outcome, active, text};
use crate::host::Host;
use crate::session::{
    PendingKind, Record, RunningTurn, Session, Shared, Totals, model_id, model_ref, now_ms,
};
use crate::snapshot::{Catalogue, snapshot, summary, workspace_state};
use crate::store;
use crate::turn::{self, Cause};
use crate::wire::ServiceError;

/// Modes ZCode's enumeration has.
const MODES: [&str; 6] = ["build", "edit", "plan", "yolo", "guarded", "auto"];
/// Messages one answer carries at most.
const PAGE: usize = 500;

/// Calls a method. `None`: it has answered by itself.
pub(super) async fn call(
    host: &Arc<Host>,
    id: u64,
    method: &str,
    params: &Value,
) -> Result<Option<Value>, ServiceError> {
    let workspace = text(params, "workspacePath")?;
    match method {
        "initialize" => Ok(initialize(host, workspace)),
        "readWorkspaceState" => Ok(workspace_state(host.scenario(), workspace)),
        "createSession" => create(host, workspace, params).await,
        "resumeSession" => resume(host, workspace, params).await,
        "listSessions" => Ok(list(host, workspace, params).await),
        "readSession" => read(host, params),
        "readSessionMessages" => read_messages(host, params),
        "readSessionEvents" => read_events(host, params).await,
        "sendPrompt" => return prompt(host, id, params).await.map(|()| None),
        "closeSession" => close(host, params).await,
        "setModel" => set_model(host, params).await,
        "setThoughtLevel" => set_thought(host, params).await,
        "setMode" => set_mode(host, params).await,
        "getTaskTokenUsage" => token_usage(host, params),
        "respondProviderRuntimeHeaders" => respond_headers(host, params),
        "disposeWorkspace" => Ok(dispose(host, workspace).await),
        "compactSession" => compact(host, params).await,
        "goalSession" => goal(host, params).await,
        "listSessionSubagents" => active(host, params, "sessionId").map(|_| json!([])),
        _ => Err(ServiceError::no_method(method)),
    }
    .map(Some)
}

fn initialize(host: &Host, workspace: &str) -> Value {
    let mut answer = json!({
        "available": host.scenario().host.signed_in, "workspaceKey": workspace,
        "protocolName": "ZCode Protocol", "protocolVersion": 1, "transportKind": "stdio",
    });
    if !host.scenario().host.signed_in {
        answer["reason"] = json!("No model provider is configured.");
        answer["reasonCode"] = json!("provider_not_ready");
    }
    answer
}

async fn create(host: &Arc<Host>, workspace: &str, params: &Value) -> Outcome {
    let settings = &host.scenario().host;
    if !settings.signed_in {
        return Err(ServiceError::plain("provider_not_configured: no model provider is configured"));
    }
    let asked = params.get("mode").and_then(Value::as_str).unwrap_or(&settings.workspace_mode);
    known_mode(asked)?;
    let session_id = match params.get("sessionId").and_then(Value::as_str) {
        Some(id) if store::valid_id(id) && host.session(id).is_none() => id.to_owned(),
        Some(_) => return Err(ServiceError::params("sessionId is not a new UUID")),
        None => Uuid::new_v4().to_string(),
    };
    let model = match params.get("model") {
        Some(wanted) => Some(known_model(host, wanted)?),
        None => settings.models.iter().find(|model| model.disabled.is_none()).map(model_id),
    };
    let now = now_ms();
    let record = Record {
        format: store::FORMAT,
        session_id,
        workspace_path: workspace.to_owned(),
        mode: settings.reply_mode.as_deref().unwrap_or(asked).to_owned(),
        previous_mode: None,
        title: "New session".into(),
        title_source: "default".into(),
        model,
        thought_level: settings.thought_levels.last().cloned(),
        created_at: now,
        updated_at: now,
        archived: false,
        event_seq: 0,
        turn_count: 0,
        usage: Totals::default(),
        goal: None,
        todos: Vec::new(),
        messages: Vec::new(),
    };
    let session = Arc::new(Session::new(record, host.outlet().clone()));
    let session = host
        .activate(session)
        .ok_or_else(|| ServiceError::plain("too many sessions in this simulated host"))?;
    if params.get("persistence").and_then(Value::as_str) != Some("deferred") {
        host.store.save(&session).await;
    }
    session.event(None, "session.created", &json!({ "mode": asked, "contextWindow": 200_000 })).await;
    Ok(snapshot(host.scenario(), &session, Catalogue::Whole))
}

async fn resume(host: &Arc<Host>, workspace: &str, params: &Value) -> Outcome {
    let id = text(params, "sessionId")?;
    let unknown = || {
        ServiceError::new(
            zcode_protocol::bridge::BRIDGE_ERROR,
            "SessionNotFoundError",
            format!("Session not found: {id}"),
        )
    };
    if let Some(session) = host.session(id) {
        if session.workspace() != workspace {
            return Err(unknown());
        }
        return Ok(snapshot(host.scenario(), &session, Catalogue::CurrentOnly));
    }
    let record =
        host.store.load(id).await.filter(|record| record.workspace_path == workspace).ok_or_else(unknown)?;
    let session = Arc::new(Session::new(record, host.outlet().clone()));
    session.state().hydrating = true;
    let session = host
        .activate(session)
        .ok_or_else(|| ServiceError::plain("too many sessions in this simulated host"))?;
    let answer = snapshot(host.scenario(), &session, Catalogue::CurrentOnly);
    let hydrate = Duration::from_millis(host.scenario().host.hydrate_ms);
    host.spawn(async move {
        tokio::time::sleep(hydrate).await;
        let (messages, parts) = {
            let mut state = session.state();
            state.hydrating = false;
            let parts: usize =
                state.record.messages.iter().filter_map(|one| one["parts"].as_array()).map(Vec::len).sum();
            (state.record.messages.len(), parts)
        };
        let payload = json!({
            "directory": session.workspace(), "interruptedToolCount": 0, "messageCount": messages, "partCount": parts,
        });
        session.event(None, "session.resumed", &payload).await;
    });
    Ok(answer)
}

async fn list(host: &Host, workspace: &str, params: &Value) -> Value {
    let archived = params.get("includeArchived").and_then(Value::as_bool).unwrap_or(false);
    let limit = params.get("limit").and_then(Value::as_u64).map_or(usize::MAX, |limit| limit as usize);
    let mut all = host.store.list().await;
    for session in host.sessions() {
        let record = session.record();
        all.retain(|one| one.session_id != record.session_id);
        all.push(record);
    }
    all.retain(|record| record.workspace_path == workspace && (archived || !record.archived));
    all.sort_by_key(|record| std::cmp::Reverse(record.updated_at));
    let running = |id: &str| host.session(id).is_some_and(|session| session.state().turn.is_some());
    let status = |id: &str| if running(id) { "running" } else { "idle" };
    all.iter().take(limit).map(|record| summary(record, status(&record.session_id))).collect()
}

fn read(host: &Host, params: &Value) -> Outcome {
    let session = active(host, params, "sessionId")?;
    let mut answer = snapshot(host.scenario(), &session, Catalogue::CurrentOnly);
    if let Some(limit) = params.get("messageLimit").and_then(Value::as_u64)
        && let Some(messages) = answer["messages"].as_array_mut()
    {
        let surplus = messages.len().saturating_sub(limit as usize);
        messages.drain(..surplus);
    }
    Ok(answer)
}

fn read_messages(host: &Host, params: &Value) -> Outcome {
    let session = active(host, params, "sessionId")?;
    let state = session.state();
    if state.hydrating {
        return Ok(json!([]));
    }
    let messages = &state.record.messages;
    let start = match params.get("afterMessageId").and_then(Value::as_str) {
        None => 0,
        Some(after) => messages
            .iter()
            .position(|message| message["info"]["messageId"] == after)
            .map(|at| at + 1)
            .ok_or_else(|| ServiceError::params("afterMessageId is not a message of this session"))?,
    };
    let limit = params.get("limit").and_then(Value::as_u64).map_or(PAGE, |limit| (limit as usize).min(PAGE));
    Ok(messages.iter().skip(start).take(limit).cloned().collect())
}

async fn read_events(host: &Host, params: &Value) -> Outcome {
    let session = active(host, params, "sessionId")?;
    let after = params.get("afterSeq").and_then(Value::as_u64).unwrap_or(0);
    let limit = params.get("limit").and_then(Value::as_u64).map_or(PAGE, |limit| limit as usize);
    Ok(session.events_after(after, limit).await.into())
}

async fn prompt(host: &Arc<Host>, id: u64, params: &Value) -> Result<(), ServiceError> {
    let session = active(host, params, "sessionId")?;
    let input = text(params, "inputId")?.to_owned();
    let content = params
        .get("content")
        .and_then(Value::as_str)
        .ok_or_else(|| ServiceError::params("content must be a string"))?
        .to_owned();
    let attachments = attachments(params)?;
    let turn = RunningTurn::new();
    let (revision, message) = {
        let mut state = session.state();
        if state.turn.is_some() {
            return Err(ServiceError::plain("A prompt is already running for this session"));
        }
        state.turn = Some(turn.clone());
        state.revision += 1;
        state.record.turn_count += 1;
        if state.record.title_source == "default" && !content.trim().is_empty() {
            state.record.title = content.trim().lines().next().unwrap_or_default().chars().take(80).collect();
            state.record.title_source = "first_input".into();
        }
        (state.revision, format!("msg_{}", Uuid::new_v4()))
    };
    session.push_message(user_message(&session, &message, &content, &attachments));
    let answer = json!({ "sessionId": session.id(), "accepted": true, "stateRevision": revision });
    host.outlet().answer(id, Ok(answer)).await;
    let cause = Cause::Prompt { input, content, message, attachments: attachments.len() };
    turn::start(host, session, turn, cause);
    Ok(())
}

/// Checks attachments and turns them into message parts. Nothing is read from disk.
fn attachments(params: &Value) -> Result<Vec<Value>, ServiceError> {
    let Some(list) = params.get("attachments") else { return Ok(Vec::new()) };
    let list = list.as_array().ok_or_else(|| ServiceError::params("attachments must be a list"))?;
    list.iter()
        .enumerate()
        .map(|(index, attachment)| {
            let wrong = |what: &str| ServiceError::params(format!("attachments[{index}]: {what}"));
            let kind = text(attachment, "kind").map_err(|_| wrong("kind is missing"))?;
            if !["image", "audio", "file"].contains(&kind) {
                return Err(wrong("kind must be image, audio or file"));
            }
            let filename = text(attachment, "filename").map_err(|_| wrong("filename is missing"))?;
            let mime = text(attachment, "mimeType").map_err(|_| wrong("mimeType is missing"))?;
            if attachment.get("sizeBytes").and_then(Value::as_u64).is_none() {
                return Err(wrong("sizeBytes is missing"));
            }
            let data = attachment.get("dataBase64").and_then(Value::as_str);
            let path = attachment.get("localPath").and_then(Value::as_str);
            let url = match (data, path) {
                (Some(data), None) if data.len() <= 64 * 1024 => format!("data:{mime};base64,{data}"),
                (Some(_), None) | (None, Some(_)) => format!("zcode-artifact://{}", Uuid::new_v4()),
                _ => return Err(wrong("exactly one of dataBase64 and localPath is needed")),
            };
            Ok(json!({ "type": "file", "mime": mime, "filename": filename, "url": url }))
        })
        .collect()
}

fn user_message(session: &Session, id: &str, content: &str, attachments: &[Value]) -> Value {
    let mut parts = vec![json!({ "type": "text", "text": content })];
    parts.extend(attachments.iter().cloned());
    let mut info = json!({
        "messageId": id, "role": "user", "time": { "created": now_ms() }, "agent": "main",
        "visibility": "user-visible",
        "semantics": {
            "origin": "real_user", "kind": "user_prompt", "uiVisibility": "visible",
            "providerVisibility": "visible", "transcriptVisibility": "visible",
        },
    });
    if let Some(model) = &session.state().record.model {
        info["model"] = model_ref(model);
    }
    json!({ "info": info, "parts": parts })
}

async fn close(host: &Host, params: &Value) -> Outcome {
    let id = text(params, "sessionId")?;
    let Ok(session) = active(host, params, "sessionId") else { return Ok(json!(false)) };
    stop_and_wait(&session).await;
    session.event(None, "session.closed", &json!({ "reason": "client" })).await;
    host.store.save(&session).await;
    host.deactivate(id);
    Ok(json!(true))
}

/// Stops a running turn and waits a moment for its end.
async fn stop_and_wait(session: &Shared) {
    let turn = session.state().turn.clone();
    if let Some(turn) = turn {
        turn.stop.cancel();
        let _ = tokio::time::timeout(Duration::from_secs(2), turn.done.cancelled()).await;
    }
}

fn known_model(host: &Host, wanted: &Value) -> Result<(String, String, Option<String>), ServiceError> {
    let models = &host.scenario().host.models;
    models
        .iter()
        .find(|model| {
            wanted["providerId"] == model.provider
                && wanted["modelId"] == model.model
                && wanted.get("variant").and_then(Value::as_str) == model.variant.as_deref()
        })
        .map(model_id)
        .ok_or_else(|| ServiceError::plain("model_not_found: the model is not in the catalogue"))
}

fn known_mode(mode: &str) -> Result<(), ServiceError> {
    if MODES.contains(&mode) {
        return Ok(());
    }
    Err(ServiceError::params(format!("mode must be one of {}", MODES.join(", "))))
}

async fn set_model(host: &Host, params: &Value) -> Outcome {
    let session = active(host, params, "sessionId")?;
    let model = known_model(host, &params["model"])?;
    session.state().record.model = Some(model.clone());
    session
        .state_updated("model_changed", json!({ "settings": { "model": { "current": model_ref(&model) } } }))
        .await;
    host.store.save(&session).await;
    Ok(snapshot(host.scenario(), &session, Catalogue::CurrentOnly))
}

async fn set_thought(host: &Host, params: &Value) -> Outcome {
    let session = active(host, params, "sessionId")?;
    let level = text(params, "thoughtLevel")?;
    if !host.scenario().host.thought_levels.iter().any(|one| one == level) {
        return Err(ServiceError::params("thoughtLevel is not available for this model"));
    }
    session.state().record.thought_level = Some(level.to_owned());
    session
        .state_updated(
            "thought_level_changed",
            json!({ "settings": { "thoughtLevel": { "current": level } } }),
        )
        .await;
    host.store.save(&session).await;
    Ok(snapshot(host.scenario(), &session, Catalogue::CurrentOnly))
}

async fn set_mode(host: &Host, params: &Value) -> Outcome {
    let session = active(host, params, "sessionId")?;
    let asked = text(params, "mode")?;
    known_mode(asked)?;
    let settings = &host.scenario().host;
    let mode = match &settings.reply_mode {
        Some(mode) if settings.mode_locked => mode,
        _ => asked,
    };
    let changed = turn::change_mode(&session, mode);
    if changed.is_some() {
        session.state_updated("mode_changed", json!({ "mode": { "current": mode } })).await;
    }
    host.store.save(&session).await;
    Ok(snapshot(host.scenario(), &session, Catalogue::CurrentOnly))
}

fn token_usage(host: &Host, params: &Value) -> Outcome {
    let session = active(host, params, "sessionId")?;
    let usage = session.state().record.usage;
    Ok(json!({
        "sessionId": session.id(), "totalTokens": usage.input + usage.output, "inputTokens": usage.input,
        "outputTokens": usage.output, "reasoningTokens": usage.reasoning, "cacheCreationTokens": usage.cache_write,
        "cacheReadTokens": usage.cache_read, "modelRequestCount": usage.requests, "modelErrorCount": usage.errors,
        "inputBaselineBySource": {},
    }))
}

fn respond_headers(host: &Host, params: &Value) -> Outcome {
    let request = text(params, "requestId")?;
    let response = params
        .get("response")
        .filter(|response| response.get("headersApplied").is_some_and(Value::is_boolean))
        .ok_or_else(|| ServiceError::params("response.headersApplied must be a boolean"))?;
    for session in host.sessions() {
        if session.answer(request, PendingKind::Headers, response.clone()) {
            break;
        }
    }
    Ok(Value::Null)
}

async fn dispose(host: &Host, workspace: &str) -> Value {
    for session in host.sessions().into_iter().filter(|session| session.workspace() == workspace) {
        stop_and_wait(&session).await;
        host.store.save(&session).await;
        host.deactivate(session.id());
    }
    Value::Null
}

async fn compact(host: &Host, params: &Value) -> Outcome {
    let session = active(host, params, "sessionId")?;
    if session.state().turn.is_some() {
        return Err(ServiceError::plain("A prompt is already running for this session"));
    }
    session
        .event(None, "session.updated", &json!({ "type": "compaction_started", "trigger": "manual" }))
        .await;
    session.state().record.usage.context /= 4;
    session
        .event(None, "session.updated", &json!({ "type": "compaction_completed", "trigger": "manual" }))
        .await;
    host.store.save(&session).await;
    Ok(json!({
        "response": "The conversation was compacted (simulated).",
        "snapshot": snapshot(host.scenario(), &session, Catalogue::CurrentOnly),
        "compact": { "state": "accepted" },
    }))
}

async fn goal(host: &Host, params: &Value) -> Outcome {
    let session = active(host, params, "sessionId")?;
    let action = text(params, "action")?;
    let objective = params.get("objective").and_then(Value::as_str);
    let response = {
        let goal = &mut session.state().record.goal;
        match (action, objective) {
            ("show", _) => goal.as_ref().map_or("No goal is set.".to_owned(), |goal| format!("Goal: {goal}")),
            ("set" | "replace", Some(objective)) => {
                *goal = Some(objective.to_owned());
                format!("Goal set: {objective}")
            }
            ("set" | "replace", None) => return Err(ServiceError::params("objective is missing")),
            ("clear", _) => {
                *goal = None;
                "Goal cleared.".to_owned()
            }
            ("pause", _) => "Goal paused.".to_owned(),
            ("resume", _) => "Goal resumed.".to_owned(),
            _ => {
                return Err(ServiceError::params(
                    "action must be show, set, replace, pause, resume or clear",
                ));
            }
        }
    };
    host.store.save(&session).await;
    let snapshot = snapshot(host.scenario(), &session, Catalogue::CurrentOnly);
    Ok(json!({ "response": response, "snapshot": snapshot, "startedTurn": false }))
}
