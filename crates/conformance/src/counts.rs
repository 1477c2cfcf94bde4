//! Counts of equal decisions, by family.

use std::collections::BTreeMap;
use std::fmt;

use crate::{DecisionComparison, DecisionDifference, SchedulerCase};

/// Counts of equal decisions, by family.
#[derive(Clone, Debug, Default)]
pub struct DecisionCounts {
    families: BTreeMap<String, FamilyDecisions>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FamilyDecisions {
    equal: u64,
    total: u64,
    shown: usize,
}

// === impl DecisionCounts ===

impl DecisionCounts {
    /// Counts the decisions of a case. Returns their differences, at most `most` of them for each family in total.
    pub fn add(
        &mut self,
        case: &SchedulerCase,
        comparisons: Vec<DecisionComparison>,
        most: usize,
    ) -> Vec<DecisionDifference> {
        let count = self.families.entry(case.family.clone()).or_default();
        count.total += comparisons.len() as u64;
        count.equal += comparisons.iter().filter(|one| one.differences.is_empty()).count() as u64;
        let mut differences: Vec<DecisionDifference> =
            comparisons.into_iter().flat_map(|one| one.differences).collect();
        differences.truncate(most - count.shown.min(most));
        count.shown += differences.len();
        differences
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// Whether all decisions are equal.
    pub fn is_all_equal(&self) -> bool {
        let sum = self.sum();
        sum.equal == sum.total
    }

    fn sum(&self) -> FamilyDecisions {
        self.families.values().fold(FamilyDecisions::default(), |sum, one| FamilyDecisions {
            equal: sum.equal + one.equal,
            total: sum.total + one.total,
            shown: sum.shown + one.shown,
        })
    }
}

impl fmt::Display for DecisionCounts {
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
    use crate::LineCase;

    #[test]
    fn a_decision_with_several_differences_counts_once() {
        let case = SchedulerCase::parse(r#"{"id":"x-1","family":"x","objects":[],"pending":[],"expect":[]}"#)
            .unwrap();
        let difference = DecisionDifference {
            case: "x-1".into(),
            pod: "b/a".to_owned(),
            node: None,
            what: "node".to_owned(),
            ours: None,
            theirs: None,
        };
        let comparisons = |differences| DecisionComparison { pod: "b/a".to_owned(), differences };
        let both =
            || vec![comparisons(vec![difference.clone(), difference.clone()]), comparisons(Vec::new())];
        let mut counts = DecisionCounts::default();
        assert_eq!(counts.add(&case, both(), 3).len(), 2);
        assert_eq!(counts.add(&case, both(), 3).len(), 1);
        assert!(!counts.is_all_equal());
        assert_eq!(counts.to_string(), "x                   2/4\nall                 2/4 decisions equal");
    }
}
