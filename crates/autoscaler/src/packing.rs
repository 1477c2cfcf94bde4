//! Where pods would go: each to the place it was last given, else to the first node that takes it.

use std::cmp::Reverse;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use scheduler::ids::{NodeId, PodId};

use super::pod::Pod;
use super::settings::Version;
use super::snapshot::Snapshot;

/// Places pods, and remembers where.
#[derive(Debug, Default)]
pub(crate) struct Packing {
    /// Nodes by pod.
    hints: FxHashMap<Arc<str>, Arc<str>>,
    /// What was remembered before hints were last dropped.
    old_hints: FxHashMap<Arc<str>, Arc<str>>,
}

/// Pods that found no place, by the uid of their controller.
#[derive(Debug, Default)]
struct Failed(FxHashMap<String, Vec<Arc<Pod>>>);

/// How many pods of one controller are remembered to have found no place.
const FAILED_PER_CONTROLLER: usize = 10;

// === impl Packing ===

impl Packing {
    /// Places pods one after the other, each on an acceptable node. Those placed stay, and are given back in the order in
    /// which they were. With `stop_at_failure` the first pod without a place is the last one tried.
    pub(crate) fn place(
        &mut self,
        snapshot: &mut Snapshot,
        version: Version,
        pods: &[PodId],
        stop_at_failure: bool,
        acceptable: &dyn Fn(NodeId) -> bool,
    ) -> Vec<(PodId, NodeId)> {
        // From 1.37 on, all pods of one priority try where they were before any of them goes elsewhere.
        let in_rounds = version >= Version::V1_37;
        let priority = |pod: PodId| snapshot.pod(pod).priority.unwrap_or(0);
        let mut pods: Vec<(i32, PodId)> = pods.iter().map(|pod| (priority(*pod), *pod)).collect();
        if in_rounds {
            pods.sort_by_key(|(priority, _)| Reverse(*priority));
        }
        let (mut placed, mut failed, mut left) = (Vec::new(), Failed::default(), Vec::new());
        for round in pods.chunk_by(|a, b| in_rounds && a.0 == b.0) {
            for (_, pod) in round {
                match self.place_by_hint(snapshot, *pod, acceptable) {
                    Some(node) => placed.push((*pod, node)),
                    None => left.push(*pod),
                }
            }
            for pod in left.drain(..) {
                match self.place_anywhere(snapshot, pod, acceptable, &mut failed) {
                    Some(node) => placed.push((pod, node)),
                    None if stop_at_failure => return placed,
                    None => {}
                }
            }
        }
        placed
    }

    /// Forgets what was last remembered before this was last called. Says whether what is remembered since leads
    /// elsewhere. Nodes that only one loop knew are not there in the next: a hint to one of them leads nowhere.
    pub(crate) fn drop_old_hints(&mut self, is_there: impl Fn(&str) -> bool) -> bool {
        let old = std::mem::replace(&mut self.old_hints, std::mem::take(&mut self.hints));
        let leading = |hints: &FxHashMap<Arc<str>, Arc<str>>| -> FxHashMap<Arc<str>, Arc<str>> {
            let hints = hints.iter().filter(|(_, node)| is_there(node));
            hints.map(|(pod, node)| (pod.clone(), node.clone())).collect()
        };
        self.old_hints != old && leading(&self.old_hints) != leading(&old)
    }

    /// Where a pod was put before hints were last dropped.
    pub(crate) fn last_place(&self, pod: &Pod) -> Option<&Arc<str>> {
        self.old_hints.get(&key(pod))
    }

    fn place_by_hint(
        &mut self,
        snapshot: &mut Snapshot,
        pod: PodId,
        acceptable: &dyn Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let key = key(snapshot.pod(pod));
        let hint = self.hints.get(&key).or_else(|| self.old_hints.get(&key))?.clone();
        let node = snapshot.find(&hint).filter(|node| acceptable(*node))?;
        snapshot.schedule(pod, node).ok()?;
        self.hints.insert(key, hint);
        Some(node)
    }

    fn place_anywhere(
        &mut self,
        snapshot: &mut Snapshot,
        pod: PodId,
        acceptable: &dyn Fn(NodeId) -> bool,
        failed: &mut Failed,
    ) -> Option<NodeId> {
        if failed.has_similar(snapshot.pod(pod)) {
            return None;
        }
        let Some(node) = snapshot.schedule_anywhere(pod, acceptable) else {
            failed.add(snapshot.pod(pod));
            return None;
        };
        self.hints.insert(key(snapshot.pod(pod)), snapshot.node(node).name.clone());
        Some(node)
    }
}

// === impl Failed ===

impl Failed {
    fn has_similar(&self, pod: &Pod) -> bool {
        let Some(controller) = &pod.controller else { return false };
        let failed = self.0.get(&controller.uid).map_or(&[][..], Vec::as_slice);
        failed.iter().any(|other| other.is_similar(pod))
    }

    fn add(&mut self, pod: &Arc<Pod>) {
        let Some(controller) = &pod.controller else { return };
        // Pods of a DaemonSet want other nodes each.
        if pod.is_of_daemon_set() {
            return;
        }
        let failed = self.0.entry(controller.uid.clone()).or_default();
        if failed.len() < FAILED_PER_CONTROLLER {
            failed.push(pod.clone());
        }
    }
}

/// What a pod is remembered by.
fn key(pod: &Pod) -> Arc<str> {
    if pod.uid.is_empty() {
        return format!("{}/{}", pod.name.namespace, pod.name.name).into();
    }
    pod.uid.clone()
}

#[cfg(test)]
mod tests {
    use testobjects::{node, pod};

    use super::*;
    use crate::cluster::Cluster;
    use crate::settings::Settings;

    const GIB: i64 = 1 << 30;

    /// Nodes as `name cpu`, pods on them as `name cpu node`, and waiting ones as `name cpu [controller [priority]]`.
    struct Case {
        cluster: Cluster,
        packing: Packing,
        waiting: Vec<PodId>,
    }

    fn case(nodes: &[&str], pods: &[&str], waiting: &[&str]) -> Case {
        let mut cluster = Cluster::new(&Settings::for_version(Version::V1_36));
        for words in nodes.iter().map(|node| node.split(' ').collect::<Vec<_>>()) {
            let node = node(words[0]).allocatable("cpu", words[1]).allocatable("memory", GIB);
            cluster.apply(&node.allocatable("pods", 100).added());
        }
        for words in pods.iter().map(|pod| pod.split(' ').collect::<Vec<_>>()) {
            cluster.apply(&pod(words[0]).request("cpu", words[1]).on(words[2]).added());
        }
        for words in waiting.iter().map(|pod| pod.split(' ').collect::<Vec<_>>()) {
            let priority = words.get(3).map_or(0, |word| word.parse().unwrap());
            let pod = pod(words[0]).request("cpu", words[1]).priority(priority);
            let pod = match words.get(2) {
                Some(controller) => pod.owner("ReplicaSet", controller),
                None => pod,
            };
            cluster.apply(&pod.added());
        }
        let order = cluster.nodes().collect();
        cluster.snapshot.begin(order);
        let find = |pod: &&str| {
            let name = pod.split(' ').next().unwrap().into();
            cluster.find_pod(&model::NamespacedName { namespace: "default".into(), name }).unwrap()
        };
        let waiting = waiting.iter().map(find).collect();
        Case { cluster, packing: Packing::default(), waiting }
    }

    impl Case {
        fn hint(mut self, pod: &str, node: &str) -> Case {
            self.packing.hints.insert(pod.into(), node.into());
            self
        }

        #[track_caller]
        fn check(&mut self, version: Version, stop: bool, only: Option<&str>, expected: &str) {
            let snapshot = &mut self.cluster.snapshot;
            let only = only.map(|name| snapshot.find(name).unwrap());
            let acceptable = |node| only.is_none_or(|only| only == node);
            let placed = self.packing.place(snapshot, version, &self.waiting, stop, &acceptable);
            let said: Vec<String> = placed
                .iter()
                .map(|(pod, node)| format!("{} {}", snapshot.pod(*pod).name.name, snapshot.node(*node).name))
                .collect();
            assert_eq!(said.join(", "), expected);
            for (pod, node) in placed {
                assert_eq!(snapshot.trial.node_of(pod), Some(node));
            }
        }
    }

    const TWO: [&str; 2] = ["n1 1", "n2 1"];
    const ONE_ON_FIRST: [&str; 1] = ["p1 300m n1"];

    /// Cases of cluster-autoscaler's own TestTrySchedulePods.
    #[test]
    fn pods_go_to_the_first_node_that_takes_them() {
        let check = |waiting: &[&str], only, expected| {
            case(&TWO, &ONE_ON_FIRST, waiting).check(Version::V1_36, false, only, expected);
        };
        check(&["p2 800m", "p3 500m"], None, "p2 n2, p3 n1");
        check(&["p2 800m", "p3 500m", "p4 700m"], None, "p2 n2, p3 n1");
        check(&[], None, "");
        check(&["p2 500m", "p3 500m"], Some("n2"), "p2 n2, p3 n2");
        check(&["p2 500m", "p3 500m"], Some("n1"), "p2 n1");
    }

    #[test]
    fn a_hint_to_a_node_that_is_gone_is_none() {
        let mut case = case(&TWO, &ONE_ON_FIRST, &["p2 800m", "p3 500m"]).hint("p2", "gone");
        case.check(Version::V1_36, false, None, "p2 n2, p3 n1");
        assert_eq!(case.packing.hints.get("p2").map(|node| &**node), Some("n2"));
    }

    /// Cases of cluster-autoscaler's own TestPodSchedulesOnHintedNode.
    #[test]
    fn pods_go_where_they_were() {
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
        let hint = |packing: &Packing| {
            packing.hints.get("p").or_else(|| packing.old_hints.get("p")).map(|node| node.to_string())
        };
        case.packing.drop_old_hints(|_| true);
        assert_eq!(hint(&case.packing).as_deref(), Some("n1"));
        case.packing.drop_old_hints(|_| true);
        assert_eq!(hint(&case.packing), None);
    }

    #[test]
    fn hints_to_nodes_of_one_loop_lead_nowhere() {
        let mut packing = Packing::default();
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
    fn the_first_failure_is_the_last_try() {
        let mut case = case(&TWO, &[], &["p1 500m", "p2 2", "p3 100m"]);
        case.check(Version::V1_36, true, None, "p1 n2");
    }

    #[test]
    fn what_is_like_a_failed_pod_is_not_tried() {
        let mut failed = Failed::default();
        let case = case(&["n1 1"], &[], &["a 2 x", "b 2 x", "c 2 y", "d 3 x", "e 2"]);
        let pods: Vec<_> = case.waiting.iter().map(|pod| case.cluster.snapshot.pod(*pod).clone()).collect();
        failed.add(&pods[0]);
        failed.add(&pods[4]);
        let found: Vec<bool> = pods.iter().map(|pod| failed.has_similar(pod)).collect();
        assert_eq!(found, [true, true, false, false, false]);
    }

    #[test]
    fn ten_kinds_of_failed_pods_of_a_controller_are_remembered() {
        let waiting: Vec<String> = (0..12).map(|i| format!("p{i} {} x", i + 2)).collect();
        let waiting: Vec<&str> = waiting.iter().map(String::as_str).collect();
        let mut case = case(&["n1 1"], &[], &waiting);
        let mut failed = Failed::default();
        for pod in &case.waiting {
            failed.add(case.cluster.snapshot.pod(*pod));
        }
        let known = case.waiting.iter().filter(|pod| failed.has_similar(case.cluster.snapshot.pod(**pod)));
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
