//! The parsed view of a node.

use std::sync::Arc;

use model::{Moment, Object};
use serde::Deserialize;

use super::meta::ObjectMeta;
use crate::labels::Labels;
use crate::read::{moment, nullable, view};
use crate::resource_list::ResourceList;
use crate::taints::Taint;

/// The fields of a node that components read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub name: Arc<str>,
    /// When it was created.
    pub creation_timestamp: Option<Moment>,
    /// Set while it is terminating.
    pub deletion_timestamp: Option<Moment>,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations.
    pub annotations: Labels,
    /// `spec.providerID`; empty if it has none.
    pub provider_id: Arc<str>,
    /// It is cordoned.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// `status.capacity`.
    pub capacity: ResourceList,
    /// `status.allocatable`.
    pub allocatable: ResourceList,
    /// Its conditions.
    pub conditions: Vec<NodeCondition>,
    /// The images on it, as listed.
    pub images: Vec<NodeImage>,
    /// `status.declaredFeatures`.
    pub declared_features: Vec<Arc<str>>,
    /// Its first address of the type `InternalIP`.
    pub internal_ip: Option<Arc<str>>,
    /// The error, if the object is unreadable. Such a view has only the name.
    pub read_error: Option<Arc<str>>,
}

/// A condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeCondition {
    /// `Ready`, for example.
    #[serde(rename = "type")]
    pub kind: Arc<str>,
    /// `True`, `False` or `Unknown`.
    pub status: Arc<str>,
    /// When the status last changed.
    #[serde(deserialize_with = "moment")]
    pub last_transition_time: Option<Moment>,
}

/// An image on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeImage {
    /// Its names, with tags and digests.
    #[serde(deserialize_with = "nullable")]
    pub names: Vec<Arc<str>>,
    /// Its size.
    #[serde(deserialize_with = "nullable")]
    pub size_bytes: i64,
}

#[derive(Deserialize)]
struct NodeJson {
    #[serde(default, deserialize_with = "nullable")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    spec: SpecJson,
    #[serde(default, deserialize_with = "nullable")]
    status: StatusJson,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct SpecJson {
    #[serde(rename = "providerID", deserialize_with = "nullable")]
    provider_id: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    unschedulable: bool,
    #[serde(deserialize_with = "nullable")]
    taints: Vec<Taint>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusJson {
    capacity: ResourceList,
    allocatable: ResourceList,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<NodeCondition>,
    #[serde(deserialize_with = "nullable")]
    images: Vec<NodeImage>,
    #[serde(deserialize_with = "nullable")]
    declared_features: Vec<Arc<str>>,
    #[serde(deserialize_with = "nullable")]
    addresses: Vec<NodeAddressJson>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeAddressJson {
    #[serde(rename = "type", deserialize_with = "nullable")]
    address_type: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    address: Arc<str>,
}

impl NodeView {
    /// Parses a Node object. An unreadable one has `read_error` set.
    pub fn parse(object: &Object) -> NodeView {
        let name: Arc<str> = object.meta().name.as_ref().into();
        let NodeJson { metadata, spec, status } = match view(object) {
            Ok(json) => json,
            Err(error) => return NodeView { name, read_error: Some(error.into()), ..NodeView::default() },
        };
        NodeView {
            name,
            creation_timestamp: metadata.creation_timestamp,
            deletion_timestamp: metadata.deletion_timestamp,
            labels: metadata.labels,
            annotations: metadata.annotations,
            provider_id: spec.provider_id,
            unschedulable: spec.unschedulable,
            taints: spec.taints,
            capacity: status.capacity,
            allocatable: status.allocatable,
            conditions: status.conditions,
            images: status.images,
            declared_features: status.declared_features,
            internal_ip: internal_ip(status.addresses),
            read_error: None,
        }
    }

    /// Parses an object if it is a Node.
    pub fn of(object: &Object) -> Option<NodeView> {
        let meta = object.meta();
        (meta.kind == "Node" && meta.api_version == "v1").then(|| NodeView::parse(object))
    }

    /// Its instance ID: the `providerID`, or the node's name without one.
    pub fn instance_id(&self) -> &Arc<str> {
        if self.provider_id.is_empty() { &self.name } else { &self.provider_id }
    }

    /// The value of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key)
    }

    /// The first taint of that key.
    pub fn taint(&self, key: &str) -> Option<&Taint> {
        self.taints.iter().find(|taint| &*taint.key == key)
    }

    /// The first condition of that type.
    pub fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|condition| &*condition.kind == kind)
    }
}

fn internal_ip(addresses: Vec<NodeAddressJson>) -> Option<Arc<str>> {
    let mut addresses = addresses.into_iter();
    addresses.find(|address| &*address.address_type == "InternalIP").map(|address| address.address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_are_absent_and_errors_name_their_path() {
        let parse = |json: &str| NodeView::parse(&Object::parse(json).unwrap());
        let node = parse(
            r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n","labels":null},"spec":{"taints":null},
                "status":{"capacity":null,"conditions":[{"type":"Ready","status":"True"}]}}"#,
        );
        assert_eq!((node.read_error.as_deref(), &**node.instance_id()), (None, "n"));
        assert_eq!(node.condition("Ready").map(|ready| &*ready.status), Some("True"));
        let node = parse(
            r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"spec":{"taints":[{"key":7}]}}"#,
        );
        let error = node.read_error.unwrap();
        assert!(error.starts_with("spec.taints[0].key: invalid type"), "{error}");
    }
}
