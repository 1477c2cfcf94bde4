//! A node, and what is on it.

use std::sync::Arc;

use kubernetes::amounts::{Amounts, ScalarNames};
use kubernetes::labels::Labels;
use kubernetes::read::{nullable, view};
use kubernetes::requests::ResourceList;
use kubernetes::taints::Taint;
use model::Object;
use serde::Deserialize;

use super::ids::PodId;
use super::pod::{HostPort, Pod};

/// What a node's object says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeSpec {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// It is cordoned.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// What pods may take of it.
    pub allocatable: Amounts,
    /// How many pods it takes.
    pub pods: i64,
    /// Names and sizes, as listed.
    pub images: Vec<(Vec<Arc<str>>, i64)>,
    /// What its kubelet says it can do.
    pub declared_features: Vec<Arc<str>>,
    /// Annotations and condition states matter only to who waits for a node to change.
    pub annotations: Labels,
    /// Types and states.
    pub conditions: Vec<(Arc<str>, Arc<str>)>,
    /// What of the object could not be understood. Such a node takes no pods.
    pub trouble: Option<Arc<str>>,
}

/// What the pods on a node take of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// In the order in which kube-scheduler keeps them: a new one at the end, and the last one in the place of one that goes.
    pub pods: Vec<PodId>,
    /// What they ask for.
    pub requested: Amounts,
    /// With something for those who ask for nothing.
    pub scored_cpu: i64,
    /// The same of memory.
    pub scored_memory: i64,
    /// A set: who asks for the same twice gives it back once.
    pub ports: Vec<HostPort>,
    /// The pods among them that could not be understood.
    pub unreadable: Vec<PodId>,
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
#[serde(default)]
struct MetadataJson {
    labels: Labels,
    annotations: Labels,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecJson {
    #[serde(deserialize_with = "nullable")]
    unschedulable: bool,
    #[serde(deserialize_with = "nullable")]
    taints: Vec<Taint>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusJson<'a> {
    #[serde(borrow)]
    allocatable: ResourceList<'a>,
    #[serde(deserialize_with = "nullable")]
    images: Vec<ImageJson>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<ConditionJson>,
    #[serde(deserialize_with = "nullable")]
    declared_features: Vec<Arc<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageJson {
    #[serde(default, deserialize_with = "nullable")]
    names: Vec<Arc<str>>,
    #[serde(default, deserialize_with = "nullable")]
    size_bytes: i64,
}

#[derive(Deserialize)]
struct ConditionJson {
    #[serde(rename = "type", default)]
    kind: Arc<str>,
    #[serde(default)]
    status: Arc<str>,
}

// === impl NodeSpec ===

impl NodeSpec {
    /// What an object says of a node. What makes no sense is told in `trouble`.
    pub fn read(object: &Object, scalars: &mut ScalarNames) -> NodeSpec {
        let name: Arc<str> = object.meta().name.as_ref().into();
        let json: NodeJson<'_> = match view(object) {
            Ok(json) => json,
            Err(trouble) => return NodeSpec { name, trouble: Some(trouble.into()), ..NodeSpec::default() },
        };
        NodeSpec {
            name,
            labels: json.metadata.labels,
            unschedulable: json.spec.unschedulable,
            taints: json.spec.taints,
            pods: json.status.allocatable.get("pods").map_or(0, kubernetes::quantity::Quantity::value),
            allocatable: scalars.amounts(&json.status.allocatable),
            images: json.status.images.into_iter().map(|image| (image.names, image.size_bytes)).collect(),
            declared_features: json.status.declared_features,
            annotations: json.metadata.annotations,
            conditions: json.status.conditions.into_iter().map(|one| (one.kind, one.status)).collect(),
            trouble: None,
        }
    }

    /// Where the node is, as far as the order of nodes goes.
    pub(crate) fn zone(&self) -> Zone {
        let label = |old: &str, new: &str| {
            let value = self.labels.get_shared(old).or_else(|| self.labels.get_shared(new));
            value.cloned().unwrap_or_default()
        };
        Zone {
            region: label("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
            zone: label("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
        }
    }
}

/// A zone of a region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Zone {
    region: Arc<str>,
    zone: Arc<str>,
}

// === impl Load ===

impl Load {
    pub(crate) fn add(&mut self, id: PodId, pod: &Pod) {
        self.pods.push(id);
        self.requested.add(&pod.usage.requested);
        self.scored_cpu = self.scored_cpu.wrapping_add(pod.usage.scored_cpu);
        self.scored_memory = self.scored_memory.wrapping_add(pod.usage.scored_memory);
        for port in &pod.shape.ports {
            if !self.ports.contains(port) {
                self.ports.push(port.clone());
            }
        }
        if pod.trouble.is_some() {
            self.unreadable.push(id);
        }
    }

    /// Says whether it was there.
    pub(crate) fn remove(&mut self, id: PodId, pod: &Pod) -> bool {
        let Some(place) = self.pods.iter().position(|other| *other == id) else { return false };
        self.pods.swap_remove(place);
        self.requested.subtract(&pod.usage.requested);
        self.scored_cpu = self.scored_cpu.wrapping_sub(pod.usage.scored_cpu);
        self.scored_memory = self.scored_memory.wrapping_sub(pod.usage.scored_memory);
        self.ports.retain(|port| !pod.shape.ports.contains(port));
        self.unreadable.retain(|other| *other != id);
        true
    }
}
