//! What the autoscaler decided is carried out, and nodes of its cloud come and go.

use std::sync::Arc;

use autoscaler::{Action, Event};
use model::Object;

use super::Run;
use crate::cloud::{CloudChange, made_ready};
use crate::eviction::LostTo;
use crate::node_edit;
use crate::observer::{Decided, Observer};

/// How often work may go on at one moment. It needs a few times; more is a fault.
const ROUNDS: usize = 100;

impl<O: Observer> Run<'_, O> {
    /// All that the autoscaler and the cloud have to do now.
    pub(super) fn scale(&mut self) {
        let now = self.now();
        if self.informers.autoscaler.as_ref().is_none_or(|autoscaler| autoscaler.next() > now) {
            return;
        }
        self.cloud_changes();
        self.background();
        self.report_pods();
        let Some(autoscaler) = &mut self.informers.autoscaler else { return };
        let Some(done) = autoscaler.run_once(now, &mut self.timeline.pacer) else { return };
        let observer = &mut self.informers.observer;
        let decider = autoscaler.autoscaler();
        observer.decided(now, &Decided::Looped { done: &done, autoscaler: decider });
        for scale_up in done.scale_ups.iter().chain(&done.min_size).filter(|it| !it.increases.is_empty()) {
            observer.decided(now, &Decided::ScaledUp(scale_up));
        }
        for removed in &done.scale_down.nodes {
            let group = autoscaler.group_of(&removed.node);
            observer.decided(now, &Decided::ScaledDown { removed, group });
        }
        self.do_all(&done.actions, &done.events);
        if let Some(autoscaler) = &mut self.informers.autoscaler {
            autoscaler.finish(done);
        }
        self.background();
    }

    /// The autoscaler is about to do something: it is told of all pods that it has not been told of.
    fn report_pods(&mut self) {
        if let Some(autoscaler) = &mut self.informers.autoscaler {
            autoscaler.report_pods(|name| self.pods.named(name));
        }
    }

    /// What is due between loops, until nothing is left.
    fn background(&mut self) {
        for _ in 0..ROUNDS {
            self.report_pods();
            let Some(autoscaler) = &mut self.informers.autoscaler else { return };
            let done = autoscaler.background(self.timeline.now());
            self.do_all(&done.actions, &done.events);
            let was_busy = !done.actions.is_empty() || !done.events.is_empty();
            if !self.cloud_changes() && !was_busy {
                return;
            }
        }
    }

    fn do_all(&mut self, actions: &[Action], events: &[Event]) {
        for event in events {
            self.informers.autoscaler_event(self.timeline.now(), event, &self.pods);
        }
        for action in actions {
            self.act(action);
        }
    }

    fn act(&mut self, action: &Action) {
        match action {
            Action::Taint { node, key, value, effect } => {
                self.edit_node(node, |object| node_edit::tainted(object, key, value, effect));
            }
            Action::Untaint { node, key } => self.edit_node(node, |object| node_edit::untainted(object, key)),
            Action::Cordon { node, unschedulable } => {
                self.edit_node(node, |object| node_edit::cordoned(object, *unschedulable));
            }
            Action::Evict { pod, .. } => {
                if let Some(id) = self.pods.find(pod) {
                    self.lose(id, LostTo::ScaleDown);
                }
            }
        }
    }

    fn edit_node(&mut self, name: &Arc<str>, edit: impl FnOnce(&Object) -> Option<Object>) {
        if let Some(node) = self.nodes.get(name).and_then(edit) {
            self.set_node(name, node);
        }
    }

    /// Whether something happened in the cloud.
    fn cloud_changes(&mut self) -> bool {
        let Some(autoscaler) = &mut self.informers.autoscaler else { return false };
        let changes = autoscaler.cloud_changes(self.timeline.now());
        let happened = !changes.is_empty();
        for change in changes {
            match change {
                CloudChange::Registered { node, pods } => {
                    let name: Arc<str> = (*node.meta().name).into();
                    self.set_node(&name, node);
                    for pod in pods {
                        self.come_with(&name, pod);
                    }
                }
                CloudChange::Ready { node, at } => {
                    if let Some(object) = self.nodes.get(&node).map(|object| made_ready(object, at)) {
                        self.set_node(&node, object);
                    }
                }
                CloudChange::Gone { node } => self.remove_node(&node),
            }
        }
        happened
    }
}
