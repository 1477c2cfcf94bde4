//! The shop's nodes: three autoscaled pools, and two of fixed size.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::{Delay, Membership, NodeGroup, Provisioning};
use model::{Moment, Object};
use serde_json::{Value, json};

use crate::objects::SECOND;
use crate::rng::SeededRng;

/// A pool of equal nodes.
pub(super) struct NodePool {
    pub(super) name: &'static str,
    /// The number of nodes when the day begins.
    initial_count: usize,
    /// Minimum and maximum size.
    size_limits: (i64, i64),
    machine: &'static str,
    cores: i64,
    gibibytes: i64,
    /// The value of the `dedicated` taint.
    dedicated: Option<&'static str>,
    disk: &'static str,
}

pub(super) const GENERAL: &str = "general";
pub(super) const MEMORY: &str = "memory";
pub(super) const BATCH: &str = "batch";
pub(super) const DATA: &str = "data";

/// The label with a node's pool.
pub(super) const POOL: &str = "node-pool";
pub(super) const DISK: &str = "shop.example/disk";
pub(super) const DEDICATED: &str = "dedicated";

pub(super) const ZONE: &str = "north-1a";

/// The autoscaled pools.
pub(super) const SCALED_POOLS: [NodePool; 3] = [
    NodePool {
        name: GENERAL,
        initial_count: 34,
        size_limits: (20, 64),
        machine: "standard-8",
        cores: 8,
        gibibytes: 32,
        dedicated: None,
        disk: "network",
    },
    NodePool {
        name: MEMORY,
        initial_count: 9,
        size_limits: (6, 20),
        machine: "highmem-8",
        cores: 8,
        gibibytes: 64,
        dedicated: None,
        disk: "nvme",
    },
    NodePool {
        name: BATCH,
        initial_count: 3,
        size_limits: (2, 20),
        machine: "spot-16",
        cores: 16,
        gibibytes: 32,
        dedicated: Some(BATCH),
        disk: "network",
    },
];

/// The pools of fixed size.
const FIXED_POOLS: [NodePool; 2] = [
    NodePool {
        name: "control-plane",
        initial_count: 3,
        size_limits: (3, 3),
        machine: "standard-8",
        cores: 8,
        gibibytes: 32,
        dedicated: None,
        disk: "network",
    },
    NodePool {
        name: DATA,
        initial_count: 3,
        size_limits: (3, 3),
        machine: "highmem-8",
        cores: 8,
        gibibytes: 64,
        dedicated: Some(DATA),
        disk: "nvme",
    },
];

/// The age of the oldest initial node; the others are slightly younger.
const AGE: i64 = 50 * 86_400 * SECOND;
/// How many node names a pool has: more than it needs in a day.
const NAMES_PER_POOL: usize = 500;

/// The initial nodes, and the node groups with the names of their new nodes.
pub(super) struct Fleet {
    /// The initial nodes.
    pub(super) nodes: Vec<Object>,
    /// The node groups of the cloud.
    pub(super) groups: Vec<NodeGroup>,
    /// The names of each group's new nodes, in the same order.
    pub(super) names: Vec<Vec<Arc<str>>>,
}

// === impl Fleet ===

impl Fleet {
    pub(super) fn new(rng: &mut SeededRng, start: Moment) -> Fleet {
        let mut nodes = Vec::new();
        for group in &FIXED_POOLS {
            let names = (1..=group.initial_count).map(|number| format!("{}-{number}", group.name).into());
            nodes.extend(initial_nodes(group, &names.collect::<Vec<_>>(), start));
        }
        let mut names = Vec::new();
        for group in &SCALED_POOLS {
            let mut own = random_names(group.name, rng);
            let later = own.split_off(group.initial_count);
            nodes.extend(initial_nodes(group, &own, start));
            names.push(later);
        }
        Fleet { nodes, groups: SCALED_POOLS.iter().map(|group| node_group(group, start)).collect(), names }
    }
}

fn node_group(group: &NodePool, start: Moment) -> NodeGroup {
    let spans = |seconds: &[u64]| Delay::Samples(seconds.iter().map(|it| Duration::from_secs(*it)).collect());
    NodeGroup {
        name: group.name.into(),
        min: group.size_limits.0,
        max: group.size_limits.1,
        target: None,
        members: Membership::ProviderIdPrefix(provider_id(group, "").into()),
        template: parse_object(&node(group, &format!("{}-template", group.name), start)),
        pods: Vec::new(),
        template_pods: Vec::new(),
        price: None,
        options: None,
        provisioning: Provisioning {
            registers_after: spans(&[38, 41, 44, 47, 52, 58, 66, 79]),
            ready_after: spans(&[9, 11, 12, 14, 18, 24]),
        },
        failures: Vec::new(),
    }
}

/// Unique random node names.
fn random_names(group: &str, rng: &mut SeededRng) -> Vec<Arc<str>> {
    let mut taken = BTreeSet::new();
    let drawn = (0..NAMES_PER_POOL).map(|_| Arc::<str>::from(format!("{group}-{}", rng.suffix(5))));
    drawn.filter(|name| taken.insert(name.clone())).collect()
}

/// The initial nodes of a pool.
fn initial_nodes(group: &NodePool, names: &[Arc<str>], start: Moment) -> Vec<Object> {
    let created = |number: usize| start.plus_nanos(number as i64 * 37 * SECOND - AGE);
    names.iter().enumerate().map(|(number, name)| parse_object(&node(group, name, created(number)))).collect()
}

/// The node as the node lifecycle controller marks it when its kubelet stops posting its status.
pub(super) fn mark_unreachable(node: &Object, at: Moment) -> Option<Object> {
    let mut node = node.value().ok()?;
    let now = format_seconds(at);
    for condition in node["status"]["conditions"].as_array_mut()? {
        condition["status"] = "Unknown".into();
        condition["reason"] = "NodeStatusUnknown".into();
        condition["message"] = "Kubelet stopped posting node status.".into();
        condition["lastTransitionTime"] = now.as_str().into();
    }
    let taints = &mut node["spec"]["taints"];
    if !taints.is_array() {
        *taints = json!([]);
    }
    for effect in ["NoSchedule", "NoExecute"] {
        taints
            .as_array_mut()?
            .push(json!({"key": "node.kubernetes.io/unreachable", "effect": effect, "timeAdded": now}));
    }
    Some(parse_object(&node))
}

fn node(group: &NodePool, name: &str, created: Moment) -> Value {
    let NodePool { machine, cores, gibibytes, .. } = group;
    let mut labels = json!({
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": machine,
        POOL: group.name,
        DISK: group.disk,
        "topology.kubernetes.io/region": "north-1",
        "topology.kubernetes.io/zone": ZONE,
    });
    let mut taints = Vec::new();
    if let Some(value) = group.dedicated {
        taints.push(json!({"key": DEDICATED, "value": value, "effect": "NoSchedule"}));
    }
    if group.name == "control-plane" {
        labels["node-role.kubernetes.io/control-plane"] = "".into();
        taints.push(json!({"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}));
    }
    let since = format_seconds(created);
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "lastTransitionTime": since, "reason": reason, "message": message});
    let mut spec = json!({"providerID": provider_id(group, name)});
    if !taints.is_empty() {
        spec["taints"] = taints.into();
    }
    // Reserved for kubelet and system: a tenth of a core, a little over a gibibyte.
    let amounts = |milli_cpu: i64, mebibytes: i64| json!({"cpu": format!("{milli_cpu}m"), "memory": format!("{mebibytes}Mi"), "ephemeral-storage": "95Gi", "pods": "110"});
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": provider_id(group, name),
            "creationTimestamp": since,
            "labels": labels,
        },
        "spec": spec,
        "status": {
            "capacity": amounts(cores * 1_000, gibibytes * 1_024),
            "allocatable": amounts(cores * 1_000 - 100, gibibytes * 1_024 - 1_280),
            "conditions": [
                condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
                condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
                condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
                condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
            ],
            "nodeInfo": {
                "architecture": "amd64",
                "containerRuntimeVersion": "containerd://2.2.1",
                "kernelVersion": "6.12.57",
                "kubeletVersion": "v1.36.4",
                "operatingSystem": "linux",
                "osImage": "Debian GNU/Linux 13 (trixie)",
            },
        },
    })
}

/// The provider ID of a node.
fn provider_id(group: &NodePool, name: &str) -> String {
    format!("cloud://{ZONE}/{}/{name}", group.name)
}

/// A time in Kubernetes' format, with whole seconds.
pub(super) fn format_seconds(moment: Moment) -> String {
    Moment::from_nanos(moment.nanos().div_euclid(SECOND) * SECOND).to_string()
}

pub(super) fn parse_object(value: &Value) -> Object {
    Object::parse(&value.to_string()).expect("the object has a kind and a name")
}
