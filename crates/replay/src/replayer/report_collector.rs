//! The collector of the data of a [`ReplayReport`](super::ReplayReport) during a replay.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use autoscaler::{NodeGroup, Settings};
use calibration::observed::ParsedPod;
use formats::scaling_scenario::{ScalingResult, Scenario, SnapshotPart};
use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use simulation::{Observer, PodDemand, SimulationEvent};

use super::report::Batch;
use crate::decisions::{Decision, DecisionLog};
use crate::play::{BatchObserver, ReplayObserver};
use crate::snapshot::{ClusterSnapshot, NodeInfo, PodInfo, ScalingContext, snapshot};

/// Receives the scenarios of batches in which groups were scaled up.
pub(super) type ScenarioSink<'a> = Box<dyn FnMut(Scenario) -> io::Result<()> + 'a>;

/// Observes a replay and collects the data of its report.
pub(super) struct ReportCollector<'a> {
    groups: &'a [NodeGroup],
    autoscaler: Option<&'a Settings>,
    /// The name of the scenarios, and their receiver.
    scenarios: Option<(String, ScenarioSink<'a>)>,
    error: Option<io::Error>,
    /// The objects that a snapshot shows.
    objects: ObjectsByKey,
    /// Initial nodes.
    initial_nodes: BTreeSet<String>,
    targets: BTreeMap<Arc<str>, i64>,
    /// Added nodes by name: their index in `added_nodes`.
    added_node_indexes: BTreeMap<Arc<str>, usize>,
    added_nodes: Vec<(Arc<str>, Option<Object>)>,
    batches: Vec<OpenBatch>,
    /// Deployed pods by uid: the index of their batch, and their index in it.
    pod_positions: FxHashMap<Arc<str>, (usize, usize)>,
    /// The cluster at the start of the last batch, if scenarios are wanted.
    batch_start: Option<BatchStart>,
    decisions: DecisionLog<'a, Vec<Decision>>,
}

/// The collected data of a replay.
pub(super) struct CollectedReport {
    pub(super) end: ClusterSnapshot,
    pub(super) scaled_up_groups: BTreeMap<String, u64>,
    pub(super) scaled_up_nodes: Vec<NodeInfo>,
    pub(super) deployed_pods: Vec<Batch>,
    pub(super) decisions: Vec<Decision>,
}

/// Objects by kind, namespace and name.
type ObjectsByKey = BTreeMap<(SnapshotPart, Box<str>, Box<str>), Object>;

/// The cluster just after the pods of a batch were created.
struct BatchStart {
    at: Moment,
    objects: ObjectsByKey,
    targets: BTreeMap<Arc<str>, i64>,
    /// The number of nodes added before.
    added_nodes: usize,
}

struct OpenBatch {
    batch: Batch,
    pods: Vec<Object>,
}

impl<'a> ReportCollector<'a> {
    pub(super) fn new(
        groups: &'a [NodeGroup],
        autoscaler: Option<&'a Settings>,
        start: &ClusterSnapshot,
        scenarios: Option<(String, ScenarioSink<'a>)>,
        decisions: DecisionLog<'a, Vec<Decision>>,
    ) -> ReportCollector<'a> {
        ReportCollector {
            groups,
            autoscaler,
            scenarios,
            error: None,
            objects: ObjectsByKey::new(),
            initial_nodes: start.nodes.iter().map(|node| node.meta.name.clone()).collect(),
            targets: BTreeMap::new(),
            added_node_indexes: BTreeMap::new(),
            added_nodes: Vec::new(),
            batches: Vec::new(),
            pod_positions: FxHashMap::default(),
            batch_start: None,
            decisions,
        }
    }

    /// Returns the error of writing a scenario, if there was one.
    pub(super) fn take_error(&mut self) -> Option<io::Error> {
        self.error.take()
    }

    /// Returns all collected data, or the error of writing a scenario.
    pub(super) fn finish(mut self, ended: Moment) -> io::Result<CollectedReport> {
        self.emit_scenario(ended);
        if let Some(error) = self.error {
            return Err(error);
        }
        let end = self.snapshot(ended, &self.objects, &self.targets);
        let mut scaled_up_groups: BTreeMap<String, u64> = BTreeMap::new();
        for (group, _) in &self.added_nodes {
            *scaled_up_groups.entry(group.to_string()).or_default() += 1;
        }
        let nodes = self.added_nodes.iter().filter_map(|(_, node)| NodeInfo::read(node.as_ref()?).ok());
        let finished_batch = |open_batch: &OpenBatch| {
            // Pods that cannot be parsed were not created.
            let pods = open_batch.pods.iter().filter_map(|pod| PodInfo::read(pod).ok()).collect();
            Batch { pods, ..open_batch.batch.clone() }
        };
        Ok(CollectedReport {
            end,
            scaled_up_groups,
            scaled_up_nodes: nodes.collect(),
            deployed_pods: self.batches.iter().map(finished_batch).collect(),
            decisions: self.decisions.finish(ended)?,
        })
    }

    fn snapshot(
        &self,
        at: Moment,
        objects: &ObjectsByKey,
        targets: &BTreeMap<Arc<str>, i64>,
    ) -> ClusterSnapshot {
        let scaling = ScalingContext { groups: self.groups, targets, autoscaler: self.autoscaler };
        snapshot(at, objects.values(), scaling)
    }

    /// Emits the scenario of the last batch, if groups were scaled up.
    fn emit_scenario(&mut self, now: Moment) {
        let Some(BatchStart { at, objects, targets, added_nodes: new_nodes }) = self.batch_start.take()
        else {
            return;
        };
        if self.added_nodes.len() == new_nodes || self.error.is_some() {
            return;
        }
        let cluster = self.snapshot(at, &objects, &targets);
        let after = self.snapshot(now, &self.objects, &self.targets);
        let group_of = |node: &NodeInfo| {
            let index = self.added_node_indexes.get(node.meta.name.as_str())?;
            Some(self.added_nodes[*index].0.to_string())
        };
        let result = ScalingResult::between(&cluster, &after, group_of);
        let number = self.batches.len() as u64;
        if let Some((name, take)) = &mut self.scenarios {
            self.error = take(Scenario { name: name.clone(), number, begin: at, cluster, result }).err();
        }
    }

    fn observe_pod(&mut self, what: &What) {
        let pod = what.object();
        let meta = pod.meta();
        let Some(uid) = meta.uid else { return };
        if let Some((batch, position)) = self.pod_positions.get(&*uid) {
            self.batches[*batch].pods[*position] = pod.clone();
        } else if is_created_pending(what)
            && let Some((open_batch, earlier_batches)) = self.batches.split_last_mut()
        {
            self.pod_positions.insert((*uid).into(), (earlier_batches.len(), open_batch.pods.len()));
            open_batch.pods.push(pod.clone());
        }
        if let What::Deleted(_) = what {
            self.pod_positions.remove(&*uid);
        }
    }
}

impl Observer for ReportCollector<'_> {
    fn wants_changes(&self) -> bool {
        true
    }

    fn on_change(&mut self, _: Moment, what: What) {
        let object = what.object();
        let Some(part) = SnapshotPart::of(object) else { return };
        let meta = object.meta();
        match part {
            SnapshotPart::Pod => self.observe_pod(&what),
            SnapshotPart::Node => {
                if let Some(index) = self.added_node_indexes.get(&*meta.name) {
                    self.added_nodes[*index].1 = Some(object.clone());
                }
            }
            _ => {}
        }
        let key = (part, meta.namespace.into(), meta.name.into());
        match what {
            What::Added(object) | What::Modified(object) => drop(self.objects.insert(key, object)),
            What::Deleted(_) => drop(self.objects.remove(&key)),
        }
    }

    fn on_event(&mut self, at: Moment, event: &SimulationEvent<'_>) {
        self.decisions.on_event(at, event);
        match event {
            SimulationEvent::NodeAdded { node, group: Some(group), .. }
                if !self.initial_nodes.contains(&*node.name) =>
            {
                self.added_node_indexes.insert(node.name.clone(), self.added_nodes.len());
                self.added_nodes.push(((*group).clone(), None));
            }
            SimulationEvent::LoopFinished { result, .. } => {
                for group in &result.groups {
                    self.targets.insert(group.name.clone(), group.target);
                }
            }
            _ => {}
        }
    }
}

impl ReplayObserver for ReportCollector<'_> {
    fn on_demand(&mut self, _: Moment, _: &PodDemand) {}

    fn should_continue(&self) -> bool {
        self.error.is_none() && self.decisions.should_continue()
    }
}

impl BatchObserver for ReportCollector<'_> {
    fn on_batch_started(&mut self, recorded: Moment, now: Moment) {
        self.emit_scenario(now);
        let batch = Batch { recorded, began: now, settled: now, stable: false, pods: Vec::new() };
        self.batches.push(OpenBatch { batch, pods: Vec::new() });
    }

    fn on_batch_submitted(&mut self, now: Moment) {
        if self.scenarios.is_some() {
            let (objects, targets) = (self.objects.clone(), self.targets.clone());
            self.batch_start =
                Some(BatchStart { at: now, objects, targets, added_nodes: self.added_nodes.len() });
        }
    }

    fn on_batch_settled(&mut self, now: Moment, stable: bool) {
        if let Some(open_batch) = self.batches.last_mut() {
            (open_batch.batch.settled, open_batch.batch.stable) = (now, stable);
        }
    }
}

/// Whether a pod was created pending. One that has a node from the first was created with it.
fn is_created_pending(what: &What) -> bool {
    match what {
        What::Added(pod) => ParsedPod::parse(pod).is_some_and(|pod| pod.node.is_none()),
        What::Modified(_) | What::Deleted(_) => false,
    }
}
