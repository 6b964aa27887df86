//! Where records go. One trait, so that further sinks (a file, a ring, viewers) see the same record, serialised once.

use std::cell::OnceCell;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use diag_model::{Level, Record};

use crate::pretty::pretty;
use crate::queue::Queue;

/// How long the thread waits for room in a non-blocking stream.
const FULL_STREAM_PAUSE: Duration = Duration::from_millis(20);

/// A record on its way to the sinks, with its serialised form made at most once.
pub struct Entry {
    record: Record,
    line: OnceCell<Arc<str>>,
}

impl Entry {
    pub(crate) fn new(record: Record) -> Self {
        Self { record, line: OnceCell::new() }
    }

    /// The record.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Its NDJSON line, line break included.
    pub fn line(&self) -> Arc<str> {
        Arc::clone(self.line.get_or_init(|| ended(self.record.to_line())))
    }
}

/// Takes records. An implementation never blocks in [`Sink::accept`]: it queues within a bound or drops and counts.
pub trait Sink: Send + Sync {
    /// Takes one record.
    fn accept(&self, entry: &Entry);

    /// Waits until everything accepted is out, at most until `deadline`.
    fn flush(&self, deadline: Instant);
}

/// A sink that writes to a byte stream from a thread of its own, one write a record.
pub struct StreamSink {
    queue: Arc<Queue>,
    json: bool,
}

impl StreamSink {
    /// Starts the thread. It is never joined: it may be stuck in a write for as long as nobody reads. When the stream is
    /// broken, or no thread can be had, everything is dropped.
    pub fn start(name: &str, stream: Box<dyn Write + Send>, json: bool, sequence: Arc<AtomicU64>) -> Self {
        let queue = Arc::new(Queue::default());
        let source = Arc::clone(&queue);
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || drain(&source, stream, json, &sequence));
        if thread.is_err() {
            queue.close();
        }
        Self { queue, json }
    }
}

impl Sink for StreamSink {
    fn accept(&self, entry: &Entry) {
        self.queue.push(if self.json { entry.line() } else { ended(pretty(entry.record())) });
    }

    fn flush(&self, deadline: Instant) {
        self.queue.wait_empty(deadline);
    }
}

fn drain(queue: &Queue, mut stream: Box<dyn Write + Send>, json: bool, sequence: &AtomicU64) {
    while let Some(taken) = queue.take() {
        let mut written = Ok(());
        if taken.dropped > 0 {
            let mut record = Record::new(Level::Warn, "log.dropped");
            stamp(&mut record, sequence);
            record.facts.count = Some(taken.dropped);
            let notice = ended(if json { record.to_line() } else { pretty(&record) });
            written = write_whole(&mut *stream, notice.as_bytes());
        }
        if written.and_then(|()| write_whole(&mut *stream, taken.line.as_bytes())).is_err() {
            queue.close();
            return;
        }
    }
}

/// One write a record, unless the stream takes less. A stream that whoever shares it has made non-blocking is full, not
/// broken: this thread can wait.
fn write_whole(stream: &mut dyn Write, mut rest: &[u8]) -> io::Result<()> {
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => rest = &rest[written..],
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => thread::sleep(FULL_STREAM_PAUSE),
            Err(why) => return Err(why),
        }
    }
    stream.flush()
}

/// Gives a record its number and time.
pub(crate) fn stamp(record: &mut Record, sequence: &AtomicU64) {
    record.seq = sequence.fetch_add(1, Ordering::Relaxed);
    record.at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
}

fn ended(mut line: String) -> Arc<str> {
    line.push('\n');
    line.into()
}
