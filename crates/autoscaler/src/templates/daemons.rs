//! Pods that DaemonSets would run on a new node.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::amounts::ScalarNames;
use kubernetes::daemons::{add_tolerations, wants};
use model::{NamespacedName, Object};
use serde_json::{Map, Value, json};

use crate::cluster::DaemonSet;
use crate::node::Node;
use crate::pod::Pod;

/// The DaemonSets, each with the pod that it would run.
#[derive(Debug, Default)]
pub(super) struct Daemons {
    /// By name.
    daemons: Vec<(Arc<DaemonSet>, Pod)>,
    revision: u64,
}

impl Daemons {
    /// Takes note of DaemonSets that came, changed or went.
    pub(super) fn update(
        &mut self,
        sets: &BTreeMap<NamespacedName, Arc<DaemonSet>>,
        scalars: &mut ScalarNames,
    ) {
        let known = self.daemons.iter().map(|(set, _)| set);
        if self.daemons.len() == sets.len() && known.zip(sets.values()).all(|(a, b)| Arc::ptr_eq(a, b)) {
            return;
        }
        self.revision += 1;
        let mut old = std::mem::take(&mut self.daemons).into_iter().peekable();
        for (name, set) in sets {
            while old.next_if(|(gone, _)| gone.name < *name).is_some() {}
            let kept = old.next_if(|(known, _)| Arc::ptr_eq(known, set));
            self.daemons.push(kept.unwrap_or_else(|| (set.clone(), Pod::read(&pod_of(set), scalars))));
        }
    }

    /// Changes with the DaemonSets.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Pods of those DaemonSets that would run one on a node and have none there, by name.
    pub(super) fn missing<'a>(
        &'a self,
        there: &'a [Arc<Pod>],
        node: &'a Node,
    ) -> impl Iterator<Item = &'a Pod> {
        let is_there = |set: &DaemonSet| {
            let mut controllers = there.iter().filter_map(|pod| pod.controller.as_ref());
            controllers.any(|owner| owner.kind == "DaemonSet" && *owner.uid == *set.uid)
        };
        let missing = self.daemons.iter().filter(move |(set, _)| !is_there(set));
        missing.map(|(_, pod)| pod).filter(|pod| runs_on(pod, node))
    }
}

/// Whether a pod of a DaemonSet takes the place of others where there is not enough room.
pub(super) fn makes_room_for_itself(pod: &Pod) -> bool {
    &*pod.priority_class == "system-node-critical"
        && matches!(&*pod.preemption_policy, "" | "PreemptLowerPriority")
}

/// Whether the DaemonSet controller would run its pod on a node. One that is meant for a node of a certain name does not
/// mean a new one.
fn runs_on(pod: &Pod, node: &Node) -> bool {
    let shape = &pod.spec.shape;
    pod.spec.trouble.is_none()
        && pod.node.is_none()
        && wants(&shape.required_nodes, &shape.tolerations, &node.name, &node.labels, &node.spec.taints).run
}

/// The pod that a DaemonSet would make.
pub(super) fn pod_of(set: &DaemonSet) -> Object {
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

    add_tolerations(&mut spec);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    Object::trusted(pod.to_string())
}
