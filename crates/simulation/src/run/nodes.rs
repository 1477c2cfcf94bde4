//! Additions, changes and deletions of nodes, with their effects on pods.

use std::sync::Arc;

use model::{Object, What};

use super::Run;
use crate::eviction::EvictionCause;
use crate::latency::LatencyKind;
use crate::observer::{Observer, SimulationEvent};
use crate::store::Pod;
use crate::timeline::RunTask;

impl<O: Observer> Run<'_, O> {
    /// Adds or modifies a node.
    pub(super) fn set_node(&mut self, name: &Arc<str>, node: Object) {
        let now = self.now();
        let is_new = self.nodes.set(name, node.clone());
        if is_new {
            let autoscaler = self.informers.autoscaler.as_mut();
            let group = autoscaler.and_then(|autoscaler| autoscaler.node_added(&node));
            let event = SimulationEvent::NodeAdded { node: name, group: group.as_ref(), object: &node };
            self.informers.notify_event(now, &event);
        } else {
            self.informers.notify_event(now, &SimulationEvent::NodeModified { object: &node });
        }
        let has_evictions = self.taint_eviction.node_changed(name, &node);
        self.notify_object(Some(if is_new { What::Added(node) } else { What::Modified(node) }));
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
        self.informers.scheduler.wake();
    }

    pub(super) fn remove_node(&mut self, name: &Arc<str>) {
        let Some(node) = self.nodes.remove(name) else { return };
        self.taint_eviction.node_deleted(name);
        self.informers
            .notify_event(self.timeline.now(), &SimulationEvent::NodeDeleted { node: name, object: &node });
        if let Some(autoscaler) = &mut self.informers.autoscaler {
            autoscaler.node_deleted(&node);
        }
        self.notify_object(Some(What::Deleted(node)));
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
