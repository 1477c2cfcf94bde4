//! A node as parsed for scheduling, and the usage of a node by its pods.

use std::sync::Arc;

use kubernetes::amounts::{ResourceAmounts, ScalarResourceNames};
use kubernetes::labels::Labels;
use kubernetes::read::{nullable, view};
use kubernetes::requests::ResourceList;
use kubernetes::taints::Taint;
use model::Object;
use serde::Deserialize;

use super::ids::PodId;
use super::pod::{HostPort, Pod};

/// The parts of a node object that scheduling depends on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParsedNode {
    /// Its name.
    pub name: Arc<str>,
    /// Its labels.
    pub labels: Labels,
    /// It is cordoned.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// `status.allocatable`.
    pub allocatable: ResourceAmounts,
    /// The maximum number of pods.
    pub allowed_pods: i64,
    /// Image names and sizes, as listed.
    pub images: Vec<(Vec<Arc<str>>, i64)>,
    /// `status.declaredFeatures`.
    pub declared_features: Vec<Arc<str>>,
    /// Only used to detect update events, like the conditions.
    pub annotations: Labels,
    /// Condition types and statuses.
    pub conditions: Vec<(Arc<str>, Arc<str>)>,
    /// The error, if the object is unreadable. Such a node is not feasible for any pod.
    pub read_error: Option<Arc<str>>,
}

/// The usage of a node by its pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeUsage {
    /// In kube-scheduler's order: appended when added, and replaced by the last one when removed.
    pub pods: Vec<PodId>,
    /// The sum of their requests.
    pub requested: ResourceAmounts,
    /// CPU requests with a default for containers without one, as used for scoring.
    pub non_zero_cpu: i64,
    /// The same for memory.
    pub non_zero_memory: i64,
    /// A set, as in kube-scheduler: a port that two pods use is freed when the first of them is removed.
    pub used_ports: Vec<HostPort>,
    /// The unreadable pods among them.
    pub unreadable_pods: Vec<PodId>,
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

// === impl ParsedNode ===

impl ParsedNode {
    /// Parses a node. An unreadable one has `read_error` set.
    pub fn read(object: &Object, scalars: &mut ScalarResourceNames) -> ParsedNode {
        let name: Arc<str> = object.meta().name.as_ref().into();
        let json: NodeJson<'_> = match view(object) {
            Ok(json) => json,
            Err(error) => {
                return ParsedNode { name, read_error: Some(error.into()), ..ParsedNode::default() };
            }
        };
        ParsedNode {
            name,
            labels: json.metadata.labels,
            unschedulable: json.spec.unschedulable,
            taints: json.spec.taints,
            allowed_pods: json
                .status
                .allocatable
                .get("pods")
                .map_or(0, kubernetes::quantity::Quantity::value),
            allocatable: scalars.amounts(&json.status.allocatable),
            images: json.status.images.into_iter().map(|image| (image.names, image.size_bytes)).collect(),
            declared_features: json.status.declared_features,
            annotations: json.metadata.annotations,
            conditions: json
                .status
                .conditions
                .into_iter()
                .map(|condition| (condition.kind, condition.status))
                .collect(),
            read_error: None,
        }
    }

    /// The zone under which the node tree lists the node.
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

// === impl NodeUsage ===

impl NodeUsage {
    pub(crate) fn add_pod(&mut self, id: PodId, pod: &Pod) {
        self.pods.push(id);
        self.requested.add(&pod.usage.requested);
        self.non_zero_cpu = self.non_zero_cpu.wrapping_add(pod.usage.non_zero_cpu);
        self.non_zero_memory = self.non_zero_memory.wrapping_add(pod.usage.non_zero_memory);
        for port in &pod.spec.host_ports {
            if !self.used_ports.contains(port) {
                self.used_ports.push(port.clone());
            }
        }
        if pod.read_error.is_some() {
            self.unreadable_pods.push(id);
        }
    }

    /// Returns whether the pod was on the node.
    pub(crate) fn remove_pod(&mut self, id: PodId, pod: &Pod) -> bool {
        let Some(position) = self.pods.iter().position(|other| *other == id) else { return false };
        self.pods.swap_remove(position);
        self.requested.subtract(&pod.usage.requested);
        self.non_zero_cpu = self.non_zero_cpu.wrapping_sub(pod.usage.non_zero_cpu);
        self.non_zero_memory = self.non_zero_memory.wrapping_sub(pod.usage.non_zero_memory);
        self.used_ports.retain(|port| !pod.spec.host_ports.contains(port));
        self.unreadable_pods.retain(|other| *other != id);
        true
    }
}
