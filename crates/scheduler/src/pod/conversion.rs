//! The conversion of a pod's view into the scheduler's own structures.

use std::sync::{Arc, Weak};

use kubernetes::amounts::ScalarResourceNames;
use kubernetes::objects::{
    Container, OwnerReference, PodAffinityTerm, PodSpec, PodStatus, PodView, PreferredNodes, PreferredPods,
    TopologySpreadConstraint, VolumeSource,
};
use kubernetes::requests::{PodResources, PodResourcesOptions};
use kubernetes::selector::{LabelSelector, NodeSelectorTerm, RequiredNodeAffinity, Selector};
use model::Moment;

use super::super::storage::PodVolumes;
use super::{
    AffinityTerm, Controller, ControllerKind, HostPort, Pod, PodUsage, SchedulingSpec, SpreadConstraint,
};

/// The fields of a pod that depend only on its spec.
struct SpecFields {
    spec: Arc<SchedulingSpec>,
    volumes: Option<Arc<PodVolumes>>,
    usage: PodUsage,
}

/// The pod that a view shows. The spec is converted only if it is another one than that of the previous version.
pub(super) fn convert(view: &PodView, previous: Option<&Pod>, scalars: &mut ScalarResourceNames) -> Pod {
    let has_status_resources = has_status_resources(&view.status);
    let unchanged = previous.filter(|previous| {
        previous.read_error.is_none()
            && view.read_error.is_none()
            && std::ptr::eq(previous.source.as_ptr(), Arc::as_ptr(&view.spec))
            && (&previous.name, &previous.uid) == (&view.name, &view.uid)
            && !has_status_resources
            && !previous.has_status_resources
    });
    let (fields, read_error) = match unchanged {
        Some(previous) => {
            let Pod { spec, volumes, usage, .. } = previous;
            (SpecFields { spec: spec.clone(), volumes: volumes.clone(), usage: usage.clone() }, None)
        }
        None => match &view.read_error {
            Some(error) => (unreadable_fields(view), Some(error.clone())),
            None => match spec_fields(view, scalars) {
                Ok(fields) => (fields, None),
                Err(error) => (unreadable_fields(view), Some(error.into())),
            },
        },
    };
    let is_readable = read_error.is_none();
    let nominated_node = view.status.nominated_node_name.clone().filter(|_| is_readable);
    Pod {
        name: view.name.clone(),
        uid: view.uid.clone(),
        labels: view.labels.clone(),
        spec: fields.spec,
        volumes: fields.volumes,
        usage: fields.usage,
        node_name: view.node_name.clone(),
        nominated_node: nominated_node.clone(),
        status_nominated_node: nominated_node,
        scheduling_gates: if is_readable { view.spec.scheduling_gates.clone() } else { Vec::new() },
        controller: view.controller().filter(|_| is_readable).and_then(controller),
        terminating: view.is_terminating(),
        preempted: is_readable && view.is_preempted(),
        finished: view.is_finished(),
        start_time: view.status.start_time.filter(|_| is_readable).map(Moment::nanos),
        has_status_resources,
        source: if is_readable { Arc::downgrade(&view.spec) } else { Weak::new() },
        read_error,
    }
}

/// Whether the resources of a pod depend on its status, during or after a resize.
fn has_status_resources(status: &PodStatus) -> bool {
    let mut containers = status.container_statuses.iter().chain(&*status.init_container_statuses);
    status.resources.is_some() || containers.any(|container| container.resources.is_some())
}

/// Only the scheduler of an unreadable pod is known.
fn unreadable_fields(view: &PodView) -> SpecFields {
    let spec = SchedulingSpec {
        namespace: view.name.namespace.clone(),
        scheduler_name: scheduler_name(&view.spec),
        ..SchedulingSpec::default()
    };
    SpecFields { spec: Arc::new(spec), volumes: None, usage: PodUsage::default() }
}

fn spec_fields(view: &PodView, scalars: &mut ScalarResourceNames) -> Result<SpecFields, String> {
    let resources = PodResources { spec: &view.spec, status: &view.status };
    let resource_usage = resources.calculate_resource();
    let usage = PodUsage {
        requested: scalars.amounts(&resource_usage.requests),
        non_zero_cpu: resource_usage.non_zero_cpu.0,
        non_zero_memory: resource_usage.non_zero_memory.0,
    };
    let spec = SchedulingSpec {
        requests: scalars.amounts(&resources.requests(PodResourcesOptions::INCOMING)),
        non_zero_requests: scalars.amounts(&resources.requests(PodResourcesOptions::SCORED)),
        balanced_requests: usage.requested.clone(),
        ..scheduling_spec(&view.name.namespace, &view.spec)?
    };
    let volumes = PodVolumes::new(&view.spec.volumes, &view.name.name, &view.uid);
    Ok(SpecFields { spec: Arc::new(spec), volumes, usage })
}

fn scheduler_name(spec: &PodSpec) -> Arc<str> {
    if spec.scheduler_name.is_empty() { spec.scheduler_name().into() } else { spec.scheduler_name.clone() }
}

fn controller(owner: &OwnerReference) -> Option<Controller> {
    let kind = match (&*owner.api_version, &*owner.kind) {
        ("v1", "ReplicationController") => ControllerKind::ReplicationController,
        ("apps/v1", "ReplicaSet") => ControllerKind::ReplicaSet,
        ("apps/v1", "StatefulSet") => ControllerKind::StatefulSet,
        _ => return None,
    };
    Some(Controller { kind, name: owner.name.clone() })
}

/// The spec without the resources.
fn scheduling_spec(namespace: &Arc<str>, spec: &PodSpec) -> Result<SchedulingSpec, String> {
    let affinity = &spec.affinity;
    let sidecars = spec.init_containers.iter().filter(|container| container.is_sidecar());
    let containers = spec.containers.iter().chain(&spec.init_containers);
    let image_volumes = spec.volumes.iter().filter_map(|volume| match &volume.source {
        VolumeSource::Image(reference) => Some(reference),
        _ => None,
    });
    let images = spec.init_containers.iter().chain(&spec.containers).map(|container| &container.image);
    let terms = |affinity_field: &str, list: &[PodAffinityTerm]| {
        let term = |(index, json)| {
            term(namespace, json, || {
                format!(
                    "spec.affinity.{affinity_field}.requiredDuringSchedulingIgnoredDuringExecution[{index}]"
                )
            })
        };
        list.iter().enumerate().map(term).collect::<Result<Vec<_>, String>>()
    };
    let weighted = |affinity_field: &str, sign: i32, list: &[PreferredPods]| {
        let term = |(index, json): (usize, &PreferredPods)| {
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
        scheduler_name: scheduler_name(spec),
        priority: spec.priority.unwrap_or_default(),
        never_preempts: *spec.preemption_policy == *"Never",
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

fn term(
    namespace: &Arc<str>,
    json: &PodAffinityTerm,
    path: impl Fn() -> String,
) -> Result<AffinityTerm, String> {
    let selector = |field: &str, selector: &Option<LabelSelector>| {
        Selector::of(selector.as_ref()).map_err(|error| format!("{}.{field}: {error}", path()))
    };
    let own = json.namespaces.is_empty() && json.namespace_selector.is_none();
    let mut namespaces = if own { vec![namespace.clone()] } else { json.namespaces.clone() };
    namespaces.sort_unstable();
    namespaces.dedup();
    Ok(AffinityTerm {
        namespaces,
        namespace_selector: selector("namespaceSelector", &json.namespace_selector)?,
        selector: selector("labelSelector", &json.label_selector)?,
        topology_key: json.topology_key.clone(),
    })
}

/// Terms of weight zero are left out unchecked, as in kube-scheduler; the others must be valid.
fn preferred_nodes(list: &[PreferredNodes]) -> Result<Vec<(i64, NodeSelectorTerm)>, String> {
    let mut preferred = Vec::new();
    for (index, json) in list.iter().enumerate().filter(|(_, json)| json.weight != 0) {
        json.preference.check().map_err(|error| {
            format!("spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[{index}].preference: {error}")
        })?;
        preferred.push((i64::from(json.weight), json.preference.clone()));
    }
    Ok(preferred)
}

fn spread((index, json): (usize, &TopologySpreadConstraint)) -> Result<SpreadConstraint, String> {
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

fn host_ports<'a>(containers: impl Iterator<Item = &'a Container>) -> Vec<HostPort> {
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

fn features<'a>(spec: &PodSpec, mut containers: impl Iterator<Item = &'a Container>) -> Vec<&'static str> {
    let mut features = Vec::new();
    if containers.any(|container| container.has_restart_action("RestartAllContainers")) {
        features.push("RestartAllContainersOnContainerExits");
    }
    if spec.host_network && spec.host_users == Some(false) {
        features.push("UserNamespacesHostNetworkSupport");
    }
    features
}
