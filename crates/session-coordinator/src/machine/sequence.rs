//! Which numbered events are new.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

/// Event ids remembered. Repeats come close to their original, so this is ample.
const REMEMBERED: usize = 1024;

/// Admits every event once, in rising order. Gaps are legal, since the host filters events.
#[derive(Debug, Default)]
pub(crate) struct Sequence {
    last: u64,
    known: HashSet<Arc<str>>,
    order: VecDeque<Arc<str>>,
    dropped: u64,
}

impl Sequence {
    /// Starts behind a snapshot: what it already contains is not admitted.
    pub(crate) fn after(boundary: u64) -> Self {
        Self { last: boundary, ..Self::default() }
    }

    /// Whether the event is new. A lower or repeated number and a known id are dropped and counted.
    pub(crate) fn admit(&mut self, seq: u64, id: &Arc<str>) -> bool {
        if seq <= self.last || self.known.contains(id) {
            self.dropped += 1;
            return false;
        }
        self.last = seq;
        if self.order.len() == REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.known.insert(Arc::clone(id));
        self.order.push_back(Arc::clone(id));
        true
    }

    /// Events dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(sequence: &mut Sequence, seq: u64, id: &str) -> bool {
        sequence.admit(seq, &Arc::from(id))
    }

    #[test]
    fn events_up_to_the_snapshot_boundary_are_already_known() {
        let mut sequence = Sequence::after(5);
        assert!(!admit(&mut sequence, 4, "a"));
        assert!(!admit(&mut sequence, 5, "b"));
        assert!(admit(&mut sequence, 6, "c"));
        assert_eq!(sequence.dropped(), 2);
    }

    #[test]
    fn gaps_pass_and_lower_repeated_or_known_events_are_dropped_and_counted() {
        let mut sequence = Sequence::after(0);
        assert!(admit(&mut sequence, 1, "a"));
        assert!(admit(&mut sequence, 9, "b"));
        assert!(!admit(&mut sequence, 9, "c"), "repeated");
        assert!(!admit(&mut sequence, 3, "d"), "lower");
        assert!(!admit(&mut sequence, 10, "a"), "known id");
        assert!(admit(&mut sequence, 10, "e"));
        assert_eq!(sequence.dropped(), 3);
    }

    #[test]
    fn the_memory_of_ids_is_bounded() {
        let mut sequence = Sequence::after(0);
        for seq in 1..=3000_u64 {
            assert!(admit(&mut sequence, seq, &seq.to_string()));
        }
        assert_eq!((sequence.known.len(), sequence.order.len()), (REMEMBERED, REMEMBERED));
    }
}
