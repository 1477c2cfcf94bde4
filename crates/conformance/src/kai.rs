//! Comparison of the re-created KAI-Scheduler with the real one, on vectors that the real code printed.

mod case;
mod counts;
mod facts;
mod outcome;

use std::collections::BTreeSet;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use case::KaiCase;
pub use counts::KaiCaseCounts;
pub use facts::{Fact, Leaves};

use facts::facts_of;
use outcome::outcome;

/// The result of comparing one case.
#[derive(Clone, Debug)]
pub struct KaiComparison {
    /// The case.
    pub case: String,
    /// The facts that differ.
    pub differences: Vec<FactDifference>,
}

/// A fact that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FactDifference {
    /// Its path in the outcome.
    pub path: String,
    /// Its value in our outcome.
    pub ours: Option<Fact>,
    /// Its value in the real one.
    pub theirs: Option<Fact>,
}

/// Amounts may differ by this much.
const TOLERANCE: f64 = 1e-3;

/// Runs a case with our scheduler and compares the outcome with the real one.
pub fn compare_kai_case(case: &KaiCase) -> KaiComparison {
    let ours = catch_unwind(AssertUnwindSafe(|| outcome(case)));
    let ours = match ours {
        Ok(Ok(ours)) => facts_of(&ours),
        Ok(Err(error)) => Leaves::from([("error".to_owned(), Fact::Text(error.to_string()))]),
        Err(_) => Leaves::from([("error".to_owned(), Fact::Text("panic".to_owned()))]),
    };
    let theirs = facts_of(&case.expect);
    let paths: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    let mut differences = Vec::new();
    for path in paths {
        let (ours, theirs) = (ours.get(path), theirs.get(path));
        let is_equal = match (ours, theirs) {
            (Some(ours), Some(theirs)) => ours.is_near(theirs, TOLERANCE),
            // The real scheduler's answers differed.
            (Some(_), None) => facts::is_optional(path),
            (None, Some(_)) => false,
            (None, None) => true,
        };
        if !is_equal {
            let path = path.clone();
            differences.push(FactDifference { path, ours: ours.cloned(), theirs: theirs.cloned() });
        }
    }
    KaiComparison { case: case.id.clone(), differences }
}

// === impl KaiComparison ===

impl KaiComparison {
    /// Whether all decisions and amounts are equal, whatever the texts say.
    pub fn is_equal(&self) -> bool {
        self.differences.iter().all(FactDifference::is_text)
    }

    /// Whether all texts are equal too.
    pub fn is_equal_with_texts(&self) -> bool {
        self.differences.is_empty()
    }
}

// === impl FactDifference ===

impl FactDifference {
    /// Whether it is the text of a message or of a reason.
    pub fn is_text(&self) -> bool {
        facts::is_text(&self.path)
    }
}

impl fmt::Display for KaiComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.case)?;
        for difference in &self.differences {
            write!(f, "\n  {}", difference.path)?;
            for (side, fact) in [("ours  ", &difference.ours), ("theirs", &difference.theirs)] {
                if let Some(fact) = fact {
                    write!(f, "\n    {side}  {fact}")?;
                }
            }
        }
        Ok(())
    }
}
