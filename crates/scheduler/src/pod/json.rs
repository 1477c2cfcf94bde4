//! The parts of a pod's JSON that the scheduler reads.

use std::sync::Arc;

use kubernetes::amounts::ScalarResourceNames;
use kubernetes::labels::Labels;
use kubernetes::owners::OwnerRef;
use kubernetes::read::{moment, nullable, view};
use kubernetes::requests::{PodResources, PodResourcesOptions};
use kubernetes::selector::{LabelSelector, NodeSelector, NodeSelectorTerm, RequiredNodeAffinity, Selector};
use kubernetes::taints::Toleration;
use model::{Moment, NamespacedName, Object};
use serde::Deserialize;

use super::super::storage::{PodVolumes, VolumeJson};
use super::{
    Controller, ControllerKind, HostPort, Pod, PodAffinityTerm, PodUsage, SchedulingSpec, SpreadConstraint,
};

const ALWAYS: &str = "Always";

#[derive(Deserialize)]
struct PodJson {
    metadata: MetadataJson,
    #[serde(default, deserialize_with = "nullable")]
    spec: SpecJson,
    #[serde(default, deserialize_with = "nullable")]
    status: StatusJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataJson {
    name: Arc<str>,
    #[serde(default)]
    namespace: Arc<str>,
    #[serde(default)]
    uid: Arc<str>,
    #[serde(default)]
    labels: Labels,
    #[serde(default, deserialize_with = "moment")]
    deletion_timestamp: Option<Moment>,
    #[serde(default, deserialize_with = "nullable")]
    owner_references: Vec<OwnerRef>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecJson {
    node_name: Option<Arc<str>>,
    scheduler_name: Option<Arc<str>>,
    #[serde(deserialize_with = "nullable")]
    priority: i32,
    preemption_policy: Option<Arc<str>>,
    #[serde(deserialize_with = "nullable")]
    scheduling_gates: Vec<NamedJson>,
    #[serde(deserialize_with = "nullable")]
    tolerations: Vec<Toleration>,
    node_selector: Option<Labels>,
    #[serde(deserialize_with = "nullable")]
    affinity: AffinityJson,
    #[serde(deserialize_with = "nullable")]
    topology_spread_constraints: Vec<SpreadJson>,
    #[serde(deserialize_with = "nullable")]
    containers: Vec<ContainerJson>,
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<ContainerJson>,
    #[serde(deserialize_with = "nullable")]
    volumes: Vec<VolumeJson>,
    #[serde(deserialize_with = "nullable")]
    host_network: bool,
    host_users: Option<bool>,
    #[serde(deserialize_with = "nullable")]
    resource_claims: Vec<NamedJson>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusJson {
    nominated_node_name: Option<Arc<str>>,
    #[serde(deserialize_with = "moment")]
    start_time: Option<Moment>,
    phase: Option<Arc<str>>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<ConditionJson>,
}

#[derive(Deserialize)]
struct NamedJson {
    #[serde(default)]
    name: Arc<str>,
}

#[derive(Deserialize)]
struct ConditionJson {
    #[serde(rename = "type", default)]
    kind: Arc<str>,
    #[serde(default)]
    status: Arc<str>,
    #[serde(default, deserialize_with = "nullable")]
    reason: Arc<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ContainerJson {
    #[serde(default, deserialize_with = "nullable")]
    image: Arc<str>,
    #[serde(default, deserialize_with = "nullable")]
    ports: Vec<PortJson>,
    #[serde(default)]
    restart_policy: Option<Arc<str>>,
    #[serde(default, deserialize_with = "nullable")]
    restart_policy_rules: Vec<RestartRuleJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PortJson {
    #[serde(default, deserialize_with = "nullable")]
    host_port: i32,
    #[serde(default, rename = "hostIP", deserialize_with = "nullable")]
    host_ip: Arc<str>,
    #[serde(default, deserialize_with = "nullable")]
    protocol: Arc<str>,
}

#[derive(Deserialize)]
struct RestartRuleJson {
    #[serde(default)]
    action: Arc<str>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AffinityJson {
    #[serde(deserialize_with = "nullable")]
    node_affinity: NodeAffinityJson,
    #[serde(deserialize_with = "nullable")]
    pod_affinity: PodAffinityJson,
    #[serde(deserialize_with = "nullable")]
    pod_anti_affinity: PodAffinityJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeAffinityJson {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Option<Vec<PreferredNodesJson>>,
}

#[derive(Deserialize)]
struct PreferredNodesJson {
    #[serde(default)]
    weight: i32,
    preference: NodeSelectorTerm,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodAffinityJson {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nullable")]
    required: Vec<TermJson>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution", deserialize_with = "nullable")]
    preferred: Vec<PreferredPodsJson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PreferredPodsJson {
    #[serde(default)]
    weight: i32,
    pod_affinity_term: TermJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TermJson {
    #[serde(default)]
    label_selector: Option<LabelSelector>,
    #[serde(default)]
    namespace_selector: Option<LabelSelector>,
    #[serde(default, deserialize_with = "nullable")]
    namespaces: Vec<Arc<str>>,
    #[serde(default)]
    topology_key: Arc<str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpreadJson {
    #[serde(default)]
    max_skew: i32,
    #[serde(default)]
    topology_key: Arc<str>,
    #[serde(default)]
    when_unsatisfiable: Arc<str>,
    #[serde(default)]
    label_selector: Option<LabelSelector>,
    #[serde(default, deserialize_with = "nullable")]
    match_label_keys: Vec<Arc<str>>,
    #[serde(default)]
    min_domains: Option<i32>,
    #[serde(default)]
    node_affinity_policy: Option<Arc<str>>,
    #[serde(default)]
    node_taints_policy: Option<Arc<str>>,
}

/// The fields that can be read of an unreadable pod.
#[derive(Default)]
pub(super) struct PartialPod {
    pub labels: Labels,
    pub scheduler_name: Arc<str>,
    pub node_name: Option<Arc<str>>,
    pub terminating: bool,
    pub finished: bool,
}

pub(crate) fn read_partial(object: &Object) -> PartialPod {
    let Ok(value) = object.value() else { return PartialPod::default() };
    let text = |pointer: &str| value.pointer(pointer).and_then(|text| text.as_str());
    PartialPod {
        labels: value
            .pointer("/metadata/labels")
            .and_then(|labels| Labels::deserialize(labels).ok())
            .unwrap_or_default(),
        scheduler_name: text("/spec/schedulerName").unwrap_or(DEFAULT_SCHEDULER).into(),
        node_name: text("/spec/nodeName").filter(|name| !name.is_empty()).map(Arc::from),
        terminating: text("/metadata/deletionTimestamp").is_some(),
        finished: matches!(text("/status/phase"), Some("Succeeded" | "Failed")),
    }
}

const DEFAULT_SCHEDULER: &str = "default-scheduler";

pub(super) fn read(object: &Object, scalars: &mut ScalarResourceNames) -> Result<Pod, String> {
    let PodJson { metadata, spec, status } = view(object)?;
    let resources: PodResources<'_> = view(object)?;
    let resource_usage = resources.calculate_resource();
    let usage = PodUsage {
        requested: scalars.amounts(&resource_usage.requests),
        non_zero_cpu: resource_usage.non_zero_cpu.0,
        non_zero_memory: resource_usage.non_zero_memory.0,
    };
    let controller =
        metadata.owner_references.iter().find(|owner| owner.controller == Some(true)).and_then(controller);
    let preempted =
        status.conditions.iter().find(|condition| &*condition.kind == "DisruptionTarget").is_some_and(
            |condition| &*condition.status == "True" && &*condition.reason == "PreemptionByScheduler",
        );
    let nominated = status.nominated_node_name.filter(|name| !name.is_empty());
    let namespace = metadata.namespace;
    let shape = SchedulingSpec {
        requests: scalars.amounts(&resources.requests(PodResourcesOptions::INCOMING)),
        non_zero_requests: scalars.amounts(&resources.requests(PodResourcesOptions::SCORED)),
        balanced_requests: usage.requested.clone(),
        ..scheduling_spec(&namespace, &spec)?
    };
    Ok(Pod {
        name: NamespacedName { namespace, name: metadata.name.clone() },
        uid: metadata.uid.clone(),
        labels: metadata.labels,
        volumes: PodVolumes::read(&spec.volumes, &metadata.name, &metadata.uid),
        spec: Arc::new(shape),
        usage,
        node_name: spec.node_name.filter(|name| !name.is_empty()),
        nominated_node: nominated.clone(),
        status_nominated_node: nominated,
        scheduling_gates: spec.scheduling_gates.into_iter().map(|gate| gate.name).collect(),
        controller,
        terminating: metadata.deletion_timestamp.is_some(),
        preempted,
        finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
        start_time: status.start_time.map(Moment::nanos),
        read_error: None,
    })
}

fn controller(owner: &OwnerRef) -> Option<Controller> {
    let kind = match (owner.api_version.as_str(), owner.kind.as_str()) {
        ("v1", "ReplicationController") => ControllerKind::ReplicationController,
        ("apps/v1", "ReplicaSet") => ControllerKind::ReplicaSet,
        ("apps/v1", "StatefulSet") => ControllerKind::StatefulSet,
        _ => return None,
    };
    Some(Controller { kind, name: owner.name.as_str().into() })
}

/// The spec without the resources.
fn scheduling_spec(namespace: &Arc<str>, spec: &SpecJson) -> Result<SchedulingSpec, String> {
    let affinity = &spec.affinity;
    let sidecars =
        spec.init_containers.iter().filter(|container| container.restart_policy.as_deref() == Some(ALWAYS));
    let containers = spec.containers.iter().chain(&spec.init_containers);
    let image_volumes = spec.volumes.iter().filter_map(VolumeJson::image);
    let images = spec.init_containers.iter().chain(&spec.containers).map(|container| &container.image);
    let terms = |affinity_field: &str, list: &[TermJson]| {
        let term = |(index, json)| {
            term(namespace, json, || {
                format!(
                    "spec.affinity.{affinity_field}.requiredDuringSchedulingIgnoredDuringExecution[{index}]"
                )
            })
        };
        list.iter().enumerate().map(term).collect::<Result<Vec<_>, String>>()
    };
    let weighted = |affinity_field: &str, sign: i32, list: &[PreferredPodsJson]| {
        let term = |(index, json): (usize, &PreferredPodsJson)| {
            let path = || {
                format!(
                    "spec.affinity.{affinity_field}.preferredDuringSchedulingIgnoredDuringExecution[{index}].podAffinityTerm"
                )
            };
            Ok((i64::from(json.weight.wrapping_mul(sign)), term(namespace, &json.pod_affinity_term, path)?))
        };
        list.iter().enumerate().map(term).collect::<Result<Vec<_>, String>>()
    };
    let mut preferred_affinity = weighted("podAffinity", 1, &affinity.pod_affinity.preferred)?;
    preferred_affinity.extend(weighted("podAntiAffinity", -1, &affinity.pod_anti_affinity.preferred)?);
    Ok(SchedulingSpec {
        namespace: namespace.clone(),
        scheduler_name: match &spec.scheduler_name {
            Some(name) if !name.is_empty() => name.clone(),
            _ => DEFAULT_SCHEDULER.into(),
        },
        priority: spec.priority,
        never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
        tolerations: spec.tolerations.clone(),
        required_node_affinity: RequiredNodeAffinity::new(
            spec.node_selector.as_ref(),
            affinity.node_affinity.required.clone(),
        ),
        has_preferred_node_affinity: affinity.node_affinity.preferred.is_some(),
        preferred_node_affinity: preferred_nodes(
            affinity.node_affinity.preferred.as_deref().unwrap_or_default(),
        )?,
        host_ports: host_ports(spec.containers.iter().chain(sidecars)),
        images: images.chain(image_volumes).map(tagged).collect(),
        container_count: spec.containers.len() + spec.init_containers.len(),
        required_affinity: terms("podAffinity", &affinity.pod_affinity.required)?,
        required_anti_affinity: terms("podAntiAffinity", &affinity.pod_anti_affinity.required)?,
        preferred_affinity,
        spread_constraints: spec
            .topology_spread_constraints
            .iter()
            .enumerate()
            .map(spread)
            .collect::<Result<_, _>>()?,
        required_features: features(spec, containers),
        has_resource_claims: !spec.resource_claims.is_empty(),
        ..SchedulingSpec::default()
    })
}

fn term(namespace: &Arc<str>, json: &TermJson, path: impl Fn() -> String) -> Result<PodAffinityTerm, String> {
    let selector = |field: &str, selector: &Option<LabelSelector>| {
        Selector::of(selector.as_ref()).map_err(|error| format!("{}.{field}: {error}", path()))
    };
    let own = json.namespaces.is_empty() && json.namespace_selector.is_none();
    let mut namespaces = if own { vec![namespace.clone()] } else { json.namespaces.clone() };
    namespaces.sort_unstable();
    namespaces.dedup();
    Ok(PodAffinityTerm {
        namespaces,
        namespace_selector: selector("namespaceSelector", &json.namespace_selector)?,
        selector: selector("labelSelector", &json.label_selector)?,
        topology_key: json.topology_key.clone(),
    })
}

/// Terms of weight zero are left out unchecked, as in kube-scheduler; the others must be valid.
fn preferred_nodes(list: &[PreferredNodesJson]) -> Result<Vec<(i64, NodeSelectorTerm)>, String> {
    let mut preferred = Vec::new();
    for (index, json) in list.iter().enumerate().filter(|(_, json)| json.weight != 0) {
        json.preference.check().map_err(|error| {
            format!("spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}].preference: {error}")
        })?;
        preferred.push((i64::from(json.weight), json.preference.clone()));
    }
    Ok(preferred)
}

fn spread((index, json): (usize, &SpreadJson)) -> Result<SpreadConstraint, String> {
    let selector = Selector::of(json.label_selector.as_ref())
        .map_err(|error| format!("spec.topologySpreadConstraints[{index}].labelSelector: {error}"))?;
    Ok(SpreadConstraint {
        max_skew: json.max_skew,
        topology_key: json.topology_key.clone(),
        hard: match &*json.when_unsatisfiable {
            "DoNotSchedule" => Some(true),
            "ScheduleAnyway" => Some(false),
            _ => None,
        },
        selector,
        match_label_keys: json.match_label_keys.clone(),
        min_domains: json.min_domains.unwrap_or(1),
        honor_affinity: json.node_affinity_policy.as_deref().unwrap_or("Honor") == "Honor",
        honor_taints: json.node_taints_policy.as_deref() == Some("Honor"),
    })
}

fn host_ports<'a>(containers: impl Iterator<Item = &'a ContainerJson>) -> Vec<HostPort> {
    let ports = containers.flat_map(|container| &container.ports).filter(|port| port.host_port > 0);
    let or_default =
        |text: &Arc<str>, default: &str| if text.is_empty() { default.into() } else { text.clone() };
    ports
        .map(|port| HostPort {
            ip: or_default(&port.host_ip, HostPort::ALL_ADDRESSES),
            protocol: or_default(&port.protocol, "TCP"),
            port: port.host_port,
        })
        .collect()
}

/// An image without a tag is the latest one. A colon before the last slash belongs to a port.
fn tagged(image: &Arc<str>) -> Arc<str> {
    if image.rfind(':') <= image.rfind('/') { format!("{image}:latest").into() } else { image.clone() }
}

fn features<'a>(
    spec: &SpecJson,
    mut containers: impl Iterator<Item = &'a ContainerJson>,
) -> Vec<&'static str> {
    let mut features = Vec::new();
    let restarts_all = |container: &ContainerJson| {
        container.restart_policy_rules.iter().any(|rule| &*rule.action == "RestartAllContainers")
    };
    if containers.any(restarts_all) {
        features.push("RestartAllContainersOnContainerExits");
    }
    if spec.host_network && spec.host_users == Some(false) {
        features.push("UserNamespacesHostNetworkSupport");
    }
    features
}
