//! The subresource `scale` of workloads and of custom resources.

use apimachinery::validation::ScalePaths;
use kubernetes::selector::{LabelSelector, Selector};
use model::{NamespacedName, Object};
use serde::Deserialize;
use serde_json::{Value, json};

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
        let object = parsed(&self.current(resource, name)?)?;
        match resource.scale_paths() {
            Some(paths) => {
                let object = resource.converted_value(object);
                if paths.spec_replicas(&object).map_err(ApiError::internal)?.is_none() {
                    let why = format!("the spec replicas field {:?} does not exist", paths.spec_replicas);
                    return Err(ApiError::internal(why));
                }
                custom_scale(paths, &object)
            }
            None => Ok(scale_of(&object)),
        }
    }

    /// Updates the Scale of an object with the result of `edit`. Returns the new Scale.
    pub fn update_scale(
        &self,
        resource: &Resource,
        name: &NamespacedName,
        options: WriteOptions,
        mut edit: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        if !resource.has_scale {
            return Err(ApiError::unknown_path());
        }
        if let Some(paths) = resource.scale_paths() {
            return self.update_custom_scale(resource, paths, name, options, edit);
        }
        let updated: Object = self.update(resource, name, UpdatedPart::Object, options, |object| {
            let edited = edit(&scale_of(object))?;
            let replicas = edited["spec"].get("replicas").and_then(Value::as_i64).unwrap_or(0);
            let mut scaled = object.clone();
            scaled["spec"]["replicas"] = replicas.into();
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

    fn update_custom_scale(
        &self,
        resource: &Resource,
        paths: &ScalePaths,
        name: &NamespacedName,
        options: WriteOptions,
        mut edit: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Value, ApiError> {
        let updated = self.update(resource, name, UpdatedPart::Object, options, |object| {
            let edited = edit(&custom_scale(paths, object)?)?;
            let replicas = edited["spec"].get("replicas").and_then(Value::as_i64).unwrap_or(0);
            let mut scaled = object.clone();
            let mut field = &mut scaled;
            for name in paths.spec_replicas_fields() {
                if !field.is_object() {
                    *field = json!({});
                }
                field = &mut field[name];
            }
            *field = replicas.into();
            let version = metadata_text(&edited, "resourceVersion");
            if !version.is_empty() {
                scaled["metadata"]["resourceVersion"] = version.into();
            }
            Ok(scaled)
        })?;
        custom_scale(paths, &resource.converted_value(parsed(&updated)?))
    }
}

/// The `autoscaling/v1` Scale of a custom resource.
fn custom_scale(paths: &ScalePaths, object: &Value) -> Result<Value, ApiError> {
    let count = |found: Result<Option<i64>, String>| found.map(Option::unwrap_or_default);
    let replicas = count(paths.spec_replicas(object)).map_err(ApiError::internal)?;
    let mut status = json!({"replicas": count(paths.status_replicas(object)).map_err(ApiError::internal)?});
    let selector = paths.label_selector(object).map_err(ApiError::internal)?;
    if let Some(selector) = selector.filter(|selector| !selector.is_empty()) {
        status["selector"] = selector.into();
    }
    Ok(json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": scale_metadata(object),
        "spec": {"replicas": replicas}, "status": status,
    }))
}

/// The `autoscaling/v1` Scale of a workload.
fn scale_of(object: &Value) -> Value {
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
        "spec": {"replicas": object["spec"]["replicas"].as_i64().unwrap_or(0)}, "status": status,
    })
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
