//! From `tracing` events to diagnostic records, and from records to their sinks.
//!
//! An event passes four gates before anything is written: its level, the flood limit of its name, the closed set of
//! facts a record may hold, and redaction. Foreign crates' events lose everything but level and target, because their
//! texts may hold payloads. Sinks have their own threads and bounded queues; nobody who logs ever waits for one.
//!
//! Deliberately absent: spans (a record stands alone), a console and any way to change a running process's level.

mod flood;
mod layer;
mod pretty;
mod queue;
mod sanitize;
mod sink;

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use diag_model::UnknownName;
pub use diag_model::{Level, redact};
use tracing_subscriber::layer::SubscriberExt as _;

pub use crate::layer::DiagnosticLayer;
pub use crate::sink::{Entry, Sink, StreamSink};

/// How records look on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Readable on a terminal, NDJSON otherwise.
    #[default]
    Auto,
    /// One JSON object a line.
    Json,
    /// One readable line a record.
    Pretty,
}

impl FromStr for Format {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        match name {
            "auto" => Ok(Format::Auto),
            "json" => Ok(Format::Json),
            "pretty" => Ok(Format::Pretty),
            _ => Err(UnknownName { what: "the log format", expected: "auto, json, pretty" }),
        }
    }
}

/// What to log and how.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Records above this level are not made.
    pub level: Level,
    /// The form on stderr.
    pub format: Format,
    /// The directory shown as `~`; without one, the user's home directory.
    pub home: Option<PathBuf>,
}

/// Keeps the way to the sinks open. Dropping it waits for nothing.
#[derive(Clone)]
#[must_use = "without it nothing can be flushed at an orderly end"]
pub struct Guard {
    core: Arc<layer::Core>,
}

impl Guard {
    /// Waits until everything logged so far is written, at most `max`. A stalled reader costs exactly `max`.
    pub fn flush(&self, max: Duration) {
        self.core.flush(max);
    }
}

/// Installs diagnostics for the whole process, with stderr as the sink.
///
/// Only the first call of a process has an effect. Nothing here fails: a program that cannot log still works.
pub fn init(options: Options) -> Guard {
    let json = match options.format {
        Format::Auto => !io::stderr().is_terminal(),
        Format::Json => true,
        Format::Pretty => false,
    };
    let layer = DiagnosticLayer::new(options);
    if let Some(stream) = stderr_stream() {
        layer.add_sink(StreamSink::start("log-stderr", stream, json, layer.sequence()));
    }
    let guard = layer.guard();
    // A second subscriber is refused; the first one keeps working.
    let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer));
    guard
}

/// A handle of its own: a thread that is stuck in a write must not hold the lock that a panic message needs.
#[cfg(unix)]
fn stderr_stream() -> Option<Box<dyn Write + Send>> {
    use std::os::fd::AsFd as _;

    let own = io::stderr().as_fd().try_clone_to_owned().ok()?;
    Some(Box::new(std::fs::File::from(own)))
}

#[cfg(windows)]
fn stderr_stream() -> Option<Box<dyn Write + Send>> {
    use std::os::windows::io::AsHandle as _;

    if io::stderr().is_terminal() {
        // A console takes UTF-8 only through the standard library's own handle, and it never stalls for good.
        return Some(Box::new(io::stderr()));
    }
    let own = io::stderr().as_handle().try_clone_to_owned().ok()?;
    Some(Box::new(std::fs::File::from(own)))
}
