//! The cluster state of the reference scheduler: lists of objects, and the state that depends on the order of events:
//! the order of nodes, and the number of nodes that had an image when a node was last snapshotted.

use std::collections::{BTreeMap, BTreeSet};

use model::What;

use super::objects::{Labels, Namespace, Node, Pod, Service, Set};

/// The cluster.
#[derive(Clone, Default)]
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<Node>,
    pub(crate) pods: Vec<Pod>,
    pub(crate) namespaces: Vec<Namespace>,
    pub(crate) services: Vec<Service>,
    pub(crate) replica_sets: Vec<Set>,
    /// Zones in the order first seen, each with its nodes in the order added.
    zones: Vec<(String, Vec<String>)>,
    /// Node names in the order of the last snapshot.
    order: Vec<String>,
    /// By name: the size reported first, and the nodes that have it.
    images: BTreeMap<String, (i64, BTreeSet<String>)>,
    /// Nodes that changed since the last snapshot.
    changed: BTreeSet<String>,
    /// By node and image: the size, and the number of nodes that had it when the node was last snapshotted.
    snapshot_images: BTreeMap<String, BTreeMap<String, (i64, usize)>>,
}

impl Cluster {
    pub(crate) fn apply(&mut self, change: &What) {
        let object = change.object();
        let (json, meta) = (object.as_str(), object.meta());
        let is_deleted = matches!(change, What::Deleted(_));
        let same = |namespace: &str, name: &str| *namespace == *meta.namespace && *name == *meta.name;
        match &*meta.kind {
            "Pod" => self.apply_pod(Pod::read(json), is_deleted),
            "Node" => self.apply_node(read(json), is_deleted),
            "Namespace" => {
                self.namespaces.retain(|one| one.metadata.name != meta.name);
                self.namespaces.extend((!is_deleted).then(|| read(json)));
            }
            "Service" => {
                self.services.retain(|one: &Service| !same(&one.metadata.namespace, &one.metadata.name));
                self.services.extend((!is_deleted).then(|| read(json)));
            }
            "ReplicaSet" => {
                self.replica_sets.retain(|one: &Set| !same(&one.metadata.namespace, &one.metadata.name));
                self.replica_sets.extend((!is_deleted).then(|| read(json)));
            }
            other => panic!("the test has no {other}"),
        }
    }

    /// Assumes a pod on a node.
    pub(crate) fn assume(&mut self, namespace: &str, name: &str, node: &str) {
        let pod = self.pods.iter_mut().find(|pod| pod.is(namespace, name));
        pod.expect("the pod exists").assumed = Some(node.to_owned());
        self.changed.insert(node.to_owned());
    }

    pub(crate) fn pod(&self, namespace: &str, name: &str) -> Option<&Pod> {
        self.pods.iter().find(|pod| pod.is(namespace, name))
    }

    pub(crate) fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.metadata.name == name)
    }

    pub(crate) fn pods_on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.iter().filter(move |pod| pod.node() == Some(node))
    }

    /// Every pod on an existing node, with that node.
    pub(crate) fn placed(&self) -> impl Iterator<Item = (&Pod, &Node)> {
        self.pods.iter().filter_map(|pod| Some((pod, self.node(pod.node()?)?)))
    }

    /// The cluster with the other pods nominated to a node added to it, except those of lower priority; `None` if there
    /// are none.
    pub(crate) fn with_nominated_pods(&self, node: &str, pod: &Pod) -> Option<Cluster> {
        let is_nominated = |other: &Pod| {
            other.node().is_none()
                && other.status.nominated_node_name == node
                && other.spec.priority >= pod.spec.priority
                && !other.is(&pod.metadata.namespace, &pod.metadata.name)
        };
        self.pods.iter().any(is_nominated).then(|| {
            let mut with_nominated = self.clone();
            for other in with_nominated.pods.iter_mut().filter(|other| is_nominated(other)) {
                other.assumed = Some(node.to_owned());
                other.only_nominated = true;
            }
            with_nominated
        })
    }

    pub(crate) fn namespace_labels(&self, name: &str) -> Labels {
        let found = self.namespaces.iter().find(|namespace| namespace.metadata.name == name);
        found.map(|namespace| namespace.metadata.labels.clone()).unwrap_or_default()
    }

    /// All nodes in the scheduler's order, as of the last snapshot.
    pub(crate) fn in_order(&self) -> Vec<&Node> {
        self.order.iter().map(|name| self.node(name).expect("the order lists existing nodes")).collect()
    }

    /// An image's size, and the number of nodes that had it when this node was last snapshotted.
    pub(crate) fn image(&self, node: &str, image: &str) -> Option<(i64, usize)> {
        self.snapshot_images.get(node)?.get(image).copied()
    }

    /// Updates the snapshot, as before each scheduling cycle.
    pub(crate) fn update_snapshot(&mut self) {
        for name in std::mem::take(&mut self.changed) {
            let images_on_node = self.images.iter().filter(|(_, (_, nodes))| nodes.contains(&name));
            let image_states =
                images_on_node.map(|(image, (size, nodes))| (image.clone(), (*size, nodes.len()))).collect();
            self.snapshot_images.insert(name, image_states);
        }
        // The order is rebuilt only if a node was added or removed; a node that was removed and added again keeps its
        // position.
        let listed: BTreeSet<&String> = self.order.iter().collect();
        let node_names: BTreeSet<&String> = self.nodes.iter().map(|node| &node.metadata.name).collect();
        if listed != node_names {
            let max = self.zones.iter().map(|(_, nodes)| nodes.len()).max().unwrap_or(0);
            let round = |round| self.zones.iter().filter_map(move |(_, nodes)| nodes.get(round)).cloned();
            self.order = (0..max).flat_map(round).collect();
        }
    }

    fn apply_pod(&mut self, mut pod: Pod, is_deleted: bool) {
        let (namespace, name) = (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        if let Some(old) = self.pod(&namespace, &name) {
            // Updates of an assumed pod are ignored until its binding is observed.
            if old.assumed.is_some() && pod.spec.node_name.is_empty() && !is_deleted {
                return;
            }
            pod.assumed = old.assumed.clone();
            self.changed.extend(old.node().map(str::to_owned).into_iter().collect::<Vec<_>>());
        }
        self.changed.extend(pod.node().map(str::to_owned));
        if !pod.spec.node_name.is_empty() {
            pod.assumed = None;
        }
        self.pods.retain(|other| !other.is(&namespace, &name));
        self.pods.extend((!is_deleted).then_some(pod));
    }

    fn apply_node(&mut self, node: Node, is_deleted: bool) {
        let name = node.metadata.name.clone();
        let old = self.node(&name).map(zone);
        let new = (!is_deleted).then(|| zone(&node));
        if old != new {
            if let Some(old) = old {
                self.zones.iter_mut().filter(|(zone, _)| *zone == old).for_each(|(_, nodes)| {
                    nodes.retain(|other| *other != name);
                });
                self.zones.retain(|(_, nodes)| !nodes.is_empty());
            }
            if let Some(new) = new {
                if !self.zones.iter().any(|(zone, _)| *zone == new) {
                    self.zones.push((new.clone(), Vec::new()));
                }
                let found =
                    self.zones.iter_mut().find(|(zone, _)| *zone == new).expect("the zone was just added");
                found.1.push(name.clone());
            }
        }
        for (_, nodes) in self.images.values_mut() {
            nodes.remove(&name);
        }
        self.images.retain(|_, (_, nodes)| !nodes.is_empty());
        if !is_deleted {
            for image in &node.status.images {
                for image_name in &image.names {
                    let state = self.images.entry(image_name.clone());
                    state.or_insert((image.size_bytes, BTreeSet::new())).1.insert(name.clone());
                }
            }
        }
        self.nodes.retain(|other| other.metadata.name != name);
        self.nodes.extend((!is_deleted).then_some(node));
        self.changed.insert(name);
    }
}

fn read<T: serde::de::DeserializeOwned>(json: &str) -> T {
    serde_json::from_str(json).expect("the object is valid")
}

fn zone(node: &Node) -> String {
    let label = |old: &str, new: &str| node.label(old).or(node.label(new)).unwrap_or_default().to_owned();
    let region = label("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region");
    region + "\0" + &label("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
}
