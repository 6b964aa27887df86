//! One ACP connection seen from the client's side.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::{ConnectionTo, schema as wire};
use agent_client_protocol::{Agent as AgentRole, Client, UntypedMessage};
use futures::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::convert;
use crate::error::ClientError;
use crate::model::{Agent, PermissionAnswer, PermissionAsk, Session, SessionUpdate, StopReason};
use crate::transport::{FrameTap, Streams, lines};

/// What the client does with what the agent sends.
pub trait Handler: Send + Sync + 'static {
    /// Called for every update, in order. An answer of the agent is seen only after all updates before it.
    fn update(&self, update: SessionUpdate);

    /// Decides a permission. The future is dropped when the agent withdraws the question or the turn is cancelled.
    fn permission(&self, ask: PermissionAsk) -> BoxFuture<'static, PermissionAnswer>;
}

/// A handler without a user: updates are ignored and every permission stays without a choice.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoUser;

impl Handler for NoUser {
    fn update(&self, _update: SessionUpdate) {}

    fn permission(&self, _ask: PermissionAsk) -> BoxFuture<'static, PermissionAnswer> {
        Box::pin(async { PermissionAnswer::Cancelled })
    }
}

/// How the client introduces itself.
#[derive(Debug, Clone)]
pub struct ClientInfo {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

/// A live connection. Clones are handles of the same one.
#[derive(Clone)]
pub struct Connection {
    cx: ConnectionTo<AgentRole>,
    turns: Turns,
}

/// One entry per session with a running prompt or an open question.
#[derive(Clone, Default)]
struct Turns(Arc<Mutex<HashMap<String, Turn>>>);

#[derive(Default)]
struct Turn {
    /// Cancelling it ends the session's open questions.
    token: CancellationToken,
    /// A prompt runs. Its token stays cancelled until its answer: a question the agent had asked before it read the
    /// cancel arrives later.
    prompt: bool,
}

impl Turns {
    fn begin(&self, session: &str) {
        self.lock().insert(session.to_owned(), Turn { prompt: true, ..Turn::default() });
    }

    fn end(&self, session: &str) {
        self.lock().remove(session);
    }

    fn question(&self, session: &str) -> CancellationToken {
        self.lock().entry(session.to_owned()).or_default().token.clone()
    }

    fn cancel(&self, session: &str) {
        let mut turns = self.lock();
        if let Some(turn) = turns.get(session) {
            turn.token.cancel();
            if !turn.prompt {
                turns.remove(session);
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, Turn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Introduces the client. No capabilities are offered.
    pub async fn initialize(&self, info: ClientInfo) -> Result<Agent, ClientError> {
        let request = wire::InitializeRequest::new(ProtocolVersion::V1)
            .client_info(wire::Implementation::new(info.name, info.version));
        let response = self.cx.send_request(request).block_task().await.map_err(ClientError::from_sdk)?;
        Ok(convert::agent(&response))
    }

    /// Opens a session in `cwd`.
    pub async fn new_session(&self, cwd: &Path) -> Result<Session, ClientError> {
        let request = wire::NewSessionRequest::new(cwd);
        let response = self.cx.send_request(request).block_task().await.map_err(ClientError::from_sdk)?;
        Ok(convert::session(response))
    }

    /// Sends a text prompt and waits for the end of its turn.
    pub async fn prompt(&self, session: &str, text: &str) -> Result<StopReason, ClientError> {
        let block = wire::ContentBlock::Text(wire::TextContent::new(text));
        let request = wire::PromptRequest::new(wire::SessionId::new(session), vec![block]);
        self.turns.begin(session);
        let answer = self.cx.send_request(request).block_task().await;
        self.turns.end(session);
        answer.map(|response| convert::stop_reason(response.stop_reason)).map_err(ClientError::from_sdk)
    }

    /// Asks for the end of the running turn. Open questions of the session are answered "cancelled", as the protocol
    /// wants it.
    pub fn cancel(&self, session: &str) -> Result<(), ClientError> {
        self.cx
            .send_notification(wire::CancelNotification::new(wire::SessionId::new(session)))
            .map_err(ClientError::from_sdk)?;
        self.turns.cancel(session);
        Ok(())
    }
}

/// Runs a connection over `streams` until `main` returns; then the write side is closed.
pub async fn run<R, F>(
    streams: Streams,
    handler: Arc<dyn Handler>,
    tap: Option<FrameTap>,
    main: F,
) -> Result<R, ClientError>
where
    F: AsyncFnOnce(Connection) -> Result<R, ClientError>,
{
    let turns = Turns::default();
    let asked = turns.clone();
    let updates = Arc::clone(&handler);
    // The outcome of `main` is kept apart from the SDK's error: a failed request and a failed connection differ.
    let outcome = Client
        .v1()
        .on_receive_notification(
            async move |message: UntypedMessage, _cx| {
                if message.method() == "session/update"
                    && let Some(update) = convert::session_update(message.params())
                {
                    updates.update(update);
                }
                Ok(())
            },
            agent_client_protocol::on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: wire::RequestPermissionRequest, responder, _cx: ConnectionTo<AgentRole>| {
                let turn = asked.question(&request.session_id.0);
                let answer = handler.permission(convert::permission_ask(request));
                // Not awaited here: the dispatch loop must go on reading while a person thinks.
                tokio::spawn(async move {
                    let withdrawn = responder.cancellation();
                    let answer = tokio::select! {
                        answer = answer => answer,
                        () = turn.cancelled() => PermissionAnswer::Cancelled,
                        () = withdrawn.cancelled() => PermissionAnswer::Cancelled,
                    };
                    let outcome = match answer {
                        PermissionAnswer::Selected(id) => wire::RequestPermissionOutcome::Selected(
                            wire::SelectedPermissionOutcome::new(wire::PermissionOptionId::new(id)),
                        ),
                        PermissionAnswer::Cancelled => wire::RequestPermissionOutcome::Cancelled,
                    };
                    if responder.respond(wire::RequestPermissionResponse::new(outcome)).is_err() {
                        tracing::debug!("client.permission_answer_lost");
                    }
                });
                Ok(())
            },
            agent_client_protocol::on_receive_request!(),
        )
        .connect_with(lines(streams, tap), async move |cx: ConnectionTo<AgentRole>| {
            Ok(main(Connection { cx, turns }).await)
        })
        .await;
    match outcome {
        Ok(result) => result,
        Err(error) => match ClientError::from_sdk(error) {
            ClientError::Closed => Err(ClientError::Closed),
            ClientError::Request(error) => Err(ClientError::Transport(error.message)),
            other @ ClientError::Transport(_) => Err(other),
        },
    }
}
