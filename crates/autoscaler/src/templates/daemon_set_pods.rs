//! The pods that DaemonSets run on a new node.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::amounts::ScalarResourceNames;
use kubernetes::daemon_sets::{add_daemon_pod_tolerations, node_should_run_daemon_pod};
use kubernetes::objects::PodView;
use model::{NamespacedName, Object};
use scheduler::node::Node;
use serde_json::{Map, Value, json};

use crate::informer_cache::DaemonSet;
use crate::pod::Pod;

/// The DaemonSets, each with the pod that it creates.
#[derive(Debug, Default)]
pub(super) struct DaemonSetPods {
    /// By name.
    sets: Vec<(Arc<DaemonSet>, Pod)>,
    revision: u64,
}

impl DaemonSetPods {
    /// Updates the list after DaemonSets were added, changed or deleted.
    pub(super) fn update(
        &mut self,
        sets: &BTreeMap<NamespacedName, Arc<DaemonSet>>,
        scalars: &mut ScalarResourceNames,
    ) {
        let existing = self.sets.iter().map(|(set, _)| set);
        if self.sets.len() == sets.len() && existing.zip(sets.values()).all(|(a, b)| Arc::ptr_eq(a, b)) {
            return;
        }
        self.revision += 1;
        let mut old = std::mem::take(&mut self.sets).into_iter().peekable();
        for (name, set) in sets {
            while old.next_if(|(old_set, _)| old_set.name < *name).is_some() {}
            let unchanged = old.next_if(|(existing, _)| Arc::ptr_eq(existing, set));
            self.sets.push(unchanged.unwrap_or_else(|| {
                (set.clone(), Pod::new(Arc::new(PodView::parse(&pod_for(set))), scalars))
            }));
        }
    }

    /// Changes whenever the DaemonSets change.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// The pods of DaemonSets that run on a node but have no pod there yet, by name.
    pub(super) fn missing_pods<'a>(
        &'a self,
        existing_pods: &'a [Arc<Pod>],
        node: &'a Node,
    ) -> impl Iterator<Item = &'a Pod> {
        let has_pod = |set: &DaemonSet| {
            let mut controllers = existing_pods.iter().filter_map(|pod| pod.controller());
            controllers.any(|owner| *owner.kind == *"DaemonSet" && *owner.uid == *set.uid)
        };
        let missing = self.sets.iter().filter(move |(set, _)| !has_pod(set));
        missing.map(|(_, pod)| pod).filter(|pod| runs_on(pod, node))
    }
}

/// Whether a DaemonSet pod is `system-node-critical` and may preempt others.
pub(super) fn is_critical_and_may_preempt(pod: &Pod) -> bool {
    &*pod.spec.priority_class_name == "system-node-critical"
        && matches!(&*pod.spec.preemption_policy, "" | "PreemptLowerPriority")
}

/// Whether the DaemonSet controller runs its pod on a node. A pod template with a `nodeName` matches no new node.
fn runs_on(pod: &Pod, node: &Node) -> bool {
    let scheduling_spec = &pod.scheduler_pod.spec;
    pod.scheduler_pod.read_error.is_none()
        && pod.node_name.is_none()
        && node_should_run_daemon_pod(
            &scheduling_spec.required_node_affinity,
            &scheduling_spec.tolerations,
            &node.name,
            &node.labels,
            &node.taints,
        )
        .should_run
}

/// The pod that a DaemonSet creates.
pub(super) fn pod_for(set: &DaemonSet) -> Object {
    let mut object = set.object.value().unwrap_or_default();
    let mut take = |path: &str| match object.pointer_mut(path).map(Value::take) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let (mut metadata, mut spec) = (take("/spec/template/metadata"), take("/spec/template/spec"));
    metadata.insert("name".into(), format!("{}-pod", set.name.name).into());
    metadata.insert("namespace".into(), (*set.name.namespace).into());
    metadata.insert("uid".into(), format!("{}-pod", set.uid).into());
    metadata.insert(
        "ownerReferences".into(),
        json!([{"kind": "DaemonSet", "uid": *set.uid, "name": *set.name.name, "controller": true}]),
    );

    add_daemon_pod_tolerations(&mut spec);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    Object::from_trusted(pod.to_string())
}
