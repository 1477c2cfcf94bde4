//! The hinting simulator: schedules pods in the snapshot, first on the node where they fitted last time.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use scheduler::ids::{NodeId, PodId};

use super::pod::Pod;
use super::pod_summary::ControllerNumber;
use super::settings::Version;
use super::snapshot::ClusterSnapshot;

/// Schedules pods in a snapshot and keeps the nodes as hints for the next time.
#[derive(Debug, Default)]
pub(crate) struct HintingSimulator {
    /// Hints of this generation and of the previous one; `None` at free indices.
    hints: Vec<Option<PodHint>>,
    free_indices: Vec<u32>,
    /// The other indices: after a large scale-up most are free.
    used_indices: Vec<u32>,
    /// By pod UID.
    indices: FxHashMap<Arc<str>, u32>,
    /// Increases whenever old hints are dropped.
    generation: u64,
    last_serial: u64,
}

/// The hint of a pod.
#[derive(Debug)]
struct PodHint {
    serial: u64,
    /// The last generation in which the pod was scheduled on the node.
    generation: u64,
    node: HintedNode,
    /// The hint in the generation before that.
    previous: PreviousHint,
    uid: Arc<str>,
}

#[derive(Debug)]
enum PreviousHint {
    Missing,
    Same,
    Other(HintedNode),
}

/// A node that a pod was scheduled on.
#[derive(Clone, Debug)]
struct HintedNode {
    /// The ID that the node had then.
    id: NodeId,
    name: Arc<str>,
}

/// Refers to the hint of a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HintId {
    index: u32,
    /// Other hints may get the same index later, but not the same serial.
    serial: u64,
}

/// Where pods are scheduled: a snapshot, or something that has the same result.
pub(crate) trait SchedulingTarget {
    fn snapshot(&self) -> &ClusterSnapshot;

    /// Puts a pod on a node if it passes the filters. Returns whether it does.
    fn try_schedule(&mut self, pod: PodId, node: NodeId) -> bool;

    /// Puts a pod on the first acceptable node after the last match that passes the filters. Returns that node.
    fn schedule_on_any_node_matching(
        &mut self,
        pod: PodId,
        acceptable: &dyn Fn(NodeId) -> bool,
    ) -> Option<NodeId>;
}

/// Unschedulable pods by their controller: similar pods are not tried.
#[derive(Debug, Default)]
struct SimilarPodsScheduling(FxHashMap<ControllerNumber, Vec<Arc<Pod>>>);

/// The most unschedulable pods of one controller that are kept.
const MAX_UNSCHEDULABLE_PODS_PER_CONTROLLER: usize = 10;

// === impl HintingSimulator ===

impl HintingSimulator {
    /// Schedules pods one after the other, each on an acceptable node, and returns the scheduled ones in that order.
    /// They stay in the snapshot. With `stop_at_failure` it stops at the first pod that does not fit.
    pub(crate) fn try_schedule_pods(
        &mut self,
        target: &mut impl SchedulingTarget,
        version: Version,
        pods: &[PodId],
        stop_at_failure: bool,
        acceptable: &dyn Fn(NodeId) -> bool,
    ) -> Vec<(PodId, NodeId)> {
        let by_priority = tries_hints_by_priority(version);
        let pods = scheduling_order(target.snapshot(), version, pods);
        let (mut scheduled, mut failed, mut remaining) =
            (Vec::new(), SimilarPodsScheduling::default(), Vec::new());
        for priority_batch in pods.chunk_by(|a, b| by_priority && a.0 == b.0) {
            for (_, pod) in priority_batch {
                match self.try_schedule_using_hints(target, *pod, acceptable) {
                    Some(node) => scheduled.push((*pod, node)),
                    None => remaining.push(*pod),
                }
            }
            for pod in remaining.drain(..) {
                match self.try_schedule(target, pod, acceptable, &mut failed) {
                    Some(node) => scheduled.push((pod, node)),
                    None if stop_at_failure => return scheduled,
                    None => {}
                }
            }
        }
        scheduled
    }

    /// Drops the hints of the previous generation. Returns whether the current ones differ from them, counting only
    /// hints to nodes that `is_there` accepts: template nodes exist in one loop only, so hints to them have no effect.
    pub(crate) fn drop_old_hints(&mut self, is_there: impl Fn(&str) -> bool) -> bool {
        let mut is_changed = false;
        let live_name = |node: &HintedNode| is_there(&node.name).then(|| node.name.clone());
        let HintingSimulator { hints, free_indices, indices, generation, .. } = self;
        self.used_indices.retain(|index| {
            let slot = &mut hints[*index as usize];
            let hint = slot.as_ref().expect("a used index has a hint");
            let is_kept = hint.generation == *generation;
            is_changed = is_changed
                || match &hint.previous {
                    _ if !is_kept => live_name(&hint.node).is_some(),
                    PreviousHint::Same => false,
                    PreviousHint::Missing => live_name(&hint.node).is_some(),
                    PreviousHint::Other(previous) => live_name(&hint.node) != live_name(previous),
                };
            if !is_kept {
                indices.remove(&hint.uid);
                free_indices.push(*index);
                *slot = None;
            }
            is_kept
        });
        self.generation += 1;
        is_changed
    }

    /// The node that a pod was scheduled on in the last generation.
    pub(crate) fn hinted_node(&self, pod: &Pod) -> Option<&Arc<str>> {
        let id = self.find(pod)?;
        self.get(id).map(|hint| &hint.node.name)
    }

    /// The hints of pods in the order in which the pods are tried, each with its node; `None` if a pod has none.
    pub(crate) fn hints_of(
        &self,
        snapshot: &ClusterSnapshot,
        version: Version,
        pods: &[PodId],
    ) -> Option<Vec<(PodId, HintId, NodeId)>> {
        let hint = |(_, pod): &(i32, PodId)| {
            let id = self.find(snapshot.pod(*pod))?;
            Some((*pod, id, self.get(id)?.node.id))
        };
        scheduling_order(snapshot, version, pods).iter().map(hint).collect()
    }

    /// Whether a hint still exists and is that node, if the node was not replaced by another with the same ID.
    pub(crate) fn is_hint(&self, id: HintId, node: NodeId) -> bool {
        self.get(id).is_some_and(|hint| hint.node.id == node)
    }

    /// The node of a hint, if both still exist.
    pub(crate) fn resolve_hint(&self, id: HintId, snapshot: &ClusterSnapshot) -> Option<NodeId> {
        self.get(id)?.node.find(snapshot)
    }

    /// Records that a pod was scheduled on its hinted node again.
    pub(crate) fn keep_hint(&mut self, id: HintId) {
        let hint = self.hints[id.index as usize].as_mut().expect("a kept hint exists");
        hint.keep(self.generation);
    }

    fn try_schedule_using_hints(
        &mut self,
        target: &mut impl SchedulingTarget,
        pod: PodId,
        acceptable: &dyn Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let hint_id = self.find(target.snapshot().pod(pod))?;
        let hint = self.hints[hint_id.index as usize].as_mut()?;
        hint.node.id = hint.node.find(target.snapshot()).filter(|id| acceptable(*id))?;
        if !target.try_schedule(pod, hint.node.id) {
            return None;
        }
        hint.keep(self.generation);
        Some(hint.node.id)
    }

    fn try_schedule(
        &mut self,
        target: &mut impl SchedulingTarget,
        pod: PodId,
        acceptable: &dyn Fn(NodeId) -> bool,
        failed: &mut SimilarPodsScheduling,
    ) -> Option<NodeId> {
        if failed.is_similar_unschedulable(target.snapshot(), pod) {
            return None;
        }
        let Some(id) = target.schedule_on_any_node_matching(pod, acceptable) else {
            failed.set_unschedulable(target.snapshot(), pod);
            return None;
        };
        let snapshot = target.snapshot();
        self.set_hint(&hint_key(snapshot.pod(pod)), HintedNode { id, name: snapshot.node(id).name.clone() });
        Some(id)
    }

    fn find(&self, pod: &Pod) -> Option<HintId> {
        let index = *self.indices.get(&*hint_key(pod))?;
        let hint = self.hints[index as usize].as_ref()?;
        Some(HintId { index, serial: hint.serial })
    }

    fn get(&self, id: HintId) -> Option<&PodHint> {
        self.hints[id.index as usize].as_ref().filter(|hint| hint.serial == id.serial)
    }

    fn set_hint(&mut self, uid: &Arc<str>, node: HintedNode) {
        if let Some(index) = self.indices.get(uid)
            && let Some(hint) = &mut self.hints[*index as usize]
        {
            hint.replace(node, self.generation);
            return;
        }
        self.last_serial += 1;
        let hint = PodHint {
            serial: self.last_serial,
            generation: self.generation,
            node,
            previous: PreviousHint::Missing,
            uid: uid.clone(),
        };
        let index = self.free_indices.pop().unwrap_or(self.hints.len() as u32);
        if index as usize == self.hints.len() {
            self.hints.push(None);
        }
        self.hints[index as usize] = Some(hint);
        self.used_indices.push(index);
        self.indices.insert(uid.clone(), index);
    }
}

/// Pods with their priorities, in the order in which they are scheduled.
fn scheduling_order(snapshot: &ClusterSnapshot, version: Version, pods: &[PodId]) -> Vec<(i32, PodId)> {
    let mut pods: Vec<(i32, PodId)> =
        pods.iter().map(|pod| (snapshot.pod_summary(*pod).priority.unwrap_or(0), *pod)).collect();
    if tries_hints_by_priority(version) {
        pods.sort_by_key(|(priority, _)| Reverse(*priority));
    }
    pods
}

/// From 1.37 on, all pods of one priority try their hints before any of them tries other nodes.
fn tries_hints_by_priority(version: Version) -> bool {
    version >= Version::V1_37
}

// === impl PodHint ===

impl PodHint {
    fn keep(&mut self, generation: u64) {
        if self.generation != generation {
            (self.generation, self.previous) = (generation, PreviousHint::Same);
        }
    }

    fn replace(&mut self, node: HintedNode, generation: u64) {
        self.keep(generation);
        let before = std::mem::replace(&mut self.node, node);
        if matches!(self.previous, PreviousHint::Same) {
            self.previous = PreviousHint::Other(before);
        }
    }
}

// === impl HintedNode ===

impl HintedNode {
    /// The node of that name, if it exists.
    fn find(&self, snapshot: &ClusterSnapshot) -> Option<NodeId> {
        match snapshot.get_node(self.id) {
            Some(node) if Arc::ptr_eq(&node.name, &self.name) => Some(self.id),
            _ => snapshot.find_node(&self.name),
        }
    }
}

// === impl ClusterSnapshot ===

impl SchedulingTarget for ClusterSnapshot {
    fn snapshot(&self) -> &ClusterSnapshot {
        self
    }

    fn try_schedule(&mut self, pod: PodId, node: NodeId) -> bool {
        self.schedule(pod, node).is_ok()
    }

    fn schedule_on_any_node_matching(
        &mut self,
        pod: PodId,
        acceptable: &dyn Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        ClusterSnapshot::schedule_on_any_node_matching(self, pod, acceptable)
    }
}

// === impl SimilarPodsScheduling ===

impl SimilarPodsScheduling {
    fn is_similar_unschedulable(&self, snapshot: &ClusterSnapshot, pod: PodId) -> bool {
        let Some(controller) = snapshot.pod_summary(pod).controller else { return false };
        let Some(failed) = self.0.get(&controller) else { return false };
        let pod = snapshot.pod(pod);
        failed.iter().any(|other| other.is_similar(pod))
    }

    fn set_unschedulable(&mut self, snapshot: &ClusterSnapshot, pod: PodId) {
        let summary = snapshot.pod_summary(pod);
        // Each pod of a DaemonSet is for another node.
        let Some(controller) = summary.controller.filter(|_| !summary.is_daemon_set_pod) else { return };
        let pod = snapshot.pod(pod);
        let failed = self.0.entry(controller).or_default();
        if failed.len() < MAX_UNSCHEDULABLE_PODS_PER_CONTROLLER {
            failed.push(pod.clone());
        }
    }
}

/// The key of a pod's hint.
fn hint_key(pod: &Pod) -> Cow<'_, Arc<str>> {
    if pod.uid.is_empty() {
        return Cow::Owned(format!("{}/{}", pod.name.namespace, pod.name.name).into());
    }
    Cow::Borrowed(&pod.uid)
}

#[cfg(test)]
mod tests {
    use testobjects::{node, pod};

    use super::*;
    use crate::informer_cache::InformerCache;
    use crate::settings::Settings;

    const GIB: i64 = 1 << 30;

    /// Nodes as `name cpu`, pods on them as `name cpu node`, unscheduled ones as `name cpu [controller [priority]]`.
    struct Case {
        cluster: InformerCache,
        packing: HintingSimulator,
        unscheduled: Vec<PodId>,
    }

    fn case(nodes: &[&str], pods: &[&str], waiting: &[&str]) -> Case {
        let mut cluster = InformerCache::new(&Settings::for_version(Version::V1_36));
        for fields in nodes.iter().map(|node| node.split(' ').collect::<Vec<_>>()) {
            let node = node(fields[0]).allocatable("cpu", fields[1]).allocatable("memory", GIB);
            cluster.apply(&node.allocatable("pods", 100).added());
        }
        for fields in pods.iter().map(|pod| pod.split(' ').collect::<Vec<_>>()) {
            cluster.apply(&pod(fields[0]).request("cpu", fields[1]).on(fields[2]).added());
        }
        for fields in waiting.iter().map(|pod| pod.split(' ').collect::<Vec<_>>()) {
            let priority = fields.get(3).map_or(0, |field| field.parse().unwrap());
            let pod = pod(fields[0]).request("cpu", fields[1]).priority(priority);
            let pod = match fields.get(2) {
                Some(controller) => pod.owner("ReplicaSet", controller),
                None => pod,
            };
            cluster.apply(&pod.added());
        }
        let order = cluster.nodes().collect();
        cluster.snapshot.begin_loop(order);
        let find = |pod: &&str| {
            let name = pod.split(' ').next().unwrap().into();
            cluster.find_pod(&model::NamespacedName { namespace: "default".into(), name }).unwrap()
        };
        let waiting = waiting.iter().map(find).collect();
        Case { cluster, packing: HintingSimulator::default(), unscheduled: waiting }
    }

    impl HintingSimulator {
        fn hint(&mut self, pod: &str, node: &str) {
            self.set_hint(&pod.into(), HintedNode { id: NodeId(0), name: node.into() });
        }

        fn hinted(&self, pod: &str) -> Option<&str> {
            self.hints[*self.indices.get(pod)? as usize].as_ref().map(|hint| &*hint.node.name)
        }
    }

    impl Case {
        fn hint(mut self, pod: &str, node: &str) -> Case {
            self.packing.hint(pod, node);
            self
        }

        #[track_caller]
        fn check(&mut self, version: Version, stop: bool, only_node: Option<&str>, expected: &str) {
            let snapshot = &mut self.cluster.snapshot;
            let only_node = only_node.map(|name| snapshot.find_node(name).unwrap());
            let acceptable = |node| only_node.is_none_or(|only_node| only_node == node);
            let scheduled =
                self.packing.try_schedule_pods(snapshot, version, &self.unscheduled, stop, &acceptable);
            let results: Vec<String> = scheduled
                .iter()
                .map(|(pod, node)| format!("{} {}", snapshot.pod(*pod).name.name, snapshot.node(*node).name))
                .collect();
            assert_eq!(results.join(", "), expected);
            for (pod, node) in scheduled {
                assert_eq!(snapshot.filter_snapshot.node_of(pod), Some(node));
            }
        }
    }

    const TWO: [&str; 2] = ["n1 1", "n2 1"];
    const ONE_ON_FIRST: [&str; 1] = ["p1 300m n1"];

    /// Cases of cluster-autoscaler's own TestTrySchedulePods.
    #[test]
    fn pods_are_scheduled_on_the_first_node_that_fits() {
        let check = |waiting: &[&str], only_node, expected| {
            case(&TWO, &ONE_ON_FIRST, waiting).check(Version::V1_36, false, only_node, expected);
        };
        check(&["p2 800m", "p3 500m"], None, "p2 n2, p3 n1");
        check(&["p2 800m", "p3 500m", "p4 700m"], None, "p2 n2, p3 n1");
        check(&[], None, "");
        check(&["p2 500m", "p3 500m"], Some("n2"), "p2 n2, p3 n2");
        check(&["p2 500m", "p3 500m"], Some("n1"), "p2 n1");
    }

    #[test]
    fn a_hint_to_a_deleted_node_is_ignored() {
        let mut case = case(&TWO, &ONE_ON_FIRST, &["p2 800m", "p3 500m"]).hint("p2", "gone");
        case.check(Version::V1_36, false, None, "p2 n2, p3 n1");
        assert_eq!(case.packing.hinted("p2"), Some("n2"));
    }

    /// Cases of cluster-autoscaler's own TestPodSchedulesOnHintedNode.
    #[test]
    fn pods_are_scheduled_on_their_hinted_nodes() {
        let nodes = ["n1 9", "n2 9", "n3 9"];
        let mut all = case(&nodes, &[], &["p1 1m", "p2 1m", "p3 1m"])
            .hint("p1", "n2")
            .hint("p2", "n2")
            .hint("p3", "n1");
        all.check(Version::V1_36, false, None, "p1 n2, p2 n2, p3 n1");
    }

    #[test]
    fn hints_live_for_two_generations() {
        let mut case = case(&TWO, &[], &["p 1"]).hint("p", "n1");
        case.packing.drop_old_hints(|_| true);
        assert_eq!(case.packing.hinted("p"), Some("n1"));
        case.packing.drop_old_hints(|_| true);
        assert_eq!(case.packing.hinted("p"), None);
    }

    #[test]
    fn hints_to_template_nodes_do_not_count_as_changes() {
        let mut packing = HintingSimulator::default();
        let mut check = |pod: &str, node: &str, expected| {
            packing.hint(pod, node);
            assert_eq!(
                packing.drop_old_hints(|node| !node.starts_with("template")),
                expected,
                "{pod} {node}"
            );
        };
        check("p", "n1", true);
        check("p", "n1", false);
        check("p", "template-1", true);
        check("p", "template-2", false);
        check("q", "template-3", false);
        check("q", "n1", true);
    }

    #[test]
    fn scheduling_stops_at_the_first_failure() {
        let mut case = case(&TWO, &[], &["p1 500m", "p2 2", "p3 100m"]);
        case.check(Version::V1_36, true, None, "p1 n2");
    }

    #[test]
    fn pods_similar_to_an_unschedulable_one_are_not_tried() {
        let mut failed = SimilarPodsScheduling::default();
        let case = case(&["n1 1"], &[], &["a 2 x", "b 2 x", "c 2 y", "d 3 x", "e 2"]);
        let (snapshot, pods) = (&case.cluster.snapshot, &case.unscheduled);
        failed.set_unschedulable(snapshot, pods[0]);
        failed.set_unschedulable(snapshot, pods[4]);
        let found: Vec<bool> =
            pods.iter().map(|pod| failed.is_similar_unschedulable(snapshot, *pod)).collect();
        assert_eq!(found, [true, true, false, false, false]);
    }

    #[test]
    fn ten_unschedulable_specs_per_controller_are_kept() {
        let waiting: Vec<String> = (0..12).map(|i| format!("p{i} {} x", i + 2)).collect();
        let waiting: Vec<&str> = waiting.iter().map(String::as_str).collect();
        let mut case = case(&["n1 1"], &[], &waiting);
        let mut failed = SimilarPodsScheduling::default();
        for pod in &case.unscheduled {
            failed.set_unschedulable(&case.cluster.snapshot, *pod);
        }
        let known = case
            .unscheduled
            .iter()
            .filter(|pod| failed.is_similar_unschedulable(&case.cluster.snapshot, **pod));
        assert_eq!(known.count(), 10);
        case.check(Version::V1_36, false, None, "");
    }

    #[test]
    fn later_versions_try_hints_of_one_priority_first() {
        let waiting = ["low 500m - 0", "new 1 - 5", "old 1 - 5"];
        let make = || case(&["n1 1"], &[], &waiting).hint("old", "n1");
        make().check(Version::V1_36, false, None, "low n1");
        make().check(Version::V1_37, false, None, "old n1");
    }
}
