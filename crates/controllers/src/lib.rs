//! What kube-controller-manager 1.36 does for workloads, in virtual time: DaemonSets, ReplicaSets, Deployments,
//! StatefulSets, Jobs, CronJobs, PodDisruptionBudgets, and the deletion of what belonged to something deleted.
//!
//! [`Controllers::apply`] is their informers, [`Controllers::work`] their loops: it says what one of them does next, which
//! the caller carries out and tells back. Nothing takes time but what Kubernetes itself waits for: back-off, schedules,
//! deadlines, and the second that the Job controller waits for further news.
//!
//! Left out: orphans are not adopted, whatever a selector says; quotas, and admission beyond what every API server does; and
//! all that [`Controllers::left_out`] names.

mod amount;
mod api;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod garbage;
mod informer;
mod job;
mod pod;
mod queue;
mod replica_set;
mod revision;
mod revision_history;
mod stamp;
mod stateful_set;
mod table;
mod template;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Kind, Moment, NamespacedName, Object};

use self::daemon_set::Daemons;
use self::disruption::Budgets;
use self::garbage::Garbage;
use self::job::Jobs;
use self::queue::Queue;
use self::template::{Names, NewPod};
use self::world::{Thing, World};

pub use self::template::{Words, word_of};

/// How many things that are left out are named; more are only counted.
const MOST_LEFT_OUT: usize = 100;
/// The most pods that are made, or deleted, in one look; further ones follow in the next.
const BURST: usize = 500;

/// The controllers of a cluster.
#[derive(Debug)]
pub struct Controllers {
    world: World,
    queue: Queue,
    names: Names,
    daemons: Daemons,
    budgets: Budgets,
    jobs: Jobs,
    garbage: Garbage,
    left_out: LeftOut,
}

/// A controller. They work in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Deletes what belonged to something that is deleted.
    GarbageCollection,
    /// Makes Jobs by the clock.
    CronJob,
    /// Runs pods until they succeed. It also deletes Jobs whose time after their end is over.
    Job,
    /// Runs a pod on every node.
    DaemonSet,
    /// Replaces ReplicaSets by newer ones, bit by bit.
    Deployment,
    /// Runs so many pods.
    ReplicaSet,
    /// Runs so many pods that each have a name.
    StatefulSet,
    /// Says how many pods may be evicted.
    Disruption,
}

/// Something that a controller does, to be carried out as an API server would.
#[derive(Clone, Debug, PartialEq)]
pub enum Do {
    /// The object comes to be. It is complete but for its resourceVersion.
    Create(Object),
    /// The object is now this: its status, its size, its annotations, its finalizers. The generation has been raised where
    /// an API server would; the resourceVersion is as it was. An object that is being deleted and has no finalizers any
    /// more is gone.
    Update(Object),
    /// The object is deleted: a pod after its grace period, and anything that has finalizers when they are gone.
    Delete(Doomed),
}

/// An object to delete. Another one of that name is not meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doomed {
    /// Group and kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// Its uid.
    pub uid: Arc<str>,
}

/// One who owns pods.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerName {
    /// Its kind.
    pub kind: Arc<str>,
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// What a controller works with.
struct Context<'a> {
    now: Moment,
    world: &'a World,
    queue: &'a mut Queue,
    names: &'a mut Names,
    left_out: &'a mut LeftOut,
    done: Vec<Do>,
}

/// What was asked for and is not simulated, with how often.
#[derive(Debug, Default)]
struct LeftOut {
    sentences: BTreeMap<String, u64>,
}

// === impl Controllers ===

impl Controllers {
    /// Only those named work; the objects of the others are only looked at. Names and uids that are made up follow from the
    /// seed.
    pub fn new(which: &[Controller], seed: u64) -> Controllers {
        Controllers {
            world: World::new(),
            queue: Queue::new(which),
            names: Names::new(seed),
            daemons: Daemons::default(),
            budgets: Budgets::default(),
            jobs: Jobs::default(),
            garbage: Garbage::default(),
            left_out: LeftOut::default(),
        }
    }

    /// They work beside a recording: new ReplicaSets are called as they were there, and what it may hold is not made again.
    pub fn learn(&mut self, words: Words) {
        self.names.learn(words);
    }

    /// Whether anything is to be looked at now.
    pub fn has_work(&self) -> bool {
        self.queue.has_work() || self.garbage.has_work()
    }

    /// Whether objects of a kind are theirs to write: the rest they only look at.
    pub fn write(&self, kind: &Kind) -> bool {
        if *kind == Kind::new("apps", "ControllerRevision") {
            return self.queue.works(Controller::StatefulSet) || self.queue.works(Controller::DaemonSet);
        }
        Controller::of(&kind.kind)
            .is_some_and(|controller| controller.group() == &*kind.group && self.queue.works(controller))
    }

    /// Whether one of them makes pods for the owner that manages this one.
    pub fn make(&self, pod: &Object) -> bool {
        let owners = self.owners_of(pod);
        let controller = owners.first().and_then(|owner| Controller::of(&owner.kind));
        controller.is_some_and(|controller| self.queue.works(controller))
    }

    /// Who manages a pod, and who manages that in turn, as far as they are there.
    pub fn owners_of(&self, pod: &Object) -> Vec<OwnerName> {
        self.world.owners_of(pod)
    }

    /// What is done next: what one controller does about one object. To be called again, once that is carried out and told
    /// back, until nothing is left.
    pub fn work(&mut self, now: Moment) -> Vec<Do> {
        let done = self.garbage.collect(&self.world);
        if !done.is_empty() {
            return done;
        }
        while let Some((controller, name)) = self.queue.next(now) {
            let Controllers { world, queue, names, left_out, .. } = self;
            names.begin_look();
            let context = &mut Context { now, world, queue, names, left_out, done: Vec::new() };
            match controller {
                Controller::GarbageCollection => {}
                Controller::CronJob => {
                    if let Some(held) = world.cron_jobs.get(&name) {
                        cron_job::sync(context, held);
                    }
                }
                Controller::Job => self.jobs.sync(context, &name),
                Controller::DaemonSet => {
                    if let Some(held) = world.daemon_sets.get(&name) {
                        self.daemons.sync(context, held);
                    }
                }
                Controller::Deployment => {
                    if let Some(held) = world.deployments.get(&name) {
                        deployment::sync(context, held);
                    }
                }
                Controller::ReplicaSet => {
                    if let Some(held) = world.replica_sets.get(&name) {
                        replica_set::sync(context, held);
                    }
                }
                Controller::StatefulSet => {
                    if let Some(held) = world.stateful_sets.get(&name) {
                        stateful_set::sync(context, held);
                    }
                }
                Controller::Disruption => {
                    if let Some(held) = world.budgets.get(&name) {
                        self.budgets.sync(context, held);
                    }
                }
            }
            let done = std::mem::take(&mut context.done);
            if !done.is_empty() {
                return done;
            }
        }
        Vec::new()
    }

    /// When time alone gives them something to do.
    pub fn next_wake(&self) -> Option<Moment> {
        self.queue.next_time()
    }

    /// What was asked for and is not simulated, and what could not be understood: sentences, with how often.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, u64)> {
        self.left_out.sentences.iter().map(|(sentence, count)| (&**sentence, *count))
    }
}

// === impl Controller ===

impl Controller {
    /// All of them.
    pub const ALL: [Controller; 8] = [
        Controller::GarbageCollection,
        Controller::CronJob,
        Controller::Job,
        Controller::DaemonSet,
        Controller::Deployment,
        Controller::ReplicaSet,
        Controller::StatefulSet,
        Controller::Disruption,
    ];

    /// Who looks after a kind.
    pub fn of(kind: &str) -> Option<Controller> {
        Some(match kind {
            "CronJob" => Controller::CronJob,
            "Job" => Controller::Job,
            "DaemonSet" => Controller::DaemonSet,
            "Deployment" => Controller::Deployment,
            "ReplicaSet" => Controller::ReplicaSet,
            "StatefulSet" => Controller::StatefulSet,
            "PodDisruptionBudget" => Controller::Disruption,
            _ => return None,
        })
    }

    /// The API group of the kind it looks after.
    pub fn group(self) -> &'static str {
        match self {
            Controller::CronJob | Controller::Job => "batch",
            Controller::Disruption => "policy",
            Controller::DaemonSet
            | Controller::Deployment
            | Controller::ReplicaSet
            | Controller::StatefulSet => "apps",
            Controller::GarbageCollection => "",
        }
    }
}

// === impl Context ===

impl Context<'_> {
    fn create(&mut self, object: Object) {
        self.done.push(Do::Create(object));
    }

    fn update(&mut self, object: Object) {
        self.done.push(Do::Update(object));
    }

    fn delete(&mut self, thing: Thing, name: &NamespacedName, uid: &Arc<str>) {
        self.done.push(Do::Delete(Doomed::new(thing, name, uid)));
    }

    /// Has an object looked at again later. What is past was looked at just now: it would be looked at for ever.
    fn look_again(&mut self, at: Moment, controller: Controller, name: NamespacedName) {
        if at > self.now {
            self.queue.add_at(at, controller, name);
        }
    }

    fn create_pod(&mut self, pod: NewPod) {
        let pod = pod.make(self.now, &self.world.pods, &self.world.classes, self.names);
        self.create(pod);
    }

    fn delete_pod(&mut self, pod: &pod::Pod) {
        self.delete(Thing::Pod, &pod.name, &pod.uid);
    }
}

// === impl Doomed ===

impl Doomed {
    fn new(thing: Thing, name: &NamespacedName, uid: &Arc<str>) -> Doomed {
        let (group, kind) = thing.kind();
        Doomed {
            kind: Kind::new(group, kind),
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            uid: uid.clone(),
        }
    }
}

// === impl LeftOut ===

impl LeftOut {
    fn add(&mut self, sentence: String) {
        let is_full = self.sentences.len() >= MOST_LEFT_OUT && !self.sentences.contains_key(&sentence);
        let sentence = if is_full { "further things".to_owned() } else { sentence };
        *self.sentences.entry(sentence).or_default() += 1;
    }
}

#[cfg(test)]
mod tests;
