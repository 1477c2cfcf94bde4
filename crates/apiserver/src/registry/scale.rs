//! The subresource `scale` of workloads and of custom resources.

use apimachinery::validation::ScalePaths;
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
        if !resource.has_scale {
            return Err(ApiError::unknown_path());
        }
        let object = resource.converted_value(parsed(&self.current(resource, name)?)?);
        if let Some(paths) = resource.scale_paths()
            && paths.spec_replicas(&object).map_err(ApiError::internal)?.is_none()
        {
            let why = format!("the spec replicas field {:?} does not exist", paths.spec_replicas);
            return Err(ApiError::internal(why));
        }
        scale_of(resource, &object)
    }

    /// Updates the Scale of an object with the result of `edit`. Returns the new Scale.
    pub fn update_scale(
        &self,
        resource: &Resource,
        name: &NamespacedName,
        options: WriteOptions<'_>,
        mut edit: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        if !resource.has_scale {
            return Err(ApiError::unknown_path());
        }
        let preconditions: &[&str] =
            if resource.custom.is_some() { &["resourceVersion"] } else { &["uid", "resourceVersion"] };
        let recorded = WriteOptions { writer: FieldWriter::Recorded, ..options };
        let updated: Object = self.update(resource, name, UpdatedPart::Object, recorded, |object| {
            let mut scale = scale_of(resource, object)?;
            if let Some(managers) = managers_of_scale(resource, object) {
                scale["metadata"]["managedFields"] = managers;
            }
            let mut edited = edit(&scale)?;
            let replicas = edited["spec"].get("replicas").and_then(Value::as_i64).unwrap_or(0);
            // Nobody manages a field that is not written.
            edited["spec"] = scale_spec(replicas);
            let managers = self.track_scale(resource, object, &scale, &mut edited, options);
            let mut scaled = object.clone();
            set_replicas(resource, &mut scaled, replicas);
            scaled["metadata"]["managedFields"] = managers.unwrap_or_default();
            // Preconditions of the Scale are those of the object.
            for field in preconditions {
                let wanted = metadata_text(&edited, field);
                if !wanted.is_empty() {
                    scaled["metadata"][field] = wanted.into();
                }
            }
            Ok(scaled)
        })?;
        scale_of(resource, &resource.converted_value(parsed(&updated)?))
    }
}

/// The `autoscaling/v1` Scale of an object.
fn scale_of(resource: &Resource, object: &Value) -> Result<Value, ApiError> {
    match resource.scale_paths() {
        Some(paths) => scale_of_custom(paths, object),
        None => Ok(scale_of_workload(object)),
    }
}

/// Sets the number of replicas of an object.
fn set_replicas(resource: &Resource, object: &mut Value, replicas: i64) {
    let Some(paths) = resource.scale_paths() else {
        object["spec"]["replicas"] = replicas.into();
        return;
    };
    let mut field = object;
    for name in paths.spec_replicas_fields() {
        if !field.is_object() {
            *field = json!({});
        }
        field = &mut field[name];
    }
    *field = replicas.into();
}

/// The Scale of a custom resource.
fn scale_of_custom(paths: &ScalePaths, object: &Value) -> Result<Value, ApiError> {
    let count = |found: Result<Option<i64>, String>| found.map(Option::unwrap_or_default);
    let replicas = count(paths.spec_replicas(object)).map_err(ApiError::internal)?;
    let mut status = json!({"replicas": count(paths.status_replicas(object)).map_err(ApiError::internal)?});
    let selector = paths.label_selector(object).map_err(ApiError::internal)?;
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = selector.into();
    }
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": scale_metadata(object),
        "spec": scale_spec(replicas), "status": status,
    }))
}

/// The Scale of a workload.
fn scale_of_workload(object: &Value) -> Value {
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
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": scale_metadata(object),
        "spec": scale_spec(object["spec"]["replicas"].as_i64().unwrap_or(0)), "status": status,
    })
}

/// The spec of a Scale. Its number of replicas is omitted if it is zero.
fn scale_spec(replicas: i64) -> Value {
    if replicas == 0 { json!({}) } else { json!({"replicas": replicas}) }
}

/// The metadata of an object that its Scale has too.
fn scale_metadata(object: &Value) -> Value {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object["metadata"].get(field) {
            metadata[field] = value.clone();
        }
    }
    metadata
}
