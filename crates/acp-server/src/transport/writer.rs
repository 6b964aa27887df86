//! The output side: a sink that appends to a buffer, and one thread that writes whole buffers.
//!
//! Lines that arrive while a write is in progress leave together with the next one, so a flood costs few system calls
//! and a single line leaves at once. `poll_ready` is pending above [`HIGH_WATER`], which is how a client that does not
//! read is felt upstream. A flush means "handed to the thread", which needs no further push; that everything was
//! written is what [`Writer::drained`] waits for. When the client's end is closed the sink swallows what still comes:
//! the connection ends in order, by the signal, instead of by an error that would drop its answers.

use std::io::{self, ErrorKind, Write};
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::Sink;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::ledger::Ledger;

/// Buffered bytes above which the sink is not ready.
pub const HIGH_WATER: usize = 1 << 20;
/// A buffer that grew beyond this for one large line is given back.
const KEEP: usize = 4 << 20;
/// How the SDK writes an update: the head of every line that closes an entry of the ledger.
const UPDATE_HEAD: &str = r#"{"jsonrpc":"2.0","method":"session/update","#;

#[derive(Default)]
struct Buffer {
    bytes: Vec<u8>,
    /// Ledger weight of the lines in `bytes`.
    weight: usize,
    /// The thread is writing an earlier buffer.
    writing: bool,
    closed: bool,
    broken: bool,
    waker: Option<Waker>,
}

struct Shared {
    buffer: Mutex<Buffer>,
    filled: Condvar,
    idle: Notify,
    ledger: Arc<Ledger>,
    broken: CancellationToken,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Buffer> {
        self.buffer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writer thread's handle.
pub struct Writer {
    shared: Arc<Shared>,
}

/// The sink of the SDK.
pub struct LineSink {
    shared: Arc<Shared>,
}

impl Writer {
    /// Starts the thread. `broken` is cancelled when the client's end turns out to be closed.
    pub fn start(
        output: impl Write + Send + 'static,
        ledger: Arc<Ledger>,
        broken: CancellationToken,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            buffer: Mutex::default(),
            filled: Condvar::new(),
            idle: Notify::new(),
            ledger,
            broken,
        });
        let thread = Arc::clone(&shared);
        // Not joined: a write to a client that does not read never returns.
        std::thread::Builder::new().name("acp-stdout".into()).spawn(move || write_all(&thread, output))?;
        Ok(Self { shared })
    }

    /// The sink. There is one.
    pub fn sink(&self) -> LineSink {
        LineSink { shared: Arc::clone(&self.shared) }
    }

    /// Resolves when everything handed over has been written, or cannot be.
    pub async fn drained(&self) {
        loop {
            let idle = self.shared.idle.notified();
            tokio::pin!(idle);
            idle.as_mut().enable();
            {
                let buffer = self.shared.lock();
                if buffer.broken || (buffer.bytes.is_empty() && !buffer.writing) {
                    return;
                }
            }
            idle.await;
        }
    }

    /// Appends bytes that already are whole lines or parts of them; the stock transport's way in.
    pub(super) fn append(&self, bytes: &[u8]) -> bool {
        let mut buffer = self.shared.lock();
        if buffer.bytes.len() >= HIGH_WATER && !buffer.broken {
            return false;
        }
        if !buffer.broken {
            buffer.bytes.extend_from_slice(bytes);
            self.shared.filled.notify_one();
        }
        true
    }

    /// Wakes `waker` when [`Writer::append`] may succeed again.
    pub(super) fn wake_when_ready(&self, waker: &Waker) {
        self.shared.lock().waker = Some(waker.clone());
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.filled.notify_one();
    }
}

impl Sink<String> for LineSink {
    type Error = io::Error;

    fn poll_ready(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut buffer = self.shared.lock();
        if buffer.bytes.len() < HIGH_WATER || buffer.broken {
            return Poll::Ready(Ok(()));
        }
        buffer.waker = Some(cx.waker().clone());
        Poll::Pending
    }

    fn start_send(self: Pin<&mut Self>, line: String) -> io::Result<()> {
        let weight = if line.starts_with(UPDATE_HEAD) { self.shared.ledger.next_line() } else { 0 };
        let mut buffer = self.shared.lock();
        if buffer.broken {
            drop(buffer);
            self.shared.ledger.written(weight);
            return Ok(());
        }
        buffer.bytes.reserve(line.len() + 1);
        buffer.bytes.extend_from_slice(line.as_bytes());
        buffer.bytes.push(b'\n');
        buffer.weight += weight;
        drop(buffer);
        self.shared.filled.notify_one();
        Ok(())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

fn write_all(shared: &Shared, mut output: impl Write) {
    let mut batch = Vec::new();
    loop {
        let weight = {
            let mut buffer = shared.lock();
            while buffer.bytes.is_empty() {
                if buffer.closed {
                    return;
                }
                buffer = shared.filled.wait(buffer).unwrap_or_else(PoisonError::into_inner);
            }
            std::mem::swap(&mut batch, &mut buffer.bytes);
            buffer.writing = true;
            if let Some(waker) = buffer.waker.take() {
                waker.wake();
            }
            std::mem::take(&mut buffer.weight)
        };
        let result = write_batch(&mut output, &batch);
        batch.clear();
        if batch.capacity() > KEEP {
            batch = Vec::new();
        }
        shared.ledger.written(weight);
        let mut buffer = shared.lock();
        buffer.writing = false;
        if let Err(error) = result {
            buffer.broken = true;
            buffer.bytes = Vec::new();
            let lost = std::mem::take(&mut buffer.weight);
            if let Some(waker) = buffer.waker.take() {
                waker.wake();
            }
            drop(buffer);
            shared.ledger.written(lost);
            tracing::info!(reason = %error.kind(), "output.closed");
            shared.broken.cancel();
            shared.idle.notify_waiters();
            return;
        }
        if buffer.bytes.is_empty() {
            drop(buffer);
            shared.idle.notify_waiters();
        }
    }
}

/// `write_all` for a descriptor that somebody else may have made non-blocking: a client can share it.
fn write_batch(output: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match output.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => return Err(error),
        }
    }
    loop {
        match output.flush() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use futures::SinkExt as _;

    use super::*;

    /// An output whose every write waits for a permit.
    struct Gated {
        permits: mpsc::Receiver<()>,
        written: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Gated {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.permits.recv().map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
            self.written.send(bytes.to_vec()).unwrap();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn gated() -> (Writer, Arc<Ledger>, CancellationToken, mpsc::Sender<()>, mpsc::Receiver<Vec<u8>>) {
        let (permit, permits) = mpsc::channel();
        let (written, batches) = mpsc::channel();
        let (ledger, broken) = (Arc::new(Ledger::default()), CancellationToken::new());
        let writer = Writer::start(Gated { permits, written }, Arc::clone(&ledger), broken.clone()).unwrap();
        (writer, ledger, broken, permit, batches)
    }

    fn update(text: &str) -> String {
        format!(r#"{UPDATE_HEAD}"params":"{text}"}}"#)
    }

    #[tokio::test]
    async fn lines_of_one_write_leave_together_with_the_next() {
        let (writer, _, _, permit, batches) = gated();
        let mut sink = writer.sink();
        sink.send("one".into()).await.unwrap();
        // The first write is waiting for its permit or about to; these two are buffered meanwhile.
        permit.send(()).unwrap();
        assert_eq!(batches.recv().unwrap(), b"one\n");
        permit.send(()).unwrap();
        permit.send(()).unwrap();
        sink.send("two".into()).await.unwrap();
        sink.send("three".into()).await.unwrap();
        writer.drained().await;
        assert_eq!(batches.try_iter().flatten().collect::<Vec<_>>(), b"two\nthree\n");
    }

    #[tokio::test]
    async fn a_reader_that_stops_is_felt_and_one_that_continues_frees() {
        let (writer, ledger, _, permit, batches) = gated();
        let mut sink = writer.sink();
        let line = update(&"x".repeat(100_000));
        let mut sent = 0;
        loop {
            let ready = std::future::poll_fn(|cx| Poll::Ready(sink.poll_ready_unpin(cx))).await;
            if ready.is_pending() {
                break;
            }
            ledger.enter(line.len(), || Ok::<_, ()>(())).unwrap();
            sink.start_send_unpin(line.clone()).unwrap();
            sent += 1;
            assert!(sent < 100, "never pending");
        }
        assert_eq!(ledger.in_flight(), sent * line.len(), "nothing counts as written before it is");
        let room = ledger.room(0);
        let reader = std::thread::spawn(move || {
            let mut bytes = 0;
            while bytes < sent * (line.len() + 1) {
                permit.send(()).unwrap();
                bytes += batches.recv().unwrap().len();
            }
        });
        room.await;
        std::future::poll_fn(|cx| sink.poll_ready_unpin(cx)).await.unwrap();
        writer.drained().await;
        reader.join().unwrap();
    }

    #[tokio::test]
    async fn a_closed_pipe_signals_and_swallows() {
        let (writer, ledger, broken, permit, _writes) = gated();
        let mut sink = writer.sink();
        drop(permit);
        ledger.enter(5, || Ok::<_, ()>(())).unwrap();
        sink.send(update("a")).await.unwrap();
        broken.cancelled().await;
        ledger.enter(5, || Ok::<_, ()>(())).unwrap();
        sink.send(update("b")).await.unwrap();
        writer.drained().await;
        assert_eq!(ledger.in_flight(), 0, "lines that can never be written are not in flight");
    }
}
