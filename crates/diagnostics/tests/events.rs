//! From `tracing` macros to what a reader of the stream sees.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::io::{self, Read as _, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use diag_model::{Level, Record};
use diagnostics::{DiagnosticLayer, Guard, Options, StreamSink};
use proptest::prelude::*;
use tracing_subscriber::layer::SubscriberExt as _;

/// Waiting for longer than this is a hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stream that keeps each write apart.
#[derive(Clone, Default)]
struct Writes(Arc<Mutex<Vec<String>>>);

impl Write for Writes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().push(String::from_utf8(bytes.to_vec()).unwrap());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn logged(level: Level, json: bool, log: impl FnOnce(&Guard)) -> Vec<String> {
    let writes = Writes::default();
    let layer = DiagnosticLayer::new(Options { level, home: Some("/data/me".into()), ..Options::default() });
    layer.add_sink(StreamSink::start("test", Box::new(writes.clone()), json, layer.sequence()));
    let guard = layer.guard();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || log(&guard));
    guard.flush(PATIENCE);
    std::mem::take(&mut *writes.0.lock().unwrap())
}

fn records(level: Level, log: impl FnOnce(&Guard)) -> Vec<Record> {
    logged(level, true, log)
        .iter()
        .map(|line| Record::from_line(line.strip_suffix('\n').unwrap()).unwrap())
        .collect()
}

#[test]
fn an_event_becomes_one_write_with_its_facts() {
    let lines = logged(Level::Info, true, |_| {
        tracing::info!(target: "zcode_runtime::host", session = %"s-1", ms = 12, pid = 7_u32, exit_code = -1, simulated = true,
            workspace = ?std::path::Path::new("/data/me/x"), phase = %diag_model::Phase::Spawn, reason = Option::<&str>::None, "host.exited");
    });
    assert_eq!(lines.len(), 1);
    let record = Record::from_line(&lines[0]).unwrap();
    assert_eq!((record.name.as_str(), record.level, record.omitted), ("host.exited", Level::Info, 0));
    assert!(record.at > 1_700_000_000_000 && record.target.is_none());
    let mut shown = Vec::new();
    record.facts.each(|key, value| shown.push(format!("{key}={value}")));
    assert_eq!(
        shown,
        [
            "session=s-1",
            "workspace=\"~/x\"",
            "phase=spawn",
            "pid=7",
            "ms=12",
            "exitCode=-1",
            "simulated=true"
        ]
    );
}

#[test]
fn fields_without_a_place_and_free_messages_are_left_out() {
    let text = logged(Level::Trace, true, |_| {
        tracing::warn!(target: "client", prompt = "canary", output = ?"canary", pid = "canary", ms = 1, "tool.done");
        tracing::info!(target: "client", "the user wrote canary");
        tracing::info!(target: "client", "canary.{}", "CANARY with spaces");
    });
    assert_eq!(text.len(), 3);
    assert!(!text.concat().to_lowercase().contains("canary"), "{text:?}");
    let first = Record::from_line(&text[0]).unwrap();
    assert_eq!((first.omitted, first.facts.ms), (3, Some(1)));
    let second = Record::from_line(&text[1]).unwrap();
    assert_eq!((second.name.as_str(), second.target.as_deref()), ("unnamed", Some("client")));
}

#[test]
fn foreign_events_lose_everything_but_level_and_target() {
    let records = records(Level::Trace, |_| {
        tracing::info!(target: "agent_client_protocol::rpc", "canary");
        tracing::error!(target: "agent_client_protocol::rpc", session = "canary", method = "canary", "canary.canary");
        tracing::warn!(target: "clientele", "canary");
    });
    let seen: Vec<_> =
        records.iter().map(|record| (record.level, record.name.as_str(), record.target.as_deref())).collect();
    assert_eq!(
        seen,
        [
            (Level::Error, "foreign", Some("agent_client_protocol::rpc")),
            (Level::Warn, "foreign", Some("clientele")),
        ]
    );
    assert!(records.iter().all(|record| record.facts == diag_model::Facts::default()));
}

#[test]
fn the_level_decides() {
    for limit in Level::ALL {
        let records = records(*limit, |_| {
            tracing::error!(target: "client", "a");
            tracing::warn!(target: "client", "b");
            tracing::info!(target: "client", "c");
            tracing::debug!(target: "client", "d");
            tracing::trace!(target: "client", "e");
        });
        assert_eq!(records.len(), *limit as usize + 1, "{limit}");
        assert!(records.iter().all(|record| record.level <= *limit));
    }
}

#[test]
fn a_flood_of_one_name_is_counted_and_others_pass() {
    let records = records(Level::Info, |_| {
        for _ in 0..10_000 {
            tracing::info!(target: "client", "update.sent");
        }
        tracing::info!(target: "client", "turn.ended");
    });
    assert!(records.len() < 2000, "{}", records.len());
    assert!(records.iter().any(|record| record.name == "turn.ended"));
    let sent = records.iter().filter(|record| record.name == "update.sent").count() as u64;
    let told: u64 = records.iter().map(|record| record.suppressed).sum::<u64>()
        + records.iter().filter(|record| record.name == "log.suppressed").filter_map(|record| record.facts.count).sum::<u64>()
        // What the bounded queue could not hold is told as dropped.
        + records.iter().filter(|record| record.name == "log.dropped").filter_map(|record| record.facts.count).sum::<u64>();
    assert!(sent + told >= 10_000, "{sent} + {told}");
}

#[test]
fn the_readable_form_is_one_line_a_record() {
    let lines = logged(Level::Info, false, |_| {
        tracing::error!(target: "client", stderr = "a\n\u{1b}[2Jb", "host.stderr");
    });
    assert_eq!(lines.len(), 1);
    assert!(lines[0].ends_with("Z ERROR host.stderr stderr=a\\n\\u{1b}[2Jb\n"), "{lines:?}");
    assert_eq!(lines[0].matches('\n').count(), 1);
    assert!(!lines[0].contains('\u{1b}'));
}

/// A stream whose writer waits until somebody lets it go, and the handle that does.
fn gate() -> (Box<dyn Write + Send>, Sender<()>, Writes) {
    struct Gated(Receiver<()>, Writes);
    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            // Closed for good means open.
            let _ = self.0.recv();
            self.1.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (open, wait) = channel();
    let writes = Writes::default();
    (Box::new(Gated(wait, writes.clone())), open, writes)
}

#[test]
fn what_a_stalled_reader_missed_is_told_when_it_reads_again() {
    let (stream, open, writes) = gate();
    let layer = DiagnosticLayer::new(Options::default());
    layer.add_sink(StreamSink::start("test", stream, true, layer.sequence()));
    let guard = layer.guard();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        for number in 0..3000 {
            // Many names, so that the queue is the limit and not the flood.
            tracing::info!(target: "client", count = number, "a.{}", number % 20);
        }
    });
    let started = Instant::now();
    guard.flush(Duration::from_millis(50));
    assert!(started.elapsed() < Duration::from_secs(5), "a stalled reader costs the time given and no more");
    drop(open);
    guard.flush(PATIENCE);
    let records: Vec<_> =
        writes.0.lock().unwrap().iter().map(|line| Record::from_line(line).unwrap()).collect();
    let dropped: u64 = records
        .iter()
        .filter(|record| record.name == "log.dropped")
        .filter_map(|record| record.facts.count)
        .sum();
    assert!(dropped > 0);
    let kept = records.iter().filter(|record| record.name.starts_with("a.")).count() as u64;
    assert_eq!(kept + dropped, 3000);
}

#[test]
fn a_broken_stream_is_given_up() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let layer = DiagnosticLayer::new(Options::default());
    layer.add_sink(StreamSink::start("test", Box::new(Broken), true, layer.sequence()));
    let guard = layer.guard();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        tracing::info!(target: "client", "a");
        guard.flush(PATIENCE);
        tracing::info!(target: "client", "b");
    });
    let started = Instant::now();
    guard.flush(PATIENCE);
    assert!(started.elapsed() < PATIENCE / 2);
}

#[test]
fn a_full_non_blocking_stream_is_waited_for() {
    struct Reluctant(u32, Writes);
    impl Write for Reluctant {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += 1;
            match self.0 % 3 {
                0 => Err(io::ErrorKind::WouldBlock.into()),
                1 => Err(io::ErrorKind::Interrupted.into()),
                _ => self.1.write(&bytes[..bytes.len().min(40)]),
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let writes = Writes::default();
    let layer = DiagnosticLayer::new(Options::default());
    layer.add_sink(StreamSink::start("test", Box::new(Reluctant(0, writes.clone())), true, layer.sequence()));
    let guard = layer.guard();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        tracing::info!(target: "client", "a");
        tracing::info!(target: "client", "b");
    });
    guard.flush(PATIENCE);
    let text = writes.0.lock().unwrap().concat();
    let names: Vec<_> = text.lines().map(|line| Record::from_line(line).unwrap().name).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn a_full_pipe_that_nobody_reads_costs_the_program_nothing() {
    let (mut reader, writer) = io::pipe().unwrap();
    let layer = DiagnosticLayer::new(Options { level: Level::Trace, ..Options::default() });
    layer.add_sink(StreamSink::start("test", Box::new(writer), true, layer.sequence()));
    let guard = layer.guard();
    let started = Instant::now();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
        for number in 0..100_000_u64 {
            tracing::info!(target: "zcode_runtime", session = "s", ms = number, "name.{}", number % 400);
        }
    });
    guard.flush(Duration::from_millis(20));
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
    let mut first = [0; 10];
    reader.read_exact(&mut first).unwrap();
    assert_eq!(&first, br#"{"schema":"#);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn canaries_reach_no_stream(noise in "\\PC{0,30}", tail in "[a-zA-Z0-9]{20,30}", json in any::<bool>()) {
        let secrets = [format!("sk-{tail}"), format!("Bearer {tail}"), format!("{{\"password\":\"{tail}\"}}"), format!("enc:v1:{tail}")];
        let lines = logged(Level::Trace, json, |_| {
            for secret in &secrets {
                let text = format!("{noise} {secret} {noise}");
                tracing::info!(target: "client", stderr = text.as_str(), error = %text, path = ?text, workspace = text, "host.stderr");
            }
        });
        prop_assert_eq!(lines.len(), secrets.len());
        prop_assert!(!lines.concat().contains(&tail), "{:?}", lines);
    }
}
