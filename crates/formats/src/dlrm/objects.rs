//! The Deployments, ReplicaSets and Pods made from the rows of a trace.

use md5::{Digest, Md5};
use model::{Moment, Object};
use serde_json::{Map, Value, json};

use super::rows::{InstanceSpec, ResourceAmounts};

const NAMESPACE: &str = "default";
/// Koordinator counts an RDMA card as 100, as the trace does.
const RDMA: &str = "koordinator.sh/rdma";
const GPU: &str = "nvidia.com/gpu";
const MAX_LABEL_LENGTH: usize = 63;

/// Whether and when a pod was scheduled.
#[derive(Clone, Copy)]
pub(super) enum SchedulingState {
    Unscheduled,
    At(Moment),
    /// Before the trace began.
    BeforeTrace,
}

/// Instances with the same service, role and spec: a Deployment and its ReplicaSet.
pub(super) struct Workload {
    instance_spec: InstanceSpec,
    /// The Deployment's name.
    name: String,
    /// The hash of the template, part of the ReplicaSet's name.
    hash: String,
    /// When its first instance was created, in nanoseconds since the trace began; `None` if before.
    pub(super) created: Option<i64>,
}

// === impl Workload ===

impl Workload {
    /// The workload with this spec, the `number`th of its service and role.
    pub(super) fn new(spec: InstanceSpec, number: u32, since: Option<i64>) -> Workload {
        // Role and number at the end make the name unique.
        let role = object_name(spec.role.name());
        let name = format!("{}-{role}-{number}", object_name(&spec.app));
        let mut workload = Workload { instance_spec: spec, name, hash: String::new(), created: since };
        workload.hash = hex(&Md5::digest(workload.template().to_string())[..5]);
        workload
    }

    pub(super) fn deployment(&self, replicas: u32, created: Option<Moment>) -> Object {
        object(&json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": metadata("Deployment", &self.name, created, &self.labels()),
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": self.labels()},
                "template": self.template(),
            },
        }))
    }

    pub(super) fn replica_set(&self, replicas: u32, created: Option<Moment>) -> Object {
        let labels = self.pod_labels();
        let mut metadata = metadata("ReplicaSet", &self.replica_set_name(), created, &labels);
        metadata["ownerReferences"] = owner_references("Deployment", &self.name);
        let mut template = self.template();
        template["metadata"]["labels"] = labels.clone();
        object(&json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": metadata,
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        }))
    }

    /// The pod of an instance. After scheduling its phase is not known.
    pub(super) fn pod(&self, name: &str, created: Option<Moment>, scheduled: SchedulingState) -> Object {
        let mut metadata = metadata("Pod", name, created, &self.pod_labels());
        metadata["ownerReferences"] = owner_references("ReplicaSet", &self.replica_set_name());
        let mut condition = json!({"type": "PodScheduled", "status": "True"});
        let status = match scheduled {
            SchedulingState::Unscheduled => json!({"phase": "Pending"}),
            SchedulingState::BeforeTrace => json!({"conditions": [condition], "phase": "Unknown"}),
            SchedulingState::At(moment) => {
                condition["lastTransitionTime"] = format_seconds(moment).into();
                json!({"conditions": [condition], "phase": "Unknown"})
            }
        };
        object(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.spec(), "status": status,
        }))
    }

    fn replica_set_name(&self) -> String {
        format!("{}-{}", self.name, self.hash)
    }

    /// Several workloads may share a service, so the workload's name is a label too.
    fn labels(&self) -> Value {
        json!({"app": self.instance_spec.app, "role": self.instance_spec.role.name(), "workload": label_value(&self.name)})
    }

    fn pod_labels(&self) -> Value {
        let mut labels = self.labels();
        labels["pod-template-hash"] = self.hash.as_str().into();
        labels
    }

    fn template(&self) -> Value {
        json!({"metadata": {"labels": self.labels()}, "spec": self.spec()})
    }

    fn spec(&self) -> Value {
        let InstanceSpec { app, requests, limits, max_per_node: most_per_node, .. } = &self.instance_spec;
        let resources = json!({"limits": resource_list(limits), "requests": resource_list(requests)});
        let mut spec =
            json!({"containers": [{"image": "unknown", "name": "instance", "resources": resources}]});
        if requests.gpus > 0 {
            // GPU nodes are commonly tainted, and an admission plugin adds the toleration to pods that request GPUs.
            spec["tolerations"] = json!([{"effect": "NoSchedule", "key": GPU, "operator": "Exists"}]);
        }
        if let Some(most) = most_per_node {
            // The skew is relative to the node with the fewest pods, but relative to 0 if there are fewer nodes than
            // `minDomains`: so it is the number of pods on the node itself.
            spec["topologySpreadConstraints"] = json!([{
                "labelSelector": {"matchLabels": {"app": app}},
                "maxSkew": most,
                "minDomains": i32::MAX,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "DoNotSchedule",
            }]);
        }
        spec
    }
}

/// A valid object name: lower case, without `_` and `.`.
pub(super) fn object_name(text: &str) -> String {
    text.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// A valid label value: a longer text is truncated and gets its hash as a suffix.
fn label_value(text: &str) -> String {
    if text.len() <= MAX_LABEL_LENGTH {
        return text.to_owned();
    }
    let hash = hex(&Md5::digest(text)[..5]);
    let prefix: String = text.chars().take(MAX_LABEL_LENGTH - hash.len() - 1).collect();
    format!("{prefix}-{hash}")
}

fn resource_list(amounts: &ResourceAmounts) -> Value {
    let ResourceAmounts { cpu, memory, disk, gpus, rdma } = amounts;
    let named = [
        ("cpu", cpu.0, cpu.to_string()),
        ("memory", memory.0, memory.to_string()),
        ("ephemeral-storage", disk.0, disk.to_string()),
        (GPU, *gpus, gpus.to_string()),
        (RDMA, *rdma, rdma.to_string()),
    ];
    let asked_for = named.into_iter().filter(|(_, amount, _)| *amount > 0);
    asked_for.map(|(name, _, text)| (name.to_owned(), Value::from(text))).collect::<Map<_, _>>().into()
}

fn metadata(kind: &str, name: &str, created: Option<Moment>, labels: &Value) -> Value {
    let mut metadata =
        json!({"labels": labels, "name": name, "namespace": NAMESPACE, "uid": uid(kind, name)});
    if let Some(created) = created {
        metadata["creationTimestamp"] = format_seconds(created).into();
    }
    metadata
}

fn owner_references(kind: &str, name: &str) -> Value {
    json!([{
        "apiVersion": "apps/v1",
        "blockOwnerDeletion": true,
        "controller": true,
        "kind": kind,
        "name": name,
        "uid": uid(kind, name),
    }])
}

/// A uid derived from the name, so that a second import produces the same.
fn uid(kind: &str, name: &str) -> String {
    let mut bytes: [u8; 16] = Md5::digest(format!("{kind}/{NAMESPACE}/{name}")).into();
    // A name-based UUID: version 3, variant 1.
    bytes[6] = bytes[6] & 0x0f | 0x30;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex(&bytes);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Kubernetes timestamps are whole seconds.
fn format_seconds(moment: Moment) -> String {
    let part = moment.nanos().rem_euclid(1_000_000_000);
    moment.plus_nanos(-part).to_string()
}

fn object(value: &Value) -> Object {
    Object::parse(&value.to_string()).expect("names are validated when rows are read")
}
