//! Rules for what has effects outside a cluster: kinds that are left out, and fields and annotations that are removed.
//!
//! Whether a kind of somebody's own acts outside depends on who is at work in the target. So kinds are let through that
//! workloads need, and others only if the target did not have them before: nobody there waits for their objects.

use kubernetes::rules::is_copy;
use model::Kind;
use serde_json::{Map, Value, json};

use super::{LeftOut, Manner, fields};

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

/// Groups of schedulers: what these do stays inside their cluster. Kinds that make pods are not among them, since only a
/// tracer's configuration says where they describe those.
const SCHEDULING_GROUPS: &[&str] = &[
    "kai.scheduler",
    "kueue.x-k8s.io",
    "scheduling.run.ai",
    "scheduling.sigs.k8s.io",
    "scheduling.volcano.sh",
    "scheduling.x-k8s.io",
    "topology.node.k8s.io",
];

/// Kinds of those groups that lead to other clusters.
const OTHER_CLUSTERS: &[&str] = &["MultiKueueCluster", "MultiKueueConfig"];

/// Groups, and all that end in them, whose objects stand for machines, disks, load balancers, names, certificates,
/// backups or objects of other clusters. Groups of Kubernetes itself need not be named: see [`is_of_kubernetes`].
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

/// Prefixes of annotations, and all that end in them, that controllers of clouds, names and certificates act upon.
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

/// Of a node: what its instance is called by the drivers of storage.
const NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";
/// A node that its cloud has not seen yet. The target's cloud would look for an instance of that name.
const UNINITIALIZED: &str = "node.cloudprovider.kubernetes.io/uninitialized";
/// Of a pod's status: where it is reached.
const ADDRESSES: [&str; 4] = ["hostIP", "hostIPs", "podIP", "podIPs"];
/// Namespaces of a cluster's own components.
const OF_COMPONENTS: [&str; 3] = ["kube-system", "kube-public", "kube-node-lease"];

/// Whether objects of a kind are given, or why they are left out.
pub(super) fn check_kind(manner: &Manner, kind: &Kind) -> Result<(), LeftOut> {
    check_reach(manner, kind)?;
    let is_familiar = is_for_workloads(kind) || manner.templates.are_in(kind);
    if manner.target_kinds.contains(kind) && !is_familiar && !manner.allow_external_effects {
        return Err("of a kind that the target had before, whose controller may act outside it".into());
    }
    Ok(())
}

/// Takes away what acts outside a cluster.
pub(super) fn shape(manner: &Manner, kind: &Kind, object: &mut Value) -> Result<(), LeftOut> {
    if manner.allow_external_effects {
        return Ok(());
    }
    if let Some(metadata) = fields(object, "metadata") {
        without_external_annotations(metadata);
    }
    match (&*kind.group, &*kind.kind) {
        ("", "Service") => shape_service(object)?,
        ("", "Node") => shape_node(object),
        ("", "Pod") => without_addresses(object),
        ("", "ConfigMap") => {
            let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
            if manner.kinds.is_none() && namespace.is_some_and(|it| OF_COMPONENTS.contains(&it)) {
                return Err("a setting of a cluster's own components".into());
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => shape_definition(manner, object)?,
        _ => {}
    }
    Ok(())
}

/// Takes away annotations that controllers of clouds, names and certificates act upon, and copies of the object, which
/// hold what is taken from the object itself.
pub(super) fn without_external_annotations(metadata: &mut Map<String, Value>) {
    let Some(Value::Object(annotations)) = metadata.get_mut("annotations") else { return };
    annotations.retain(|name, _| {
        let prefix = name.split_once('/').map_or("", |(prefix, _)| prefix);
        !EXTERNAL_ANNOTATIONS.iter().any(|end| is_under(prefix, end)) && !is_copy(name)
    });
}

fn shape_service(service: &mut Value) -> Result<(), LeftOut> {
    // Every provider of load balancers and names has its own, and no scheduler reads any.
    if let Some(metadata) = fields(service, "metadata") {
        metadata.remove("annotations");
    }
    let Some(spec) = fields(service, "spec") else { return Ok(()) };
    if spec.get("type").is_some_and(|it| it == "ExternalName") {
        return Err("a Service that stands for a name outside its cluster".into());
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
    if spec.get("type").is_some_and(|it| it == "LoadBalancer") {
        spec.insert("type".to_owned(), "ClusterIP".into());
    }
    // Without an address outside, a server takes it of no other type.
    if spec.get("type").is_none_or(|it| it != "NodePort") {
        spec.remove("externalTrafficPolicy");
    }
    if let Some(service) = service.as_object_mut() {
        service.remove("status");
    }
    Ok(())
}

/// An autoscaler in the target removes instances by their `providerID`: it gets one that no cloud has. That of KWOK is
/// none of a cloud.
fn shape_node(node: &mut Value) {
    let name = node.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned();
    if let Some(Value::Object(annotations)) = node.pointer_mut("/metadata/annotations") {
        annotations.remove(NODE_IDS);
    }
    // The target's API server would turn to the recorded kubelet, as metrics-server does.
    if let Some(status) = fields(node, "status") {
        status.remove("daemonEndpoints");
        if let Some(Value::Array(addresses)) = status.get_mut("addresses") {
            addresses.retain(|address| address["type"] == "Hostname");
        }
    }
    let Some(spec) = fields(node, "spec") else { return };
    let taints = spec.get("taints").and_then(Value::as_array);
    let is_new = taints.into_iter().flatten().any(|taint| taint["key"] == UNINITIALIZED);
    let id = spec.get("providerID").and_then(Value::as_str).unwrap_or_default();
    if is_new && id.is_empty() || !id.is_empty() && !id.starts_with("kwok:") {
        spec.insert("providerID".to_owned(), format!("replay.kinescope.io://{name}").into());
    }
}

/// Services of the target would lead to the recorded pod.
fn without_addresses(pod: &mut Value) {
    if let Some(status) = fields(pod, "status") {
        ADDRESSES.iter().for_each(|field| drop(status.remove(*field)));
    }
}

/// Without the webhook that converts between versions, and only if objects of the kind may be given.
fn shape_definition(manner: &Manner, definition: &mut Value) -> Result<(), LeftOut> {
    let text = |place: &str| definition.pointer(place).and_then(Value::as_str).unwrap_or_default();
    if manner.kinds.is_none() {
        check_reach(manner, &Kind::new(text("/spec/group"), text("/spec/names/kind")))?;
    }
    if let Some(spec) = fields(definition, "spec")
        && spec.contains_key("conversion")
    {
        spec.insert("conversion".to_owned(), json!({"strategy": "None"}));
    }
    Ok(())
}

/// Refuses a kind whose objects act outside their cluster, whoever is in it.
fn check_reach(manner: &Manner, kind: &Kind) -> Result<(), LeftOut> {
    if manner.allow_external_effects || is_for_workloads(kind) {
        return Ok(());
    }
    let is_external = EXTERNAL_GROUPS.iter().any(|end| is_under(&kind.group, end));
    if is_external || OTHER_CLUSTERS.contains(&&*kind.kind) {
        return Err("of a kind that acts outside its cluster".into());
    }
    if is_of_kubernetes(&kind.group) {
        return Err("of a kind that no workload needs, and that may act outside its cluster".into());
    }
    Ok(())
}

fn is_for_workloads(kind: &Kind) -> bool {
    let is_needed =
        |(group, name): &(&str, &str)| *group == &*kind.group && (name.is_empty() || *name == &*kind.kind);
    let is_scheduling = SCHEDULING_GROUPS.contains(&&*kind.group) && !OTHER_CLUSTERS.contains(&&*kind.kind);
    is_scheduling || WORKLOAD_KINDS.iter().any(is_needed)
}

/// Whether a group is one of Kubernetes' own, or of its community.
fn is_of_kubernetes(group: &str) -> bool {
    !group.contains('.') || is_under(group, "k8s.io")
}

/// Whether a domain is another one, or lies in it.
fn is_under(domain: &str, other: &str) -> bool {
    domain.strip_suffix(other).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
