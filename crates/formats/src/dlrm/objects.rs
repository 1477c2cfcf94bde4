//! The objects that a cluster would have shown.

use md5::{Digest, Md5};
use model::{Moment, Object};
use serde_json::{Map, Value, json};

use super::rows::{Amounts, Shape};

const NAMESPACE: &str = "default";
/// Koordinator counts an RDMA card as 100 of these, as the trace does.
const RDMA: &str = "koordinator.sh/rdma";
const GPU: &str = "nvidia.com/gpu";
const LONGEST_LABEL: usize = 63;

/// What is known of a pod's scheduling.
#[derive(Clone, Copy)]
pub(super) enum Scheduled {
    NotYet,
    At(Moment),
    /// Before the trace began.
    Before,
}

/// Instances of one service, role and shape: a Deployment and its ReplicaSet.
pub(super) struct Workload {
    shape: Shape,
    /// The Deployment's name.
    name: String,
    /// The hash of the template, as part of the ReplicaSet's name.
    hash: String,
    /// When its first instance was created, in nanoseconds since the trace began; `None`: before that.
    pub(super) since: Option<i64>,
}

// === impl Workload ===

impl Workload {
    /// The workload of this shape, the `number`th of its service and role.
    pub(super) fn new(shape: Shape, number: u32, since: Option<i64>) -> Workload {
        // A role and a number at the end: no two are alike.
        let role = object_name(shape.role.name());
        let name = format!("{}-{role}-{number}", object_name(&shape.app));
        let mut workload = Workload { shape, name, hash: String::new(), since };
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
        let mut metadata = metadata("ReplicaSet", &self.set_name(), created, &labels);
        metadata["ownerReferences"] = owner("Deployment", &self.name);
        let mut template = self.template();
        template["metadata"]["labels"] = labels.clone();
        object(&json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet",
            "metadata": metadata,
            "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
        }))
    }

    /// The pod of an instance. Once it was scheduled nothing tells its phase.
    pub(super) fn pod(&self, name: &str, created: Option<Moment>, scheduled: Scheduled) -> Object {
        let mut metadata = metadata("Pod", name, created, &self.pod_labels());
        metadata["ownerReferences"] = owner("ReplicaSet", &self.set_name());
        let mut condition = json!({"type": "PodScheduled", "status": "True"});
        let status = match scheduled {
            Scheduled::NotYet => json!({"phase": "Pending"}),
            Scheduled::Before => json!({"conditions": [condition], "phase": "Unknown"}),
            Scheduled::At(moment) => {
                condition["lastTransitionTime"] = second(moment).into();
                json!({"conditions": [condition], "phase": "Unknown"})
            }
        };
        object(&json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": self.spec(), "status": status,
        }))
    }

    fn set_name(&self) -> String {
        format!("{}-{}", self.name, self.hash)
    }

    /// The service alone does not tell workloads apart.
    fn labels(&self) -> Value {
        json!({"app": self.shape.app, "role": self.shape.role.name(), "workload": label(&self.name)})
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
        let Shape { app, requests, limits, most_per_node, .. } = &self.shape;
        let resources = json!({"limits": amounts(limits), "requests": amounts(requests)});
        let mut spec =
            json!({"containers": [{"image": "unknown", "name": "instance", "resources": resources}]});
        if requests.gpus > 0 {
            // Nodes with GPUs are commonly kept for those who ask for them, whom an admission plugin lets tolerate it.
            spec["tolerations"] = json!([{"effect": "NoSchedule", "key": GPU, "operator": "Exists"}]);
        }
        if let Some(most) = most_per_node {
            // The skew is counted from the emptiest node, but from 0 where nodes are fewer than `minDomains`: so it is
            // the number on the node itself.
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

/// What the API server would take for a name: `_`, `.` and large letters are not.
pub(super) fn object_name(text: &str) -> String {
    text.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// What the API server would take for a label: a longer text is cut, and told from others that begin alike by its hash.
fn label(text: &str) -> String {
    if text.len() <= LONGEST_LABEL {
        return text.to_owned();
    }
    let hash = hex(&Md5::digest(text)[..5]);
    let kept: String = text.chars().take(LONGEST_LABEL - hash.len() - 1).collect();
    format!("{kept}-{hash}")
}

fn amounts(amounts: &Amounts) -> Value {
    let Amounts { cpu, memory, disk, gpus, rdma } = amounts;
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
        metadata["creationTimestamp"] = second(created).into();
    }
    metadata
}

fn owner(kind: &str, name: &str) -> Value {
    json!([{
        "apiVersion": "apps/v1",
        "blockOwnerDeletion": true,
        "controller": true,
        "kind": kind,
        "name": name,
        "uid": uid(kind, name),
    }])
}

/// A uid that follows from the name, so that importing again gives the same.
fn uid(kind: &str, name: &str) -> String {
    let mut bytes: [u8; 16] = Md5::digest(format!("{kind}/{NAMESPACE}/{name}")).into();
    // A UUID made of a name is of version 3, variant 1.
    bytes[6] = bytes[6] & 0x0f | 0x30;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let text = hex(&bytes);
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Kubernetes' times have no parts of a second.
fn second(moment: Moment) -> String {
    let part = moment.nanos().rem_euclid(1_000_000_000);
    moment.plus_nanos(-part).to_string()
}

fn object(value: &Value) -> Object {
    Object::parse(&value.to_string()).expect("names are checked as rows are read")
}
