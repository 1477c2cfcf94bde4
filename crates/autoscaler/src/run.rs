//! One loop, in cluster-autoscaler's order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::time::after;
use model::{Moment, NamespacedName};
use scheduler::ids::{NodeId, PodId};

use super::clock::Clock;
use super::cloud::Cloud;
use super::decision::{
    About, Event, GroupState, Loop, Remaining, RemovedNode, ScaleDown, ScaleDownResult, ScaleUp,
    ScaleUpResult,
};
use super::down::InProgress;
use super::registry::{self, ids, warning};
use super::settings::{Settings, Version};
use super::status::Status;
use super::templates::Template;
use super::{Autoscaler, AutoscalingContext, LONG_AGO_NANOS, UPCOMING, pending, trouble, up};

/// Pods younger than this may yet find a place.
const NEW_POD_NANOS: i64 = 2 * 1_000_000_000;
/// Pods that want a GPU get longer.
const NEW_GPU_POD_NANOS: i64 = 30 * 1_000_000_000;
/// So long after the start, nodes that are not ready are worth an Event.
const STARTING_NANOS: i64 = 10 * 60 * 1_000_000_000;

/// What a loop has found out when it ends.
struct Found {
    scale_ups: Vec<ScaleUp>,
    min_size: Option<ScaleUp>,
    result: ScaleDownResult,
    removed: Vec<RemovedNode>,
    error: Option<String>,
}

impl Autoscaler {
    /// Runs one loop.
    pub fn run_once(&mut self, now: Moment, cloud: &mut dyn Cloud) -> Loop {
        self.refresh(now, cloud);
        let clock = &Clock::at(now);
        let before = (self.state.cluster.snapshot.last_match(), self.state.dice.clone());
        let made = self.state.templates.made();
        let (mut events, mut actions) = (Vec::new(), Vec::new());
        self.state.update_standings(cloud);
        let (nodes, ready) = (self.state.cluster.order().to_vec(), self.state.standings.open);
        if !std::mem::replace(&mut self.is_clean, true) {
            clock.disturb();
            super::down::clean_up(&mut self.state.context(clock, cloud, &mut events, &mut actions));
        }
        if !self.state.settings.scale_up_from_zero && ready == 0 {
            let done = Loop { actions, ..self.nothing_to_work_with(clock, cloud, nodes.is_empty(), events) };
            self.rest_after(&done, clock, 0);
            return done;
        }
        self.state.cluster.snapshot.begin(nodes.clone());
        self.state.recompute_templates(clock, cloud);
        let in_progress = self.down.status();
        let mut context = self.state.context(clock, cloud, &mut events, &mut actions);
        registry::update(&mut context);
        let mut work = Work {
            packing: &mut self.packing,
            down: &mut self.down,
            status: &mut self.status,
            last_scale_up: &mut self.last_scale_up,
            last_deletion: &mut self.last_deletion,
            did_something: false,
            last_failure: self.started.plus_nanos(-LONG_AGO_NANOS),
        };
        let found = work.run(&mut context, nodes, ready, &in_progress);
        let did_something = work.did_something;
        let scale_down = self.down.report(found.result, found.removed);
        let groups = states(&context);
        let healthy = context.registry.is_cluster_healthy(context.settings);
        self.status.update(clock, context.settings, context.cloud, context.registry);
        context.cluster.snapshot.end();
        self.keep_told(&mut events);
        self.timing.ran(now, did_something);
        if did_something || (self.state.cluster.snapshot.last_match(), self.state.dice.clone()) != before {
            clock.disturb();
        }
        let done = Loop {
            at: now,
            error: found.error,
            scale_ups: found.scale_ups,
            min_size: found.min_size,
            scale_down,
            groups,
            healthy,
            events,
            actions,
        };
        self.rest_after(&done, clock, self.state.templates.made() - made);
        done
    }

    /// Leaves out Events about the status ConfigMap, if there is none.
    pub(super) fn keep_told(&self, events: &mut Vec<Event>) {
        if !self.state.settings.write_status_configmap {
            events.retain(|event| event.about != About::Status);
        }
    }

    /// A cluster without ready nodes is left alone, if it must not be made larger from nothing.
    fn nothing_to_work_with(
        &mut self,
        clock: &Clock,
        cloud: &dyn Cloud,
        is_empty: bool,
        mut events: Vec<Event>,
    ) -> Loop {
        self.down.forget_unneeded(clock);
        self.timing.ran(clock.now(), false);
        let words = if is_empty { "Cluster has no nodes." } else { "Cluster has no ready nodes." };
        let is_news = is_empty || clock.is_past(self.started.plus_nanos(STARTING_NANOS));
        events.extend(is_news.then(|| warning("ClusterUnhealthy", words.to_owned())));
        let group = |id| GroupState {
            name: cloud.groups()[super::cloud::GroupId::index(id)].name.clone(),
            target: cloud.target(id),
            upcoming: 0,
            backed_off: self.state.registry.backed_off(id, clock).is_some(),
            healthy: self.state.registry.is_healthy(id, &self.state.settings),
        };
        self.status.initialize(clock.now(), words);
        Loop {
            at: clock.now(),
            error: None,
            scale_ups: Vec::new(),
            min_size: None,
            scale_down: ScaleDown::only(ScaleDownResult::NotTried),
            groups: ids(cloud).map(group).collect(),
            healthy: self.state.registry.is_cluster_healthy(&self.state.settings),
            events,
            actions: Vec::new(),
        }
    }
}

/// What a loop remembers for the next ones.
struct Work<'a> {
    packing: &'a mut super::packing::Packing,
    down: &'a mut super::down::Down,
    status: &'a mut Status,
    last_scale_up: &'a mut Moment,
    last_deletion: &'a mut Moment,
    /// The cluster was made larger or smaller.
    did_something: bool,
    last_failure: Moment,
}

impl Work<'_> {
    fn run(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        mut nodes: Vec<NodeId>,
        ready: usize,
        in_progress: &InProgress,
    ) -> Found {
        let mut found = Found {
            scale_ups: vec![ScaleUp::only(ScaleUpResult::NotTried)],
            min_size: None,
            result: ScaleDownResult::NotTried,
            removed: Vec::new(),
            error: None,
        };
        trouble::remove_unregistered(context);
        if !context.registry.is_cluster_healthy(context.settings) {
            self.down.forget_unneeded(context.clock);
            context.events.push(warning("ClusterUnhealthy", "Cluster is unhealthy".to_owned()));
            return found;
        }
        trouble::remove_failed(context);
        match trouble::fix_sizes(context) {
            Ok(false) => {}
            Ok(true) => return found,
            Err(error) => {
                found.error = Some(error);
                return found;
            }
        }
        let unschedulable = unschedulable(context);
        let not_started = add_upcoming(context);
        if !not_started.is_empty() {
            nodes.retain(|id| !not_started.contains(id));
        }
        let all: Vec<NodeId> = context.cluster.snapshot.order().to_vec();
        let pods = pending::to_help(context, self.packing, unschedulable, &in_progress.drained);
        let mut scale_down_disabled = false;
        let result = first_glance(context, &pods, ready, &mut scale_down_disabled);
        match result {
            Some(result) => {
                let mut scale_up = ScaleUp::only(result);
                if result == ScaleUpResult::LimitedByMaxNodesTotal {
                    scale_up.remaining = pods.iter().map(|id| told_nothing(context, *id)).collect();
                }
                found.scale_ups = vec![scale_up];
            }
            None => {
                found.scale_ups = self.scale_up(context, pods, all.clone());
                if found.scale_ups.last().is_some_and(|last| last.result == ScaleUpResult::Successful) {
                    found.result = ScaleDownResult::InCooldown;
                }
            }
        }
        let grew = found.scale_ups.iter().any(|one| one.result == ScaleUpResult::Successful);
        // Up to 1.33 a loop that made the cluster larger, or could not, ended here.
        let failed = found.scale_ups.last().filter(|last| last.result == ScaleUpResult::Error);
        let ends = context.settings.version < Version::V1_34 && (grew || failed.is_some());
        if ends {
            found.error = failed.and_then(|last| last.error.clone());
        }
        let goes_on = !ends;
        if context.settings.scale_down_enabled && goes_on {
            let in_cooldown = scale_down_disabled || self.is_in_cooldown(context);
            let (result, removed) = self.down.scale_down(context, &nodes, in_progress, in_cooldown);
            self.status.set_candidates(self.down.unneeded_by_group(), context.clock.now());
            if result == ScaleDownResult::NodeDeleteStarted {
                *self.last_deletion = context.clock.now();
                self.did_something = true;
            }
            (found.result, found.removed) = (result, removed);
        }
        if context.settings.enforce_node_group_min_size && goes_on {
            let scale_up = up::to_min_size(context, &all);
            if scale_up.result == ScaleUpResult::Successful {
                *self.last_scale_up = context.clock.now();
                self.did_something = true;
            }
            up::tell(context, &scale_up);
            found.min_size = Some(scale_up);
        } else {
            self.tell_not_tried(context, &found);
        }
        found
    }

    /// What is told of a search that was not made, at the end of the loop; of others it was told already.
    fn tell_not_tried(&self, context: &mut AutoscalingContext<'_>, found: &Found) {
        use ScaleUpResult::{InCooldown, LimitedByMaxNodesTotal, NotNeeded, NotTried};
        for scale_up in &found.scale_ups {
            if matches!(scale_up.result, NotTried | NotNeeded | InCooldown | LimitedByMaxNodesTotal) {
                up::tell(context, scale_up);
            }
        }
    }

    /// One search for new nodes, or as many as help somebody.
    fn scale_up(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        mut pods: Vec<PodId>,
        mut nodes: Vec<NodeId>,
    ) -> Vec<ScaleUp> {
        let mut rounds = Vec::new();
        loop {
            let scale_up = up::scale_up(context, &pods, &nodes);
            up::tell(context, &scale_up);
            let grew = scale_up.result == ScaleUpResult::Successful;
            if grew {
                *self.last_scale_up = context.clock.now();
                self.did_something = true;
            }
            rounds.push(scale_up);
            let last = rounds.last().expect("one was just made");
            if !context.settings.salvo_scale_up || !grew || last.triggered.is_empty() {
                return rounds;
            }
            let snapshot = &context.cluster.snapshot;
            let named: BTreeMap<&NamespacedName, PodId> =
                pods.iter().map(|pod| (&snapshot.pod(*pod).name, *pod)).collect();
            let helped: Vec<PodId> =
                last.triggered.iter().filter_map(|pod| named.get(pod).copied()).collect();
            let are_helped: BTreeSet<PodId> = helped.iter().copied().collect();
            pods.retain(|pod| !are_helped.contains(pod));
            if pods.is_empty() {
                return rounds;
            }
            let increases: Vec<(Arc<str>, i64)> =
                last.increases.iter().map(|one| (one.group.clone(), one.to - one.from)).collect();
            let Some(new) = add_salvo(context, rounds.len() - 1, &increases, &helped) else { return rounds };
            nodes.extend(new);
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
            && (!context.clock.has_come(after(*self.last_scale_up, *scale_down_delay_after_add))
                // None fails to begin here: only what is assumed at the start counts.
                || !context.clock.has_come(after(self.last_failure, *scale_down_delay_after_failure))
                || !context.clock.has_come(after(*self.last_deletion, *scale_down_delay_after_delete)))
    }
}

/// A pod of which nothing more is said.
fn told_nothing(context: &AutoscalingContext<'_>, pod: PodId) -> Remaining {
    let pod = context.cluster.snapshot.pod(pod).name.clone();
    Remaining { pod, rejected: Arc::default(), skipped: Arc::default() }
}

/// Pods that no node takes, as the scheduler says, and those of bypassed schedulers that it has not looked at.
fn unschedulable(context: &AutoscalingContext<'_>) -> Vec<PodId> {
    let (mut refused, mut unprocessed) = (Vec::new(), Vec::new());
    for id in context.cluster.waiting() {
        let pod = context.cluster.snapshot.pod(id);
        if pod.deleted.is_some() {
            continue;
        }
        let verdict = pod.scheduled.as_ref().map(|scheduled| (&*scheduled.status, &*scheduled.reason));
        if verdict == Some(("False", "Unschedulable")) {
            refused.push(id);
        } else if matches!(verdict, None | Some(("False", "")))
            && context.settings.bypassed_scheduler_names.contains(&pod.scheduler_name)
        {
            unprocessed.push(id);
        }
    }
    refused.append(&mut unprocessed);
    refused
}

/// Adds nodes that are still to come. Those that have registered already and not started are taken out.
fn add_upcoming(context: &mut AutoscalingContext<'_>) -> BTreeSet<NodeId> {
    let mut not_started = BTreeSet::new();
    for upcoming in context.registry.upcoming(context.clock) {
        not_started.extend(upcoming.registered);
        let Some(template) = context.templates.get(upcoming.group).cloned() else { continue };
        for number in 0..upcoming.count {
            add_copy(context, &template, &format!("upcoming-{number}"));
        }
    }
    for id in &not_started {
        context.cluster.snapshot.remove_node(*id);
    }
    not_started
}

fn add_copy(context: &mut AutoscalingContext<'_>, template: &Template, suffix: &str) -> NodeId {
    let mut copy = template.copy(suffix);
    let node = Arc::make_mut(&mut copy.node);
    let annotations = node.annotations.iter().map(|(key, value)| (key.clone(), value.clone()));
    node.annotations = annotations.chain([(Arc::from(UPCOMING), Arc::from("true"))]).collect();
    context.cluster.snapshot.add_node(copy.node, &copy.pods)
}

/// Whether a search for new nodes is worth the while; or else what comes of it at once.
fn first_glance(
    context: &mut AutoscalingContext<'_>,
    pods: &[PodId],
    ready: usize,
    scale_down_disabled: &mut bool,
) -> Option<ScaleUpResult> {
    let most = context.settings.max_nodes_total;
    if pods.is_empty() {
        return Some(ScaleUpResult::NotNeeded);
    }
    if most > 0 && ready as i64 >= most && context.settings.version <= Version::V1_32 {
        return Some(ScaleUpResult::NoOptionsAvailable);
    }
    if most > 0 && ready as i64 >= most {
        let message = format!("Max total nodes in cluster reached: {most}");
        context.events.push(warning("MaxNodesTotalReached", message));
        return Some(ScaleUpResult::LimitedByMaxNodesTotal);
    }
    if context.settings.bypassed_scheduler_names.is_empty() && are_new(context, pods) {
        *scale_down_disabled = true;
        return Some(ScaleUpResult::InCooldown);
    }
    None
}

fn are_new(context: &AutoscalingContext<'_>, pods: &[PodId]) -> bool {
    let (mut oldest, mut oldest_with_gpu) = (context.clock.now(), None);
    for id in pods {
        let pod = context.cluster.snapshot.pod(*id);
        oldest = oldest.min(pod.created);
        if context.cluster.asks_for_gpu(pod) {
            let before = oldest_with_gpu.unwrap_or(context.clock.now());
            oldest_with_gpu = Some(before.min(pod.created));
        }
    }
    !context.clock.has_come(oldest.plus_nanos(NEW_POD_NANOS))
        || oldest_with_gpu.is_some_and(|oldest| !context.clock.has_come(oldest.plus_nanos(NEW_GPU_POD_NANOS)))
}

/// Adds the nodes that a round of a salvo asked for, and puts on them the pods that they are for.
fn add_salvo(
    context: &mut AutoscalingContext<'_>,
    round: usize,
    increases: &[(Arc<str>, i64)],
    helped: &[PodId],
) -> Option<Vec<NodeId>> {
    let by_name: BTreeMap<Arc<str>, super::cloud::GroupId> =
        ids(context.cloud).map(|id| (context.cloud.groups()[id.index()].name.clone(), id)).collect();
    let mut new = Vec::new();
    for (group, count) in increases {
        let template = context.templates.get(*by_name.get(group)?)?.clone();
        for number in 0..*count {
            new.push(add_copy(context, &template, &format!("{number}-salvo-{round}")));
        }
    }
    let are_new: BTreeSet<NodeId> = new.iter().copied().collect();
    for pod in helped {
        context.cluster.snapshot.schedule_anywhere(*pod, |node| are_new.contains(&node))?;
    }
    Some(new)
}

/// Every group after the loop.
fn states(context: &AutoscalingContext<'_>) -> Vec<GroupState> {
    let upcoming = context.registry.upcoming(context.clock);
    let state = |id| GroupState {
        name: context.cloud.groups()[super::cloud::GroupId::index(id)].name.clone(),
        target: context.cloud.target(id),
        upcoming: upcoming.iter().find(|one| one.group == id).map_or(0, |one| one.count),
        backed_off: context.registry.backed_off(id, context.clock).is_some(),
        healthy: context.registry.is_healthy(id, context.settings),
    };
    ids(context.cloud).map(state).collect()
}
