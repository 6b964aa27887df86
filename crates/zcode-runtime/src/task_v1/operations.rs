//! Neutral operations as service calls.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use diag_model::{AskId, Detail, ErrorCode, Failure, SessionId};
use runtime_discovery::contract::Operation;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use zcode_protocol::task_v1::{call as wire, snapshot};

use super::{TaskV1, facts};
use crate::client::{Client, Method};
use crate::descriptor::Memory;
use crate::host::Subscription;
use crate::model::{
    Attachment, AttachmentKind, AttachmentSource, CallError, InputAnswer, NewSession, OpenedSession,
    PromptInput, Refusal, WorkspaceState,
};

// Neutral names, shown in failures and records.
const OPEN: &str = "open workspace";
pub(super) const CREATE: &str = "create session";
pub(super) const SUBSCRIBE: &str = "subscribe";
pub(super) const PROMPT: &str = "prompt";
const STOP: &str = "stop";
const READ: &str = "read session";
const PERMISSION: &str = "answer permission";
const INPUT: &str = "answer input";
const HEADERS: &str = "refuse headers";
const CLOSE: &str = "close session";
const DISPOSE: &str = "dispose workspace";

const AGENT: &str = "agent";

pub(super) type Called<T> = Result<T, CallError>;

/// A path as text. The host's wire has no other paths.
fn text_path(path: &Path) -> Called<&str> {
    path.to_str().ok_or_else(|| CallError::Refused {
        failure: Failure::new(ErrorCode::InvalidWorkspace)
            .cause("the path is not valid Unicode, which ZCode requires")
            .with(Detail::Detected, path.display()),
        why: Refusal::Other,
    })
}

pub(super) fn result_of<'a, T: Deserialize<'a>>(operation: &'static str, result: &'a RawValue) -> Called<T> {
    serde_json::from_str(result.get()).map_err(|_| TaskV1::bad_result(operation))
}

/// An answer to an ask: `false` says that it was already gone; nothing at all counts as taken.
fn taken(result: &RawValue) -> bool {
    result.get() != "false"
}

impl TaskV1 {
    fn agent<'a>(&self, operation: &'static str, name: &'a str) -> Method<'a> {
        Method { operation, service: AGENT, name, timeout: self.contract.protocol.timeouts_ms.of(name) }
    }

    async fn call<P: serde::Serialize>(
        &self,
        client: &Client,
        method: Method<'_>,
        params: &P,
    ) -> Called<Box<RawValue>> {
        client.call(method, params).await.map_err(|trouble| self.call_error(method.operation, trouble, &[]))
    }

    /// A method of the `agent` service with parameters of its own.
    pub(super) async fn call_agent<P: serde::Serialize>(
        &self,
        client: &Client,
        operation: &'static str,
        name: &str,
        ws: &Path,
        own: P,
    ) -> Called<Box<RawValue>> {
        self.call_quoting(client, operation, name, ws, own, &[]).await
    }

    /// The same with user text among the parameters, which the host's message must not repeat.
    pub(super) async fn call_quoting<P: serde::Serialize>(
        &self,
        client: &Client,
        operation: &'static str,
        name: &str,
        ws: &Path,
        own: P,
        quoted: &[&str],
    ) -> Called<Box<RawValue>> {
        let params = wire::InWorkspace { workspace_path: text_path(ws)?, own };
        let called = client.call(self.agent(operation, name), &params).await;
        called.map_err(|trouble| self.call_error(operation, trouble, quoted))
    }

    /// An operation that the contract assigns to a service. `workspacePath` is not among the parameters of answers.
    async fn operate(
        &self,
        client: &Client,
        operation: &'static str,
        key: &str,
        session: &SessionId,
        more: Map<String, Value>,
    ) -> Called<Box<RawValue>> {
        let Some(Operation { service, method, session_parameter, flatten }) =
            self.contract.protocol.operations.get(key)
        else {
            return Err(CallError::Refused {
                failure: self.unavailable_feature(operation),
                why: Refusal::Unavailable,
            });
        };
        let mut params = Map::new();
        params.insert(session_parameter.clone(), session.as_str().into());
        for (name, value) in more {
            match value {
                Value::Object(members) if flatten.as_deref() == Some(name.as_str()) => params.extend(members),
                value => drop(params.insert(name, value)),
            }
        }
        let timeout = self.contract.protocol.timeouts_ms.of(method);
        self.call(client, Method { operation, service, name: method, timeout }, &params).await
    }

    pub(crate) async fn open_workspace(&self, client: &Client, ws: &Path) -> Called<WorkspaceState> {
        let result = self.call_agent(client, OPEN, "initialize", ws, ()).await?;
        let initialized: wire::Initialized<'_> = result_of(OPEN, &result)?;
        if !initialized.available {
            let reason =
                initialized.reason_code.as_deref().or(initialized.reason.as_deref()).unwrap_or_default();
            return Err(unavailable(reason, initialized.reason.as_deref()));
        }
        let result = self.call_agent(client, OPEN, "readWorkspaceState", ws, ()).await?;
        let state: wire::WorkspaceState<'_> = result_of(OPEN, &result)?;
        let settings = &state.settings;
        let of_settings = settings.model.as_ref();
        // The catalogue is the whole list; the settings may hold only the current model.
        let catalog = state.model_catalog.as_ref().map(|catalog| catalog.available.as_slice());
        let listed = of_settings.map_or(&[][..], |model| &model.available);
        let models = catalog.filter(|models| !models.is_empty()).unwrap_or(listed);
        let current = of_settings.and_then(|model| model.current.as_ref().or(model.last_used.as_ref()));
        Ok(WorkspaceState {
            mode: settings
                .mode
                .as_ref()
                .and_then(|mode| mode.current.as_ref())
                .map(zcode_protocol::task_v1::Text::to_arc),
            models: models.iter().map(facts::model).collect(),
            current_model: current.map(facts::model_ref),
            thought: settings.thought_level.as_ref().and_then(facts::thought),
            commands: state.slash_commands.as_deref().map(facts::commands).unwrap_or_default(),
        })
    }

    pub(crate) async fn create_session(&self, client: &Client, new: &NewSession) -> Called<OpenedSession> {
        let own = wire::CreateSession {
            mcp_servers: &new.mcp_servers,
            mode: &new.mode,
            fixed: &self.contract.protocol.create_session,
        };
        let result = self.call_agent(client, CREATE, "createSession", &new.workspace, own).await?;
        let snapshot: snapshot::Snapshot<'_> = result_of(CREATE, &result)?;
        Ok(OpenedSession {
            id: SessionId::new(snapshot.session.session_id.to_arc()),
            facts: facts::of_snapshot(&snapshot),
        })
    }

    pub(crate) async fn subscribe(
        &self,
        client: &Arc<Client>,
        ws: &Path,
        session: &SessionId,
    ) -> Called<Subscription> {
        let event = &self.contract.protocol.subscription;
        let own = wire::Listen {
            session_id: session.as_str(),
            delivery_kind: &event.delivery_kind,
            include_snapshot: true,
        };
        let params = wire::InWorkspace { workspace_path: text_path(ws)?, own };
        let timeout = self.contract.protocol.timeouts_ms.subscription_snapshot();
        let started = std::time::Instant::now();
        let memory = Memory { task_v1: super::Memory::of(session, ws) };
        let method = Method { operation: SUBSCRIBE, service: &event.service, name: &event.event, timeout };
        let opening = client
            .listen(method, &params, memory)
            .await
            .map_err(|trouble| self.call_error(SUBSCRIBE, trouble, &[]))?;
        // Whatever happens from here on, a queue nobody holds ends the subscription.
        client.watch(opening.number);
        // The answer to a listen says nothing; the subscription stands with its first snapshot.
        let left = timeout.saturating_sub(started.elapsed());
        match tokio::time::timeout(left, opening.first).await {
            Ok(Ok(Ok(snapshot))) => Ok(Subscription { snapshot, events: opening.events }),
            Ok(Ok(Err(failure))) if client.is_closed() => Err(CallError::Gone(failure)),
            Ok(Ok(Err(failure))) => {
                let failure = failure.in_phase(diag_model::Phase::Session);
                Err(CallError::Refused { failure, why: Refusal::Other })
            }
            Ok(Err(_)) => Err(CallError::Gone(Failure::new(ErrorCode::HostExited))),
            Err(_) => Err(self.call_error(SUBSCRIBE, crate::client::Trouble::TimedOut(timeout), &[])),
        }
    }

    pub(crate) async fn prompt(
        &self,
        client: &Client,
        ws: &Path,
        session: &SessionId,
        input: &PromptInput,
    ) -> Called<()> {
        let own = wire::SendPrompt {
            session_id: session.as_str(),
            input_id: input.input.as_str(),
            content: &input.text,
            attachments: input.attachments.iter().map(attachment).collect::<Called<_>>()?,
        };
        let params = wire::InWorkspace { workspace_path: text_path(ws)?, own };
        let result = client.call(self.agent(PROMPT, "sendPrompt"), &params).await.map_err(|trouble| {
            let quoted: Vec<&str> = std::iter::once(input.text.as_str())
                .chain(input.attachments.iter().map(|attachment| attachment.filename.as_str()))
                .collect();
            self.call_error(PROMPT, trouble, &quoted)
        })?;
        let accepted: wire::Accepted = result_of(PROMPT, &result)?;
        if accepted.accepted {
            return Ok(());
        }
        Err(CallError::Refused {
            failure: Failure::new(ErrorCode::SessionBusy)
                .cause("ZCode did not accept the prompt")
                .with(Detail::Operation, PROMPT),
            why: Refusal::Busy,
        })
    }

    pub(crate) async fn stop(&self, client: &Client, ws: &Path, session: &SessionId) -> Called<()> {
        let mut more = Map::new();
        more.insert("workspacePath".to_owned(), text_path(ws)?.into());
        self.operate(client, STOP, "cancelGeneration", session, more).await.map(drop)
    }

    pub(crate) async fn turn_running(&self, client: &Client, ws: &Path, session: &SessionId) -> Called<bool> {
        let own = wire::ReadSession { session_id: session.as_str(), message_limit: 1 };
        let result = self.call_agent(client, READ, "readSession", ws, own).await?;
        Ok(facts::is_running(&result_of(READ, &result)?))
    }

    pub(crate) async fn answer_permission(
        &self,
        client: &Client,
        session: &SessionId,
        ask: &AskId,
        option: &str,
    ) -> Called<bool> {
        let mut more = Map::new();
        more.insert("requestId".to_owned(), ask.as_str().into());
        more.insert("optionId".to_owned(), option.into());
        let result = self.operate(client, PERMISSION, "respondPermission", session, more).await?;
        Ok(taken(&result))
    }

    pub(crate) async fn answer_input(
        &self,
        client: &Client,
        session: &SessionId,
        ask: &AskId,
        answer: &InputAnswer,
    ) -> Called<bool> {
        let response = match answer {
            InputAnswer::Decline => json!({"action": "decline"}),
            InputAnswer::Cancel => json!({"action": "cancel"}),
            InputAnswer::Accept(answers) => {
                let answers: Map<String, Value> = answers
                    .iter()
                    .map(|(question, values)| {
                        let value = match values.as_slice() {
                            [one] => one.as_str().into(),
                            many => many.into(),
                        };
                        (question.clone(), value)
                    })
                    .collect();
                json!({"action": "accept", "content": {"answers": answers}})
            }
        };
        let mut more = Map::new();
        more.insert("requestId".to_owned(), ask.as_str().into());
        more.insert("response".to_owned(), response);
        let result = self.operate(client, INPUT, "respondStructuredInput", session, more).await?;
        Ok(taken(&result))
    }

    pub(crate) async fn refuse_headers(
        &self,
        client: &Client,
        ws: &Path,
        ask: &AskId,
        reason: &str,
    ) -> Called<()> {
        let own = wire::RespondHeaders {
            request_id: ask.as_str(),
            response: wire::HeadersResponse { headers_applied: false, error_message: reason },
        };
        self.call_agent(client, HEADERS, "respondProviderRuntimeHeaders", ws, own).await.map(drop)
    }

    pub(crate) async fn close_session(&self, client: &Client, ws: &Path, session: &SessionId) -> Called<()> {
        let own = wire::OfSession { session_id: session.as_str() };
        self.call_agent(client, CLOSE, "closeSession", ws, own).await.map(drop)
    }

    pub(crate) async fn dispose_workspace(&self, client: &Client, ws: &Path) -> Called<()> {
        let timeout: Duration = self.contract.protocol.timeouts_ms.dispose_workspace();
        let params = wire::InWorkspace { workspace_path: text_path(ws)?, own: () };
        let method = Method { timeout, ..self.agent(DISPOSE, "disposeWorkspace") };
        self.call(client, method, &params).await.map(drop)
    }
}

/// A workspace the host cannot use.
fn unavailable(reason: &str, said: Option<&str>) -> CallError {
    if matches!(reason, "provider_not_ready" | "provider_not_configured") {
        let failure = Failure::new(ErrorCode::SignInRequired).with(Detail::UpstreamCode, reason);
        return CallError::Refused { failure, why: Refusal::SignIn };
    }
    let mut failure = Failure::new(ErrorCode::SessionRefused).with(Detail::Operation, OPEN);
    failure = match said.map(crate::redact::line).filter(|said| !said.is_empty()) {
        Some(said) => failure.cause(format!("ZCode cannot use this workspace: {said}")),
        None => failure.cause("ZCode cannot use this workspace"),
    };
    CallError::Refused { failure, why: Refusal::Other }
}

fn attachment(attachment: &Attachment) -> Called<wire::Attachment<'_>> {
    let (data_base64, local_path) = match &attachment.source {
        AttachmentSource::Base64(data) => (Some(&**data), None),
        AttachmentSource::Path(path) => (None, Some(text_path(path)?)),
    };
    Ok(wire::Attachment {
        kind: match attachment.kind {
            AttachmentKind::Image => "image",
            AttachmentKind::Audio => "audio",
            AttachmentKind::File => "file",
        },
        filename: &attachment.filename,
        mime_type: &attachment.mime_type,
        data_base64,
        local_path,
        size_bytes: attachment.size_bytes,
    })
}
