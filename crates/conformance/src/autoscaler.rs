//! Comparison of the re-created cluster-autoscaler with the real one, on vectors that the real code printed and on
//! recordings of clusters in which it ran.
//!
//! Every case is run twice: in closed loop, where our decisions change the cluster, and step by step, where the cluster
//! changes as the case says, so that one wrong decision does not affect the later ones.

mod case;
mod daemons;
pub mod film;
mod play;
mod recorder;
mod step;
mod tally;
mod told;
mod world;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

pub use case::{Case, Cases, Moved};
pub use step::{
    Happened, Increase, Kind, Loose, Remaining, Removed, ScaleDown, ScaleUp, Step, Unneeded, Unremovable, Way,
};
pub use tally::Tally;

/// The result of comparing one case.
#[derive(Clone, Debug)]
pub struct Judged {
    /// The closed-loop run, one entry per loop.
    pub closed: Vec<LoopJudged>,
    /// The step-by-step run, one entry per loop; empty if the case does not name the nodes.
    pub stepwise: Vec<LoopJudged>,
}

/// The result of comparing one loop.
#[derive(Clone, Debug)]
pub struct LoopJudged {
    /// The second.
    pub at: i64,
    /// The fields that differ.
    pub differences: Vec<Difference>,
    /// All facts of our loop and of the real one, as lines.
    pub whole: [Vec<String>; 2],
}

/// One field that differs in a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The case.
    pub case: Arc<str>,
    /// The second.
    pub at: i64,
    /// Whether it was found in the closed-loop run.
    pub is_closed: bool,
    /// The field's name.
    pub field: &'static str,
    /// Words that only our autoscaler has.
    pub ours: Vec<String>,
    /// Words that only the real autoscaler has.
    pub theirs: Vec<String>,
}

/// Runs a case with our autoscaler and compares each loop with the real one.
pub fn judge(case: &Case) -> Judged {
    let closed = compare(case, true, play::closed);
    // A case with interchangeable nodes does not say which node changed.
    let stepwise = if case.loose { Vec::new() } else { compare(case, false, play::stepwise) };
    Judged { closed, stepwise }
}

fn compare(case: &Case, is_closed: bool, play: fn(&Case) -> Vec<Step>) -> Vec<LoopJudged> {
    let id: Arc<str> = case.id.as_str().into();
    let difference =
        |at, field, ours, theirs| Difference { case: id.clone(), at, is_closed, field, ours, theirs };
    let Ok(steps) = catch_unwind(AssertUnwindSafe(|| play(case))) else {
        let lost = |theirs: &Step| LoopJudged {
            at: theirs.at,
            differences: vec![difference(theirs.at, "panic", vec!["yes".to_owned()], Vec::new())],
            whole: Default::default(),
        };
        return case.expect.iter().map(lost).collect();
    };
    let judge = |(ours, theirs): (&Step, &Step)| {
        let at = theirs.at;
        let facts = [ours.facts(), theirs.facts()];
        let whole = facts.clone().map(|facts| {
            let there = facts.into_iter().filter(|(_, words)| !words.is_empty());
            there.map(|(field, words)| format!("{field}: {}", words.join(" | "))).collect()
        });
        let [ours, theirs] = facts;
        let both = ours.into_iter().zip(theirs).filter(|((_, ours), (_, theirs))| ours != theirs);
        let differences = both.map(|((field, ours), (_, theirs))| {
            let (ours, theirs) = apart(ours, theirs);
            difference(at, field, ours, theirs)
        });
        LoopJudged { at, differences: differences.collect(), whole }
    };
    steps.iter().zip(&case.expect).map(judge).collect()
}

/// Removes the common words from both lists.
fn apart(mut ours: Vec<String>, mut theirs: Vec<String>) -> (Vec<String>, Vec<String>) {
    ours.retain(|word| match theirs.iter().position(|other| other == word) {
        Some(place) => {
            theirs.remove(place);
            false
        }
        None => true,
    });
    (ours, theirs)
}

// === impl Judged ===

impl Judged {
    /// Whether every closed-loop loop is equal.
    pub fn is_equal(&self) -> bool {
        self.closed.iter().all(LoopJudged::is_equal)
    }

    /// The loops to report: all that differ step by step; if there are none, the first that differs in closed loop,
    /// since the later ones may follow from it.
    pub fn telling(&self) -> Vec<&LoopJudged> {
        let differ = |loops: &'_ [LoopJudged]| loops.iter().position(|one| !one.is_equal());
        match (differ(&self.stepwise), differ(&self.closed)) {
            (Some(_), _) => self.stepwise.iter().filter(|one| !one.is_equal()).collect(),
            (None, Some(first)) => vec![&self.closed[first]],
            (None, None) => Vec::new(),
        }
    }
}

// === impl LoopJudged ===

impl LoopJudged {
    /// Whether no field differs.
    pub fn is_equal(&self) -> bool {
        self.differences.is_empty()
    }
}

impl fmt::Display for LoopJudged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(first) = self.differences.first() else { return Ok(()) };
        let how = if first.is_closed { "closed loop" } else { "step by step" };
        write!(f, "{} at {} ({how})", first.case, self.at)?;
        for difference in &self.differences {
            write!(f, "\n  {}", difference.field)?;
            for (who, words) in [("ours  ", &difference.ours), ("theirs", &difference.theirs)] {
                for word in words {
                    write!(f, "\n    {who}  {word}")?;
                }
            }
        }
        if f.alternate() {
            for (who, lines) in ["ours", "theirs"].into_iter().zip(&self.whole) {
                write!(f, "\n  all of {who}")?;
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
    fn only_what_one_side_says_is_told() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(apart(words("a b b c"), words("b c d")), (words("a b"), words("d")));
    }
}
