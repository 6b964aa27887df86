//! A bounded memory: the newest entries, oldest forgotten first.

use std::collections::VecDeque;

#[derive(Debug)]
pub(crate) struct Ring<T> {
    entries: VecDeque<T>,
    limit: usize,
}

impl<T: PartialEq> Ring<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { entries: VecDeque::new(), limit }
    }

    pub(crate) fn push(&mut self, entry: T) {
        if self.entries.len() == self.limit {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    pub(crate) fn contains(&self, entry: &T) -> bool {
        self.entries.contains(entry)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entry_is_forgotten_first() {
        let mut ring = Ring::new(2);
        for entry in 1..=3 {
            ring.push(entry);
        }
        assert!(!ring.contains(&1) && ring.contains(&2) && ring.contains(&3));
    }
}
