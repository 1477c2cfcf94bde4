//! Explanations of one cycle's decisions about a pod, a pod group or a queue.

mod explained_cycle;

use std::collections::BTreeMap;

use kai::NodeVerdict;
use model::NamespacedName;
use serde::Serialize;

use crate::borrowing::{Borrowing, Resource};
use crate::input::SchedulerSnapshot;
use crate::queue_report::QueueReport;
use crate::report::{ActionReport, InputReport, PendingReport};
use crate::run::RunOptions;
use explained_cycle::ExplainedCycle;

/// The subject of an explanation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplanationSubject {
    /// A pod.
    Pod(NamespacedName),
    /// A pod group; without a namespace, that of this name in any.
    PodGroup(Option<String>, String),
    /// A queue.
    Queue(String),
}

/// An explanation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Explanation {
    /// Of a pod.
    Pod(PodExplanation),
    /// Of a pod group.
    PodGroup(PodGroupExplanation),
    /// Of a queue.
    Queue(QueueExplanation),
}

/// The explanation of a pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodExplanation {
    /// What was run.
    pub snapshot: InputReport,
    /// The pod, as namespace/name.
    pub pod: String,
    /// Its pod group.
    pub pod_group: String,
    /// Its queue.
    pub queue: String,
    /// Its status before the cycle.
    pub status: &'static str,
    /// Its status after the cycle.
    pub status_after: &'static str,
    /// Its node after the cycle.
    pub node: Option<String>,
    /// The actions that decided about it, each only with those decisions.
    pub actions: Vec<ActionReport>,
    /// Where the reasons why it waits were found.
    pub source: Option<&'static str>,
    /// Why it waits, as the scheduler words it.
    pub reasons: Vec<String>,
    /// Whether the nodes are as after the cycle. A pod that waits is explained so, any other as before the cycle.
    pub is_after_cycle: bool,
    /// The nodes: suitable ones by score, then the others by name.
    pub nodes: Vec<NodeExplanation>,
}

/// The verdict on a node for a pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// The node.
    pub node: String,
    /// Whether the pod could be placed there.
    pub is_suitable: bool,
    /// The check that failed.
    pub predicate: Option<&'static str>,
    /// Why it failed, as the scheduler words it.
    pub reasons: Vec<String>,
    /// The sum of the scores; `None` if the node is in no topology domain for the pod.
    pub score: Option<f64>,
    /// The scores that are not zero.
    pub scores: Vec<PluginScore>,
}

/// The score of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PluginScore {
    /// The plugin.
    pub plugin: &'static str,
    /// Its score.
    pub score: f64,
}

/// The explanation of a pod group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodGroupExplanation {
    /// What was run.
    pub snapshot: InputReport,
    /// The pod group, as namespace/name.
    pub pod_group: String,
    /// Its queue.
    pub queue: String,
    /// Its priority.
    pub priority: i32,
    /// Whether it may be preempted.
    pub is_preemptible: bool,
    /// Whether enough of its pods exist.
    pub is_ready: bool,
    /// Whether it runs with fewer pods than it needs, before the cycle.
    pub is_stale: bool,
    /// Its place among all jobs that allocate tries, from 1; `None` if it is not tried.
    pub order: Option<usize>,
    /// How many jobs allocate tries.
    pub order_length: usize,
    /// Its place among those of its queue.
    pub order_in_queue: Option<usize>,
    /// Its sets of pods.
    pub pod_sets: Vec<PodSetReport>,
    /// Its sets of subgroups; empty if it has none.
    pub sub_groups: Vec<SubGroupReport>,
    /// The number of its pods by status, before the cycle.
    pub statuses: BTreeMap<&'static str, usize>,
    /// The same after the cycle.
    pub statuses_after: BTreeMap<&'static str, usize>,
    /// The actions that decided about its pods or made room for it, each only with those decisions.
    pub actions: Vec<ActionReport>,
    /// Why its pods wait.
    pub pending: Vec<PendingReport>,
    /// Why the group as a whole was not placed, as the scheduler words it.
    pub fit_errors: Vec<String>,
    /// Its queue and the queues above it, the top first.
    pub queues: Vec<QueueReport>,
}

/// A set of pods, of which some are needed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSetReport {
    /// Its name; `default` in a pod group without subgroups.
    pub name: String,
    /// How many pods are needed together.
    pub min_available: i32,
    /// How many exist.
    pub pods: usize,
    /// How many have a node before the cycle.
    pub allocated: usize,
    /// How many have one after the cycle, those that wait for resources included.
    pub allocated_after: usize,
    /// The level of the topology that all must be in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub required_topology_level: String,
}

/// A set of subgroups, of which some are needed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SubGroupReport {
    /// Its name; empty for the whole group.
    pub name: String,
    /// How many of its members must have what they need.
    pub needed: i64,
    /// How many have it before the cycle.
    pub satisfied: usize,
    /// How many have it after the cycle.
    pub satisfied_after: usize,
    /// The level of the topology that all must be in.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub required_topology_level: String,
}

/// The explanation of a queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueExplanation {
    /// What was run.
    pub snapshot: InputReport,
    /// The queue and the queues above it, the top first.
    pub queues: Vec<QueueReport>,
    /// The queues below it.
    pub children: Vec<String>,
    /// How the fair shares came about, from the top: the shares of the queue and its siblings at each level.
    pub divisions: Vec<FairShareStep>,
    /// The pod groups of the queue and of those below it that wait.
    pub pending: Vec<PendingReport>,
    /// The borrowing among the queue and its siblings, and at the levels above.
    pub borrowing: Vec<Borrowing>,
}

/// The share of a queue in the division of what its parent has.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FairShareStep {
    /// The resource.
    pub resource: Resource,
    /// The queue.
    pub queue: String,
    /// Its parent.
    pub parent: Option<String>,
    /// What was divided: the fair share of the parent, or what the top queues share.
    pub divided: f64,
    /// The quota.
    pub quota: f64,
    /// What the queue asked for: what its pods have or wait for, up to its limit.
    pub asked: f64,
    /// What it got of its quota.
    pub within_quota: f64,
    /// What it got beyond its quota.
    pub over_quota: f64,
    /// Its weight beyond its quota.
    pub over_quota_weight: f64,
    /// Its priority.
    pub priority: i64,
    /// Its fair share.
    pub fair_share: f64,
}

const UNLIMITED: f64 = -1.0;

/// Explains what one cycle decides about a subject.
pub fn explain(
    snapshot: &SchedulerSnapshot,
    options: &RunOptions,
    subject: &ExplanationSubject,
) -> anyhow::Result<Explanation> {
    let mut run = ExplainedCycle::new(snapshot, options)?;
    Ok(match subject {
        ExplanationSubject::Pod(name) => Explanation::Pod(run.pod(name)?),
        ExplanationSubject::PodGroup(namespace, name) => {
            Explanation::PodGroup(run.pod_group(namespace.as_deref(), name)?)
        }
        ExplanationSubject::Queue(name) => Explanation::Queue(run.queue(name)?),
    })
}

// === impl NodeExplanation ===

impl NodeExplanation {
    fn of(verdict: NodeVerdict) -> NodeExplanation {
        let NodeVerdict { node, rejection, scores } = verdict;
        let (score, scores) = match scores {
            Some((scores, total)) => (Some(total), scores),
            None => (None, Vec::new()),
        };
        let scores = scores.into_iter().filter(|(_, score)| *score != 0.0);
        NodeExplanation {
            node: node.to_string(),
            is_suitable: rejection.is_none() && score.is_some(),
            predicate: rejection.as_ref().map(|rejection| rejection.predicate.name()),
            reasons: rejection
                .iter()
                .flat_map(|rejection| rejection.reasons.iter().map(ToString::to_string))
                .collect(),
            score,
            scores: scores.map(|(plugin, score)| PluginScore { plugin: plugin.name(), score }).collect(),
        }
    }
}

// === impl FairShareStep ===

impl FairShareStep {
    fn new(resource: Resource, queue: &QueueReport, divided: f64) -> FairShareStep {
        let share = resource.of(queue);
        let asked = match share.limit {
            UNLIMITED => share.requested,
            limit => share.requested.min(limit),
        };
        let deserved = if share.quota == UNLIMITED { divided } else { share.quota };
        let within_quota = deserved.min(asked).min(share.fair_share);
        FairShareStep {
            resource,
            queue: queue.name.clone(),
            parent: queue.parent.clone(),
            divided,
            quota: share.quota,
            asked,
            within_quota,
            over_quota: share.fair_share - within_quota,
            over_quota_weight: share.over_quota_weight,
            priority: queue.priority,
            fair_share: share.fair_share,
        }
    }
}
