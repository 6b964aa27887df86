//! The `task` service. A task's id is its session's id.

use serde_json::{Value, json};

use super::{Outcome, active, text};
use crate::host::Host;
use crate::session::PendingKind;
use crate::snapshot::summary;
use crate::wire::ServiceError;

pub(super) async fn call(host: &Host, method: &str, params: &Value) -> Outcome {
    match method {
        "stopGeneration" => {
            let session = active(host, params, "taskId")?;
            let turn = session.state().turn.clone();
            if let Some(turn) = turn {
                turn.stop.cancel();
            }
            Ok(Value::Null)
        }
        "respondPermission" => {
            let session = active(host, params, "taskId")?;
            let request = text(params, "requestId")?;
            let option = text(params, "optionId")?;
            Ok(json!(session.answer(request, PendingKind::Permission, json!(option))))
        }
        "respondElicitation" => {
            let session = active(host, params, "taskId")?;
            let request = text(params, "requestId")?;
            let action = text(params, "action")?;
            if !["accept", "decline", "cancel"].contains(&action) {
                return Err(ServiceError::params("action must be accept, decline or cancel"));
            }
            let answer = json!({ "action": action, "content": params.get("content") });
            Ok(json!(session.answer(request, PendingKind::Input, answer)))
        }
        "listTasks" => {
            let all = host.sessions();
            Ok(all.iter().map(|session| summary(&session.record(), "idle")).collect())
        }
        "deleteTask" => {
            let id = text(params, "taskId")?;
            if let Some(session) = host.deactivate(id) {
                let turn = session.state().turn.clone();
                if let Some(turn) = turn {
                    turn.stop.cancel();
                }
            }
            Ok(json!(host.store.delete(id).await))
        }
        _ => Err(ServiceError::no_method(method)),
    }
}
