//! The fields of a node that the autoscaler reads.

use std::sync::Arc;

use kubernetes::amounts::ScalarResourceNames;
use kubernetes::labels::Labels;
use kubernetes::quantity::Quantity;
use kubernetes::read::{moment, nullable, view};
use kubernetes::requests::ResourceList;
use model::{Moment, Object};
use scheduler::node::ParsedNode;
use serde::Deserialize;

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Node {
    pub name: Arc<str>,
    /// `spec.providerID`.
    pub provider_id: Arc<str>,
    pub created: Moment,
    pub labels: Labels,
    pub annotations: Labels,
    pub taints: Vec<NodeTaint>,
    pub unschedulable: bool,
    pub conditions: Vec<NodeCondition>,
    /// By name, sorted.
    pub capacity: Resources,
    /// By name, sorted.
    pub allocatable: Resources,
    /// The node as the scheduler's filters read it.
    pub spec: ParsedNode,
}

/// Amounts of resources by name, sorted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Resources(pub Vec<(Arc<str>, Quantity)>);

/// A taint, with the time at which it was added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeTaint {
    pub key: Arc<str>,
    pub value: Arc<str>,
    pub effect: Arc<str>,
    pub time_added: Option<Moment>,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeCondition {
    pub kind: Arc<str>,
    pub status: Arc<str>,
    pub last_transition_time: Option<Moment>,
}

#[derive(Deserialize)]
struct NodeJson<'a> {
    #[serde(default, deserialize_with = "nullable")]
    metadata: MetadataJson,
    #[serde(default, deserialize_with = "nullable")]
    spec: SpecJson,
    #[serde(default, borrow, deserialize_with = "nullable")]
    status: StatusJson<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetadataJson {
    #[serde(deserialize_with = "moment")]
    creation_timestamp: Option<Moment>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecJson {
    #[serde(rename = "providerID", deserialize_with = "nullable")]
    provider_id: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    taints: Vec<TaintJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TaintJson {
    #[serde(default, deserialize_with = "nullable")]
    key: Arc<str>,
    #[serde(default, deserialize_with = "nullable")]
    value: Arc<str>,
    #[serde(default, deserialize_with = "nullable")]
    effect: Arc<str>,
    #[serde(default, deserialize_with = "moment")]
    time_added: Option<Moment>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StatusJson<'a> {
    #[serde(borrow)]
    capacity: ResourceList<'a>,
    #[serde(borrow)]
    allocatable: ResourceList<'a>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<ConditionJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConditionJson {
    #[serde(rename = "type", default)]
    kind: Arc<str>,
    #[serde(default)]
    status: Arc<str>,
    #[serde(default, deserialize_with = "moment")]
    last_transition_time: Option<Moment>,
}

// === impl Node ===

impl Node {
    /// Reads a node. A parse error is kept in `spec.read_error`: such a node passes no filters.
    pub(crate) fn read(object: &Object, scalars: &mut ScalarResourceNames) -> Node {
        let mut spec = ParsedNode::read(object, scalars);
        let json = match view::<NodeJson<'_>>(object) {
            Ok(json) => json,
            Err(error) => {
                spec.read_error.get_or_insert_with(|| error.into());
                return Node { name: spec.name.clone(), spec, ..Node::default() };
            }
        };
        Node {
            name: spec.name.clone(),
            provider_id: json.spec.provider_id,
            created: json.metadata.creation_timestamp.unwrap_or_default(),
            labels: spec.labels.clone(),
            annotations: spec.annotations.clone(),
            taints: json.spec.taints.into_iter().map(NodeTaint::from).collect(),
            unschedulable: spec.unschedulable,
            conditions: json.status.conditions.into_iter().map(NodeCondition::from).collect(),
            capacity: Resources::from(&json.status.capacity),
            allocatable: Resources::from(&json.status.allocatable),
            spec,
        }
    }

    /// Its instance ID: the `providerID`, or the node's name without one.
    pub(crate) fn instance_id(&self) -> &Arc<str> {
        if self.provider_id.is_empty() { &self.name } else { &self.provider_id }
    }

    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }

    /// Whether it is a virtual-kubelet node.
    pub(crate) fn is_virtual_kubelet(&self) -> bool {
        self.label("type") == Some("virtual-kubelet")
    }

    /// The first taint of that key.
    pub(crate) fn taint(&self, key: &str) -> Option<&NodeTaint> {
        self.taints.iter().find(|taint| &*taint.key == key)
    }

    /// The first condition of that type.
    pub(crate) fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|condition| &*condition.kind == kind)
    }

    /// Replaces its taints, also for the filters.
    pub(crate) fn set_taints(&mut self, taints: Vec<NodeTaint>) {
        self.spec.taints = taints.iter().map(NodeTaint::to_scheduler_taint).collect();
        self.taints = taints;
    }

    /// Replaces its labels, also for the filters.
    pub(crate) fn set_labels(&mut self, labels: Labels) {
        self.spec.labels = labels.clone();
        self.labels = labels;
    }

    /// Renames it, also for the filters.
    pub(crate) fn set_name(&mut self, name: Arc<str>) {
        self.spec.name = name.clone();
        self.name = name;
    }
}

// === impl Resources ===

impl Resources {
    pub(crate) fn get(&self, name: &str) -> Option<&Quantity> {
        let index = self.0.binary_search_by(|(other, _)| (**other).cmp(name)).ok()?;
        Some(&self.0[index].1)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Quantity)> {
        self.0.iter().map(|(name, quantity)| (name, quantity))
    }

    /// In thousandths; zero if absent.
    pub(crate) fn milli(&self, name: &str) -> i64 {
        self.get(name).map_or(0, Quantity::milli_value)
    }

    /// Rounded up; zero if absent.
    pub(crate) fn value(&self, name: &str) -> i64 {
        self.get(name).map_or(0, Quantity::value)
    }
}

impl From<&ResourceList<'_>> for Resources {
    fn from(list: &ResourceList<'_>) -> Resources {
        let mut amounts: Vec<(Arc<str>, Quantity)> =
            list.iter().map(|(name, quantity)| (name.into(), quantity.clone())).collect();
        amounts.sort_by(|a, b| a.0.cmp(&b.0));
        Resources(amounts)
    }
}

// === impl NodeTaint ===

impl NodeTaint {
    fn to_scheduler_taint(&self) -> kubernetes::taints::Taint {
        kubernetes::taints::Taint {
            key: self.key.clone(),
            value: self.value.clone(),
            effect: self.effect.clone(),
        }
    }
}

impl From<TaintJson> for NodeTaint {
    fn from(json: TaintJson) -> NodeTaint {
        NodeTaint { key: json.key, value: json.value, effect: json.effect, time_added: json.time_added }
    }
}

impl From<ConditionJson> for NodeCondition {
    fn from(json: ConditionJson) -> NodeCondition {
        NodeCondition {
            kind: json.kind,
            status: json.status,
            last_transition_time: json.last_transition_time,
        }
    }
}
