//! The orderly end of a connection.
//!
//! The inbound stream asks for the end and sends a fence behind the last line. When the dispatcher meets the fence,
//! everything the client sent has been dispatched; the coordinator is told, and the stream reports its end to the SDK only
//! when every request is answered or [`ANSWERS`] has passed, because the SDK drops answers after that.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use session_coordinator::Coordinator;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Ended;

/// Method of the fence. A client that sends it is ignored.
pub(crate) const FENCE_METHOD: &str = "$/zcode-acp/end";
/// The fence's line.
pub(super) const FENCE: &str = r#"{"jsonrpc":"2.0","method":"$/zcode-acp/end"}"#;
/// How long answers may take after the end was asked for.
const ANSWERS: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(crate) struct End {
    asked: OnceLock<(Ended, Instant)>,
    reported: OnceLock<Instant>,
    was_reported: CancellationToken,
    fenced: CancellationToken,
    open: AtomicUsize,
    none_open: Notify,
    shutdown: Mutex<Option<JoinHandle<()>>>,
}

/// One unanswered request.
pub(crate) struct OpenRequest(Arc<End>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.none_open.notify_waiters();
        }
    }
}

impl End {
    pub(crate) fn open(self: &Arc<Self>) -> OpenRequest {
        self.open.fetch_add(1, Ordering::AcqRel);
        OpenRequest(Arc::clone(self))
    }

    /// The first cause counts.
    pub(super) fn ask(&self, ended: Ended) {
        self.asked.get_or_init(|| {
            tracing::info!(
                reason = ended.as_str(),
                count = self.open.load(Ordering::Acquire),
                "connection.ending"
            );
            (ended, Instant::now())
        });
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.get().is_some()
    }

    pub(super) fn cause(&self) -> Option<(Ended, Instant)> {
        self.asked.get().copied()
    }

    /// Everything before the end has been dispatched: tells the coordinator. Later calls do nothing.
    pub(crate) fn fence(&self, coordinator: &Coordinator) {
        self.begin_shutdown(coordinator);
        self.fenced.cancel();
    }

    fn begin_shutdown(&self, coordinator: &Coordinator) {
        let mut shutdown = self.shutdown.lock().unwrap_or_else(PoisonError::into_inner);
        if shutdown.is_none() && !self.fenced.is_cancelled() {
            let coordinator = coordinator.clone();
            *shutdown = Some(tokio::spawn(async move { coordinator.shutdown().await }));
        }
    }

    /// Waits until every request is answered, at most until the deadline; then the end may be reported.
    pub(super) async fn answered(&self) {
        let since = self.cause().map_or_else(Instant::now, |(_, since)| since);
        let answers = async {
            self.fenced.cancelled().await;
            loop {
                let none_open = self.none_open.notified();
                tokio::pin!(none_open);
                none_open.as_mut().enable();
                if self.open.load(Ordering::Acquire) == 0 {
                    return;
                }
                none_open.await;
            }
        };
        if tokio::time::timeout_at(since + ANSWERS, answers).await.is_err() {
            tracing::warn!(count = self.open.load(Ordering::Acquire), "connection.unanswered");
        }
        self.reported.get_or_init(Instant::now);
        self.was_reported.cancel();
    }

    /// Resolves when the end has been reported, with the time of it.
    pub(super) async fn reported(&self) -> Instant {
        self.was_reported.cancelled().await;
        self.reported_or_now()
    }

    /// When the end was reported; now, if it never was.
    pub(super) fn reported_or_now(&self) -> Instant {
        self.reported.get().copied().unwrap_or_else(Instant::now)
    }

    /// The coordinator's shutdown, begun here if nothing has begun it yet.
    pub(super) fn take_shutdown(&self, coordinator: &Coordinator) -> Option<JoinHandle<()>> {
        self.begin_shutdown(coordinator);
        self.shutdown.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
