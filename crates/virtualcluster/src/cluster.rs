//! A virtual cluster: a store, the components that work on it, and the control of both.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use apiserver::{ApiError, MemoryStore, Registry, Store, StoreError, StoreSnapshot, TokenSigner, Write};
use kubernetes::objects::PodView;
use model::{Kind, Moment, NamespacedName, Object};
use serde_json::Value;

use crate::bootstrap::create_initial_objects;
use crate::clock::ClusterClock;
use crate::control_plane::{
    AdvanceCancellation, AdvanceError, AdvanceInterrupt, AdvanceTarget, Command, ControlPlane,
    ControlPlaneSettings, MAX_ADVANCE,
};
use crate::node_template::NodeTemplate;
use crate::recording::{ClusterRecording, RecordingOptions};
use crate::stage::{Stage, stage_kind};

/// The settings of a virtual cluster.
#[derive(Debug)]
pub struct VirtualClusterOptions {
    /// Its clock.
    pub clock: ClusterClock,
    /// Its components.
    pub control_plane: ControlPlaneSettings,
    /// The version that it shows: `v1.36.4`.
    pub git_version: String,
    /// The history that it is recorded into, if it is.
    pub recording: Option<RecordingOptions>,
}

impl Default for VirtualClusterOptions {
    /// A cluster of the newest version that the components know, on the wall clock, with the default components.
    fn default() -> VirtualClusterOptions {
        VirtualClusterOptions {
            clock: ClusterClock::Real,
            control_plane: ControlPlaneSettings::default(),
            git_version: DEFAULT_GIT_VERSION.to_owned(),
            recording: None,
        }
    }
}

/// The version that a cluster shows unless it is told another one.
const DEFAULT_GIT_VERSION: &str = "v1.36.4";

/// A cluster whose components do not run yet: nobody changes the objects that it begins with while they are added.
pub struct PreparedCluster {
    store: Arc<MemoryStore>,
    registry: Arc<Registry>,
    clock: Arc<ClusterClock>,
    control_plane: ControlPlaneSettings,
    recording: Option<ClusterRecording>,
}

/// A Kubernetes cluster in this process.
pub struct VirtualCluster {
    store: Arc<MemoryStore>,
    registry: Arc<Registry>,
    clock: Arc<ClusterClock>,
    commands: Sender<Command>,
    wake: Box<dyn Fn() + Send + Sync>,
    thread: Mutex<Option<JoinHandle<history::Result<()>>>>,
    /// The state that a reset restores.
    base: Mutex<StoreSnapshot>,
    /// How often all advances were interrupted.
    interruptions: Arc<AtomicU64>,
}

/// A cluster that cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The autoscaler is to run, but there is nothing for it to scale.
    #[error("the autoscaler has no node groups: set `autoscaler` of the control plane's settings")]
    NoNodeGroups,
    /// The objects that every cluster has could not be created.
    #[error("cannot create the first objects of the cluster")]
    Objects(#[from] ApiError),
    /// The system has no randomness for the key that signs tokens.
    #[error("cannot generate the key of service account tokens")]
    Random,
    /// The history of the recording could not be created.
    #[error("cannot record the cluster")]
    Recording(#[from] history::Error),
    /// There is no thread for its components.
    #[error("cannot start a thread")]
    Thread(#[source] std::io::Error),
}

/// What the scheduler decided about some pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulingOutcome {
    /// Pods that were bound, with their nodes.
    pub scheduled: Vec<(NamespacedName, Arc<str>)>,
    /// Pods that no node is feasible for.
    pub unschedulable: BTreeSet<NamespacedName>,
    /// Pods without a decision.
    pub undecided: BTreeSet<NamespacedName>,
}

// === impl VirtualCluster ===

impl VirtualCluster {
    /// Starts a cluster with the objects that every cluster has.
    pub fn start(options: VirtualClusterOptions) -> Result<VirtualCluster, StartError> {
        VirtualCluster::prepare(options)?.start()
    }

    /// A cluster with the objects that every cluster has, whose components do not run yet.
    pub fn prepare(options: VirtualClusterOptions) -> Result<PreparedCluster, StartError> {
        if options.control_plane.components.autoscaler && options.control_plane.autoscaler.is_none() {
            return Err(StartError::NoNodeGroups);
        }
        let clock = Arc::new(options.clock);
        let store_clock = clock.clone();
        let store = Arc::new(MemoryStore::new(Box::new(move || store_clock.now()), options.git_version));
        let registry = Registry::new(store.clone(), options.control_plane.seed);
        let signer = TokenSigner::generate().map_err(|_| StartError::Random)?;
        let registry = registry.with_components(options.control_plane.components.status_names());
        let registry = Arc::new(registry.with_token_signer(signer).with_validator(stage_kind(), |object| {
            Stage::parse(object).map(drop).map_err(|error| error.to_string())
        }));
        create_initial_objects(&registry, options.control_plane.certificate_authority.as_deref())?;
        let recording = options.recording.map(|recording| ClusterRecording::create(recording, &store));
        let recording = recording.transpose()?;
        Ok(PreparedCluster { store, registry, clock, control_plane: options.control_plane, recording })
    }

    /// Writes to the cluster as a client does.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The objects of the cluster.
    pub fn store(&self) -> &Arc<MemoryStore> {
        &self.store
    }

    /// The present moment in the cluster.
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Creates nodes from a template.
    pub fn add_nodes(&self, count: usize, template: &NodeTemplate) -> Result<(), ApiError> {
        add_nodes(&self.registry, count, template)
    }

    /// Creates an object as `kubectl create` does.
    pub fn create(&self, object: Value) -> Result<Object, ApiError> {
        self.registry.create_object(object)
    }

    /// The objects that exist now are those that a reset restores.
    pub fn set_base(&self) {
        let mut base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        *base = self.store.snapshot();
    }

    /// Restores the state of the last [`set_base`](VirtualCluster::set_base), or of the start. An advance that runs
    /// ends.
    pub fn reset(&self) {
        self.interrupt_advances();
        let base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        self.store.restore(&base);
    }

    /// Waits until the components have nothing left to do at the present moment. Returns whether that was reached:
    /// stages that follow each other without delay, for example, never end.
    pub fn settle(&self) -> bool {
        let (reply, settled) = mpsc::channel();
        self.command(Command::Settle(reply));
        settled.recv().unwrap_or(false)
    }

    /// Moves a virtual clock, and lets everything happen that is due meanwhile. Returns the moment that it shows then.
    pub fn advance(&self, target: AdvanceTarget) -> Result<Moment, AdvanceError> {
        self.advance_unless(target, AdvanceCancellation::default())
    }

    /// The same, until it is cancelled: then it ends at the next task.
    pub fn advance_unless(
        &self,
        target: AdvanceTarget,
        cancellation: AdvanceCancellation,
    ) -> Result<Moment, AdvanceError> {
        if matches!(target, AdvanceTarget::By(duration) if duration > MAX_ADVANCE) {
            return Err(AdvanceError::TooFar);
        }
        let (reply, advanced) = mpsc::channel();
        let interrupt = AdvanceInterrupt::new(cancellation, self.interruptions.clone());
        self.command(Command::Advance { target, interrupt, reply });
        advanced.recv().unwrap_or(Err(AdvanceError::Stopped))
    }

    /// Waits until each of these pods is bound, or was found unschedulable.
    pub fn wait_until_decided(&self, pods: &[NamespacedName], timeout: Duration) -> SchedulingOutcome {
        let changes = self.store.read_changes();
        let deadline = std::time::Instant::now() + timeout;
        loop {
            let outcome = self.scheduling_outcome(pods);
            let left = deadline.saturating_duration_since(std::time::Instant::now());
            if outcome.undecided.is_empty() || left.is_zero() {
                return outcome;
            }
            changes.next(usize::MAX, left);
        }
    }

    fn scheduling_outcome(&self, pods: &[NamespacedName]) -> SchedulingOutcome {
        let existing = self.store.objects(&Kind::new("", "Pod"));
        let mut outcome = SchedulingOutcome::default();
        for name in pods {
            match existing.get(name).map(PodView::parse) {
                Some(PodView { node_name: Some(node), .. }) => outcome.scheduled.push((name.clone(), node)),
                Some(pod) if pod.status.is_unschedulable() => {
                    outcome.unschedulable.insert(name.clone());
                }
                _ => {
                    outcome.undecided.insert(name.clone());
                }
            }
        }
        outcome
    }

    /// Ends the components, and closes the history that the cluster is recorded into: then it has every change that
    /// was made before. An advance that runs ends.
    pub fn stop(&self) -> Result<(), history::Error> {
        self.interrupt_advances();
        self.command(Command::Stop);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that panicked has reported it.
        thread.and_then(|thread| thread.join().ok()).unwrap_or(Ok(()))
    }

    fn interrupt_advances(&self) {
        self.interruptions.fetch_add(1, Ordering::AcqRel);
    }

    fn command(&self, command: Command) {
        // The thread ends only with the cluster.
        let _ = self.commands.send(command);
        (self.wake)();
    }
}

impl Drop for VirtualCluster {
    fn drop(&mut self) {
        // Whoever wants to know of an error stops the cluster.
        let _ = self.stop();
    }
}

// === impl PreparedCluster ===

impl PreparedCluster {
    /// Starts the components. The objects that exist now are those that a reset restores.
    pub fn start(self) -> Result<VirtualCluster, StartError> {
        let PreparedCluster { store, registry, clock, control_plane, recording } = self;
        let (commands, receiver) = mpsc::channel();
        let control_plane = ControlPlane::new(
            registry.clone(),
            store.clone(),
            clock.clone(),
            control_plane,
            recording,
            receiver,
        );
        let base = Mutex::new(store.snapshot());
        let wake = Box::new(control_plane.waker());
        let thread = std::thread::Builder::new().name("control-plane".to_owned());
        let thread = thread.spawn(move || control_plane.run());
        let thread = Mutex::new(Some(thread.map_err(StartError::Thread)?));
        let interruptions = Arc::default();
        Ok(VirtualCluster { store, registry, clock, commands, wake, thread, base, interruptions })
    }

    /// Creates nodes from a template.
    pub fn add_nodes(&self, count: usize, template: &NodeTemplate) -> Result<(), ApiError> {
        add_nodes(&self.registry, count, template)
    }

    /// Creates an object as `kubectl create` does.
    pub fn create(&self, object: Value) -> Result<Object, ApiError> {
        self.registry.create_object(object)
    }

    /// Creates the object of a manifest, whose unknown fields are dropped. Returns a sentence about each of them.
    pub fn create_manifest(&self, manifest: &Object) -> Result<Vec<String>, ApiError> {
        self.registry.create_manifest(manifest).map(|(_, unknown)| unknown)
    }

    /// Adds an object as it is, with its uid, times and status. It replaces one of that name.
    pub fn import(&self, object: &Object) -> Result<Object, ApiError> {
        let meta = object.meta();
        let kind = Kind::of(&meta.api_version, &meta.kind);
        let kind = self.store.resources().of_kind(&kind).map_or(kind, |resource| resource.storage_kind());
        let name = NamespacedName::new(&*meta.namespace, &*meta.name);
        let expected = self.store.objects(&kind).get(&name).map(apiserver::resource_version_of);
        let value = object.value().map_err(|error| StoreError::Failed(error.to_string()))?;
        let write = Write { kind, name, expected, object: value, is_deletion: false, may_wait: false };
        Ok(self.store.commit(write)?)
    }
}

fn add_nodes(registry: &Registry, count: usize, template: &NodeTemplate) -> Result<(), ApiError> {
    (0..count).try_for_each(|index| registry.create_object(template.node(index)).map(drop))
}
