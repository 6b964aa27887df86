//! One connection from its first byte to the last.

pub(crate) mod end;

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use agent_client_protocol::{Agent, ByteStreams, Lines};
use diag_model::{ErrorCode, Failure};
use futures::Stream;
use session_coordinator::client::ClientPort;
use session_coordinator::host::HostLauncher;
use session_coordinator::{Coordinator, Options};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::capabilities::Identity;
use crate::connection::Connection;
use crate::port::Port;
use crate::transport::ledger::Ledger;
use crate::transport::reader::{self, AskedVersion};
use crate::transport::stock;
use crate::transport::writer::Writer;

use self::end::{End, FENCE};

/// How long queued output is waited for after the end.
const DRAIN: Duration = Duration::from_millis(300);
/// How long after the end was asked for the host's own end is waited for.
const HOST_END: Duration = Duration::from_millis(1700);

/// Choices of the user and of the build that hold for the connection.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// The host is the simulated one.
    pub simulated: bool,
    /// Name of the contract when it is not the embedded one.
    pub unofficial_contract: Option<String>,
    /// Longest line taken from the client, bytes.
    pub max_frame: usize,
    /// Waiting longer than this for a permission counts as a denial.
    pub permission_timeout: Option<Duration>,
    /// Use the SDK's own line handling. For tests: a defect that is still there is not the own transport's.
    pub stock_stdio: bool,
}

impl AgentOptions {
    /// The default of [`AgentOptions::max_frame`].
    pub const MAX_FRAME: usize = 64 << 20;
}

impl Default for AgentOptions {
    fn default() -> Self {
        Self {
            simulated: false,
            unofficial_contract: None,
            max_frame: Self::MAX_FRAME,
            permission_timeout: None,
            stock_stdio: false,
        }
    }
}

/// What ended a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The client closed its output.
    Eof,
    /// The token was cancelled.
    Stopped,
    /// The client closed its input.
    OutputClosed,
}

impl Ended {
    const fn as_str(self) -> &'static str {
        match self {
            Ended::Eof => "eof",
            Ended::Stopped => "stopped",
            Ended::OutputClosed => "output closed",
        }
    }
}

/// The two byte streams of a connection.
pub struct Streams {
    /// From the client.
    pub input: Box<dyn Read + Send>,
    /// To the client.
    pub output: Box<dyn Write + Send>,
}

impl Streams {
    /// Standard input and output. Nothing else in the process may use the output.
    #[allow(clippy::disallowed_methods)] // This is the one owner.
    pub fn stdio() -> Self {
        Self { input: Box::new(io::stdin()), output: Box::new(io::stdout()) }
    }
}

/// Serves one connection on standard input and output until the input ends or `stop` is cancelled; drains, then returns
/// what ended it. The threads that read and write are never joined: the caller ends the process.
pub async fn serve(
    launcher: HostLauncher,
    options: AgentOptions,
    stop: CancellationToken,
) -> Result<Ended, Failure> {
    serve_streams(launcher, options, stop, Streams::stdio()).await
}

/// [`serve`] on other streams.
pub async fn serve_streams(
    launcher: HostLauncher,
    options: AgentOptions,
    stop: CancellationToken,
    streams: Streams,
) -> Result<Ended, Failure> {
    let threads = |error: io::Error| {
        Failure::new(ErrorCode::Internal).cause(format!("no thread for the client: {error}"))
    };
    let ledger = Arc::new(Ledger::default());
    let broken = CancellationToken::new();
    let asked = AskedVersion::default();
    let end = Arc::new(End::default());
    let writer = Writer::start(streams.output, Arc::clone(&ledger), broken.clone()).map_err(threads)?;

    let port = Arc::new(Port::new(Arc::clone(&ledger)));
    let client: Arc<dyn ClientPort> = port.clone();
    let coordinator = Coordinator::new(
        launcher.clone(),
        client,
        Options { permission_timeout: options.permission_timeout },
    );
    let identity =
        Identity { simulated: options.simulated, unofficial_contract: options.unofficial_contract };
    let connection =
        Connection::new(coordinator.clone(), launcher, port, identity, asked.clone(), Arc::clone(&end));
    let builder = Agent.v1().name("zcode-acp").with_handler(connection).on_close({
        let (end, coordinator) = (Arc::clone(&end), coordinator.clone());
        // The own stream has been through this when it ends; the stock one has not.
        async move |_| {
            end.ask(Ended::Eof);
            end.fence(&coordinator);
            end.answered().await;
            Ok(())
        }
    });

    let writer = Arc::new(writer);
    let served = if options.stock_stdio {
        // Counting needs the own sink; without it nothing is ever in flight, so nothing waits either.
        ledger.close();
        let halt = Halt { end: Arc::clone(&end), stop, broken };
        let (input, output) =
            stock::streams(streams.input, Arc::clone(&writer), halt.until()).map_err(threads)?;
        finish(builder.connect_to(ByteStreams::new(output, input)), &end).await
    } else {
        let lines = reader::start(streams.input, options.max_frame, asked).map_err(threads)?;
        let halt = Halt { end: Arc::clone(&end), stop, broken };
        finish(builder.connect_to(Lines::new(writer.sink(), incoming(lines, halt))), &end).await
    };

    let (ended, asked_at) = end.cause().unwrap_or((Ended::Eof, Instant::now()));
    if tokio::time::timeout_at(end.reported_or_now() + DRAIN, writer.drained()).await.is_err() {
        tracing::warn!(reason = "the client does not read", "output.abandoned");
    }
    if let Some(shutdown) = end.take_shutdown(&coordinator)
        && tokio::time::timeout_at(asked_at + HOST_END, shutdown).await.is_err()
    {
        tracing::warn!(reason = "the host is still ending", "connection.abandoned");
    }
    ledger.close();
    tracing::info!(reason = ended.as_str(), "connection.closed");
    served.map(|()| ended)
}

/// Drives the connection; once its end is reported, only as long as output may take.
async fn finish(
    serving: impl Future<Output = Result<(), agent_client_protocol::Error>>,
    end: &End,
) -> Result<(), Failure> {
    tokio::pin!(serving);
    let overdue = async {
        let reported = end.reported().await;
        tokio::time::sleep_until(reported + DRAIN).await;
    };
    tokio::select! {
        biased;
        result = &mut serving => result.map_err(|error| {
            // The SDK's texts can hold input; the code cannot.
            Failure::new(ErrorCode::Internal).cause(format!("the connection failed with code {}", error.code.value()))
        }),
        () = overdue => Ok(()),
    }
}

/// What ends the input besides its own end.
struct Halt {
    end: Arc<End>,
    stop: CancellationToken,
    broken: CancellationToken,
}

impl Halt {
    async fn halted(&self) -> Ended {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Ended::Stopped,
            () = self.broken.cancelled() => Ended::OutputClosed,
        }
    }

    /// Asks for the end when something halts the input.
    async fn until(self) {
        let ended = self.halted().await;
        self.end.ask(ended);
    }
}

enum Stage {
    Reading(mpsc::Receiver<String>, Halt),
    Fenced(Halt),
}

/// The lines of the client, the fence, and the end when everything is answered.
fn incoming(lines: mpsc::Receiver<String>, halt: Halt) -> impl Stream<Item = io::Result<String>> + Send {
    futures::stream::unfold(Stage::Reading(lines, halt), |stage| async move {
        match stage {
            Stage::Reading(mut lines, halt) => {
                let ended = tokio::select! {
                    biased;
                    ended = halt.halted() => ended,
                    line = lines.recv() => match line {
                        Some(line) => return Some((Ok(line), Stage::Reading(lines, halt))),
                        None => Ended::Eof,
                    },
                };
                halt.end.ask(ended);
                Some((Ok(FENCE.to_owned()), Stage::Fenced(halt)))
            }
            Stage::Fenced(halt) => {
                halt.end.answered().await;
                None
            }
        }
    })
}
