//! Sets of completion indexes: `0-2,5,7`.

use std::collections::BTreeSet;
use std::fmt;

/// Completion indexes as ordered intervals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct OrderedIntervals(Vec<(i64, i64)>);

impl OrderedIntervals {
    /// Parses indexes below a number; invalid ones are skipped.
    pub(super) fn parse(text: &str, below: i64) -> OrderedIntervals {
        let mut intervals: Vec<(i64, i64)> = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<i64>(), last.parse::<i64>()) else { continue };
            if first >= below {
                break;
            }
            let last = last.min(below - 1);
            match intervals.last_mut() {
                Some((_, end)) if *end + 1 == first => *end = last,
                _ => intervals.push((first, last)),
            }
        }
        OrderedIntervals(intervals)
    }

    /// The union with more indexes.
    pub(super) fn with(&self, new_indexes: &BTreeSet<i64>) -> OrderedIntervals {
        let mut all: Vec<(i64, i64)> =
            self.0.iter().copied().chain(new_indexes.iter().map(|index| (*index, *index))).collect();
        all.sort_unstable();
        let mut intervals: Vec<(i64, i64)> = Vec::new();
        for (first, last) in all {
            match intervals.last_mut() {
                Some((_, end)) if first <= end.saturating_add(1) => *end = last.max(*end),
                _ => intervals.push((first, last)),
            }
        }
        OrderedIntervals(intervals)
    }

    pub(super) fn count(&self) -> i64 {
        self.0.iter().map(|(first, last)| last - first + 1).fold(0, i64::saturating_add)
    }

    /// The first `count` indexes below a limit that are missing.
    pub(super) fn first_missing(&self, count: usize, completions: i64) -> Vec<i64> {
        let (mut missing, mut next) = (Vec::new(), 0);
        for (first, last) in self.0.iter().copied().chain([(completions, completions)]) {
            while next < first.min(completions) && missing.len() < count {
                missing.push(next);
                next += 1;
            }
            next = next.max(last.saturating_add(1));
        }
        missing
    }
}

impl fmt::Display for OrderedIntervals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (first, last)) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { "," };
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                1 => write!(f, "{comma}{first},{last}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(known: &str, new_indexes: &[i64], completions: i64, all: &str, count: i64) {
        let indexes =
            OrderedIntervals::parse(known, completions).with(&new_indexes.iter().copied().collect());
        assert_eq!((indexes.to_string(), indexes.count()), (all.to_owned(), count));
    }

    #[test]
    fn indexes_are_written_as_kubernetes_does() {
        // Cases of TestCalculateSucceededIndexes.
        check("", &[], 5, "", 0);
        check("0,2,4-6,9", &[], 10, "0,2,4-6,9", 6);
        check("1-3", &[0, 2, 3, 5], 10, "0-3,5", 5);
        check("1-2,5-6", &[3, 4], 8, "1-6", 6);
        check("0-4,6", &[], 4, "0-3", 4);
        check("0,1", &[], 3, "0,1", 2);
        check("x,2-y,4", &[], 6, "4", 1);
    }

    #[test]
    fn the_first_missing_indexes_come_next() {
        // Cases of TestFirstPendingIndexes.
        let first = |known: &str, count: usize, completions: i64| {
            OrderedIntervals::parse(known, completions).first_missing(count, completions)
        };
        assert_eq!(first("", 3, 10), [0, 1, 2]);
        assert_eq!(first("0-1", 3, 10), [2, 3, 4]);
        assert_eq!(first("1,3-4", 3, 10), [0, 2, 5]);
        assert_eq!(first("0-3", 3, 5), [4]);
        assert_eq!(first("0-4", 3, 5), [0; 0]);
    }
}
