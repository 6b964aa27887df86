//! The limit of records per event name: a loop that logs must not push everything else out of a log.
//!
//! A value without a clock; the caller says what time it is.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Records of one name that pass within one [`WINDOW`].
pub(crate) const BURST: u64 = 200;

/// The time after which a name may speak again.
pub(crate) const WINDOW: Duration = Duration::from_secs(1);

/// Names watched at once. Names are constants of the source, so this is never reached by our own; what comes on top
/// shares one count.
const NAMES: usize = 512;

/// The count of all names above [`NAMES`].
const OTHERS: &str = "others";

#[derive(Debug)]
struct Seen {
    since: Instant,
    passed: u64,
    suppressed: u64,
}

/// Counts records per name.
#[derive(Debug, Default)]
pub(crate) struct Flood {
    names: HashMap<String, Seen>,
    swept: Option<Instant>,
}

impl Flood {
    /// Whether a record of this name may pass now: the number left out before it, or `None` if it is left out too.
    pub(crate) fn admit(&mut self, name: &str, now: Instant) -> Option<u64> {
        let name = if self.names.len() < NAMES || self.names.contains_key(name) { name } else { OTHERS };
        let Some(seen) = self.names.get_mut(name) else {
            self.names.insert(name.to_owned(), Seen { since: now, passed: 1, suppressed: 0 });
            return Some(0);
        };
        if now.duration_since(seen.since) >= WINDOW {
            seen.since = now;
            seen.passed = 0;
        }
        if seen.passed < BURST {
            seen.passed += 1;
            Some(std::mem::take(&mut seen.suppressed))
        } else {
            seen.suppressed += 1;
            None
        }
    }

    /// The counts that no later record has told yet, at most once a window; all of them when `last` is set.
    pub(crate) fn sweep(&mut self, now: Instant, last: bool) -> Vec<(String, u64)> {
        if !last && self.swept.is_some_and(|swept| now.duration_since(swept) < WINDOW) {
            return Vec::new();
        }
        self.swept = Some(now);
        let mut told: Vec<_> = self
            .names
            .iter_mut()
            .filter(|(_, seen)| seen.suppressed > 0 && (last || now.duration_since(seen.since) >= WINDOW))
            .map(|(name, seen)| (name.clone(), std::mem::take(&mut seen.suppressed)))
            .collect();
        told.sort();
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_stopped_counted_and_told_by_the_next_record() {
        let (mut flood, start) = (Flood::default(), Instant::now());
        let passed = (0..1000).filter(|_| flood.admit("a", start).is_some()).count() as u64;
        assert_eq!(passed, BURST);
        assert_eq!(flood.admit("b", start), Some(0), "another name is not concerned");
        assert_eq!(flood.admit("a", start + WINDOW), Some(1000 - BURST));
        assert_eq!(flood.admit("a", start + WINDOW), Some(0), "told once");
    }

    #[test]
    fn a_flood_that_ended_is_told_by_a_sweep() {
        let (mut flood, start) = (Flood::default(), Instant::now());
        for _ in 0..BURST + 3 {
            flood.admit("a", start);
        }
        assert!(flood.sweep(start, false).is_empty(), "still going on");
        assert_eq!(flood.sweep(start + WINDOW, false), [("a".to_owned(), 3)]);
        assert!(flood.sweep(start + WINDOW, true).is_empty());
    }

    #[test]
    fn the_names_are_bounded() {
        let (mut flood, now) = (Flood::default(), Instant::now());
        for number in 0..10_000 {
            flood.admit(&format!("name.{number}"), now);
        }
        assert!(flood.names.len() <= NAMES + 1);
        assert_eq!(flood.names[OTHERS].passed, BURST);
    }
}
