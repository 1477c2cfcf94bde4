//! The actuator: deletions in progress. After a delay a tainted node is checked again, drained and deleted; on failure
//! the taint is removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::time::{after, seconds};
use model::Moment;
use scheduler::ids::{NodeId, PodId};

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::super::decision::{Action, DeleteResult, Event, InvolvedObject};
use super::budgets::NodeBatch;
use super::drainability::{DrainabilityRules, blocking_message};
use super::groups::ScaleDownGroups;
use super::node_drain::{DrainProgress, NodeDrain};
use super::pdb_tracker::RemainingPdbTracker;
use super::{DeletionsInProgress, taints};

const DELAY_DELETION_ANNOTATION_PREFIX: &str = "delay-deletion.cluster-autoscaler.kubernetes.io/";
/// The interval at which delay-deletion annotations are checked, in seconds.
const POLL_INTERVAL_SECONDS: i64 = 5;

/// All deletions in progress.
#[derive(Debug, Default)]
pub(super) struct Actuator {
    deletions: Vec<NodeDeletion>,
    /// By group, when the batched nodes are deleted.
    batch_deadlines: BTreeMap<GroupId, Moment>,
    /// Groups with a failed deletion since deletions were last started.
    failed_groups: BTreeSet<GroupId>,
    delete_results: BTreeMap<Arc<str>, DeleteResult>,
}

/// The deletion of a node.
#[derive(Debug)]
struct NodeDeletion {
    node: Arc<str>,
    /// Its instance ID.
    instance_id: Arc<str>,
    group: GroupId,
    drain: bool,
    /// For zero-or-max groups, the number of nodes that are deleted together.
    atomic_batch_size: Option<usize>,
    /// Whether it has a delay-deletion annotation.
    has_delay_annotation: bool,
    stage: DeletionStage,
}

#[derive(Debug)]
enum DeletionStage {
    /// Tainted; waits until schedulers have seen the taint.
    Tainted {
        until: Moment,
    },
    Draining(NodeDrain),
    /// Drained; waits until delay-deletion annotations are removed.
    DelayedByAnnotation {
        next: Moment,
        until: Moment,
    },
    /// Ready; waits for the other nodes of a zero-or-max group.
    Queued,
    /// Ready; waits for the deletion of its group's batch.
    Batched,
}

impl Actuator {
    pub(super) fn in_progress(&self) -> DeletionsInProgress {
        let mut in_progress = DeletionsInProgress::default();
        for deletion in &self.deletions {
            let names = if deletion.drain { &mut in_progress.drained } else { &mut in_progress.empty };
            names.insert(deletion.node.clone());
            *in_progress.count_by_group.entry(deletion.group).or_default() += 1;
        }
        in_progress
    }

    /// The results of deletions that ended since the last call.
    pub(super) fn take_results(&mut self) -> BTreeMap<Arc<str>, DeleteResult> {
        std::mem::take(&mut self.delete_results)
    }

    /// Clears failed groups before new deletions start.
    pub(super) fn clear_failures(&mut self) {
        self.failed_groups.clear();
    }

    /// Starts the deletion of nodes.
    pub(super) fn start(
        &mut self,
        context: &AutoscalingContext<'_>,
        groups: &ScaleDownGroups,
        batches: &[NodeBatch],
        drain: bool,
    ) {
        let until = after(context.clock.now(), context.settings.node_delete_delay_after_taint);
        for batch in batches {
            let size = if batch.batch_size == 0 { batch.nodes.len() } else { batch.batch_size };
            for id in &batch.nodes {
                let node = context.cluster.snapshot.node(*id);
                self.deletions.push(NodeDeletion {
                    node: node.name.clone(),
                    instance_id: node.instance_id().clone(),
                    group: batch.group,
                    drain,
                    atomic_batch_size: groups.get(batch.group).atomic.then_some(size),
                    has_delay_annotation: node
                        .annotations
                        .iter()
                        .any(|(key, _)| key.starts_with(DELAY_DELETION_ANNOTATION_PREFIX)),
                    stage: DeletionStage::Tainted { until },
                });
            }
        }
    }

    /// Cancels the deletion of a node.
    pub(super) fn cancel(&mut self, node: &Arc<str>) {
        self.deletions.retain(|deletion| deletion.node != *node);
    }

    /// Whether no deletion is in progress and no result is unreported.
    pub(super) fn is_idle(&self) -> bool {
        self.deletions.is_empty() && self.batch_deadlines.is_empty() && self.delete_results.is_empty()
    }

    /// When background work is due next.
    pub(super) fn next_wake(&self) -> Option<Moment> {
        let wake_times = self.deletions.iter().filter_map(|deletion| deletion.stage.next_wake());
        wake_times.chain(self.batch_deadlines.values().copied()).min()
    }

    /// Continues deletions that are due, as far as possible until the caller has carried out the returned actions.
    pub(super) fn background(&mut self, context: &mut AutoscalingContext<'_>) -> Vec<Action> {
        let mut actions = Vec::new();
        let due = |deletion: &NodeDeletion| {
            deletion.stage.next_wake().is_some_and(|wake| wake <= context.clock.now())
        };
        let due: Vec<Arc<str>> = self
            .deletions
            .iter()
            .filter(|deletion| due(deletion))
            .map(|node_deletion| node_deletion.node.clone())
            .collect();
        for node in due {
            // The abort or deletion of another node of a zero-or-max group may have removed this one.
            let Some(index) = self.deletions.iter().position(|deletion| deletion.node == node) else {
                continue;
            };
            match self.deletions[index].step(context, &mut actions) {
                StepOutcome::Waiting => {}
                StepOutcome::Ready => self.queue(context, index, &mut actions),
                StepOutcome::Failed(result, error) => {
                    self.abort(context, index, result, &error, &mut actions)
                }
            }
        }
        let now = context.clock.now();
        let due = self.batch_deadlines.iter().filter(|(_, at)| **at <= now).map(|(group, _)| *group);
        for group in due.collect::<Vec<_>>() {
            self.batch_deadlines.remove(&group);
            self.delete_nodes(context, group, |stage| matches!(stage, DeletionStage::Batched), &mut actions);
        }
        actions
    }

    /// Queues a node that is ready for deletion, and deletes or batches the queue if it is complete.
    fn queue(&mut self, context: &mut AutoscalingContext<'_>, place: usize, actions: &mut Vec<Action>) {
        let group = self.deletions[place].group;
        if let Some(size) = self.deletions[place].atomic_batch_size {
            if self.failed_groups.contains(&group) {
                self.abort_one(
                    context,
                    place,
                    DeleteResult::NodeDeleteErrorFailedToDelete,
                    GROUP_DELETION_FAILED,
                    actions,
                );
                return;
            }
            self.deletions[place].stage = DeletionStage::Queued;
            if self.queued(group).count() < size {
                return;
            }
        } else {
            self.deletions[place].stage = DeletionStage::Queued;
        }
        let interval = context.settings.node_deletion_batcher_interval;
        if interval.is_zero() {
            self.delete_nodes(context, group, |stage| matches!(stage, DeletionStage::Queued), actions);
            return;
        }
        for deletion in self.deletions.iter_mut().filter(|deletion| deletion.group == group) {
            if matches!(deletion.stage, DeletionStage::Queued) {
                deletion.stage = DeletionStage::Batched;
            }
        }
        self.batch_deadlines.entry(group).or_insert(after(context.clock.now(), interval));
    }

    fn queued(&self, group: GroupId) -> impl Iterator<Item = usize> + '_ {
        let all = self.deletions.iter().enumerate();
        all.filter(move |(_, node_deletion)| {
            node_deletion.group == group && matches!(node_deletion.stage, DeletionStage::Queued)
        })
        .map(|(index, _)| index)
    }

    /// Deletes the nodes of a group in that stage.
    fn delete_nodes(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        group: GroupId,
        stage: impl Fn(&DeletionStage) -> bool,
        actions: &mut Vec<Action>,
    ) {
        let is_selected = |deletion: &NodeDeletion| deletion.group == group && stage(&deletion.stage);
        let instances: Vec<Arc<str>> = self
            .deletions
            .iter()
            .filter(|node_deletion| is_selected(node_deletion))
            .map(|node_deletion| node_deletion.instance_id.clone())
            .collect();
        if instances.is_empty() {
            return;
        }
        let cloud_result = context.cloud.delete_nodes(context.clock.now(), group, &instances);
        if cloud_result.is_err() {
            context.registry.register_failed_scale_down(group, context.clock.now());
        }
        let name = context.cloud.groups()[group.index()].name.clone();
        while let Some(index) = self.deletions.iter().position(is_selected) {
            match &cloud_result {
                Ok(()) => self.succeed(context, index),
                Err(error) => {
                    let error = format!("failed to delete nodes from group {name}: {error}");
                    let result = DeleteResult::NodeDeleteErrorFailedToDelete;
                    self.abort_one(context, index, result, &error, actions);
                }
            }
        }
    }

    fn succeed(&mut self, context: &mut AutoscalingContext<'_>, index: usize) {
        let NodeDeletion { node, group, drain, .. } = self.deletions.remove(index);
        emit_node_event(context, &node, false, "nodes removed by cluster autoscaler");
        context.registry.register_scale_down(group, context.clock.now());
        let (reason, message) = match drain {
            true => ("ScaleDown", format!("Scale-down: node {node} removed with drain")),
            false => ("ScaleDownEmpty", format!("Scale-down: empty node {node} removed")),
        };
        context.events.push(Event {
            involved_object: InvolvedObject::StatusConfigMap,
            is_warning: false,
            reason,
            message,
        });
        self.delete_results.insert(node, DeleteResult::NodeDeleteOk);
    }

    /// Aborts the deletion of a node, and of the queued nodes of its group.
    fn abort(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        index: usize,
        result: DeleteResult,
        error: &str,
        actions: &mut Vec<Action>,
    ) {
        let group = self.deletions[index].group;
        self.failed_groups.insert(group);
        self.abort_one(context, index, result, error, actions);
        loop {
            let Some(other) = self.queued(group).next() else { break };
            self.abort_one(
                context,
                other,
                DeleteResult::NodeDeleteErrorFailedToDelete,
                GROUP_DELETION_FAILED,
                actions,
            );
        }
    }

    fn abort_one(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        index: usize,
        result: DeleteResult,
        error: &str,
        actions: &mut Vec<Action>,
    ) {
        let NodeDeletion { node, drain, .. } = self.deletions.remove(index);
        let failure_message =
            if drain { "failed to drain and delete node" } else { "failed to delete empty node" };
        emit_node_event(context, &node, true, &format!("{failure_message}: {error}"));
        taints::remove_to_be_deleted_taint(context, &node, actions);
        self.delete_results.insert(node, result);
    }
}

const GROUP_DELETION_FAILED: &str = "couldn't scale down other nodes in this node group";

// === impl NodeDeletion ===

/// The outcome of a step.
enum StepOutcome {
    Waiting,
    Ready,
    Failed(DeleteResult, String),
}

impl NodeDeletion {
    fn step(&mut self, context: &mut AutoscalingContext<'_>, actions: &mut Vec<Action>) -> StepOutcome {
        let now = context.clock.now();
        loop {
            match &mut self.stage {
                DeletionStage::Tainted { until } if now < *until => return StepOutcome::Waiting,
                DeletionStage::Tainted { .. } => match self.recheck(context) {
                    Ok(eviction) => self.stage = DeletionStage::Draining(eviction),
                    Err(error) => return StepOutcome::Failed(DeleteResult::NodeDeleteErrorInternal, error),
                },
                DeletionStage::Draining(eviction) => match eviction.step(context, &self.node, actions) {
                    DrainProgress::WaitUntil(_) => return StepOutcome::Waiting,
                    DrainProgress::Failed(error) => {
                        return StepOutcome::Failed(DeleteResult::NodeDeleteErrorFailedToEvictPods, error);
                    }
                    DrainProgress::Done => {
                        let timeout = context.settings.node_deletion_delay_timeout;
                        if !self.has_delay_annotation || timeout.is_zero() {
                            return StepOutcome::Ready;
                        }
                        let until = after(now, timeout);
                        self.stage = DeletionStage::DelayedByAnnotation {
                            next: now.plus_nanos(seconds(POLL_INTERVAL_SECONDS)).min(until),
                            until,
                        };
                    }
                },
                DeletionStage::DelayedByAnnotation { next, .. } if now < *next => {
                    return StepOutcome::Waiting;
                }
                DeletionStage::DelayedByAnnotation { next, until } => {
                    let snapshot = &context.cluster.snapshot;
                    let Some(id) = snapshot.find_node(&self.node) else {
                        let node = &self.node;
                        let error = format!("failed to get node {node}: node \"{node}\" not found");
                        return StepOutcome::Failed(DeleteResult::NodeDeleteErrorFailedToDelete, error);
                    };
                    let mut annotations = snapshot.node(id).annotations.iter();
                    if now >= *until
                        || !annotations.any(|(key, _)| key.starts_with(DELAY_DELETION_ANNOTATION_PREFIX))
                    {
                        return StepOutcome::Ready;
                    }
                    *next = now.plus_nanos(seconds(POLL_INTERVAL_SECONDS)).min(*until);
                }
                DeletionStage::Queued | DeletionStage::Batched => return StepOutcome::Waiting,
            }
        }
    }

    /// Checks the node as it is now, and prepares its drain if it may still be removed.
    fn recheck(&self, context: &AutoscalingContext<'_>) -> Result<NodeDrain, String> {
        let node = &self.node;
        let snapshot = &context.cluster.snapshot;
        // A node that no longer exists has no pods; the cloud provider decides whether its deletion is an error.
        let pods_bound_to = |id: NodeId| -> Vec<PodId> {
            let pods = snapshot.pods_on(id).into_iter();
            pods.filter(|pod| snapshot.pod(*pod).node_name.is_some()).collect()
        };
        let pods = snapshot.find_node(node).map(pods_bound_to).unwrap_or_default();
        let disruptions = RemainingPdbTracker::of(context.cluster);
        let rules = DrainabilityRules {
            settings: context.settings,
            clock: context.clock,
            controllers: self.drain.then_some(&*context.cluster),
            disruptions: self.drain.then_some(&disruptions),
        };
        let drain = rules.pods_to_move(snapshot, &pods).map_err(|(pod, reason)| {
            let blocking_error = blocking_message(snapshot.pod(pod), reason);
            format!("GetPodsToMove for \"{node}\" returned error: {blocking_error}")
        })?;
        if !self.drain && !drain.pods.is_empty() {
            return Err(format!("failed to delete empty node \"{node}\", new pods scheduled"));
        }
        if !self.drain && drain.has_on_completion_pods {
            return Err(format!("failed to delete empty node \"{node}\", active on-completion pods present"));
        }
        let pods: Vec<_> = pods.iter().map(|pod| snapshot.pod(*pod).clone()).collect();
        Ok(NodeDrain::new(context.settings, &pods, self.drain))
    }
}

// === impl DeletionStage ===

impl DeletionStage {
    /// When it has to be continued; `None` if another event continues it.
    fn next_wake(&self) -> Option<Moment> {
        match self {
            DeletionStage::Tainted { until } => Some(*until),
            DeletionStage::Draining(eviction) => Some(eviction.next_wake()),
            DeletionStage::DelayedByAnnotation { next, .. } => Some(*next),
            DeletionStage::Queued | DeletionStage::Batched => None,
        }
    }
}

fn emit_node_event(context: &mut AutoscalingContext<'_>, node: &Arc<str>, warning: bool, message: &str) {
    context.events.push(Event {
        involved_object: InvolvedObject::Node(node.clone()),
        is_warning: warning,
        reason: if warning { "ScaleDownFailed" } else { "ScaleDown" },
        message: message.to_owned(),
    });
}
