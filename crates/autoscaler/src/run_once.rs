//! `RunOnce`: the steps of one loop, in cluster-autoscaler's order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::time::after;
use model::{Moment, NamespacedName};
use scheduler::ids::{NodeId, PodId};

use super::clock::LoopClock;
use super::cloud::CloudProvider;
use super::cluster_state::{self, group_ids, warning_event};
use super::decision::{
    Event, GroupState, InvolvedObject, LoopResult, NoScaleUpInfo, RemovedNode, ScaleDownResult,
    ScaleDownStatus, ScaleUpResult, ScaleUpStatus,
};
use super::pod_summary::SchedulingState;
use super::scale_down::DeletionsInProgress;
use super::settings::{Settings, Version};
use super::status::ClusterAutoscalerStatus;
use super::templates::TemplateNodeInfo;
use super::{
    Autoscaler, AutoscalingContext, INITIAL_SCALE_TIME_OFFSET_NANOS, UPCOMING_NODE_ANNOTATION,
    pod_list_processor, scale_up, unregistered,
};

/// Pods younger than this may still be scheduled without a scale-up.
const UNSCHEDULABLE_POD_TIME_BUFFER_NANOS: i64 = 2 * 1_000_000_000;
/// The same for pods that request a GPU.
const UNSCHEDULABLE_POD_WITH_GPU_TIME_BUFFER_NANOS: i64 = 30 * 1_000_000_000;
/// Unready nodes cause an Event only this long after the start.
const NODES_NOT_READY_AFTER_START_NANOS: i64 = 10 * 60 * 1_000_000_000;

/// The decisions of a loop at its end.
struct LoopOutcome {
    scale_ups: Vec<ScaleUpStatus>,
    min_size_scale_up: Option<ScaleUpStatus>,
    scale_down_result: ScaleDownResult,
    removed_nodes: Vec<RemovedNode>,
    error: Option<String>,
}

impl Autoscaler {
    /// Runs one loop.
    pub fn run_once(&mut self, now: Moment, cloud: &mut dyn CloudProvider) -> LoopResult {
        self.refresh_instances(now, cloud);
        let clock = &LoopClock::at(now);
        let before = (self.state.cluster.snapshot.last_match_index(), self.state.rng.clone());
        let built_before = self.state.templates.built_count();
        let (mut events, mut actions) = (Vec::new(), Vec::new());
        self.state.update_node_eligibilities(cloud);
        let (nodes, ready) = (
            self.state.cluster.node_order().to_vec(),
            self.state.node_eligibilities.ready_and_schedulable_count,
        );
        if !std::mem::replace(&mut self.did_startup_cleanup, true) {
            clock.prevent_repeat();
            super::scale_down::clean_up(&mut self.state.context(clock, cloud, &mut events, &mut actions));
        }
        if !self.state.settings.scale_up_from_zero && ready == 0 {
            let loop_result =
                LoopResult { actions, ..self.act_on_empty_cluster(clock, cloud, nodes.is_empty(), events) };
            self.remember_if_repeatable(&loop_result, clock, 0);
            return loop_result;
        }
        self.state.cluster.snapshot.begin_loop(nodes.clone());
        self.state.recompute_templates(clock, cloud);
        let in_progress = self.scale_down.deletions_in_progress();
        let mut context = self.state.context(clock, cloud, &mut events, &mut actions);
        cluster_state::update_nodes(&mut context);
        let mut loop_state = LoopState {
            hinting_simulator: &mut self.hinting_simulator,
            scale_down: &mut self.scale_down,
            status: &mut self.status,
            last_scale_up: &mut self.last_scale_up,
            last_scale_down_delete: &mut self.last_scale_down_delete,
            did_scale: false,
            last_scale_down_fail: self.started.plus_nanos(-INITIAL_SCALE_TIME_OFFSET_NANOS),
        };
        let outcome = loop_state.run(&mut context, nodes, ready, &in_progress);
        let did_something = loop_state.did_scale;
        let scale_down = self.scale_down.report(outcome.scale_down_result, outcome.removed_nodes);
        let groups = group_states(&context);
        let healthy = context.registry.is_cluster_healthy(context.settings);
        self.status.update(clock, context.settings, context.cloud, context.registry);
        context.cluster.snapshot.end_loop();
        self.filter_status_events(&mut events);
        self.loop_trigger.loop_ran(now, did_something);
        if did_something || (self.state.cluster.snapshot.last_match_index(), self.state.rng.clone()) != before
        {
            clock.prevent_repeat();
        }
        let loop_result = LoopResult {
            at: now,
            error: outcome.error,
            scale_ups: outcome.scale_ups,
            min_size_scale_up: outcome.min_size_scale_up,
            scale_down,
            groups,
            healthy,
            events,
            actions,
        };
        self.remember_if_repeatable(&loop_result, clock, self.state.templates.built_count() - built_before);
        loop_result
    }

    /// Drops Events about the status ConfigMap if it is not written.
    pub(super) fn filter_status_events(&self, events: &mut Vec<Event>) {
        if !self.state.settings.write_status_configmap {
            events.retain(|event| event.involved_object != InvolvedObject::StatusConfigMap);
        }
    }

    /// Ends the loop of a cluster without ready nodes, for `--scale-up-from-zero=false`.
    fn act_on_empty_cluster(
        &mut self,
        clock: &LoopClock,
        cloud: &dyn CloudProvider,
        is_empty: bool,
        mut events: Vec<Event>,
    ) -> LoopResult {
        self.scale_down.clear_unneeded(clock);
        self.loop_trigger.loop_ran(clock.now(), false);
        let message = if is_empty { "Cluster has no nodes." } else { "Cluster has no ready nodes." };
        let emits_event =
            is_empty || clock.is_past(self.started.plus_nanos(NODES_NOT_READY_AFTER_START_NANOS));
        events.extend(emits_event.then(|| warning_event("ClusterUnhealthy", message.to_owned())));
        let group = |id| GroupState {
            name: cloud.groups()[super::cloud::GroupId::index(id)].name.clone(),
            target: cloud.target_size(id),
            upcoming: 0,
            backed_off: self.state.registry.backoff_info(id, clock).is_some(),
            healthy: self.state.registry.is_healthy(id, &self.state.settings),
        };
        self.status.set_initializing(clock.now(), message);
        LoopResult {
            at: clock.now(),
            error: None,
            scale_ups: Vec::new(),
            min_size_scale_up: None,
            scale_down: ScaleDownStatus::with_result(ScaleDownResult::NotTried),
            groups: group_ids(cloud).map(group).collect(),
            healthy: self.state.registry.is_cluster_healthy(&self.state.settings),
            events,
            actions: Vec::new(),
        }
    }
}

/// State that a loop leaves for the next ones.
struct LoopState<'a> {
    hinting_simulator: &'a mut super::hinting_simulator::HintingSimulator,
    scale_down: &'a mut super::scale_down::ScaleDownState,
    status: &'a mut ClusterAutoscalerStatus,
    last_scale_up: &'a mut Moment,
    last_scale_down_delete: &'a mut Moment,
    /// Whether the loop scaled up or began to remove nodes.
    did_scale: bool,
    last_scale_down_fail: Moment,
}

impl LoopState<'_> {
    fn run(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        mut nodes: Vec<NodeId>,
        ready: usize,
        in_progress: &DeletionsInProgress,
    ) -> LoopOutcome {
        let mut outcome = LoopOutcome {
            scale_ups: vec![ScaleUpStatus::with_result(ScaleUpResult::NotTried)],
            min_size_scale_up: None,
            scale_down_result: ScaleDownResult::NotTried,
            removed_nodes: Vec::new(),
            error: None,
        };
        unregistered::remove_old_unregistered_nodes(context);
        if !context.registry.is_cluster_healthy(context.settings) {
            self.scale_down.clear_unneeded(context.clock);
            context.events.push(warning_event("ClusterUnhealthy", "Cluster is unhealthy".to_owned()));
            return outcome;
        }
        unregistered::delete_created_nodes_with_errors(context);
        match unregistered::fix_node_group_sizes(context) {
            Ok(false) => {}
            Ok(true) => return outcome,
            Err(error) => {
                outcome.error = Some(error);
                return outcome;
            }
        }
        let unschedulable = unschedulable(context);
        let not_started = add_upcoming_nodes(context);
        if !not_started.is_empty() {
            nodes.retain(|id| !not_started.contains(id));
        }
        let all: Vec<NodeId> = context.cluster.snapshot.order().to_vec();
        let pods =
            pod_list_processor::process(context, self.hinting_simulator, unschedulable, &in_progress.drained);
        let mut scale_down_disabled = false;
        let result = precheck_scale_up(context, &pods, ready, &mut scale_down_disabled);
        match result {
            Some(result) => {
                let mut scale_up = ScaleUpStatus::with_result(result);
                if result == ScaleUpResult::LimitedByMaxNodesTotal {
                    scale_up.pods_remain_unschedulable =
                        pods.iter().map(|id| no_scale_up_info_without_reasons(context, *id)).collect();
                }
                outcome.scale_ups = vec![scale_up];
            }
            None => {
                outcome.scale_ups = self.scale_up(context, pods, all.clone());
                if outcome.scale_ups.last().is_some_and(|last| last.result == ScaleUpResult::Successful) {
                    outcome.scale_down_result = ScaleDownResult::InCooldown;
                }
            }
        }
        let scaled_up = outcome.scale_ups.iter().any(|status| status.result == ScaleUpResult::Successful);
        // Up to 1.33 a loop ended here after a scale-up, successful or failed.
        let failed = outcome.scale_ups.last().filter(|last| last.result == ScaleUpResult::Error);
        let ends_loop = context.settings.version < Version::V1_34 && (scaled_up || failed.is_some());
        if ends_loop {
            outcome.error = failed.and_then(|last| last.error.clone());
        }
        let continues_loop = !ends_loop;
        if context.settings.scale_down_enabled && continues_loop {
            let in_cooldown = scale_down_disabled || self.is_in_cooldown(context);
            let (result, removed) = self.scale_down.scale_down(context, &nodes, in_progress, in_cooldown);
            self.status.set_scale_down_candidates(self.scale_down.unneeded_by_group(), context.clock.now());
            if result == ScaleDownResult::NodeDeleteStarted {
                *self.last_scale_down_delete = context.clock.now();
                self.did_scale = true;
            }
            (outcome.scale_down_result, outcome.removed_nodes) = (result, removed);
        }
        if context.settings.enforce_node_group_min_size && continues_loop {
            let scale_up = scale_up::scale_up_to_min_size(context, &all);
            if scale_up.result == ScaleUpResult::Successful {
                *self.last_scale_up = context.clock.now();
                self.did_scale = true;
            }
            scale_up::emit_pod_events(context, &scale_up);
            outcome.min_size_scale_up = Some(scale_up);
        } else {
            self.emit_not_tried_events(context, &outcome);
        }
        outcome
    }

    /// Emits the events of scale-ups that were not tried, at the end of the loop. The others' were emitted before.
    fn emit_not_tried_events(&self, context: &mut AutoscalingContext<'_>, outcome: &LoopOutcome) {
        use ScaleUpResult::{InCooldown, LimitedByMaxNodesTotal, NotNeeded, NotTried};
        for scale_up in &outcome.scale_ups {
            if matches!(scale_up.result, NotTried | NotNeeded | InCooldown | LimitedByMaxNodesTotal) {
                scale_up::emit_pod_events(context, scale_up);
            }
        }
    }

    /// One scale-up; with `--salvo-scale-up`, further ones as long as they help pods.
    fn scale_up(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        mut pods: Vec<PodId>,
        mut nodes: Vec<NodeId>,
    ) -> Vec<ScaleUpStatus> {
        let mut statuses = Vec::new();
        loop {
            let scale_up = scale_up::scale_up(context, &pods, &nodes);
            scale_up::emit_pod_events(context, &scale_up);
            let scaled_up = scale_up.result == ScaleUpResult::Successful;
            if scaled_up {
                *self.last_scale_up = context.clock.now();
                self.did_scale = true;
            }
            statuses.push(scale_up);
            let last = statuses.last().expect("a status was just pushed");
            if !context.settings.salvo_scale_up || !scaled_up || last.pods_triggered_scale_up.is_empty() {
                return statuses;
            }
            let snapshot = &context.cluster.snapshot;
            let pods_by_name: BTreeMap<&NamespacedName, PodId> =
                pods.iter().map(|pod| (&snapshot.pod(*pod).name, *pod)).collect();
            let helped: Vec<PodId> = last
                .pods_triggered_scale_up
                .iter()
                .filter_map(|pod| pods_by_name.get(pod).copied())
                .collect();
            let helped_set: BTreeSet<PodId> = helped.iter().copied().collect();
            pods.retain(|pod| !helped_set.contains(pod));
            if pods.is_empty() {
                return statuses;
            }
            let increases: Vec<(Arc<str>, i64)> = last
                .increases
                .iter()
                .map(|increase| (increase.group.clone(), increase.to - increase.from))
                .collect();
            let Some(new_nodes) = add_salvo_nodes(context, statuses.len() - 1, &increases, &helped) else {
                return statuses;
            };
            nodes.extend(new_nodes);
        }
    }

    fn is_in_cooldown(&self, context: &AutoscalingContext<'_>) -> bool {
        let Settings {
            scale_down_delay_type_local,
            scale_down_delay_after_add,
            scale_down_delay_after_delete,
            scale_down_delay_after_failure,
            ..
        } = context.settings;
        !scale_down_delay_type_local
            && (!context.clock.has_reached(after(*self.last_scale_up, *scale_down_delay_after_add))
                // Starting a deletion never fails here, so only the time assumed at the start counts.
                || !context.clock.has_reached(after(self.last_scale_down_fail, *scale_down_delay_after_failure))
                || !context.clock.has_reached(after(*self.last_scale_down_delete, *scale_down_delay_after_delete)))
    }
}

/// A pod that stays unschedulable, without reasons per node group.
fn no_scale_up_info_without_reasons(context: &AutoscalingContext<'_>, pod: PodId) -> NoScaleUpInfo {
    let pod = context.cluster.snapshot.pod(pod).name.clone();
    NoScaleUpInfo { pod, rejected_groups: Arc::default(), skipped_groups: Arc::default() }
}

/// Pods that the scheduler reported as unschedulable, then unprocessed pods of bypassed schedulers.
fn unschedulable(context: &AutoscalingContext<'_>) -> Vec<PodId> {
    let (mut unschedulable_pods, mut unprocessed) = (Vec::new(), Vec::new());
    for id in context.cluster.unscheduled_pods() {
        let snapshot = &context.cluster.snapshot;
        match snapshot.pod_summary(id).scheduling {
            SchedulingState::Unschedulable => unschedulable_pods.push(id),
            SchedulingState::Unprocessed
                if context.settings.bypasses_scheduler(snapshot.pod(id).spec.scheduler_name()) =>
            {
                unprocessed.push(id);
            }
            SchedulingState::Terminating | SchedulingState::Unprocessed | SchedulingState::Other => {}
        }
    }
    unschedulable_pods.append(&mut unprocessed);
    unschedulable_pods
}

/// Adds upcoming nodes to the snapshot, and removes registered nodes that have not started.
fn add_upcoming_nodes(context: &mut AutoscalingContext<'_>) -> BTreeSet<NodeId> {
    let mut not_started = BTreeSet::new();
    for upcoming in context.registry.upcoming_nodes(context.clock) {
        not_started.extend(upcoming.not_started);
        let Some(template) = context.templates.get(upcoming.group).cloned() else { continue };
        for number in 0..upcoming.count {
            add_template_copy(context, &template, &format!("upcoming-{number}"));
        }
    }
    for id in &not_started {
        context.cluster.snapshot.remove_node(*id);
    }
    not_started
}

fn add_template_copy(
    context: &mut AutoscalingContext<'_>,
    template: &TemplateNodeInfo,
    suffix: &str,
) -> NodeId {
    let mut copy = template.copy(suffix);
    let node = Arc::make_mut(&mut copy.node);
    let annotations = node.annotations.iter().map(|(key, value)| (key.clone(), value.clone()));
    Arc::make_mut(&mut node.view).annotations =
        annotations.chain([(Arc::from(UPCOMING_NODE_ANNOTATION), Arc::from("true"))]).collect();
    context.cluster.snapshot.add_node(copy.node, &copy.pods)
}

/// The result of a scale-up that need not be tried; `None` if it has to be tried (`shouldScaleUp`).
fn precheck_scale_up(
    context: &mut AutoscalingContext<'_>,
    pods: &[PodId],
    ready: usize,
    scale_down_disabled: &mut bool,
) -> Option<ScaleUpResult> {
    let max_nodes_total = context.settings.max_nodes_total;
    if pods.is_empty() {
        return Some(ScaleUpResult::NotNeeded);
    }
    if max_nodes_total > 0 && ready as i64 >= max_nodes_total && context.settings.version <= Version::V1_32 {
        return Some(ScaleUpResult::NoOptionsAvailable);
    }
    if max_nodes_total > 0 && ready as i64 >= max_nodes_total {
        let message = format!("Max total nodes in cluster reached: {max_nodes_total}");
        context.events.push(warning_event("MaxNodesTotalReached", message));
        return Some(ScaleUpResult::LimitedByMaxNodesTotal);
    }
    if context.settings.bypassed_scheduler_names.is_empty() && all_pods_are_new(context, pods) {
        *scale_down_disabled = true;
        return Some(ScaleUpResult::InCooldown);
    }
    None
}

fn all_pods_are_new(context: &AutoscalingContext<'_>, pods: &[PodId]) -> bool {
    let (mut oldest, mut oldest_with_gpu) = (context.clock.now(), None);
    for id in pods {
        let summary = context.cluster.snapshot.pod_summary(*id);
        oldest = oldest.min(summary.created);
        if summary.has_scalar_requests && context.cluster.requests_gpu(context.cluster.snapshot.pod(*id)) {
            let before = oldest_with_gpu.unwrap_or(context.clock.now());
            oldest_with_gpu = Some(before.min(summary.created));
        }
    }
    !context.clock.has_reached(oldest.plus_nanos(UNSCHEDULABLE_POD_TIME_BUFFER_NANOS))
        || oldest_with_gpu.is_some_and(|oldest| {
            !context.clock.has_reached(oldest.plus_nanos(UNSCHEDULABLE_POD_WITH_GPU_TIME_BUFFER_NANOS))
        })
}

/// Adds the nodes that a round of a salvo requested to the snapshot, and schedules the pods that they help on them.
fn add_salvo_nodes(
    context: &mut AutoscalingContext<'_>,
    round: usize,
    increases: &[(Arc<str>, i64)],
    helped: &[PodId],
) -> Option<Vec<NodeId>> {
    let by_name: BTreeMap<Arc<str>, super::cloud::GroupId> =
        group_ids(context.cloud).map(|id| (context.cloud.groups()[id.index()].name.clone(), id)).collect();
    let mut new = Vec::new();
    for (group, count) in increases {
        let template = context.templates.get(*by_name.get(group)?)?.clone();
        for number in 0..*count {
            new.push(add_template_copy(context, &template, &format!("{number}-salvo-{round}")));
        }
    }
    let are_new: BTreeSet<NodeId> = new.iter().copied().collect();
    for pod in helped {
        context.cluster.snapshot.schedule_on_any_node_matching(*pod, |node| are_new.contains(&node))?;
    }
    Some(new)
}

/// The state of every group after the loop.
fn group_states(context: &AutoscalingContext<'_>) -> Vec<GroupState> {
    let upcoming = context.registry.upcoming_nodes(context.clock);
    let state = |id| GroupState {
        name: context.cloud.groups()[super::cloud::GroupId::index(id)].name.clone(),
        target: context.cloud.target_size(id),
        upcoming: upcoming
            .iter()
            .find(|upcoming_nodes| upcoming_nodes.group == id)
            .map_or(0, |upcoming_nodes| upcoming_nodes.count),
        backed_off: context.registry.backoff_info(id, context.clock).is_some(),
        healthy: context.registry.is_healthy(id, context.settings),
    };
    group_ids(context.cloud).map(state).collect()
}
