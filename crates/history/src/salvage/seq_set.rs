//! A set of sequence numbers, most of them consecutive.

use std::collections::BTreeMap;

/// Stored as ranges, so that ten million consecutive numbers take no more space than two.
#[derive(Debug, Default)]
pub(super) struct SeqSet {
    /// The last number of each run, by its first.
    runs: BTreeMap<i64, i64>,
}

// === impl SeqSet ===

impl SeqSet {
    pub(super) fn contains(&self, number: i64) -> bool {
        self.runs.range(..=number).next_back().is_some_and(|(_, last)| number <= *last)
    }

    /// Returns whether it is new.
    pub(super) fn insert(&mut self, number: i64) -> bool {
        if self.contains(number) {
            return false;
        }
        let after = number.checked_add(1).and_then(|next| self.runs.remove(&next)).unwrap_or(number);
        match self.runs.range_mut(..number).next_back() {
            Some((_, last)) if *last == number - 1 => *last = after,
            _ => {
                self.runs.insert(number, after);
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_behaves_as_a_btree_set(numbers in proptest::collection::vec(
            prop_oneof![-9i64..9, Just(i64::MIN), Just(i64::MAX), Just(i64::MIN + 1), Just(i64::MAX - 1)], 0..40,
        )) {
            let (mut seq_set, mut expected) = (SeqSet::default(), BTreeSet::new());
            for number in numbers {
                prop_assert_eq!(seq_set.insert(number), expected.insert(number));
                for other in (-10..10).chain([i64::MIN, i64::MAX]) {
                    prop_assert_eq!(seq_set.contains(other), expected.contains(&other));
                }
            }
            prop_assert_eq!(seq_set.runs.len(), expected.iter().filter(|n| **n == i64::MIN || !expected.contains(&(**n - 1))).count());
        }
    }
}
