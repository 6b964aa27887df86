//! Signals: the first asks for an orderly end, the second ends at once.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::end;

/// A request to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signal {
    /// Somebody pressed Ctrl-C.
    pub(crate) interrupt: bool,
    /// Exit code by convention when nothing better is known.
    pub(crate) code: i32,
}

/// Cancels `stop` at the first signal and ends the process at the second. Must be called inside a runtime.
pub(crate) fn stop_on_signal(stop: CancellationToken) {
    let mut signals = listen();
    tokio::spawn(async move {
        if let Some(signal) = signals.recv().await {
            tracing::info!(signal = signal.code - 128, "agent.signal");
            stop.cancel();
        }
        if let Some(signal) = signals.recv().await {
            end::now(signal.code);
        }
    });
}

/// The signals that ask for an end, in the order they come.
pub(crate) fn listen() -> mpsc::Receiver<Signal> {
    let (send, receive) = mpsc::channel(4);
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};

        for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
            let told = Signal { interrupt: kind == SignalKind::interrupt(), code: 128 + kind.as_raw_value() };
            // A handler that cannot be installed leaves the default action: the process ends.
            let Ok(mut stream) = signal(kind) else { continue };
            let send = send.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    let _ = send.try_send(told);
                }
            });
        }
    }
    #[cfg(windows)]
    {
        use tokio::signal::windows;

        if let Ok(mut stream) = windows::ctrl_c() {
            let send = send.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    let _ = send.try_send(Signal { interrupt: true, code: 130 });
                }
            });
        }
        if let Ok(mut stream) = windows::ctrl_break() {
            let send = send.clone();
            tokio::spawn(async move {
                while stream.recv().await.is_some() {
                    let _ = send.try_send(Signal { interrupt: false, code: 149 });
                }
            });
        }
    }
    drop(send);
    receive
}
