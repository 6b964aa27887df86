//! A running host as the session machines see it: neutral operations, and the state of the process behind them.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use diag_model::{AskId, Detail, ErrorCode, Failure, InputId, SessionId, one_line};
use runtime_discovery::Contract;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::Client;
use crate::descriptor::Descriptor;
use crate::model::{
    CallError, CompactOutcome, ExitSummary, Feature, GoalOutcome, HistoryMessage, HostEvent, HostProfile,
    InputAnswer, Mode, ModelRef, NewSession, OpenedSession, PromptInput, SessionFacts, SessionSummary,
    Snapshot, WorkspaceState,
};
use crate::os::{self, Process, Spawn};
use crate::supervisor::{self, ArchivePaths, Limits, Supervised, Wire};
use crate::task_v1::TaskV1;
use crate::{gate, transport};

/// The script that runs inside ZCode's executable.
const BRIDGE: &str = include_str!("../bridge/host-bridge.cjs");

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

    pub(crate) fn source(&self) -> &HostSource {
        &self.source
    }

    /// Its hosts are simulated: every surface says so.
    pub fn simulated(&self) -> bool {
        match &self.source {
            HostSource::Install(_) => false,
            HostSource::Stream { profile, .. } => profile.simulated,
        }
    }

    /// Starts a host and returns when it is ready for calls. Dropping the future ends what was started.
    pub async fn start(&self) -> Result<Host, Failure> {
        match &self.source {
            HostSource::Install(source) => start_install(source).await,
            HostSource::Stream { profile, open } => {
                // An embedded host speaks the embedded contract.
                let contract = Contract::embedded();
                let stream = open().map_err(|error| spawn_failed(&error))?;
                let wire = Wire { read: stream.read, write: stream.write };
                let config = supervisor::configuration(&contract, &ArchivePaths::default());
                launch(Arc::clone(profile), &contract, config, wire, None).await
            }
        }
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
    client: Arc<Client>,
    descriptor: Arc<Descriptor>,
    stop: CancellationToken,
    /// Ends the host with the last handle.
    _stop_with_me: DropGuard,
}

/// A standing subscription to one session. It ends when `events` is dropped.
pub struct Subscription {
    /// The first event, already received.
    pub snapshot: Snapshot,
    /// Everything after it, in order. Always drained by the session's actor; bounded there, not here.
    pub events: mpsc::UnboundedReceiver<HostEvent>,
}

/// Gate, process, handshake.
async fn start_install(source: &InstallSource) -> Result<Host, Failure> {
    // Refused before anything is read or started.
    Descriptor::new(Arc::clone(&source.contract))?;
    let passed = gate::pass(source).await?;
    let profile = Arc::new(profile_of(&source.contract, passed.app_version, source.unofficial));
    let arguments = [OsString::from("-e"), OsString::from(BRIDGE)];
    let process = os::spawn(&Spawn {
        executable: &passed.plan.executable,
        arguments: &arguments,
        cwd: &passed.plan.cwd,
        remove: &passed.environment.remove,
        set: &passed.environment.set,
    })
    .map_err(|error| spawn_failed(&error))?;
    let paths = ArchivePaths { host_index: passed.plan.host_index, rpc_module: passed.plan.rpc_module };
    let config = supervisor::configuration(&source.contract, &paths);
    launch_process(profile, &source.contract, config, process).await
}

/// The handshake with a process, over its pipes.
async fn launch_process(
    profile: Arc<HostProfile>,
    contract: &Arc<Contract>,
    config: zcode_protocol::bridge::Config,
    mut process: Process,
) -> Result<Host, Failure> {
    let (Some(read), Some(write)) = (process.stdout.take(), process.stdin.take()) else {
        return Err(Failure::new(ErrorCode::SpawnFailed).cause("ZCode's runtime has no pipes"));
    };
    tracing::info!(pid = process.pid(), contract = &*profile.contract, "host.spawned");
    let wire = Wire { read: Box::new(read), write: Box::new(write) };
    launch(profile, contract, config, wire, Some(process)).await
}

/// Starts the supervisor and waits until it says that the host is ready.
async fn launch(
    profile: Arc<HostProfile>,
    contract: &Arc<Contract>,
    config: zcode_protocol::bridge::Config,
    wire: Wire,
    process: Option<Process>,
) -> Result<Host, Failure> {
    let descriptor = Arc::new(Descriptor::new(Arc::clone(contract))?);
    let (out, lines) = mpsc::channel(transport::OUT_QUEUE);
    let client = Arc::new(Client::new(out.clone(), Arc::clone(&descriptor)));
    let (state_sender, state) = watch::channel(HostState::Starting);
    let stop = CancellationToken::new();
    // From here on a dropped future, like a dropped handle, ends the host.
    let guard = stop.clone().drop_guard();
    let (ready, is_ready) = oneshot::channel();
    tokio::spawn(supervisor::supervise(Supervised {
        wire,
        process,
        config,
        simulated: profile.simulated,
        limits: Limits::of(contract),
        client: Arc::clone(&client),
        lines,
        out,
        state: state_sender,
        stop: stop.clone(),
        ready,
    }));
    is_ready.await.map_err(|_| Failure::new(ErrorCode::Internal).cause("the supervisor has ended"))??;
    Ok(Host { inner: Arc::new(HostInner { profile, state, client, descriptor, stop, _stop_with_me: guard }) })
}

pub(crate) fn spawn_failed(error: &io::Error) -> Failure {
    let reason = one_line(&error.to_string());
    Failure::new(ErrorCode::SpawnFailed)
        .cause(format!("ZCode's runtime could not be started: {reason}"))
        .with(Detail::Detected, reason)
}

/// What the contract says about a host.
fn profile_of(contract: &Contract, app_version: Option<Arc<str>>, unofficial: bool) -> HostProfile {
    let mode = |mode: &runtime_discovery::contract::ModeFacts| Mode {
        id: Arc::from(mode.id.as_str()),
        name: Arc::from(mode.name.as_str()),
        description: Arc::from(mode.description.as_str()),
        strength: mode.strength,
        implicit: mode.implicit,
    };
    HostProfile {
        contract: Arc::from(contract.id()),
        protocol: Arc::from(contract.protocol.id.as_str()),
        app_version,
        unofficial,
        simulated: false,
        modes: contract.protocol.modes.iter().map(mode).collect(),
        cancel_terminal: contract.protocol.timeouts_ms.cancel_terminal(),
    }
}

impl HostProfile {
    /// The profile of an embedded host that simulates this contract.
    pub fn simulated(contract: &Contract) -> Self {
        Self { simulated: true, ..profile_of(contract, None, false) }
    }
}

impl Host {
    fn protocol(&self) -> (&TaskV1, &Arc<Client>) {
        (self.inner.descriptor.task_v1(), &self.inner.client)
    }

    /// What is known of this host.
    pub fn profile(&self) -> &HostProfile {
        &self.inner.profile
    }

    /// State of the process behind it.
    pub fn state(&self) -> watch::Receiver<HostState> {
        self.inner.state.clone()
    }

    /// Opens a workspace: its services are started, its state is read.
    pub async fn open_workspace(&self, ws: &Path) -> Result<WorkspaceState, CallError> {
        let (protocol, client) = self.protocol();
        protocol.open_workspace(client, ws).await
    }

    /// Creates a session. A timeout leaves the outcome unknown.
    pub async fn create_session(&self, new: &NewSession) -> Result<OpenedSession, CallError> {
        let (protocol, client) = self.protocol();
        protocol.create_session(client, new).await
    }

    /// Whether the contract has a feature. What it lacks is neither offered nor called.
    pub fn offers(&self, feature: Feature) -> bool {
        self.protocol().0.offers(feature)
    }

    /// Opens a stored session. Its history may still be loading: [`crate::model::EventBody::SessionResumed`] says when it is
    /// complete, unless that came before the subscription.
    pub async fn resume_session(
        &self,
        ws: &Path,
        session: &SessionId,
        mcp_servers: &[Value],
    ) -> Result<OpenedSession, CallError> {
        let (protocol, client) = self.protocol();
        protocol.resume_session(client, ws, session, mcp_servers).await
    }

    /// Lists the workspace's sessions that a person can go on with, newest first; at most a thousand.
    pub async fn list_sessions(&self, ws: &Path) -> Result<Vec<SessionSummary>, CallError> {
        let (protocol, client) = self.protocol();
        protocol.list_sessions(client, ws).await
    }

    /// Reads a page of the history, oldest first: at most `limit` messages, and never more than 200. Hidden messages are
    /// part of a page, so only an empty one says that there are no more.
    pub async fn read_history(
        &self,
        ws: &Path,
        session: &SessionId,
        after: Option<&str>,
        limit: u32,
    ) -> Result<Vec<HistoryMessage>, CallError> {
        let (protocol, client) = self.protocol();
        protocol.read_history(client, ws, session, after, limit).await
    }

    /// Counts the messages the host has by now. None when it cannot say.
    pub async fn message_count(&self, ws: &Path, session: &SessionId) -> Result<Option<u64>, CallError> {
        let (protocol, client) = self.protocol();
        protocol.message_count(client, ws, session).await
    }

    /// Subscribes to a session; returns when the first snapshot has arrived. Has its own deadline.
    pub async fn subscribe(&self, ws: &Path, session: &SessionId) -> Result<Subscription, CallError> {
        let (protocol, client) = self.protocol();
        protocol.subscribe(client, ws, session).await
    }

    /// Submits a prompt. Success is acceptance; the outcome comes as events. A timeout leaves the outcome unknown.
    pub async fn prompt(&self, ws: &Path, session: &SessionId, input: &PromptInput) -> Result<(), CallError> {
        let (protocol, client) = self.protocol();
        protocol.prompt(client, ws, session, input).await
    }

    /// Asks the host to stop the running generation. Only the terminal event says that it did.
    pub async fn stop(&self, ws: &Path, session: &SessionId) -> Result<(), CallError> {
        let (protocol, client) = self.protocol();
        protocol.stop(client, ws, session).await
    }

    /// Reads whether a turn is running.
    pub async fn turn_running(&self, ws: &Path, session: &SessionId) -> Result<bool, CallError> {
        let (protocol, client) = self.protocol();
        protocol.turn_running(client, ws, session).await
    }

    /// Answers a permission request; `false` means that it was already gone.
    pub async fn answer_permission(
        &self,
        _ws: &Path,
        session: &SessionId,
        ask: &AskId,
        option: &str,
    ) -> Result<bool, CallError> {
        let (protocol, client) = self.protocol();
        protocol.answer_permission(client, session, ask, option).await
    }

    /// Answers a question of the host; `false` means that it was already gone.
    pub async fn answer_input(
        &self,
        _ws: &Path,
        session: &SessionId,
        ask: &AskId,
        answer: &InputAnswer,
    ) -> Result<bool, CallError> {
        let (protocol, client) = self.protocol();
        protocol.answer_input(client, session, ask, answer).await
    }

    /// Refuses a request for provider headers.
    pub async fn refuse_headers(&self, ws: &Path, ask: &AskId, reason: &str) -> Result<(), CallError> {
        let (protocol, client) = self.protocol();
        protocol.refuse_headers(client, ws, ask, reason).await
    }

    /// Sets the permission mode; returns the facts after it.
    pub async fn set_mode(
        &self,
        ws: &Path,
        session: &SessionId,
        mode: &str,
    ) -> Result<SessionFacts, CallError> {
        let (protocol, client) = self.protocol();
        protocol.set_mode(client, ws, session, mode).await
    }

    /// Sets the model; returns the facts after it.
    pub async fn set_model(
        &self,
        ws: &Path,
        session: &SessionId,
        model: &ModelRef,
    ) -> Result<SessionFacts, CallError> {
        let (protocol, client) = self.protocol();
        protocol.set_model(client, ws, session, model).await
    }

    /// Sets the thought level; returns the facts after it.
    pub async fn set_thought(
        &self,
        ws: &Path,
        session: &SessionId,
        level: &str,
    ) -> Result<SessionFacts, CallError> {
        let (protocol, client) = self.protocol();
        protocol.set_thought(client, ws, session, level).await
    }

    /// Compacts the conversation. The answer may take minutes; a timeout leaves the outcome unknown.
    pub async fn compact(
        &self,
        ws: &Path,
        session: &SessionId,
        input: &InputId,
        instructions: Option<&str>,
    ) -> Result<CompactOutcome, CallError> {
        let (protocol, client) = self.protocol();
        protocol.compact(client, ws, session, input, instructions).await
    }

    /// Shows or changes the session's goal: `show`, `set`, `replace`, `pause`, `resume` or `clear`.
    pub async fn goal(
        &self,
        ws: &Path,
        session: &SessionId,
        action: &str,
        objective: Option<&str>,
    ) -> Result<GoalOutcome, CallError> {
        let (protocol, client) = self.protocol();
        protocol.goal(client, ws, session, action, objective).await
    }

    /// Closes a session in the host.
    pub async fn close_session(&self, ws: &Path, session: &SessionId) -> Result<(), CallError> {
        let (protocol, client) = self.protocol();
        protocol.close_session(client, ws, session).await
    }

    /// Ends a workspace's services.
    pub async fn dispose_workspace(&self, ws: &Path) -> Result<(), CallError> {
        let (protocol, client) = self.protocol();
        protocol.dispose_workspace(client, ws).await
    }

    /// Ends the host: stdin closed, grace, process tree ended. Idempotent.
    pub async fn shutdown(&self) -> ExitSummary {
        self.inner.stop.cancel();
        let mut state = self.inner.state.clone();
        let ended =
            state.wait_for(|state| matches!(state, HostState::Exited(_) | HostState::Failed(_))).await;
        match ended.as_deref() {
            Ok(HostState::Exited(summary)) => ExitSummary::clone(summary),
            // The supervisor was dropped with its runtime: nothing more is known.
            _ => ExitSummary {
                code: None,
                signal: None,
                uptime: Duration::ZERO,
                last_request: None,
                stderr: None,
            },
        }
    }
}

#[cfg(test)]
#[path = "host_tests.rs"]
mod tests;
