//! The handle a connection talks to.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use diag_model::{Detail, ErrorCode, Failure, SessionId};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zcode_runtime::host::HostLauncher;
use zcode_runtime::model::Attachment;

use crate::actor::{Actor, Handle, Prepared, Request};
use crate::client::{ClientPort, ClientProfile, ConfigId, Reply, StopReason};
use crate::hosts::{Hosts, lock};
use crate::machine::mode;
use crate::setup::{ListAnswer, ListRequest, NewSessionRequest, OpenRequest, SessionSetup};

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
/// Sessions that were lost and are remembered, so that what is asked of them is answered with the reason.
const LOST_LIMIT: usize = 256;
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

/// What every session's actor shares.
pub(crate) struct Shared {
    pub(crate) client: Arc<dyn ClientPort>,
    pub(crate) options: Options,
    pub(crate) stopping: CancellationToken,
    pub(crate) turns: Arc<Semaphore>,
    pub(crate) profile: Mutex<ClientProfile>,
    sessions: Mutex<Sessions>,
}

#[derive(Default)]
struct Sessions {
    open: HashMap<SessionId, Handle>,
    lost: VecDeque<(SessionId, Failure)>,
}

impl Shared {
    /// Registers an open session. `false`: there is one with this id.
    pub(crate) fn register(&self, session: &SessionId, handle: Handle) -> bool {
        let mut sessions = lock(&self.sessions);
        if sessions.open.contains_key(session) {
            return false;
        }
        sessions.lost.retain(|(lost, _)| lost != session);
        sessions.open.insert(session.clone(), handle);
        true
    }

    /// Takes a session out; one that was lost is remembered with the reason.
    pub(crate) fn unregister(&self, session: &SessionId, lost: Option<Failure>) {
        let mut sessions = lock(&self.sessions);
        sessions.open.remove(session);
        if let Some(failure) = lost {
            if sessions.lost.len() == LOST_LIMIT {
                sessions.lost.pop_front();
            }
            sessions.lost.push_back((session.clone(), failure));
        }
    }

    fn find(&self, session: &SessionId) -> Result<Handle, Failure> {
        let sessions = lock(&self.sessions);
        if let Some(handle) = sessions.open.get(session) {
            return Ok(handle.clone());
        }
        let lost = sessions.lost.iter().find(|(lost, _)| lost == session).map(|(_, failure)| failure);
        Err(match lost {
            Some(failure) => Failure::new(ErrorCode::SessionClosed)
                .cause(format!("the session was lost: {}", failure.cause_text()))
                .next_step("start a new session")
                .with(Detail::Session, session),
            None => Failure::new(ErrorCode::SessionNotFound).with(Detail::Session, session),
        })
    }

    fn is_lost(&self, session: &SessionId) -> bool {
        lock(&self.sessions).lost.iter().any(|(lost, _)| lost == session)
    }
}

impl Coordinator {
    /// A coordinator without a host: that starts with the first session. To be called inside a tokio runtime.
    pub fn new(launcher: HostLauncher, client: Arc<dyn ClientPort>, options: Options) -> Self {
        let stopping = CancellationToken::new();
        let shared = Shared {
            client,
            options,
            stopping: stopping.clone(),
            turns: Arc::new(Semaphore::new(TURN_LIMIT)),
            profile: Mutex::default(),
            sessions: Mutex::default(),
        };
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
            let prepared = tokio::select! {
                biased;
                () = shared.stopping.cancelled() => Err(Failure::new(ErrorCode::ShuttingDown)),
                () = cancel.cancelled() => Err(Failure::new(ErrorCode::RequestCancelled)),
                prepared = prepare(&hosts, request) => prepared,
            };
            match prepared {
                Ok(prepared) => Actor::run(shared, prepared, cancel, reply, slot).await,
                Err(failure) => {
                    tracing::warn!(code = failure.code.as_str(), error = %failure, "session.refused");
                    reply.send(Err(failure));
                }
            }
        });
    }

    /// What the client can do. Sessions opened later behave accordingly.
    pub fn set_profile(&self, profile: ClientProfile) {
        *lock(&self.shared.profile) = profile;
    }

    /// Opens a stored session and replays it through [`ClientPort::update`] before the answer.
    pub fn load(&self, request: OpenRequest, cancel: CancellationToken, reply: Reply<SessionSetup>) {
        let _ = (request, cancel);
        reply.send(Err(not_yet()));
    }

    /// Opens a stored session without a replay.
    pub fn resume(&self, request: OpenRequest, cancel: CancellationToken, reply: Reply<SessionSetup>) {
        let _ = (request, cancel);
        reply.send(Err(not_yet()));
    }

    /// Lists sessions, newest first.
    pub fn list(&self, request: ListRequest, reply: Reply<ListAnswer>) {
        let _ = request;
        reply.send(Err(not_yet()));
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
        let _ = (session, option, value);
        reply.send(Err(not_yet()));
    }

    /// Whether somebody is signed in.
    pub fn check_sign_in(&self, reply: Reply<()>) {
        reply.send(Err(not_yet()));
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

fn not_yet() -> Failure {
    Failure::new(ErrorCode::InvalidRequest).cause("this request is not served yet")
}

/// Everything before the host is asked for a session: the folder, the host, the workspace, the sign-in, the mode.
async fn prepare(hosts: &Hosts, request: NewSessionRequest) -> Result<Prepared, Failure> {
    let workspace = canonical(request.cwd).await?;
    let host = hosts.get().await?;
    let (state, lease) = host.acquire(&workspace).await.map_err(|error| error.failure().clone())?;
    if state.models.is_empty() {
        return Err(Failure::new(ErrorCode::SignInRequired));
    }
    let mode = mode::choose(host.host.profile(), &state)?;
    Ok(Prepared { host: host.host.clone(), lease, workspace, mode })
}

/// The one spelling of a directory.
async fn canonical(cwd: PathBuf) -> Result<PathBuf, Failure> {
    let invalid = |rule: &str| {
        Failure::new(ErrorCode::InvalidWorkspace).cause(format!("cwd {rule}")).with(Detail::Field, "cwd")
    };
    if !cwd.is_absolute() {
        return Err(invalid("must be an absolute path"));
    }
    // A network drive can take its time.
    let looked_up = tokio::task::spawn_blocking(move || {
        let path = dunce::canonicalize(&cwd)?;
        let directory = std::fs::metadata(&path)?.is_dir();
        Ok::<_, std::io::Error>((path, directory))
    });
    match looked_up.await {
        Ok(Ok((path, true))) if path.to_str().is_some() => Ok(path),
        Ok(Ok((_, true))) => Err(invalid("must be valid Unicode")),
        Ok(Ok((_, false))) => Err(invalid("must be a directory")),
        Ok(Err(error)) if error.kind() == std::io::ErrorKind::NotFound => Err(invalid("must exist")),
        Ok(Err(error)) => Err(invalid(&format!("cannot be opened: {error}"))),
        Err(_) => Err(Failure::new(ErrorCode::Internal).cause("looking up cwd was abandoned")),
    }
}
