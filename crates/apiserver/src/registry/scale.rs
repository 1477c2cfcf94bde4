//! The subresource `scale` of workloads.

use apimachinery::strategy::has_scale;
use kubernetes::selector::{LabelSelector, Selector};
use model::{NamespacedName, Object};
use serde::Deserialize;
use serde_json::{Value, json};

use super::field_managers::{FieldWriter, managers_of_scale};
use super::metadata::metadata_text;
use super::update::{UpdatedPart, parsed};
use super::{Registry, WriteOptions};
use crate::resource::Resource;
use crate::status::ApiError;

impl Registry {
    /// The Scale of an object.
    pub fn scale(&self, resource: &Resource, name: &NamespacedName) -> Result<Value, ApiError> {
        if !has_scale(&resource.kind) {
            return Err(ApiError::unknown_path());
        }
        Ok(scale_of(&parsed(&self.current(resource, name)?)?))
    }

    /// Updates the Scale of an object with the result of `edit`. Returns the new Scale.
    pub fn update_scale(
        &self,
        resource: &Resource,
        name: &NamespacedName,
        options: WriteOptions<'_>,
        mut edit: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        if !has_scale(&resource.kind) {
            return Err(ApiError::unknown_path());
        }
        let recorded = WriteOptions { writer: FieldWriter::Recorded, ..options };
        let updated: Object = self.update(resource, name, UpdatedPart::Object, recorded, |object| {
            let mut scale = scale_of(object);
            if let Some(managers) = managers_of_scale(resource, object) {
                scale["metadata"]["managedFields"] = managers;
            }
            let mut edited = edit(&scale)?;
            let managers = self.track_scale(resource, object, &scale, &mut edited, options);
            let replicas = edited["spec"].get("replicas").and_then(Value::as_i64).unwrap_or(0);
            let mut scaled = object.clone();
            scaled["spec"]["replicas"] = replicas.into();
            scaled["metadata"]["managedFields"] = managers.unwrap_or_default();
            // Preconditions of the Scale are those of the object.
            for field in ["uid", "resourceVersion"] {
                let wanted = metadata_text(&edited, field);
                if !wanted.is_empty() {
                    scaled["metadata"][field] = wanted.into();
                }
            }
            Ok(scaled)
        })?;
        Ok(scale_of(&parsed(&updated)?))
    }
}

/// The `autoscaling/v1` Scale of a workload.
fn scale_of(object: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    let mut status = json!({"replicas": object["status"]["replicas"].as_i64().unwrap_or(0)});
    let selector = &object["spec"]["selector"];
    let text = match LabelSelector::deserialize(selector) {
        Ok(selector) if object["kind"] != "ReplicationController" => {
            Selector::of(Some(&selector)).ok().map(|selector| selector.to_string())
        }
        // A ReplicationController's selector is a plain map.
        _ => {
            let labels = selector.as_object().into_iter().flatten();
            let labels = labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)));
            Some(Selector::of_labels(labels).to_string())
        }
    };
    if let Some(text) = text.filter(|text| !text.is_empty()) {
        status["selector"] = text.into();
    }
    json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
        "spec": {"replicas": object["spec"]["replicas"].as_i64().unwrap_or(0)}, "status": status,
    })
}
