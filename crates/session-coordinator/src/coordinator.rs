//! The handle a connection talks to.

use std::sync::Arc;
use std::time::Duration;

use diag_model::{Detail, ErrorCode, Failure, SessionId};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zcode_runtime::host::HostLauncher;
use zcode_runtime::model::Attachment;

use crate::actor::{Actor, Request};
use crate::client::{ClientPort, ClientProfile, ConfigId, Reply, StopReason};
use crate::hosts::Hosts;
use crate::registry::Shared;
use crate::setup::{ListAnswer, ListRequest, NewSessionRequest, OpenRequest, SessionSetup};
use crate::{listing, opening};

/// Choices of the user that hold for the whole connection.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Waiting longer than this for a permission counts as a denial. Without it, waiting has no end.
    pub permission_timeout: Option<Duration>,
}

/// A prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// Text.
    pub text: String,
    /// Files, images and sounds beside the text.
    pub attachments: Vec<Attachment>,
}

/// Sessions a connection may have open.
pub const SESSION_LIMIT: usize = 256;
/// Prompts a connection may have running.
pub const TURN_LIMIT: usize = 32;
/// How long the sessions get to end before the host is ended.
const SESSIONS_END_WITHIN: Duration = Duration::from_millis(400);

/// All sessions of one connection, and the host behind them. Cheap to clone.
#[derive(Clone)]
pub struct Coordinator {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    slots: Arc<Semaphore>,
    hosts: Arc<Hosts>,
}

impl Coordinator {
    /// A coordinator without a host: that starts with the first session. To be called inside a tokio runtime.
    pub fn new(launcher: HostLauncher, client: Arc<dyn ClientPort>, options: Options) -> Self {
        let stopping = CancellationToken::new();
        let shared = Shared::new(client, options, stopping.clone());
        Self {
            shared: Arc::new(shared),
            tasks: TaskTracker::new(),
            slots: Arc::new(Semaphore::new(SESSION_LIMIT)),
            hosts: Arc::new(Hosts::new(launcher, stopping)),
        }
    }

    /// Opens a session. `cancel` withdraws the request: it is answered at once, and a session that the host creates
    /// meanwhile is closed again.
    pub fn new_session(
        &self,
        request: NewSessionRequest,
        cancel: CancellationToken,
        reply: Reply<SessionSetup>,
    ) {
        if self.shared.stopping.is_cancelled() {
            return reply.send(Err(Failure::new(ErrorCode::ShuttingDown)));
        }
        let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
            return reply.send(Err(Failure::new(ErrorCode::TooManySessions)));
        };
        let (shared, hosts) = (Arc::clone(&self.shared), Arc::clone(&self.hosts));
        self.tasks.spawn(async move {
            let prepared = or_ended(&shared, &cancel, opening::prepare_new(&shared, &hosts, request)).await;
            match prepared {
                Ok(prepared) => Actor::run(shared, prepared, cancel, reply, slot).await,
                Err(failure) => refuse(reply, failure),
            }
        });
    }

    /// What the client can do. Sessions opened later behave accordingly.
    pub fn set_profile(&self, profile: ClientProfile) {
        self.shared.set_profile(profile);
    }

    /// Opens a stored session and replays it through [`ClientPort::update`] before the answer.
    pub fn load(&self, request: OpenRequest, cancel: CancellationToken, reply: Reply<SessionSetup>) {
        self.open_stored(request, true, cancel, reply);
    }

    /// Opens a stored session without a replay.
    pub fn resume(&self, request: OpenRequest, cancel: CancellationToken, reply: Reply<SessionSetup>) {
        self.open_stored(request, false, cancel, reply);
    }

    /// One at a time for each session, so that several requests share one resume: the first opens it, the others find it
    /// open.
    fn open_stored(
        &self,
        request: OpenRequest,
        history: bool,
        cancel: CancellationToken,
        reply: Reply<SessionSetup>,
    ) {
        if self.shared.stopping.is_cancelled() {
            return reply.send(Err(Failure::new(ErrorCode::ShuttingDown)));
        }
        let (shared, hosts) = (Arc::clone(&self.shared), Arc::clone(&self.hosts));
        let slots = Arc::clone(&self.slots);
        self.tasks.spawn(async move {
            let session = request.session.clone();
            let prepared = async {
                let gate = shared.gate(&session).await;
                let found = opening::prepare_stored(&shared, &hosts, request, history).await?;
                Ok((gate, found))
            };
            let (gate, found) = match or_ended(&shared, &cancel, prepared).await {
                Ok(prepared) => prepared,
                Err(failure) => return refuse(reply, failure),
            };
            // The next request for this session goes on when this one is answered.
            let reply = Reply::new(move |result| {
                reply.send(result);
                drop(gate);
            });
            match found {
                opening::Found::Open(handle) => {
                    if let Err((request, code)) = handle.send(Request::Reopen(history, reply)) {
                        request.refuse(Failure::new(code).with(Detail::Session, session));
                    }
                }
                opening::Found::Stored(prepared) => match slots.try_acquire_owned() {
                    Ok(slot) => Actor::run(shared, *prepared, cancel, reply, slot).await,
                    Err(_) => reply.send(Err(Failure::new(ErrorCode::TooManySessions))),
                },
            }
        });
    }

    /// Lists sessions, newest first.
    pub fn list(&self, request: ListRequest, reply: Reply<ListAnswer>) {
        let (shared, hosts) = (Arc::clone(&self.shared), Arc::clone(&self.hosts));
        self.serve(reply, async move { listing::list(&shared, &hosts, request).await });
    }

    /// Whether somebody is signed in, as far as the host can tell without a turn.
    pub fn check_sign_in(&self, reply: Reply<()>) {
        let hosts = Arc::clone(&self.hosts);
        self.serve(reply, async move { opening::check_sign_in(&hosts).await });
    }

    /// Answers a request that belongs to no session.
    fn serve<T: Send + 'static>(
        &self,
        reply: Reply<T>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) {
        let shared = Arc::clone(&self.shared);
        if shared.stopping.is_cancelled() {
            return reply.send(Err(Failure::new(ErrorCode::ShuttingDown)));
        }
        self.tasks.spawn(async move {
            let result = or_ended(&shared, &CancellationToken::new(), work).await;
            reply.send(result);
        });
    }

    /// Sets the permission mode.
    pub fn set_mode(&self, session: &SessionId, mode: String, reply: Reply<SessionSetup>) {
        self.set_option(session, ConfigId::Mode, mode, reply);
    }

    /// Sets a configuration option.
    pub fn set_option(
        &self,
        session: &SessionId,
        option: ConfigId,
        value: String,
        reply: Reply<SessionSetup>,
    ) {
        self.send(session, Request::Set(option, value, reply));
    }

    /// Submits a prompt. It is answered behind the session's last update.
    pub fn prompt(&self, session: &SessionId, prompt: Prompt, reply: Reply<StopReason>) {
        self.send(session, Request::Prompt(prompt, reply));
    }

    /// Cancels what runs in a session. Unknown or idle: nothing happens.
    pub fn cancel(&self, session: &SessionId) {
        if let Ok(handle) = self.shared.find(session) {
            handle.cancel();
        }
    }

    /// Closes a session. One that was lost is closed already.
    pub fn close(&self, session: &SessionId, reply: Reply<()>) {
        self.send(session, Request::Close(reply));
    }

    fn send(&self, session: &SessionId, request: Request) {
        if self.shared.stopping.is_cancelled() {
            return request.refuse(Failure::new(ErrorCode::ShuttingDown));
        }
        match self.shared.find(session) {
            Ok(handle) => {
                if let Err((request, code)) = handle.send(request) {
                    request.refuse(Failure::new(code).with(Detail::Session, session));
                }
            }
            Err(failure) => match request {
                Request::Close(reply) if self.shared.is_lost(session) => reply.send(Ok(())),
                request => request.refuse(failure),
            },
        }
    }

    /// Ends everything: new work is refused, open asks are denied, prompts are answered `cancelled`, requests for
    /// sessions with "shutting down", and the host is ended. Every duty to answer is met within a second, whatever the
    /// host and the client do.
    pub async fn shutdown(&self) {
        self.shared.stopping.cancel();
        self.tasks.close();
        if tokio::time::timeout(SESSIONS_END_WITHIN, self.tasks.wait()).await.is_err() {
            tracing::warn!(count = self.tasks.len(), "shutdown.sessions_left");
        }
        self.hosts.end().await;
    }
}

/// The work, unless the agent ends or the request is withdrawn before.
async fn or_ended<T>(
    shared: &Shared,
    cancel: &CancellationToken,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => Err(Failure::new(ErrorCode::ShuttingDown)),
        () = cancel.cancelled() => Err(Failure::new(ErrorCode::RequestCancelled)),
        result = work => result,
    }
}

fn refuse(reply: Reply<SessionSetup>, failure: Failure) {
    tracing::warn!(code = failure.code.as_str(), error = %failure, "session.refused");
    reply.send(Err(failure));
}
