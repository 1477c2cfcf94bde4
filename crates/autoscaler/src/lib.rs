//! cluster-autoscaler's decisions.
//!
//! Nothing here reads a clock, a file or a socket, and nothing depends on unseeded randomness or on the order of a hash
//! table: the same changes, settings and seed give the same decisions, byte for byte.

mod backoff;
mod clock;
mod cloud;
mod cluster_state;
mod context;
mod decision;
mod delay;
mod equivalence;
mod explanation;
mod flags;
mod gpu;
mod gpu_names;
mod groups;
mod hinting_simulator;
mod informer_cache;
mod loop_trigger;
mod node_eligibility;
mod pod;
mod pod_list_processor;
mod pod_summary;
mod readiness;
mod repeat;
mod run_once;
mod scale_down;
mod scale_up;
mod settings;
mod snapshot;
mod status;
mod templates;
#[cfg(test)]
mod testing;
mod unregistered;
pub mod yaml;

use std::time::Duration;

use kubernetes::objects::{NodeEvent, PodEvent};
use model::{Moment, What};

use clock::LoopClock;
use context::{AutoscalingContext, SharedState};
use hinting_simulator::HintingSimulator;
use informer_cache::ApplyOutcome;
use loop_trigger::LoopTrigger;
use repeat::RepeatableLoop;
use scale_down::ScaleDownState;
use status::ClusterAutoscalerStatus;

pub use cloud::{
    CloudProvider, CloudProviderError, CreationError, GroupId, Instance, InstanceState, ObservedCloud,
};
pub use decision::{
    Action, BlockingPodReason, DeleteResult, EquivalenceGroupResult, Event, ExpanderChoice, GroupState,
    Increase, InvolvedObject, LoopResult, NoScaleUpInfo, PodList, RemovedNode, ScaleDownResult,
    ScaleDownStatus, ScaleUpOption, ScaleUpResult, ScaleUpStatus, UnremovableNode, UnremovableReason,
};
pub use delay::{Delay, PerItemDelay};
pub use explanation::{Cooldown, CooldownCause, NodeExplanation, PodExplanation, UtilizationInfo};
pub use flags::{BadFlags, DeployedAutoscaler, GroupSize};
pub use gpu_names::RESOURCES as GPU_RESOURCES;
pub use groups::{
    BadGroups, MAX_GROUP_SIZE, MachinePrices, Membership, NodeGroup, NodeGroups, PodPricing, Provisioning,
    ProvisioningFailure, ProvisioningFailureKind, node_template,
};
pub use informer_cache::KINDS;
pub use settings::{
    BadVersion, Expander, GroupOptionOverrides, MinMax, NodeGroupAutoscalingOptions, Settings, Version,
};
pub use status::{loop_start_from_config_map, loop_start_from_status};

/// The annotation of upcoming nodes.
const UPCOMING_NODE_ANNOTATION: &str = "cluster-autoscaler.k8s.io/upcoming-node";
/// The condition of suspended nodes.
const SUSPENDED_CONDITION: &str = "Suspended";
/// At the start the last scale-up, scale-down and failure are taken to be this long ago, so that there is no cooldown.
const INITIAL_SCALE_TIME_OFFSET_NANOS: i64 = 3600 * 1_000_000_000;

/// An autoscaler and the cluster as its informers reported it.
#[derive(Debug)]
pub struct Autoscaler {
    state: SharedState,
    hinting_simulator: HintingSimulator,
    scale_down: ScaleDownState,
    status: ClusterAutoscalerStatus,
    loop_trigger: LoopTrigger,
    started: Moment,
    /// Whether taints left by an earlier autoscaler were removed.
    did_startup_cleanup: bool,
    last_scale_up: Moment,
    last_scale_down_delete: Moment,
    /// The last loop, if the next one may have the same result.
    repeatable_loop: Option<RepeatableLoop>,
}

/// The result of background work between two loops.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackgroundResult {
    /// Actions for the caller to carry out, in this order.
    pub actions: Vec<Action>,
    /// Kubernetes Events to emit.
    pub events: Vec<Event>,
}

impl Autoscaler {
    /// An autoscaler that starts now and has seen no node and no pod.
    pub fn new(settings: Settings, start: Moment) -> Autoscaler {
        let initial_time = start.plus_nanos(-INITIAL_SCALE_TIME_OFFSET_NANOS);
        Autoscaler {
            hinting_simulator: HintingSimulator::default(),
            scale_down: ScaleDownState::new(&settings, start),
            status: ClusterAutoscalerStatus::default(),
            loop_trigger: LoopTrigger::new(start),
            started: start,
            did_startup_cleanup: false,
            last_scale_up: initial_time,
            last_scale_down_delete: initial_time,
            repeatable_loop: None,
            state: SharedState::new(settings, start),
        }
    }

    /// Makes loops skip the report of unremovable nodes, which in large clusters is most of the work.
    #[must_use]
    pub fn without_unremovable_report(mut self) -> Autoscaler {
        self.scale_down.skip_unremovable_report();
        self
    }

    /// Applies an informer event. Kinds that the autoscaler does not watch are ignored.
    pub fn apply(&mut self, event: &What) {
        let outcome = self.state.cluster.apply(event);
        self.handle_apply_outcome(outcome);
    }

    /// Applies an informer event of a pod.
    pub fn apply_pod(&mut self, event: &PodEvent) {
        let outcome = self.state.cluster.apply_pod(event);
        self.handle_apply_outcome(outcome);
    }

    /// Applies an informer event of a node.
    pub fn apply_node(&mut self, event: &NodeEvent) {
        let outcome = self.state.cluster.apply_node(event);
        self.handle_apply_outcome(outcome);
    }

    fn handle_apply_outcome(&mut self, outcome: ApplyOutcome) {
        if outcome.is_relevant {
            self.repeatable_loop = None;
        }
        if let Some(since) = outcome.unschedulable_since {
            self.loop_trigger.report_unschedulable_pod(since);
        }
    }

    /// Does the work that is due between two loops: drains and deletes nodes, refreshes the instance cache. The caller
    /// carries out the actions, applies the resulting changes, and calls again until no action is returned.
    pub fn background(&mut self, now: Moment, cloud: &mut dyn CloudProvider) -> BackgroundResult {
        self.refresh_instances(now, cloud);
        let mut background_result = BackgroundResult::default();
        let clock = LoopClock::at(now);
        let mut context =
            self.state.context(&clock, cloud, &mut background_result.events, &mut background_result.actions);
        self.scale_down.background(&mut context);
        self.filter_status_events(&mut background_result.events);
        background_result
    }

    /// Runs a loop that reports its decisions but does not record them as carried out. Scale-ups and scale-downs of the
    /// real autoscaler are reported with [`Autoscaler::observe_scale_up`] and [`Autoscaler::observe_scale_down`].
    pub fn dry_run_once(&mut self, now: Moment, cloud: &mut dyn CloudProvider) -> LoopResult {
        let (last_scale_up, last_deletion) = (self.last_scale_up, self.last_scale_down_delete);
        let requests = self.state.registry.save_requests();
        let loop_result = self.run_once(now, cloud);
        (self.last_scale_up, self.last_scale_down_delete) = (last_scale_up, last_deletion);
        self.repeatable_loop = None;
        self.state.registry.restore_requests(requests);
        self.scale_down
            .cancel_deletions(loop_result.scale_down.removed_nodes.iter().map(|removed| &removed.node));
        self.loop_trigger.cancel_follow_ups();
        loop_result
    }

    /// Records that another autoscaler increased a group by that many nodes.
    pub fn observe_scale_up(&mut self, at: Moment, group: GroupId, delta: i64, cloud: &dyn CloudProvider) {
        self.repeatable_loop = None;
        self.last_scale_up = self.last_scale_up.max(at);
        let max_provision_time = cluster_state::max_node_provision_time(cloud, group, &self.state.settings);
        self.state.registry.register_scale_up(group, delta, at, max_provision_time);
    }

    /// Records that another autoscaler began to remove a node of a group.
    pub fn observe_scale_down(&mut self, at: Moment, group: GroupId) {
        self.repeatable_loop = None;
        self.last_scale_down_delete = self.last_scale_down_delete.max(at);
        self.state.registry.register_scale_down(group, at);
    }

    /// The age that a pod must have before a scale-up considers it.
    pub fn new_pod_scale_up_delay(&self) -> Duration {
        self.state.settings.new_pod_scale_up_delay
    }

    /// The `status` of the status ConfigMap as the last loop wrote it; `None` if none is written.
    pub fn status(&self) -> Option<serde_json::Value> {
        self.state.settings.write_status_configmap.then(|| self.status.document())?
    }

    /// The number of node checks in a loop: one per node, and one per node and unscheduled pod.
    pub fn node_check_count(&self, loop_result: &LoopResult) -> u64 {
        let upcoming: i64 = loop_result.groups.iter().map(|group| group.upcoming).sum();
        let nodes = self.state.cluster.nodes().len() as u64 + upcoming.max(0) as u64;
        nodes.saturating_mul(1 + self.state.cluster.unscheduled_pods().len() as u64)
    }

    /// When background work is due next.
    pub fn next_wake(&self) -> Moment {
        let refresh = self.state.registry.next_instance_refresh();
        self.scale_down.next_wake().map_or(refresh, |wake| wake.min(refresh))
    }

    /// When the next loop is due, if nothing else happens until then.
    pub fn next_loop(&self) -> Moment {
        self.loop_trigger.next_loop(&self.state.settings)
    }
}
