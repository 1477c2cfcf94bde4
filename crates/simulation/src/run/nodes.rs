//! Additions, changes and deletions of nodes, with their effects on pods.

use std::sync::Arc;

use super::Run;
use super::event_receivers::ChangeKind;
use crate::eviction::EvictionCause;
use crate::latency::LatencyKind;
use crate::observer::{Observer, SimulationEvent};
use crate::store::{Pod, StoredNode};
use crate::timeline::RunTask;

impl<O: Observer> Run<'_, O> {
    /// Adds or modifies a node.
    pub(super) fn set_node(&mut self, node: StoredNode) {
        let now = self.now();
        let name = &node.view.name.clone();
        let is_new = self.nodes.set(name, node.clone());
        if is_new {
            let autoscaler = self.receivers.autoscaler.as_mut();
            let group = autoscaler.and_then(|autoscaler| autoscaler.node_added(&node.view));
            let event = SimulationEvent::NodeAdded { node: &node.view, group: group.as_ref() };
            self.receivers.notify_event(now, &event);
        } else {
            self.receivers.notify_event(now, &SimulationEvent::NodeModified { node: &node.view });
        }
        let has_evictions = self.taint_eviction.node_changed(&node.view);
        let change = if is_new { ChangeKind::Added } else { ChangeKind::Modified };
        self.receivers.node_changed(&mut self.timeline, node, change);
        if is_new {
            // Pods that were terminating while the node was missing can be stopped now.
            for id in self.pods.on_node(name) {
                if self.pods.get(id).is_some_and(Pod::is_terminating) {
                    let at = self.sampled_completion_time(id, LatencyKind::PodDeletion);
                    self.timeline.put(at, RunTask::FinishDeletion(id));
                }
            }
        }
        if has_evictions {
            for id in self.pods.on_node(name) {
                self.check_taints(id);
            }
        }
        self.receivers.scheduler.wake();
    }

    pub(super) fn remove_node(&mut self, name: &Arc<str>) {
        let Some(node) = self.nodes.remove(name) else { return };
        self.taint_eviction.node_deleted(name);
        self.receivers.notify_event(self.timeline.now(), &SimulationEvent::NodeDeleted { node: &node.view });
        if let Some(autoscaler) = &mut self.receivers.autoscaler {
            autoscaler.node_deleted(&node.view);
        }
        self.receivers.node_changed(&mut self.timeline, node, ChangeKind::Deleted);
        if !self.pods.on_node(name).is_empty() {
            self.schedule_pod_gc(name);
        }
    }

    /// Pods are left on a deleted node: pod GC deletes them later.
    pub(super) fn schedule_pod_gc(&mut self, name: &Arc<str>) {
        if self.nodes.mark_missing(name) {
            let at = self.timeline.completion_time(LatencyKind::PodGc);
            self.timeline.put(at, RunTask::CollectPods(name.clone()));
        }
    }

    /// Pod GC: deletes the pods of a deleted node.
    pub(super) fn run_pod_gc(&mut self, name: &Arc<str>) {
        if !self.nodes.take_missing(name) {
            return;
        }
        for id in self.pods.on_node(name) {
            let Some(pod) = self.pods.get(id) else { continue };
            if pod.is_terminating() {
                self.remove_pod(id);
            } else {
                self.evict(id, EvictionCause::NodeDeleted);
            }
        }
    }
}
