//! Objects of the reference scheduler, deserialized from JSON without preprocessing.

use std::collections::BTreeMap;

use kubernetes::objects::PodView;
use kubernetes::requests::{PodResources, PodResourcesOptions, ResourceList};
use kubernetes::selector::{LabelSelector, NodeSelector, NodeSelectorTerm, Selector};
use model::Object;
use serde::Deserialize;

pub(crate) type Labels = BTreeMap<String, String>;

/// Amounts by resource: CPU in thousandths, all others in whole units.
pub(crate) type Amounts = BTreeMap<String, i64>;

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Metadata {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) labels: Labels,
    pub(crate) deletion_timestamp: Option<String>,
    pub(crate) owner_references: Vec<Owner>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Owner {
    pub(crate) api_version: String,
    pub(crate) kind: String,
    pub(crate) name: String,
    pub(crate) controller: bool,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Pod {
    pub(crate) metadata: Metadata,
    pub(crate) spec: PodSpec,
    #[serde(default)]
    pub(crate) status: PodStatus,
    /// Its requests.
    #[serde(skip)]
    pub(crate) requests: Amounts,
    /// Its requests as NodeResourcesFit scores by them.
    #[serde(skip)]
    pub(crate) non_zero_requests: Amounts,
    /// Its contribution to its node's usage, and the same as used for scoring.
    #[serde(skip)]
    pub(crate) usage: Amounts,
    #[serde(skip)]
    pub(crate) non_zero_usage: Amounts,
    /// The node it is assumed on.
    #[serde(skip)]
    pub(crate) assumed: Option<String>,
    /// It is nominated, and its node is evaluated as if it were assigned.
    #[serde(skip)]
    pub(crate) only_nominated: bool,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodStatus {
    pub(crate) nominated_node_name: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PodSpec {
    pub(crate) node_name: String,
    pub(crate) priority: i32,
    pub(crate) node_selector: Option<Labels>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) affinity: Affinity,
    pub(crate) topology_spread_constraints: Vec<Constraint>,
    pub(crate) containers: Vec<Container>,
    pub(crate) init_containers: Vec<Container>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Container {
    pub(crate) image: String,
    pub(crate) ports: Vec<Port>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Port {
    pub(crate) host_port: i32,
    #[serde(rename = "hostIP")]
    pub(crate) host_ip: String,
    pub(crate) protocol: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Toleration {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) value: String,
    pub(crate) effect: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Affinity {
    pub(crate) node_affinity: NodeAffinity,
    pub(crate) pod_affinity: PodAffinity,
    pub(crate) pod_anti_affinity: PodAffinity,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(crate) required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(crate) preferred: Option<Vec<PreferredNodes>>,
}

#[derive(Clone, Deserialize)]
pub(crate) struct PreferredNodes {
    pub(crate) weight: i64,
    pub(crate) preference: NodeSelectorTerm,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PodAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(crate) required: Vec<Term>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(crate) preferred: Vec<PreferredPods>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PreferredPods {
    pub(crate) weight: i64,
    pub(crate) pod_affinity_term: Term,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Term {
    pub(crate) label_selector: Option<LabelSelector>,
    pub(crate) namespace_selector: Option<LabelSelector>,
    pub(crate) namespaces: Vec<String>,
    pub(crate) topology_key: String,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Constraint {
    pub(crate) max_skew: i32,
    pub(crate) topology_key: String,
    pub(crate) when_unsatisfiable: String,
    pub(crate) label_selector: Option<LabelSelector>,
    pub(crate) match_label_keys: Vec<String>,
    pub(crate) min_domains: Option<i32>,
    pub(crate) node_affinity_policy: Option<String>,
    pub(crate) node_taints_policy: Option<String>,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Node {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: NodeSpec,
    #[serde(default)]
    pub(crate) status: NodeStatus,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeSpec {
    pub(crate) unschedulable: bool,
    pub(crate) taints: Vec<Taint>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct NodeStatus {
    /// Quantities as strings.
    pub(crate) allocatable: Labels,
    pub(crate) images: Vec<Image>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Image {
    pub(crate) names: Vec<String>,
    pub(crate) size_bytes: i64,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Taint {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) effect: String,
}

/// A Service, whose selector is a plain map.
#[derive(Clone, Deserialize)]
pub(crate) struct Service {
    pub(crate) metadata: Metadata,
    #[serde(default)]
    pub(crate) spec: ServiceSpec,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ServiceSpec {
    pub(crate) selector: Option<Labels>,
}

/// A ReplicaSet or StatefulSet.
#[derive(Clone, Deserialize)]
pub(crate) struct Set {
    pub(crate) metadata: Metadata,
    pub(crate) spec: SetSpec,
}

#[derive(Clone, Deserialize)]
pub(crate) struct SetSpec {
    pub(crate) selector: LabelSelector,
}

#[derive(Clone, Deserialize)]
pub(crate) struct Namespace {
    pub(crate) metadata: Metadata,
}

// === impl Pod ===

impl Pod {
    pub(crate) fn read(json: &str) -> Pod {
        let pod: Pod = serde_json::from_str(json).expect("the pod is valid");
        let view = PodView::parse(&Object::from_trusted(json));
        assert_eq!(view.read_error, None);
        let resources = PodResources { spec: &view.spec, status: &view.status };
        let pod_usage = resources.calculate_resource();
        let scored = [("cpu", pod_usage.non_zero_cpu.0), ("memory", pod_usage.non_zero_memory.0)];
        Pod {
            requests: amounts(&resources.requests(PodResourcesOptions::INCOMING)),
            non_zero_requests: amounts(&resources.requests(PodResourcesOptions::SCORED)),
            usage: amounts(&pod_usage.requests),
            non_zero_usage: scored.map(|(name, amount)| (name.to_owned(), amount)).into(),
            ..pod
        }
    }

    pub(crate) fn is(&self, namespace: &str, name: &str) -> bool {
        self.metadata.namespace == namespace && self.metadata.name == name
    }

    /// The node it is assigned to or assumed on, existing or not.
    pub(crate) fn node(&self) -> Option<&str> {
        if self.spec.node_name.is_empty() { self.assumed.as_deref() } else { Some(&self.spec.node_name) }
    }

    /// Host ports as (address, protocol, port).
    pub(crate) fn ports(&self) -> Vec<(&str, &str, i32)> {
        fn or<'a>(text: &'a str, default: &'a str) -> &'a str {
            if text.is_empty() { default } else { text }
        }
        let ports = self.spec.containers.iter().flat_map(|container| &container.ports);
        ports
            .filter(|port| port.host_port > 0)
            .map(|port| (or(&port.host_ip, "0.0.0.0"), or(&port.protocol, "TCP"), port.host_port))
            .collect()
    }

    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        self.spec.tolerations.iter().any(|toleration| toleration.tolerates(taint))
    }

    /// Whether the node matches `nodeSelector` and required node affinity.
    pub(crate) fn selects(&self, node: &Node) -> bool {
        let labels = &node.metadata.labels;
        let selector = self.spec.node_selector.iter().flatten();
        let mut equal = selector.map(|(key, value)| labels.get(key) == Some(value));
        let required = &self.spec.affinity.node_affinity.required;
        let name = &node.metadata.name;
        equal.all(|equal| equal)
            && required.as_ref().is_none_or(|terms| terms.matches(name, look_up(labels)).unwrap_or(false))
    }
}

// === impl Node ===

impl Node {
    pub(crate) fn label(&self, key: &str) -> Option<&str> {
        self.metadata.labels.get(key).map(String::as_str)
    }

    pub(crate) fn allocatable(&self) -> Amounts {
        let list = self.status.allocatable.iter();
        list.map(|(name, text)| {
            let quantity = kubernetes::quantity::Quantity::parse(text).expect("the quantity is valid");
            (name.clone(), if name == "cpu" { quantity.milli_value() } else { quantity.value() })
        })
        .collect()
    }

    /// Whether the node has an untolerated `NoSchedule` or `NoExecute` taint.
    pub(crate) fn has_untolerated_taint(&self, pod: &Pod) -> bool {
        let hard = |taint: &&Taint| taint.effect == "NoSchedule" || taint.effect == "NoExecute";
        self.spec.taints.iter().filter(hard).any(|taint| !pod.tolerates(taint))
    }
}

// === impl Toleration ===

impl Toleration {
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && match self.operator.as_str() {
                "Exists" => true,
                "" | "Equal" => self.value == taint.value,
                _ => false,
            }
    }
}

/// The amount of one resource.
pub(crate) fn amount(amounts: &Amounts, resource: &str) -> i64 {
    amounts.get(resource).copied().unwrap_or(0)
}

fn amounts(list: &ResourceList) -> Amounts {
    let amount = |(name, quantity): (&str, &kubernetes::quantity::Quantity)| {
        (name.to_owned(), if name == "cpu" { quantity.milli_value() } else { quantity.value() })
    };
    list.iter().map(amount).collect()
}

pub(crate) fn selector(selector: Option<&LabelSelector>) -> Selector {
    Selector::of(selector).expect("the selector is valid")
}

pub(crate) fn look_up<'l>(labels: &'l Labels) -> impl Fn(&str) -> Option<&'l str> {
    |key| labels.get(key).map(String::as_str)
}
