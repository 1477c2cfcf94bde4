//! Pod admission: a pod built from a workload's template, with the defaults and the priority that an API server sets,
//! and without runtime state.

mod containers;
mod limit_range;
mod priority;
mod runtime_class;

use serde_json::{Map, Value, json};

pub use containers::default_containers;
pub use limit_range::{set_default_resources, violations};
pub use priority::resolve_priority;
pub use runtime_class::apply_runtime_class;

/// The pod that a workload would create from its template, named after the workload, or the first pod of a
/// StatefulSet. A Pod is returned as it is.
///
/// `None` for kinds that create no pods, and for DaemonSets, each of whose pods is for a specific node.
pub fn pod_from_template(object: &Value) -> Option<Value> {
    let template = match kind_of(object) {
        ("", "Pod") => return Some(object.clone()),
        ("", "ReplicationController")
        | ("apps", "Deployment" | "ReplicaSet" | "StatefulSet")
        | ("batch", "Job") => object.pointer("/spec/template")?,
        ("batch", "CronJob") => object.pointer("/spec/jobTemplate/spec/template")?,
        ("", "PodTemplate") => object.get("template")?,
        _ => return None,
    };
    let mut metadata = template["metadata"].as_object().cloned().unwrap_or_default();
    metadata.insert("name".to_owned(), object["metadata"]["name"].clone());
    if let Some(namespace) = object["metadata"].get("namespace") {
        metadata.insert("namespace".to_owned(), namespace.clone());
    }
    if let Some(controller) = pod_owner_of(object) {
        let reference = json!({
            "apiVersion": controller["apiVersion"],
            "kind": controller["kind"],
            "name": controller["metadata"]["name"],
            "uid": controller["metadata"].get("uid").cloned().unwrap_or_else(|| "".into()),
            "controller": true,
        });
        metadata.insert("ownerReferences".to_owned(), json!([reference]));
    }
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]});
    if kind_of(object) == ("apps", "StatefulSet") {
        make_first_stateful_pod(&mut pod, &object["spec"]["volumeClaimTemplates"]);
    }
    Some(pod)
}

/// The owner of the pods that a workload creates: the workload itself, or the object that it creates in turn, under
/// the workload's name. The ReplicaSet of a Deployment selects all pods that the Deployment does.
///
/// `None` for kinds that create no pods, or pods without an owner.
pub fn pod_owner_of(object: &Value) -> Option<Value> {
    let made = |api_version: &str, kind: &str, spec: Value| {
        let metadata = json!({
            "name": object["metadata"]["name"],
            "namespace": object["metadata"]["namespace"].as_str().unwrap_or_default(),
        });
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec})
    };
    match kind_of(object) {
        ("", "ReplicationController") | ("apps", "ReplicaSet" | "StatefulSet") | ("batch", "Job") => {
            Some(object.clone())
        }
        ("apps", "Deployment") => {
            Some(made("apps/v1", "ReplicaSet", json!({"selector": object["spec"]["selector"]})))
        }
        ("batch", "CronJob") => Some(made("batch/v1", "Job", json!({}))),
        _ => None,
    }
}

/// Applies the defaults of an API server and its usual admission plugins, as far as a scheduler sees them: requests
/// from limits, host ports on the host network, the priority of the class among `classes`, default tolerations of
/// not-ready and unreachable nodes. LimitRanges and RuntimeClasses are ignored.
pub fn admit(pod: &mut Value, classes: &[Value]) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    default_containers(spec);
    set_priority(spec, classes);
    add_default_tolerations(spec);
}

/// Removes a pod's runtime state: its node, its status, its deletion.
pub fn remove_runtime_state(pod: &mut Value) {
    for (part, field) in [("metadata", "deletionTimestamp"), ("spec", "nodeName")] {
        if let Some(fields) = pod.get_mut(part).and_then(Value::as_object_mut) {
            fields.remove(field);
        }
    }
    if let Some(fields) = pod.as_object_mut() {
        fields.remove("status");
    }
}

/// Group and kind.
fn kind_of(object: &Value) -> (&str, &str) {
    let group =
        object["apiVersion"].as_str().unwrap_or_default().split_once('/').map_or("", |(group, _)| group);
    (group, object["kind"].as_str().unwrap_or_default())
}

/// Turns a pod named after its StatefulSet into the set's first pod, with the volumes of its own claims.
fn make_first_stateful_pod(pod: &mut Value, claims: &Value) {
    let name = format!("{}-0", pod["metadata"]["name"].as_str().unwrap_or_default());
    pod["metadata"]["name"] = name.as_str().into();
    let labels = &mut pod["metadata"]["labels"];
    if labels.is_null() {
        *labels = json!({});
    }
    if let Some(labels) = labels.as_object_mut() {
        labels.insert("statefulset.kubernetes.io/pod-name".to_owned(), name.as_str().into());
        labels.insert("apps.kubernetes.io/pod-index".to_owned(), "0".into());
    }
    let names: Vec<&str> = claims
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|claim| claim["metadata"]["name"].as_str())
        .collect();
    let Some(spec) = pod["spec"].as_object_mut().filter(|_| !names.is_empty()) else { return };
    let claimed = names.iter().map(
        |claim| json!({"name": claim, "persistentVolumeClaim": {"claimName": format!("{claim}-{name}")}}),
    );
    let mut volumes: Vec<Value> = claimed.collect();
    // A claim replaces a volume of the same name.
    let own = spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
    volumes.extend(own.filter(|own| !names.iter().any(|name| own["name"] == *name)).cloned());
    spec.insert("volumes".to_owned(), volumes.into());
}

fn set_priority(spec: &mut Map<String, Value>, classes: &[Value]) {
    if spec.get("priority").is_some_and(|priority| !priority.is_null()) {
        return;
    }
    let (value, policy) = match spec.get("priorityClassName").and_then(Value::as_str) {
        Some("system-node-critical") => (json!(2_000_001_000), Value::Null),
        Some("system-cluster-critical") => (json!(2_000_000_000), Value::Null),
        Some(name) if !name.is_empty() => {
            match classes.iter().find(|class| class["metadata"]["name"] == name) {
                Some(class) => (class["value"].clone(), class["preemptionPolicy"].clone()),
                None => return,
            }
        }
        _ => match classes.iter().find(|class| class["globalDefault"] == true) {
            Some(class) => (class["value"].clone(), class["preemptionPolicy"].clone()),
            None => return,
        },
    };
    spec.insert("priority".to_owned(), value);
    if !policy.is_null() && spec.get("preemptionPolicy").is_none_or(Value::is_null) {
        spec.insert("preemptionPolicy".to_owned(), policy);
    }
}

/// Adds the tolerations of not-ready and unreachable nodes, for five minutes.
pub fn add_default_tolerations(spec: &mut Map<String, Value>) {
    let tolerations = spec.entry("tolerations").or_insert(Value::Null);
    if tolerations.is_null() {
        *tolerations = json!([]);
    }
    let Some(tolerations) = tolerations.as_array_mut() else { return };
    let text = |toleration: &Value, field: &str| toleration[field].as_str().unwrap_or_default().to_owned();
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let has_one = tolerations.iter().any(|own| {
            ["", key].contains(&&*text(own, "key")) && ["", "NoExecute"].contains(&&*text(own, "effect"))
        });
        if !has_one {
            tolerations.push(
                json!({"effect": "NoExecute", "key": key, "operator": "Exists", "tolerationSeconds": 300}),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_makes_the_pod_of_its_template() {
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}});
        for (api_version, kind, spec) in [
            ("apps/v1", "Deployment", json!({"template": template})),
            ("v1", "ReplicationController", json!({"template": template})),
            ("batch/v1", "CronJob", json!({"jobTemplate": {"spec": {"template": template}}})),
        ] {
            let workload = json!({
                "apiVersion": api_version, "kind": kind, "metadata": {"name": "web", "namespace": "shop"}, "spec": spec,
            });
            let pod = pod_from_template(&workload).unwrap();
            assert_eq!((&pod["kind"], &pod["apiVersion"]), (&json!("Pod"), &json!("v1")));
            assert_eq!(pod["metadata"]["name"], "web");
            assert_eq!(pod["metadata"]["namespace"], "shop");
            assert_eq!(pod["metadata"]["labels"], json!({"app": "web"}));
            let owner = match kind {
                "Deployment" => "ReplicaSet",
                "CronJob" => "Job",
                own => own,
            };
            let reference = &pod["metadata"]["ownerReferences"][0];
            assert_eq!((&reference["kind"], &reference["name"]), (&json!(owner), &json!("web")));
            let controller = pod_owner_of(&workload).unwrap();
            assert_eq!(
                (&controller["kind"], &controller["metadata"]["namespace"]),
                (&json!(owner), &json!("shop"))
            );
        }
        let template = json!({
            "apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "web"}, "template": template,
        });
        assert_eq!(pod_from_template(&template).unwrap()["metadata"].get("ownerReferences"), None);
        let template = &template["template"];
        for none in ["DaemonSet", "Service"] {
            let object = json!({"apiVersion": "apps/v1", "kind": none, "spec": {"template": template}});
            assert_eq!(pod_from_template(&object), None, "{none}");
        }
    }

    #[test]
    fn the_replica_set_of_a_deployment_has_its_selector() {
        let selector = json!({"matchLabels": {"app": "web"}});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"selector": selector},
        });
        assert_eq!(pod_owner_of(&deployment).unwrap()["spec"], json!({"selector": selector}));
    }

    #[test]
    fn the_first_pod_of_a_stateful_set_claims_its_volumes() {
        let volumes = json!([{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]);
        let set = json!({
            "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db"},
            "spec": {
                "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"volumes": volumes}},
                "volumeClaimTemplates": [{"metadata": {"name": "data"}}, {"metadata": {"name": "log"}}, "nonsense"],
            },
        });
        let pod = pod_from_template(&set).unwrap();
        assert_eq!(pod["metadata"]["name"], "db-0");
        assert_eq!(
            pod["metadata"]["labels"],
            json!({"app": "db", "statefulset.kubernetes.io/pod-name": "db-0", "apps.kubernetes.io/pod-index": "0"})
        );
        assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], "db");
        let claim =
            |name: &str, claim: &str| json!({"name": name, "persistentVolumeClaim": {"claimName": claim}});
        assert_eq!(
            pod["spec"]["volumes"],
            json!([claim("data", "data-db-0"), claim("log", "log-db-0"), {"name": "tmp", "emptyDir": {}}])
        );
    }

    #[test]
    fn a_reset_pod_has_no_runtime_state() {
        let mut pod = json!({
            "metadata": {"name": "a", "deletionTimestamp": "2026-11-01T14:00:00Z"},
            "spec": {"nodeName": "b", "priority": 1}, "status": {"phase": "Running"},
        });
        remove_runtime_state(&mut pod);
        assert_eq!(pod, json!({"metadata": {"name": "a"}, "spec": {"priority": 1}}));
        remove_runtime_state(&mut json!([]));
    }

    #[test]
    fn limits_become_requests_that_are_not_there() {
        let resources = json!({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}});
        let mut pod = json!({"spec": {"containers": [{"resources": resources}, {}]}});
        admit(&mut pod, &[]);
        let requests = &pod["spec"]["containers"][0]["resources"]["requests"];
        assert_eq!(*requests, json!({"cpu": "1", "memory": "1Gi"}));
    }

    #[test]
    fn ports_on_the_hosts_network_are_ports_of_the_host() {
        let ports = json!([{"containerPort": 80}, {"containerPort": 81, "hostPort": 82}]);
        let mut pod = json!({"spec": {"hostNetwork": true, "containers": [{"ports": ports}]}});
        admit(&mut pod, &[]);
        let ports = &pod["spec"]["containers"][0]["ports"];
        assert_eq!((&ports[0]["hostPort"], &ports[1]["hostPort"]), (&json!(80), &json!(82)));
    }

    #[test]
    fn a_class_gives_its_priority() {
        let classes = [
            json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"}),
            json!({"metadata": {"name": "usual"}, "value": 7, "globalDefault": true}),
        ];
        let admitted = |spec: Value| {
            let mut pod = json!({"spec": spec});
            admit(&mut pod, &classes);
            (pod["spec"]["priority"].clone(), pod["spec"]["preemptionPolicy"].clone())
        };
        assert_eq!(admitted(json!({"priorityClassName": "high"})), (json!(1000), json!("Never")));
        assert_eq!(admitted(json!({})), (json!(7), Value::Null));
        assert_eq!(admitted(json!({"priority": 3, "priorityClassName": "high"})), (json!(3), Value::Null));
        assert_eq!(admitted(json!({"priorityClassName": "system-node-critical"})).0, 2_000_001_000);
        assert_eq!(admitted(json!({"priorityClassName": "unknown"})), (Value::Null, Value::Null));
    }

    #[test]
    fn absence_is_tolerated_for_five_minutes_unless_said_otherwise() {
        let tolerations = |own: Value| {
            let mut pod = json!({"spec": {"tolerations": own}});
            admit(&mut pod, &[]);
            pod["spec"]["tolerations"].as_array().unwrap().len()
        };
        assert_eq!(tolerations(Value::Null), 2);
        assert_eq!(tolerations(json!([{"operator": "Exists"}])), 1);
        let own = json!([{"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}]);
        assert_eq!(tolerations(own), 2);
    }
}
