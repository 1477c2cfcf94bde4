//! Explanations of one node or one pod, queried after a loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::time::after;
use model::{Moment, NamespacedName};

use super::clock::LoopClock;
use super::cloud::{CloudProvider, GroupId};
use super::context::SharedState;
use super::decision::BlockingPodReason;
use super::readiness::Readiness;
use super::{Autoscaler, pod_list_processor};

/// The scale-down state of a node, whether or not the last loop considered it.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeExplanation {
    /// Its node group.
    pub group: Option<Arc<str>>,
    /// Whether it is ready.
    pub ready: bool,
    /// Its utilization; `None` if its allocatable amounts are missing.
    pub utilization: Option<UtilizationInfo>,
    /// The utilization threshold: above it the node is needed.
    pub utilization_threshold: f64,
    /// How long it must be unneeded before it is removed: the scale-down-unneeded or scale-down-unready time.
    pub required_unneeded_time: Duration,
    /// The pods to move, or the pod that blocks the removal with the reason.
    pub pods_to_move: Result<Vec<NamespacedName>, (NamespacedName, BlockingPodReason)>,
    /// Until when it is skipped as recently unremovable.
    pub unremovable_until: Option<Moment>,
    /// Whether it is being deleted.
    pub is_being_deleted: bool,
    /// The current cooldown, in which no node is removed.
    pub cooldown: Option<Cooldown>,
}

/// The utilization of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UtilizationInfo {
    /// CPU requests divided by allocatable; zero for nodes with GPUs.
    pub cpu: f64,
    /// The same for memory.
    pub memory: f64,
    /// The same for GPUs.
    pub gpu: f64,
    /// The resource that is compared with the threshold.
    pub resource: &'static str,
    /// The utilization of that resource.
    pub highest: f64,
}

/// A time in which no node is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooldown {
    /// The event that began it.
    pub cause: CooldownCause,
    /// The time of that event; `None` if it is only assumed, an hour before the autoscaler started.
    pub since: Option<Moment>,
    /// Its end; at this moment nodes may be removed again.
    pub until: Moment,
}

/// The event that begins a cooldown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CooldownCause {
    /// A scale-up.
    ScaleUp,
    /// A deleted node.
    ScaleDown,
    /// A failed deletion.
    FailedScaleDown,
}

/// Why a scale-up does or does not consider a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodExplanation {
    /// It is on a node, or nominated to one.
    Scheduled,
    /// It is being deleted.
    BeingDeleted,
    /// The scheduler has not reported it as unschedulable.
    NotUnschedulable,
    /// Its priority is below the cutoff for expendable pods.
    Expendable,
    /// It fits on a node of the snapshot.
    Schedulable {
        /// The node.
        node: Arc<str>,
        /// Whether that is an upcoming node.
        upcoming: bool,
    },
    /// It belongs to a DaemonSet; new nodes do not help such pods.
    DaemonSetPod,
    /// It is younger than the scale-up delay of new pods.
    Young {
        /// When it is old enough.
        until: Moment,
    },
    /// A scale-up considers it.
    AwaitsScaleUp,
}

impl Autoscaler {
    /// Explains a node; `None` if no node has that name.
    pub fn explain_node(
        &mut self,
        now: Moment,
        name: &str,
        cloud: &dyn CloudProvider,
    ) -> Option<NodeExplanation> {
        let clock = LoopClock::at(now);
        let SharedState { settings, cluster, .. } = &mut self.state;
        let id = cluster.nodes().find(|id| *cluster.snapshot.node(*id).name == *name)?;
        let group = cluster.group_for_node(id, cloud);
        let node = cluster.snapshot.node(id).clone();
        let options = group.and_then(|group| cloud.groups()[group.index()].options.as_ref());
        let options = settings.group_options(options);
        let ready = Readiness::of(&node, settings, cloud.gpu_label()).ready;
        let (used, has_gpu) = self.scale_down.utilization(
            settings,
            cluster,
            id,
            options.ignore_daemonsets_utilization,
            cloud.gpu_label(),
            &clock,
        );
        Some(NodeExplanation {
            group: group.map(|group| cloud.groups()[group.index()].name.clone()),
            ready,
            utilization: used,
            utilization_threshold: match has_gpu {
                true => options.scale_down_gpu_utilization_threshold,
                false => options.scale_down_utilization_threshold,
            },
            required_unneeded_time: if ready {
                options.scale_down_unneeded_time
            } else {
                options.scale_down_unready_time
            },
            pods_to_move: self.scale_down.pods_to_move(settings, cluster, id, &clock),
            unremovable_until: self.scale_down.unremovable_until(name, &clock),
            is_being_deleted: self.scale_down.deletions_in_progress().contains(name),
            cooldown: self.cooldown(group, &clock),
        })
    }

    /// Explains a pod after the last loop; `None` if it does not exist or is not listed.
    pub fn explain_pod(&self, now: Moment, name: &NamespacedName) -> Option<PodExplanation> {
        let SharedState { settings, cluster, .. } = &self.state;
        let id = cluster.find_pod(name)?;
        let pod = cluster.snapshot.pod(id);
        let is_unschedulable = pod.is_marked_unschedulable()
            || pod.is_unprocessed() && settings.bypasses_scheduler(pod.spec.scheduler_name());
        Some(if cluster.snapshot.filter_snapshot.node_of(id).is_some() || pod.node_name.is_some() {
            PodExplanation::Scheduled
        } else if pod.deletion_timestamp.is_some() {
            PodExplanation::BeingDeleted
        } else if !is_unschedulable {
            PodExplanation::NotUnschedulable
        } else if cluster.is_expendable(pod.spec.priority) {
            PodExplanation::Expendable
        } else if let Some(node) = self.hinting_simulator.hinted_node(pod) {
            PodExplanation::Schedulable {
                node: node.clone(),
                upcoming: cluster.snapshot.find_node(node).is_none(),
            }
        } else if pod.is_daemon_set_pod() {
            PodExplanation::DaemonSetPod
        } else if let Some(until) = pod_list_processor::young_until(pod, &LoopClock::at(now), settings) {
            PodExplanation::Young { until }
        } else {
            PodExplanation::AwaitsScaleUp
        })
    }

    /// The current cooldown of a group; of several the one that ends last.
    fn cooldown(&self, group: Option<GroupId>, clock: &LoopClock) -> Option<Cooldown> {
        let settings = &self.state.settings;
        let (up, down, failed) = match (settings.scale_down_delay_type_local, group) {
            (false, _) => {
                let failed = self.started.plus_nanos(-super::INITIAL_SCALE_TIME_OFFSET_NANOS);
                (Some(self.last_scale_up), Some(self.last_scale_down_delete), Some(failed))
            }
            (true, None) => (None, None, None),
            (true, Some(group)) => {
                let registry = &self.state.registry;
                let last = |moments: &BTreeMap<GroupId, Moment>| moments.get(&group).copied();
                (
                    last(&registry.last_scale_ups),
                    last(&registry.last_scale_downs),
                    last(&registry.last_failed_scale_downs),
                )
            }
        };
        let times = [
            (CooldownCause::ScaleUp, up, settings.scale_down_delay_after_add),
            (CooldownCause::ScaleDown, down, settings.scale_down_delay_after_delete),
            (CooldownCause::FailedScaleDown, failed, settings.scale_down_delay_after_failure),
        ];
        let times = times.into_iter().filter_map(|(cause, since, delay)| {
            let until = after(since?, delay);
            Some(Cooldown { cause, since: since.filter(|since| *since >= self.started), until })
        });
        times.filter(|time| !clock.has_reached(time.until)).max_by_key(|time| time.until)
    }
}
