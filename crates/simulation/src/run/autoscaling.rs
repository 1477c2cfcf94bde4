//! Execution of the autoscaler's decisions, and the nodes of its cloud.

use std::sync::Arc;

use autoscaler::{Action, Event};

use super::Run;
use crate::cloud::{CloudChange, with_ready_condition};
use crate::eviction::EvictionCause;
use crate::node_edit::NodeEdit;
use crate::observer::{Observer, SimulationEvent};
use crate::store::StoredNode;

/// The most rounds of background work at one moment. A few are needed; more indicate a bug.
const MAX_BACKGROUND_ROUNDS: usize = 100;

impl<O: Observer> Run<'_, O> {
    /// Runs all that is due of the autoscaler and its cloud.
    pub(super) fn run_autoscaler(&mut self) {
        let now = self.now();
        if self.receivers.autoscaler.as_ref().is_none_or(|autoscaler| autoscaler.next() > now) {
            return;
        }
        self.apply_cloud_changes();
        self.background();
        self.deliver_pod_events();
        let Some(autoscaler) = &mut self.receivers.autoscaler else { return };
        let Some(loop_result) = autoscaler.run_once(now, &mut self.timeline.latencies) else { return };
        let observer = &mut self.receivers.observer;
        let inner_autoscaler = autoscaler.autoscaler();
        observer.on_event(
            now,
            &SimulationEvent::LoopFinished { result: &loop_result, autoscaler: inner_autoscaler },
        );
        for scale_up in loop_result
            .scale_ups
            .iter()
            .chain(&loop_result.min_size_scale_up)
            .filter(|status| !status.increases.is_empty())
        {
            observer.on_event(now, &SimulationEvent::ScaledUp(scale_up));
        }
        for removed in &loop_result.scale_down.removed_nodes {
            let group = autoscaler.group_of(&removed.node);
            observer.on_event(now, &SimulationEvent::ScaledDown { removed, group });
        }
        self.execute_all(&loop_result.actions, &loop_result.events);
        if let Some(autoscaler) = &mut self.receivers.autoscaler {
            autoscaler.finish(loop_result);
        }
        self.background();
    }

    /// Delivers queued pod events, before the autoscaler does something.
    fn deliver_pod_events(&mut self) {
        if let Some(autoscaler) = &mut self.receivers.autoscaler {
            autoscaler.deliver_pod_events();
        }
    }

    /// Runs the work that is due between loops, until none is left.
    fn background(&mut self) {
        for _ in 0..MAX_BACKGROUND_ROUNDS {
            self.deliver_pod_events();
            let Some(autoscaler) = &mut self.receivers.autoscaler else { return };
            let background_result = autoscaler.background(self.timeline.now());
            self.execute_all(&background_result.actions, &background_result.events);
            let was_busy = !background_result.actions.is_empty() || !background_result.events.is_empty();
            if !self.apply_cloud_changes() && !was_busy {
                return;
            }
        }
    }

    fn execute_all(&mut self, actions: &[Action], events: &[Event]) {
        for event in events {
            self.receivers.autoscaler_event(self.timeline.now(), event, &self.pods);
        }
        for action in actions {
            self.execute_action(action);
        }
    }

    fn execute_action(&mut self, action: &Action) {
        match action {
            Action::Taint { node, key, value, effect } => {
                self.edit_node(node, NodeEdit::Taint { key, value, effect });
            }
            Action::Untaint { node, key } => self.edit_node(node, NodeEdit::Untaint(key)),
            Action::Cordon { node, unschedulable } => {
                self.edit_node(node, NodeEdit::Cordon(*unschedulable));
            }
            Action::Evict { pod, .. } => {
                if let Some(id) = self.pods.id_of(pod) {
                    self.evict(id, EvictionCause::ScaleDown);
                }
            }
        }
    }

    fn edit_node(&mut self, name: &Arc<str>, edit: NodeEdit<'_>) {
        if let Some(node) = self.nodes.get(name).and_then(|node| edit.edited(&node.object)) {
            self.set_node(StoredNode::parse(node));
        }
    }

    /// Applies the cloud's changes. Returns whether there were any.
    fn apply_cloud_changes(&mut self) -> bool {
        let Some(autoscaler) = &mut self.receivers.autoscaler else { return false };
        let changes = autoscaler.cloud_changes(self.timeline.now());
        let has_changes = !changes.is_empty();
        for change in changes {
            match change {
                CloudChange::Registered { node, pods } => {
                    let name: Arc<str> = (*node.meta().name).into();
                    self.set_node(StoredNode::parse(node));
                    for pod in pods {
                        self.create_with_node(&name, pod);
                    }
                }
                CloudChange::Ready { node, at } => {
                    if let Some(node) = self.nodes.get(&node) {
                        self.set_node(StoredNode::parse(with_ready_condition(&node.object, at)));
                    }
                }
                CloudChange::Deleted { node } => self.remove_node(&node),
            }
        }
        has_changes
    }
}
