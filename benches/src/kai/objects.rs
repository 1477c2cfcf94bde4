//! Objects of a generated cluster as JSON: queues, nodes, pod groups and pods, with the fields that a compacted snapshot
//! has.

use serde_json::{Value, json};

/// The namespace of reservation pods.
pub(super) const RESERVATION_NAMESPACE: &str = "kai-resource-reservation";
/// The moment of the snapshot.
pub(super) const NOW: &str = "2026-06-01T12:00:00Z";

/// The priority classes: name and value. From 100 on jobs are not preemptible.
const PRIORITY_CLASSES: [(&str, i32); 5] =
    [("background", 25), ("train", 50), ("interactive-preemptible", 75), ("build", 100), ("inference", 125)];

/// The quota of a queue; -1 stands for any amount.
pub(super) struct QueueQuota {
    pub(super) gpus: f64,
    pub(super) gpu_limit: f64,
    pub(super) cpu_millis: f64,
}

/// The GPUs that a pod requests.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum GpuRequest {
    None,
    Whole(u32),
    Fraction(f64),
}

/// A pod to write.
pub(super) struct PodSpec<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: String,
    pub(super) group: &'a str,
    pub(super) queue: &'a str,
    pub(super) cpu_millis: i64,
    pub(super) memory_mib: i64,
    pub(super) gpu: GpuRequest,
    /// The group of the shared GPU.
    pub(super) gpu_group: Option<String>,
    pub(super) node: Option<&'a str>,
    pub(super) node_selector: Option<(&'a str, &'a str)>,
    /// Whether pods of the group must be on different nodes.
    pub(super) is_spread: bool,
}

pub(super) fn priority_classes() -> impl Iterator<Item = Value> {
    PRIORITY_CLASSES.into_iter().map(|(name, value)| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta("", name), "value": value})
    })
}

pub(super) fn topology() -> Value {
    json!({"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": meta("", "datacenter"), "spec": {
        "levels": [{"nodeLabel": "topology.example/block"}, {"nodeLabel": "topology.example/rack"},
            {"nodeLabel": "kubernetes.io/hostname"}]}})
}

pub(super) fn queue(name: &str, parent: &str, quota: &QueueQuota) -> Value {
    let unlimited = json!({"quota": -1, "limit": -1, "overQuotaWeight": 1});
    let mut queue = json!({"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": meta("", name), "spec": {
    "resources": {
        "cpu": {"quota": quota.cpu_millis, "limit": -1, "overQuotaWeight": 1},
        "gpu": {"quota": quota.gpus, "limit": quota.gpu_limit, "overQuotaWeight": quota.gpus.max(1.0)},
        "memory": unlimited}}});
    if !parent.is_empty() {
        queue["spec"]["parentQueue"] = json!(parent);
    }
    queue
}

/// A node with eight GPUs, or without any.
pub(super) fn node(name: &str, index: usize, has_gpus: bool) -> Value {
    let rack = index / 16;
    let mut allocatable =
        json!({"cpu": "96", "memory": "760Gi", "pods": "110", "ephemeral-storage": "800Gi"});
    let mut node = json!({"apiVersion": "v1", "kind": "Node", "metadata": meta("", name), "spec": {
        "providerID": format!("example:///{name}")}, "status": {
        "conditions": (["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].map(|kind| json!({
            "type": kind, "status": if kind == "Ready" { "True" } else { "False" },
            "lastTransitionTime": "2026-05-01T00:00:00Z"}))),
        "nodeInfo": {"kubeletVersion": "v1.35.2", "osImage": "Ubuntu 24.04", "architecture": "amd64"}}});
    let mut labels = json!({"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux",
        "topology.example/rack": format!("rack-{rack:03}"), "topology.example/block": format!("block-{:02}", rack / 16),
        "node.example/pool": if has_gpus { "gpu" } else { "cpu" }});
    if has_gpus {
        allocatable["nvidia.com/gpu"] = json!("8");
        labels["nvidia.com/gpu.count"] = json!("8");
        labels["nvidia.com/gpu.memory"] = json!("81559");
        labels["nvidia.com/gpu.product"] = json!("NVIDIA-H100-80GB-HBM3");
    }
    node["metadata"]["labels"] = labels;
    node["status"]["allocatable"] = allocatable.clone();
    node["status"]["capacity"] = allocatable;
    node
}

/// A pod group.
pub(super) fn pod_group(
    namespace: &str,
    name: &str,
    queue: &str,
    class: &str,
    min_member: u32,
    is_running: bool,
) -> Value {
    let mut metadata = meta(namespace, name);
    metadata["labels"] = json!({"kai.scheduler/queue": queue});
    if is_running {
        metadata["annotations"] = json!({"kai.scheduler/last-start-timestamp": "2026-06-01T09:30:00Z"});
    }
    json!({"apiVersion": "scheduling.run.ai/v2alpha2", "kind": "PodGroup", "metadata": metadata,
        "spec": {"queue": queue, "minMember": min_member, "priorityClassName": class}})
}

/// A pod with an owner, a token volume and a status, as they are in clusters.
pub(super) fn pod(spec: &PodSpec<'_>) -> Value {
    let mut requests =
        json!({"cpu": format!("{}m", spec.cpu_millis), "memory": format!("{}Mi", spec.memory_mib)});
    let mut annotations = json!({"pod-group-name": spec.group});
    match spec.gpu {
        GpuRequest::None => {}
        GpuRequest::Whole(count) => requests["nvidia.com/gpu"] = json!(count.to_string()),
        GpuRequest::Fraction(portion) => annotations["gpu-fraction"] = json!(portion.to_string()),
    }
    let mut labels = json!({"kai.scheduler/queue": spec.queue, "app": spec.group,
        "training.kubeflow.org/job-name": spec.group, "batch.kubernetes.io/job-name": spec.group});
    if let Some(group) = &spec.gpu_group {
        labels["runai-gpu-group"] = json!(group);
    }
    let mut pod = base_pod(spec.namespace, &spec.name, "kai-scheduler", requests, spec.node);
    pod["metadata"]["annotations"] = annotations;
    pod["metadata"]["labels"] = labels;
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "batch/v1", "kind": "Job", "name": spec.group,
        "uid": uid(spec.group), "controller": true, "blockOwnerDeletion": true}]);
    if let Some((key, value)) = spec.node_selector {
        pod["spec"]["nodeSelector"] = json!({key: value});
    }
    if spec.is_spread {
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": spec.group}}}]}});
    }
    pod
}

/// A pod of a DaemonSet, scheduled by another scheduler.
pub(super) fn daemon_pod(name: &str, node: &str) -> Value {
    let mut pod = base_pod(
        "kube-system",
        name,
        "default-scheduler",
        json!({"cpu": "100m", "memory": "200Mi"}),
        Some(node),
    );
    pod["metadata"]["labels"] = json!({"k8s-app": "agent"});
    pod
}

/// The pod that holds a shared GPU.
pub(super) fn reservation_pod(name: &str, node: &str, gpu_group: &str) -> Value {
    let requests = json!({"cpu": "1m", "memory": "10Mi", "nvidia.com/gpu": "1"});
    let mut pod = base_pod(RESERVATION_NAMESPACE, name, "kai-scheduler", requests, Some(node));
    pod["metadata"]["labels"] = json!({"app": "kai-resource-reservation", "runai-gpu-group": gpu_group});
    pod
}

fn base_pod(namespace: &str, name: &str, scheduler: &str, requests: Value, node: Option<&str>) -> Value {
    let limits = requests.clone();
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": meta(namespace, name), "spec": {
        "schedulerName": scheduler, "serviceAccountName": "default", "restartPolicy": "Never",
        "priorityClassName": "train", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "tolerations": [
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        "containers": [{"name": "main", "resources": {"requests": requests, "limits": limits},
            "volumeMounts": [{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true}]}],
        "volumes": [{"name": "token", "projected": {"defaultMode": 420, "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]}}]}}]}});
    match node {
        None => {
            pod["status"] = json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": "2026-06-01T11:58:00Z"}]});
        }
        Some(node) => {
            pod["spec"]["nodeName"] = json!(node);
            pod["status"] = json!({"phase": "Running", "startTime": "2026-06-01T09:30:00Z", "hostIP": "10.0.0.1",
                "podIP": "10.1.0.1", "conditions": (["PodScheduled", "Initialized", "ContainersReady", "Ready"].map(|kind| json!({
                    "type": kind, "status": "True", "lastTransitionTime": "2026-06-01T09:30:00Z"}))),
                "containerStatuses": [{"name": "main", "ready": true, "restartCount": 0, "image": "registry.example/main:1",
                    "state": {"running": {"startedAt": "2026-06-01T09:30:05Z"}}}]});
        }
    }
    pod
}

fn meta(namespace: &str, name: &str) -> Value {
    let mut meta = json!({"name": name, "uid": uid(&format!("{namespace}/{name}")),
        "creationTimestamp": "2026-06-01T09:00:00Z", "resourceVersion": "123456789"});
    if !namespace.is_empty() {
        meta["namespace"] = json!(namespace);
    }
    meta
}

/// A uid that depends on the name only.
fn uid(name: &str) -> String {
    let hash = |seed: u64| {
        name.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
    };
    let (high, low) = (hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15));
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{:012x}",
        high >> 32,
        high & 0xffff,
        (high >> 16) & 0xfff,
        low >> 52,
        low & 0xffff_ffff_ffff
    )
}
