//! The account of update bytes on their way to the client.
//!
//! The SDK's outgoing queue has no bound, so the bound has to be kept in front of it: an update's weight is entered
//! when it is handed to the SDK and leaves the account when its line has been written. The account is exact because
//! three things hold. Entering and handing over happen under one lock, so the order of entries is the order of lines.
//! Every line that is a `session/update` closes exactly one entry, the oldest. A hand-over the SDK refuses takes its
//! entry back before the lock is released.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use futures::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::Notify;

/// The account of one connection.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Mutex<VecDeque<usize>>,
    in_flight: AtomicUsize,
    closed: AtomicBool,
    changed: Notify,
}

impl Ledger {
    /// Enters `weight` and hands over; takes the entry back when `hand_over` fails.
    pub fn enter<E>(&self, weight: usize, hand_over: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push_back(weight);
        self.in_flight.fetch_add(weight, Ordering::AcqRel);
        let result = hand_over();
        if result.is_err() {
            entries.pop_back();
            self.in_flight.fetch_sub(weight, Ordering::AcqRel);
        }
        result
    }

    /// The oldest entry's weight: its line has reached the writer. The weight stays in flight until
    /// [`Ledger::written`].
    pub fn next_line(&self) -> usize {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(0)
    }

    /// Lines of this weight have been written, or will never be.
    pub fn written(&self, weight: usize) {
        if weight > 0 {
            self.in_flight.fetch_sub(weight, Ordering::AcqRel);
            self.changed.notify_waiters();
        }
    }

    /// The connection has ended: nothing is in flight any more and nobody waits for room.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Bytes handed over and not yet written.
    pub fn in_flight(&self) -> usize {
        if self.closed.load(Ordering::Acquire) { 0 } else { self.in_flight.load(Ordering::Acquire) }
    }

    /// Resolves when at most `bytes` are in flight.
    pub fn room(self: &Arc<Self>, bytes: usize) -> BoxFuture<'static, ()> {
        let ledger = Arc::clone(self);
        Box::pin(async move {
            loop {
                let changed = ledger.changed.notified();
                tokio::pin!(changed);
                // Registered before looking: a change in between is not missed.
                changed.as_mut().enable();
                if ledger.in_flight() <= bytes {
                    return;
                }
                changed.await;
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Enter(usize),
        Refused(usize),
        Line,
        Written,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (1usize..5000).prop_map(Step::Enter),
            (1usize..5000).prop_map(Step::Refused),
            Just(Step::Line),
            Just(Step::Written),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn the_account_is_exact(steps in proptest::collection::vec(step(), 0..100)) {
            let ledger = Ledger::default();
            let (mut queued, mut buffered) = (VecDeque::new(), 0);
            for step in steps {
                match step {
                    Step::Enter(weight) => {
                        ledger.enter(weight, || Ok::<_, ()>(())).unwrap();
                        queued.push_back(weight);
                    }
                    Step::Refused(weight) => prop_assert_eq!(ledger.enter(weight, || Err(())), Err(())),
                    Step::Line => {
                        let weight = ledger.next_line();
                        prop_assert_eq!(weight, queued.pop_front().unwrap_or(0));
                        buffered += weight;
                    }
                    Step::Written => ledger.written(std::mem::take(&mut buffered)),
                }
                prop_assert_eq!(ledger.in_flight(), queued.iter().sum::<usize>() + buffered);
            }
        }
    }

    #[tokio::test]
    async fn room_waits_for_the_write_and_for_the_end() {
        let ledger = Arc::new(Ledger::default());
        ledger.enter(10, || Ok::<_, ()>(())).unwrap();
        ledger.enter(10, || Ok::<_, ()>(())).unwrap();
        let mut room = ledger.room(10);
        assert!(futures::poll!(&mut room).is_pending());
        let weight = ledger.next_line();
        assert!(futures::poll!(&mut room).is_pending(), "a buffered line is still in flight");
        ledger.written(weight);
        assert!(futures::poll!(&mut room).is_ready());

        let mut room = ledger.room(0);
        assert!(futures::poll!(&mut room).is_pending());
        ledger.close();
        assert!(futures::poll!(&mut room).is_ready());
    }
}
