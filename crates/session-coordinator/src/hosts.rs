//! The host of a connection and its workspaces: started once, shared, never re-attached silently.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use diag_model::{ErrorCode, Failure, WorkspaceKey};
use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use zcode_runtime::host::{Host, HostLauncher, HostState};
use zcode_runtime::model::{CallError, WorkspaceState};

use crate::machine::workspace::{Effect, Input, Workspace};

/// How long disposing a workspace may take before it counts as done.
const DISPOSE_WITHIN: Duration = Duration::from_secs(5);

/// Locks; a panic elsewhere leaves nothing half-done behind these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

type Starting = Shared<BoxFuture<'static, Result<Arc<HostUse>, Failure>>>;

enum Slot {
    Absent,
    Starting(Starting),
    Ready(Arc<HostUse>),
}

/// The place of the one host of a connection.
pub(crate) struct Hosts {
    launcher: HostLauncher,
    stopping: CancellationToken,
    slot: Arc<Mutex<Slot>>,
}

impl Hosts {
    pub(crate) fn new(launcher: HostLauncher, stopping: CancellationToken) -> Self {
        Self { launcher, stopping, slot: Arc::new(Mutex::new(Slot::Absent)) }
    }

    /// The host, started if there is none that works. Concurrent calls share one start.
    pub(crate) async fn get(&self) -> Result<Arc<HostUse>, Failure> {
        let starting = {
            let mut slot = lock(&self.slot);
            match &*slot {
                Slot::Ready(host) if host.works() => return Ok(Arc::clone(host)),
                Slot::Starting(starting) => starting.clone(),
                Slot::Ready(_) | Slot::Absent => {
                    let starting = self.start();
                    *slot = Slot::Starting(starting.clone());
                    // Driven by a task of its own: a caller that gives up does not end it for the others.
                    tokio::spawn(starting.clone());
                    starting
                }
            }
        };
        starting.await
    }

    fn start(&self) -> Starting {
        let (launcher, stopping, slot) =
            (self.launcher.clone(), self.stopping.clone(), Arc::clone(&self.slot));
        let start = async move {
            let result = tokio::select! {
                biased;
                () = stopping.cancelled() => Err(Failure::new(ErrorCode::ShuttingDown)),
                result = launcher.start() => result,
            };
            let result = result.map(|host| Arc::new(HostUse::new(host, stopping)));
            *lock(&slot) = match &result {
                Ok(host) => Slot::Ready(Arc::clone(host)),
                Err(_) => Slot::Absent,
            };
            result
        };
        start.boxed().shared()
    }

    /// Ends the host, if there is one.
    pub(crate) async fn end(&self) {
        let slot = std::mem::replace(&mut *lock(&self.slot), Slot::Absent);
        let host = match slot {
            Slot::Absent => None,
            Slot::Ready(host) => Some(host),
            // Told to stop already, so this does not wait for the start.
            Slot::Starting(starting) => starting.await.ok(),
        };
        if let Some(host) = host {
            host.host.shutdown().await;
        }
    }
}

/// A host and the workspaces that are open in it. They go with it.
pub(crate) struct HostUse {
    pub(crate) host: Host,
    stopping: CancellationToken,
    workspaces: Mutex<HashMap<WorkspaceKey, Workspace<Waiter>>>,
}

type Waiter = oneshot::Sender<Result<(Arc<WorkspaceState>, Lease), CallError>>;

/// The use of a workspace by one session. Dropping it gives it back.
pub(crate) struct Lease {
    host: Arc<HostUse>,
    key: WorkspaceKey,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.host.step(&self.key, Input::Released);
    }
}

impl HostUse {
    fn new(host: Host, stopping: CancellationToken) -> Self {
        Self { host, stopping, workspaces: Mutex::default() }
    }

    fn works(&self) -> bool {
        !matches!(
            *self.host.state().borrow(),
            HostState::Failed(_) | HostState::Exited(_) | HostState::Draining
        )
    }

    /// Opens a workspace, or shares it if it is open.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        workspace: &std::path::Path,
    ) -> Result<(Arc<WorkspaceState>, Lease), CallError> {
        let key = WorkspaceKey::new(workspace.to_string_lossy());
        let (waiter, answer) = oneshot::channel();
        self.step(&key, Input::Acquire(waiter));
        answer.await.unwrap_or_else(|_| {
            Err(CallError::Gone(
                Failure::new(ErrorCode::Internal).cause("opening the workspace was abandoned"),
            ))
        })
    }

    fn step(self: &Arc<Self>, key: &WorkspaceKey, input: Input<Waiter>) {
        let effects = {
            let mut workspaces = lock(&self.workspaces);
            let workspace = workspaces.remove(key).unwrap_or(Workspace::Absent);
            let (workspace, effects) = workspace.step(input);
            if !workspace.is_absent() {
                workspaces.insert(key.clone(), workspace);
            }
            effects
        };
        for effect in effects {
            let (this, key) = (Arc::clone(self), key.clone());
            match effect {
                Effect::Deliver(waiter, Ok(state)) => {
                    // A waiter that has given up drops the lease, which releases the workspace.
                    drop(waiter.send(Ok((state, Lease { host: this, key }))));
                }
                Effect::Deliver(waiter, Err(error)) => drop(waiter.send(Err(error))),
                Effect::Open => {
                    tokio::spawn(async move {
                        let result = this.host.open_workspace(&path(&key)).await;
                        this.step(&key, Input::Opened(result));
                    });
                }
                // When the agent ends, the host ends as a whole.
                Effect::Dispose if self.stopping.is_cancelled() => {}
                Effect::Dispose => {
                    tokio::spawn(async move {
                        let workspace = path(&key);
                        let dispose = this.host.dispose_workspace(&workspace);
                        match tokio::time::timeout(DISPOSE_WITHIN, dispose).await {
                            Ok(Ok(())) => tracing::info!(workspace = key.as_str(), "workspace.disposed"),
                            Ok(Err(error)) => {
                                tracing::info!(workspace = key.as_str(), error = %error.failure(), "workspace.dispose_failed");
                            }
                            Err(_) => tracing::warn!(workspace = key.as_str(), "workspace.dispose_timed_out"),
                        }
                        this.step(&key, Input::Disposed);
                    });
                }
            }
        }
    }
}

fn path(key: &WorkspaceKey) -> PathBuf {
    PathBuf::from(key.as_str())
}
