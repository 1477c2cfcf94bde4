//! Where the pods of DaemonSets run, and what they tolerate there.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::labels::Labels;
use crate::read::nullable;
use crate::selector::{NodeSelector, RequiredNodeAffinity};
use crate::taints::{NO_EXECUTE, Taint, Toleration, first_untolerated, tolerated};

/// What a DaemonSet wants with a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// A pod is to be there.
    pub run: bool,
    /// One that is there may stay.
    pub keep: bool,
}

/// What the pods of DaemonSets tolerate, whatever their template says: key and effect.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// What those tolerate that use the node's network.
const TOLERATED_ON_HOST_NETWORK: (&str, &str) = ("node.kubernetes.io/network-unavailable", "NoSchedule");

/// What the template of a DaemonSet says of the nodes that get a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DaemonNodes {
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

impl DaemonNodes {
    /// Reads the spec of a pod that has its tolerations already.
    pub fn read(spec: &Map<String, Value>) -> Result<DaemonNodes, serde_json::Error> {
        let json = SpecJson::deserialize(spec)?;
        let affinity = json.affinity.node_affinity.required;
        let required = RequiredNodeAffinity::new(json.node_selector.as_ref(), affinity);
        Ok(DaemonNodes { required, tolerations: json.tolerations })
    }

    /// What the DaemonSet wants with a node. Room does not count.
    pub fn wants(&self, name: &str, labels: &Labels, taints: &[Taint]) -> Wants {
        wants(&self.required, &self.tolerations, name, labels, taints)
    }
}

/// What a DaemonSet whose pods require this and tolerate that wants with a node. Room does not count.
pub fn wants(
    required: &RequiredNodeAffinity,
    tolerations: &[Toleration],
    name: &str,
    labels: &Labels,
    taints: &[Taint],
) -> Wants {
    if !required.selects(name, labels) {
        return Wants::default();
    }
    let drives_out = |taint: &Taint| *taint.effect == *NO_EXECUTE && !tolerated(tolerations, taint);
    Wants { run: first_untolerated(taints, tolerations).is_none(), keep: !taints.iter().any(drives_out) }
}

/// Adds to a pod's spec what pods of DaemonSets tolerate. One that is there for a while only is made to last.
pub fn add_tolerations(spec: &mut Map<String, Value>) {
    let on_host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    let tolerations = spec.entry("tolerations").or_insert_with(|| json!([]));
    if tolerations.is_null() {
        *tolerations = json!([]);
    }
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    for (key, effect) in TOLERATED.into_iter().chain(on_host_network.then_some(TOLERATED_ON_HOST_NETWORK)) {
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
