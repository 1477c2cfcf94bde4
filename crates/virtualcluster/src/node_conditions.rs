//! The conditions of a healthy node, as KWOK's stages write them.

use serde_json::{Value, json};

/// Type, status, reason and message of the conditions that a kubelet reports.
const KUBELET_CONDITIONS: [(&str, &str, &str, &str); 4] = [
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
];

/// The conditions that a kubelet reports, without times.
pub(crate) fn kubelet_conditions() -> Vec<Value> {
    let condition = |(kind, status, reason, message)| json!({"type": kind, "status": status, "reason": reason, "message": message});
    KUBELET_CONDITIONS.into_iter().map(condition).collect()
}
