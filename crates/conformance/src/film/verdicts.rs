//! Report on a recording: our scheduler's decisions compared with the real ones, and the causes of differences.

use std::collections::BTreeMap;
use std::fmt;

use scheduler::{Decision, Explanation, NodeVerdict};

use super::play::{Asked, Guess};
use super::{Did, Film};

/// The result of the comparison on one recording.
#[derive(Clone, Debug, Default)]
pub struct Verdicts {
    /// The recording's name.
    pub name: String,
    /// Messages of unschedulable pods.
    pub messages: Share,
    /// Nodes that pods were bound to.
    pub bindings: Share,
    /// Bindings to a node with the best score.
    pub within_best: u64,
    /// The causes of the differences, with counts.
    pub causes: BTreeMap<(Aspect, String), u64>,
    /// The reasons why decisions are not compared, with counts.
    pub apart: Vec<(&'static str, u64)>,
    /// The first differing decisions.
    pub examples: Vec<Example>,
}

/// How many of a total are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// The number that are equal.
    pub equal: u64,
    /// The number compared.
    pub total: u64,
}

/// The aspect of a decision that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Aspect {
    /// The message of an unschedulable pod.
    Message,
    /// The node a pod is bound to.
    Binding,
}

/// A decision that differs.
#[derive(Clone, Debug)]
pub struct Example {
    /// The index of the decision in the recording.
    index: usize,
    /// The time and the pod.
    pub what: String,
    /// Our decision.
    pub ours: String,
    /// The real decision.
    pub theirs: String,
    /// The cause of the difference.
    pub cause: String,
}

/// Other assumptions about timing. The first one under which ours decides the same names the cause of a difference.
const OTHERWISE: [(&str, Guess); 8] = [
    ("what the watch showed 10 ms later", behind(-10)),
    ("what the watch showed within the last 10 ms", behind(10)),
    ("the order of decisions: a binding took longer", takes(20)),
    ("the order of decisions: a binding took no time", takes(0)),
    ("what the watch showed 50 ms later", behind(-50)),
    ("what the watch showed within the last 50 ms", behind(50)),
    ("what the watch showed 200 ms later", behind(-200)),
    ("what the watch showed within the last 200 ms", behind(200)),
];

const FIRST_OF_SERIES: &str =
    "the Event's text is that of the first of a series; the pod's condition says what ours says";

const fn behind(milliseconds: i64) -> Guess {
    Guess { watch_behind: milliseconds * 1_000_000, ..Guess::BEST }
}

const fn takes(milliseconds: i64) -> Guess {
    Guess { binding_takes: milliseconds * 1_000_000, ..Guess::BEST }
}

/// Compares every decision of a recording with our scheduler's and keeps the first `most` that differ in full.
/// `progress` receives the name of each phase.
pub fn judge(film: &Film, most: usize, mut progress: impl FnMut(&str)) -> Verdicts {
    let mut verdicts = Verdicts { name: film.name.clone(), apart: film.apart.clone(), ..Verdicts::default() };
    let mut unequal: BTreeMap<usize, Example> = BTreeMap::new();
    progress("playing");
    let mut looked_at = vec![None; film.decided.len()];
    film.play(
        Guess::BEST,
        &mut looked_at,
        |_| true,
        |index, asked| {
            let is_equal = is_equal(&asked);
            let share = match asked.decided.did {
                Did::Refused(_) => &mut verdicts.messages,
                Did::Bound(_) => &mut verdicts.bindings,
            };
            share.total += 1;
            share.equal += u64::from(is_equal);
            if let (Did::Bound(node), Some(explanation)) = (&asked.decided.did, &asked.explanation) {
                verdicts.within_best += u64::from(is_equal || is_best(explanation, node));
            }
            if !is_equal {
                unequal.insert(index, example(index, &asked));
            }
        },
    );
    let is_open = |one: &&Example| one.cause != FIRST_OF_SERIES;
    let mut open: Vec<usize> = unequal.values().filter(is_open).map(|one| one.index).collect();
    for (cause, guess) in OTHERWISE {
        progress(cause);
        let mut found = Vec::new();
        let wanted = |index| open.binary_search(&index).is_ok();
        film.play(guess, &mut looked_at, wanted, |index, asked| {
            found.extend(is_equal(&asked).then_some(index))
        });
        for index in found {
            unequal.entry(index).and_modify(|one| one.cause = cause.to_owned());
            open.retain(|one| *one != index);
        }
    }
    for (index, example) in &unequal {
        let aspect = match film.decided[*index].did {
            Did::Refused(_) => Aspect::Message,
            Did::Bound(_) => Aspect::Binding,
        };
        *verdicts.causes.entry((aspect, example.cause.clone())).or_default() += 1;
    }
    // Differences without an explanation come first.
    let mut examples: Vec<Example> = unequal.into_values().collect();
    examples.sort_by_key(|one| (open.binary_search(&one.index).is_err(), one.index));
    examples.truncate(most);
    verdicts.examples = examples;
    verdicts
}

fn is_equal(asked: &Asked<'_>) -> bool {
    let Some(explanation) = &asked.explanation else { return false };
    match (&asked.decided.did, &explanation.decision) {
        (Did::Refused(message), Decision::Refused(rejection)) => *message == rejection.event_message(),
        (Did::Bound(node), Decision::Placed(placement)) => **node == *placement.node,
        _ => false,
    }
}

fn is_best(explanation: &Explanation, node: &str) -> bool {
    let totals = explanation.nodes.iter().filter_map(|one| match &one.verdict {
        NodeVerdict::Feasible { total, .. } => Some((&*one.node, *total)),
        NodeVerdict::Rejected(_) => None,
    });
    let best = totals.clone().map(|(_, total)| total).max();
    totals.into_iter().any(|(other, total)| other == node && Some(total) == best)
}

fn example(index: usize, asked: &Asked<'_>) -> Example {
    let decided = asked.decided;
    let ours = match asked.explanation.as_ref().map(|one| &one.decision) {
        None => "there is no such pod".to_owned(),
        Some(Decision::Skipped(why)) => format!("skipped: {why}"),
        Some(Decision::Failed(why)) => format!("failed: {why}"),
        Some(Decision::Gated(refusal)) => format!("gated: {}", refusal.message()),
        Some(Decision::Placed(placement)) => format!("goes to {}", placement.node),
        Some(Decision::Refused(rejection)) => rejection.full_message(),
    };
    let theirs = match &decided.did {
        Did::Refused(message) => message.clone(),
        Did::Bound(node) => format!("goes to {node}"),
    };
    let cause = match asked.explanation.as_ref().map(|one| &one.decision) {
        _ if decided.condition.as_ref() == Some(&ours) => FIRST_OF_SERIES,
        None => "the pod was gone",
        Some(Decision::Skipped(_)) => "the pod was skipped: placed, or being deleted",
        _ if asked.nominated > 0 => "not told, while pods were promised nodes",
        _ => "not told",
    };
    Example {
        index,
        what: format!("{} {}/{}", asked.at, decided.namespace, decided.name),
        ours,
        theirs,
        cause: cause.to_owned(),
    }
}

// === impl Verdicts ===

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdicts { name, messages, bindings, within_best, .. } = self;
        write!(f, "{name}: messages {messages}, bindings {bindings}, {within_best} within the best score")?;
        for ((aspect, cause), count) in &self.causes {
            write!(f, "\n  {aspect:<9}{count:>6}  {cause}")?;
        }
        for (why, count) in &self.apart {
            write!(f, "\n  {:<9}{count:>6}  {why}", "apart")?;
        }
        Ok(())
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total == 0 {
            return f.write_str("none to compare");
        }
        let percent = self.equal as f64 * 100.0 / self.total as f64;
        write!(f, "{}/{} ({percent:.1} %)", self.equal, self.total)
    }
}

impl fmt::Display for Aspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Aspect::Message => "message",
            Aspect::Binding => "binding",
        })
    }
}

impl fmt::Display for Example {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})\n  ours    {}\n  theirs  {}", self.what, self.cause, self.ours, self.theirs)
    }
}
