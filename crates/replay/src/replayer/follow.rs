//! Follows a replay, and keeps what the report is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use autoscaler::{NodeGroup, Settings};
use calibration::seen::PodSeen;
use formats::scaling_scenario::{ScalingResult, Scenario, SnapshotPart};
use model::{Moment, Object, What};
use rustc_hash::FxHashMap;
use simulation::{Decided, Demand, Observer};

use super::report::Batch;
use crate::decisions::{Decision, DecisionLog};
use crate::play::{Follower, StepFollower};
use crate::snapshot::{ClusterSnapshot, NodeInfo, PodInfo, Scaling, snapshot};

/// Who takes reports of steps in which groups grew.
pub(super) type Scenarios<'a> = Box<dyn FnMut(Scenario) -> io::Result<()> + 'a>;

/// Follows a replay.
pub(super) struct Witness<'a> {
    groups: &'a [NodeGroup],
    autoscaler: Option<&'a Settings>,
    /// What reports are called, and who takes them.
    scenarios: Option<(String, Scenarios<'a>)>,
    failed: Option<io::Error>,
    /// The cluster as far as a snapshot shows it.
    world: World,
    /// Nodes that were there from the beginning.
    first_nodes: BTreeSet<String>,
    targets: BTreeMap<Arc<str>, i64>,
    /// New nodes by name: their place among those that came.
    new_nodes: BTreeMap<Arc<str>, usize>,
    nodes: Vec<(Arc<str>, Option<Object>)>,
    batches: Vec<Open>,
    /// Deployed pods by uid: their batch, and their place in it.
    places: FxHashMap<Arc<str>, (usize, usize)>,
    /// How the last batch found the cluster, if reports are wanted.
    before: Option<Before>,
    decisions: DecisionLog<'a, Vec<Decision>>,
}

/// What a replay came to, as far as it was seen.
pub(super) struct Seen {
    pub(super) end: ClusterSnapshot,
    pub(super) scaled_up_groups: BTreeMap<String, u64>,
    pub(super) scaled_up_nodes: Vec<NodeInfo>,
    pub(super) deployed_pods: Vec<Batch>,
    pub(super) decisions: Vec<Decision>,
}

/// Objects by what they are, namespace and name.
type World = BTreeMap<(SnapshotPart, Box<str>, Box<str>), Object>;

/// A cluster in which the pods of a batch have just come.
struct Before {
    at: Moment,
    world: World,
    targets: BTreeMap<Arc<str>, i64>,
    /// How many new nodes there had been.
    new_nodes: usize,
}

struct Open {
    batch: Batch,
    pods: Vec<Object>,
}

impl<'a> Witness<'a> {
    pub(super) fn new(
        groups: &'a [NodeGroup],
        autoscaler: Option<&'a Settings>,
        start: &ClusterSnapshot,
        scenarios: Option<(String, Scenarios<'a>)>,
        decisions: DecisionLog<'a, Vec<Decision>>,
    ) -> Witness<'a> {
        Witness {
            groups,
            autoscaler,
            scenarios,
            failed: None,
            world: World::new(),
            first_nodes: start.nodes.iter().map(|node| node.meta.name.clone()).collect(),
            targets: BTreeMap::new(),
            new_nodes: BTreeMap::new(),
            nodes: Vec::new(),
            batches: Vec::new(),
            places: FxHashMap::default(),
            before: None,
            decisions,
        }
    }

    /// Why a report could not be handed over, if one could not.
    pub(super) fn failure(&mut self) -> Option<io::Error> {
        self.failed.take()
    }

    /// All that was seen; or why a report could not be handed over.
    pub(super) fn finish(mut self, ended: Moment) -> io::Result<Seen> {
        self.tell_scenario(ended);
        if let Some(error) = self.failed {
            return Err(error);
        }
        let end = self.snapshot(ended, &self.world, &self.targets);
        let mut scaled_up_groups: BTreeMap<String, u64> = BTreeMap::new();
        for (group, _) in &self.nodes {
            *scaled_up_groups.entry(group.to_string()).or_default() += 1;
        }
        let nodes = self.nodes.iter().filter_map(|(_, node)| NodeInfo::read(node.as_ref()?).ok());
        let closed = |open: &Open| {
            // Pods that cannot be understood were not asked for.
            let pods = open.pods.iter().filter_map(|pod| PodInfo::read(pod).ok()).collect();
            Batch { pods, ..open.batch.clone() }
        };
        Ok(Seen {
            end,
            scaled_up_groups,
            scaled_up_nodes: nodes.collect(),
            deployed_pods: self.batches.iter().map(closed).collect(),
            decisions: self.decisions.finish(ended)?,
        })
    }

    fn snapshot(&self, at: Moment, world: &World, targets: &BTreeMap<Arc<str>, i64>) -> ClusterSnapshot {
        let scaling = Scaling { groups: self.groups, targets, autoscaler: self.autoscaler };
        snapshot(at, world.values(), scaling)
    }

    /// Hands over the report of the last batch, if groups grew.
    fn tell_scenario(&mut self, now: Moment) {
        let Some(Before { at, world, targets, new_nodes }) = self.before.take() else { return };
        if self.nodes.len() == new_nodes || self.failed.is_some() {
            return;
        }
        let cluster = self.snapshot(at, &world, &targets);
        let after = self.snapshot(now, &self.world, &self.targets);
        let group_of = |node: &NodeInfo| {
            let place = self.new_nodes.get(node.meta.name.as_str())?;
            Some(self.nodes[*place].0.to_string())
        };
        let result = ScalingResult::between(&cluster, &after, group_of);
        let number = self.batches.len() as u64;
        if let Some((name, take)) = &mut self.scenarios {
            self.failed = take(Scenario { name: name.clone(), number, begin: at, cluster, result }).err();
        }
    }

    fn see_pod(&mut self, what: &What) {
        let pod = what.object();
        let meta = pod.meta();
        let Some(uid) = meta.uid else { return };
        if let Some((batch, place)) = self.places.get(&*uid) {
            self.batches[*batch].pods[*place] = pod.clone();
        } else if is_new(what)
            && let Some((open, before)) = self.batches.split_last_mut()
        {
            self.places.insert((*uid).into(), (before.len(), open.pods.len()));
            open.pods.push(pod.clone());
        }
        if let What::Deleted(_) = what {
            self.places.remove(&*uid);
        }
    }
}

impl Observer for Witness<'_> {
    fn wants_changes(&self) -> bool {
        true
    }

    fn changed(&mut self, _: Moment, what: What) {
        let object = what.object();
        let Some(part) = SnapshotPart::of(object) else { return };
        let meta = object.meta();
        match part {
            SnapshotPart::Pod => self.see_pod(&what),
            SnapshotPart::Node => {
                if let Some(place) = self.new_nodes.get(&*meta.name) {
                    self.nodes[*place].1 = Some(object.clone());
                }
            }
            _ => {}
        }
        let key = (part, meta.namespace.into(), meta.name.into());
        match what {
            What::Added(object) | What::Modified(object) => drop(self.world.insert(key, object)),
            What::Deleted(_) => drop(self.world.remove(&key)),
        }
    }

    fn decided(&mut self, at: Moment, decided: &Decided<'_>) {
        self.decisions.decided(at, decided);
        match decided {
            Decided::NodeCame { node, group: Some(group), .. } if !self.first_nodes.contains(&***node) => {
                self.new_nodes.insert((*node).clone(), self.nodes.len());
                self.nodes.push(((*group).clone(), None));
            }
            Decided::Looped { done, .. } => {
                for group in &done.groups {
                    self.targets.insert(group.name.clone(), group.target);
                }
            }
            _ => {}
        }
    }
}

impl Follower for Witness<'_> {
    fn asked(&mut self, _: Moment, _: &Demand) {}

    fn goes_on(&self) -> bool {
        self.failed.is_none() && self.decisions.goes_on()
    }
}

impl StepFollower for Witness<'_> {
    fn batch_begins(&mut self, recorded: Moment, now: Moment) {
        self.tell_scenario(now);
        let batch = Batch { recorded, began: now, settled: now, stable: false, pods: Vec::new() };
        self.batches.push(Open { batch, pods: Vec::new() });
    }

    fn batch_given(&mut self, now: Moment) {
        if self.scenarios.is_some() {
            let (world, targets) = (self.world.clone(), self.targets.clone());
            self.before = Some(Before { at: now, world, targets, new_nodes: self.nodes.len() });
        }
    }

    fn batch_settled(&mut self, now: Moment, stable: bool) {
        if let Some(open) = self.batches.last_mut() {
            (open.batch.settled, open.batch.stable) = (now, stable);
        }
    }
}

/// Whether a pod was made. One that is on a node from the first came with it.
fn is_new(what: &What) -> bool {
    match what {
        What::Added(pod) => PodSeen::read(pod).is_ok_and(|pod| pod.node.is_none()),
        What::Modified(_) | What::Deleted(_) => false,
    }
}
