//! The decisions of a replay, in reports and as lines of `decisions.jsonl`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use autoscaler::{RemovedNode, ScaleUpStatus};
use model::{Moment, NamespacedName, What};
use scheduler::{RecordedNodeOutcome, ScheduleResult};
use serde::{Serialize, Serializer};
use simulation::{EvictionCause, Observer, PodDemand, PodId, SimulationEvent};

use crate::demand_cache::DemandCache;
use crate::demands::RecordedDemands;
use crate::play::ReplayObserver;
use crate::recording_metrics::{ClassSizes, NodeCountCurve};

/// A decision, its reason, and its recorded counterpart.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When it was made.
    #[serde(serialize_with = "as_text")]
    pub at: Moment,
    /// Its kind.
    #[serde(rename = "what")]
    pub kind: DecisionKind,
    /// The pod, as `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// The node group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Arc<str>>,
    /// The sizes of the group before and after, and its maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<GroupSize>,
    /// The recorded number of nodes of its group at that moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_nodes: Option<i64>,
    /// The reason, as text.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[serde(rename = "why")]
    pub reason: String,
    /// Why a pod was evicted.
    #[serde(skip)]
    pub eviction_cause: Option<EvictionCause>,
    /// How long the pod had been pending, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "waited")]
    pub pending_time: Option<f64>,
    /// The number of unschedulable attempts before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "refusals")]
    pub failed_attempts: Option<u64>,
    /// The recorded counterpart of the pod; `Some(None)`, or null, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Option<RecordedPod>>,
    /// Why the recorded node was not chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_node: Option<String>,
}

/// The kind of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DecisionKind {
    /// A pod was bound to a node.
    Bound,
    /// A pod was unschedulable. Repetitions with the same message are omitted.
    #[serde(rename = "refused")]
    Unschedulable,
    /// A pod was preempted.
    Preempted,
    /// A pod was evicted.
    Evicted,
    /// A node group was scaled up.
    ScaledUp,
    /// The removal of a node began.
    ScaledDown,
    /// A node was added.
    #[serde(rename = "nodeCame")]
    NodeAdded,
    /// A node was removed.
    #[serde(rename = "nodeWent")]
    NodeDeleted,
    /// A pod is still pending at the end.
    #[serde(rename = "stillWaits")]
    StillPending,
}

/// The size of a node group before and after a scale-up, and its maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GroupSize {
    pub from: i64,
    pub to: i64,
    pub max: i64,
}

/// The recorded counterpart of a pod: the same incarnation of the same demand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedPod {
    /// Its name.
    pub pod: Arc<str>,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// When it was bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// How it was evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "lost")]
    pub eviction: Option<&'static str>,
    /// When its deletion began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[serde(rename = "left")]
    pub deletion_began: Option<String>,
}

/// Receives decisions.
pub trait DecisionSink {
    /// Receives the next decision.
    fn take(&mut self, decision: Decision) -> io::Result<()>;
}

/// Passes every decision of a run to a sink. An unschedulable attempt with the message of the previous one is only
/// counted.
pub struct DecisionLog<'a, S> {
    demands: DemandCache<'a>,
    /// The recorded sizes of groups.
    sizes: ClassSizes<'a>,
    sink: S,
    /// Unschedulable pods: the number of attempts, and the last message.
    unschedulable_pods: BTreeMap<NamespacedName, UnschedulablePod>,
    error: Option<io::Error>,
}

struct UnschedulablePod {
    id: PodId,
    attempts: u64,
    message: String,
}

/// Writes decisions as lines of JSON.
pub struct JsonLines<W>(pub W);

impl<W: Write> DecisionSink for JsonLines<W> {
    fn take(&mut self, decision: Decision) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, &decision)?;
        self.0.write_all(b"\n")
    }
}

impl DecisionSink for Vec<Decision> {
    fn take(&mut self, decision: Decision) -> io::Result<()> {
        self.push(decision);
        Ok(())
    }
}

// === impl Decision ===

impl Decision {
    fn new(at: Moment, kind: DecisionKind) -> Decision {
        Decision {
            at,
            kind,
            pod: None,
            node: None,
            group: None,
            size: None,
            recorded_nodes: None,
            reason: String::new(),
            eviction_cause: None,
            pending_time: None,
            failed_attempts: None,
            recorded: None,
            recorded_node: None,
        }
    }
}

// === impl DecisionLog ===

impl<'a, S: DecisionSink> DecisionLog<'a, S> {
    /// Creates a log that adds recorded counterparts from these demands and node counts.
    pub fn new(demands: &'a RecordedDemands, nodes: &'a NodeCountCurve, sink: S) -> DecisionLog<'a, S> {
        DecisionLog {
            demands: DemandCache::new(demands),
            sizes: nodes.class_sizes(),
            sink,
            unschedulable_pods: BTreeMap::new(),
            error: None,
        }
    }

    /// Adds the pods that are still pending, and returns the sink.
    pub fn finish(mut self, end: Moment) -> io::Result<S> {
        for (pod, unschedulable) in std::mem::take(&mut self.unschedulable_pods) {
            let recorded = Some(self.recorded(unschedulable.id));
            self.write(Decision {
                pod: Some(qualified_name(&pod)),
                reason: unschedulable.message,
                failed_attempts: Some(unschedulable.attempts),
                recorded,
                ..Decision::new(end, DecisionKind::StillPending)
            });
        }
        self.demands.finish()?;
        match self.error {
            Some(error) => Err(error),
            None => Ok(self.sink),
        }
    }

    fn write(&mut self, decision: Decision) {
        if self.error.is_none() {
            self.error = self.sink.take(decision).err();
        }
    }

    fn recorded(&mut self, id: PodId) -> Option<RecordedPod> {
        let (incarnation, observed) = self.demands.find(id)?;
        Some(RecordedPod {
            pod: incarnation.name.clone(),
            node: incarnation.node.clone(),
            bound: observed.bound_at.map(|bound| bound.to_string()),
            eviction: observed.eviction.map(|kind| kind.as_str()),
            deletion_began: observed.eviction.and(observed.deletion_began).map(|began| began.to_string()),
        })
    }

    fn pod_bound(
        &mut self,
        at: Moment,
        id: PodId,
        pod: &NamespacedName,
        created: Moment,
        placement: &ScheduleResult,
    ) {
        let failed_attempts =
            self.unschedulable_pods.remove(pod).map_or(0, |unschedulable| unschedulable.attempts);
        let recorded = self.recorded(id);
        let is_elsewhere = recorded
            .as_ref()
            .and_then(|recorded_pod| recorded_pod.node.as_ref())
            .is_some_and(|node| *node != placement.node);
        self.write(Decision {
            pod: Some(qualified_name(pod)),
            node: Some(placement.node.clone()),
            reason: placement_reason(placement),
            pending_time: Some(at.nanos_since(created).max(0) as f64 / 1e9),
            failed_attempts: Some(failed_attempts),
            recorded: Some(recorded),
            recorded_node: placement.recorded_node.filter(|_| is_elsewhere).map(describe_outcome),
            ..Decision::new(at, DecisionKind::Bound)
        });
    }

    fn pod_unschedulable(&mut self, at: Moment, id: PodId, pod: &NamespacedName, message: String) {
        let attempts = match self.unschedulable_pods.get_mut(pod) {
            Some(unschedulable) if unschedulable.message == message => {
                unschedulable.attempts += 1;
                return;
            }
            Some(unschedulable) => {
                unschedulable.attempts += 1;
                unschedulable.message.clone_from(&message);
                unschedulable.attempts
            }
            None => {
                self.unschedulable_pods
                    .insert(pod.clone(), UnschedulablePod { id, attempts: 1, message: message.clone() });
                1
            }
        };
        let recorded = Some(self.recorded(id));
        self.write(Decision {
            pod: Some(qualified_name(pod)),
            reason: message,
            failed_attempts: Some(attempts),
            recorded,
            ..Decision::new(at, DecisionKind::Unschedulable)
        });
    }

    fn pod_evicted(
        &mut self,
        at: Moment,
        id: PodId,
        pod: &NamespacedName,
        node: Option<&Arc<str>>,
        cause: &EvictionCause,
    ) {
        self.unschedulable_pods.remove(pod);
        let (kind, reason) = match cause {
            EvictionCause::Preemption(preemptor) => {
                (DecisionKind::Preempted, format!("preempted by {}", qualified_name(preemptor)))
            }
            EvictionCause::ScaleDown => {
                (DecisionKind::Evicted, "its node is drained by the autoscaler".to_owned())
            }
            EvictionCause::Taint(key) => {
                (DecisionKind::Evicted, format!("does not tolerate the taint {key}"))
            }
            EvictionCause::NodeDeleted => (DecisionKind::Evicted, "its node was deleted".to_owned()),
        };
        let recorded = Some(self.recorded(id));
        self.write(Decision {
            pod: Some(qualified_name(pod)),
            node: node.cloned(),
            eviction_cause: Some(cause.clone()),
            reason,
            recorded,
            ..Decision::new(at, kind)
        });
    }

    fn scaled_up(&mut self, at: Moment, scale_up: &ScaleUpStatus) {
        let reason = match &scale_up.pods_triggered_scale_up[..] {
            [] => "its size is below its minimum".to_owned(),
            [pod] => format!("{} is unschedulable", qualified_name(pod)),
            [pod, others @ ..] => {
                format!("{} and {} more pods are unschedulable", qualified_name(pod), others.len())
            }
        };
        for increase in &scale_up.increases {
            let recorded_nodes = Some(self.sizes.at(at, &increase.group));
            self.write(Decision {
                group: Some(increase.group.clone()),
                size: Some(GroupSize { from: increase.from, to: increase.to, max: increase.max }),
                recorded_nodes,
                reason: reason.clone(),
                ..Decision::new(at, DecisionKind::ScaledUp)
            });
        }
    }

    fn scaled_down(&mut self, at: Moment, removed: &RemovedNode, group: Option<&Arc<str>>) {
        let utilization_percent = (removed.utilization * 100.0).round();
        let reason = match removed.evicted_pods.len() {
            0 => format!("utilization {utilization_percent} %, no pods to evict"),
            1 => format!("utilization {utilization_percent} %, 1 pod to evict"),
            pods => format!("utilization {utilization_percent} %, {pods} pods to evict"),
        };
        let recorded_nodes = group.map(|group| self.sizes.at(at, group));
        self.write(Decision {
            node: Some(removed.node.clone()),
            group: group.cloned(),
            recorded_nodes,
            reason,
            ..Decision::new(at, DecisionKind::ScaledDown)
        });
    }

    fn node(&mut self, at: Moment, kind: DecisionKind, node: &Arc<str>, group: Option<&Arc<str>>) {
        self.write(Decision { node: Some(node.clone()), group: group.cloned(), ..Decision::new(at, kind) });
    }
}

impl<S: DecisionSink> Observer for DecisionLog<'_, S> {
    fn wants_changes(&self) -> bool {
        false
    }

    fn on_change(&mut self, _: Moment, _: What) {}

    fn on_event(&mut self, at: Moment, event: &SimulationEvent<'_>) {
        match event {
            SimulationEvent::PodBound { id, pod, created, placement, .. } => {
                self.pod_bound(at, *id, pod, *created, placement)
            }
            SimulationEvent::PodUnschedulable { id, pod, rejection } => {
                self.pod_unschedulable(at, *id, pod, rejection.full_message())
            }
            SimulationEvent::PodNotAttempted { id, pod, reason } => {
                self.pod_unschedulable(at, *id, pod, (*reason).to_owned())
            }
            SimulationEvent::PodEvicted { id, pod, node, cause } => {
                self.pod_evicted(at, *id, pod, *node, cause)
            }
            SimulationEvent::ScaledUp(scale_up) => self.scaled_up(at, scale_up),
            SimulationEvent::ScaledDown { removed, group } => self.scaled_down(at, removed, *group),
            SimulationEvent::NodeAdded { node, group, .. } => {
                self.node(at, DecisionKind::NodeAdded, &node.name, *group)
            }
            SimulationEvent::NodeDeleted { node, .. } => {
                self.node(at, DecisionKind::NodeDeleted, &node.name, None)
            }
            SimulationEvent::DemandFinished(demand) => self.demands.remove(*demand),
            // A deleted pod is no longer pending; that is input, not a decision.
            SimulationEvent::PodDeleted { pod, was_pending: true, .. } => {
                drop(self.unschedulable_pods.remove(*pod))
            }
            SimulationEvent::PodCreated { .. }
            | SimulationEvent::PodDeleted { .. }
            | SimulationEvent::ResourcesClaimed { .. }
            | SimulationEvent::ResourcesReleased { .. }
            | SimulationEvent::NodeModified { .. }
            | SimulationEvent::LoopFinished { .. } => {}
        }
    }
}

impl<S: DecisionSink> ReplayObserver for DecisionLog<'_, S> {
    fn on_demand(&mut self, _: Moment, _: &PodDemand) {}

    fn should_continue(&self) -> bool {
        self.error.is_none() && self.demands.is_ok()
    }
}

fn as_text<S: Serializer>(at: &Moment, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

fn qualified_name(pod: &NamespacedName) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

fn placement_reason(placement: &ScheduleResult) -> String {
    let ScheduleResult { evaluated_nodes: evaluated, feasible_nodes: feasible, tied_nodes: tied, .. } =
        placement;
    match (*evaluated, *feasible, *tied) {
        (0, 0, _) => "bound by another scheduler".to_owned(),
        (0, ..) => "nominated node".to_owned(),
        (evaluated, 1, _) => format!("the only feasible node of {evaluated} evaluated"),
        (evaluated, feasible, 0 | 1) => {
            format!("highest score of {feasible} feasible nodes, of {evaluated} evaluated")
        }
        (evaluated, feasible, tied) => {
            format!(
                "one of {tied} with the highest score, of {feasible} feasible nodes, of {evaluated} evaluated"
            )
        }
    }
}

fn describe_outcome(outcome: RecordedNodeOutcome) -> String {
    match outcome {
        RecordedNodeOutcome::Chosen => "chosen".to_owned(),
        RecordedNodeOutcome::LowerScore(0) => "same score".to_owned(),
        RecordedNodeOutcome::LowerScore(difference) => format!("score lower by {difference}"),
        RecordedNodeOutcome::Rejected(plugin) => format!("rejected by {}", plugin.name()),
        RecordedNodeOutcome::NotEvaluated => "not evaluated".to_owned(),
        RecordedNodeOutcome::NoSuchNode => "node did not exist".to_owned(),
    }
}
