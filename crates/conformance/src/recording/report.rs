//! Report on a recording: our scheduler's decisions compared with the real ones, and the causes of differences.

use std::collections::BTreeMap;
use std::fmt;

use scheduler::{Decision, Explanation, NodeVerdict};

use super::playback::{PlayedDecision, TimingAssumption};
use super::{AttemptOutcome, WatchRecording};

/// The result of the comparison on one recording.
#[derive(Clone, Debug, Default)]
pub struct SchedulerReport {
    /// The recording's name.
    pub name: String,
    /// Messages of unschedulable pods.
    pub messages: MatchRatio,
    /// Nodes that pods were bound to.
    pub bindings: MatchRatio,
    /// Bindings to a node with the best score.
    pub with_best_score: u64,
    /// The causes of the differences, with counts.
    pub difference_causes: BTreeMap<(DecisionAspect, String), u64>,
    /// The reasons why decisions are not compared, with counts.
    pub not_compared: Vec<(&'static str, u64)>,
    /// The first differing decisions.
    pub examples: Vec<DecisionExample>,
}

/// How many of a total are equal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatchRatio {
    /// The number that are equal.
    pub equal: u64,
    /// The number compared.
    pub total: u64,
}

/// The aspect of a decision that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DecisionAspect {
    /// The message of an unschedulable pod.
    Message,
    /// The node a pod is bound to.
    Binding,
}

/// A decision that differs.
#[derive(Clone, Debug)]
pub struct DecisionExample {
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
const OTHER_ASSUMPTIONS: [(&str, TimingAssumption); 8] = [
    ("the scheduler's watches were 10 ms ahead", with_watch_lag(-10)),
    ("the scheduler's watches were 10 ms behind", with_watch_lag(10)),
    ("the order of decisions: a binding took longer", with_binding_latency(20)),
    ("the order of decisions: a binding took no time", with_binding_latency(0)),
    ("the scheduler's watches were 50 ms ahead", with_watch_lag(-50)),
    ("the scheduler's watches were 50 ms behind", with_watch_lag(50)),
    ("the scheduler's watches were 200 ms ahead", with_watch_lag(-200)),
    ("the scheduler's watches were 200 ms behind", with_watch_lag(200)),
];

const FIRST_OF_SERIES: &str =
    "the Event has the text of the first decision of a series; the pod's condition has our text";

const fn with_watch_lag(milliseconds: i64) -> TimingAssumption {
    TimingAssumption { watch_lag: milliseconds * 1_000_000, ..TimingAssumption::BEST_FIT }
}

const fn with_binding_latency(milliseconds: i64) -> TimingAssumption {
    TimingAssumption { binding_latency: milliseconds * 1_000_000, ..TimingAssumption::BEST_FIT }
}

/// Compares every decision of a recording with our scheduler's and keeps the first `most` that differ in full.
/// `progress` receives the name of each phase.
pub fn compare_scheduler(
    recording: &WatchRecording,
    most: usize,
    mut progress: impl FnMut(&str),
) -> SchedulerReport {
    let mut report = SchedulerReport {
        name: recording.name.clone(),
        not_compared: recording.not_compared.clone(),
        ..SchedulerReport::default()
    };
    let mut differing: BTreeMap<usize, DecisionExample> = BTreeMap::new();
    progress("playing");
    let mut evaluated_nodes = vec![None; recording.decisions.len()];
    recording.play_back(
        TimingAssumption::BEST_FIT,
        &mut evaluated_nodes,
        |_| true,
        |index, played| {
            let is_equal = is_equal(&played);
            let ratio = match played.decided.outcome {
                AttemptOutcome::Unschedulable(_) => &mut report.messages,
                AttemptOutcome::Bound(_) => &mut report.bindings,
            };
            ratio.total += 1;
            ratio.equal += u64::from(is_equal);
            if let (AttemptOutcome::Bound(node), Some(explanation)) =
                (&played.decided.outcome, &played.explanation)
            {
                report.with_best_score += u64::from(is_equal || has_best_score(explanation, node));
            }
            if !is_equal {
                differing.insert(index, example(index, &played));
            }
        },
    );
    let is_unexplained = |one: &&DecisionExample| one.cause != FIRST_OF_SERIES;
    let mut unexplained: Vec<usize> =
        differing.values().filter(is_unexplained).map(|one| one.index).collect();
    for (cause, assumption) in OTHER_ASSUMPTIONS {
        progress(cause);
        let mut found = Vec::new();
        let wanted = |index| unexplained.binary_search(&index).is_ok();
        recording.play_back(assumption, &mut evaluated_nodes, wanted, |index, played| {
            found.extend(is_equal(&played).then_some(index))
        });
        for index in found {
            differing.entry(index).and_modify(|one| one.cause = cause.to_owned());
            unexplained.retain(|one| *one != index);
        }
    }
    for (index, example) in &differing {
        let aspect = match recording.decisions[*index].outcome {
            AttemptOutcome::Unschedulable(_) => DecisionAspect::Message,
            AttemptOutcome::Bound(_) => DecisionAspect::Binding,
        };
        *report.difference_causes.entry((aspect, example.cause.clone())).or_default() += 1;
    }
    // Differences without an explanation come first.
    let mut examples: Vec<DecisionExample> = differing.into_values().collect();
    examples.sort_by_key(|one| (unexplained.binary_search(&one.index).is_err(), one.index));
    examples.truncate(most);
    report.examples = examples;
    report
}

fn is_equal(played: &PlayedDecision<'_>) -> bool {
    let Some(explanation) = &played.explanation else { return false };
    match (&played.decided.outcome, &explanation.decision) {
        (AttemptOutcome::Unschedulable(message), Decision::Unschedulable(rejection)) => {
            *message == rejection.event_message()
        }
        (AttemptOutcome::Bound(node), Decision::Scheduled(placement)) => **node == *placement.node,
        _ => false,
    }
}

fn has_best_score(explanation: &Explanation, node: &str) -> bool {
    let totals = explanation.nodes.iter().filter_map(|one| match &one.verdict {
        NodeVerdict::Feasible { total, .. } => Some((&*one.node, *total)),
        NodeVerdict::Rejected(_) => None,
    });
    let best = totals.clone().map(|(_, total)| total).max();
    totals.into_iter().any(|(other, total)| other == node && Some(total) == best)
}

fn example(index: usize, played: &PlayedDecision<'_>) -> DecisionExample {
    let decided = played.decided;
    let ours = match played.explanation.as_ref().map(|one| &one.decision) {
        None => "the pod does not exist".to_owned(),
        Some(Decision::Skipped(why)) => format!("skipped: {why}"),
        Some(Decision::Failed(why)) => format!("failed: {why}"),
        Some(Decision::Gated(status)) => format!("gated: {}", status.message()),
        Some(Decision::Scheduled(placement)) => format!("scheduled to {}", placement.node),
        Some(Decision::Unschedulable(rejection)) => rejection.full_message(),
    };
    let theirs = match &decided.outcome {
        AttemptOutcome::Unschedulable(message) => message.clone(),
        AttemptOutcome::Bound(node) => format!("scheduled to {node}"),
    };
    let cause = match played.explanation.as_ref().map(|one| &one.decision) {
        _ if decided.condition_message.as_ref() == Some(&ours) => FIRST_OF_SERIES,
        None => "the pod did not exist",
        Some(Decision::Skipped(_)) => "the pod was skipped: placed, or being deleted",
        _ if played.nominated > 0 => "unexplained, while pods had nominated nodes",
        _ => "unexplained",
    };
    DecisionExample {
        index,
        what: format!("{} {}/{}", played.at, decided.namespace, decided.name),
        ours,
        theirs,
        cause: cause.to_owned(),
    }
}

// === impl SchedulerReport ===

impl fmt::Display for SchedulerReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SchedulerReport { name, messages, bindings, with_best_score, .. } = self;
        write!(
            f,
            "{name}: messages {messages}, bindings {bindings}, {with_best_score} to a node with the best score"
        )?;
        for ((aspect, cause), count) in &self.difference_causes {
            write!(f, "\n  {aspect:<9}{count:>6}  {cause}")?;
        }
        for (why, count) in &self.not_compared {
            write!(f, "\n  {:<9}{count:>6}  {why}", "excluded")?;
        }
        Ok(())
    }
}

impl fmt::Display for MatchRatio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.total == 0 {
            return f.write_str("none to compare");
        }
        let percent = self.equal as f64 * 100.0 / self.total as f64;
        write!(f, "{}/{} ({percent:.1} %)", self.equal, self.total)
    }
}

impl fmt::Display for DecisionAspect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            DecisionAspect::Message => "message",
            DecisionAspect::Binding => "binding",
        })
    }
}

impl fmt::Display for DecisionExample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})\n  ours    {}\n  theirs  {}", self.what, self.cause, self.ours, self.theirs)
    }
}
