//! Where the pods of DaemonSets run, and what they tolerate there.

use serde_json::{Map, Value, json};

use crate::scheduler::labels::Labels;
use crate::scheduler::pod::Shape;
use crate::scheduler::taints::{NO_EXECUTE, Taint, first_untolerated, tolerated};

/// What a DaemonSet wants with a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wants {
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

/// What a DaemonSet wants with a node, by name, labels and taints. Room does not count.
pub(crate) fn wants(shape: &Shape, name: &str, labels: &Labels, taints: &[Taint]) -> Wants {
    if !shape.selects(name, labels) {
        return Wants::default();
    }
    let drives_out = |taint: &Taint| *taint.effect == *NO_EXECUTE && !tolerated(&shape.tolerations, taint);
    Wants {
        run: first_untolerated(taints, &shape.tolerations).is_none(),
        keep: !taints.iter().any(drives_out),
    }
}

/// Adds to a pod's spec what pods of DaemonSets tolerate. One that is there for a while only is made to last.
pub(crate) fn add_tolerations(spec: &mut Map<String, Value>) {
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
