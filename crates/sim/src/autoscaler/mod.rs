//! cluster-autoscaler's rules.

mod backoff;
mod cloud;
mod cluster;
mod decision;
mod down;
mod flags;
pub(crate) mod go_duration;
mod gpu;
mod groups;
mod node;
mod packing;
mod pending;
mod pod;
mod readiness;
mod registry;
mod run;
mod settings;
mod similar;
mod snapshot;
pub(crate) mod status;
mod templates;
pub(crate) mod time;
mod timing;
mod trouble;
mod up;
mod view;
mod yaml;

use std::time::Duration;

use model::{Moment, What};
use rand::SeedableRng;
use rand_pcg::Pcg64;

use cluster::Cluster;
use down::Down;
use packing::Packing;
use readiness::Readiness;
use registry::Registry;
use status::Status;
use templates::Templates;
use timing::Timing;

pub use cloud::{
    Cloud, CloudChange, CloudError, CreationError, GroupId, Instance, InstanceState, ObservedCloud, Pricing,
    Registered, SimulatedCloud, made_for, made_ready,
};
pub use cluster::KINDS;
pub use decision::{
    About, Action, BlockingReason, Choice, DeleteResult, Event, GroupState, Increase, LookedAt, Loop,
    PodList, Remaining, RemovedNode, ScaleDown, ScaleDownResult, ScaleUp, ScaleUpOption, ScaleUpResult,
    Unremovable, UnremovableReason,
};
pub use flags::{BadFlags, GroupSize, Running};
pub use groups::{
    BadGroups, Delay, Derived, Failure, FailureKind, Measure, Membership, NodeGroup, NodeGroups, Prices,
    Provisioning, ToldBy, derive,
};
pub use settings::{BadVersion, Expander, GroupDefaults, GroupOptions, Range, Settings, Version};
pub use status::loop_of;
pub use view::{Cooldown, CooldownAfter, NodeView, PodView, Used};

/// The taint of nodes that are being deleted.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// The taint of nodes that could be deleted.
const CANDIDATE: &str = "DeletionCandidateOfClusterAutoscaler";
/// The condition of nodes that are put to sleep.
const SUSPENDED: &str = "Suspended";
/// At the beginning, as if the last change had been so long ago.
const LONG_AGO_NANOS: i64 = 3600 * 1_000_000_000;

/// An autoscaler, and the cluster as it knows it.
#[derive(Debug)]
pub struct Autoscaler {
    settings: Settings,
    cluster: Cluster,
    registry: Registry,
    templates: Templates,
    packing: Packing,
    down: Down,
    status: Status,
    dice: Pcg64,
    timing: Timing,
    started: Moment,
    /// It has cleaned up after the one before it.
    is_clean: bool,
    last_scale_up: Moment,
    last_deletion: Moment,
}

/// What came of work between two loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Background {
    /// What the caller is to do, in this order.
    pub actions: Vec<Action>,
    /// What is told to users.
    pub events: Vec<Event>,
}

/// What every part of one loop works with.
pub(crate) struct Context<'a> {
    pub now: Moment,
    pub settings: &'a Settings,
    pub cloud: &'a mut dyn Cloud,
    pub cluster: &'a mut Cluster,
    pub registry: &'a mut Registry,
    /// What a new node of each group would be like.
    pub templates: &'a Templates,
    /// By node number, for every node of the cluster at the beginning of the loop.
    pub readiness: &'a [Option<Readiness>],
    pub dice: &'a mut Pcg64,
    pub events: &'a mut Vec<Event>,
    pub actions: &'a mut Vec<Action>,
}

impl Autoscaler {
    /// An autoscaler that starts now, and knows no node and no pod.
    pub fn new(settings: Settings, start: Moment) -> Autoscaler {
        let long_ago = start.plus_nanos(-LONG_AGO_NANOS);
        Autoscaler {
            cluster: Cluster::new(&settings),
            registry: Registry::new(&settings, start),
            templates: Templates::default(),
            packing: Packing::default(),
            down: Down::new(&settings, start),
            status: Status::default(),
            dice: Pcg64::seed_from_u64(settings.seed),
            timing: Timing::new(start),
            started: start,
            is_clean: false,
            last_scale_up: long_ago,
            last_deletion: long_ago,
            settings,
        }
    }

    /// An object came, changed or went, as an informer would tell it. Kinds that mean nothing to the autoscaler are
    /// ignored.
    pub fn apply(&mut self, what: &What) {
        if let Some(since) = self.cluster.apply(what) {
            self.timing.see(since);
        }
    }

    /// Does what is due between two loops: nodes are drained and deleted, instances asked for. The caller does as it is
    /// told, tells what came of it, and calls again, until nothing is left to do at this moment.
    pub fn background(&mut self, now: Moment, cloud: &mut dyn Cloud) -> Background {
        self.registry.refresh(now, cloud);
        let mut work = Background::default();
        let mut context = Context {
            now,
            settings: &self.settings,
            cloud,
            cluster: &mut self.cluster,
            registry: &mut self.registry,
            templates: &self.templates,
            readiness: &[],
            dice: &mut self.dice,
            events: &mut work.events,
            actions: &mut work.actions,
        };
        self.down.background(&mut context);
        self.keep_told(&mut work.events);
        work
    }

    /// Runs a loop of one that only watches: it says what it would do, and remembers nothing of having done it. What others
    /// do is told with [`Autoscaler::saw_growth`] and [`Autoscaler::saw_removal`].
    pub fn watch_once(&mut self, now: Moment, cloud: &mut dyn Cloud) -> Loop {
        let (last_scale_up, last_deletion) = (self.last_scale_up, self.last_deletion);
        let requests = self.registry.requests();
        let done = self.run_once(now, cloud);
        (self.last_scale_up, self.last_deletion) = (last_scale_up, last_deletion);
        self.registry.restore(requests);
        self.down.let_stay(done.scale_down.nodes.iter().map(|removed| &removed.node));
        self.timing.was_idle();
        done
    }

    /// Somebody else made a group larger by so many nodes.
    pub fn saw_growth(&mut self, at: Moment, group: GroupId, by: i64, cloud: &dyn Cloud) {
        self.last_scale_up = self.last_scale_up.max(at);
        let within = registry::provision_time(cloud, group, &self.settings);
        self.registry.register_scale_up(group, by, at, within);
    }

    /// Somebody else began to remove a node of a group.
    pub fn saw_removal(&mut self, at: Moment, group: GroupId) {
        self.last_deletion = self.last_deletion.max(at);
        self.registry.register_scale_down(group, at);
    }

    /// How old a pod must be before anything is done for it.
    pub fn new_pod_delay(&self) -> Duration {
        self.settings.new_pod_scale_up_delay
    }

    /// When there is something to do between two loops.
    pub fn next_wake(&self) -> Moment {
        let refresh = self.registry.next_refresh();
        self.down.next_wake().map_or(refresh, |wake| wake.min(refresh))
    }

    /// When the next loop is due, if nothing else happens until then.
    pub fn next_loop(&self) -> Moment {
        self.timing.next(&self.settings)
    }
}
