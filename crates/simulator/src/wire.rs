//! What is written to the adapter: frames behind the nonce, and the faults a scenario may ask for.

use std::io;

use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

/// Frames that may wait for a slow reader. Everything that produces one waits when they are used up.
pub(crate) const QUEUE: usize = 64;
/// Bytes collected before they are written.
const BATCH: usize = 64 * 1024;

/// Something to write.
pub(crate) enum Frame {
    /// A JSON text; the nonce is put in front.
    Json(Vec<u8>),
    /// A line without nonce.
    Noise(Vec<u8>),
    /// The host ends here.
    Crash(i32),
    /// From here on nothing is written any more.
    Silence,
}

/// The scenario ended the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the scenario ended the simulated host with code {code}")]
pub struct SimulatedCrash {
    /// Exit code the process should have.
    pub code: i32,
}

/// Exit code, if this error of [`crate::serve`] is a crash that the scenario asked for.
pub fn crash_code(error: &io::Error) -> Option<i32> {
    error.get_ref()?.downcast_ref::<SimulatedCrash>().map(|crash| crash.code)
}

/// The writing end, shared by all sessions.
#[derive(Clone)]
pub(crate) struct Outlet(mpsc::Sender<Frame>);

impl Outlet {
    pub(crate) fn new(sender: mpsc::Sender<Frame>) -> Self {
        Self(sender)
    }

    /// Hands a frame over. Waits while the reader is slow; when the stream is gone, nobody is left to tell.
    pub(crate) async fn send(&self, frame: Frame) {
        let _ = self.0.send(frame).await;
    }

    /// Writes a value as a frame.
    pub(crate) async fn json(&self, value: &impl Serialize) {
        if let Ok(bytes) = serde_json::to_vec(value) {
            self.send(Frame::Json(bytes)).await;
        }
    }

    /// Answers a request.
    pub(crate) async fn answer(&self, id: u64, outcome: Result<Value, ServiceError>) {
        match outcome {
            Ok(result) => self.json(&serde_json::json!({ "id": id, "result": result })).await,
            Err(error) => self.json(&serde_json::json!({ "id": id, "error": error })).await,
        }
    }
}

/// An error answer of a service.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ServiceError {
    code: i64,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

impl ServiceError {
    pub(crate) fn new(code: i64, name: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), name: Some(name), data: None }
    }

    /// A plain error the host threw: it has no code of its own.
    pub(crate) fn plain(message: impl Into<String>) -> Self {
        Self::new(zcode_protocol::bridge::BRIDGE_ERROR, "Error", message)
    }

    pub(crate) fn not_active() -> Self {
        Self::new(-32004, "ZCodeProtocolError", "Session is not active")
    }

    pub(crate) fn no_method(method: &str) -> Self {
        Self::new(-32601, "ZCodeProtocolError", format!("Method not found: {method}"))
    }

    pub(crate) fn params(message: impl Into<String>) -> Self {
        Self::new(-32602, "ZCodeProtocolError", message)
    }
}

/// Writes frames until the stream or the queue ends.
pub(crate) async fn write_frames(
    mut write: impl AsyncWrite + Unpin,
    nonce: &str,
    mut frames: mpsc::Receiver<Frame>,
) -> io::Result<()> {
    let mut batch = Vec::with_capacity(BATCH);
    while let Some(frame) = frames.recv().await {
        let mut next = Some(frame);
        while let Some(frame) = next.take() {
            match frame {
                Frame::Json(json) => {
                    batch.extend_from_slice(nonce.as_bytes());
                    batch.push(b' ');
                    batch.extend_from_slice(&json);
                    batch.push(b'\n');
                }
                Frame::Noise(line) => {
                    batch.extend_from_slice(&line);
                    batch.push(b'\n');
                }
                Frame::Crash(code) => {
                    write.write_all(&batch).await?;
                    write.flush().await?;
                    return Err(io::Error::other(SimulatedCrash { code }));
                }
                Frame::Silence => {
                    write.write_all(&batch).await?;
                    write.flush().await?;
                    while frames.recv().await.is_some() {}
                    return Ok(());
                }
            }
            if batch.len() < BATCH {
                next = frames.try_recv().ok();
            }
        }
        write.write_all(&batch).await?;
        write.flush().await?;
        batch.clear();
        // One huge frame must not hold its memory for the rest of the connection.
        batch.shrink_to(BATCH);
    }
    Ok(())
}
