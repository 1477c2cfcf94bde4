//! Counts of equal decisions, by family.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Case, Difference, Judged};

/// Counts of equal decisions, by family.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    families: BTreeMap<String, Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    equal: u64,
    total: u64,
    shown: usize,
}

// === impl Tally ===

impl Tally {
    /// Counts the decisions of a case. Returns those of their differences that are among the first `most` of the
    /// family.
    pub fn add(&mut self, case: &Case, judged: Vec<Judged>, most: usize) -> Vec<Difference> {
        let count = self.families.entry(case.family.clone()).or_default();
        count.total += judged.len() as u64;
        count.equal += judged.iter().filter(|one| one.differences.is_empty()).count() as u64;
        let mut differences: Vec<Difference> = judged.into_iter().flat_map(|one| one.differences).collect();
        differences.truncate(most - count.shown.min(most));
        count.shown += differences.len();
        differences
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// Whether all decisions are equal.
    pub fn is_clean(&self) -> bool {
        let sum = self.sum();
        sum.equal == sum.total
    }

    fn sum(&self) -> Count {
        self.families.values().fold(Count::default(), |sum, one| Count {
            equal: sum.equal + one.equal,
            total: sum.total + one.total,
            shown: sum.shown + one.shown,
        })
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (family, count) in &self.families {
            writeln!(f, "{family:<16}{:>5}/{}", count.equal, count.total)?;
        }
        let sum = self.sum();
        write!(f, "{:<16}{:>5}/{} decisions equal", "all", sum.equal, sum.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_counts_once_however_much_differs_in_it() {
        let case = Case::parse(r#"{"id":"x-1","family":"x","objects":[],"pending":[],"expect":[]}"#).unwrap();
        let difference = Difference {
            case: "x-1".into(),
            pod: "b/a".to_owned(),
            node: None,
            what: "node".to_owned(),
            ours: None,
            theirs: None,
        };
        let judged = |differences| Judged { pod: "b/a".to_owned(), differences };
        let both = || vec![judged(vec![difference.clone(), difference.clone()]), judged(Vec::new())];
        let mut tally = Tally::default();
        assert_eq!(tally.add(&case, both(), 3).len(), 2);
        assert_eq!(tally.add(&case, both(), 3).len(), 1);
        assert!(!tally.is_clean());
        assert_eq!(tally.to_string(), "x                   2/4\nall                 2/4 decisions equal");
    }
}
