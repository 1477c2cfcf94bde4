//! Counts of equal cases, by family.

use std::collections::BTreeMap;
use std::fmt;

use super::{KaiCase, KaiComparison};

/// Counts of equal cases, by family.
#[derive(Clone, Debug, Default)]
pub struct KaiCaseCounts {
    families: BTreeMap<String, FamilyCounts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FamilyCounts {
    total: u64,
    equal: u64,
    /// The texts of messages and reasons are equal too.
    with_texts: u64,
    shown: usize,
}

impl KaiCaseCounts {
    /// Counts a case. Returns whether it is to be reported: at most `most` of each family are.
    pub fn add(&mut self, case: &KaiCase, comparison: &KaiComparison, most: usize) -> bool {
        let count = self.families.entry(case.family.clone()).or_default();
        count.total += 1;
        count.equal += u64::from(comparison.is_equal());
        count.with_texts += u64::from(comparison.is_equal_with_texts());
        let is_shown = !comparison.is_equal_with_texts() && count.shown < most;
        count.shown += usize::from(is_shown);
        is_shown
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// Whether all decisions and amounts of all cases are equal.
    pub fn is_all_equal(&self) -> bool {
        self.families.values().all(|count| count.equal == count.total)
    }

    /// Whether all texts are equal too.
    pub fn is_all_equal_with_texts(&self) -> bool {
        self.families.values().all(|count| count.with_texts == count.total)
    }
}

impl fmt::Display for KaiCaseCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sum = FamilyCounts::default();
        for (family, count) in &self.families {
            let FamilyCounts { total, equal, with_texts, .. } = *count;
            writeln!(f, "{family:<16}{equal:>5}/{total:<5}{with_texts:>5}")?;
            sum.total += total;
            sum.equal += equal;
            sum.with_texts += with_texts;
        }
        let FamilyCounts { total, equal, with_texts, .. } = sum;
        write!(f, "{:<16}{equal:>5}/{total:<5}{with_texts:>5} cases equal, with texts", "all")
    }
}
