//! One connection: configuration line, ready line, then requests until the stream ends.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, BufReader};
use tokio::sync::mpsc;
use zcode_protocol::bridge::{BRIDGE_VERSION, Config};

use crate::host::{Host, HostGuard};
use crate::scenario::ScenarioSource;
use crate::services;
use crate::store::Store;
use crate::wire::{Frame, Outlet, QUEUE, write_frames};

/// Longest line that is read.
const MAX_LINE: u64 = 128 << 20;
/// Requests that may wait. Reading goes on while they do, so that the end of the stream is seen at once.
const MAX_WAITING: usize = 1024;

/// Takes a line a scenario wants on the host's stderr. Called on the host's own task: it may block, as a full pipe would.
#[derive(Clone)]
pub struct StderrSink(Arc<dyn Fn(&str) + Send + Sync>);

impl StderrSink {
    /// Wraps a function.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(sink))
    }

    pub(crate) fn line(&self, text: &str) {
        (self.0)(text);
    }
}

impl fmt::Debug for StderrSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StderrSink")
    }
}

/// How a simulated host is run.
#[derive(Debug, Clone, Default)]
pub struct SimOptions {
    /// Scenario of every turn. None: the prompt chooses.
    pub scenario: Option<ScenarioSource>,
    /// Where sessions are kept. None: `ZCODE_ACP_SIM_STATE`, or a directory of the user's.
    pub state_dir: Option<PathBuf>,
    /// Where a scenario's stderr lines go. None: nowhere; an embedded host has no stderr of its own.
    pub stderr: Option<StderrSink>,
}

/// Serves the bridge protocol on a byte stream until it ends.
///
/// The first line read is the configuration, whose nonce starts every line written. Returns when either side ends; all
/// tasks have ended by then. An error is a broken stream, a scenario that cannot be used, or a crash the scenario asked for
/// ([`crate::crash_code`]).
pub async fn serve(
    read: impl AsyncRead + Unpin + Send,
    write: impl AsyncWrite + Unpin + Send,
    options: SimOptions,
) -> io::Result<()> {
    let scenario = match &options.scenario {
        Some(source) => {
            Some(source.load().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?)
        }
        None => None,
    };
    let mut read = BufReader::new(read);
    let mut line = Vec::new();
    if !read_line(&mut read, &mut line).await? {
        return Ok(());
    }
    let config: Config =
        serde_json::from_slice(&line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let nonce = config.nonce.clone();
    let (sender, frames) = mpsc::channel(QUEUE);
    let outlet = Outlet::new(sender);
    if config.bridge != BRIDGE_VERSION {
        let message = format!("bridge version {} is not {BRIDGE_VERSION}", config.bridge);
        outlet.json(&json!({ "fatal": { "stage": "config", "message": message } })).await;
        drop(outlet);
        return write_frames(write, &nonce, frames).await;
    }

    let store = Store::open(options.state_dir);
    let host = Arc::new(Host::new(outlet, config, scenario, store, options.stderr));
    let guard = HostGuard::new(Arc::clone(&host));
    let (requests, inbox) = mpsc::channel(MAX_WAITING);
    let ended = tokio::select! {
        ended = read_requests(read, requests) => ended,
        ended = write_frames(write, &nonce, frames) => ended,
        () = dispatch(host, inbox) => Ok(()),
    };
    guard.shutdown().await;
    match ended {
        // Nobody reads any more: the stream has ended from the other side, seen by the writer first.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended,
    }
}

/// Reads a line without its end. `false`: the stream has ended.
async fn read_line(read: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    let count = (&mut *read).take(MAX_LINE).read_until(b'\n', line).await?;
    if line.last() == Some(&b'\n') {
        line.pop();
        return Ok(true);
    }
    if count as u64 == MAX_LINE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a request line is too long"));
    }
    // A last line without its end was cut off.
    Ok(false)
}

async fn read_requests(
    mut read: impl AsyncBufRead + Unpin,
    requests: mpsc::Sender<Vec<u8>>,
) -> io::Result<()> {
    let mut line = Vec::new();
    while read_line(&mut read, &mut line).await? {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if requests.try_send(std::mem::take(&mut line)).is_err() {
            let message = format!("more than {MAX_WAITING} requests are waiting");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
    }
    Ok(())
}

async fn dispatch(host: Arc<Host>, mut inbox: mpsc::Receiver<Vec<u8>>) {
    let settings = &host.scenario().host;
    tokio::time::sleep(Duration::from_millis(settings.ready_delay_ms)).await;
    if settings.ready {
        let exports = &host.config().exports;
        let found =
            json!({ "protocol": exports.protocol, "client": exports.client, "service": exports.service });
        host.outlet()
            .json(&json!({ "ready": {
                "bridge": BRIDGE_VERSION, "node": "simulated", "pid": std::process::id(), "found": found,
                "simulated": true,
            } }))
            .await;
    } else {
        host.outlet().send(Frame::Silence).await;
    }
    while let Some(line) = inbox.recv().await {
        services::handle(&host, &line).await;
    }
    // The queue ends only together with the reading side, which decides how the connection ends.
    std::future::pending::<()>().await;
}
