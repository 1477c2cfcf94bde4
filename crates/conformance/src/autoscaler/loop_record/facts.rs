//! The facts of a loop, as words that can be compared.

use std::collections::BTreeMap;

use super::{
    ClusterEvent, ClusterEventKind, ExpansionOption, GroupIncrease, LoopRecord, RemainingPods, RemovedNode,
    ScaleUpRecord, UnneededNode, UnremovableNode,
};

/// Words by field, causes before consequences. The order of a field's words does not matter.
pub(in crate::autoscaler) type LoopFacts = Vec<(&'static str, Vec<String>)>;

impl LoopRecord {
    /// The facts of the loop.
    pub(in crate::autoscaler) fn facts(&self) -> LoopFacts {
        let mut facts = LoopFacts::new();
        let mut add = |field: &'static str, mut words: Vec<String>| {
            words.sort();
            facts.push((field, words));
        };
        add("before", self.before.iter().map(ClusterEvent::text).collect());
        add("asyncCalls", self.async_calls.clone());
        add("error", self.error.iter().cloned().collect());
        add_rounds(self.scale_up.as_slice(), UP, &mut add);
        add_rounds(&self.salvo, SALVO, &mut add);
        add_rounds(self.min_size_scale_up.as_slice(), MIN_SIZE, &mut add);
        let down = &self.scale_down;
        add("scaleDown.result", vec![down.result.clone()]);
        add("scaleDown.nodes", down.nodes.iter().map(RemovedNode::text).collect());
        let unneeded = |one: &UnneededNode| format!("{} since {}", one.node, one.since);
        add("scaleDown.unneeded", down.unneeded.iter().map(unneeded).collect());
        add("scaleDown.unremovable", down.unremovable.iter().map(UnremovableNode::text).collect());
        let utilization = |(node, used): (&String, &f64)| format!("{node} {used:.9}");
        add("scaleDown.utilization", down.utilization.iter().map(utilization).collect());
        let delete_result = |(node, result): (&String, &String)| format!("{node} {result}");
        add("scaleDown.deleteResults", down.delete_results.iter().map(delete_result).collect());
        add("calls", self.calls.clone());
        add("targets", numbers(&self.targets));
        add("upcoming", numbers(&self.upcoming));
        add("backoff", self.backoff.clone());
        add("unhealthy", self.unhealthy.clone());
        add("softTaint", self.soft_taint.clone());
        add("toBeDeleted", self.to_be_deleted.clone());
        add("events", self.events.clone());
        let loose = self.loose.clone().unwrap_or_default();
        add("loose.asyncCalls", numbers(&loose.async_calls));
        add("loose.calls", numbers(&loose.calls));
        add("loose.removed", numbers(&loose.removed));
        add("loose.unneeded", numbers(&loose.unneeded));
        add("loose.unremovable", numbers(&loose.unremovable));
        add("loose.softTaint", numbers(&loose.soft_taint));
        add("loose.toBeDeleted", numbers(&loose.to_be_deleted));
        facts
    }
}

/// The field names of a scale-up.
type ScaleUpFields = [&'static str; 9];

const UP: ScaleUpFields = [
    "scaleUp.result",
    "scaleUp.error",
    "scaleUp.options",
    "scaleUp.best",
    "scaleUp.increases",
    "scaleUp.triggered",
    "scaleUp.remaining",
    "scaleUp.awaiting",
    "scaleUp.failedGroups",
];
const MIN_SIZE: ScaleUpFields = [
    "minSize.result",
    "minSize.error",
    "minSize.options",
    "minSize.best",
    "minSize.increases",
    "minSize.triggered",
    "minSize.remaining",
    "minSize.awaiting",
    "minSize.failedGroups",
];
const SALVO: ScaleUpFields = [
    "salvo.result",
    "salvo.error",
    "salvo.options",
    "salvo.best",
    "salvo.increases",
    "salvo.triggered",
    "salvo.remaining",
    "salvo.awaiting",
    "salvo.failedGroups",
];

fn add_rounds(
    rounds: &[ScaleUpRecord],
    fields: ScaleUpFields,
    add: &mut impl FnMut(&'static str, Vec<String>),
) {
    // Only a salvo has several rounds: each word names its round.
    let numbered =
        |index: usize, word: String| if index == 0 { word } else { format!("#{} {word}", index + 1) };
    let all = |words: &dyn Fn(&ScaleUpRecord) -> Vec<String>| {
        let of_round = |(index, round)| words(round).into_iter().map(move |word| numbered(index, word));
        rounds.iter().enumerate().flat_map(of_round).collect::<Vec<String>>()
    };
    let [result, error, options, best, increases, triggered, remaining, awaiting, failed] = fields;
    add(result, all(&|round| vec![round.result.clone()]));
    add(error, all(&|round| round.error.iter().cloned().collect()));
    add(options, all(&|round| round.options.iter().map(ExpansionOption::text).collect()));
    add(best, all(&|round| round.best.iter().cloned().collect()));
    let increase = |one: &GroupIncrease| format!("{} {}->{}", one.group, one.from, one.to);
    add(increases, all(&|round| round.increases.iter().map(increase).collect()));
    add(triggered, all(&|round| numbers(&round.triggered)));
    add(remaining, all(&|round| round.remaining.iter().map(RemainingPods::text).collect()));
    add(awaiting, all(&|round| numbers(&round.awaiting)));
    add(failed, all(&|round| round.failed_groups.clone()));
}

/// `name=number` for each number that is not zero: zero equals absent.
fn numbers(numbers: &BTreeMap<String, i64>) -> Vec<String> {
    let non_zero = numbers.iter().filter(|(_, number)| **number != 0);
    non_zero.map(|(name, number)| format!("{name}={number}")).collect()
}

// === impl ClusterEvent ===

impl ClusterEvent {
    fn text(&self) -> String {
        let kind = match self.what {
            ClusterEventKind::NodeRegistered => "nodeRegistered",
            ClusterEventKind::NodeReady => "nodeReady",
            ClusterEventKind::PodDeleted => "podDeleted",
            ClusterEventKind::PodEvicted => "podEvicted",
            ClusterEventKind::PodCreated => "podCreated",
            ClusterEventKind::NodeDeleted => "nodeDeleted",
            ClusterEventKind::PodBound => "podBound",
        };
        let words = [&self.at.to_string(), kind, &self.pod, &self.node];
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }
}

// === impl ExpansionOption ===

impl ExpansionOption {
    fn text(&self) -> String {
        let mut word = format!("{} +{} for {}", self.group, self.nodes, numbers(&self.pods).join(" "));
        if !self.similar.is_empty() {
            let mut similar = self.similar.clone();
            similar.sort();
            word += &format!(" with {}", similar.join(" "));
        }
        word
    }
}

// === impl RemainingPods ===

impl RemainingPods {
    fn text(&self) -> String {
        let reasons = |verdict: &str, all: &BTreeMap<String, Vec<String>>| {
            let one = |(group, reasons): (&String, &Vec<String>)| {
                format!("; {verdict} {group}: {}", reasons.join(", "))
            };
            all.iter().map(one).collect::<String>()
        };
        let (rejected, skipped) = (reasons("rejected", &self.rejected), reasons("skipped", &self.skipped));
        format!("{}={}{rejected}{skipped}", self.pod, self.count)
    }
}

// === impl RemovedNode ===

impl RemovedNode {
    fn text(&self) -> String {
        let mut drain = self.drain.clone();
        drain.sort();
        if drain.is_empty() { self.node.clone() } else { format!("{} drain {}", self.node, drain.join(" ")) }
    }
}

// === impl UnremovableNode ===

impl UnremovableNode {
    fn text(&self) -> String {
        let words = [&self.node, &self.reason, &self.pod, &self.pod_reason];
        words.into_iter().filter(|word| !word.is_empty()).cloned().collect::<Vec<_>>().join(" ")
    }
}
