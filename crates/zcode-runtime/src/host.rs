//! A running host as the session machines see it: neutral operations, and the state of the process behind them.

use std::io;
use std::path::Path;
use std::sync::Arc;

use diag_model::{AskId, Failure, SessionId};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};

use crate::model::{
    CallError, ExitSummary, HostEvent, HostProfile, InputAnswer, NewSession, OpenedSession, PromptInput,
    SessionFacts, Snapshot, WorkspaceState,
};

/// Where the host process is.
#[derive(Debug, Clone)]
pub enum HostState {
    /// Not started.
    Absent,
    /// The gate runs or the process is being started.
    Starting,
    /// The process runs and has not said it is ready.
    Handshaking {
        /// Process id; none for an in-process host.
        pid: Option<u32>,
    },
    /// Ready for calls.
    Ready {
        /// Process id; none for an in-process host.
        pid: Option<u32>,
    },
    /// Ending on request.
    Draining,
    /// Could not be started.
    Failed(Arc<Failure>),
    /// Has ended.
    Exited(Arc<ExitSummary>),
}

/// A byte stream to a host that speaks the bridge protocol.
pub struct HostStream {
    /// From the host.
    pub read: Box<dyn AsyncRead + Send + Unpin>,
    /// To the host.
    pub write: Box<dyn AsyncWrite + Send + Unpin>,
}

/// Opens a byte stream to an embedded host. Injected by the binary, so that this crate does not know the simulator.
pub type StreamFactory = Arc<dyn Fn() -> io::Result<HostStream> + Send + Sync>;

/// Starts hosts. Cheap to clone; nothing happens until [`HostLauncher::start`].
#[derive(Clone)]
pub struct HostLauncher {
    source: HostSource,
}

impl HostLauncher {
    /// A launcher for this kind of host.
    pub fn new(source: HostSource) -> Self {
        Self { source }
    }

    /// Its hosts are simulated: every surface says so.
    pub fn simulated(&self) -> bool {
        match &self.source {
            HostSource::Install(_) => false,
            HostSource::Stream { profile, .. } => profile.simulated,
        }
    }

    /// Starts a host and returns when it is ready for calls.
    pub async fn start(&self) -> Result<Host, Failure> {
        Err(Failure::new(diag_model::ErrorCode::SpawnFailed))
    }
}

/// What kind of host to start.
#[derive(Clone)]
pub enum HostSource {
    /// An installed ZCode, gated by a contract.
    Install(InstallSource),
    /// An embedded host over a byte stream.
    Stream {
        /// What is known of it.
        profile: Arc<HostProfile>,
        /// Opens the stream.
        open: StreamFactory,
    },
}

/// An installed ZCode.
#[derive(Debug, Clone)]
pub struct InstallSource {
    /// Root named by flag or environment; it is used or refused, never replaced by another.
    pub install: Option<std::path::PathBuf>,
    /// The contract in force.
    pub contract: Arc<runtime_discovery::Contract>,
    /// The contract is not the embedded one.
    pub unofficial: bool,
}

/// A running host. Clones are handles of one process; it ends with [`Host::shutdown`] or when the last handle is dropped.
#[derive(Clone)]
pub struct Host {
    inner: Arc<HostInner>,
}

struct HostInner {
    profile: Arc<HostProfile>,
    state: watch::Receiver<HostState>,
}

/// A standing subscription to one session. Dropping it unsubscribes.
pub struct Subscription {
    /// The first event, already received.
    pub snapshot: Snapshot,
    /// Everything after it, in order. Always drained by the session's actor; bounded there, not here.
    pub events: mpsc::UnboundedReceiver<HostEvent>,
}

macro_rules! not_connected {
    () => {
        Err(CallError::Gone(Failure::new(diag_model::ErrorCode::HostExited)))
    };
}

impl Host {
    /// What is known of this host.
    pub fn profile(&self) -> &HostProfile {
        &self.inner.profile
    }

    /// State of the process behind it.
    pub fn state(&self) -> watch::Receiver<HostState> {
        self.inner.state.clone()
    }

    /// Opens a workspace: its services are started, its state is read.
    pub async fn open_workspace(&self, _ws: &Path) -> Result<WorkspaceState, CallError> {
        not_connected!()
    }

    /// Creates a session. A timeout leaves the outcome unknown.
    pub async fn create_session(&self, _new: &NewSession) -> Result<OpenedSession, CallError> {
        not_connected!()
    }

    /// Subscribes to a session; returns when the first snapshot has arrived.
    pub async fn subscribe(&self, _ws: &Path, _session: &SessionId) -> Result<Subscription, CallError> {
        not_connected!()
    }

    /// Submits a prompt. Success is acceptance; the outcome comes as events. A timeout leaves the outcome unknown.
    pub async fn prompt(&self, _ws: &Path, _session: &SessionId, _input: &PromptInput) -> Result<(), CallError> {
        not_connected!()
    }

    /// Asks the host to stop the running generation. Only the terminal event says that it did.
    pub async fn stop(&self, _ws: &Path, _session: &SessionId) -> Result<(), CallError> {
        not_connected!()
    }

    /// Reads whether a turn is running.
    pub async fn turn_running(&self, _ws: &Path, _session: &SessionId) -> Result<bool, CallError> {
        not_connected!()
    }

    /// Answers a permission request; `false` means that it was already gone.
    pub async fn answer_permission(
        &self,
        _ws: &Path,
        _session: &SessionId,
        _ask: &AskId,
        _option: &str,
    ) -> Result<bool, CallError> {
        not_connected!()
    }

    /// Answers a question of the host; `false` means that it was already gone.
    pub async fn answer_input(
        &self,
        _ws: &Path,
        _session: &SessionId,
        _ask: &AskId,
        _answer: &InputAnswer,
    ) -> Result<bool, CallError> {
        not_connected!()
    }

    /// Refuses a request for provider headers.
    pub async fn refuse_headers(&self, _ws: &Path, _ask: &AskId, _reason: &str) -> Result<(), CallError> {
        not_connected!()
    }

    /// Sets the permission mode; returns the facts after it.
    pub async fn set_mode(&self, _ws: &Path, _session: &SessionId, _mode: &str) -> Result<SessionFacts, CallError> {
        not_connected!()
    }

    /// Closes a session in the host.
    pub async fn close_session(&self, _ws: &Path, _session: &SessionId) -> Result<(), CallError> {
        not_connected!()
    }

    /// Ends a workspace's services.
    pub async fn dispose_workspace(&self, _ws: &Path) -> Result<(), CallError> {
        not_connected!()
    }

    /// Ends the host: stdin closed, grace, process tree ended. Idempotent.
    pub async fn shutdown(&self) -> ExitSummary {
        ExitSummary { code: None, signal: None, uptime: std::time::Duration::ZERO, last_request: None, stderr: None }
    }
}
