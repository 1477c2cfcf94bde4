//! Counts of equal cases and loops, by family.

use std::collections::BTreeMap;
use std::fmt;

use super::{AutoscalerCase, CaseComparison, LoopComparison};

/// Counts of equal cases and loops, by family.
#[derive(Clone, Debug, Default)]
pub struct CaseCounts {
    families: BTreeMap<String, FamilyCounts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct FamilyCounts {
    cases: LoopRatio,
    closed: LoopRatio,
    stepwise: LoopRatio,
    shown: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct LoopRatio {
    equal: u64,
    total: u64,
}

// === impl CaseCounts ===

impl CaseCounts {
    /// Counts a case and its loops. Returns its loops to report, at most `most` of them for each family in total.
    pub fn add<'a>(
        &mut self,
        case: &AutoscalerCase,
        comparison: &'a CaseComparison,
        most: usize,
    ) -> Vec<&'a LoopComparison> {
        let count = self.families.entry(case.family.clone()).or_default();
        count.cases.add(comparison.is_equal());
        comparison.closed_loop.iter().for_each(|one| count.closed.add(one.is_equal()));
        comparison.stepwise.iter().for_each(|one| count.stepwise.add(one.is_equal()));
        let mut to_report = comparison.loops_to_report();
        to_report.truncate(most - count.shown.min(most));
        count.shown += to_report.len();
        to_report
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// Whether all cases and loops are equal.
    pub fn is_all_equal(&self) -> bool {
        self.families.values().all(|one| one.cases.is_all_equal() && one.stepwise.is_all_equal())
    }
}

impl fmt::Display for CaseCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<16}{:>10}{:>14}{:>14}", "equal", "cases", "loops", "step by step")?;
        let mut sum = FamilyCounts::default();
        let line = |f: &mut fmt::Formatter<'_>, name: &str, one: &FamilyCounts| {
            let [cases, closed, stepwise] =
                [one.cases, one.closed, one.stepwise].map(|ratio| ratio.to_string());
            write!(f, "{name:<16}{cases:>10}{closed:>14}{stepwise:>14}")
        };
        for (family, count) in &self.families {
            line(f, family, count)?;
            writeln!(f)?;
            sum.cases += count.cases;
            sum.closed += count.closed;
            sum.stepwise += count.stepwise;
        }
        line(f, "all", &sum)
    }
}

// === impl LoopRatio ===

impl LoopRatio {
    fn add(&mut self, is_equal: bool) {
        self.total += 1;
        self.equal += u64::from(is_equal);
    }

    fn is_all_equal(self) -> bool {
        self.equal == self.total
    }
}

impl std::ops::AddAssign for LoopRatio {
    fn add_assign(&mut self, other: LoopRatio) {
        self.equal += other.equal;
        self.total += other.total;
    }
}

impl fmt::Display for LoopRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.equal, self.total)
    }
}
