//! The cluster as one loop of the autoscaler sees it, to try things in: what is tried can be taken back.

use std::cell::Cell;
use std::sync::Arc;

use kubernetes::amounts::Amounts;
use scheduler::Settings as SchedulerSettings;
use scheduler::ids::{NodeId, PodId};
use scheduler::trial::{Refused, Trial};

use super::node::Node;
use super::pod::Pod;

/// The nodes and pods that a loop works with.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub trial: Trial,
    /// By number.
    nodes: Vec<Option<Arc<Node>>>,
    /// By number.
    pods: Vec<Option<Arc<Pod>>>,
    /// When a pod was last put somewhere by this loop; zero for those that are where they were found.
    moved: Vec<u32>,
    moves: u32,
    /// The nodes in the order in which they are looked at.
    order: Vec<NodeId>,
    /// Where in that order the last search ended.
    last_match: usize,
    done: Vec<Step>,
    /// How many of the steps are about nodes.
    changes_of_nodes: usize,
}

/// A place in what was done, to go back to.
#[derive(Debug)]
#[must_use = "a fork is reverted or committed"]
pub(crate) struct Fork(usize);

/// Something that was done, with what is needed to take it back.
#[derive(Debug)]
enum Step {
    NodeAdded(NodeId),
    NodeRemoved { node: Arc<Node>, was: Was, place: usize },
    NodeChanged { was: Was, before: Arc<Node> },
    PodAdded { pod: PodId, on: Option<Was> },
    PodMoved { pod: PodId, from: Option<Was>, to: Option<Was>, moved: u32 },
}

/// A node and its generation before something was done to it.
#[derive(Clone, Copy, Debug)]
struct Was {
    id: NodeId,
    generation: u64,
}

impl Snapshot {
    pub(crate) fn new(settings: &SchedulerSettings) -> Snapshot {
        Snapshot {
            trial: Trial::new(settings),
            nodes: Vec::new(),
            pods: Vec::new(),
            moved: Vec::new(),
            moves: 0,
            order: Vec::new(),
            last_match: 0,
            done: Vec::new(),
            changes_of_nodes: 0,
        }
    }

    // What is there.

    /// The nodes in the order in which they are looked at.
    pub(crate) fn order(&self) -> &[NodeId] {
        &self.order
    }

    pub(crate) fn node(&self, id: NodeId) -> &Arc<Node> {
        self.nodes[id.index()].as_ref().expect("a node's number is used while it is there")
    }

    /// A node, if there is one of that number.
    pub(crate) fn get_node(&self, id: NodeId) -> Option<&Arc<Node>> {
        self.nodes.get(id.index())?.as_ref()
    }

    /// The node of that name.
    pub(crate) fn find(&self, name: &str) -> Option<NodeId> {
        self.trial.node(name)
    }

    pub(crate) fn pod(&self, id: PodId) -> &Arc<Pod> {
        self.pods[id.index()].as_ref().expect("a pod's number is used while it is there")
    }

    /// What the pods on a node ask for.
    pub(crate) fn requested(&self, id: NodeId) -> &Amounts {
        self.trial.requested(id)
    }

    /// The pods on a node: those found there in the order of lists (by age, then by name), those that were promised it,
    /// then those that were put there.
    pub(crate) fn pods_on(&self, id: NodeId) -> Vec<PodId> {
        let mut pods = self.trial.load(id).pods.clone();
        let place = |id: &PodId| {
            let pod = self.pod(*id);
            (self.moved[id.index()], pod.node.is_none(), pod.created, &pod.name)
        };
        pods.sort_by_cached_key(place);
        pods
    }

    // What is known for good. Only between loops, when nothing is being tried.

    /// A node came, or changed.
    pub(crate) fn set_node(&mut self, node: Arc<Node>) -> NodeId {
        let id = self.trial.set_node(node.spec.clone());
        put(&mut self.nodes, id.index(), node);
        id
    }

    /// A node is gone.
    pub(crate) fn forget_node(&mut self, id: NodeId) {
        self.trial.remove_node(id);
        self.nodes[id.index()] = None;
    }

    /// A pod came, on no node.
    pub(crate) fn add_pod(&mut self, pod: Arc<Pod>) -> PodId {
        let id = self.trial.add_pod((*pod.spec).clone());
        put(&mut self.pods, id.index(), pod);
        if self.moved.len() < self.pods.len() {
            self.moved.resize(self.pods.len(), 0);
        }
        self.moved[id.index()] = 0;
        id
    }

    /// A pod changed in nothing that matters to an autoscaler.
    pub(crate) fn renew_pod(&mut self, id: PodId, pod: Arc<Pod>) {
        put(&mut self.pods, id.index(), pod);
    }

    /// A pod is gone.
    pub(crate) fn forget_pod(&mut self, id: PodId) {
        self.trial.remove_pod(id);
        self.pods[id.index()] = None;
    }

    /// Begins a loop with these nodes.
    pub(crate) fn begin(&mut self, order: Vec<NodeId>) {
        debug_assert!(self.done.is_empty(), "the last loop took everything back");
        self.order = order;
    }

    /// Ends a loop: all that was tried is taken back.
    pub(crate) fn end(&mut self) {
        self.revert(Fork(0));
        self.moves = 0;
    }

    /// Whether nodes were added, removed or changed that are not so in the cluster.
    pub(crate) fn has_other_nodes(&self) -> bool {
        self.changes_of_nodes > 0
    }

    // What is tried.

    /// From here on, what is done can be taken back.
    pub(crate) fn fork(&self) -> Fork {
        Fork(self.done.len())
    }

    /// Keeps what was done since.
    pub(crate) fn commit(&self, _fork: Fork) {}

    /// Takes back all that was done since.
    pub(crate) fn revert(&mut self, fork: Fork) {
        while self.done.len() > fork.0 {
            let step = self.done.pop().expect("there are more than that");
            let is_about_node = !matches!(step, Step::PodAdded { .. } | Step::PodMoved { .. });
            self.changes_of_nodes -= usize::from(is_about_node);
            match step {
                Step::NodeAdded(id) => {
                    self.trial.remove_node(id);
                    self.nodes[id.index()] = None;
                    let last = self.order.pop();
                    debug_assert_eq!(last, Some(id), "who came last goes first");
                }
                Step::NodeRemoved { node, was, place } => {
                    let again = self.trial.set_node(node.spec.clone());
                    debug_assert_eq!(again, was.id, "what is taken back last was done first");
                    put(&mut self.nodes, again.index(), node);
                    self.order.insert(place, again);
                    self.is_as(was);
                }
                Step::NodeChanged { was, before } => {
                    self.trial.set_node(before.spec.clone());
                    self.nodes[was.id.index()] = Some(before);
                    self.is_as(was);
                }
                Step::PodAdded { pod, on } => {
                    self.trial.remove_pod(pod);
                    self.pods[pod.index()] = None;
                    on.into_iter().for_each(|was| self.is_as(was));
                }
                Step::PodMoved { pod, from, to, moved } => {
                    match from {
                        Some(was) => self.trial.place(pod, was.id),
                        None => self.trial.take_off(pod),
                    }
                    self.moved[pod.index()] = moved;
                    from.into_iter().chain(to).for_each(|was| self.is_as(was));
                }
            }
        }
    }

    fn was(&self, id: NodeId) -> Was {
        Was { id, generation: self.trial.generation(id) }
    }

    /// What was done to a node was taken back.
    fn is_as(&mut self, was: Was) {
        self.trial.restore_generation(was.id, was.generation);
    }

    /// Adds a node with pods on it, at the end of the order.
    pub(crate) fn add_node(&mut self, node: Arc<Node>, pods: &[Arc<Pod>]) -> NodeId {
        let id = self.set_node(node);
        self.order.push(id);
        self.note_node(Step::NodeAdded(id));
        for pod in pods {
            self.add_pod_on(pod.clone(), id);
        }
        id
    }

    /// Removes a node, and with it the pods on it.
    pub(crate) fn remove_node(&mut self, id: NodeId) {
        let place = self.order.iter().position(|other| *other == id).expect("who is removed is there");
        self.order.remove(place);
        let was = self.was(id);
        self.trial.remove_node(id);
        let node = self.nodes[id.index()].take().expect("who is removed is there");
        self.note_node(Step::NodeRemoved { node, was, place });
    }

    /// Changes a node, by the same name.
    pub(crate) fn change_node(&mut self, id: NodeId, node: Arc<Node>) {
        let was = self.was(id);
        self.trial.set_node(node.spec.clone());
        let before = self.nodes[id.index()].replace(node).expect("who is changed is there");
        self.note_node(Step::NodeChanged { was, before });
    }

    /// Adds a pod on a node.
    pub(crate) fn add_pod_on(&mut self, pod: Arc<Pod>, node: NodeId) -> PodId {
        let id = self.add_pod(pod);
        self.done.push(Step::PodAdded { pod: id, on: Some(self.was(node)) });
        self.trial.place(id, node);
        id
    }

    /// Adds a pod on no node.
    pub(crate) fn add_waiting_pod(&mut self, pod: Arc<Pod>) -> PodId {
        let id = self.add_pod(pod);
        self.done.push(Step::PodAdded { pod: id, on: None });
        id
    }

    /// Puts a pod on a node, whatever the filters say.
    pub(crate) fn place(&mut self, pod: PodId, node: NodeId) {
        let (from, to) = (self.trial.node_of(pod).map(|from| self.was(from)), self.was(node));
        self.trial.place(pod, node);
        self.note_move(pod, from, Some(to));
    }

    /// Takes a pod off its node.
    pub(crate) fn take_off(&mut self, pod: PodId) {
        let from = self.trial.node_of(pod).map(|from| self.was(from));
        self.trial.take_off(pod);
        self.note_move(pod, from, None);
    }

    fn note_node(&mut self, step: Step) {
        self.changes_of_nodes += 1;
        self.done.push(step);
    }

    fn note_move(&mut self, pod: PodId, from: Option<Was>, to: Option<Was>) {
        self.moves += 1;
        let moved = std::mem::replace(&mut self.moved[pod.index()], self.moves);
        self.done.push(Step::PodMoved { pod, from, to, moved });
    }

    // What the filters say.

    /// Whether a pod passes the filters of a node.
    pub(crate) fn check(&mut self, pod: PodId, node: NodeId) -> Result<(), Refused> {
        self.trial.check(pod, node)
    }

    /// Puts a pod on a node, if the filters let it.
    pub(crate) fn schedule(&mut self, pod: PodId, node: NodeId) -> Result<(), Refused> {
        self.check(pod, node)?;
        self.place(pod, node);
        Ok(())
    }

    /// Where in the order the last search ended. What is taken back does not change it.
    pub(crate) fn last_match(&self) -> usize {
        self.last_match
    }

    /// A search ended there, whoever made it.
    pub(crate) fn set_last_match(&mut self, place: usize) {
        self.last_match = place;
    }

    /// Puts a pod on the first node after the last match whose filters let it, of those that are acceptable.
    pub(crate) fn schedule_anywhere(
        &mut self,
        pod: PodId,
        acceptable: impl Fn(NodeId) -> bool,
    ) -> Option<NodeId> {
        let count = self.order.len();
        let start = (self.last_match + 1) % count.max(1);
        let Snapshot { trial, nodes, order, .. } = self;
        let is_open = |id: NodeId| {
            let node = nodes[id.index()].as_ref().expect("who is in the order is there");
            !node.unschedulable && acceptable(id)
        };
        let place = Cell::new(0);
        let places = (start..count).chain(0..start).map(|next| {
            place.set(next);
            order[next]
        });
        let found = trial.first(pod, places, is_open)?;
        // Nobody looked beyond the one that was found.
        self.last_match = place.get();
        self.place(pod, found);
        Some(found)
    }
}

/// Puts a thing at its place in a table that grows.
fn put<T>(table: &mut Vec<Option<T>>, place: usize, thing: T) {
    if table.len() <= place {
        table.resize_with(place + 1, || None);
    }
    table[place] = Some(thing);
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64;
    use serde_json::json;

    use super::*;

    const ROUNDS: usize = 40;
    const STEPS: usize = 30;

    /// All that can be told of a snapshot: who is where, what is asked for, and what the filters say of every pod that
    /// waits on every node.
    fn fingerprint(snapshot: &mut Snapshot, waiting: &[PodId]) -> String {
        let order = snapshot.order().to_vec();
        let mut lines = Vec::new();
        for node in &order {
            let names: Vec<String> =
                snapshot.pods_on(*node).iter().map(|pod| snapshot.pod(*pod).name.name.to_string()).collect();
            let (name, asked) = (snapshot.node(*node).name.clone(), snapshot.requested(*node).clone());
            lines.push(format!("{name} {asked:?} {names:?}"));
            for pod in waiting {
                lines.push(format!("  {:?}", snapshot.check(*pod, *node)));
            }
        }
        lines.join("\n")
    }

    fn node(snapshot: &mut Snapshot, name: &str, zone: usize, taint: bool) -> Arc<Node> {
        let node = testobjects::node(name)
            .label("zone", &format!("z{zone}"))
            .allocatable("cpu", "4")
            .allocatable("memory", "8Gi")
            .allocatable("pods", "10");
        let node = if taint { node.taint("t:NoSchedule") } else { node };
        Arc::new(Node::read(&node.object(), snapshot.trial.scalars()))
    }

    /// Pods of three kinds: spread over zones, away from each other, with a port of the node.
    fn pod(snapshot: &mut Snapshot, name: &str, kind: usize) -> Arc<Pod> {
        let app = format!("app-{kind}");
        let selector = json!({"matchLabels": {"app": app}});
        let pod = testobjects::pod(name).label("app", &app).request("cpu", "500m").request("memory", "1Gi");
        let pod = match kind {
            0 => {
                let constraint = json!({"maxSkew": 1, "topologyKey": "zone",
                    "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector});
                pod.set("spec.topologySpreadConstraints", json!([constraint]))
            }
            1 => {
                let term = json!({"topologyKey": "kubernetes.io/hostname", "labelSelector": selector});
                let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
                pod.set("spec.affinity.podAntiAffinity", required)
            }
            _ => pod.host_port(80),
        };
        Arc::new(Pod::read(&pod.object(), snapshot.trial.scalars()))
    }

    /// Does something, by chance.
    fn step(snapshot: &mut Snapshot, waiting: &[PodId], number: usize, dice: &mut Pcg64) {
        let order = snapshot.order().to_vec();
        let mut one = |among: usize| dice.random_range(0..among);
        match one(6) {
            0 => {
                let new = node(snapshot, &format!("new-{number}"), one(3), false);
                let daemon = pod(snapshot, &format!("daemon-{number}"), one(3));
                snapshot.add_node(new, &[daemon]);
            }
            1 if order.len() > 2 => snapshot.remove_node(order[one(order.len())]),
            2 if !order.is_empty() => {
                let id = order[one(order.len())];
                let name = snapshot.node(id).name.clone();
                let changed = node(snapshot, &name, one(3), true);
                snapshot.change_node(id, changed);
            }
            3 if !order.is_empty() => {
                if let Some(pod) = snapshot.pods_on(order[one(order.len())]).first() {
                    snapshot.take_off(*pod);
                }
            }
            _ => {
                let pod = waiting[one(waiting.len())];
                if snapshot.trial.node_of(pod).is_none() {
                    snapshot.schedule_anywhere(pod, |_| true);
                }
            }
        }
    }

    #[test]
    fn what_is_taken_back_leaves_nothing_behind() {
        for seed in 0..ROUNDS as u64 {
            let mut dice = Pcg64::seed_from_u64(seed);
            let mut snapshot = Snapshot::new(&SchedulerSettings::default());
            let mut order = Vec::new();
            for number in 0..5 {
                let new = node(&mut snapshot, &format!("node-{number}"), number % 3, false);
                order.push(snapshot.set_node(new));
            }
            let mut waiting = Vec::new();
            for number in 0..12 {
                let new = pod(&mut snapshot, &format!("pod-{number}"), number % 3);
                let id = snapshot.add_pod(new);
                match number % 4 {
                    0 => snapshot.trial.place(id, order[number % 5]),
                    _ => waiting.push(id),
                }
            }
            snapshot.begin(order);
            let first = fingerprint(&mut snapshot, &waiting);
            let outer = snapshot.fork();
            (0..STEPS).for_each(|number| step(&mut snapshot, &waiting, number, &mut dice));
            let second = fingerprint(&mut snapshot, &waiting);
            let inner = snapshot.fork();
            (STEPS..2 * STEPS).for_each(|number| step(&mut snapshot, &waiting, number, &mut dice));
            snapshot.revert(inner);
            assert_eq!(fingerprint(&mut snapshot, &waiting), second, "seed {seed}, the inner one");
            snapshot.revert(outer);
            assert_eq!(fingerprint(&mut snapshot, &waiting), first, "seed {seed}, the outer one");
        }
    }
}
