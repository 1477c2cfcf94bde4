//! The pods that DaemonSets have on new nodes.

use model::{Moment, Object, What};
use scheduler::{Fit, Settings};
use serde_json::{Value, json};

/// The pod that a DaemonSet has on a node.
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
    Object::trusted(pod.to_string())
}

/// Whether the DaemonSet controller would run a pod there: name, selectors, affinity and taints count, room does not.
pub(super) fn wants(set: &Value, node: &Object) -> bool {
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
    let mut fit = Fit::new(&Settings::default());
    fit.apply(&What::Added(node.clone()));
    let pod = Object::trusted(pod.to_string());
    fit.apply(&What::Added(pod.clone()));
    fit.first(&pod.meta().namespace, &pod.meta().name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n-1","labels":{"pool":"n"}},
        "spec":{"taints":[{"key":"gpu","effect":"NoSchedule"}]},"status":{"allocatable":{"cpu":"1","pods":"9"}}}"#;

    #[test]
    fn a_daemon_set_wants_nodes_that_its_pods_select_and_tolerate_however_full() {
        let set = |spec: &str| {
            let set = format!(
                r#"{{"metadata":{{"name":"d","namespace":"b"}},"spec":{{"template":{{"spec":{{{spec}
                    "containers":[{{"name":"c","resources":{{"requests":{{"cpu":"99"}}}}}}]}}}}}}}}"#
            );
            serde_json::from_str::<Value>(&set).unwrap()
        };
        let node = Object::parse(NODE).unwrap();
        let all = r#""tolerations":[{"operator":"Exists"}],"#;
        assert!(wants(&set(all), &node));
        assert!(!wants(&set(""), &node), "the taint");
        assert!(!wants(&set(&format!(r#"{all}"nodeSelector":{{"pool":"m"}},"#)), &node));
        let cordoned = NODE.replace(r#""taints""#, r#""unschedulable":true,"taints""#);
        assert!(wants(&set(all), &Object::parse(&cordoned).unwrap()));
    }
}
