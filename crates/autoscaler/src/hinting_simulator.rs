//! The hinting simulator: schedules pods in the snapshot, first on the node where they fitted last time.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use scheduler::ids::{NodeId, PodId};

use super::pod::Pod;
use super::settings::Version;
use super::snapshot::ClusterSnapshot;

/// Schedules pods in a snapshot and keeps the nodes as hints for the next time.
#[derive(Debug, Default)]
pub(crate) struct HintingSimulator {
    /// By pod UID.
    hints: FxHashMap<Arc<str>, PodHint>,
}

/// The hint of a pod, of which at least one generation is set.
#[derive(Debug, Default)]
struct PodHint {
    current: Option<HintedNode>,
    /// The hint of the previous generation.
    old: Option<HintedNode>,
}

/// A node that a pod was scheduled on.
#[derive(Clone, Debug)]
struct HintedNode {
    name: Arc<str>,
    /// The ID that the node had then.
    id: NodeId,
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

/// Unschedulable pods by the UID of their controller: similar pods are not tried.
#[derive(Debug, Default)]
struct SimilarPodsScheduling(FxHashMap<String, Vec<Arc<Pod>>>);

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
        // From 1.37 on, all pods of one priority try their hints before any of them tries other nodes.
        let by_priority = version >= Version::V1_37;
        let priority = |pod: PodId| target.snapshot().pod(pod).priority.unwrap_or(0);
        let mut pods: Vec<(i32, PodId)> = pods.iter().map(|pod| (priority(*pod), *pod)).collect();
        if by_priority {
            pods.sort_by_key(|(priority, _)| Reverse(*priority));
        }
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
        let live_name = |hinted: &Option<HintedNode>| {
            let live_node = hinted.as_ref().filter(|node| is_there(&node.name));
            live_node.map(|node| node.name.clone())
        };
        self.hints.retain(|_, hint| {
            is_changed = is_changed || (!hint.is_kept() && live_name(&hint.current) != live_name(&hint.old));
            hint.old = hint.current.take();
            hint.old.is_some()
        });
        is_changed
    }

    /// The node that a pod was scheduled on in the last generation.
    pub(crate) fn hinted_node(&self, pod: &Pod) -> Option<&Arc<str>> {
        Some(&self.hints.get(&*hint_key(pod))?.old.as_ref()?.name)
    }

    fn try_schedule_using_hints(
        &mut self,
        target: &mut impl SchedulingTarget,
        pod: PodId,
        acceptable: &dyn Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let snapshot = target.snapshot();
        let hint = self.hints.get_mut(&*hint_key(snapshot.pod(pod)))?;
        let hinted_node = hint.current.as_ref().or(hint.old.as_ref())?;
        let id = hinted_node.find(snapshot).filter(|id| acceptable(*id))?;
        if !target.try_schedule(pod, id) {
            return None;
        }
        hint.current = Some(HintedNode { name: hinted_node.name.clone(), id });
        Some(id)
    }

    fn try_schedule(
        &mut self,
        target: &mut impl SchedulingTarget,
        pod: PodId,
        acceptable: &dyn Fn(NodeId) -> bool,
        failed: &mut SimilarPodsScheduling,
    ) -> Option<NodeId> {
        if failed.is_similar_unschedulable(target.snapshot().pod(pod)) {
            return None;
        }
        let Some(id) = target.schedule_on_any_node_matching(pod, acceptable) else {
            failed.set_unschedulable(target.snapshot().pod(pod));
            return None;
        };
        let snapshot = target.snapshot();
        let hint = HintedNode { name: snapshot.node(id).name.clone(), id };
        self.hints.entry(hint_key(snapshot.pod(pod)).into_owned()).or_default().current = Some(hint);
        Some(id)
    }
}

// === impl PodHint ===

impl PodHint {
    /// Whether the current hint was taken over from the previous generation.
    fn is_kept(&self) -> bool {
        match (&self.current, &self.old) {
            (Some(current), Some(old)) => Arc::ptr_eq(&current.name, &old.name),
            _ => false,
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
    fn is_similar_unschedulable(&self, pod: &Pod) -> bool {
        let Some(controller) = &pod.controller else { return false };
        let failed = self.0.get(&controller.uid).map_or(&[][..], Vec::as_slice);
        failed.iter().any(|other| other.is_similar(pod))
    }

    fn set_unschedulable(&mut self, pod: &Arc<Pod>) {
        let Some(controller) = &pod.controller else { return };
        // Each pod of a DaemonSet is for another node.
        if pod.is_daemon_set_pod() {
            return;
        }
        let failed = self.0.entry(controller.uid.clone()).or_default();
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
        fn set_hint(&mut self, pod: &str, node: &str) {
            let hint = HintedNode { name: node.into(), id: NodeId(0) };
            self.hints.entry(pod.into()).or_default().current = Some(hint);
        }

        fn hint(&self, pod: &str) -> Option<&str> {
            let hint = self.hints.get(pod)?;
            hint.current.as_ref().or(hint.old.as_ref()).map(|node| &*node.name)
        }
    }

    impl Case {
        fn hint(mut self, pod: &str, node: &str) -> Case {
            self.packing.set_hint(pod, node);
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
        assert_eq!(case.packing.hint("p2"), Some("n2"));
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
        assert_eq!(case.packing.hint("p"), Some("n1"));
        case.packing.drop_old_hints(|_| true);
        assert_eq!(case.packing.hint("p"), None);
    }

    #[test]
    fn hints_to_template_nodes_do_not_count_as_changes() {
        let mut packing = HintingSimulator::default();
        let mut check = |pod: &str, node: &str, expected| {
            packing.set_hint(pod, node);
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
        let pods: Vec<_> =
            case.unscheduled.iter().map(|pod| case.cluster.snapshot.pod(*pod).clone()).collect();
        failed.set_unschedulable(&pods[0]);
        failed.set_unschedulable(&pods[4]);
        let found: Vec<bool> = pods.iter().map(|pod| failed.is_similar_unschedulable(pod)).collect();
        assert_eq!(found, [true, true, false, false, false]);
    }

    #[test]
    fn ten_unschedulable_specs_per_controller_are_kept() {
        let waiting: Vec<String> = (0..12).map(|i| format!("p{i} {} x", i + 2)).collect();
        let waiting: Vec<&str> = waiting.iter().map(String::as_str).collect();
        let mut case = case(&["n1 1"], &[], &waiting);
        let mut failed = SimilarPodsScheduling::default();
        for pod in &case.unscheduled {
            failed.set_unschedulable(case.cluster.snapshot.pod(*pod));
        }
        let known = case
            .unscheduled
            .iter()
            .filter(|pod| failed.is_similar_unschedulable(case.cluster.snapshot.pod(**pod)));
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
