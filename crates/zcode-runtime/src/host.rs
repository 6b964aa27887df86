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
    #[allow(dead_code)]
    source: HostSource,
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
