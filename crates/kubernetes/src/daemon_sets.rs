//! DaemonSet pods: the nodes on which they should run, and their automatic tolerations.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::labels::Labels;
use crate::read::nullable;
use crate::selector::{NodeSelector, RequiredNodeAffinity};
use crate::taints::{NO_EXECUTE, Taint, Toleration, first_untolerated, is_tolerated};

/// Result of Kubernetes' `NodeShouldRunDaemonPod`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DaemonPodPlacement {
    /// A pod should run on the node.
    pub should_run: bool,
    /// A pod already on the node should continue running.
    pub should_continue_running: bool,
}

/// Tolerations that every DaemonSet pod gets, whatever its template has: key and effect.
const DAEMON_TOLERATIONS: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// The additional toleration of pods that use the host network.
const HOST_NETWORK_TOLERATION: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// The parts of a DaemonSet's pod template that select nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonNodeSelector {
    required: RequiredNodeAffinity,
    tolerations: Vec<Toleration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SpecJson {
    node_selector: Option<Labels>,
    #[serde(default, deserialize_with = "nullable")]
    affinity: AffinityJson,
    #[serde(default, deserialize_with = "nullable")]
    tolerations: Vec<Toleration>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct AffinityJson {
    #[serde(deserialize_with = "nullable")]
    node_affinity: NodeAffinityJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeAffinityJson {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector>,
}

impl DaemonNodeSelector {
    /// Reads the spec of a pod that already has the automatic tolerations.
    pub fn read(spec: &Map<String, Value>) -> Result<DaemonNodeSelector, serde_json::Error> {
        let json = SpecJson::deserialize(spec)?;
        let affinity = json.affinity.node_affinity.required;
        let required = RequiredNodeAffinity::new(json.node_selector.as_ref(), affinity);
        Ok(DaemonNodeSelector { required, tolerations: json.tolerations })
    }

    /// Whether the DaemonSet's pod should run on a node. Free resources are not considered.
    pub fn node_should_run_daemon_pod(
        &self,
        name: &str,
        labels: &Labels,
        taints: &[Taint],
    ) -> DaemonPodPlacement {
        node_should_run_daemon_pod(&self.required, &self.tolerations, name, labels, taints)
    }
}

/// Whether a DaemonSet pod with this node affinity and these tolerations should run on a node. Free resources are not
/// considered.
pub fn node_should_run_daemon_pod(
    required: &RequiredNodeAffinity,
    tolerations: &[Toleration],
    name: &str,
    labels: &Labels,
    taints: &[Taint],
) -> DaemonPodPlacement {
    if !required.selects(name, labels) {
        return DaemonPodPlacement::default();
    }
    let drives_out = |taint: &Taint| *taint.effect == *NO_EXECUTE && !is_tolerated(tolerations, taint);
    DaemonPodPlacement {
        should_run: first_untolerated(taints, tolerations).is_none(),
        should_continue_running: !taints.iter().any(drives_out),
    }
}

/// Adds the automatic tolerations to a DaemonSet pod's spec. A matching one with `tolerationSeconds` is replaced by
/// one without.
pub fn add_daemon_pod_tolerations(spec: &mut Map<String, Value>) {
    let on_host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if tolerations.is_null() {
        *tolerations = json!([]);
    }
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    for (key, effect) in
        DAEMON_TOLERATIONS.into_iter().chain(on_host_network.then_some(HOST_NETWORK_TOLERATION))
    {
        let toleration = json!({"key": key, "operator": "Exists", "effect": effect});
        let same = |own: &Value| {
            ["key", "operator", "effect", "value"].iter().all(|field| {
                own[*field].as_str().unwrap_or_default() == toleration[*field].as_str().unwrap_or_default()
            })
        };
        match tolerations.iter_mut().find(|own| same(own)) {
            Some(own) => *own = toleration,
            None => tolerations.push(toleration),
        }
    }
}
