//! kube-scheduler's decisions.
//!
//! Nothing here reads a clock, a file or a socket, and nothing depends on chance that was not seeded or on the order of a
//! hash table: the same changes, settings and seed give the same decisions, byte for byte.

mod answer;
mod cards;
mod config;
mod cycle;
mod events;
mod fit;
pub mod ids;
mod look;
mod message;
pub mod node;
mod nominations;
mod plan;
mod plugin;
mod plugins;
pub mod pod;
mod post_filter;
mod preemption;
mod queue;
mod rules;
mod score;
mod settings;
mod storage;
pub mod trial;
mod verdict;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Kind, Moment, NamespacedName, Object, What};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustc_hash::FxHashMap;

use cycle::{Memory, Outcome};
use ids::{NodeId, PodId};
use look::Look;
use nominations::Nominations;
use plan::Plans;
use plugins::scheduling_gates;
use post_filter::{Promise, Ways, post_filter};
use queue::Queue;
use rules::Rules;
use storage::{Reservation, StorageKind};
use world::{RelationKind, World};

pub use answer::{
    Decision, Explanation, Inclined, NodeAnswer, NodeVerdict, Placement, PluginScore, Rejection, VolumeChange,
};
pub use config::BadConfiguration;
pub use fit::Fit;
pub use plugin::Plugin;
pub use queue::{Attempted, Place, Queued};
pub use settings::{
    AddedAffinity, BadVersion, DefaultConstraint, FitArgs, InterPodAffinityArgs, PreemptionArgs, Profile,
    Settings, SpreadDefaults, Strategy, Version,
};
pub use storage::PodVolumes;
pub use verdict::{Code, Reasons, Refusal};

/// The kinds that decisions depend on, by group and kind; [`Scheduler::apply`] makes use of them.
pub const KINDS: &[(&str, &str)] = &[
    ("", "Namespace"),
    ("", "Service"),
    ("", "ReplicationController"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("policy", "PodDisruptionBudget"),
    ("resource.k8s.io", "DeviceClass"),
    ("storage.k8s.io", "StorageClass"),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("storage.k8s.io", "VolumeAttachment"),
    ("", "Node"),
    ("", "Pod"),
];

/// A scheduler, and the cluster as it knows it.
#[derive(Debug)]
pub struct Scheduler {
    profiles: Vec<Rules>,
    world: World,
    nominations: Nominations,
    plans: Plans,
    memory: Memory,
    dice: Pcg64,
    queue: Queue,
    /// The volumes that pods on their way to a node are to get.
    reservations: BTreeMap<PodId, Reservation>,
    /// The nodes that pods go to if no other is better.
    inclinations: FxHashMap<PodId, Arc<str>>,
    clears_nominations: bool,
}

impl Scheduler {
    /// A scheduler that knows no node and no pod.
    pub fn new(settings: Settings) -> Scheduler {
        let mut world = World::default();
        let rules =
            settings.profiles.iter().map(|profile| Rules::new(&settings, profile, &mut world.scalars));
        Scheduler {
            profiles: rules.collect(),
            dice: Pcg64::seed_from_u64(settings.seed),
            queue: Queue::new(&settings),
            reservations: BTreeMap::new(),
            inclinations: FxHashMap::default(),
            nominations: Nominations::default(),
            plans: Plans::default(),
            memory: Memory::default(),
            clears_nominations: true,
            world,
        }
    }

    /// An object came, changed or went, as an informer would tell it. Kinds that mean nothing to scheduling are ignored.
    ///
    /// New pods enter the queue, and refused ones that this may help leave the pool. Time passes first, as by
    /// [`Scheduler::advance`].
    pub fn apply(&mut self, now: Moment, what: &What) {
        self.advance(now);
        let object = what.object();
        let meta = object.meta();
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        let present = matches!(what, What::Added(_) | What::Modified(_));
        match (group, &*meta.kind) {
            ("", "Pod") if present => self.set_pod(now, object),
            ("", "Pod") => self.lose_pod(now, &meta.namespace, &meta.name, || object.clone()),
            ("", "Node") if present => self.set_node(now, object),
            ("", "Node") => self.remove_node(now, &meta.name),
            (group, kind) => {
                if let Some(kind) = StorageKind::of(&Kind::new(group, kind)) {
                    self.apply_storage(kind, object, present);
                }
                if let Some(kind) = RelationKind::of(group, kind)
                    && self.world.relations.apply(kind, object, present)
                {
                    self.world.plans_are_void();
                    if kind == RelationKind::DeviceClass {
                        // Whether a node has enough depends on who hands the resource out.
                        self.memory.cards.forget();
                    }
                }
                self.apply_thing(now, group, kind, object, present);
            }
        }
    }

    /// A pod is gone, or has run to its end: the same as by [`Scheduler::apply`], without a look at the pod, which is
    /// made only if somebody waits for what its volumes took.
    pub fn gone(&mut self, now: Moment, namespace: &str, name: &str, pod: impl FnOnce() -> Object) {
        self.advance(now);
        self.lose_pod(now, namespace, name, pod);
    }

    /// Every node's verdict and scores for a pod, and what the scheduler would decide now. It takes notice of what has
    /// happened since the last decision, as a decision would; beyond that it changes nothing.
    ///
    /// `None` if there is no such pod.
    pub fn explain(&mut self, now: Moment, namespace: &str, name: &str) -> Option<Explanation> {
        let id = self.world.find(namespace, name)?;
        let pod = self.world.pod(id).name.clone();
        let mut explanation = Explanation {
            pod,
            pre_filter: None,
            only_nodes: None,
            nodes: Vec::new(),
            decision: Decision::Skipped(String::new()),
        };
        let (start, dice) = (self.memory.next_start, self.dice.clone());
        match self.profile_for(id) {
            Err(decision) => explanation.decision = *decision,
            Ok(profile) => {
                self.look();
                let plan = self.plans.plan(&mut self.world, &self.profiles[profile], id);
                let mut look = Look::new(&self.world, &self.profiles[profile], &self.nominations, id, &plan);
                let survey = cycle::survey(&mut look, &mut self.memory);
                drop(look);
                // If scoring fails, nothing can be said of the nodes; one that is the only one is not scored, and taken.
                if let Ok(survey) = survey {
                    explanation.pre_filter = survey.pre_filter;
                    explanation.only_nodes = survey.only;
                    explanation.nodes = survey.nodes;
                }
                explanation.decision = self.decide(now, id, profile).0;
            }
        }
        (self.memory.next_start, self.dice) = (start, dice);
        Some(explanation)
    }

    /// One attempt at a pod, whatever the queue says: it is assumed on its node, or promised one, as the real scheduler
    /// would remember it. The pods to delete for it are named; they go when they are seen to.
    ///
    /// `None` if there is no such pod.
    pub fn attempt(&mut self, now: Moment, namespace: &str, name: &str) -> Option<Decision> {
        let id = self.world.find(namespace, name)?;
        let profile = match self.profile_for(id) {
            Err(decision) => return Some(*decision),
            Ok(profile) => profile,
        };
        let (decision, consequence) = self.decide(now, id, profile);
        if let Consequence::Placed(..) = consequence {
            self.queue.bind(id);
        }
        self.follow(now, id, consequence);
        Some(decision)
    }

    /// Where nothing but chance decides between nodes that are equally good for a pod that waits, it goes to this one,
    /// if it is among them: as dice fell that were recorded.
    pub fn incline(&mut self, namespace: &str, name: &str, node: &Arc<str>) {
        if let Some(id) = self.world.find(namespace, name) {
            self.inclinations.insert(id, node.clone());
        }
    }

    /// Begins the next search so many nodes further on, as after a search that was not made here.
    pub fn rotate(&mut self, by: usize) {
        self.world.nodes.look();
        let nodes = self.world.nodes.order().len().max(1);
        self.memory.next_start = (self.memory.next_start + by % nodes) % nodes;
    }

    /// Whether a pod for which room is made takes the promise of a node from weaker ones; so it is unless told otherwise.
    pub fn clears_nominations(&mut self, clears: bool) {
        self.clears_nominations = clears;
    }

    /// Finds every answer anew by the rules themselves, and remembers nothing: slow, with the same answers.
    pub fn remember_nothing(&mut self) {
        self.memory.plain = true;
    }

    fn apply_storage(&mut self, kind: StorageKind, object: &Object, present: bool) {
        if present {
            // What cannot be understood is remembered as such: a pod that needs it is told.
            let _ = self.world.storage.apply(kind, object);
        } else {
            let meta = object.meta();
            self.world.storage.remove(kind, &Arc::from(&*meta.namespace), &Arc::from(&*meta.name));
        }
    }

    /// The profile of a pod, or why the pod is not tried.
    fn profile_for(&self, id: PodId) -> Result<usize, Box<Decision>> {
        let pod = self.world.pod(id);
        let name = &pod.shape.scheduler_name;
        let Some(profile) = self.profiles.iter().position(|rules| rules.profile.scheduler_name == *name)
        else {
            return Err(Box::new(Decision::Skipped(format!("no profile for schedulerName {name:?}"))));
        };
        if self.world.node_of(id).is_some() {
            return Err(Box::new(Decision::Skipped("placed already".to_owned())));
        }
        if self.profiles[profile].profile.pre_enqueue.contains(&Plugin::SchedulingGates) {
            scheduling_gates::pre_enqueue(pod).map_err(|refusal| Box::new(Decision::Gated(refusal)))?;
        }
        if pod.terminating {
            let NamespacedName { namespace, name } = &pod.name;
            let why = format!("skip schedule deleting pod: {namespace}/{name}");
            return Err(Box::new(Decision::Skipped(why)));
        }
        Ok(profile)
    }

    /// Takes in what has changed, as before every decision.
    fn look(&mut self) {
        self.world.nodes.look();
        if self.memory.plain {
            self.memory.cards.forget();
            self.plans.forget();
            self.world.forget_tallies();
        }
    }

    /// Decides, and says what follows from it.
    fn decide(&mut self, now: Moment, id: PodId, profile: usize) -> (Decision, Consequence) {
        self.look();
        let nodes = self.world.nodes.order().len();
        if nodes == 0 {
            let mut rejection = Rejection::new(message::NO_NODES.to_owned(), Vec::new());
            let pod = self.world.pod(id);
            rejection.cleared.extend(pod.nominated_node.as_ref().map(|_| pod.name.clone()));
            return (Decision::Refused(rejection), Consequence::Promise(Promise::Void));
        }
        let plan = self.plans.plan(&mut self.world, &self.profiles[profile], id);
        let mut look = Look::new(&self.world, &self.profiles[profile], &self.nominations, id, &plan);
        let dice = &mut self.dice;
        let wish = self.inclinations.get(&id);
        let wished = wish.and_then(|node| self.world.nodes.by_name(node));
        let not_there = wish.filter(|_| wished.is_none()).map(|_| Inclined::NotThere);
        let mut chance = |sides| dice.random_range(0..sides);
        let diagnosis = match cycle::decide(&mut look, &mut self.memory, wished, &mut chance) {
            Outcome::Chosen { node, looked_at, fitting, equals, inclined } => {
                let reservation = match look.reserve(node) {
                    Err(refusal) => return failed(refusal.message()),
                    Ok(reservation) => reservation,
                };
                let placement = Placement {
                    node: self.world.nodes.name(node).clone(),
                    volumes: reservation.as_ref().map(Reservation::changes).unwrap_or_default(),
                    looked_at,
                    fitting,
                    equals,
                    inclined: inclined.or(not_there),
                };
                return (Decision::Placed(placement), Consequence::Placed(node, reservation));
            }
            Outcome::Failed(error) => return failed(error),
            Outcome::None(diagnosis) => diagnosis,
        };
        let message = diagnosis.message(nodes, &self.memory.cards);
        let mut rejection = Rejection::new(message, diagnosis.plugins.clone());
        let ways = Ways {
            now: now.nanos(),
            offset: &mut |nodes| dice.random_range(0..nodes),
            clears: self.clears_nominations,
        };
        let promise = post_filter(&look, &diagnosis, &self.memory.cards, ways, &mut rejection);
        if promise == Promise::Void && look.pod.nominated_node.is_some() {
            rejection.cleared.push(look.pod.name.clone());
        }
        (Decision::Refused(rejection), Consequence::Promise(promise))
    }
}

/// The cycle failed, and with it whatever was promised.
fn failed(error: String) -> (Decision, Consequence) {
    (Decision::Failed(error), Consequence::Promise(Promise::Void))
}

/// What follows from a decision for what the scheduler remembers.
enum Consequence {
    Placed(NodeId, Option<Reservation>),
    Promise(Promise),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_named_is_read() {
        for (group, kind) in KINDS {
            let is_read = StorageKind::of(&Kind::new(group, kind)).is_some()
                || RelationKind::of(group, kind).is_some()
                || (group.is_empty() && ["Node", "Pod"].contains(kind));
            assert!(is_read, "{group} {kind}");
        }
    }
}
