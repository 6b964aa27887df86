//! What the sessions of a connection share: the registry of the open ones, and where each belongs.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use diag_model::{Detail, ErrorCode, Failure, SessionId};
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::actor::Handle;
use crate::client::{ClientPort, ClientProfile};
use crate::coordinator::{Options, TURN_LIMIT};
use crate::hosts::lock;

/// Sessions that were lost and are remembered, so that what is asked of them is answered with the reason.
const LOST_LIMIT: usize = 256;
/// Sessions whose workspace is remembered; the oldest are looked up again.
const HOME_LIMIT: usize = 8192;
/// Spellings of workspaces that are remembered.
const SPELLING_LIMIT: usize = 1024;

/// What every session's actor shares.
pub(crate) struct Shared {
    pub(crate) client: Arc<dyn ClientPort>,
    pub(crate) options: Options,
    pub(crate) stopping: CancellationToken,
    pub(crate) turns: Arc<Semaphore>,
    profile: Mutex<ClientProfile>,
    sessions: Mutex<Sessions>,
    gates: Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>,
}

#[derive(Default)]
struct Sessions {
    open: HashMap<SessionId, Handle>,
    lost: VecDeque<(SessionId, Failure)>,
    /// Workspace of every session that was met, for life.
    homes: HashMap<SessionId, PathBuf>,
    met: VecDeque<SessionId>,
    /// Workspaces of this connection, as the client spelled them last.
    spelled: Vec<(PathBuf, PathBuf)>,
}

impl Shared {
    pub(crate) fn new(client: Arc<dyn ClientPort>, options: Options, stopping: CancellationToken) -> Self {
        Self {
            client,
            options,
            stopping,
            turns: Arc::new(Semaphore::new(TURN_LIMIT)),
            profile: Mutex::default(),
            sessions: Mutex::default(),
            gates: Mutex::default(),
        }
    }

    pub(crate) fn set_profile(&self, profile: ClientProfile) {
        *lock(&self.profile) = profile;
    }

    pub(crate) fn profile(&self) -> ClientProfile {
        *lock(&self.profile)
    }

    /// Registers an open session. `false`: there is one with this id.
    pub(crate) fn register(&self, session: &SessionId, handle: Handle, workspace: &Path) -> bool {
        let mut sessions = lock(&self.sessions);
        if sessions.open.contains_key(session) {
            return false;
        }
        sessions.lost.retain(|(lost, _)| lost != session);
        sessions.open.insert(session.clone(), handle);
        sessions.bind(session, workspace);
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

    pub(crate) fn find(&self, session: &SessionId) -> Result<Handle, Failure> {
        let sessions = lock(&self.sessions);
        if let Some(handle) = sessions.open.get(session) {
            return Ok(handle.clone());
        }
        let lost = sessions.lost.iter().find(|(lost, _)| lost == session).map(|(_, failure)| failure);
        Err(match lost {
            Some(failure) => Failure::new(ErrorCode::SessionClosed)
                .cause(format!("the session was lost: {}", failure.cause_text()))
                .next_step("load the session again or start a new one")
                .with(Detail::Session, session),
            None => Failure::new(ErrorCode::SessionNotFound).with(Detail::Session, session),
        })
    }

    pub(crate) fn is_lost(&self, session: &SessionId) -> bool {
        lock(&self.sessions).lost.iter().any(|(lost, _)| lost == session)
    }

    /// Remembers where a session belongs.
    pub(crate) fn bind(&self, session: &SessionId, workspace: &Path) {
        lock(&self.sessions).bind(session, workspace);
    }

    /// The workspace a session belongs to, if that is known.
    pub(crate) fn home(&self, session: &SessionId) -> Option<PathBuf> {
        lock(&self.sessions).homes.get(session).cloned()
    }

    /// Remembers how the client spells a workspace.
    pub(crate) fn spell(&self, workspace: &Path, as_written: &Path) {
        let spelled = &mut lock(&self.sessions).spelled;
        if let Some((_, known)) = spelled.iter_mut().find(|(known, _)| known == workspace) {
            return as_written.clone_into(known);
        }
        if spelled.len() == SPELLING_LIMIT {
            spelled.remove(0);
        }
        spelled.push((workspace.to_owned(), as_written.to_owned()));
    }

    /// Workspaces of this connection, each with the client's own spelling.
    pub(crate) fn workspaces(&self) -> Vec<(PathBuf, PathBuf)> {
        lock(&self.sessions).spelled.clone()
    }

    /// The right to open a session: one at a time for each id.
    pub(crate) async fn gate(&self, session: &SessionId) -> OwnedMutexGuard<()> {
        let gate = {
            let mut gates = lock(&self.gates);
            gates.retain(|_, gate| Arc::strong_count(gate) > 1);
            Arc::clone(gates.entry(session.clone()).or_default())
        };
        gate.lock_owned().await
    }
}

impl Sessions {
    fn bind(&mut self, session: &SessionId, workspace: &Path) {
        if self.homes.insert(session.clone(), workspace.to_owned()).is_none() {
            if self.met.len() == HOME_LIMIT
                && let Some(oldest) = self.met.pop_front()
            {
                self.homes.remove(&oldest);
            }
            self.met.push_back(session.clone());
        }
    }
}
