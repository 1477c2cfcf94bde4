//! The state of a DaemonSet on one node.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use kubernetes::daemon_sets::DaemonPodPlacement;
use kubernetes::objects::Phase;
use model::{Moment, NamespacedName};

use super::{CurrentDaemonSet, PodChanges};
use crate::informer_cache::InformerCache;
use crate::pod::Pod;
use crate::{Controller, EventText, SyncContext};

const SECOND: i64 = 1_000_000_000;
/// The longest backoff for failed pods.
const MAX_BACKOFF: i64 = 15 * 60 * SECOND;

/// The state of a DaemonSet on one node.
#[derive(Debug, Default)]
pub(super) struct NodeState {
    pub(super) wants: DaemonPodPlacement,
    pub(super) pods: BTreeSet<NamespacedName>,
    pub(super) counts: StatusCounts,
    pub(super) backoff: Option<FailedPodsBackoff>,
}

/// The backoff for deleting failed pods, so that a node that rejects pods does not cause a hot loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct FailedPodsBackoff {
    /// The DaemonSet's observed generation.
    generation: i64,
    nanos: i64,
    since: Moment,
}

/// The contribution of a node to the status of a DaemonSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StatusCounts {
    pub(super) desired: i64,
    pub(super) current: i64,
    pub(super) misscheduled: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
    pub(super) updated: i64,
    /// 1 if there are pods of an older template, else 0.
    pub(super) outdated: i64,
    /// When its pod becomes available, if it is ready but not available yet.
    pub(super) available_at: Option<Moment>,
}

// === impl NodeState ===

impl NodeState {
    /// The pods for the node, bound ones before pending ones, and then the oldest first. Finished pods that are
    /// terminating are left out.
    pub(super) fn pods(&self, cache: &InformerCache) -> Vec<Arc<Pod>> {
        let pods = self.pods.iter().filter_map(|name| cache.pods.get(name));
        let mut pods: Vec<_> =
            pods.filter(|pod| !(pod.is_finished() && pod.is_deleting())).cloned().collect();
        pods.sort_by(|a, b| compare_for_keeping(a, b));
        pods
    }

    /// Adds the pods to create and delete on a node. Returns true if the node is to be evaluated again after the
    /// backoff.
    pub(super) fn pods_should_be_on_node(
        &mut self,
        context: &mut SyncContext<'_>,
        set: &CurrentDaemonSet<'_>,
        node: &Arc<str>,
        pods: &[Arc<Pod>],
        pod_changes: &mut PodChanges,
    ) -> bool {
        if self.wants.should_run && pods.is_empty() {
            pod_changes.nodes_needing_pods.push(node.clone());
            return false;
        }
        let live = pods.iter().filter(|pod| !pod.is_deleting());
        if !self.wants.should_continue_running {
            pod_changes.pods_to_delete.extend(live.cloned());
            return false;
        }
        let (mut running, mut needs_retry) = (Vec::new(), false);
        for pod in live {
            match pod.status.phase {
                Phase::Failed if self.is_in_backoff(context, set) => needs_retry = true,
                Phase::Failed | Phase::Succeeded => {
                    context.report(set.daemon_set, finished_pod_event(pod, node));
                    pod_changes.pods_to_delete.push(pod.clone());
                }
                Phase::Pending | Phase::Unknown | Phase::Running => running.push(pod),
            }
        }
        if set.daemon_set.spec.max_surge(1) == 0 {
            pod_changes.pods_to_delete.extend(running.into_iter().skip(1).cloned());
            return needs_retry;
        }
        if running.is_empty() && self.wants.should_run {
            pod_changes.nodes_needing_pods.push(node.clone());
        }
        // With surge there may be an old and a new pod.
        let (new, old): (Vec<Arc<Pod>>, Vec<Arc<Pod>>) = running
            .into_iter()
            .cloned()
            .partition(|pod| pod.label(super::CONTROLLER_REVISION_HASH_LABEL) == Some(set.hash));
        let surplus = new.iter().skip(1).chain(old.iter().skip(1));
        pod_changes.pods_to_delete.extend(surplus.cloned());
        if let (Some(new), Some(old)) = (new.first(), old.first())
            && (!old.ready || new.is_available(set.daemon_set.spec.min_ready_seconds, context.now))
        {
            pod_changes.pods_to_delete.push(old.clone());
        }
        needs_retry
    }

    /// Whether a failed pod is kept for now, because another failed shortly before.
    fn is_in_backoff(&mut self, context: &mut SyncContext<'_>, set: &CurrentDaemonSet<'_>) -> bool {
        let (now, generation) = (context.now, set.daemon_set.status.observed_generation);
        let backoff = self.backoff.filter(|backoff| {
            backoff.generation == generation && now.nanos_since(backoff.since) <= 2 * MAX_BACKOFF
        });
        if let Some(backoff) = backoff
            && now.nanos_since(backoff.since) < backoff.nanos
        {
            context.enqueue_at(
                now.plus_nanos(backoff.nanos),
                Controller::DaemonSet,
                set.daemon_set.name.clone(),
            );
            return true;
        }
        let nanos = backoff.map_or(SECOND, |backoff| (backoff.nanos * 2).min(MAX_BACKOFF));
        self.backoff = Some(FailedPodsBackoff { generation, nanos, since: now });
        false
    }

    /// The node's contribution to the status.
    pub(super) fn status_counts(
        &self,
        set: &CurrentDaemonSet<'_>,
        pods: &[Arc<Pod>],
        now: Moment,
    ) -> StatusCounts {
        let is_old = |pod: &Arc<Pod>| !pod.is_deleting() && !set.is_updated(pod);
        let mut counts = StatusCounts { outdated: pods.iter().any(is_old).into(), ..StatusCounts::default() };
        if !self.wants.should_run {
            counts.misscheduled = i64::from(!pods.is_empty());
            return counts;
        }
        counts.desired = 1;
        let Some(first) = pods.first() else { return counts };
        counts.current = 1;
        counts.ready = first.ready.into();
        let available_at = first.available_at(set.daemon_set.spec.min_ready_seconds);
        counts.available = available_at.is_some_and(|at| at <= now).into();
        counts.available_at = available_at.filter(|at| *at > now);
        counts.updated = set.is_updated(first).into();
        counts
    }
}

fn finished_pod_event(pod: &Pod, node: &str) -> EventText {
    let NamespacedName { namespace, name } = &pod.name;
    if pod.status.phase == Phase::Failed {
        let message =
            format!("Found failed daemon pod {namespace}/{name} on node {node}, will try to kill it");
        return EventText::warning("FailedDaemonPod", message);
    }
    let message =
        format!("Found succeeded daemon pod {namespace}/{name} on node {node}, will try to delete it");
    EventText::normal("SucceededDaemonPod", message)
}

/// Orders the pods of a node; the first is kept.
fn compare_for_keeping(a: &Pod, b: &Pod) -> Ordering {
    let created = |pod: &Pod| pod.creation_timestamp.unwrap_or(Moment::MIN);
    (a.node_name.is_none(), created(a), &a.name.name).cmp(&(b.node_name.is_none(), created(b), &b.name.name))
}

// === impl StatusCounts ===

impl StatusCounts {
    /// Replaces a node's contribution to the totals.
    pub(super) fn replace(&mut self, old: &StatusCounts, new: &StatusCounts) {
        self.desired += new.desired - old.desired;
        self.current += new.current - old.current;
        self.misscheduled += new.misscheduled - old.misscheduled;
        self.ready += new.ready - old.ready;
        self.available += new.available - old.available;
        self.updated += new.updated - old.updated;
        self.outdated += new.outdated - old.outdated;
    }
}
