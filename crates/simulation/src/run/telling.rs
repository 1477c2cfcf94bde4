//! Objects are given, and everybody is told of objects and pods that changed.

use std::sync::Arc;

use model::{Kind, Object, What};

use super::Run;
use crate::ids::PodId;
use crate::node_edit::with_taints_of;
use crate::observer::Observer;
use crate::store::kind_of;

impl<O: Observer> Run<'_, O> {
    /// An object came, changed or went without anybody's decision.
    pub(super) fn give_object(&mut self, what: What) {
        let kind = kind_of(what.object());
        if self.is_controlled(&kind) {
            let given = self.objects.give(&kind, what);
            self.tell_object(given);
            return;
        }
        if kind != Kind::new("", "Node") {
            self.tell_object(Some(what));
            return;
        }
        let name: Arc<str> = (*what.object().meta().name).into();
        match &what {
            What::Deleted(_) => self.remove_node(&name),
            What::Added(node) | What::Modified(node) => {
                let node = match (self.nodes.get(&name), &what) {
                    (Some(known), _) if self.informers.autoscaler.is_some() => with_taints_of(node, known),
                    (Some(_), _) => node.clone(),
                    (None, What::Added(_)) => node.clone(),
                    // It is gone here.
                    (None, _) => return,
                };
                self.set_node(&name, node);
            }
        }
    }

    /// Tells everybody of an object that is no pod, if it changed.
    pub(super) fn tell_object(&mut self, what: Option<What>) {
        if let Some(what) = what {
            self.informers.object(&mut self.timeline, what);
        }
    }

    /// Tells everybody of a pod that is new, or that its owner changed.
    pub(super) fn tell_pod(&mut self, id: PodId, how: fn(Object) -> What) {
        if let Some(pod) = self.pods.get(id) {
            self.informers.pod(&mut self.timeline, pod, how);
        }
    }

    /// Tells everybody but the scheduler, which knows, of a pod's status.
    pub(super) fn tell_status(&mut self, id: PodId) {
        if let Some(pod) = self.pods.get(id) {
            self.informers.pod_status(&mut self.timeline, pod, What::Modified);
        }
    }
}
