//! Counts of equal cases and loops, by family.

use std::collections::BTreeMap;
use std::fmt;

use super::{Case, Judged, LoopJudged};

/// Counts of equal cases and loops, by family.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    families: BTreeMap<String, Count>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    cases: Share,
    closed: Share,
    stepwise: Share,
    shown: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Share {
    equal: u64,
    total: u64,
}

// === impl Tally ===

impl Tally {
    /// Counts a case and its loops. Returns those of its loops to report that are among the first `most` of the family.
    pub fn add<'a>(&mut self, case: &Case, judged: &'a Judged, most: usize) -> Vec<&'a LoopJudged> {
        let count = self.families.entry(case.family.clone()).or_default();
        count.cases.add(judged.is_equal());
        judged.closed.iter().for_each(|one| count.closed.add(one.is_equal()));
        judged.stepwise.iter().for_each(|one| count.stepwise.add(one.is_equal()));
        let mut telling = judged.telling();
        telling.truncate(most - count.shown.min(most));
        count.shown += telling.len();
        telling
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.families.is_empty()
    }

    /// Whether all is equal.
    pub fn is_clean(&self) -> bool {
        self.families.values().all(|one| one.cases.is_all() && one.stepwise.is_all())
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<16}{:>10}{:>14}{:>14}", "equal", "cases", "loops", "step by step")?;
        let mut sum = Count::default();
        let line = |f: &mut fmt::Formatter<'_>, name: &str, one: &Count| {
            let [cases, closed, stepwise] =
                [one.cases, one.closed, one.stepwise].map(|share| share.to_string());
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

// === impl Share ===

impl Share {
    fn add(&mut self, is_equal: bool) {
        self.total += 1;
        self.equal += u64::from(is_equal);
    }

    fn is_all(self) -> bool {
        self.equal == self.total
    }
}

impl std::ops::AddAssign for Share {
    fn add_assign(&mut self, other: Share) {
        self.equal += other.equal;
        self.total += other.total;
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.equal, self.total)
    }
}
