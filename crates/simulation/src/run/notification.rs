//! Input objects, and the notification of all receivers about changed objects and pods.

use std::sync::Arc;

use model::What;

use super::Run;
use super::event_receivers::ChangeKind;
use crate::ids::PodId;
use crate::node_edit::with_autoscaler_taints_of;
use crate::observer::Observer;
use crate::store::{StoredNode, kind_of};

impl<O: Observer> Run<'_, O> {
    /// Applies the addition, modification or deletion of an input object.
    pub(super) fn apply_object(&mut self, what: What) {
        let kind = kind_of(what.object());
        if self.is_controlled(&kind) {
            let change = self.objects.apply_input(&kind, what);
            self.notify_object(change);
            return;
        }
        if !kind.is("", "Node") {
            self.notify_object(Some(what));
            return;
        }
        let name: Arc<str> = (*what.object().meta().name).into();
        let is_added = matches!(what, What::Added(_));
        match what {
            What::Deleted(_) => self.remove_node(&name),
            What::Added(node) | What::Modified(node) => {
                let node = match self.nodes.get(&name) {
                    Some(current) if self.receivers.autoscaler.is_some() => {
                        with_autoscaler_taints_of(StoredNode::parse(node), current)
                    }
                    // It does not exist in this run.
                    None if !is_added => return,
                    Some(_) | None => StoredNode::parse(node),
                };
                self.set_node(node);
            }
        }
    }

    /// Notifies all receivers of a changed object other than a pod or node.
    pub(super) fn notify_object(&mut self, what: Option<What>) {
        if let Some(what) = what {
            self.receivers.object_changed(&mut self.timeline, what);
        }
    }

    /// Notifies all receivers of a pod.
    pub(super) fn notify_pod(&mut self, id: PodId, change: ChangeKind) {
        if let Some(pod) = self.pods.get(id) {
            self.receivers.pod_changed(&mut self.timeline, pod, change);
        }
    }

    /// Notifies all receivers but the scheduler, which knows it already, of a pod's status.
    pub(super) fn notify_pod_status(&mut self, id: PodId) {
        if let Some(pod) = self.pods.get(id) {
            self.receivers.pod_status_changed(&mut self.timeline, pod);
        }
    }
}
