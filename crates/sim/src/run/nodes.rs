//! Nodes: those that are given, those the autoscaler asks for, and what their end means for pods.

use std::sync::Arc;
use std::time::Duration;

use model::{Moment, Object, What};
use serde::Deserialize;
use serde_json::{Value, json};

use super::agenda::Due;
use super::pods::Pod;
use super::told::{Audience, Decided, LostTo, PodId};
use super::{Run, after};
use crate::autoscaler::Action;
use crate::pace::Step;

/// Taints that only an autoscaler gives and takes.
const SCALERS: [&str; 2] = ["ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"];

#[derive(Default, Deserialize)]
struct NodeJson {
    #[serde(default)]
    spec: NodeSpecJson,
}

#[derive(Default, Deserialize)]
struct NodeSpecJson {
    #[serde(default)]
    taints: Vec<TaintJson>,
}

#[derive(Deserialize)]
struct TaintJson {
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    effect: String,
}

#[derive(Default, Deserialize)]
struct PodJson {
    #[serde(default)]
    spec: PodSpecJson,
}

#[derive(Default, Deserialize)]
struct PodSpecJson {
    #[serde(default)]
    tolerations: Vec<TolerationJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TolerationJson {
    #[serde(default)]
    key: String,
    #[serde(default)]
    operator: String,
    #[serde(default)]
    value: String,
    #[serde(default)]
    effect: String,
    #[serde(default)]
    toleration_seconds: Option<i64>,
}

impl Run {
    pub(super) fn give_object(&mut self, what: What, audience: &mut dyn Audience) {
        let meta = what.object().meta();
        if meta.kind != "Node" || meta.api_version != "v1" {
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
            audience.decided(self.now, &Decided::NodeCame { node: name, group: group.as_ref() });
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
        self.evict_by_taints(name);
        self.may_try = true;
    }

    pub(super) fn remove_node(&mut self, name: &Arc<str>, audience: &mut dyn Audience) {
        let Some(node) = self.nodes.remove(name) else { return };
        audience.decided(self.now, &Decided::NodeWent { node: name });
        if let Some(scaler) = &mut self.scaler {
            scaler.part(name);
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

    /// Pods that do not tolerate a taint of their node leave it.
    fn evict_by_taints(&mut self, name: &Arc<str>) {
        let Some(pods) = self.on_node.get(name) else { return };
        let Some(node) = self.nodes.get(name) else { return };
        let node: NodeJson = node.view().unwrap_or_default();
        let taints: Vec<TaintJson> =
            node.spec.taints.into_iter().filter(|taint| taint.effect == "NoExecute").collect();
        if taints.is_empty() {
            return;
        }
        let mut due: Vec<(Moment, PodId, Arc<str>)> = Vec::new();
        for id in pods {
            let Some(pod) = self.pods.get(id) else { continue };
            let tolerations = pod.object().view::<PodJson>().unwrap_or_default().spec.tolerations;
            let stays = taints.iter().map(|taint| (taint, tolerated(taint, &tolerations)));
            let first =
                stays.filter_map(|(taint, stays)| Some((stays?, taint))).min_by_key(|(stays, _)| *stays);
            if let Some((stays, taint)) = first {
                due.push((after(self.now, stays), *id, taint.key.as_str().into()));
            }
        }
        for (at, id, key) in due {
            self.agenda.put(at, Due::LoseToTaint(id, key));
        }
    }

    /// The time a taint gave a pod is over: it goes, if the taint is still there.
    pub(super) fn lose_to_taint(&mut self, id: PodId, key: Arc<str>, audience: &mut dyn Audience) {
        let node = self.pods.get(&id).and_then(|pod| self.nodes.get(pod.node.as_ref()?));
        let node: NodeJson = node.and_then(|node| node.view().ok()).unwrap_or_default();
        if node.spec.taints.iter().any(|taint| taint.key == *key && taint.effect == "NoExecute") {
            self.lose(id, LostTo::Taint(key), audience);
        }
    }
}

/// How long a pod may stay in spite of a taint; `None` for ever.
fn tolerated(taint: &TaintJson, tolerations: &[TolerationJson]) -> Option<Duration> {
    let matching = tolerations.iter().filter(|it| {
        (it.effect.is_empty() || it.effect == taint.effect)
            && (it.key == taint.key || (it.key.is_empty() && it.operator == "Exists"))
            && (it.operator == "Exists" || it.value == taint.value)
    });
    let times: Vec<Option<i64>> = matching.map(|it| it.toleration_seconds).collect();
    match times.iter().flatten().min() {
        _ if times.is_empty() => Some(Duration::ZERO),
        None => None,
        Some(seconds) => Some(Duration::from_secs((*seconds).max(0).unsigned_abs())),
    }
}

/// A node with an autoscaler's taints as they are in this run, not as they were recorded.
fn with_taints_of(node: &Object, known: &Object) -> Object {
    let own = |object: &Object| {
        let spec = object.view::<NodeJson>().unwrap_or_default().spec;
        spec.taints.iter().any(|taint| SCALERS.contains(&taint.key.as_str()))
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
