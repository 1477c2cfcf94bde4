//! DaemonSet pods of new nodes.

use model::{Moment, Object, What};
use scheduler::{FirstFit, Settings};
use serde_json::{Value, json};

/// The pod of a DaemonSet for a node.
pub(super) fn daemon_pod(set: &Value, node: &str, now: Moment) -> Object {
    let text = |field: &str| set["metadata"][field].as_str().unwrap_or_default();
    let template = &set["spec"]["template"];
    let mut spec = template["spec"].clone();
    spec["nodeName"] = node.into();
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{}-{node}", text("name")), "namespace": text("namespace"),
            "uid": format!("{}-{node}", text("uid")), "creationTimestamp": now.to_string(),
            "labels": template["metadata"]["labels"], "annotations": template["metadata"]["annotations"],
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": text("name"),
                "uid": text("uid"), "controller": true}]},
        "spec": spec, "status": {"phase": "Running"}});
    Object::from_trusted(pod.to_string())
}

/// Whether the DaemonSet controller would run a pod on the node: it checks name, selector, affinity and taints, but not
/// free resources.
pub(super) fn should_run_daemon_pod(set: &Value, node: &Object) -> bool {
    let mut pod = daemon_pod(set, &node.meta().name, Moment::MIN).value().unwrap_or(Value::Null);
    let spec = &mut pod["spec"];
    spec["nodeName"] = Value::Null;
    spec["containers"] = json!([{"name": "c"}]);
    spec["initContainers"] = Value::Null;
    let mut tolerations = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let tolerated = [
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    ];
    let tolerated = tolerated
        .into_iter()
        .chain((spec["hostNetwork"] == true).then_some(("network-unavailable", "NoSchedule")));
    tolerations.extend(tolerated.map(|(key, effect)| {
        json!({"key": format!("node.kubernetes.io/{key}"), "operator": "Exists", "effect": effect})
    }));
    spec["tolerations"] = tolerations.into();
    pod["status"] = json!({"phase": "Pending"});
    let mut fit = FirstFit::new(&Settings::default());
    fit.apply(&What::Added(node.clone()));
    let pod = Object::from_trusted(pod.to_string());
    fit.apply(&What::Added(pod.clone()));
    fit.find_node(&pod.meta().namespace, &pod.meta().name).is_some()
}

#[cfg(test)]
mod tests {
    use testobjects::{PodBuilder, node, pod, resource};

    use super::*;

    #[test]
    fn a_daemon_set_runs_on_full_nodes_that_its_pods_select_and_tolerate() {
        let set = |pod: PodBuilder| {
            let set = resource("apps/v1", "DaemonSet", "d").namespace("b");
            set.set("spec.template.spec", pod.request("cpu", "99").json()["spec"].take()).json()
        };
        let plain = node("n-1").label("pool", "n").taint("gpu:NoSchedule").allocatable("cpu", "1");
        let plain = plain.allocatable("pods", "9");
        let tolerant = || pod("p").set("spec.tolerations", json!([{"operator": "Exists"}]));
        assert!(should_run_daemon_pod(&set(tolerant()), &plain.clone().object()));
        assert!(
            !should_run_daemon_pod(&set(pod("p")), &plain.clone().object()),
            "the taint is not tolerated"
        );
        assert!(!should_run_daemon_pod(&set(tolerant().node_selector("pool", "m")), &plain.clone().object()));
        assert!(should_run_daemon_pod(&set(tolerant()), &plain.cordoned().object()));
    }
}
