//! The workload controllers of kube-controller-manager 1.36, in virtual time: DaemonSets, ReplicaSets, Deployments,
//! StatefulSets, Jobs, CronJobs, PodDisruptionBudgets, and garbage collection.
//!
//! [`Controllers::apply`] is their informers, [`Controllers::process_next_item`] their workers: it returns the API
//! calls of one sync, which the caller carries out and reports back through `apply`. Nothing takes time but Kubernetes'
//! own delays: backoff, schedules, deadlines, and the second for which the Job controller batches updates.
//!
//! Not simulated: adoption of orphans by selector; quotas, and admission beyond what every API server does; and
//! everything that [`Controllers::unsupported`] names.

mod api;
mod controller_revision;
mod cron_job;
mod daemon_set;
mod deployment;
mod disruption;
mod endpoints;
mod events;
mod garbage_collector;
mod informer;
mod informer_cache;
mod int_or_percent;
mod job;
mod k8s_time;
mod object_table;
mod pod;
mod pod_template;
mod replica_set;
mod revision_history;
mod stateful_set;
mod workqueue;

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::objects::PodView;
use model::{Kind, Moment, NamespacedName, Object, ObjectRef};

use self::daemon_set::DaemonSetController;
use self::disruption::DisruptionController;
use self::garbage_collector::GarbageCollector;
use self::informer_cache::{InformerCache, OwnershipKind};
use self::job::JobController;
use self::object_table::{CachedObject, ObjectSpec};
use self::pod_template::{NameGenerator, NewPod};
use self::replica_set::ReplicaSetPods;
use self::workqueue::{QueueItem, WorkQueue};

pub use self::endpoints::EndpointControllers;
pub use self::events::{ControllerEvent, EventSubject, EventText};
pub use self::pod_template::{TemplateHashes, template_hash_of};

/// The most unsupported features that are named; further ones are only counted.
const MAX_UNSUPPORTED: usize = 100;
/// The delay after which a sync that has failed is repeated, doubled each time; kube-controller-manager begins with
/// milliseconds, which would be many moments of a virtual clock.
const MIN_RETRY_DELAY: i64 = 1_000_000_000;
const MAX_RETRY_DELAY: i64 = 1000 * MIN_RETRY_DELAY;
const MAX_RETRY_SHIFT: u32 = 10;
/// The most pods that are created, or deleted, in one sync; further ones follow in the next.
const BURST_REPLICAS: usize = 500;

/// The controllers of a cluster.
#[derive(Debug)]
pub struct Controllers {
    cache: InformerCache,
    queue: WorkQueue,
    name_generator: NameGenerator,
    daemon_sets: DaemonSetController,
    replica_sets: ReplicaSetPods,
    disruption: DisruptionController,
    jobs: JobController,
    garbage_collector: GarbageCollector,
    unsupported: UnsupportedFeatures,
    /// The item whose API calls were returned last.
    last_item: Option<QueueItem>,
    /// How often items have failed since they last did not.
    failures: BTreeMap<QueueItem, u32>,
    /// The Events since they were last taken; `None` if nobody takes them.
    events: Option<Vec<ControllerEvent>>,
}

/// A controller. Their items are processed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Controller {
    /// Deletes the dependents of deleted objects.
    GarbageCollection,
    /// Creates Jobs on a schedule.
    CronJob,
    /// Runs pods until enough have succeeded. It includes the TTL-after-finished controller.
    Job,
    /// Runs a pod on every node.
    DaemonSet,
    /// Rolls ReplicaSets out and over.
    Deployment,
    /// Keeps a number of pods.
    ReplicaSet,
    /// Keeps a number of pods with stable names.
    StatefulSet,
    /// The disruption controller: computes how many pods may be evicted.
    Disruption,
}

/// An API call of a controller, to be carried out as an API server would.
#[derive(Clone, Debug, PartialEq)]
pub enum ApiCall {
    /// Creates the object. It is complete but for its resourceVersion.
    Create(Object),
    /// Updates the object: its status, scale, annotations or finalizers. The generation has been increased where an API
    /// server would; the resourceVersion is unchanged. A terminating object without finalizers is to be removed.
    Update(Object),
    /// Removes a finalizer from the pod. A terminating pod without finalizers is to be removed.
    RemovePodFinalizer {
        /// The pod.
        pod: NamespacedName,
        /// Its uid, as a precondition.
        uid: Arc<str>,
        /// The finalizer.
        finalizer: &'static str,
    },
    /// Deletes the object: a pod after its grace period, and any object with finalizers when they are removed.
    Delete {
        /// The object.
        object: ObjectRef,
        /// Its uid, as a precondition.
        uid: Arc<str>,
    },
}

/// The state that a sync works with.
struct SyncContext<'a> {
    now: Moment,
    cache: &'a InformerCache,
    queue: &'a mut WorkQueue,
    name_generator: &'a mut NameGenerator,
    unsupported: &'a mut UnsupportedFeatures,
    api_calls: Vec<ApiCall>,
    events: &'a mut Option<Vec<ControllerEvent>>,
}

/// Requested features that are not simulated, with their counts.
#[derive(Debug, Default)]
struct UnsupportedFeatures {
    counts: BTreeMap<String, u64>,
}

// === impl Controllers ===

impl Controllers {
    /// Enables the controllers named; objects of the others are only read. Generated names and uids follow from the
    /// seed.
    pub fn new(enabled: &[Controller], seed: u64) -> Controllers {
        Controllers {
            cache: InformerCache::new(),
            queue: WorkQueue::new(enabled),
            name_generator: NameGenerator::new(seed),
            daemon_sets: DaemonSetController::default(),
            replica_sets: ReplicaSetPods::default(),
            disruption: DisruptionController::default(),
            jobs: JobController::default(),
            garbage_collector: GarbageCollector::default(),
            unsupported: UnsupportedFeatures::default(),
            last_item: None,
            failures: BTreeMap::new(),
            events: None,
        }
    }

    /// Collects the Events of each sync, for [`Controllers::take_events`].
    #[must_use]
    pub fn with_events(self) -> Controllers {
        Controllers { events: Some(Vec::new()), ..self }
    }

    /// The Events since the last call. Those about API calls are about the calls that were returned last.
    pub fn take_events(&mut self) -> Vec<ControllerEvent> {
        self.events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Hashes templates as kube-controller-manager does. Those of an API server have all defaults, and so the same hashes.
    #[must_use]
    pub fn with_original_hashes(mut self) -> Controllers {
        self.name_generator.use_original_hashes();
        self
    }

    /// Sets the recorded pod template hashes: new ReplicaSets get them, and generated uids do not repeat recorded ones.
    pub fn use_recorded_hashes(&mut self, recorded_hashes: TemplateHashes) {
        self.name_generator.use_recorded_hashes(recorded_hashes);
    }

    /// Whether an item is due now.
    pub fn has_work(&self) -> bool {
        self.queue.has_work() || self.garbage_collector.has_work()
    }

    /// Whether they write objects of a kind.
    pub fn writes_kind(&self, kind: &Kind) -> bool {
        if kind.is("apps", "ControllerRevision") {
            return self.queue.is_enabled(Controller::StatefulSet)
                || self.queue.is_enabled(Controller::DaemonSet);
        }
        Controller::for_kind(kind).is_some_and(|controller| self.queue.is_enabled(controller))
    }

    /// Whether one of them creates the pods of this pod's owner.
    pub fn creates_pods_of(&self, pod: &PodView) -> bool {
        let owners = self.owners_of(pod);
        let controller = owners.first().and_then(|owner| Controller::for_kind(&owner.kind));
        controller.is_some_and(|controller| self.queue.is_enabled(controller))
    }

    /// The controller of a pod, its controller in turn, and so on, as far as they exist.
    pub fn owners_of(&self, pod: &PodView) -> Vec<ObjectRef> {
        self.cache.owners_of(pod)
    }

    /// The API calls of the next sync that has any. To be repeated, once they are carried out and reported back, until
    /// it returns none.
    pub fn process_next_item(&mut self, now: Moment) -> Vec<ApiCall> {
        let api_calls = self.garbage_collector.collect(&self.cache);
        if !api_calls.is_empty() {
            return api_calls;
        }
        while let Some((controller, name)) = self.queue.pop(now) {
            let Controllers { cache, queue, name_generator: names, unsupported, events, .. } = self;
            names.begin_sync();
            let context = &mut SyncContext {
                now,
                cache,
                queue,
                name_generator: names,
                unsupported,
                api_calls: Vec::new(),
                events,
            };
            match controller {
                Controller::GarbageCollection => {}
                Controller::CronJob => {
                    if let Some(cached_object) = cache.cron_jobs.get(&name) {
                        cron_job::sync(context, cached_object);
                    }
                }
                Controller::Job => self.jobs.sync(context, &name),
                Controller::DaemonSet => {
                    if let Some(cached_object) = cache.daemon_sets.get(&name) {
                        self.daemon_sets.sync(context, cached_object);
                    }
                }
                Controller::Deployment => {
                    if let Some(cached_object) = cache.deployments.get(&name) {
                        deployment::sync(context, cached_object);
                    }
                }
                Controller::ReplicaSet => {
                    if let Some(cached_object) = cache.replica_sets.get(&name) {
                        replica_set::sync(context, cached_object, &mut self.replica_sets);
                    }
                }
                Controller::StatefulSet => {
                    if let Some(cached_object) = cache.stateful_sets.get(&name) {
                        stateful_set::sync(context, cached_object);
                    }
                }
                Controller::Disruption => {
                    if let Some(cached_object) = cache.pod_disruption_budgets.get(&name) {
                        self.disruption.sync(context, cached_object);
                    }
                }
            }
            let api_calls = std::mem::take(&mut context.api_calls);
            if !api_calls.is_empty() {
                self.last_item = Some((controller, name));
                return api_calls;
            }
            self.failures.remove(&(controller, name));
        }
        Vec::new()
    }

    /// Ends the sync whose API calls were returned last. If one of them has failed, it is repeated, later each time.
    pub fn finish_item(&mut self, now: Moment, has_failed: bool) {
        let Some(item) = self.last_item.take() else { return };
        if !has_failed {
            self.failures.remove(&item);
            return;
        }
        let failures = self.failures.entry(item.clone()).or_default();
        let delay = MIN_RETRY_DELAY.checked_shl(*failures).unwrap_or(MAX_RETRY_DELAY).min(MAX_RETRY_DELAY);
        *failures = (*failures + 1).min(MAX_RETRY_SHIFT);
        let (controller, name) = item;
        self.queue.add_at(now.plus_nanos(delay), controller, name);
    }

    /// When the next delayed item is due.
    pub fn next_wake(&self) -> Option<Moment> {
        self.queue.next_time()
    }

    /// Each requested feature that is not simulated and each kind of object that could not be parsed, as a sentence
    /// with its count.
    pub fn unsupported(&self) -> impl Iterator<Item = (&str, u64)> {
        self.unsupported.counts.iter().map(|(feature, count)| (&**feature, *count))
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

    /// The controller of a kind.
    pub fn for_kind(kind: &Kind) -> Option<Controller> {
        let controller = match &*kind.kind {
            "CronJob" => Controller::CronJob,
            "Job" => Controller::Job,
            "DaemonSet" => Controller::DaemonSet,
            "Deployment" => Controller::Deployment,
            "ReplicaSet" => Controller::ReplicaSet,
            "StatefulSet" => Controller::StatefulSet,
            "PodDisruptionBudget" => Controller::Disruption,
            _ => return None,
        };
        // Other groups have kinds of the same names.
        (controller.group() == &*kind.group).then_some(controller)
    }

    /// The API group of its kind.
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

// === impl SyncContext ===

impl SyncContext<'_> {
    fn create(&mut self, object: Object) {
        self.api_calls.push(ApiCall::Create(object));
    }

    fn update(&mut self, object: Object) {
        self.api_calls.push(ApiCall::Update(object));
    }

    fn remove_finalizer(&mut self, pod: &pod::Pod, finalizer: &'static str) {
        let (pod, uid) = (pod.name.clone(), pod.uid.clone());
        self.api_calls.push(ApiCall::RemovePodFinalizer { pod, uid, finalizer });
    }

    fn delete(&mut self, ownership_kind: OwnershipKind, name: &NamespacedName, uid: &Arc<str>) {
        self.api_calls.push(ApiCall::delete(ownership_kind, name, uid));
    }

    /// Enqueues an object for a later moment. A past moment is ignored, as it would be enqueued for ever.
    fn enqueue_at(&mut self, at: Moment, controller: Controller, name: NamespacedName) {
        if at > self.now {
            self.queue.add_at(at, controller, name);
        }
    }

    fn create_pod(&mut self, pod: NewPod) {
        let pod = pod.build(self.now, &self.cache.pods, &self.cache.priority_classes, self.name_generator);
        self.create(pod);
    }

    fn delete_pod(&mut self, pod: &pod::Pod) {
        self.delete(OwnershipKind::Pod, &pod.name, &pod.uid);
    }

    /// Creates a pod, and reports that about its owner.
    fn create_pod_of<S: ObjectSpec>(&mut self, owner: &CachedObject<S>, pod: NewPod) {
        self.create_pod(pod);
        let Some(name) = self.reported_name() else { return };
        let created = EventText::normal("SuccessfulCreate", format!("Created pod: {name}"));
        self.report_call(owner, created, Some(EventText::warning("FailedCreate", "Error creating: ")));
    }

    /// Deletes a pod, and reports that about its owner.
    fn delete_pod_of<S: ObjectSpec>(&mut self, owner: &CachedObject<S>, pod: &pod::Pod) {
        self.delete_pod(pod);
        let Some(_) = &self.events else { return };
        let deleted = EventText::normal("SuccessfulDelete", format!("Deleted pod: {}", pod.name.name));
        self.report_call(owner, deleted, Some(EventText::warning("FailedDelete", "Error deleting: ")));
    }
}

// === impl ApiCall ===

impl ApiCall {
    fn delete(ownership_kind: OwnershipKind, name: &NamespacedName, uid: &Arc<str>) -> ApiCall {
        let NamespacedName { namespace, name } = name.clone();
        ApiCall::Delete { object: ObjectRef::new(ownership_kind.kind(), namespace, name), uid: uid.clone() }
    }
}

// === impl UnsupportedFeatures ===

impl UnsupportedFeatures {
    fn add(&mut self, feature: String) {
        let is_full = self.counts.len() >= MAX_UNSUPPORTED && !self.counts.contains_key(&feature);
        let feature = if is_full { "more unsupported features".to_owned() } else { feature };
        *self.counts.entry(feature).or_default() += 1;
    }
}

#[cfg(test)]
mod tests;
