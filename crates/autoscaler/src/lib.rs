//! cluster-autoscaler's decisions.
//!
//! Nothing here reads a clock, a file or a socket, and nothing depends on chance that was not seeded or on the order of a
//! hash table: the same changes, settings and seed give the same decisions, byte for byte.

mod backoff;
mod clock;
mod cloud;
mod cluster;
mod context;
mod decision;
mod delay;
mod down;
mod flags;
mod gpu;
mod gpu_names;
mod groups;
mod node;
mod packing;
mod pending;
mod pod;
mod readiness;
mod registry;
mod repeat;
mod run;
mod settings;
mod similar;
mod snapshot;
mod standing;
mod status;
mod templates;
#[cfg(test)]
mod testing;
mod timing;
mod trouble;
mod up;
mod view;
pub mod yaml;

use std::time::Duration;

use model::{Moment, NamespacedName, What};

use clock::Clock;
use cluster::Heard;
use context::{AutoscalingContext, SharedState};
use down::Down;
use packing::Packing;
use repeat::Rest;
use status::Status;
use timing::Timing;

pub use cloud::{
    Cloud, CloudError, CreationError, GroupId, Instance, InstanceState, ObservedCloud, Registered,
    RegisteredNode,
};
pub use cluster::KINDS;
pub use decision::{
    About, Action, BlockingReason, Choice, DeleteResult, Event, GroupState, Increase, LookedAt, Loop,
    PodList, Remaining, RemovedNode, ScaleDown, ScaleDownResult, ScaleUp, ScaleUpOption, ScaleUpResult,
    Unremovable, UnremovableReason,
};
pub use delay::{Delay, Work};
pub use flags::{BadFlags, GroupSize, Running};
pub use gpu_names::RESOURCES as GPU_RESOURCES;
pub use groups::{
    BadGroups, Failure, FailureKind, MOST_NODES, Membership, NodeGroup, NodeGroups, Prices, Pricing,
    Provisioning, node_template,
};
pub use pod::{PodStatusUpdate, Scheduled};
pub use settings::{BadVersion, Expander, GroupDefaults, GroupOptions, Range, Settings, Version};
pub use status::{loop_of, loop_told};
pub use view::{Cooldown, CooldownAfter, NodeView, PodView, Used};

/// The taint of nodes that are being deleted.
const TO_BE_DELETED: &str = "ToBeDeletedByClusterAutoscaler";
/// The taint of nodes that could be deleted.
const CANDIDATE: &str = "DeletionCandidateOfClusterAutoscaler";
/// The annotation of nodes that are still to come.
const UPCOMING: &str = "cluster-autoscaler.k8s.io/upcoming-node";
/// The condition of nodes that are put to sleep.
const SUSPENDED: &str = "Suspended";
/// At the beginning, as if the last change had been so long ago.
const LONG_AGO_NANOS: i64 = 3600 * 1_000_000_000;

/// An autoscaler, and the cluster as it knows it.
#[derive(Debug)]
pub struct Autoscaler {
    state: SharedState,
    packing: Packing,
    down: Down,
    status: Status,
    timing: Timing,
    started: Moment,
    /// It has cleaned up after the one before it.
    is_clean: bool,
    last_scale_up: Moment,
    last_deletion: Moment,
    /// The last loop, if the next may come to the same.
    rest: Option<Rest>,
}

/// What came of work between two loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Background {
    /// What the caller is to do, in this order.
    pub actions: Vec<Action>,
    /// What is told to users.
    pub events: Vec<Event>,
}

impl Autoscaler {
    /// An autoscaler that starts now, and knows no node and no pod.
    pub fn new(settings: Settings, start: Moment) -> Autoscaler {
        let long_ago = start.plus_nanos(-LONG_AGO_NANOS);
        Autoscaler {
            packing: Packing::default(),
            down: Down::new(&settings, start),
            status: Status::default(),
            timing: Timing::new(start),
            started: start,
            is_clean: false,
            last_scale_up: long_ago,
            last_deletion: long_ago,
            rest: None,
            state: SharedState::new(settings, start),
        }
    }

    /// The same, whose loops tell nothing of nodes that stay. Of large clusters that would be most of the work.
    #[must_use]
    pub fn being_brief(mut self) -> Autoscaler {
        self.down.be_brief();
        self
    }

    /// An object came, changed or went, as an informer would tell it. Kinds that mean nothing to the autoscaler are
    /// ignored.
    pub fn apply(&mut self, what: &What) {
        let heard = self.state.cluster.apply(what);
        self.take_note(heard);
    }

    /// The same of a pod that it knows, without a look at the object: what became of it, or that it is gone.
    pub fn apply_fate(&mut self, name: &NamespacedName, fate: Option<PodStatusUpdate>) {
        let heard = self.state.cluster.apply_fate(name, fate);
        self.take_note(heard);
    }

    fn take_note(&mut self, heard: Heard) {
        if heard.is_news {
            self.rest = None;
        }
        if let Some(since) = heard.unschedulable_since {
            self.timing.see(since);
        }
    }

    /// Does what is due between two loops: nodes are drained and deleted, instances asked for. The caller does as it is
    /// told, tells what came of it, and calls again, until nothing is left to do at this moment.
    pub fn background(&mut self, now: Moment, cloud: &mut dyn Cloud) -> Background {
        self.refresh(now, cloud);
        let mut work = Background::default();
        let clock = Clock::at(now);
        let mut context = self.state.context(&clock, cloud, &mut work.events, &mut work.actions);
        self.down.background(&mut context);
        self.keep_told(&mut work.events);
        work
    }

    /// Runs a loop of one that only watches: it says what it would do, and remembers nothing of having done it. What others
    /// do is told with [`Autoscaler::saw_growth`] and [`Autoscaler::saw_removal`].
    pub fn watch_once(&mut self, now: Moment, cloud: &mut dyn Cloud) -> Loop {
        let (last_scale_up, last_deletion) = (self.last_scale_up, self.last_deletion);
        let requests = self.state.registry.requests();
        let done = self.run_once(now, cloud);
        (self.last_scale_up, self.last_deletion) = (last_scale_up, last_deletion);
        self.rest = None;
        self.state.registry.restore(requests);
        self.down.let_stay(done.scale_down.nodes.iter().map(|removed| &removed.node));
        self.timing.was_idle();
        done
    }

    /// Somebody else made a group larger by so many nodes.
    pub fn saw_growth(&mut self, at: Moment, group: GroupId, by: i64, cloud: &dyn Cloud) {
        self.rest = None;
        self.last_scale_up = self.last_scale_up.max(at);
        let within = registry::provision_time(cloud, group, &self.state.settings);
        self.state.registry.register_scale_up(group, by, at, within);
    }

    /// Somebody else began to remove a node of a group.
    pub fn saw_removal(&mut self, at: Moment, group: GroupId) {
        self.rest = None;
        self.last_deletion = self.last_deletion.max(at);
        self.state.registry.register_scale_down(group, at);
    }

    /// How old a pod must be before anything is done for it.
    pub fn new_pod_delay(&self) -> Duration {
        self.state.settings.new_pod_scale_up_delay
    }

    /// The `status` of the status ConfigMap as the last loop wrote it; `None` if none is written.
    pub fn status(&self) -> Option<serde_json::Value> {
        self.state.settings.write_status_configmap.then(|| self.status.document())?
    }

    /// How often a loop looks at a node: at each for itself, and for every pod that waits.
    pub fn looks(&self, done: &Loop) -> u64 {
        let upcoming: i64 = done.groups.iter().map(|group| group.upcoming).sum();
        let nodes = self.state.cluster.nodes().len() as u64 + upcoming.max(0) as u64;
        nodes.saturating_mul(1 + self.state.cluster.waiting().len() as u64)
    }

    /// When there is something to do between two loops.
    pub fn next_wake(&self) -> Moment {
        let refresh = self.state.registry.next_refresh();
        self.down.next_wake().map_or(refresh, |wake| wake.min(refresh))
    }

    /// When the next loop is due, if nothing else happens until then.
    pub fn next_loop(&self) -> Moment {
        self.timing.next(&self.state.settings)
    }
}
