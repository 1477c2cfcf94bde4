//! Nodes: those that are given, those the autoscaler asks for, and what their end means for pods.

use std::sync::Arc;

use autoscaler::Action;
use kubernetes::read::nullable;
use kubernetes::taints::Taint;
use model::{Kind, Object, What};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Run;
use super::agenda::Due;
use super::pods::Pod;
use super::told::{Audience, Decided, LostTo};
use crate::pace::Step;

/// Taints that only an autoscaler gives and takes.
const SCALERS: [&str; 2] = ["ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"];

#[derive(Default, Deserialize)]
pub(super) struct NodeJson {
    #[serde(default, deserialize_with = "nullable")]
    pub(super) spec: NodeSpecJson,
}

#[derive(Default, Deserialize)]
pub(super) struct NodeSpecJson {
    #[serde(default, deserialize_with = "nullable")]
    pub(super) taints: Vec<Taint>,
}

impl Run<'_> {
    pub(super) fn give_object(&mut self, what: What, audience: &mut dyn Audience) {
        let meta = what.object().meta();
        let kind = Kind::of(&meta.api_version, &meta.kind);
        if self.is_controlled(&kind) {
            self.give_controlled(&kind, what, audience);
            return;
        }
        if kind != Kind::new("", "Node") {
            self.tell(what, audience);
            return;
        }
        let name: Arc<str> = (*meta.name).into();
        match &what {
            What::Deleted(_) => self.remove_node(&name, audience),
            What::Added(node) | What::Modified(node) => {
                let node = match (self.nodes.get(&name), &what) {
                    (Some(known), _) if self.scaler.is_some() => with_taints_of(node, known),
                    (Some(_), _) => node.clone(),
                    (None, What::Added(_)) => node.clone(),
                    // It is gone here.
                    (None, _) => return,
                };
                self.set_node(&name, node, audience);
            }
        }
    }

    /// A node is there, or otherwise from now on.
    pub(super) fn set_node(&mut self, name: &Arc<str>, node: Object, audience: &mut dyn Audience) {
        let is_new = self.nodes.insert(name.clone(), node.clone()).is_none();
        if is_new {
            self.gone_nodes.remove(name);
            let group = self.scaler.as_mut().and_then(|scaler| scaler.meet(&node));
            let came = Decided::NodeCame { node: name, group: group.as_ref(), object: &node };
            audience.decided(self.now, &came);
        } else {
            audience.decided(self.now, &Decided::NodeChanged { object: &node });
        }
        self.tell(if is_new { What::Added(node) } else { What::Modified(node) }, audience);
        if is_new {
            // Whoever was being deleted when it was away can be ended now.
            let on_it = self.on_node.get(name).into_iter().flatten();
            let leaving = on_it.filter(|id| self.pods.get(id).is_some_and(Pod::is_leaving));
            for id in leaving.copied().collect::<Vec<_>>() {
                let at = self.over_for(id, Step::End);
                self.agenda.put(at, Due::Go(id));
            }
        }
        self.mind_node(name);
        self.may_try = true;
    }

    pub(super) fn remove_node(&mut self, name: &Arc<str>, audience: &mut dyn Audience) {
        let Some(node) = self.nodes.remove(name) else { return };
        self.driving.remove(name);
        audience.decided(self.now, &Decided::NodeWent { node: name, object: &node });
        if let Some(scaler) = &mut self.scaler {
            scaler.part(&node);
        }
        self.tell(What::Deleted(node), audience);
        if self.on_node.contains_key(name) {
            self.node_is_gone(name);
        }
    }

    /// Pods are left on a node that is not there: they go after a while.
    pub(super) fn node_is_gone(&mut self, name: &Arc<str>) {
        if self.gone_nodes.insert(name.clone()) {
            let at = self.over(Step::Collect);
            self.agenda.put(at, Due::Collect(name.clone()));
        }
    }

    /// The pods of a node that is gone go.
    pub(super) fn collect(&mut self, name: &Arc<str>, audience: &mut dyn Audience) {
        if !self.gone_nodes.remove(name) {
            return;
        }
        for id in self.on_node.get(name).into_iter().flatten().copied().collect::<Vec<_>>() {
            let Some(pod) = self.pods.get(&id) else { continue };
            if pod.is_leaving() {
                self.gone(id, audience);
            } else {
                self.lose(id, LostTo::NodeGone, audience);
            }
        }
    }

    /// What the autoscaler does to the cluster.
    pub(super) fn act(&mut self, action: &Action, audience: &mut dyn Audience) {
        match action {
            Action::Taint { node, key, value, effect } => self.change_node(node, audience, |spec| {
                let taints = as_list(&mut spec["taints"]);
                taints.retain(|taint| taint["key"] != *key);
                taints.push(json!({"key": key, "value": value, "effect": effect}));
            }),
            Action::Untaint { node, key } => self.change_node(node, audience, |spec| {
                as_list(&mut spec["taints"]).retain(|taint| taint["key"] != *key);
            }),
            Action::Cordon { node, unschedulable } => self.change_node(node, audience, |spec| {
                spec["unschedulable"] = (*unschedulable).into();
            }),
            Action::Evict { pod, .. } => {
                if let Some(id) = self.names.get(pod).copied() {
                    self.lose(id, LostTo::ScaleDown, audience);
                }
            }
        }
    }

    fn change_node(&mut self, name: &Arc<str>, audience: &mut dyn Audience, change: impl FnOnce(&mut Value)) {
        let Some(Ok(mut node)) = self.nodes.get(name).map(Object::value) else { return };
        change(&mut node["spec"]);
        self.set_node(name, Object::trusted(node.to_string()), audience);
    }
}

/// A node with an autoscaler's taints as they are in this run, not as they were recorded.
fn with_taints_of(node: &Object, known: &Object) -> Object {
    let own = |object: &Object| {
        let spec = object.view::<NodeJson>().unwrap_or_default().spec;
        spec.taints.iter().any(|taint| SCALERS.contains(&&*taint.key))
    };
    if !own(node) && !own(known) {
        return node.clone();
    }
    let (Ok(mut value), Ok(known)) = (node.value(), known.value()) else { return node.clone() };
    let is_own = |taint: &Value| taint["key"].as_str().is_some_and(|key| SCALERS.contains(&key));
    let taints = as_list(&mut value["spec"]["taints"]);
    taints.retain(|taint| !is_own(taint));
    taints.extend(
        known["spec"]["taints"].as_array().into_iter().flatten().filter(|taint| is_own(taint)).cloned(),
    );
    Object::trusted(value.to_string())
}

fn as_list(value: &mut Value) -> &mut Vec<Value> {
    if !value.is_array() {
        *value = Value::Array(Vec::new());
    }
    value.as_array_mut().expect("it was made one")
}
