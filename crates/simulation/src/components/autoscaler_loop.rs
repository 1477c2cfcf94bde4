//! The autoscaler's loop and its cloud provider.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::{Autoscaler, BackgroundResult, CloudProvider, LoopResult, ScaleUpResult};
use indexmap::IndexMap;
use kubernetes::objects::{ConditionStatus, NodeEvent, NodeView, PodConditionType, PodEvent};
use kubernetes::time::after;
use model::{Moment, NamespacedName, What};
use rustc_hash::FxBuildHasher;

use crate::cloud::{CloudChange, SimulatedCloud};
use crate::latency::{LatencyKind, LatencySampler};
use crate::setup::AutoscalerSetup;

/// cluster-autoscaler's loop and its cloud provider.
#[derive(Debug)]
pub struct AutoscalerLoop {
    autoscaler: Autoscaler,
    cloud: SimulatedCloud,
    /// The last event of each pod that the autoscaler has not received yet.
    queued_events: IndexMap<NamespacedName, PodEvent, FxBuildHasher>,
    /// The node group of every node that has one.
    groups: BTreeMap<Arc<str>, Arc<str>>,
    /// The end of its last loop.
    busy_until: Moment,
    /// The result of its last loop.
    last_result: Option<LoopResult>,
    /// The moment of the last loop, if it changed nothing and left nothing for a later one.
    last_idle_loop: Option<Moment>,
    /// Pods that the last loop found no scale-up for.
    pods_without_scale_up: BTreeSet<NamespacedName>,
    /// When a pod that a scale-up might help was last found unschedulable.
    last_unschedulable: Moment,
}

/// The minimum duration of a loop. With a scan interval of zero, time would otherwise not advance.
const MIN_LOOP_DURATION: Duration = Duration::from_millis(1);

impl AutoscalerLoop {
    /// An autoscaler of a cluster that begins at a moment.
    pub fn new(setup: AutoscalerSetup, start: Moment) -> AutoscalerLoop {
        AutoscalerLoop {
            autoscaler: Autoscaler::new(setup.settings, setup.start).without_unremovable_report(),
            cloud: setup.cloud,
            queued_events: IndexMap::default(),
            groups: BTreeMap::new(),
            busy_until: setup.start,
            last_result: None,
            last_idle_loop: None,
            pods_without_scale_up: BTreeSet::new(),
            last_unschedulable: start,
        }
    }

    /// The autoscaler, for its status.
    pub fn autoscaler(&self) -> &Autoscaler {
        &self.autoscaler
    }

    /// An object other than a pod or node was added, modified or deleted.
    pub fn apply(&mut self, what: &What) {
        self.autoscaler.apply(what);
    }

    /// A node was added, modified or deleted.
    pub fn apply_node(&mut self, event: &NodeEvent) {
        self.autoscaler.apply_node(event);
    }

    /// Queues a pod event. More may follow before the autoscaler's next activity, and only the pod's state by then
    /// matters. An unschedulable pod is delivered at once, since the autoscaler may start a loop earlier for it.
    pub fn apply_pod(&mut self, event: PodEvent) {
        let pod = event.object().clone();
        if event.state().is_none() {
            // A new pod of the same name is another pod.
            self.pods_without_scale_up.remove(&pod.name);
        }
        let is_unschedulable = event.state().is_some()
            && pod.node_name.is_none()
            && !pod.is_terminating()
            && pod
                .status
                .condition(PodConditionType::PodScheduled)
                .is_some_and(|scheduled| scheduled.status == ConditionStatus::False);
        if is_unschedulable {
            self.queued_events.swap_remove(&pod.name);
            self.autoscaler.apply_pod(&event);
        } else {
            self.queued_events.insert(pod.name.clone(), event);
        }
    }

    /// Delivers the queued pod events. To be called before each activity of the autoscaler.
    pub fn deliver_pod_events(&mut self) {
        for (_, event) in self.queued_events.drain(..) {
            self.autoscaler.apply_pod(&event);
        }
    }

    /// The scheduler found a pod unschedulable, with a new message.
    pub fn pod_unschedulable(&mut self, now: Moment, pod: &NamespacedName) {
        if !self.pods_without_scale_up.contains(pod) {
            self.last_unschedulable = now;
        }
    }

    /// A node was added. Returns its node group, if it has one.
    pub fn node_added(&mut self, node: &NodeView) -> Option<Arc<str>> {
        let group = self.cloud.adopt(node)?;
        let group = self.cloud.groups()[group.index()].name.clone();
        self.groups.insert(node.name.clone(), group.clone());
        Some(group)
    }

    /// A node was deleted, and its machine with it.
    pub fn node_deleted(&mut self, node: &NodeView) {
        self.groups.remove(&node.name);
        self.cloud.node_deleted(node);
    }

    /// The group of a node.
    pub fn group_of(&self, node: &str) -> Option<&Arc<str>> {
        self.groups.get(node)
    }

    /// When the autoscaler or its cloud next has something to do.
    pub fn next(&self) -> Moment {
        let next = self.next_loop().min(self.autoscaler.next_wake());
        self.cloud.next_wake().map_or(next, |wake| wake.min(next))
    }

    fn next_loop(&self) -> Moment {
        self.autoscaler.next_loop().max(self.busy_until)
    }

    /// The changes in the cloud until now.
    pub fn cloud_changes(&mut self, now: Moment) -> Vec<CloudChange> {
        self.cloud.advance(now)
    }

    /// The work due between loops. More may be due once that is carried out and reported.
    pub fn background(&mut self, now: Moment) -> BackgroundResult {
        self.autoscaler.background(now, &mut self.cloud)
    }

    /// Runs a loop if one is due. Its result is to be [returned](AutoscalerLoop::finish) once it has been carried out.
    pub fn run_once(&mut self, now: Moment, sampler: &mut LatencySampler) -> Option<LoopResult> {
        if self.next_loop() > now {
            return None;
        }
        let loop_result = self.repeat(now).unwrap_or_else(|| self.compute(now));
        let duration = sampler.draw_for_work(
            LatencyKind::AutoscalerLoop,
            now,
            self.autoscaler.node_check_count(&loop_result),
        );
        self.busy_until = after(now, duration.max(MIN_LOOP_DURATION));
        Some(loop_result)
    }

    /// The last loop's result, if another loop would have the same.
    fn repeat(&mut self, now: Moment) -> Option<LoopResult> {
        let last = self.last_result.take()?;
        if !self.autoscaler.try_repeat(now, &self.cloud) {
            return None;
        }
        self.last_idle_loop = self.last_idle_loop.map(|_| now);
        Some(LoopResult { at: now, ..last })
    }

    fn compute(&mut self, now: Moment) -> LoopResult {
        let loop_result = self.autoscaler.run_once(now, &mut self.cloud);
        self.last_idle_loop = is_idle_loop(&loop_result).then_some(now);
        let remaining = loop_result.scale_ups.iter().flat_map(|up| &up.pods_remain_unschedulable);
        self.pods_without_scale_up = remaining.map(|remaining| remaining.pod.clone()).collect();
        loop_result
    }

    /// The result of a loop has been carried out.
    pub fn finish(&mut self, loop_result: LoopResult) {
        self.last_result = Some(loop_result);
    }

    #[cfg(test)]
    pub(crate) fn forget_last_result(&mut self) {
        self.last_result = None;
    }

    /// Whether a node is on its way.
    pub fn awaits_node(&self) -> bool {
        self.cloud.next_wake().is_some()
    }

    /// Whether the last loop changed nothing and already considered all unschedulable pods.
    pub fn is_idle(&self) -> bool {
        // A loop at the very moment may have run before the pod was found unschedulable, and it considers only pods
        // that are older than the delay.
        self.last_idle_loop.is_some_and(|idle_since| {
            idle_since > after(self.last_unschedulable, self.autoscaler.new_pod_scale_up_delay())
        })
    }
}

/// Whether a loop changed nothing and left nothing for a later one, such as pods that are too new.
fn is_idle_loop(loop_result: &LoopResult) -> bool {
    let scale_ups = loop_result.scale_ups.iter().chain(&loop_result.min_size_scale_up);
    let is_idle_result = |result| !matches!(result, ScaleUpResult::Successful | ScaleUpResult::InCooldown);
    scale_ups.map(|up| up.result).all(is_idle_result) && loop_result.scale_down.removed_nodes.is_empty()
}
