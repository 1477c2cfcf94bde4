//! The outcome of a scheduling attempt, as vectors record it and as facts that can be compared one by one.

use std::collections::BTreeMap;

use model::NamespacedName;
use scheduler::{Decision, Explanation, NodeVerdict, Status};
use serde::Deserialize;

/// The outcome of a scheduling attempt for one pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SchedulingOutcome {
    /// Namespace and name.
    pub pod: String,
    /// The reason why the pod was not attempted.
    pub skipped: Option<String>,
    /// The PreEnqueue plugin that keeps it out of the active queue.
    pub pre_enqueue: Option<PluginVerdict>,
    /// The node chosen.
    pub node: Option<String>,
    /// The message if there is none, without the part about preemption.
    pub message: Option<String>,
    /// The PreFilter plugin that rejected the pod.
    pub pre_filter: Option<PluginVerdict>,
    /// The only nodes that PreFilter allows, sorted.
    #[serde(default)]
    pub pre_filter_nodes: Vec<String>,
    /// The verdict on every node considered.
    #[serde(default)]
    pub nodes: BTreeMap<String, PluginVerdict>,
    /// The node nominated by preemption.
    pub nominated_node: Option<String>,
    /// The pods preempted, sorted.
    #[serde(default)]
    pub victims: Vec<String>,
    /// The message of PostFilter.
    pub post_filter: Option<String>,
    /// The pods whose nomination was cleared, sorted.
    #[serde(default)]
    pub cleared_nominations: Vec<String>,
}

/// The first plugin that rejected the pod, or the scores.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PluginVerdict {
    /// The plugin that rejected the pod.
    pub plugin: Option<String>,
    /// The status code.
    pub code: Option<String>,
    /// The reasons, sorted.
    #[serde(default)]
    pub reasons: Vec<String>,
    /// The weighted scores, by plugin.
    #[serde(default)]
    pub scores: BTreeMap<String, i64>,
    /// The total score.
    pub total: Option<i64>,
}

/// Values by node (`None` for the pod as a whole) and name of the fact.
pub(crate) type OutcomeFacts = BTreeMap<(Option<String>, String), String>;

/// Type and reason, which the real scheduler's event recorder puts before the text.
const EVENT_PREFIX: &str = "Warning FailedScheduling ";

// === impl SchedulingOutcome ===

impl SchedulingOutcome {
    /// The outcome of our scheduler.
    pub fn of(explanation: &Explanation, decision: &Decision) -> SchedulingOutcome {
        let mut outcome = SchedulingOutcome {
            pod: name_of(&explanation.pod),
            pre_filter: explanation.pre_filter_status.as_ref().map(PluginVerdict::rejected),
            pre_filter_nodes: explanation
                .pre_filter_node_names
                .iter()
                .flatten()
                .map(ToString::to_string)
                .collect(),
            nodes: explanation
                .nodes
                .iter()
                .map(|one| (one.node.to_string(), PluginVerdict::of(&one.verdict)))
                .collect(),
            ..SchedulingOutcome::default()
        };
        match decision {
            Decision::Skipped(why) => outcome.skipped = Some(why.clone()),
            // The oracle leaves such cases out, so this is never equal.
            Decision::Failed(why) => outcome.skipped = Some(format!("failed: {why}")),
            Decision::Gated(status) => outcome.pre_enqueue = Some(PluginVerdict::rejected(status)),
            Decision::Scheduled(placement) => outcome.node = Some(placement.node.to_string()),
            Decision::Unschedulable(rejection) => {
                outcome.message = Some(rejection.message.clone());
                outcome.nominated_node = rejection.nominated_node.as_ref().map(ToString::to_string);
                outcome.victims = sorted_names(&rejection.victims);
                outcome.post_filter = Some(rejection.post_filter_message.clone());
                outcome.cleared_nominations = sorted_names(&rejection.cleared_nominations);
            }
        }
        outcome
    }

    /// All facts except the pod's name. Empty values are left out.
    pub(crate) fn facts(&self) -> OutcomeFacts {
        let mut facts = OutcomeFacts::new();
        let mut add = |node: Option<&str>, what: String, value: String| {
            if !value.is_empty() {
                facts.insert((node.map(str::to_owned), what), value);
            }
        };
        let skipped = self.skipped.as_deref().map(|why| why.strip_prefix(EVENT_PREFIX).unwrap_or(why));
        for (what, value) in [
            ("skipped", skipped),
            ("node", self.node.as_deref()),
            ("message", self.message.as_deref()),
            ("nominatedNode", self.nominated_node.as_deref()),
            ("postFilter", self.post_filter.as_deref()),
        ] {
            add(None, what.to_owned(), value.unwrap_or_default().to_owned());
        }
        for (what, names) in [
            ("preFilterNodes", &self.pre_filter_nodes),
            ("victims", &self.victims),
            ("clearedNominations", &self.cleared_nominations),
        ] {
            add(None, what.to_owned(), list(names));
        }
        let of_pod = [("preEnqueue ", &self.pre_enqueue), ("preFilter ", &self.pre_filter)];
        let of_pod = of_pod.into_iter().filter_map(|(what, verdict)| Some((None, what, verdict.as_ref()?)));
        let of_nodes = self.nodes.iter().map(|(node, verdict)| (Some(node.as_str()), "", verdict));
        for (node, prefix, verdict) in of_pod.chain(of_nodes) {
            add(node, format!("{prefix}considered"), "yes".to_owned());
            add(node, format!("{prefix}plugin"), verdict.plugin.clone().unwrap_or_default());
            add(node, format!("{prefix}code"), verdict.code.clone().unwrap_or_default());
            add(node, format!("{prefix}reasons"), list(&verdict.reasons));
            for (plugin, score) in &verdict.scores {
                add(node, format!("{prefix}score of {plugin}"), score.to_string());
            }
            add(
                node,
                format!("{prefix}total"),
                verdict.total.map(|total| total.to_string()).unwrap_or_default(),
            );
        }
        facts
    }
}

// === impl PluginVerdict ===

impl PluginVerdict {
    fn of(verdict: &NodeVerdict) -> PluginVerdict {
        match verdict {
            NodeVerdict::Rejected(status) => PluginVerdict::rejected(status),
            NodeVerdict::Feasible { scores, total } => PluginVerdict {
                scores: scores.iter().map(|one| (one.plugin.to_string(), one.weighted)).collect(),
                total: Some(*total),
                ..PluginVerdict::default()
            },
        }
    }

    fn rejected(status: &Status) -> PluginVerdict {
        let mut reasons: Vec<String> = status.reasons.iter().map(ToString::to_string).collect();
        reasons.sort_unstable();
        PluginVerdict {
            plugin: Some(status.plugin.to_string()),
            code: Some(status.code.to_string()),
            reasons,
            ..PluginVerdict::default()
        }
    }
}

fn name_of(pod: &NamespacedName) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

fn sorted_names(pods: &[NamespacedName]) -> Vec<String> {
    let mut names: Vec<String> = pods.iter().map(name_of).collect();
    names.sort_unstable();
    names
}

/// A list as JSON, so that different lists never print alike; empty for an empty list.
fn list(items: &[String]) -> String {
    if items.is_empty() {
        return String::new();
    }
    serde_json::to_string(items).expect("strings serialize as JSON")
}
