//! Comparison of the re-created cluster-autoscaler with the real one, on vectors that the real code printed and on
//! recordings of clusters in which it ran.
//!
//! Every case is run twice: in closed loop, where our decisions change the cluster, and step by step, where the cluster
//! changes as the case says, so that one wrong decision does not affect the later ones.

mod case;
mod cluster;
mod conversion;
mod counts;
mod daemons;
mod execution;
mod loop_record;
pub mod recording;
mod recording_cloud;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub use case::{AutoscalerCase, TimelineEntry};
pub use counts::CaseCounts;
pub use loop_record::{
    ClusterEvent, ClusterEventKind, ExpansionOption, GroupCounts, GroupIncrease, LoopRecord, RemainingPods,
    RemovedNode, ScaleDownRecord, ScaleUpRecord, UnneededNode, UnremovableNode,
};

/// The result of comparing one case.
#[derive(Clone, Debug)]
pub struct CaseComparison {
    /// The closed-loop run, one entry per loop.
    pub closed_loop: Vec<LoopComparison>,
    /// The step-by-step run, one entry per loop; empty if the case does not name the nodes.
    pub stepwise: Vec<LoopComparison>,
}

/// The result of comparing one loop.
#[derive(Clone, Debug)]
pub struct LoopComparison {
    /// The second.
    pub at: i64,
    /// The fields that differ.
    pub differences: Vec<LoopDifference>,
    /// All facts of our loop and of the real one, as lines.
    pub all_facts: [Vec<String>; 2],
}

/// One field that differs in a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopDifference {
    /// The case.
    pub case: Arc<str>,
    /// The second.
    pub at: i64,
    /// Whether it was found in the closed-loop run.
    pub is_closed_loop: bool,
    /// The field's name.
    pub field: &'static str,
    /// Words that only our autoscaler has.
    pub ours: Vec<String>,
    /// Words that only the real autoscaler has.
    pub theirs: Vec<String>,
}

/// Runs a case with our autoscaler and compares each loop with the real one.
pub fn compare_autoscaler_case(case: &AutoscalerCase) -> CaseComparison {
    let closed = compare_loops(case, true, execution::run_closed_loop);
    // A case with interchangeable nodes does not say which node changed.
    let stepwise = if case.interchangeable_nodes {
        Vec::new()
    } else {
        compare_loops(case, false, execution::run_stepwise)
    };
    CaseComparison { closed_loop: closed, stepwise }
}

fn compare_loops(
    case: &AutoscalerCase,
    is_closed: bool,
    run_case: fn(&AutoscalerCase) -> Vec<LoopRecord>,
) -> Vec<LoopComparison> {
    let id: Arc<str> = case.id.as_str().into();
    let difference = |at, field, ours, theirs| LoopDifference {
        case: id.clone(),
        at,
        is_closed_loop: is_closed,
        field,
        ours,
        theirs,
    };
    let Ok(loops) = catch_unwind(AssertUnwindSafe(|| run_case(case))) else {
        let panicked = |theirs: &LoopRecord| LoopComparison {
            at: theirs.at,
            differences: vec![difference(theirs.at, "panic", vec!["yes".to_owned()], Vec::new())],
            all_facts: Default::default(),
        };
        return case.expect.iter().map(panicked).collect();
    };
    let compare = |(ours, theirs): (&LoopRecord, &LoopRecord)| {
        let at = theirs.at;
        let facts = [ours.facts(), theirs.facts()];
        let all_facts = facts.clone().map(|facts| {
            let non_empty = facts.into_iter().filter(|(_, words)| !words.is_empty());
            non_empty.map(|(field, words)| format!("{field}: {}", words.join(" | "))).collect()
        });
        let [ours, theirs] = facts;
        let differing = ours.into_iter().zip(theirs).filter(|((_, ours), (_, theirs))| ours != theirs);
        let differences = differing.map(|((field, ours), (_, theirs))| {
            let (ours, theirs) = remove_common(ours, theirs);
            difference(at, field, ours, theirs)
        });
        LoopComparison { at, differences: differences.collect(), all_facts }
    };
    loops.iter().zip(&case.expect).map(compare).collect()
}

/// Removes the common words from both lists.
fn remove_common(mut ours: Vec<String>, mut theirs: Vec<String>) -> (Vec<String>, Vec<String>) {
    ours.retain(|word| match theirs.iter().position(|other| other == word) {
        Some(position) => {
            theirs.remove(position);
            false
        }
        None => true,
    });
    (ours, theirs)
}

// === impl CaseComparison ===

impl CaseComparison {
    /// Whether every closed-loop loop is equal.
    pub fn is_equal(&self) -> bool {
        self.closed_loop.iter().all(LoopComparison::is_equal)
    }

    /// The loops to report: all that differ step by step; if there are none, the first that differs in closed loop,
    /// since the later ones may follow from it.
    pub fn loops_to_report(&self) -> Vec<&LoopComparison> {
        let differ = |loops: &'_ [LoopComparison]| loops.iter().position(|one| !one.is_equal());
        match (differ(&self.stepwise), differ(&self.closed_loop)) {
            (Some(_), _) => self.stepwise.iter().filter(|one| !one.is_equal()).collect(),
            (None, Some(first)) => vec![&self.closed_loop[first]],
            (None, None) => Vec::new(),
        }
    }
}

// === impl LoopComparison ===

impl LoopComparison {
    /// Whether no field differs.
    pub fn is_equal(&self) -> bool {
        self.differences.is_empty()
    }
}

impl fmt::Display for LoopComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.differences.first() else { return Ok(()) };
        let run = if first.is_closed_loop { "closed loop" } else { "step by step" };
        write!(f, "{} at {} ({run})", first.case, self.at)?;
        for difference in &self.differences {
            write!(f, "\n  {}", difference.field)?;
            for (side, words) in [("ours  ", &difference.ours), ("theirs", &difference.theirs)] {
                for word in words {
                    write!(f, "\n    {side}  {word}")?;
                }
            }
        }
        if f.alternate() {
            for (side, lines) in ["ours", "theirs"].into_iter().zip(&self.all_facts) {
                write!(f, "\n  all facts of {side}")?;
                for line in lines {
                    write!(f, "\n    {line}")?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_sided_words_are_reported() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(remove_common(words("a b b c"), words("b c d")), (words("a b"), words("d")));
    }
}
