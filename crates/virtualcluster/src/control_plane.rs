//! The components of a virtual cluster: they read the changes of its store, decide, and write.
//!
//! One thread runs all of them, so that the same changes at the same moments lead to the same decisions.

mod advance;
mod autoscaling;
mod claim_events;
mod core_event_recorder;
mod correlated_event_recorder;
mod event_expiry;
mod event_recorder;
mod garbage_collection;
mod kubelet;
mod kubernetes_service;
mod namespaces;
mod node_leases;
mod pod_addresses;
mod pod_scheduling;
mod scheduling_annotations;
mod stage_player;
mod tasks;
mod volumes;
mod workloads;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

use apiserver::{ChangeReader, MemoryStore, Registry, StoreChange, StoreEvent};
use kubernetes::objects::{NodeEvent, NodeView, PodEvent, PodSpecCache, PodView};
use model::{Moment, NamespacedName, Object, What};
use serde_json::{Value, json};
use simulation::Agenda;

use crate::clock::ClusterClock;
use crate::recording::ClusterRecording;
use crate::stage::stage_kind;
use autoscaling::Autoscaling;
use event_expiry::EventExpiry;
use event_recorder::EventRecorder;
use garbage_collection::GarbageCollection;
use kubelet::Kubelet;
use kubernetes_service::KubernetesService;
use namespaces::Namespaces;
use pod_scheduling::PodScheduling;
use tasks::ClusterTask;
use volumes::Volumes;
use workloads::Workloads;

pub(crate) use advance::AdvanceInterrupt;
pub use advance::{AdvanceCancellation, AdvanceError, AdvanceTarget, MAX_ADVANCE};
pub use autoscaling::AutoscalerSettings;
pub use stage_player::EndlessStages;
pub use tasks::{ComponentSet, InvalidComponents};

/// The settings of a cluster's components.
#[derive(Clone, Debug)]
pub struct ControlPlaneSettings {
    /// The components that run.
    pub components: ComponentSet,
    /// The settings of the scheduler.
    pub scheduler: scheduler::Settings,
    /// Whether pods get annotations with every node's verdicts and scores, as of kube-scheduler-simulator.
    pub scheduling_annotations: bool,
    /// The settings of the autoscaler, without which it cannot run.
    pub autoscaler: Option<AutoscalerSettings>,
    /// The certificate authority of the API server, PEM, which is published in every namespace.
    pub certificate_authority: Option<String>,
    /// Seeds what components choose at random.
    pub seed: u64,
}

/// The configuration of the scheduler unless another one is given: the default profile, and one that fills nodes up.
pub fn default_scheduler_configuration() -> Value {
    let resources = json!([{"name": "cpu", "weight": 1}, {"name": "memory", "weight": 1}]);
    json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {"schedulerName": "default-scheduler"},
            {
                "schedulerName": "bin-packing-scheduler",
                "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
                "pluginConfig": [{
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated", "resources": resources}},
                }],
            },
        ],
    })
}

impl Default for ControlPlaneSettings {
    fn default() -> ControlPlaneSettings {
        ControlPlaneSettings {
            components: ComponentSet::default(),
            scheduler: scheduler::Settings::read(&default_scheduler_configuration())
                .expect("the configuration is valid"),
            scheduling_annotations: false,
            autoscaler: None,
            certificate_authority: None,
            seed: 1,
        }
    }
}

/// The components of a cluster, in a thread of their own.
pub(crate) struct ControlPlane {
    registry: Arc<Registry>,
    store: Arc<MemoryStore>,
    clock: Arc<ClusterClock>,
    settings: ControlPlaneSettings,
    reader: ChangeReader,
    commands: Receiver<Command>,
    components: Components,
    recording: Option<ClusterRecording>,
    /// The last change that was read.
    last_change: Option<Arc<StoreChange>>,
    /// What may end the advance that runs.
    advance_interrupt: Option<AdvanceInterrupt>,
}

/// A command to the thread of a control plane.
pub(crate) enum Command {
    /// Ends it.
    Stop,
    /// Replies when it has nothing left to do at the present moment: whether that was reached.
    Settle(Sender<bool>),
    /// Moves a virtual clock. Replies with the moment that it shows then.
    Advance {
        /// How far.
        target: AdvanceTarget,
        /// What may end it before.
        interrupt: AdvanceInterrupt,
        /// Where the reply goes.
        reply: Sender<Result<Moment, AdvanceError>>,
    },
}

/// What the components know, and the tasks that they have set themselves.
struct Components {
    agenda: Agenda<ClusterTask>,
    pods: HashMap<NamespacedName, Arc<PodView>>,
    pod_specs: PodSpecCache,
    nodes: HashMap<Arc<str>, Arc<NodeView>>,
    event_recorder: EventRecorder,
    namespaces: Namespaces,
    kubernetes_service: KubernetesService,
    event_expiry: EventExpiry,
    scheduling: Option<PodScheduling>,
    kubelet: Option<Kubelet>,
    garbage_collection: Option<GarbageCollection>,
    volumes: Option<Volumes>,
    workloads: Option<Workloads>,
    autoscaling: Option<Autoscaling>,
}

/// What a component works with.
struct ComponentContext<'a> {
    registry: &'a Registry,
    now: Moment,
    agenda: &'a mut Agenda<ClusterTask>,
    pods: &'a HashMap<NamespacedName, Arc<PodView>>,
    nodes: &'a HashMap<Arc<str>, Arc<NodeView>>,
    events: &'a mut EventRecorder,
}

/// The most changes that are read at once.
const BATCH_SIZE: usize = 1024;
/// The shortest time between two waits for a change: while clients write much, each write would wake the thread up.
const MIN_WAKE_INTERVAL: Duration = Duration::from_millis(1);
/// The longest wait for a change.
const MAX_WAIT: Duration = Duration::from_secs(3600);
/// The most rounds of work before commands are read again.
const MAX_ROUNDS: usize = if cfg!(test) { 1_000 } else { 10_000 };
/// How often so many rounds are worked at one moment. A StatefulSet whose pods start one after the other takes six rounds
/// for each; a ReplicaSet whose pods fail at once never ends, and is slower with each pod.
const MAX_ATTEMPTS_TO_SETTLE: usize = 3;

// === impl ControlPlane ===

impl ControlPlane {
    pub(crate) fn new(
        registry: Arc<Registry>,
        store: Arc<MemoryStore>,
        clock: Arc<ClusterClock>,
        settings: ControlPlaneSettings,
        recording: Option<ClusterRecording>,
        commands: Receiver<Command>,
    ) -> ControlPlane {
        let reader = store.read_changes();
        let components = Components::new(&settings, &clock);
        ControlPlane {
            registry,
            store,
            clock,
            settings,
            reader,
            commands,
            components,
            recording,
            last_change: None,
            advance_interrupt: None,
        }
    }

    /// A function that ends a wait for changes, so that commands are read.
    pub(crate) fn waker(&self) -> impl Fn() + Send + Sync + use<> {
        self.reader.waker()
    }

    /// Runs until it is told to stop. Returns the error of the recording, if there was one.
    pub(crate) fn run(mut self) -> history::Result<()> {
        self.list();
        let mut waiting: Vec<Sender<bool>> = Vec::new();
        let (mut attempts_to_settle, mut last_wake) = (0, Instant::now());
        loop {
            let is_idle = self.work();
            attempts_to_settle = if is_idle { 0 } else { attempts_to_settle + 1 };
            if is_idle || attempts_to_settle >= MAX_ATTEMPTS_TO_SETTLE {
                let is_settled = is_idle && self.components.endless_stages().is_none();
                for reply in waiting.drain(..) {
                    // Whoever waited may have gone.
                    let _ = reply.send(is_settled);
                }
                attempts_to_settle = 0;
            }
            while let Ok(command) = self.commands.try_recv() {
                match command {
                    Command::Stop => return self.close(),
                    Command::Settle(reply) => waiting.push(reply),
                    Command::Advance { target, interrupt, reply } => {
                        self.advance_interrupt = Some(interrupt);
                        let advanced = self.advance(target);
                        self.advance_interrupt = None;
                        let _ = reply.send(advanced.map(|()| self.clock.now()));
                    }
                }
            }
            let timeout =
                if is_idle && waiting.is_empty() { self.time_to_next_task() } else { Duration::ZERO };
            std::thread::sleep(MIN_WAKE_INTERVAL.saturating_sub(last_wake.elapsed()).min(timeout));
            self.read_changes(timeout);
            last_wake = Instant::now();
        }
    }

    /// Records what was written until now, and closes the history.
    fn close(mut self) -> history::Result<()> {
        for _ in 0..MAX_ROUNDS {
            if !self.read_changes(Duration::ZERO) {
                break;
            }
        }
        self.recording.map_or(Ok(()), ClusterRecording::close)
    }

    /// Works at the present moment until nothing is left to do. Returns whether that was reached.
    fn work(&mut self) -> bool {
        for _ in 0..MAX_ROUNDS {
            if self.is_interrupted() {
                return false;
            }
            let has_worked = self.components.work(&self.registry, self.clock.now());
            let has_read = self.read_changes(Duration::ZERO);
            if !has_worked && !has_read {
                return true;
            }
        }
        false
    }

    /// Reads the next changes. Returns whether there were any.
    fn read_changes(&mut self, timeout: Duration) -> bool {
        let changes = self.reader.next(BATCH_SIZE, timeout);
        let now = self.clock.now();
        for change in &changes {
            match &**change {
                StoreChange::Event(event) => {
                    if let Some(recording) = &mut self.recording {
                        recording.observe(now, event);
                    }
                    self.components.observe(&self.registry, now, event);
                }
                StoreChange::Reset => {
                    self.components = Components::new(&self.settings, &self.clock);
                    self.list();
                }
            }
        }
        if let Some(recording) = &mut self.recording {
            recording.write();
        }
        if let Some(last) = changes.last() {
            self.last_change = Some(last.clone());
        }
        !changes.is_empty()
    }

    /// Reads all objects that exist.
    fn list(&mut self) {
        let now = self.clock.now();
        if let Some(recording) = &mut self.recording {
            recording.observe_all(now, &self.store);
            recording.write();
        }
        for kind in self.store.kinds() {
            for object in self.store.objects(&kind).iter() {
                let added = StoreEvent {
                    version: 0,
                    kind: kind.clone(),
                    old: None,
                    new: object.clone(),
                    is_deletion: false,
                };
                self.components.observe(&self.registry, now, &added);
            }
        }
    }

    /// When the next task is due; a virtual clock does not bring it nearer.
    fn time_to_next_task(&self) -> Duration {
        if self.clock.is_virtual() {
            return MAX_WAIT;
        }
        let now = self.clock.now();
        // A virtual clock does not stop when Events end: they go at the next task.
        let due =
            self.components.next_due(now).into_iter().chain(self.components.event_expiry.next_due()).min();
        due.map_or(MAX_WAIT, |due| nanos_between(now, due).min(MAX_WAIT))
    }
}

/// The time from one moment to a later one.
fn nanos_between(from: Moment, to: Moment) -> Duration {
    Duration::from_nanos(u64::try_from(to.nanos() - from.nanos()).unwrap_or(0))
}

// === impl Components ===

impl Components {
    fn new(settings: &ControlPlaneSettings, clock: &ClusterClock) -> Components {
        let enabled = &settings.components;
        let autoscaler = settings.autoscaler.as_ref().filter(|_| enabled.autoscaler);
        Components {
            agenda: Agenda::default(),
            pods: HashMap::new(),
            pod_specs: PodSpecCache::default(),
            nodes: HashMap::new(),
            event_recorder: EventRecorder::default(),
            namespaces: Namespaces::new(settings.certificate_authority.clone()),
            kubernetes_service: KubernetesService::default(),
            event_expiry: EventExpiry::default(),
            scheduling: enabled
                .scheduler
                .then(|| PodScheduling::new(settings.scheduler.clone(), settings.scheduling_annotations)),
            kubelet: enabled.kubelet.then(|| Kubelet::new(settings.seed, !clock.is_virtual())),
            garbage_collection: enabled.garbage_collection.then(GarbageCollection::default),
            volumes: enabled.volumes.then(Volumes::default),
            workloads: enabled.workloads.then(|| Workloads::new(settings.seed)),
            autoscaling: autoscaler
                .map(|autoscaler| Autoscaling::new(autoscaler, settings.seed, clock.now())),
        }
    }

    /// When there is something to do next.
    fn next_due(&self, now: Moment) -> Option<Moment> {
        let scheduling = self.scheduling.as_ref().and_then(|scheduling| scheduling.next(now));
        let workloads = self.workloads.as_ref().and_then(Workloads::next);
        let autoscaling = self.autoscaling.as_ref().map(Autoscaling::next);
        [self.agenda.next(), scheduling, workloads, autoscaling].into_iter().flatten().min()
    }

    /// Whether something is about to happen by itself, soon.
    fn is_busy(&self) -> bool {
        self.agenda.is_busy()
            || self.scheduling.as_ref().is_some_and(PodScheduling::is_busy)
            || self.autoscaling.as_ref().is_some_and(Autoscaling::is_busy)
    }

    /// The stages that do not come to an end at the present moment.
    fn endless_stages(&self) -> Option<EndlessStages> {
        self.kubelet.as_ref().and_then(Kubelet::endless_stages)
    }

    /// Whether a component works with pods, which are parsed for it.
    fn has_pod_observer(&self) -> bool {
        self.scheduling.is_some()
            || self.kubelet.is_some()
            || self.volumes.is_some()
            || self.workloads.is_some()
            || self.autoscaling.is_some()
    }

    /// A change of an object.
    fn observe(&mut self, registry: &Registry, now: Moment, event: &StoreEvent) {
        let what = what_of(event);
        let has_pod_observer = self.has_pod_observer();
        let Components {
            agenda,
            pods,
            pod_specs,
            nodes,
            event_recorder: events,
            namespaces,
            kubernetes_service,
            event_expiry,
            scheduling,
            kubelet,
            garbage_collection,
            volumes,
            workloads,
            autoscaling,
        } = self;
        if let Some(garbage_collection) = garbage_collection {
            garbage_collection.observe(event);
        }
        namespaces.observe(event);
        kubernetes_service.observe(event);
        event_expiry.observe(now, event);
        if event.kind.is("", "Pod") {
            if !has_pod_observer {
                return;
            }
            let pod_event = pod_event(&what, pods, pod_specs);
            let context = &mut ComponentContext { registry, now, agenda, pods, nodes, events };
            if let Some(scheduling) = scheduling {
                scheduling.observe_pod(now, &pod_event);
            }
            if let Some(kubelet) = kubelet {
                kubelet.observe_pod(context, &pod_event);
            }
            if let Some(volumes) = volumes {
                volumes.observe_pod(&pod_event);
            }
            if let Some(workloads) = workloads {
                workloads.observe_pod(context, &pod_event, &what);
            }
            if let Some(autoscaling) = autoscaling {
                autoscaling.observe_pod(now, &pod_event);
            }
        } else if event.kind.is("", "Node") {
            let node_event = node_event(&what, nodes);
            let context = &mut ComponentContext { registry, now, agenda, pods, nodes, events };
            if let Some(scheduling) = scheduling {
                scheduling.observe_node(now, &node_event);
            }
            if let Some(kubelet) = kubelet {
                kubelet.observe_node(context, &node_event);
            }
            if let Some(workloads) = workloads {
                workloads.observe_node(&node_event, &what);
            }
            if let Some(autoscaling) = autoscaling {
                autoscaling.observe_node(&node_event);
            }
        } else {
            let context = &mut ComponentContext { registry, now, agenda, pods, nodes, events };
            if let Some(kubelet) = kubelet
                && event.kind == stage_kind()
            {
                kubelet.observe_stage(context, &what);
            }
            if let Some(scheduling) = scheduling {
                scheduling.observe(now, &what);
            }
            if let Some(volumes) = volumes {
                volumes.observe(&event.kind, &what);
            }
            if let Some(workloads) = workloads {
                workloads.observe(context, &what);
            }
            if let Some(autoscaling) = autoscaling {
                autoscaling.observe(&what);
            }
        }
    }

    /// Does what is due. Returns whether there was anything.
    fn work(&mut self, registry: &Registry, now: Moment) -> bool {
        let Components { agenda, pods, nodes, event_recorder: events, .. } = self;
        let mut has_worked = false;
        while let Some(task) = agenda.take(now) {
            has_worked = true;
            let context = &mut ComponentContext { registry, now, agenda, pods, nodes, events };
            if let Some(kubelet) = &mut self.kubelet {
                kubelet.run(context, task);
            }
        }
        let context = &mut ComponentContext { registry, now, agenda, pods, nodes, events };
        has_worked |= self.namespaces.work(context);
        has_worked |= self.kubernetes_service.work(context);
        has_worked |= self.event_expiry.work(context);
        if let Some(garbage_collection) = &mut self.garbage_collection {
            has_worked |= garbage_collection.work(context);
        }
        if let Some(volumes) = &mut self.volumes {
            has_worked |= volumes.work(context);
        }
        if let Some(workloads) = &mut self.workloads {
            has_worked |= workloads.work(context);
        }
        if let Some(scheduling) = &mut self.scheduling {
            has_worked |= scheduling.work(context);
        }
        if let Some(autoscaling) = &mut self.autoscaling {
            has_worked |= autoscaling.work(context);
        }
        has_worked
    }
}

/// The change of an object as an informer reports it.
fn what_of(event: &StoreEvent) -> What {
    let object: Object = event.new.clone();
    match (event.is_deletion, &event.old) {
        (true, _) => What::Deleted(object),
        (false, None) => What::Added(object),
        (false, Some(_)) => What::Modified(object),
    }
}

/// The parsed event of a pod. The view is kept until the pod is deleted.
fn pod_event(
    what: &What,
    pods: &mut HashMap<NamespacedName, Arc<PodView>>,
    specs: &mut PodSpecCache,
) -> PodEvent {
    let event = specs.pod_event(what);
    let view = event.object();
    match event.state() {
        Some(state) => drop(pods.insert(view.name.clone(), state.clone())),
        None => drop(pods.remove(&view.name)),
    }
    event
}

fn node_event(what: &What, nodes: &mut HashMap<Arc<str>, Arc<NodeView>>) -> NodeEvent {
    let event = NodeEvent::of_node(what);
    let view = event.object();
    match event.state() {
        Some(state) => drop(nodes.insert(view.name.clone(), state.clone())),
        None => drop(nodes.remove(&view.name)),
    }
    event
}
