//! Nodes on their way out. Each is left alone for a moment after it was marked, looked at again, emptied, and deleted;
//! if anything goes wrong, it stays and the mark is taken off.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::time::{after, seconds};
use model::Moment;
use scheduler::ids::{NodeId, PodId};

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::super::decision::{About, Action, DeleteResult, Event};
use super::crop::Batch;
use super::disruptions::Disruptions;
use super::drainability::{Rules, in_words};
use super::eviction::{Eviction, Progress};
use super::groups::Groups;
use super::{InProgress, taints};

const DELAY_DELETION: &str = "delay-deletion.cluster-autoscaler.kubernetes.io/";
/// How often it is looked whether a node may be deleted at last, in seconds.
const POLL: i64 = 5;

/// All nodes on their way out.
#[derive(Debug, Default)]
pub(super) struct Actuator {
    deletions: Vec<Deletion>,
    /// When the nodes of a group that have been collected are deleted.
    batches: BTreeMap<GroupId, Moment>,
    /// Groups of which a node failed since the last nodes were chosen.
    failed: BTreeSet<GroupId>,
    results: BTreeMap<Arc<str>, DeleteResult>,
}

/// A node on its way out.
#[derive(Debug)]
struct Deletion {
    node: Arc<str>,
    /// What the cloud calls it.
    instance: Arc<str>,
    group: GroupId,
    drain: bool,
    /// It is deleted together with others of its group, so many in all.
    together: Option<usize>,
    /// Somebody asked for its deletion to wait.
    delayed: bool,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Until whoever places pods has seen the mark.
    Marked {
        until: Moment,
    },
    Emptying(Eviction),
    /// Until those who asked for it are done.
    Delayed {
        next: Moment,
        until: Moment,
    },
    /// Until the rest of the group is as far.
    Queued,
    /// Until its group's batch is deleted.
    Batched,
}

impl Actuator {
    pub(super) fn in_progress(&self) -> InProgress {
        let mut in_progress = InProgress::default();
        for deletion in &self.deletions {
            let names = if deletion.drain { &mut in_progress.drained } else { &mut in_progress.empty };
            names.insert(deletion.node.clone());
            *in_progress.by_group.entry(deletion.group).or_default() += 1;
        }
        in_progress
    }

    /// Removals that ended since this was last asked.
    pub(super) fn take_results(&mut self) -> BTreeMap<Arc<str>, DeleteResult> {
        std::mem::take(&mut self.results)
    }

    /// New nodes are chosen: older failures do not count for them.
    pub(super) fn forget_failures(&mut self) {
        self.failed.clear();
    }

    /// Nodes begin their way out.
    pub(super) fn start(
        &mut self,
        context: &AutoscalingContext<'_>,
        groups: &Groups,
        batches: &[Batch],
        drain: bool,
    ) {
        let until = after(context.clock.now(), context.settings.node_delete_delay_after_taint);
        for batch in batches {
            let size = if batch.size == 0 { batch.nodes.len() } else { batch.size };
            for id in &batch.nodes {
                let node = context.cluster.snapshot.node(*id);
                self.deletions.push(Deletion {
                    node: node.name.clone(),
                    instance: node.instance().clone(),
                    group: batch.group,
                    drain,
                    together: groups.get(batch.group).atomic.then_some(size),
                    delayed: node.annotations.iter().any(|(key, _)| key.starts_with(DELAY_DELETION)),
                    stage: Stage::Marked { until },
                });
            }
        }
    }

    /// A node is not on its way out any more.
    pub(super) fn forget(&mut self, node: &Arc<str>) {
        self.deletions.retain(|deletion| deletion.node != *node);
    }

    /// Whether no node is on its way out, and nothing is to be told of one that was.
    pub(super) fn is_idle(&self) -> bool {
        self.deletions.is_empty() && self.batches.is_empty() && self.results.is_empty()
    }

    /// When there is something to do.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        let wakes = self.deletions.iter().filter_map(|deletion| deletion.stage.wake());
        wakes.chain(self.batches.values().copied()).min()
    }

    /// Does what is due, as far as can be until the caller did what is returned.
    pub(super) fn background(&mut self, context: &mut AutoscalingContext<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        let due = |deletion: &Deletion| deletion.stage.wake().is_some_and(|wake| wake <= context.clock.now());
        let due: Vec<Arc<str>> =
            self.deletions.iter().filter(|deletion| due(deletion)).map(|it| it.node.clone()).collect();
        for node in due {
            // One of a group that goes as a whole may have taken this one with it.
            let Some(place) = self.deletions.iter().position(|deletion| deletion.node == node) else {
                continue;
            };
            match self.deletions[place].step(context, &mut actions) {
                Step::Waits => {}
                Step::Ready => self.queue(context, place, &mut actions),
                Step::Fails(result, error) => self.abort(context, place, result, &error, &mut actions),
            }
        }
        let now = context.clock.now();
        let due = self.batches.iter().filter(|(_, at)| **at <= now).map(|(group, _)| *group);
        for group in due.collect::<Vec<_>>() {
            self.batches.remove(&group);
            self.delete(context, group, |stage| matches!(stage, Stage::Batched), &mut actions);
        }
        actions
    }

    /// A node is ready to be deleted.
    fn queue(&mut self, context: &mut AutoscalingContext<'_>, place: usize, actions: &mut Vec<Action>) {
        let group = self.deletions[place].group;
        if let Some(size) = self.deletions[place].together {
            if self.failed.contains(&group) {
                self.abort_one(context, place, DeleteResult::NodeDeleteErrorFailedToDelete, NOT_ALL, actions);
                return;
            }
            self.deletions[place].stage = Stage::Queued;
            if self.queued(group).count() < size {
                return;
            }
        } else {
            self.deletions[place].stage = Stage::Queued;
        }
        let interval = context.settings.node_deletion_batcher_interval;
        if interval.is_zero() {
            self.delete(context, group, |stage| matches!(stage, Stage::Queued), actions);
            return;
        }
        for deletion in self.deletions.iter_mut().filter(|deletion| deletion.group == group) {
            if matches!(deletion.stage, Stage::Queued) {
                deletion.stage = Stage::Batched;
            }
        }
        self.batches.entry(group).or_insert(after(context.clock.now(), interval));
    }

    fn queued(&self, group: GroupId) -> impl Iterator<Item = usize> + '_ {
        let all = self.deletions.iter().enumerate();
        all.filter(move |(_, it)| it.group == group && matches!(it.stage, Stage::Queued))
            .map(|(place, _)| place)
    }

    /// Deletes a group's nodes of that stage.
    fn delete(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        group: GroupId,
        stage: impl Fn(&Stage) -> bool,
        actions: &mut Vec<Action>,
    ) {
        let is_meant = |deletion: &Deletion| deletion.group == group && stage(&deletion.stage);
        let instances: Vec<Arc<str>> =
            self.deletions.iter().filter(|it| is_meant(it)).map(|it| it.instance.clone()).collect();
        if instances.is_empty() {
            return;
        }
        let answer = context.cloud.delete(context.clock.now(), group, &instances);
        if answer.is_err() {
            context.registry.register_failed_scale_down(group, context.clock.now());
        }
        let name = context.cloud.groups()[group.index()].name.clone();
        while let Some(place) = self.deletions.iter().position(is_meant) {
            match &answer {
                Ok(()) => self.succeed(context, place),
                Err(error) => {
                    let error = format!("failed to delete nodes from group {name}: {error}");
                    let result = DeleteResult::NodeDeleteErrorFailedToDelete;
                    self.abort_one(context, place, result, &error, actions);
                }
            }
        }
    }

    fn succeed(&mut self, context: &mut AutoscalingContext<'_>, place: usize) {
        let Deletion { node, group, drain, .. } = self.deletions.remove(place);
        tell_node(context, &node, false, "nodes removed by cluster autoscaler");
        context.registry.register_scale_down(group, context.clock.now());
        let (reason, message) = match drain {
            true => ("ScaleDown", format!("Scale-down: node {node} removed with drain")),
            false => ("ScaleDownEmpty", format!("Scale-down: empty node {node} removed")),
        };
        context.events.push(Event { about: About::Status, warning: false, reason, message });
        self.results.insert(node, DeleteResult::NodeDeleteOk);
    }

    /// A node stays, and so do those that were to go with it.
    fn abort(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        place: usize,
        result: DeleteResult,
        error: &str,
        actions: &mut Vec<Action>,
    ) {
        let group = self.deletions[place].group;
        self.failed.insert(group);
        self.abort_one(context, place, result, error, actions);
        loop {
            let Some(other) = self.queued(group).next() else { break };
            self.abort_one(context, other, DeleteResult::NodeDeleteErrorFailedToDelete, NOT_ALL, actions);
        }
    }

    fn abort_one(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        place: usize,
        result: DeleteResult,
        error: &str,
        actions: &mut Vec<Action>,
    ) {
        let Deletion { node, drain, .. } = self.deletions.remove(place);
        let what = if drain { "failed to drain and delete node" } else { "failed to delete empty node" };
        tell_node(context, &node, true, &format!("{what}: {error}"));
        taints::unmark(context, &node, actions);
        self.results.insert(node, result);
    }
}

const NOT_ALL: &str = "couldn't scale down other nodes in this node group";

// === impl Deletion ===

/// What came of a step.
enum Step {
    Waits,
    Ready,
    Fails(DeleteResult, String),
}

impl Deletion {
    fn step(&mut self, context: &mut AutoscalingContext<'_>, actions: &mut Vec<Action>) -> Step {
        let now = context.clock.now();
        loop {
            match &mut self.stage {
                Stage::Marked { until } if now < *until => return Step::Waits,
                Stage::Marked { .. } => match self.look_again(context) {
                    Ok(eviction) => self.stage = Stage::Emptying(eviction),
                    Err(error) => return Step::Fails(DeleteResult::NodeDeleteErrorInternal, error),
                },
                Stage::Emptying(eviction) => match eviction.step(context, &self.node, actions) {
                    Progress::Until(_) => return Step::Waits,
                    Progress::Failed(error) => {
                        return Step::Fails(DeleteResult::NodeDeleteErrorFailedToEvictPods, error);
                    }
                    Progress::Done => {
                        let patience = context.settings.node_deletion_delay_timeout;
                        if !self.delayed || patience.is_zero() {
                            return Step::Ready;
                        }
                        let until = after(now, patience);
                        self.stage = Stage::Delayed { next: now.plus_nanos(seconds(POLL)).min(until), until };
                    }
                },
                Stage::Delayed { next, .. } if now < *next => return Step::Waits,
                Stage::Delayed { next, until } => {
                    let snapshot = &context.cluster.snapshot;
                    let Some(id) = snapshot.find(&self.node) else {
                        let node = &self.node;
                        let error = format!("failed to get node {node}: node \"{node}\" not found");
                        return Step::Fails(DeleteResult::NodeDeleteErrorFailedToDelete, error);
                    };
                    let mut annotations = snapshot.node(id).annotations.iter();
                    if now >= *until || !annotations.any(|(key, _)| key.starts_with(DELAY_DELETION)) {
                        return Step::Ready;
                    }
                    *next = now.plus_nanos(seconds(POLL)).min(*until);
                }
                Stage::Queued | Stage::Batched => return Step::Waits,
            }
        }
    }

    /// Looks at the node as it is by now, and whether it may still go.
    fn look_again(&self, context: &AutoscalingContext<'_>) -> Result<Eviction, String> {
        let node = &self.node;
        let snapshot = &context.cluster.snapshot;
        // A node that is gone has nobody on it; the cloud will say what it makes of that.
        let bound = |id: NodeId| -> Vec<PodId> {
            let pods = snapshot.pods_on(id).into_iter();
            pods.filter(|pod| snapshot.pod(*pod).node.is_some()).collect()
        };
        let pods = snapshot.find(node).map(bound).unwrap_or_default();
        let disruptions = Disruptions::of(context.cluster);
        let rules = Rules {
            settings: context.settings,
            clock: context.clock,
            controllers: self.drain.then_some(&*context.cluster),
            disruptions: self.drain.then_some(&disruptions),
        };
        let drain = rules.drain(snapshot, &pods).map_err(|(pod, reason)| {
            let why = in_words(snapshot.pod(pod), reason);
            format!("GetPodsToMove for \"{node}\" returned error: {why}")
        })?;
        if !self.drain && !drain.pods.is_empty() {
            return Err(format!("failed to delete empty node \"{node}\", new pods scheduled"));
        }
        if !self.drain && drain.waits {
            return Err(format!("failed to delete empty node \"{node}\", active on-completion pods present"));
        }
        let pods: Vec<_> = pods.iter().map(|pod| snapshot.pod(*pod).clone()).collect();
        Ok(Eviction::new(context.settings, &pods, self.drain))
    }
}

// === impl Stage ===

impl Stage {
    /// When it ends at the latest by itself.
    fn wake(&self) -> Option<Moment> {
        match self {
            Stage::Marked { until } => Some(*until),
            Stage::Emptying(eviction) => Some(eviction.wake()),
            Stage::Delayed { next, .. } => Some(*next),
            Stage::Queued | Stage::Batched => None,
        }
    }
}

fn tell_node(context: &mut AutoscalingContext<'_>, node: &Arc<str>, warning: bool, message: &str) {
    context.events.push(Event {
        about: About::Node(node.clone()),
        warning,
        reason: if warning { "ScaleDownFailed" } else { "ScaleDown" },
        message: message.to_owned(),
    });
}
