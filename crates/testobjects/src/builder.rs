//! The builder of test objects: metadata, arbitrary fields, and conversions into objects and changes.

use std::fmt::Display;
use std::marker::PhantomData;

use model::{Object, What};
use serde_json::{Value, json};

/// Builds an object of one kind, field by field: `pod("p").namespace("web").on("n1").added()`.
#[derive(Debug)]
#[must_use]
pub struct Builder<K> {
    json: Value,
    kind: PhantomData<K>,
}

/// Marks objects of kinds without builder methods of their own.
#[derive(Debug)]
pub enum OtherKind {}

/// Builds an object of any kind.
pub type ObjectBuilder = Builder<OtherKind>;

/// An object of any kind, without a namespace. Its uid is its name.
pub fn resource(api_version: &str, kind: &str, name: &str) -> ObjectBuilder {
    Builder::new(json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "uid": name}}))
}

/// Parses an object. Panics if the document is not one.
#[track_caller]
pub fn object(json: &Value) -> Object {
    Object::parse(&json.to_string()).expect("a test builds a valid object")
}

// === impl Builder ===

impl<K> Builder<K> {
    pub(crate) fn new(json: Value) -> Builder<K> {
        Builder { json, kind: PhantomData }
    }

    /// Sets `metadata.namespace`.
    pub fn namespace(self, namespace: &str) -> Builder<K> {
        self.set_at(&["metadata", "namespace"], namespace)
    }

    /// Sets `metadata.uid`.
    pub fn uid(self, uid: &str) -> Builder<K> {
        self.set_at(&["metadata", "uid"], uid)
    }

    /// Sets `metadata.resourceVersion`.
    pub fn version(self, version: u64) -> Builder<K> {
        self.set_at(&["metadata", "resourceVersion"], version.to_string())
    }

    /// Adds a label.
    pub fn label(self, key: &str, value: &str) -> Builder<K> {
        self.set_at(&["metadata", "labels", key], value)
    }

    /// Adds an annotation.
    pub fn annotation(self, key: &str, value: &str) -> Builder<K> {
        self.set_at(&["metadata", "annotations", key], value)
    }

    /// Sets `metadata.creationTimestamp`.
    pub fn created(self, time: impl Display) -> Builder<K> {
        self.set_at(&["metadata", "creationTimestamp"], time.to_string())
    }

    /// Sets `metadata.deletionTimestamp`.
    pub fn terminating(self, since: impl Display) -> Builder<K> {
        self.set_at(&["metadata", "deletionTimestamp"], since.to_string())
    }

    /// Sets the controller that owns the object, whose uid is its name. It replaces all other owners.
    pub fn owner(self, kind: &str, name: &str) -> Builder<K> {
        self.owner_with_uid(kind, name, name)
    }

    /// Sets the controller that owns the object. It replaces all other owners.
    pub fn owner_with_uid(self, kind: &str, name: &str, uid: &str) -> Builder<K> {
        let api_version = match kind {
            "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Deployment" => "apps/v1",
            "Job" | "CronJob" => "batch/v1",
            _ => "v1",
        };
        let owner =
            json!({"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true});
        self.set_at(&["metadata", "ownerReferences"], json!([owner]))
    }

    /// Sets a field without a method of its own, by its path: `spec.containers.0.image`. Missing maps on the path are
    /// created. Names that contain a dot cannot be on the path: set the map that holds them.
    pub fn set(self, path: &str, value: impl Into<Value>) -> Builder<K> {
        let names: Vec<&str> = path.split('.').collect();
        self.set_at(&names, value)
    }

    pub(crate) fn set_at(mut self, names: &[&str], value: impl Into<Value>) -> Builder<K> {
        *self.field(names) = value.into();
        self
    }

    /// The field at a path. Numbers select elements of lists.
    pub(crate) fn field(&mut self, names: &[&str]) -> &mut Value {
        names.iter().fold(&mut self.json, |field, name| match field {
            Value::Array(list) => {
                let place: usize = name.parse().expect("a list element is addressed by its index");
                &mut list[place]
            }
            _ => &mut field[*name],
        })
    }

    /// The object as JSON.
    pub fn json(self) -> Value {
        self.json
    }

    /// The object.
    #[track_caller]
    pub fn object(self) -> Object {
        object(&self.json)
    }

    /// The addition of the object.
    #[track_caller]
    pub fn added(self) -> What {
        What::Added(self.object())
    }

    /// The modification of the object.
    #[track_caller]
    pub fn modified(self) -> What {
        What::Modified(self.object())
    }

    /// The deletion of the object.
    #[track_caller]
    pub fn deleted(self) -> What {
        What::Deleted(self.object())
    }
}

impl<K> Clone for Builder<K> {
    fn clone(&self) -> Builder<K> {
        Builder::new(self.json.clone())
    }
}

impl<K> From<Builder<K>> for Value {
    fn from(builder: Builder<K>) -> Value {
        builder.json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_fields_are_created_and_list_elements_are_selected_by_number() {
        let built = resource("apps/v1", "Deployment", "web")
            .namespace("shop")
            .set("spec.template.spec.containers", json!([{"name": "a"}, {"name": "b"}]))
            .set("spec.template.spec.containers.1.image", "b:1")
            .annotation("example.com/a.b", "c");
        let expected = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "web", "namespace": "shop", "uid": "web", "annotations": {"example.com/a.b": "c"}},
            "spec": {"template": {"spec": {"containers": [{"name": "a"}, {"name": "b", "image": "b:1"}]}}},
        });
        assert_eq!(built.clone().json(), expected);
        assert_eq!(built.object().value().unwrap(), expected);
    }

    #[test]
    fn the_owner_given_last_is_the_only_one() {
        let built = resource("v1", "Thing", "a").owner("Job", "j").owner_with_uid("DaemonSet", "d", "u");
        let owner = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true});
        assert_eq!(built.json()["metadata"]["ownerReferences"], json!([owner]));
    }
}
