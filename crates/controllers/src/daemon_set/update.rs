//! Rolling updates of DaemonSets. The original iterates over nodes in random order; here they are in the order of their
//! names.

use std::sync::Arc;

use super::{CurrentDaemonSet, DaemonSetState, PodChanges};
use crate::SyncContext;
use crate::pod::Pod;

/// The new and the old pod of a node.
struct NodePods {
    new: Option<Arc<Pod>>,
    old: Option<Arc<Pod>>,
}

impl DaemonSetState {
    /// The next pods to replace.
    pub(super) fn rolling_update(&self, context: &SyncContext<'_>, set: &CurrentDaemonSet<'_>) -> PodChanges {
        let spec = &set.daemon_set.spec;
        let surge = spec.max_surge(self.totals.desired);
        let mut unavailable = spec.max_unavailable(self.totals.desired);
        if surge > 0 {
            return self.rolling_update_with_surge(context, set, surge);
        }
        if self.totals.desired > 0 && unavailable == 0 {
            unavailable = 1;
        }
        let is_available = |pod: &Pod| pod.is_available(spec.min_ready_seconds, context.now);
        let (mut unavailable_count, mut replaced, mut candidates) = (0, Vec::new(), Vec::new());
        for node_state in self.node_states.values() {
            let pods = node_state.pods(context.cache);
            if pods.is_empty() && !node_state.wants.should_run {
                continue;
            }
            match find_updated_pods(set, &pods) {
                Some(NodePods { new: Some(new), old: None }) => {
                    unavailable_count += i64::from(!is_available(&new))
                }
                Some(NodePods { new: None, old: Some(old) }) if !is_available(&old) => {
                    replaced.push(old);
                    unavailable_count += 1;
                }
                Some(NodePods { new: None, old: Some(old) }) => candidates.push(old),
                Some(_) | None => unavailable_count += 1,
            }
        }
        let max_deletions = usize::try_from(unavailable.saturating_sub(unavailable_count)).unwrap_or(0);
        replaced.extend(candidates.into_iter().take(max_deletions));
        PodChanges { nodes_needing_pods: Vec::new(), pods_to_delete: replaced }
    }

    /// The same with surge: a new pod is created before the old one is deleted.
    fn rolling_update_with_surge(
        &self,
        context: &SyncContext<'_>,
        set: &CurrentDaemonSet<'_>,
        surge: i64,
    ) -> PodChanges {
        let min_ready = set.daemon_set.spec.min_ready_seconds;
        let is_available = |pod: &Pod| pod.is_available(min_ready, context.now);
        let (mut surging, mut available, mut pod_changes) = (0, 0, PodChanges::default());
        let (mut candidates, mut unwanted) = (Vec::new(), Vec::new());
        for (node, node_state) in &self.node_states {
            let pods = node_state.pods(context.cache);
            if pods.is_empty() {
                continue;
            }
            let Some(NodePods { new, old }) = find_updated_pods(set, &pods) else {
                surging += 1;
                continue;
            };
            available += i64::from(old.as_deref().or(new.as_deref()).is_some_and(is_available));
            match (new, old) {
                (_, None) => {}
                (None, Some(old)) => match (is_available(&old), node_state.wants.should_run) {
                    (false, false) => pod_changes.pods_to_delete.push(old),
                    (false, true) => pod_changes.nodes_needing_pods.push(node.clone()),
                    (true, false) => unwanted.push(old),
                    (true, true) => candidates.push(node.clone()),
                },
                (Some(new), Some(old)) if is_available(&new) => pod_changes.pods_to_delete.push(old),
                (Some(_), Some(_)) => surging += 1,
            }
        }
        // Pods on nodes that should not run one stay until enough others are available.
        let deletable_count = usize::try_from(available - self.totals.desired).unwrap_or(0);
        pod_changes.pods_to_delete.extend(unwanted.into_iter().take(deletable_count));
        pod_changes
            .nodes_needing_pods
            .extend(candidates.into_iter().take(usize::try_from(surge - surging).unwrap_or(0)));
        pod_changes
    }
}

/// The new and the old pod of a node; `None` if there is more than one of either.
fn find_updated_pods(set: &CurrentDaemonSet<'_>, pods: &[Arc<Pod>]) -> Option<NodePods> {
    let live = pods.iter().filter(|pod| !pod.is_deleting()).cloned();
    let (new, old): (Vec<Arc<Pod>>, Vec<Arc<Pod>>) = live.partition(|pod| set.is_updated(pod));
    let is_unambiguous = new.len() <= 1 && old.len() <= 1;
    is_unambiguous.then(|| NodePods { new: new.into_iter().next(), old: old.into_iter().next() })
}
