//! Node and pod objects of new machines.

use std::sync::Arc;

use autoscaler::{Membership, NodeGroup};
use kubernetes::time::whole_second;
use kubernetes::well_known::{HOSTNAME, NODE_NOT_READY};
use model::{Moment, Object};
use serde_json::{Map, Value, json};

/// The provider id of a group's machine.
pub(super) fn provider_id(group: &NodeGroup, name: &str) -> Arc<str> {
    match &group.members {
        Membership::ProviderIdPrefix(prefix) => format!("{prefix}{name}").into(),
        _ => format!("kinescope://{}/{name}", group.name).into(),
    }
}

/// The node group that a provider id names, if this cloud made the id.
pub fn group_of_provider_id(provider_id: &str) -> Option<&str> {
    provider_id.strip_prefix("kinescope://")?.rsplit_once('/').map(|(group, _)| group)
}

/// The Node object of a machine, made from its group's template.
pub(super) fn node_from_template(
    group: &NodeGroup,
    id: &str,
    name: &str,
    at: Moment,
    is_ready: bool,
) -> Object {
    let mut node = from_template(&group.template, name, id, at);
    nested_field(&mut node, "metadata", "labels").insert(HOSTNAME.to_owned(), name.into());
    object_field(&mut node, "spec").insert("providerID".to_owned(), id.into());
    let taints = object_field(&mut node, "spec").entry("taints").or_insert(Value::Null);
    let mut template_taints = taints.take();
    let new_taints = template_taints.as_array_mut().map(std::mem::take).unwrap_or_default();
    let mut new_taints: Vec<Value> =
        new_taints.into_iter().filter(|taint| taint["key"] != NODE_NOT_READY).collect();
    if !is_ready {
        new_taints.push(json!({"key": NODE_NOT_READY, "effect": "NoSchedule"}));
    }
    object_field(&mut node, "spec").insert("taints".to_owned(), new_taints.into());
    object_field(&mut node, "status").insert("conditions".to_owned(), json!([ready_condition(is_ready, at)]));
    Object::from_trusted(node.to_string())
}

/// The pods of a new node, made from its group's pod templates.
pub(super) fn pods_from_template(group: &NodeGroup, name: &str, at: Moment) -> Vec<Object> {
    let pod = |template: &Object| {
        let pod_name = format!("{}-{name}", template.meta().name);
        let uid = format!("{pod_name}-{}", at.nanos());
        let mut pod = from_template(template, &pod_name, &uid, at);
        object_field(&mut pod, "spec").insert("nodeName".to_owned(), name.into());
        Object::from_trusted(pod.to_string())
    };
    group.pods.iter().map(pod).collect()
}

/// The node with the condition `Ready` true since that moment.
pub fn with_ready_condition(node: &Object, at: Moment) -> Object {
    let Ok(mut value) = node.value() else { return node.clone() };
    if let Some(taints) = value.pointer_mut("/spec/taints").and_then(Value::as_array_mut) {
        taints.retain(|taint| taint["key"] != NODE_NOT_READY);
    }
    let conditions = object_field(&mut value, "status").entry("conditions").or_insert(Value::Null);
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    if let Some(conditions) = conditions.as_array_mut() {
        conditions.retain(|condition| condition["type"] != "Ready");
        conditions.push(ready_condition(true, at));
    }
    Object::from_trusted(value.to_string())
}

fn ready_condition(is_ready: bool, at: Moment) -> Value {
    let status = if is_ready { "True" } else { "False" };
    json!({"type": "Ready", "status": status, "lastTransitionTime": whole_second(at).to_string()})
}

/// A new object made from a template.
fn from_template(template: &Object, name: &str, uid: &str, at: Moment) -> Value {
    let mut value = template.value().unwrap_or(Value::Null);
    let metadata = object_field(&mut value, "metadata");
    for key in ["resourceVersion", "managedFields", "generation", "selfLink"] {
        metadata.remove(key);
    }
    metadata.insert("name".to_owned(), name.into());
    metadata.insert("uid".to_owned(), uid.into());
    metadata.insert("creationTimestamp".to_owned(), whole_second(at).to_string().into());
    value
}

/// A field of an object; a value that is not an object is replaced by an empty one.
fn object_field<'a>(value: &'a mut Value, key: &str) -> &'a mut Map<String, Value> {
    map_field(as_map(value), key)
}

fn nested_field<'a>(value: &'a mut Value, key: &str, inner: &str) -> &'a mut Map<String, Value> {
    map_field(object_field(value, key), inner)
}

fn map_field<'a>(map: &'a mut Map<String, Value>, key: &str) -> &'a mut Map<String, Value> {
    as_map(map.entry(key).or_insert(Value::Null))
}

fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("the value was just made an object")
}

#[cfg(test)]
mod tests {
    use super::*;
    use autoscaler::Provisioning;

    #[test]
    fn a_new_node_is_its_template_under_its_own_name() {
        let template = r#"{"apiVersion":"v1","kind":"Node",
            "metadata":{"name":"t","resourceVersion":"7","labels":{"pool":"a","kubernetes.io/hostname":"t"}},
            "spec":{"taints":[{"key":"gpu","effect":"NoSchedule"}]},
            "status":{"allocatable":{"cpu":"4"},"conditions":[{"type":"Ready","status":"Unknown"}]}}"#;
        let group = NodeGroup {
            name: "a".into(),
            min: 0,
            max: 1,
            target: None,
            members: Membership::Label { key: "pool".into(), value: "a".into() },
            template: Object::parse(template).unwrap(),
            pods: vec![Object::from_trusted(
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"s","name":"proxy"}}"#,
            )],
            template_pods: vec![Object::from_trusted(
                r#"{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"s","name":"never"}}"#,
            )],
            price: None,
            options: None,
            provisioning: Provisioning::default(),
            failures: Vec::new(),
        };
        let id = provider_id(&group, "a-1");
        assert_eq!(group_of_provider_id(&id), Some("a"));
        let at = Moment::from_nanos(1_500_000_000);
        let node = node_from_template(&group, &id, "a-1", at, false);
        let expected = json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "a-1", "uid": "kinescope://a/a-1", "creationTimestamp": "1970-01-01T00:00:01Z",
                "labels": {"pool": "a", "kubernetes.io/hostname": "a-1"}},
            "spec": {"providerID": "kinescope://a/a-1", "taints": [
                {"key": "gpu", "effect": "NoSchedule"}, {"key": NODE_NOT_READY, "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "4"}, "conditions": [
                {"type": "Ready", "status": "False", "lastTransitionTime": "1970-01-01T00:00:01Z"}]}});
        assert_eq!(node.value().unwrap(), expected);
        let later = with_ready_condition(&node, Moment::from_nanos(9_000_000_000)).value().unwrap();
        assert_eq!(later["spec"]["taints"], json!([{"key": "gpu", "effect": "NoSchedule"}]));
        assert_eq!(
            later["status"]["conditions"],
            json!([{"type": "Ready", "status": "True", "lastTransitionTime": "1970-01-01T00:00:09Z"}])
        );
        let pods = pods_from_template(&group, "a-1", at);
        assert_eq!(pods.len(), 1, "template pods are not created");
        assert_eq!(
            (&*pods[0].meta().name, pods[0].value().unwrap()["spec"]["nodeName"].clone()),
            ("proxy-a-1", json!("a-1"))
        );
    }
}
