//! The host's stderr: always drained, its last lines kept, a limited number of them logged.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use memchr::memchr;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::redact;

const LINES: usize = 20;
const LINE_BYTES: usize = 2048;
/// Lines logged in one second.
const LOGGED: u32 = 20;

/// The last lines, as they came. Redacted when they are read.
#[derive(Clone, Default)]
pub(crate) struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// The line that most likely says what went wrong: the last that speaks of an error, else the last.
    pub(crate) fn telling_line(&self) -> Option<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let speaks = |line: &&String| {
            let lower = line.to_ascii_lowercase();
            ["error", "fatal", "cannot", "failed", "refused"].iter().any(|word| lower.contains(word))
        };
        lines.iter().rev().find(speaks).or_else(|| lines.back()).map(|line| redact::line(line))
    }
}

/// Reads until the stream ends.
pub(crate) async fn drain(mut stream: impl AsyncRead + Unpin, tail: Tail) {
    let mut chunk = vec![0; 16 << 10];
    let mut line = Vec::new();
    let mut log = Throttle::new();
    while let Ok(count) = stream.read(&mut chunk).await {
        if count == 0 {
            break;
        }
        let mut rest = &chunk[..count];
        while let Some(at) = memchr(b'\n', rest) {
            append(&mut line, &rest[..at]);
            finish(&mut line, &tail, &mut log);
            rest = &rest[at + 1..];
        }
        append(&mut line, rest);
    }
    finish(&mut line, &tail, &mut log);
}

fn append(line: &mut Vec<u8>, more: &[u8]) {
    let room = LINE_BYTES.saturating_sub(line.len());
    line.extend_from_slice(&more[..more.len().min(room)]);
}

fn finish(line: &mut Vec<u8>, tail: &Tail, log: &mut Throttle) {
    let text = String::from_utf8_lossy(line).trim().to_owned();
    line.clear();
    if text.is_empty() {
        return;
    }
    if let Some(count) = log.admit() {
        if count > 0 {
            tracing::debug!(count, "host.stderr.dropped");
        }
        if tracing::enabled!(tracing::Level::DEBUG) {
            tracing::debug!(stderr = redact::line(&text), "host.stderr");
        }
    }
    tail.push(text);
}

/// Lets some lines a second through and counts the others.
struct Throttle {
    since: Instant,
    admitted: u32,
    dropped: u64,
}

impl Throttle {
    fn new() -> Self {
        Self { since: Instant::now(), admitted: 0, dropped: 0 }
    }

    /// `Some` with the number of lines dropped before, when this one may pass.
    fn admit(&mut self) -> Option<u64> {
        if self.since.elapsed() >= Duration::from_secs(1) {
            self.since = Instant::now();
            self.admitted = 0;
        }
        if self.admitted == LOGGED {
            self.dropped += 1;
            return None;
        }
        self.admitted += 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_telling_line_survives_what_follows_it() {
        let tail = Tail::default();
        drain(&b"start\nError: no token=abc here\nbye\n"[..], tail.clone()).await;
        assert_eq!(tail.telling_line().as_deref(), Some("Error: no token=[redacted] here"));
    }

    #[tokio::test]
    async fn a_flood_is_drained_and_bounded() {
        let tail = Tail::default();
        let mut flood = vec![b'x'; 1 << 20];
        flood.extend_from_slice(&b"\nline".repeat(10_000));
        drain(&flood[..], tail.clone()).await;
        let lines = tail.0.lock().unwrap();
        assert_eq!(lines.len(), LINES);
        assert!(lines.iter().all(|line| line.len() <= LINE_BYTES));
        assert_eq!(lines.back().map(String::as_str), Some("line"), "a last line without an end counts");
    }
}
