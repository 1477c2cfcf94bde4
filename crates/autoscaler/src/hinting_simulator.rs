//! The hinting simulator: schedules pods in the snapshot, first on the node where they fitted last time.

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
    /// Node names by pod UID.
    hints: FxHashMap<Arc<str>, Arc<str>>,
    /// The hints of the previous generation.
    old_hints: FxHashMap<Arc<str>, Arc<str>>,
}

/// Unschedulable pods by the UID of their controller: similar pods are not tried.
#[derive(Debug, Default)]
struct SimilarPodsScheduling(FxHashMap<Arc<str>, Vec<Arc<Pod>>>);

/// The most unschedulable pods of one controller that are kept.
const MAX_UNSCHEDULABLE_PODS_PER_CONTROLLER: usize = 10;

// === impl HintingSimulator ===

impl HintingSimulator {
    /// Schedules pods one after the other, each on an acceptable node, and returns the scheduled ones in that order.
    /// They stay in the snapshot. With `stop_at_failure` it stops at the first pod that does not fit.
    pub(crate) fn try_schedule_pods(
        &mut self,
        snapshot: &mut ClusterSnapshot,
        version: Version,
        pods: &[PodId],
        stop_at_failure: bool,
        acceptable: &dyn Fn(NodeId) -> bool,
    ) -> Vec<(PodId, NodeId)> {
        // From 1.37 on, all pods of one priority try their hints before any of them tries other nodes.
        let by_priority = version >= Version::V1_37;
        let priority = |pod: PodId| snapshot.pod(pod).spec.priority.unwrap_or(0);
        let mut pods: Vec<(i32, PodId)> = pods.iter().map(|pod| (priority(*pod), *pod)).collect();
        if by_priority {
            pods.sort_by_key(|(priority, _)| Reverse(*priority));
        }
        let (mut scheduled, mut failed, mut remaining) =
            (Vec::new(), SimilarPodsScheduling::default(), Vec::new());
        for priority_batch in pods.chunk_by(|a, b| by_priority && a.0 == b.0) {
            for (_, pod) in priority_batch {
                match self.try_schedule_using_hints(snapshot, *pod, acceptable) {
                    Some(node) => scheduled.push((*pod, node)),
                    None => remaining.push(*pod),
                }
            }
            for pod in remaining.drain(..) {
                match self.try_schedule(snapshot, pod, acceptable, &mut failed) {
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
        let old = std::mem::replace(&mut self.old_hints, std::mem::take(&mut self.hints));
        let live_hints = |hints: &FxHashMap<Arc<str>, Arc<str>>| -> FxHashMap<Arc<str>, Arc<str>> {
            let hints = hints.iter().filter(|(_, node)| is_there(node));
            hints.map(|(pod, node)| (pod.clone(), node.clone())).collect()
        };
        self.old_hints != old && live_hints(&self.old_hints) != live_hints(&old)
    }

    /// The node that a pod was scheduled on in the last generation.
    pub(crate) fn hinted_node(&self, pod: &Pod) -> Option<&Arc<str>> {
        self.old_hints.get(&hint_key(pod))
    }

    fn try_schedule_using_hints(
        &mut self,
        snapshot: &mut ClusterSnapshot,
        pod: PodId,
        acceptable: &dyn Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let key = hint_key(snapshot.pod(pod));
        let hint = self.hints.get(&key).or_else(|| self.old_hints.get(&key))?.clone();
        let node = snapshot.find_node(&hint).filter(|node| acceptable(*node))?;
        snapshot.schedule(pod, node).ok()?;
        self.hints.insert(key, hint);
        Some(node)
    }

    fn try_schedule(
        &mut self,
        snapshot: &mut ClusterSnapshot,
        pod: PodId,
        acceptable: &dyn Fn(NodeId) -> bool,
        failed: &mut SimilarPodsScheduling,
    ) -> Option<NodeId> {
        if failed.is_similar_unschedulable(snapshot.pod(pod)) {
            return None;
        }
        let Some(node) = snapshot.schedule_on_any_node_matching(pod, acceptable) else {
            failed.set_unschedulable(snapshot.pod(pod));
            return None;
        };
        self.hints.insert(hint_key(snapshot.pod(pod)), snapshot.node(node).name.clone());
        Some(node)
    }
}

// === impl SimilarPodsScheduling ===

impl SimilarPodsScheduling {
    fn is_similar_unschedulable(&self, pod: &Pod) -> bool {
        let Some(controller) = pod.controller() else { return false };
        let failed = self.0.get(&controller.uid).map_or(&[][..], Vec::as_slice);
        failed.iter().any(|other| other.is_similar(pod))
    }

    fn set_unschedulable(&mut self, pod: &Arc<Pod>) {
        let Some(controller) = pod.controller() else { return };
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
fn hint_key(pod: &Pod) -> Arc<str> {
    if pod.uid.is_empty() {
        return format!("{}/{}", pod.name.namespace, pod.name.name).into();
    }
    pod.uid.clone()
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

    impl Case {
        fn hint(mut self, pod: &str, node: &str) -> Case {
            self.packing.hints.insert(pod.into(), node.into());
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
        assert_eq!(case.packing.hints.get("p2").map(|node| &**node), Some("n2"));
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
        let hint = |packing: &HintingSimulator| {
            packing.hints.get("p").or_else(|| packing.old_hints.get("p")).map(|node| node.to_string())
        };
        case.packing.drop_old_hints(|_| true);
        assert_eq!(hint(&case.packing).as_deref(), Some("n1"));
        case.packing.drop_old_hints(|_| true);
        assert_eq!(hint(&case.packing), None);
    }

    #[test]
    fn hints_to_template_nodes_do_not_count_as_changes() {
        let mut packing = HintingSimulator::default();
        let mut check = |pod: &str, node: &str, expected| {
            packing.hints.insert(pod.into(), node.into());
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
