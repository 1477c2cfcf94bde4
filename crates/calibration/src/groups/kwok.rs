//! Node groups of cluster-autoscaler's kwok provider, which reads them from ConfigMaps or from existing nodes.

use std::time::Duration;

use autoscaler::node_template::parse_object;
use autoscaler::{Delay, Membership, NodeGroup, Provisioning, yaml};
use serde_json::{Value, json};

use super::{DerivedGroups, SourceObjects, annotation, label, name};

const CONFIG: &str = "kwok-provider-config";
const GROUP: &str = "cluster-autoscaler.kwok.nodegroup/name";
const MIN: &str = "cluster-autoscaler.kwok.nodegroup/min-count";
const MAX: &str = "cluster-autoscaler.kwok.nodegroup/max-count";

/// The label or annotation that assigns nodes to groups.
enum GroupKey<'a> {
    Label(&'a str),
    Annotation(&'a str),
}

/// Adds the groups of the kwok provider, if the cluster has one.
pub(super) fn add_groups(source_objects: &SourceObjects, derived: &mut DerivedGroups) {
    if source_objects.cloud_provider().is_some_and(|cloud| cloud != "kwok") {
        return;
    }
    let Some(config_map) = source_objects.config_map(CONFIG) else { return };
    if let Err(error) = read(config_map, source_objects, derived) {
        derived.assumptions.push(format!("ConfigMap {CONFIG} is ignored: {error}"));
    }
}

fn read(
    config_map: &Value,
    source_objects: &SourceObjects,
    derived: &mut DerivedGroups,
) -> Result<(), String> {
    let config = yaml::parse(config_map["data"]["config"].as_str().ok_or("config is missing")?)?;
    let key = |field: &str| config["nodegroups"][field].as_str().filter(|key| !key.trim().is_empty());
    let group_key = match (key("fromNodeLabelKey"), key("fromNodeAnnotationKey")) {
        (Some(key), None) => GroupKey::Label(key),
        (None, Some(key)) => GroupKey::Annotation(key),
        _ => return Err("expected exactly one of fromNodeLabelKey and fromNodeAnnotationKey".to_owned()),
    };
    let nodes = match config["readNodesFrom"].as_str() {
        Some("configmap") => {
            templates(config["configmap"]["name"].as_str().unwrap_or_default(), source_objects)?
        }
        Some("cluster") => {
            derived.assumptions.push(
                "node groups are derived from the nodes that exist now, as by the kwok provider at its start"
                    .to_owned(),
            );
            source_objects.nodes.clone()
        }
        _ => return Err("readNodesFrom must be configmap or cluster".to_owned()),
    };
    let with_taint = config["nodes"]["skipTaint"] != true;
    if let Some(key) = config["nodes"]["gpuConfig"]["gpuLabelKey"].as_str() {
        derived.gpu_label = key.into();
    }
    for node in &nodes {
        let group_value = match group_key {
            GroupKey::Label(key) => label(node, key),
            GroupKey::Annotation(key) => annotation(node, key),
        };
        let Some(group_value) = group_value else { continue };
        let group = annotation(node, GROUP).unwrap_or(group_value);
        if derived.groups.iter().any(|other| &*other.name == group) {
            continue;
        }
        match node_group(node, group, with_taint) {
            Ok(group) => derived.groups.push(group),
            Err(error) => derived.assumptions.push(format!("node group {group} is ignored: {error}")),
        }
    }
    if !derived.groups.is_empty() {
        derived.assumptions.push(format!(
            "node groups are those of the kwok provider: new nodes are created immediately, target sizes are the numbers of nodes, and groups are in the order of {CONFIG}"
        ));
    }
    Ok(())
}

fn templates(name: &str, source_objects: &SourceObjects) -> Result<Vec<Value>, String> {
    let config_map =
        source_objects.config_map(name).ok_or_else(|| format!("ConfigMap {name:?} not found"))?;
    let text = config_map["data"]["templates"].as_str().ok_or_else(|| format!("{name} has no templates"))?;
    let mut documents = yaml::parse_all(text)?;
    documents.retain(|document| !document.is_null());
    if let [list] = documents.as_mut_slice()
        && list["kind"] == "List"
        && let Value::Array(items) = list["items"].take()
    {
        documents = items;
    }
    documents.retain(|document| document["kind"] == "Node");
    Ok(documents)
}

fn node_group(node: &Value, group: &str, with_taint: bool) -> Result<NodeGroup, String> {
    let size = |key: &str, default_size: i64| match annotation(node, key) {
        Some(text) => text.parse::<i64>().map_err(|_| format!("{key}: {text:?} is not an integer")),
        None => Ok(default_size),
    };
    let (min, max) = (size(MIN, 0)?, size(MAX, 200)?);
    if min < 0 || max < min {
        return Err(format!("invalid sizes: min {min}, max {max}"));
    }
    let no_delay = Delay::Constant(Duration::ZERO);
    Ok(NodeGroup {
        name: group.into(),
        min,
        max,
        target: None,
        members: Membership::Annotation { key: GROUP.into(), value: group.into() },
        template: parse_object(&template(node.clone(), group, with_taint))
            .ok_or("the template is not a Node")?,
        pods: Vec::new(),
        template_pods: parse_object(&kube_proxy(group)).into_iter().collect(),
        price: None,
        options: None,
        provisioning: Provisioning { registers_after: no_delay.clone(), ready_after: no_delay },
        failures: Vec::new(),
    })
}

/// Returns the template that the provider creates from a node.
fn template(mut node: Value, group: &str, with_taint: bool) -> Value {
    let name = format!("kwok-fake-{}", name(&node));
    let Some(metadata) = node["metadata"].as_object_mut() else { return node };
    for field in ["resourceVersion", "generation", "uid", "creationTimestamp", "managedFields"] {
        metadata.remove(field);
    }
    metadata.insert("name".to_owned(), json!(name));
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert("kwok.x-k8s.io/node".to_owned(), json!("fake"));
        annotations.insert(GROUP.to_owned(), json!(group));
    }
    if !node["spec"].is_object() {
        node["spec"] = json!({});
    }
    node["spec"]["providerID"] = json!(format!("kwok:{name}"));
    if with_taint {
        let taint = json!({ "key": "kwok-provider", "value": "true", "effect": "NoSchedule" });
        match node["spec"]["taints"].as_array_mut() {
            Some(taints) => taints.push(taint),
            None => node["spec"]["taints"] = json!([taint]),
        }
    }
    node
}

/// The pod that the autoscaler expects on every new node of this provider. The provider creates only Nodes, so none has
/// it.
fn kube_proxy(group: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": format!("kube-proxy-{group}"),
            "namespace": "kube-system",
            "labels": { "component": "kube-proxy", "tier": "node" },
            "annotations": {
                "kubernetes.io/config.source": "file",
                "kubernetes.io/config.mirror": "1234567890abcdef",
            },
        },
        "spec": {
            "containers": [{ "image": "kubeproxy", "resources": { "requests": { "cpu": "100m" } } }],
            "priority": 2_000_000_000,
        },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": "True" }] },
    })
}
