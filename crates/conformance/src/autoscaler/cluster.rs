//! The cluster of a case: its objects and their changes.

use std::collections::BTreeMap;

use autoscaler::{Action, Autoscaler};
use model::{Moment, NamespacedName, Object, What};
use scheduler::{FirstFit, Settings};
use serde_json::{Value, json};
use simulation::with_ready_condition;

use super::case::second;
use super::daemons::{daemon_pod, should_run_daemon_pod};
use super::loop_record::{ClusterEvent, ClusterEventKind};

const SOFT_TAINT: &str = "DeletionCandidateOfClusterAutoscaler";
const HARD_TAINT: &str = "ToBeDeletedByClusterAutoscaler";

/// The cluster of a case. Every change is applied to the autoscaler at once.
pub(super) struct CaseCluster {
    pub(super) autoscaler: Autoscaler,
    fit: FirstFit,
    nodes: BTreeMap<String, Object>,
    pods: BTreeMap<(String, String), Value>,
    daemon_sets: BTreeMap<(String, String), Value>,
    /// The name of its controller, or its own, for every pod that ever existed.
    owners: BTreeMap<(String, String), String>,
    /// Events since the last loop.
    pub(super) events: Vec<ClusterEvent>,
}

impl CaseCluster {
    pub(super) fn new(autoscaler: Autoscaler, objects: &[Object]) -> CaseCluster {
        let mut cluster = CaseCluster {
            autoscaler,
            fit: FirstFit::new(&Settings::default()),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            daemon_sets: BTreeMap::new(),
            owners: BTreeMap::new(),
            events: Vec::new(),
        };
        for object in objects {
            cluster.create(object);
        }
        cluster
    }

    fn apply(&mut self, what: What) {
        self.fit.apply(&what);
        self.autoscaler.apply(&what);
    }

    /// Creates an object.
    pub(super) fn create(&mut self, object: &Object) {
        let meta = object.meta();
        let key = (meta.namespace.to_string(), meta.name.to_string());
        match &*meta.kind {
            "Node" => drop(self.nodes.insert(meta.name.to_string(), object.clone())),
            "Pod" => {
                let pod = object.value().unwrap_or(Value::Null);
                let name = owner(&pod).and_then(|owner| owner["name"].as_str()).unwrap_or(&key.1);
                self.owners.insert(key.clone(), format!("{}/{name}", key.0));
                self.pods.insert(key, pod);
            }
            "DaemonSet" => drop(self.daemon_sets.insert(key, object.value().unwrap_or(Value::Null))),
            _ => {}
        }
        self.apply(What::Added(object.clone()));
    }

    /// The name of a pod's controller, or its own if it has none.
    pub(super) fn owner_name(&self, pod: &NamespacedName) -> String {
        let key = (pod.namespace.to_string(), pod.name.to_string());
        self.owners.get(&key).cloned().unwrap_or_else(|| format!("{}/{}", key.0, key.1))
    }

    // Nodes.

    pub(super) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Registers a node, with a pod of every DaemonSet that runs on it.
    pub(super) fn register(&mut self, node: &Object, now: Moment) {
        self.create(node);
        let sets: Vec<Value> = self.daemon_sets.values().cloned().collect();
        for set in sets {
            if should_run_daemon_pod(&set, node) {
                let pod = daemon_pod(&set, &node.meta().name, now);
                self.create(&pod);
                let name = format!("{}/{}", pod.meta().namespace, pod.meta().name);
                self.record(second(now), ClusterEventKind::PodBound, node.meta().name.to_string(), name);
            }
        }
    }

    /// Marks a node ready.
    pub(super) fn mark_ready(&mut self, name: &str, now: Moment) {
        if let Some(node) = self.nodes.get(name) {
            let node = with_ready_condition(node, now);
            self.set_node(name, node);
        }
    }

    /// Removes a node with its pods.
    pub(super) fn remove_node(&mut self, name: &str) {
        let Some(node) = self.nodes.remove(name) else { return };
        let pods_on_node: Vec<(String, String)> = self
            .pods
            .iter()
            .filter(|(_, pod)| pod["spec"]["nodeName"] == name)
            .map(|(key, _)| key.clone())
            .collect();
        for key in pods_on_node {
            self.remove_pod(&key);
        }
        self.apply(What::Deleted(node));
    }

    /// Updates a node and keeps the autoscaler's taints.
    pub(super) fn update_node(&mut self, node: &Object) {
        let name = node.meta().name.to_string();
        let Some(old) = self.nodes.get(&name) else { return };
        let (mut value, new) = (old.value().unwrap_or(Value::Null), node.value().unwrap_or(Value::Null));
        value["metadata"]["labels"] = new["metadata"]["labels"].clone();
        value["status"] = new["status"].clone();
        let own_taints = taints(&value).into_iter().filter(is_autoscaler_taint);
        value["spec"]["taints"] =
            taints(&new).into_iter().filter(|taint| !is_autoscaler_taint(taint)).chain(own_taints).collect();
        self.set_node(&name, Object::from_trusted(value.to_string()));
    }

    fn set_node(&mut self, name: &str, node: Object) {
        self.nodes.insert(name.to_owned(), node.clone());
        self.apply(What::Modified(node));
    }

    fn change_node(&mut self, name: &str, change: impl FnOnce(&mut Value)) {
        let Some(node) = self.nodes.get(name) else { return };
        let mut value = node.value().unwrap_or(Value::Null);
        change(&mut value);
        self.set_node(name, Object::from_trusted(value.to_string()));
    }

    /// The nodes with the deletion-candidate taint.
    pub(super) fn soft_tainted(&self) -> Vec<String> {
        self.tainted(SOFT_TAINT)
    }

    /// The nodes with the to-be-deleted taint.
    pub(super) fn hard_tainted(&self) -> Vec<String> {
        self.tainted(HARD_TAINT)
    }

    fn tainted(&self, key: &str) -> Vec<String> {
        let has_taint = |node: &Object| {
            taints(&node.value().unwrap_or(Value::Null)).iter().any(|taint| taint["key"] == key)
        };
        self.nodes.iter().filter(|(_, node)| has_taint(node)).map(|(name, _)| name.clone()).collect()
    }

    /// Sets the autoscaler's taints on these nodes and removes them from all others.
    pub(super) fn force_taints(&mut self, soft: &[String], hard: &[String], now: Moment) {
        for (key, effect, wanted) in
            [(SOFT_TAINT, "PreferNoSchedule", soft), (HARD_TAINT, "NoSchedule", hard)]
        {
            for node in self.tainted(key).iter().filter(|node| !wanted.contains(node)) {
                self.untaint(node, key);
                if key == HARD_TAINT {
                    self.cordon(node, false);
                }
            }
            let tainted = self.tainted(key);
            for node in wanted.iter().filter(|node| !tainted.contains(node)) {
                let value = (now.nanos() / 1_000_000_000).to_string();
                self.taint(node, key, &value, effect);
                if key == HARD_TAINT {
                    self.cordon(node, true);
                }
            }
        }
    }

    fn taint(&mut self, node: &str, key: &str, value: &str, effect: &str) {
        self.change_node(node, |node| {
            let others = taints(node).into_iter().filter(|taint| taint["key"] != key);
            let new = json!({"key": key, "value": value, "effect": effect});
            node["spec"]["taints"] = others.chain([new]).collect();
        });
    }

    fn untaint(&mut self, node: &str, key: &str) {
        self.change_node(node, |node| {
            node["spec"]["taints"] = taints(node).into_iter().filter(|taint| taint["key"] != key).collect();
        });
    }

    fn cordon(&mut self, node: &str, unschedulable: bool) {
        self.change_node(node, |node| node["spec"]["unschedulable"] = unschedulable.into());
    }

    /// Carries out the autoscaler's actions; evictions only if `evicts`.
    pub(super) fn apply_actions(&mut self, actions: &[Action], evicts: bool, now: Moment, at: i64) {
        for action in actions {
            match action {
                Action::Taint { node, key, value, effect } => self.taint(node, key, value, effect),
                Action::Untaint { node, key } => self.untaint(node, key),
                Action::Cordon { node, unschedulable } => self.cordon(node, *unschedulable),
                Action::Evict { pod, .. } if evicts => {
                    self.evict(&(pod.namespace.to_string(), pod.name.to_string()), now, at);
                }
                Action::Evict { .. } => {}
            }
        }
    }

    // Pods.

    /// Removes a pod and returns it, if it exists.
    pub(super) fn remove_pod(&mut self, key: &(String, String)) -> Option<Value> {
        let pod = self.pods.remove(key)?;
        self.apply(What::Deleted(Object::from_trusted(pod.to_string())));
        Some(pod)
    }

    fn evict(&mut self, key: &(String, String), now: Moment, at: i64) {
        let Some(pod) = self.remove_pod(key) else { return };
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
        self.record(at, ClusterEventKind::PodEvicted, node, full_name(key));
        if owner(&pod).is_some_and(|owner| owner["kind"] != "DaemonSet") {
            self.recreate(key, pod, now);
            self.record(at, ClusterEventKind::PodCreated, String::new(), format!("{}-r", full_name(key)));
        }
    }

    /// Creates the pod that its controller creates in place of an evicted one.
    pub(super) fn recreate(&mut self, key: &(String, String), mut pod: Value, now: Moment) {
        for field in ["name", "uid"] {
            let old = pod["metadata"][field].as_str().unwrap_or_default();
            pod["metadata"][field] = format!("{old}-r").into();
        }
        debug_assert_eq!(pod["metadata"]["name"], format!("{}-r", key.1), "a pod is stored under its name");
        pod["metadata"]["creationTimestamp"] = now.to_string().into();
        if let Some(spec) = pod["spec"].as_object_mut() {
            spec.remove("nodeName");
        }
        pod["status"] = json!({"phase": "Pending", "conditions": [scheduled_condition("False", now)]});
        self.create(&Object::from_trusted(pod.to_string()));
    }

    /// Binds the pending pods, each to the first node that fits.
    pub(super) fn bind_all(&mut self, now: Moment, at: i64) {
        let mut waiting: Vec<(i64, String, String, (String, String))> = Vec::new();
        for (key, pod) in &self.pods {
            let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
            let is_bound = spec["nodeName"].as_str().is_some_and(|node| !node.is_empty());
            let is_gated = spec["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
            let is_pending = pod["status"]["phase"] == "Pending";
            if is_pending && !is_bound && !is_gated && metadata["deletionTimestamp"].is_null() {
                let created = metadata["creationTimestamp"].as_str().unwrap_or_default().to_owned();
                waiting.push((-spec["priority"].as_i64().unwrap_or(0), created, full_name(key), key.clone()));
            }
        }
        waiting.sort();
        for (.., key) in waiting {
            if let Some(node) = self.fit.find_node(&key.0, &key.1) {
                self.bind(&key, &node, now);
                self.record(at, ClusterEventKind::PodBound, node.to_string(), full_name(&key));
            }
        }
    }

    /// Binds a pod to a node.
    pub(super) fn bind(&mut self, key: &(String, String), node: &str, now: Moment) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        pod["spec"]["nodeName"] = node.into();
        let mut conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(scheduled_condition("True", now));
        pod["status"]["phase"] = "Running".into();
        pod["status"]["conditions"] = conditions.into();
        let pod = Object::from_trusted(pod.to_string());
        self.apply(What::Modified(pod));
    }

    /// Reverts a binding.
    pub(super) fn unbind(&mut self, key: &(String, String)) {
        let Some(pod) = self.pods.get_mut(key) else { return };
        pod["spec"]["nodeName"] = Value::Null;
        pod["status"]["phase"] = "Pending".into();
        let pod = Object::from_trusted(pod.to_string());
        self.apply(What::Modified(pod));
    }

    pub(super) fn record(&mut self, at: i64, what: ClusterEventKind, node: String, pod: String) {
        self.events.push(ClusterEvent { at, what, node, pod });
    }
}

fn full_name(key: &(String, String)) -> String {
    format!("{}/{}", key.0, key.1)
}

fn scheduled_condition(status: &str, now: Moment) -> Value {
    let mut condition =
        json!({"type": "PodScheduled", "status": status, "lastTransitionTime": now.to_string()});
    if status == "False" {
        condition["reason"] = "Unschedulable".into();
    }
    condition
}

fn owner(pod: &Value) -> Option<&Value> {
    pod["metadata"]["ownerReferences"].as_array()?.iter().find(|owner| owner["controller"] == true)
}

fn taints(node: &Value) -> Vec<Value> {
    node["spec"]["taints"].as_array().cloned().unwrap_or_default()
}

fn is_autoscaler_taint(taint: &Value) -> bool {
    taint["key"] == SOFT_TAINT || taint["key"] == HARD_TAINT
}

#[cfg(test)]
mod tests {
    use testobjects::{NodeBuilder, PodBuilder};

    use super::*;
    use crate::autoscaler::case::moment;

    fn node() -> NodeBuilder {
        let node = testobjects::node("n-1").label("pool", "n").taint("gpu:NoSchedule");
        node.allocatable("cpu", "1").allocatable("pods", "9")
    }

    fn cluster(node: NodeBuilder, pods: impl IntoIterator<Item = PodBuilder>) -> CaseCluster {
        let mut objects = vec![node.object()];
        objects.extend(pods.into_iter().map(PodBuilder::object));
        CaseCluster::new(Autoscaler::new(autoscaler::Settings::default(), moment(0)), &objects)
    }

    fn pod(name: &str, owner: &str) -> PodBuilder {
        testobjects::pod(name)
            .namespace("b")
            .created("2025-12-31T00:00:00Z")
            .owner(owner, "o")
            .set("spec.tolerations", json!([{"operator": "Exists"}]))
            .request("cpu", "600m")
            .phase("Pending")
    }

    fn take_events(cluster: &mut CaseCluster) -> Vec<String> {
        let events = std::mem::take(&mut cluster.events);
        events.iter().map(|one| format!("{} {:?} {} {}", one.at, one.what, one.pod, one.node)).collect()
    }

    #[test]
    fn the_highest_priority_is_bound_first_and_an_evicted_pod_is_recreated() {
        let (low, high) = (pod("a", "ReplicaSet"), pod("z", "ReplicaSet").priority(7));
        let mut cluster = cluster(node(), [low, high]);
        cluster.bind_all(moment(10), 10);
        assert_eq!(take_events(&mut cluster), ["10 PodBound b/z n-1"]);
        let name = NamespacedName { namespace: "b".into(), name: "z".into() };
        cluster.apply_actions(&[Action::Evict { pod: name, grace: 0 }], true, moment(15), 15);
        assert_eq!(take_events(&mut cluster), ["15 PodEvicted b/z n-1", "15 PodCreated b/z-r "]);
        let new = NamespacedName { namespace: "b".into(), name: "z-r".into() };
        assert_eq!(cluster.owner_name(&new), "b/o");
        cluster.bind_all(moment(20), 20);
        assert_eq!(
            take_events(&mut cluster),
            ["20 PodBound b/z-r n-1"],
            "the recreated pod has the same priority"
        );
    }

    #[test]
    fn an_evicted_daemon_pod_is_not_recreated_and_a_node_is_removed_with_its_pods() {
        let pods = [pod("d", "DaemonSet"), pod("r", "ReplicaSet")];
        let mut cluster = cluster(node(), pods.map(|pod| pod.on("n-1")));
        let name = NamespacedName { namespace: "b".into(), name: "d".into() };
        cluster.apply_actions(&[Action::Evict { pod: name, grace: 0 }], true, moment(5), 5);
        assert_eq!(take_events(&mut cluster), ["5 PodEvicted b/d n-1"]);
        cluster.remove_node("n-1");
        assert!(cluster.pods.is_empty() && !cluster.has_node("n-1"));
    }

    #[test]
    fn an_update_keeps_the_autoscalers_own_taints() {
        let mut cluster = cluster(node(), []);
        cluster.force_taints(&["n-1".to_owned()], &[], moment(0));
        let tainted = json!([{"key": "tpu", "effect": "NoSchedule"}]);
        cluster.update_node(&node().set("spec.taints", tainted).label("pool", "m").object());
        let node = cluster.nodes["n-1"].value().unwrap();
        let keys: Vec<String> =
            taints(&node).iter().map(|taint| taint["key"].as_str().unwrap().to_owned()).collect();
        assert_eq!(
            (keys, &node["metadata"]["labels"]["pool"]),
            (vec!["tpu".to_owned(), SOFT_TAINT.to_owned()], &json!("m"))
        );
        cluster.force_taints(&[], &["n-1".to_owned()], moment(0));
        assert_eq!((cluster.soft_tainted().len(), cluster.hard_tainted().len()), (0, 1));
    }
}
