//! The comparison of a replay with its recording, decision by decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::NodeView;
use model::{Moment, What};
use scheduler::{RecordedNodeOutcome, ScheduleResult};
use serde::Serialize;
use simulation::{EvictionCause, Observer, PodDemand, PodId, SimulationEvent};

use crate::demand_cache::DemandCache;
use crate::demands::{EvictionKind, RecordedDemands};
use crate::error::Error;
use crate::metrics::{ClusterMetrics, MetricsAccumulator, PendingTimeComparison};
use crate::play::ReplayObserver;
use crate::recording_metrics::NodeCountCurve;

/// Observes a run, compares it with the recording, and computes the metrics of the replay.
pub struct RunComparison<'a> {
    demands: DemandCache<'a>,
    metrics: MetricsAccumulator,
    start: Moment,
    placements: PlacementFidelity,
    evictions: EvictionFidelity,
    /// Returns the class of a node.
    class_of: &'a dyn Fn(&NodeView) -> Option<Arc<str>>,
    /// The classes of existing nodes.
    classes: BTreeMap<Arc<str>, Arc<str>>,
    node_counts: NodeCountCurve,
}

/// How closely a replay matches the recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fidelity {
    /// Bindings.
    pub placements: PlacementFidelity,
    /// Evictions.
    pub evictions: EvictionFidelity,
    /// Pending times.
    #[serde(rename = "waits")]
    pub pending_times: PendingTimeComparison,
}

/// How many recorded bindings the replay matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementFidelity {
    /// The recorded total.
    pub recorded: u64,
    /// Bound to the same node.
    pub same_node: u64,
    /// Bound to another node of the same class.
    pub same_class: u64,
    /// Bound to a node of another class.
    #[serde(rename = "elsewhere")]
    pub other_class: u64,
    /// Not bound.
    pub not_bound: u64,
    /// Bound within a second of the recorded moment, to any node.
    pub within_a_second: u64,
    /// Bound within ten seconds.
    pub within_ten_seconds: u64,
    /// Replayed bindings without a recorded counterpart.
    pub not_recorded: u64,
    /// Reasons why the recorded node was not chosen, with counts.
    pub reasons: BTreeMap<String, u64>,
}

/// How many recorded evictions the replay matches.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EvictionFidelity {
    /// The recorded total.
    pub recorded: u64,
    /// The same incarnation of the same demand was evicted the same way.
    pub same: u64,
    /// It was evicted another way.
    #[serde(rename = "otherwise")]
    pub other_kind: u64,
    /// It was not evicted.
    #[serde(rename = "notLost")]
    pub not_evicted: u64,
    /// Replayed evictions without a recorded counterpart.
    pub not_recorded: u64,
}

impl<'a> RunComparison<'a> {
    /// Creates a comparison with recorded demands.
    pub fn new(
        demands: &'a RecordedDemands,
        start: Moment,
        class_of: &'a dyn Fn(&NodeView) -> Option<Arc<str>>,
    ) -> RunComparison<'a> {
        let totals = &demands.totals;
        let eviction_count =
            totals.evictions.iter().filter(|(kind, _)| !kind.is_input()).map(|(_, count)| count).sum();
        RunComparison {
            demands: DemandCache::new(demands),
            metrics: MetricsAccumulator::new(start),
            start,
            // All recorded decisions count as unmatched until a counterpart is observed.
            placements: PlacementFidelity {
                recorded: totals.bound,
                not_bound: totals.bound,
                ..PlacementFidelity::default()
            },
            evictions: EvictionFidelity {
                recorded: eviction_count,
                not_evicted: eviction_count,
                ..EvictionFidelity::default()
            },
            class_of,
            classes: BTreeMap::new(),
            node_counts: NodeCountCurve::default(),
        }
    }

    /// Returns the metrics of the replay, its fidelity, and its node counts.
    pub fn finish(
        self,
        end: Moment,
        recorded: &ClusterMetrics,
    ) -> Result<(ClusterMetrics, Fidelity, NodeCountCurve), Error> {
        self.demands.finish().map_err(Error::temp_file)?;
        let replayed = self.metrics.finish(end);
        let pending_times = replayed.compare_pending_times(recorded);
        Ok((
            replayed,
            Fidelity { placements: self.placements, evictions: self.evictions, pending_times },
            self.node_counts,
        ))
    }

    fn pod_bound(&mut self, at: Moment, id: PodId, placement: &ScheduleResult) {
        let recorded = self.demands.find(id).and_then(|(incarnation, observed)| {
            Some((
                observed.bound_after(self.start)?,
                incarnation.node.as_ref()?,
                observed.node_class.as_ref(),
            ))
        });
        let Some((recorded_at, node, class)) = recorded else {
            self.placements.not_recorded += 1;
            return;
        };
        let difference_nanos = at.nanos_since(recorded_at).abs();
        let is_same = *node == placement.node;
        let is_same_class = class.is_some() && class == self.classes.get(&placement.node);
        self.placements.count_binding(difference_nanos, is_same, is_same_class);
        if is_same {
            return;
        }
        *self.placements.reasons.entry(mismatch_reason(placement.recorded_node)).or_default() += 1;
    }

    fn pod_evicted(&mut self, id: PodId, cause: &EvictionCause) {
        let kind = match cause {
            EvictionCause::Preemption(_) => EvictionKind::Preempted,
            EvictionCause::ScaleDown => EvictionKind::ScaledDown,
            EvictionCause::Taint(_) => EvictionKind::TaintEvicted,
            EvictionCause::NodeDeleted => EvictionKind::NodeDeleted,
        };
        self.metrics.pods_evicted(kind.as_str(), 1);
        let recorded = self.demands.find(id).and_then(|(_, observed)| observed.eviction);
        self.evictions.count_eviction(recorded, Some(kind));
    }
}

impl Observer for RunComparison<'_> {
    fn wants_changes(&self) -> bool {
        false
    }

    fn on_change(&mut self, _: Moment, _: What) {}

    fn on_event(&mut self, at: Moment, event: &SimulationEvent<'_>) {
        match event {
            SimulationEvent::PodCreated { is_pending: true, .. } => self.metrics.add_pending(at, 1),
            SimulationEvent::PodDeleted { was_pending: true, .. } => self.metrics.add_pending(at, -1),
            SimulationEvent::PodBound { id, created, placement, .. } => {
                self.metrics.add_pending(at, -1);
                self.metrics.pod_bound(at, *created);
                self.pod_bound(at, *id, placement);
            }
            SimulationEvent::ResourcesClaimed { node, requests, .. } => {
                self.metrics.claim_resources(at, node, *requests)
            }
            SimulationEvent::ResourcesReleased { node, requests, .. } => {
                self.metrics.release_resources(at, node, *requests)
            }
            SimulationEvent::PodUnschedulable { .. } => self.metrics.pod_unschedulable(),
            SimulationEvent::PodEvicted { id, cause, .. } => self.pod_evicted(*id, cause),
            SimulationEvent::DemandFinished(demand) => self.demands.remove(*demand),
            SimulationEvent::NodeAdded { node, .. } => {
                self.metrics.set_node(at, node);
                if let Some(class) = (self.class_of)(node) {
                    self.classes.insert(node.name.clone(), class.clone());
                    self.node_counts.push(at, class, node.name.clone(), 1);
                }
            }
            SimulationEvent::NodeModified { node } => self.metrics.set_node(at, node),
            SimulationEvent::NodeDeleted { node } => {
                self.metrics.remove_node(at, &node.name);
                self.classes.remove(&node.name);
                if let Some(class) = (self.class_of)(node) {
                    self.node_counts.push(at, class, node.name.clone(), -1);
                }
            }
            SimulationEvent::PodCreated { .. }
            | SimulationEvent::PodDeleted { .. }
            | SimulationEvent::ScaledUp(_)
            | SimulationEvent::ScaledDown { .. }
            | SimulationEvent::PodNotAttempted { .. }
            | SimulationEvent::LoopFinished { .. } => {}
        }
    }
}

impl ReplayObserver for RunComparison<'_> {
    fn on_demand(&mut self, _: Moment, _: &PodDemand) {}

    fn should_continue(&self) -> bool {
        self.demands.is_ok()
    }
}

// === impl PlacementFidelity ===

impl PlacementFidelity {
    /// Counts a recorded binding that was replayed `apart` nanoseconds earlier or later, on the same node or one of its
    /// class.
    pub(crate) fn count_binding(&mut self, apart: i64, is_same: bool, is_same_class: bool) {
        self.not_bound = self.not_bound.saturating_sub(1);
        self.within_a_second += u64::from(apart <= 1_000_000_000);
        self.within_ten_seconds += u64::from(apart <= 10_000_000_000);
        match (is_same, is_same_class) {
            (true, _) => self.same_node += 1,
            (false, true) => self.same_class += 1,
            (false, false) => self.other_class += 1,
        }
    }
}

// === impl EvictionFidelity ===

impl EvictionFidelity {
    /// Counts an eviction; `recorded` is that of the recorded counterpart.
    pub(crate) fn count_eviction(&mut self, recorded: Option<EvictionKind>, replayed: Option<EvictionKind>) {
        match recorded {
            None => self.not_recorded += 1,
            Some(kind) if kind.is_input() => self.not_recorded += 1,
            recorded => {
                self.not_evicted = self.not_evicted.saturating_sub(1);
                if recorded == replayed {
                    self.same += 1;
                } else {
                    self.other_kind += 1;
                }
            }
        }
    }
}

/// Why the recorded node was not chosen. These are keys in `report.json`, and stay as they are; the command prints
/// other words.
fn mismatch_reason(outcome: Option<RecordedNodeOutcome>) -> String {
    match outcome {
        None => "it was not known at that moment which node was recorded".to_owned(),
        Some(RecordedNodeOutcome::Chosen) => "it was taken".to_owned(),
        Some(RecordedNodeOutcome::LowerScore(_)) => "its score was lower".to_owned(),
        Some(RecordedNodeOutcome::Rejected(plugin)) => format!("{} refused it", plugin.name()),
        Some(RecordedNodeOutcome::NotEvaluated) => "it was not looked at".to_owned(),
        Some(RecordedNodeOutcome::NoSuchNode) => "it was not there".to_owned(),
    }
}
