//! Byte streams for the SDK's own line handling, for tests that have to tell one transport from the other.
//!
//! What is missing here is the point of it: no line limit, no judgement of lines, no account of bytes.

use std::io::{self, Read};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::writer::Writer;

/// Input as the SDK wants it; it ends with the input or with the future it was given.
pub struct StockRead {
    chunks: mpsc::Receiver<Vec<u8>>,
    chunk: Vec<u8>,
    taken: usize,
    halt: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
}

/// Output as the SDK wants it.
pub struct StockWrite(Arc<Writer>);

/// Starts a thread that pumps `input`.
pub fn streams(
    mut input: impl Read + Send + 'static,
    writer: Arc<Writer>,
    halt: impl Future<Output = ()> + Send + 'static,
) -> io::Result<(StockRead, StockWrite)> {
    let (pump, chunks) = mpsc::channel(1);
    std::thread::Builder::new().name("acp-stdin".into()).spawn(move || {
        let mut chunk = vec![0; 64 * 1024];
        loop {
            match input.read(&mut chunk) {
                Ok(count) if count > 0 => {
                    if pump.blocking_send(chunk.get(..count).unwrap_or_default().to_vec()).is_err() {
                        return;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    })?;
    let read = StockRead { chunks, chunk: Vec::new(), taken: 0, halt: Box::pin(halt), ended: false };
    Ok((read, StockWrite(writer)))
}

impl AsyncRead for StockRead {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut [u8]) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.taken == this.chunk.len() {
            if this.ended || this.halt.as_mut().poll(cx).is_ready() {
                this.ended = true;
                return Poll::Ready(Ok(0));
            }
            match std::task::ready!(this.chunks.poll_recv(cx)) {
                Some(chunk) => (this.chunk, this.taken) = (chunk, 0),
                None => return Poll::Ready(Ok(0)),
            }
        }
        let rest = this.chunk.get(this.taken..).unwrap_or_default();
        let count = rest.len().min(out.len());
        if let (Some(to), Some(from)) = (out.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        this.taken += count;
        Poll::Ready(Ok(count))
    }
}

impl AsyncWrite for StockWrite {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        // Registered before looking: room that comes in between wakes.
        self.0.wake_when_ready(cx.waker());
        if self.0.append(bytes) { Poll::Ready(Ok(bytes.len())) } else { Poll::Pending }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
