//! A bounded memory of what is over, asked often and in any order.

use std::collections::{HashSet, VecDeque};
use std::hash::Hash;

#[derive(Debug)]
pub(crate) struct Ended<T> {
    known: HashSet<T>,
    order: VecDeque<T>,
    limit: usize,
}

impl<T: Clone + Eq + Hash> Ended<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { known: HashSet::new(), order: VecDeque::new(), limit }
    }

    pub(crate) fn push(&mut self, entry: T) {
        if !self.known.insert(entry.clone()) {
            return;
        }
        if self.order.len() == self.limit
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.order.push_back(entry);
    }

    pub(crate) fn contains(&self, entry: &T) -> bool {
        self.known.contains(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_is_forgotten_first_and_a_repeat_takes_no_room() {
        let mut ended = Ended::new(2);
        for entry in [1, 2, 2, 3] {
            ended.push(entry);
        }
        assert!(!ended.contains(&1) && ended.contains(&2) && ended.contains(&3));
    }
}
