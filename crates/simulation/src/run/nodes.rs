//! Nodes come, change and go, and with them what becomes of their pods.

use std::sync::Arc;

use model::{Object, What};

use super::Run;
use crate::eviction::LostTo;
use crate::observer::{Decided, Observer};
use crate::pace::Step;
use crate::store::Pod;
use crate::timeline::Due;

impl<O: Observer> Run<'_, O> {
    /// A node is there, or changed.
    pub(super) fn set_node(&mut self, name: &Arc<str>, node: Object) {
        let now = self.now();
        let is_new = self.nodes.set(name, node.clone());
        if is_new {
            let autoscaler = self.informers.autoscaler.as_mut();
            let group = autoscaler.and_then(|autoscaler| autoscaler.node_added(&node));
            let came = Decided::NodeCame { node: name, group: group.as_ref(), object: &node };
            self.informers.decided(now, &came);
        } else {
            self.informers.decided(now, &Decided::NodeChanged { object: &node });
        }
        let has_evictions = self.taint_eviction.node_changed(name, &node);
        self.tell_object(Some(if is_new { What::Added(node) } else { What::Modified(node) }));
        if is_new {
            // Pods that were being deleted when it was away can be ended now.
            for id in self.pods.on_node(name) {
                if self.pods.get(id).is_some_and(Pod::is_leaving) {
                    let at = self.over_for(id, Step::End);
                    self.timeline.put(at, Due::Go(id));
                }
            }
        }
        if has_evictions {
            for id in self.pods.on_node(name) {
                self.consider_taints(id);
            }
        }
        self.informers.scheduler.wake();
    }

    pub(super) fn remove_node(&mut self, name: &Arc<str>) {
        let Some(node) = self.nodes.remove(name) else { return };
        self.taint_eviction.node_deleted(name);
        self.informers.decided(self.timeline.now(), &Decided::NodeWent { node: name, object: &node });
        if let Some(autoscaler) = &mut self.informers.autoscaler {
            autoscaler.node_deleted(&node);
        }
        self.tell_object(Some(What::Deleted(node)));
        if !self.pods.on_node(name).is_empty() {
            self.miss_node(name);
        }
    }

    /// Pods are left on a node that is not there: they are deleted after a while.
    pub(super) fn miss_node(&mut self, name: &Arc<str>) {
        if self.nodes.miss(name) {
            let at = self.timeline.end_of(Step::Collect);
            self.timeline.put(at, Due::Collect(name.clone()));
        }
    }

    /// The pods of a node that is gone are deleted.
    pub(super) fn collect(&mut self, name: &Arc<str>) {
        if !self.nodes.collect(name) {
            return;
        }
        for id in self.pods.on_node(name) {
            let Some(pod) = self.pods.get(id) else { continue };
            if pod.is_leaving() {
                self.gone(id);
            } else {
                self.lose(id, LostTo::NodeGone);
            }
        }
    }
}
