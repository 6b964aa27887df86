//! The life of one host, from its start to its end, as one function that reads top to bottom.
//!
//! It publishes where the host is, hands frames to the client, and when the host ends, for whatever reason, says so once: to
//! the log, to every pending call and to every subscription. Nothing is restarted and nothing is sent again here.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::{Duration, Instant};

use diag_model::{Detail, ErrorCode, Failure, Phase, one_line};
use runtime_discovery::Contract;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use zcode_protocol::bridge::{self, BRIDGE_VERSION, Config, Exports, Fatal, Ready};

use crate::client::{Client, Signal, millis};
use crate::host::HostState;
use crate::model::ExitSummary;
use crate::os::Process;
use crate::redact;
use crate::stderr::{self, Tail};
use crate::transport::{FrameDecoder, MAX_FRAME, read_frames, write_lines};

/// What the bridge needs after its own grace for the host: ending descendants, writing its last lines.
const BRIDGE_EXTRA: Duration = Duration::from_millis(250);
/// How long pipes are read after the process has ended. Grandchildren may hold them open for ever.
const PIPE_GRACE: Duration = Duration::from_millis(200);
/// How long a host that closed its pipe may take to exit by itself.
const EXIT_GRACE: Duration = Duration::from_millis(1500);

/// The two ends of the bridge wire.
pub(crate) struct Wire {
    pub(crate) read: Box<dyn AsyncRead + Send + Unpin>,
    pub(crate) write: Box<dyn AsyncWrite + Send + Unpin>,
}

/// Everything the life of a host needs.
pub(crate) struct Supervised {
    pub(crate) wire: Wire,
    /// None for an in-process host.
    pub(crate) process: Option<Process>,
    pub(crate) config: Config,
    pub(crate) simulated: bool,
    pub(crate) limits: Limits,
    pub(crate) client: Arc<Client>,
    pub(crate) lines: mpsc::Receiver<Vec<u8>>,
    /// The first line is written before any other, by the same queue.
    pub(crate) out: mpsc::Sender<Vec<u8>>,
    pub(crate) state: watch::Sender<HostState>,
    /// Cancelled to end the host.
    pub(crate) stop: CancellationToken,
    /// Told once: ready, or why not.
    pub(crate) ready: oneshot::Sender<Result<(), Failure>>,
}

/// Time limits, from the contract.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) ready: Duration,
    pub(crate) dispose: Duration,
    pub(crate) term: Duration,
}

impl Limits {
    pub(crate) fn of(contract: &Contract) -> Self {
        let limits = &contract.protocol.timeouts_ms;
        Self { ready: limits.host_ready(), dispose: limits.host_dispose(), term: limits.host_term() }
    }
}

/// Paths the bridge is told; empty for a host that has none.
#[derive(Default)]
pub(crate) struct ArchivePaths {
    pub(crate) host_index: PathBuf,
    pub(crate) rpc_module: PathBuf,
}

/// The bridge's configuration, from the contract.
pub(crate) fn configuration(contract: &Contract, paths: &ArchivePaths) -> Config {
    let launcher = &contract.launcher;
    let exports = &contract.artifact.rpc_module.exports;
    let mut init = Map::new();
    init.insert("type".to_owned(), launcher.init.kind.as_str().into());
    for field in &launcher.init.fields {
        use runtime_discovery::contract::InitField;
        let value: Value = match field {
            // Random per process: the adapter is no device, and nothing may be recognised by it.
            InitField::DeviceMid => uuid::Uuid::new_v4().to_string().into(),
            InitField::AgentSpawnFallbackCwd => neutral_directory().display().to_string().into(),
        };
        init.insert(field.as_str().to_owned(), value);
    }
    Config {
        bridge: BRIDGE_VERSION,
        nonce: uuid::Uuid::new_v4().simple().to_string(),
        host_index: paths.host_index.display().to_string(),
        rpc_module: paths.rpc_module.display().to_string(),
        exports: Exports {
            protocol: exports.protocol.clone(),
            client: exports.client.clone(),
            service: exports.service.clone(),
        },
        channels: contract.protocol.service_channels.clone(),
        allow: contract.allowed_methods(),
        events: contract.allowed_events(),
        init: Value::Object(init),
        dispose: serde_json::json!({"type": launcher.dispose.kind}),
        dispose_ms: contract.protocol.timeouts_ms.host_dispose,
        answer_at_once: launcher.answer_at_once.clone(),
    }
}

/// A directory that exists and is nobody's project.
fn neutral_directory() -> PathBuf {
    std::env::home_dir().filter(|home| home.is_absolute() && home.is_dir()).unwrap_or_else(std::env::temp_dir)
}

/// Why the running host is being ended.
enum End {
    /// Asked for.
    Stopped,
    /// The process ended first.
    Exited,
    /// Its pipe ended.
    Eof,
    /// The transport cannot be trusted any more.
    Broken(String),
    /// The bridge gave up.
    Fatal(Fatal),
    /// Never ready.
    Refused(Failure),
}

/// Runs one host until it is gone.
pub(crate) async fn supervise(host: Supervised) {
    let Supervised { wire, mut process, config, simulated, limits, client, lines, out, state, stop, ready } =
        host;
    let started = Instant::now();
    let pid = process.as_ref().and_then(Process::pid);
    state.send_replace(HostState::Handshaking { pid });

    let tail = Tail::default();
    let errors = process.as_mut().and_then(|process| process.stderr.take());
    let errors = errors.map(|errors| tokio::spawn(stderr::drain(errors, tail.clone())));
    let (signals, mut signal) = mpsc::channel(8);
    let reader = {
        let (client, broken) = (Arc::clone(&client), signals.clone());
        let decoder = FrameDecoder::new(&config.nonce, MAX_FRAME);
        tokio::spawn(async move {
            let on_frame = |frame: &[u8]| client.on_frame(frame, &signals);
            let failed = |reason: &str| drop(broken.try_send(Signal::Broken(redact::line(reason))));
            read_frames(wire.read, decoder, on_frame, failed).await;
        })
    };
    let close_stdin = CancellationToken::new();
    let writer = tokio::spawn(write_lines(wire.write, lines, close_stdin.clone()));
    let mut first = serde_json::to_vec(&config).unwrap_or_default();
    first.push(b'\n');
    // The queue is empty and has room.
    let _ = out.try_send(first);
    drop(out);

    let mut exit: Option<ExitStatus> = None;
    let deadline = tokio::time::sleep(limits.ready);
    tokio::pin!(deadline);
    let handshake = tokio::select! {
        biased;
        () = stop.cancelled() => Err(End::Stopped),
        signal = signal.recv() => match signal {
            Some(Signal::Ready(answer)) => check_ready(&answer, simulated).map_err(End::Refused).map(|()| answer),
            Some(Signal::Fatal(fatal)) => Err(End::Fatal(fatal)),
            Some(Signal::Broken(reason)) => Err(End::Broken(reason)),
            None => Err(End::Eof),
        },
        status = wait(&mut process) => { exit = status; Err(End::Exited) }
        () = &mut deadline => Err(End::Refused(
            Failure::new(ErrorCode::HandshakeTimeout).with(Detail::WaitedMs, millis(limits.ready)),
        )),
    };

    let mut ready = Some(ready);
    let end = match handshake {
        Err(end) => end,
        Ok(answer) => {
            let ms = millis(started.elapsed());
            tracing::info!(pid, ms, version = one_line(&answer.node), simulated, "host.ready");
            state.send_replace(HostState::Ready { pid });
            if let Some(ready) = ready.take() {
                let _ = ready.send(Ok(()));
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => End::Stopped,
                end = lasting(&mut signal) => end,
                status = wait(&mut process) => { exit = status; End::Exited }
            }
        }
    };

    let was_ready = ready.is_none();
    let asked = matches!(end, End::Stopped);
    if asked {
        state.send_replace(HostState::Draining);
        // Nothing that is still pending can be answered any more.
        client.close(&Failure::new(ErrorCode::ShuttingDown));
    } else if let End::Broken(reason) = &end {
        // Said at once, not when the process is gone.
        client.close(&broken(reason));
    }

    // One road out: input closed, grace, then the tree from outside.
    close_stdin.cancel();
    let _ = writer.await;
    if let Some(process) = &mut process {
        let grace = match end {
            _ if exit.is_some() => Duration::ZERO,
            End::Eof | End::Fatal(_) => EXIT_GRACE,
            _ => limits.dispose + BRIDGE_EXTRA,
        };
        if exit.is_none() {
            exit = tokio::time::timeout(grace, process.wait()).await.ok().and_then(Result::ok);
        }
        process.end_tree(limits.term).await;
        if exit.is_none() {
            exit = tokio::time::timeout(PIPE_GRACE, process.wait()).await.ok().and_then(Result::ok);
        }
    }
    // What the host wrote before its end still counts.
    let errors = async {
        if let Some(errors) = errors {
            finish(errors).await;
        }
    };
    tokio::join!(finish(reader), errors);
    let fatal = match &end {
        End::Fatal(fatal) => Some(fatal.clone()),
        _ => last_fatal(&mut signal),
    };

    let summary = ExitSummary {
        code: exit.and_then(|status| status.code()),
        signal: exit.and_then(crate::os::signal_of),
        uptime: started.elapsed(),
        last_request: client.last_request().map(Arc::from),
        stderr: tail.telling_line(),
    };
    let failure = match end {
        End::Stopped => Failure::new(ErrorCode::ShuttingDown),
        End::Refused(failure) => described(failure, &summary),
        End::Broken(reason) => described(broken(&reason), &summary),
        _ if was_ready => described(lost(fatal.as_ref(), process.is_some()), &summary),
        _ => described(not_started(fatal.as_ref()), &summary),
    };
    let phase = if was_ready { Phase::Prompt } else { Phase::Handshake };
    record(&summary, &failure, phase, pid, &client, asked);
    client.close(&failure);
    match ready {
        // It never was ready: whoever started it is told, and nothing was running.
        Some(ready) => {
            state.send_replace(HostState::Failed(Arc::new(failure.clone())));
            let _ = ready.send(Err(failure));
        }
        None => drop(state.send_replace(HostState::Exited(Arc::new(summary)))),
    }
}

/// Waits for the process; for ever when there is none.
async fn wait(process: &mut Option<Process>) -> Option<ExitStatus> {
    match process {
        Some(process) => process.wait().await.ok(),
        None => std::future::pending().await,
    }
}

/// Waits for something that ends a running host.
async fn lasting(signal: &mut mpsc::Receiver<Signal>) -> End {
    loop {
        match signal.recv().await {
            // Said twice; it changes nothing.
            Some(Signal::Ready(_)) => {}
            Some(Signal::Fatal(fatal)) => return End::Fatal(fatal),
            Some(Signal::Broken(reason)) => return End::Broken(reason),
            None => return End::Eof,
        }
    }
}

/// A last word that came with the exit.
fn last_fatal(signal: &mut mpsc::Receiver<Signal>) -> Option<Fatal> {
    std::iter::from_fn(|| signal.try_recv().ok()).find_map(|signal| match signal {
        Signal::Fatal(fatal) => Some(fatal),
        _ => None,
    })
}

/// Lets a pipe's reader come to its end, but not for ever.
async fn finish<T>(mut task: JoinHandle<T>) {
    if tokio::time::timeout(PIPE_GRACE, &mut task).await.is_err() {
        task.abort();
    }
}

fn check_ready(ready: &Ready, simulated: bool) -> Result<(), Failure> {
    let mismatch = |detected: String, expected: String| {
        Err(Failure::new(ErrorCode::HandshakeMismatch)
            .with(Detail::Detected, detected)
            .with(Detail::Expected, expected))
    };
    if ready.bridge != bridge::BRIDGE_VERSION {
        return mismatch(format!("bridge {}", ready.bridge), format!("bridge {BRIDGE_VERSION}"));
    }
    if ready.simulated != simulated {
        let name = |simulated| if simulated { "a simulated host" } else { "an installed host" };
        return mismatch(name(ready.simulated).to_owned(), name(simulated).to_owned());
    }
    Ok(())
}

fn broken(reason: &str) -> Failure {
    Failure::new(ErrorCode::NativeProtocol)
        .cause(format!("ZCode's host sent {reason}"))
        .with(Detail::Unknown, reason)
}

fn words(fatal: &Fatal) -> String {
    format!("{} failed: {}", redact::line(&fatal.stage), redact::line(&fatal.message))
}

fn lost(fatal: Option<&Fatal>, is_process: bool) -> Failure {
    let failure = Failure::new(ErrorCode::HostExited);
    match fatal {
        Some(fatal) => failure.cause(format!("ZCode's host ended: {}", words(fatal))),
        None if !is_process => failure.cause("the simulated host ended"),
        None => failure,
    }
}

fn not_started(fatal: Option<&Fatal>) -> Failure {
    let failure = Failure::new(ErrorCode::HostStartFailed);
    match fatal {
        Some(fatal) => failure.cause(format!("ZCode's host did not start: {}", words(fatal))),
        None => failure,
    }
}

/// Adds what is known of the end, in the cause where a person reads it and as facts.
fn described(mut failure: Failure, summary: &ExitSummary) -> Failure {
    let mut cause = failure.cause_text().to_owned();
    let mut say = |text: String| {
        cause.push_str(" (");
        cause.push_str(&text);
        cause.push(')');
    };
    if let Some(code) = summary.code {
        failure = failure.with(Detail::ExitCode, code);
        say(format!("exit code {code}"));
    }
    if let Some(signal) = summary.signal {
        failure = failure.with(Detail::Signal, signal);
        say(format!("signal {signal}"));
    }
    failure = failure.with(Detail::UptimeMs, millis(summary.uptime));
    if let Some(request) = &summary.last_request {
        failure = failure.with(Detail::LastRequest, request);
    }
    if let Some(line) = &summary.stderr {
        cause.push_str(": ");
        cause.push_str(line);
        failure = failure.with(Detail::Stderr, line);
    }
    failure.cause(cause)
}

/// The one record of an end.
fn record(
    summary: &ExitSummary,
    failure: &Failure,
    phase: Phase,
    pid: Option<u32>,
    client: &Client,
    asked: bool,
) {
    let (late, unrouted) = client.discarded();
    let count = late + unrouted;
    let ms = millis(summary.uptime);
    let method = summary.last_request.as_deref();
    let (exit_code, signal) = (summary.code, summary.signal);
    if asked {
        tracing::info!(pid, exit_code, signal, ms, method, count, phase = phase.as_str(), "host.exited");
    } else {
        let stderr = summary.stderr.as_deref();
        tracing::error!(
            pid,
            exit_code,
            signal,
            ms,
            method,
            count,
            stderr,
            phase = phase.as_str(),
            code = failure.code.as_str(),
            "host.exited"
        );
    }
}
