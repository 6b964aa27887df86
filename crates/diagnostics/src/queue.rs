//! A bounded queue between those who log and the one thread that writes: pushing never waits, the oldest gives way.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Lines held at most.
pub(crate) const LINES: usize = 1024;

/// Bytes held at most.
pub(crate) const BYTES: usize = 1024 * 1024;

#[derive(Default)]
struct State {
    lines: VecDeque<Arc<str>>,
    bytes: usize,
    dropped: u64,
    /// A line is with the writer.
    writing: bool,
    closed: bool,
}

/// What the writer gets.
pub(crate) struct Taken {
    pub(crate) line: Arc<str>,
    /// Lines that were lost directly before it.
    pub(crate) dropped: u64,
}

#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    emptied: Condvar,
}

impl Queue {
    /// A thread that panicked while it held the lock left a state that is still usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, line: Arc<str>) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.bytes += line.len();
        state.lines.push_back(line);
        while state.lines.len() > LINES || state.bytes > BYTES {
            let Some(oldest) = state.lines.pop_front() else { break };
            state.bytes -= oldest.len();
            state.dropped += 1;
        }
        drop(state);
        self.filled.notify_one();
    }

    /// The next line; waits for one. Asking again says that the one before is done.
    pub(crate) fn take(&self) -> Option<Taken> {
        let mut state = self.lock();
        state.writing = false;
        if state.lines.is_empty() {
            self.emptied.notify_all();
        }
        loop {
            if state.closed {
                return None;
            }
            if let Some(line) = state.lines.pop_front() {
                state.bytes -= line.len();
                state.writing = true;
                return Some(Taken { line, dropped: std::mem::take(&mut state.dropped) });
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Forgets everything, now and later: nobody reads any more.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        *state = State { closed: true, ..State::default() };
        drop(state);
        self.filled.notify_all();
        self.emptied.notify_all();
    }

    /// Waits until everything is written, at most until `deadline`.
    pub(crate) fn wait_empty(&self, deadline: Instant) {
        let mut state = self.lock();
        while !state.closed && (state.writing || !state.lines.is_empty()) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return;
            }
            state = self.emptied.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_gives_way_and_the_gap_is_told_where_it_is() {
        let queue = Queue::default();
        for number in 0..LINES + 5 {
            queue.push(number.to_string().into());
        }
        let first = queue.take().unwrap();
        assert_eq!((&*first.line, first.dropped), ("5", 5));
        let second = queue.take().unwrap();
        assert_eq!((&*second.line, second.dropped), ("6", 0));
    }

    #[test]
    fn bytes_are_bounded_too() {
        let queue = Queue::default();
        for _ in 0..5 {
            queue.push("x".repeat(BYTES / 2).into());
        }
        assert_eq!(queue.take().unwrap().dropped, 3);
        queue.push("y".repeat(BYTES * 2).into());
        assert!(queue.lock().bytes <= BYTES);
    }

    #[test]
    fn a_closed_queue_takes_nothing_and_lets_nobody_wait() {
        let queue = Queue::default();
        queue.push("a".into());
        queue.close();
        queue.push("b".into());
        assert!(queue.take().is_none());
        queue.wait_empty(Instant::now() + Duration::from_mins(1));
    }
}
