//! The cluster as the scheduler knows it: nodes in its order, the pods on them, those promised to them, and all other
//! objects that a decision depends on.

mod nodes;
mod people;
mod registry;
mod relations;
mod tally;
mod topology;
mod wishes;

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::amounts::ScalarNames;
use model::{Moment, NamespacedName};
use rustc_hash::FxHashMap;

use super::ids::{NodeId, PodId};
use super::node::NodeSpec;
use super::pod::{Pod, Shape};
use super::storage::Storage;
use people::People;
use registry::Registry;
use wishes::Wishes;

pub(super) use nodes::{ImageView, Nodes};
pub(super) use people::{By, Identity, Meaning, Nodes as CountedNodes, Question, TallyId, Where, Who};
pub(super) use relations::{RelationKind, Relations};
pub(super) use tally::Tally;
pub(super) use topology::{KeyId, Place, Topology};
pub(super) use wishes::{How, WishId, Wishers};

/// The cluster as the scheduler knows it.
#[derive(Debug, Default)]
pub(super) struct World {
    pub scalars: ScalarNames,
    pub nodes: Nodes,
    pub topology: Topology,
    pub relations: Relations,
    pub storage: Storage,
    pods: Vec<Option<Known>>,
    free_pods: Vec<PodId>,
    /// Pods by namespace, then by name.
    by_name: FxHashMap<Arc<str>, FxHashMap<Arc<str>, PodId>>,
    people: People,
    /// How many pods on nodes have each priority.
    priorities: BTreeMap<i32, usize>,
    wishes: Wishes,
    shapes: Registry<Arc<Shape>, ShapeCard>,
    /// What nodes by themselves are asked about for those.
    local_shapes: Registry<Arc<Shape>, ()>,
    /// Changes with whatever a plan for a pod depends on, but for pods coming and going.
    plans: u64,
}

/// A pod, and what it is to the cluster.
#[derive(Debug)]
struct Known {
    pod: Pod,
    identity: u32,
    shape: u32,
    /// The node it is on, or assumed to be on.
    on: Option<NodeId>,
    assumed: bool,
}

#[derive(Debug)]
struct ShapeCard {
    /// As much of it as nodes by themselves are asked about.
    local: u32,
    wishes: Vec<WishId>,
}

impl people::Places for (&Nodes, &Topology) {
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeSpec)> {
        self.0.present()
    }

    fn topology(&self) -> &Topology {
        self.1
    }
}

impl World {
    // Pods.

    /// The pod of that name.
    pub(super) fn find(&self, namespace: &str, name: &str) -> Option<PodId> {
        self.by_name.get(namespace)?.get(name).copied()
    }

    pub(super) fn pod(&self, id: PodId) -> &Pod {
        &self.known(id).pod
    }

    /// The node a pod is on, or assumed to be on.
    pub(super) fn node_of(&self, id: PodId) -> Option<NodeId> {
        self.known(id).on
    }

    /// Whether a pod is only assumed to be on its node.
    pub(super) fn is_assumed(&self, id: PodId) -> bool {
        self.known(id).assumed
    }

    /// As much of a pod's shape as nodes by themselves are asked about, and its number.
    pub(super) fn local_shape(&self, id: PodId) -> (u32, &Arc<Shape>) {
        let local = self.shapes.value(self.known(id).shape).local;
        (local, self.local_shapes.key(local))
    }

    /// What a plan for a pod may depend on of the pod itself: its shape and its identity, by numbers that are never
    /// given out again.
    pub(super) fn kind_of(&self, id: PodId) -> (u64, u64) {
        let known = self.known(id);
        (self.shapes.serial(known.shape), self.people.serial(known.identity))
    }

    /// Every pod, by number.
    #[cfg(test)]
    pub(super) fn pods(&self) -> impl Iterator<Item = (PodId, &Pod)> {
        let known = self.pods.iter().enumerate();
        known.filter_map(|(id, known)| Some((PodId(id as u32), &known.as_ref()?.pod)))
    }

    /// A pod is known from now on; it is on its node if it names one.
    pub(super) fn add_pod(&mut self, mut pod: Pod) -> PodId {
        let identity = Identity { namespace: pod.name.namespace.clone(), labels: pod.labels.clone() };
        let identity = self.people.identify(&Arc::new(identity));
        let shape = self.take_shape(&pod.shape);
        // Equal shapes are kept once.
        pod.shape = self.shapes.key(shape).clone();
        let id = self.free_pods.pop().unwrap_or(PodId(self.pods.len() as u32));
        let NamespacedName { namespace, name } = pod.name.clone();
        let node = pod.node_name.clone();
        let known = Some(Known { pod, identity, shape, on: None, assumed: false });
        if id.index() == self.pods.len() {
            self.pods.push(known);
        } else {
            self.pods[id.index()] = known;
        }
        self.by_name.entry(namespace).or_default().insert(name, id);
        if let Some(node) = node {
            self.put(id, &node, false);
        }
        id
    }

    /// A pod is gone.
    pub(super) fn remove_pod(&mut self, id: PodId) -> Pod {
        self.take_off(id);
        let known = self.pods[id.index()].take().expect("a pod's number is used while it is known");
        self.free_pods.push(id);
        let NamespacedName { namespace, name } = &known.pod.name;
        if let Some(others) = self.by_name.get_mut(namespace) {
            others.remove(name);
            if others.is_empty() {
                self.by_name.remove(namespace);
            }
        }
        self.people.forget(known.identity);
        self.give_back_shape(known.shape);
        known.pod
    }

    /// A pod changed. It keeps its number; an assumed place is kept as long as the pod has none of its own.
    pub(super) fn change_pod(&mut self, id: PodId, mut pod: Pod) {
        // By name: a node that is not there loses its number with the last pod on it.
        let assumed = self.known(id).assumed.then(|| self.known(id).on).flatten();
        let assumed = assumed.map(|node| self.nodes.name(node).clone());
        self.take_off(id);
        let identity = Identity { namespace: pod.name.namespace.clone(), labels: pod.labels.clone() };
        let new_identity = self.people.identify(&Arc::new(identity));
        let new_shape = self.take_shape(&pod.shape);
        pod.shape = self.shapes.key(new_shape).clone();
        let node_name = pod.node_name.clone();
        let known = self.pods[id.index()].as_mut().expect("a pod's number is used while it is known");
        let (old_identity, old_shape) = (known.identity, known.shape);
        (known.pod, known.identity, known.shape, known.assumed) = (pod, new_identity, new_shape, false);
        self.people.forget(old_identity);
        self.give_back_shape(old_shape);
        match (node_name, assumed) {
            (Some(node), _) => self.put(id, &node, false),
            (None, Some(node)) => self.put(id, &node, true),
            (None, None) => {}
        }
    }

    /// A pod is taken to be on a node, before it is seen there.
    pub(super) fn assume(&mut self, id: PodId, node: NodeId) {
        self.take_off(id);
        self.put_on(id, node, true);
    }

    /// A pod is not taken to be on its node any more.
    pub(super) fn forget(&mut self, id: PodId) {
        if self.known(id).assumed {
            self.take_off(id);
        }
    }

    pub(super) fn set_started(&mut self, id: PodId, since: Moment) {
        let known = self.pods[id.index()].as_mut().expect("a pod's number is used while it is known");
        known.pod.started = Some(since.nanos());
    }

    pub(super) fn set_nominated(&mut self, id: PodId, node: Option<Arc<str>>) {
        let known = self.pods[id.index()].as_mut().expect("a pod's number is used while it is known");
        known.pod.nominated_node = node;
    }

    /// Whether a pod of a lower priority is on any node, be it one that is not there.
    pub(super) fn has_weaker(&self, priority: i32) -> bool {
        self.priorities.first_key_value().is_some_and(|(lowest, _)| *lowest < priority)
    }

    fn known(&self, id: PodId) -> &Known {
        self.pods[id.index()].as_ref().expect("a pod's number is used while it is known")
    }

    fn put(&mut self, id: PodId, node: &Arc<str>, assumed: bool) {
        let node = self.nodes.by_name_or_ghost(node);
        self.put_on(id, node, assumed);
    }

    fn put_on(&mut self, id: PodId, node: NodeId, assumed: bool) {
        let known = self.pods[id.index()].as_mut().expect("a pod's number is used while it is known");
        known.on = Some(node);
        known.assumed = assumed;
        let (identity, living, shape) = (known.identity, !known.pod.terminating, known.shape);
        self.nodes.load(node, |load| load.add(id, &known.pod));
        *self.priorities.entry(known.pod.priority()).or_default() += 1;
        let attached = self.nodes.is_present(node);
        self.people.arrive(identity, node, living, attached);
        if attached {
            self.wishes.count(&self.shapes.value(shape).wishes, node, true, &self.topology);
            self.place_volumes(id, node);
        }
    }

    fn take_off(&mut self, id: PodId) {
        let known = self.pods[id.index()].as_mut().expect("a pod's number is used while it is known");
        let Some(node) = known.on.take() else { return };
        known.assumed = false;
        let (identity, living, shape) = (known.identity, !known.pod.terminating, known.shape);
        self.nodes.load(node, |load| {
            load.remove(id, &known.pod);
        });
        let alike = self.priorities.get_mut(&known.pod.priority()).expect("who is on a node is counted");
        *alike -= 1;
        if *alike == 0 {
            self.priorities.remove(&known.pod.priority());
        }
        let attached = self.nodes.is_present(node);
        self.people.depart(identity, node, living, attached);
        if attached {
            self.wishes.count(&self.shapes.value(shape).wishes, node, false, &self.topology);
            self.storage.displace(id);
        }
        self.nodes.bury(node);
    }

    fn place_volumes(&mut self, id: PodId, node: NodeId) {
        let pod = &self.pods[id.index()].as_ref().expect("who is on a node is known").pod;
        if let Some(volumes) = &pod.volumes {
            self.storage.place(id, self.nodes.name(node), &pod.name.namespace, volumes);
        }
    }

    fn take_shape(&mut self, shape: &Arc<Shape>) -> u32 {
        let World { shapes, local_shapes, wishes, topology, nodes, .. } = self;
        let (id, new) = shapes.take(shape.clone(), |shape| ShapeCard {
            local: local_shapes.take(Arc::new(shape.local()), |_| ()).0,
            wishes: Vec::new(),
        });
        if new && shape.has_affinity() {
            let key =
                |name: &Arc<str>| topology.key(name, nodes.present().map(|(id, spec)| (id, &spec.labels)));
            shapes.value_mut(id).wishes = wishes.take(shape, key);
        }
        id
    }

    fn give_back_shape(&mut self, shape: u32) {
        if let Some((_, card)) = self.shapes.give_back(shape) {
            self.local_shapes.give_back(card.local);
            self.wishes.give_back(&card.wishes);
        }
    }

    // Nodes.

    /// A node came, or changed.
    pub(super) fn set_node(&mut self, spec: NodeSpec) -> NodeId {
        let id = self.nodes.by_name_or_ghost(&spec.name);
        let old = self.nodes.is_present(id).then(|| self.nodes.spec(id));
        let elsewhere = old.is_none_or(|old| old.labels != spec.labels || old.taints != spec.taints);
        let on_it = self.identities_on(id);
        let was_there = self.nodes.is_present(id);
        if elsewhere && was_there {
            self.leave(id, &on_it);
        }
        self.nodes.set(id, spec);
        if !was_there {
            for pod in self.nodes.load_of(id).pods.clone() {
                self.place_volumes(pod, id);
            }
        }
        if elsewhere {
            let spec = self.nodes.spec(id);
            self.topology.enter(id, &spec.labels);
            self.people.node_came(id, spec, &on_it, &self.topology);
            self.count_wishes(id, true);
        }
        id
    }

    /// A node is gone. Pods that were on it stay, but nobody sees them there.
    pub(super) fn remove_node(&mut self, name: &str) {
        let Some(id) = self.nodes.by_name(name) else { return };
        let on_it = self.identities_on(id);
        self.leave(id, &on_it);
        for pod in &self.nodes.load_of(id).pods {
            self.storage.displace(*pod);
        }
        self.nodes.remove(id);
        self.nodes.bury(id);
    }

    fn leave(&mut self, id: NodeId, on_it: &[u32]) {
        self.count_wishes(id, false);
        self.people.node_goes(id, on_it);
        self.topology.leave(id);
    }

    fn identities_on(&self, id: NodeId) -> Vec<u32> {
        self.nodes.load_of(id).pods.iter().map(|pod| self.known(*pod).identity).collect()
    }

    fn count_wishes(&mut self, id: NodeId, came: bool) {
        for pod in &self.nodes.load_of(id).pods {
            let shape = self.pods[pod.index()].as_ref().expect("who is on a node is known").shape;
            self.wishes.count(&self.shapes.value(shape).wishes, id, came, &self.topology);
        }
    }

    // Counts.

    /// The label of that name.
    pub(super) fn key(&mut self, name: &Arc<str>) -> KeyId {
        let nodes = &self.nodes;
        self.topology.key(name, nodes.present().map(|(id, spec)| (id, &spec.labels)))
    }

    /// The tally that answers a question, kept up to date from now on.
    pub(super) fn tally(&mut self, question: Question) -> TallyId {
        self.people.tally(question, &(&self.nodes, &self.topology))
    }

    pub(super) fn count(&self, id: TallyId) -> &Tally {
        self.people.count(id)
    }

    /// Whether a tally counts pods on a node.
    pub(super) fn counts_on(&self, id: TallyId, node: NodeId) -> bool {
        self.people.counts_on(id, node)
    }

    /// Of the places that a tally counts on: how many there are, and the fewest pods at one of them, `but` one apart.
    pub(super) fn fewest(&self, id: TallyId, but: Option<usize>) -> (usize, Option<u32>) {
        self.people.fewest(id, but)
    }

    pub(super) fn wishers(&self, id: WishId) -> &Wishers {
        self.wishes.wishers(id)
    }

    pub(super) fn how(&self, id: WishId) -> How {
        self.wishes.wish(id).how
    }

    /// The wishes of placed pods that mean a pod like this.
    pub(super) fn wishes_about(&self, pod: &Pod) -> Vec<WishId> {
        let namespace = &pod.name.namespace;
        self.wishes.about(namespace, &pod.labels, self.relations.namespace_labels(namespace))
    }

    /// Changes with whatever a plan for a pod depends on, but for pods coming and going.
    pub(super) fn plan_generation(&self) -> (u64, u64) {
        (self.plans, self.wishes.generation)
    }

    /// Plans made before do not hold any more.
    pub(super) fn plans_are_void(&mut self) {
        self.plans += 1;
    }

    /// Forgets every tally: each is counted afresh when it is asked for.
    pub(super) fn forget_tallies(&mut self) {
        self.people.drop_tallies();
        self.plans += 1;
    }

    /// Forgets tallies that nobody asked for in a long time.
    pub(super) fn tidy(&mut self) {
        if self.people.drop_unused() {
            self.plans += 1;
        }
    }
}
