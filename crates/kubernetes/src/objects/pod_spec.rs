//! The parsed spec of a pod.

use std::sync::Arc;

use serde::Deserialize;

use super::volume::Volume;
use crate::labels::Labels;
use crate::read::{nullable, parse_text};
use crate::resource_list::ResourceList;
use crate::selector::{LabelSelector, NodeSelector, NodeSelectorTerm};
use crate::taints::Toleration;

/// The fields of a pod's spec that components read. `nodeName`, which binding sets, is in the pod's view, so that all
/// versions of a pod share their spec.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Its JSON text as in the object, perhaps without its `nodeName`.
    #[serde(skip)]
    pub json: Arc<str>,
    /// The node that it was bound to when it was parsed.
    pub(super) node_name: Option<Arc<str>>,
    /// `schedulerName`; empty means [`DEFAULT_SCHEDULER`].
    #[serde(deserialize_with = "nullable")]
    pub scheduler_name: Arc<str>,
    /// `None` if admission did not set it.
    pub priority: Option<i32>,
    /// The name of its PriorityClass.
    #[serde(deserialize_with = "nullable")]
    pub priority_class_name: Arc<str>,
    /// `PreemptLowerPriority`, `Never`, or empty.
    #[serde(deserialize_with = "nullable")]
    pub preemption_policy: Arc<str>,
    /// `Always`, `OnFailure`, `Never`, or empty.
    #[serde(deserialize_with = "nullable")]
    pub restart_policy: Arc<str>,
    /// The time to stop its containers.
    pub termination_grace_period_seconds: Option<i64>,
    /// How long it may be active on its node.
    pub active_deadline_seconds: Option<i64>,
    /// Names of its scheduling gates.
    #[serde(deserialize_with = "names")]
    pub scheduling_gates: Vec<Arc<str>>,
    /// Its tolerations.
    #[serde(deserialize_with = "nullable")]
    pub tolerations: Vec<Toleration>,
    /// Labels that its node must have.
    pub node_selector: Option<Labels>,
    /// Its affinities.
    #[serde(deserialize_with = "nullable")]
    pub affinity: Affinity,
    /// Its topology spread constraints.
    #[serde(deserialize_with = "nullable")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// Its containers.
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// Its init containers, with sidecars.
    #[serde(deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
    /// Its volumes.
    #[serde(deserialize_with = "nullable")]
    pub volumes: Vec<Volume>,
    /// Whether it uses the node's network.
    #[serde(deserialize_with = "nullable")]
    pub host_network: bool,
    /// Whether it uses the node's user namespace.
    pub host_users: Option<bool>,
    /// Names of its resource claims.
    #[serde(deserialize_with = "names")]
    pub resource_claims: Vec<Arc<str>>,
    /// The overhead of its RuntimeClass.
    pub overhead: ResourceList,
    /// Resources of the pod as a whole.
    pub resources: Option<ResourceRequirements>,
}

/// A container of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Its name.
    #[serde(deserialize_with = "nullable")]
    pub name: Arc<str>,
    /// Its image.
    #[serde(deserialize_with = "nullable")]
    pub image: Arc<str>,
    /// Its ports.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<ContainerPort>,
    /// Its requests and limits.
    #[serde(deserialize_with = "nullable")]
    pub resources: ResourceRequirements,
    /// `Always` for a sidecar.
    pub restart_policy: Option<Arc<str>>,
    /// Actions of its restart rules.
    #[serde(deserialize_with = "nullable")]
    restart_policy_rules: Vec<RestartRuleJson>,
}

/// A port of a container.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// The port on the node; zero for none.
    #[serde(deserialize_with = "nullable")]
    pub host_port: i32,
    /// The address on the node; empty for all.
    #[serde(rename = "hostIP", deserialize_with = "nullable")]
    pub host_ip: Arc<str>,
    /// `TCP`, `UDP`, `SCTP`, or empty for `TCP`.
    #[serde(deserialize_with = "nullable")]
    pub protocol: Arc<str>,
}

/// Requests and limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResourceRequirements {
    /// The requests.
    pub requests: ResourceList,
    /// The limits.
    pub limits: ResourceList,
}

/// Affinities of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// To nodes.
    #[serde(deserialize_with = "nullable")]
    pub node_affinity: NodeAffinity,
    /// To pods.
    #[serde(deserialize_with = "nullable")]
    pub pod_affinity: PodAffinity,
    /// To keep away from pods.
    #[serde(deserialize_with = "nullable")]
    pub pod_anti_affinity: PodAffinity,
}

/// Affinity to nodes.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeAffinity {
    /// One of its terms must match.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    /// Terms with weights; `None` if the field is absent.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub preferred: Option<Vec<PreferredNodes>>,
}

/// A preferred node affinity term.
#[derive(Clone, Debug, Deserialize)]
pub struct PreferredNodes {
    /// Its weight.
    #[serde(default)]
    pub weight: i32,
    /// The nodes.
    pub preference: NodeSelectorTerm,
}

/// Affinity or anti-affinity to pods.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodAffinity {
    /// All of these must hold.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nullable")]
    pub required: Vec<PodAffinityTerm>,
    /// Terms with weights.
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nullable")]
    pub preferred: Vec<PreferredPods>,
}

/// A preferred pod affinity term.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PreferredPods {
    /// Its weight.
    #[serde(default)]
    pub weight: i32,
    /// The pods.
    pub pod_affinity_term: PodAffinityTerm,
}

/// A pod affinity term. Its selectors are not validated.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinityTerm {
    /// Selects pods by their labels.
    pub label_selector: Option<LabelSelector>,
    /// Selects namespaces by their labels.
    pub namespace_selector: Option<LabelSelector>,
    /// Namespaces by name.
    #[serde(deserialize_with = "nullable")]
    pub namespaces: Vec<Arc<str>>,
    /// The node label whose values are the topology domains.
    pub topology_key: Arc<str>,
}

/// A topology spread constraint. Its selector is not validated.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// The largest allowed difference of counts.
    pub max_skew: i32,
    /// The node label whose values are the topology domains.
    pub topology_key: Arc<str>,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    pub when_unsatisfiable: Arc<str>,
    /// Selects the pods that are counted.
    pub label_selector: Option<LabelSelector>,
    /// Label keys for which counted pods must have the pod's own value.
    #[serde(deserialize_with = "nullable")]
    pub match_label_keys: Vec<Arc<str>>,
    /// With fewer domains than this the global minimum is taken as zero.
    pub min_domains: Option<i32>,
    /// `Honor` or `Ignore`.
    pub node_affinity_policy: Option<Arc<str>>,
    /// `Honor` or `Ignore`.
    pub node_taints_policy: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct RestartRuleJson {
    action: Arc<str>,
}

/// The scheduler of pods that name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

impl PodSpec {
    /// Parses the JSON text of a spec. The error names the path of the malformed field.
    pub fn parse(json: &str) -> Result<PodSpec, String> {
        // A parser of structs would take a list as the list of their fields.
        if json.starts_with('[') {
            return Err("spec: invalid type: sequence, expected a map".to_owned());
        }
        let spec: Option<PodSpec> = parse_text("spec", json)?;
        Ok(PodSpec { json: json.into(), ..spec.unwrap_or_default() })
    }

    /// Parses the JSON text of a spec. Returns the node that it is bound to beside it.
    pub(super) fn parse_bound(json: &str) -> Result<(Arc<PodSpec>, Option<Arc<str>>), String> {
        let mut spec = PodSpec::parse(json)?;
        let node_name = spec.node_name.take().filter(|name| !name.is_empty());
        Ok((Arc::new(spec), node_name))
    }

    /// The name of its scheduler.
    pub fn scheduler_name(&self) -> &str {
        if self.scheduler_name.is_empty() { DEFAULT_SCHEDULER } else { &self.scheduler_name }
    }
}

impl Container {
    /// Whether it is a sidecar: an init container that keeps running.
    pub fn is_sidecar(&self) -> bool {
        self.restart_policy.as_deref() == Some("Always")
    }

    /// Whether one of its restart rules has this action.
    pub fn has_restart_action(&self, action: &str) -> bool {
        self.restart_policy_rules.iter().any(|rule| *rule.action == *action)
    }
}

/// Deserializes a list of objects as their names.
fn names<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Arc<str>>, D::Error> {
    #[derive(Deserialize)]
    struct Named {
        #[serde(default)]
        name: Arc<str>,
    }
    let list = Option::<Vec<Named>>::deserialize(deserializer)?;
    Ok(list.into_iter().flatten().map(|named| named.name).collect())
}
