//! Rules against effects outside the cluster: kinds that are excluded, and fields and annotations that are removed.
//!
//! Whether a custom kind has external effects depends on the controllers in the target. So kinds that workloads need
//! are allowed, and others only if the target did not serve them before, since no controller watches them then.

use kubernetes::change_filter::is_object_copy;
use model::Kind;
use serde_json::{Map, Value, json};

use super::{ExclusionReason, TranslateOptions, map_field};

/// Kinds of Kubernetes that workloads and schedulers need. An empty name stands for all kinds of a group.
const WORKLOAD_KINDS: &[(&str, &str)] = &[
    ("", "ConfigMap"),
    ("", "Namespace"),
    ("", "Node"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "Pod"),
    ("", "ReplicationController"),
    ("", "Service"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
    ("apps", ""),
    ("batch", ""),
    ("node.k8s.io", "RuntimeClass"),
    ("policy", "PodDisruptionBudget"),
    ("resource.k8s.io", ""),
    ("scheduling.k8s.io", ""),
    ("storage.k8s.io", "CSIDriver"),
    ("storage.k8s.io", "CSINode"),
    ("storage.k8s.io", "CSIStorageCapacity"),
    ("storage.k8s.io", "StorageClass"),
];

/// API groups of schedulers, which have no external effects. Kinds that create pods are not included, since only a
/// tracer's configuration gives the paths of their pod templates.
const SCHEDULING_GROUPS: &[&str] = &[
    "kai.scheduler",
    "kueue.x-k8s.io",
    "scheduling.run.ai",
    "scheduling.sigs.k8s.io",
    "scheduling.volcano.sh",
    "scheduling.x-k8s.io",
    "topology.node.k8s.io",
];

/// Kinds of those groups that refer to other clusters.
const MULTI_CLUSTER_KINDS: &[&str] = &["MultiKueueCluster", "MultiKueueConfig"];

/// API groups, with their subdomains, whose objects represent machines, disks, load balancers, DNS names, certificates,
/// backups or objects of other clusters. Kubernetes' own groups are covered by [`is_kubernetes_group`].
const EXTERNAL_GROUPS: &[&str] = &[
    "amazonaws.com",
    "argoproj.io",
    "azure.com",
    "azure.microsoft.com",
    "cattle.io",
    "cert-manager.io",
    "cloud.google.com",
    "cluster.x-k8s.io",
    "crossplane.io",
    "external-secrets.io",
    "fluxcd.io",
    "gardener.cloud",
    "gke.io",
    "hashicorp.com",
    "istio.io",
    "k8s.aws",
    "karpenter.azure.com",
    "karpenter.k8s.aws",
    "karpenter.sh",
    "machine.openshift.io",
    "machine.sapcloud.io",
    "metal3.io",
    "metallb.io",
    "oci.oraclecloud.com",
    "open-cluster-management.io",
    "tailscale.com",
    "terraform.io",
    "traefik.io",
    "upbound.io",
    "velero.io",
];

/// Annotation prefixes, with their subdomains, on which controllers of clouds, DNS and certificates act.
const EXTERNAL_ANNOTATIONS: &[&str] = &[
    "amazonaws.com",
    "azure.com",
    "cert-manager.io",
    "certmanager.k8s.io",
    "cloud.google.com",
    "cluster.x-k8s.io",
    "cilium.io",
    "digitalocean.com",
    "dns.alpha.kubernetes.io",
    "external-dns.alpha.kubernetes.io",
    "gardener.cloud",
    "getambassador.io",
    "gke.io",
    "hashicorp.com",
    "hetzner.cloud",
    "ingress.kubernetes.io",
    "k8s.aws",
    "kube-vip.io",
    "linode.com",
    "metallb.io",
    "metallb.universe.tf",
    "ngrok.com",
    "openstack.org",
    "oraclecloud.com",
    "service.alpha.kubernetes.io",
    "service.beta.kubernetes.io",
    "service.kubernetes.io",
    "tailscale.com",
];

/// The annotation of a node with the node IDs of CSI drivers.
const CSI_NODE_ID_ANNOTATION: &str = "csi.volume.kubernetes.io/nodeid";
/// The taint of a node that its cloud provider has not initialized. The target's cloud controller would look for its
/// instance.
const UNINITIALIZED_TAINT: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// The address fields of a pod's status.
const POD_ADDRESS_FIELDS: [&str; 4] = ["hostIP", "hostIPs", "podIP", "podIPs"];
/// The namespaces of a cluster's own components.
const SYSTEM_NAMESPACES: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// Returns why objects of a kind are excluded, if they are.
pub(super) fn check_kind(options: &TranslateOptions, kind: &Kind) -> Result<(), ExclusionReason> {
    check_external_effects(options, kind)?;
    let is_known = is_for_workloads(kind) || options.templates.has_kind(kind);
    if options.target_kinds.contains(kind) && !is_known && !options.allow_external_effects {
        return Err("custom resource whose controller in the target may act outside it".into());
    }
    Ok(())
}

/// Removes fields with external effects.
pub(super) fn remove_external_fields(
    options: &TranslateOptions,
    kind: &Kind,
    object: &mut Value,
) -> Result<(), ExclusionReason> {
    if options.allow_external_effects {
        return Ok(());
    }
    if let Some(metadata) = map_field(object, "metadata") {
        remove_external_annotations(metadata);
    }
    match (&*kind.group, &*kind.kind) {
        ("", "Service") => remove_external_service_fields(object)?,
        ("", "Node") => replace_provider_id(object),
        ("", "Pod") => remove_addresses(object),
        ("", "ConfigMap") => {
            let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
            if options.kinds.is_none() && namespace.is_some_and(|name| SYSTEM_NAMESPACES.contains(&name)) {
                return Err("a setting of the cluster's components".into());
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => transform_definition(options, object)?,
        _ => {}
    }
    Ok(())
}

/// Removes annotations on which controllers of clouds, DNS and certificates act, and copies of the object, which
/// contain the removed fields.
pub(super) fn remove_external_annotations(metadata: &mut Map<String, Value>) {
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return };
    annotations.retain(|name, _| {
        let prefix = name.split_once('/').map_or("", |(prefix, _)| prefix);
        !EXTERNAL_ANNOTATIONS.iter().any(|suffix| is_subdomain(prefix, suffix)) && !is_object_copy(name)
    });
}

fn remove_external_service_fields(service: &mut Value) -> Result<(), ExclusionReason> {
    // Every provider of load balancers and DNS names has its own annotations, and no scheduler reads any.
    if let Some(metadata) = map_field(service, "metadata") {
        metadata.remove("annotations");
    }
    let Some(spec) = map_field(service, "spec") else { return Ok(()) };
    if spec.get("type").is_some_and(|service_type| service_type == "ExternalName") {
        return Err("a Service of type ExternalName".into());
    }
    for field in [
        "allocateLoadBalancerNodePorts",
        "externalIPs",
        "externalName",
        "loadBalancerClass",
        "loadBalancerIP",
        "loadBalancerSourceRanges",
    ] {
        spec.remove(field);
    }
    if spec.get("type").is_some_and(|service_type| service_type == "LoadBalancer") {
        spec.insert("type".to_owned(), "ClusterIP".into());
    }
    // API servers accept externalTrafficPolicy only for services with external access.
    if spec.get("type").is_none_or(|service_type| service_type != "NodePort") {
        spec.remove("externalTrafficPolicy");
    }
    if let Some(service) = service.as_object_mut() {
        service.remove("status");
    }
    Ok(())
}

/// An autoscaler in the target deletes instances by `providerID`: it is replaced by one that no cloud has. KWOK's IDs
/// are kept.
fn replace_provider_id(node: &mut Value) {
    let name = node.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(Value::Object(annotations)) = node.pointer_mut("/metadata/annotations") {
        annotations.remove(CSI_NODE_ID_ANNOTATION);
    }
    // The target's API server and metrics-server would contact the recorded kubelet.
    if let Some(status) = map_field(node, "status") {
        status.remove("daemonEndpoints");
        if let Some(Value::Array(addresses)) = status.get_mut("addresses") {
            addresses.retain(|address| address["type"] == "Hostname");
        }
    }
    let Some(spec) = map_field(node, "spec") else { return };
    let taints = spec.get("taints").and_then(Value::as_array);
    let is_uninitialized = taints.into_iter().flatten().any(|taint| taint["key"] == UNINITIALIZED_TAINT);
    let id = spec.get("providerID").and_then(Value::as_str).unwrap_or_default();
    if is_uninitialized && id.is_empty() || !id.is_empty() && !id.starts_with("kwok:") {
        spec.insert("providerID".to_owned(), format!("replay.kinescope.io://{name}").into());
    }
}

/// Services of the target would route to the recorded pod.
fn remove_addresses(pod: &mut Value) {
    if let Some(status) = map_field(pod, "status") {
        POD_ADDRESS_FIELDS.iter().for_each(|field| drop(status.remove(*field)));
    }
}

/// Removes the conversion webhook, and excludes the definition if the kind is excluded.
fn transform_definition(options: &TranslateOptions, definition: &mut Value) -> Result<(), ExclusionReason> {
    let text = |pointer: &str| definition.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    if options.kinds.is_none() {
        check_external_effects(options, &Kind::new(text("/spec/group"), text("/spec/names/kind")))?;
    }
    if let Some(spec) = map_field(definition, "spec")
        && spec.contains_key("conversion")
    {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    Ok(())
}

/// Excludes kinds with external effects, whichever controllers the target has.
fn check_external_effects(options: &TranslateOptions, kind: &Kind) -> Result<(), ExclusionReason> {
    if options.allow_external_effects || is_for_workloads(kind) {
        return Ok(());
    }
    let is_external = EXTERNAL_GROUPS.iter().any(|suffix| is_subdomain(&kind.group, suffix));
    if is_external || MULTI_CLUSTER_KINDS.contains(&&*kind.kind) {
        return Err("kind that acts outside the cluster".into());
    }
    if is_kubernetes_group(&kind.group) {
        return Err("kind that workloads do not need and that may act outside the cluster".into());
    }
    Ok(())
}

fn is_for_workloads(kind: &Kind) -> bool {
    let is_needed =
        |(group, name): &(&str, &str)| *group == &*kind.group && (name.is_empty() || *name == &*kind.kind);
    let is_scheduling =
        SCHEDULING_GROUPS.contains(&&*kind.group) && !MULTI_CLUSTER_KINDS.contains(&&*kind.kind);
    is_scheduling || WORKLOAD_KINDS.iter().any(is_needed)
}

/// Whether an API group belongs to Kubernetes or its community.
fn is_kubernetes_group(group: &str) -> bool {
    !group.contains('.') || is_subdomain(group, "k8s.io")
}

/// Whether a domain equals another one or is a subdomain of it.
fn is_subdomain(domain: &str, parent: &str) -> bool {
    domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
