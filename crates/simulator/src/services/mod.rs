//! The services of the host: `agent`, `task` and `usage`, as the bridge offers them.

mod agent;
mod task;
mod usage;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use zcode_protocol::bridge::{Action, BRIDGE_ERROR, Request};

use crate::host::Host;
use crate::session::Shared;
use crate::snapshot::{Catalogue, snapshot};
use crate::wire::ServiceError;

type Outcome = Result<Value, ServiceError>;

/// Event of the `agent` service that can be listened to.
const EVENT: &str = "onDynamicSessionEvent";

/// Handles one request line. Whatever takes time is moved to a task; the order of the rest is the order of the lines.
pub(crate) async fn handle(host: &Arc<Host>, line: &[u8]) {
    let request: Request<'_> = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => {
            let id = serde_json::from_slice::<Value>(line).ok().and_then(|value| value.get("id")?.as_u64());
            if let Some(id) = id {
                let message = format!("not a request of this wire: {error}");
                host.outlet().answer(id, Err(ServiceError::new(-32700, "SyntaxError", message))).await;
            }
            return;
        }
    };
    let id = request.id;
    match request.action {
        Action::Call { service, method, params } => {
            if !allowed(host.config().allow.get(&*service), host.config().allow.is_empty(), &method) {
                let message = format!("{service}.{method} is not allowed");
                host.outlet().answer(id, Err(ServiceError::new(BRIDGE_ERROR, "BridgeError", message))).await;
                return;
            }
            call(host, id, &service, &method, params).await;
        }
        Action::Subscribe { subscription, service, event, params } => {
            let events = &host.config().events;
            if service != "agent"
                || event != EVENT
                || !allowed(events.get(&*service), events.is_empty(), &event)
            {
                let message = format!("{service}.{event} cannot be listened to");
                host.outlet().answer(id, Err(ServiceError::new(BRIDGE_ERROR, "BridgeError", message))).await;
                return;
            }
            host.outlet().answer(id, Ok(Value::Null)).await;
            subscribe(host, subscription, &params).await;
        }
        Action::Unsubscribe { subscription } => {
            host.unsubscribe(subscription);
            host.outlet().answer(id, Ok(Value::Null)).await;
        }
    }
}

/// The bridge lets through what its configuration names; without any configuration, everything.
fn allowed(list: Option<&Vec<String>>, unconfigured: bool, name: &str) -> bool {
    unconfigured || list.is_some_and(|list| list.iter().any(|one| one == name))
}

async fn call(host: &Arc<Host>, id: u64, service: &str, method: &str, params: Value) {
    let settings = &host.scenario().host;
    let delay = match (service, method) {
        ("agent", "createSession") => settings.create_delay_ms,
        ("agent", "resumeSession") => settings.resume_delay_ms,
        _ => 0,
    };
    if delay > 0 {
        let (host, method) = (Arc::clone(host), method.to_owned());
        host.clone().spawn(async move {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            let outcome = agent::call(&host, id, &method, &params).await;
            answer(&host, id, outcome).await;
        });
        return;
    }
    let outcome = match service {
        "agent" => agent::call(host, id, method, &params).await,
        "task" => task::call(host, method, &params).await.map(Some),
        "usage" => usage::call(host, method).map(Some),
        _ => Err(ServiceError::new(BRIDGE_ERROR, "BridgeError", format!("unknown service {service}"))),
    };
    answer(host, id, outcome).await;
}

/// Answers, unless the method has done so by itself.
async fn answer(host: &Host, id: u64, outcome: Result<Option<Value>, ServiceError>) {
    match outcome {
        Ok(Some(result)) => host.outlet().answer(id, Ok(result)).await,
        Ok(None) => {}
        Err(error) => host.outlet().answer(id, Err(error)).await,
    }
}

/// Starts a subscription. A session that is not active is simply never heard of: a listen has no acknowledgement.
async fn subscribe(host: &Arc<Host>, number: u64, params: &Value) {
    let Ok(session) = active(host, params, "sessionId") else { return };
    host.subscribe(number, &session);
    let settings = &host.scenario().host;
    let wanted = params.get("includeSnapshot").and_then(Value::as_bool).unwrap_or(false);
    let delay = settings.snapshot_delay_ms;
    let first = {
        let (host, session) = (Arc::clone(host), Arc::clone(&session));
        (wanted && settings.snapshot)
            .then_some(move || snapshot(host.scenario(), &session, Catalogue::CurrentOnly))
    };
    if delay == 0 {
        session.subscribe(number, first).await;
    } else {
        host.spawn(async move {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            session.subscribe(number, first).await;
        });
    }
}

/// A required string parameter.
fn text<'a>(params: &'a Value, name: &str) -> Result<&'a str, ServiceError> {
    params
        .get(name)
        .and_then(Value::as_str)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| ServiceError::params(format!("{name} must be a non-empty string")))
}

/// The active session a call is about. Named with another workspace it is as unknown as one that was never made: each
/// workspace has its own server.
fn active(host: &Host, params: &Value, name: &str) -> Result<Shared, ServiceError> {
    let id = text(params, name)?;
    let session = host.session(id).ok_or_else(ServiceError::not_active)?;
    match params.get("workspacePath").and_then(Value::as_str) {
        Some(path) if path != session.workspace() => Err(ServiceError::not_active()),
        _ => Ok(session),
    }
}
