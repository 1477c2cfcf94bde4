//! The field managers of written objects, and server-side apply.

use apimachinery::decoding::decode_object;
use apimachinery::managed_fields::{
    ApplyError, FieldManager, TypeRef, scale_to_parent, scale_to_subresource,
};
use model::{Kind, NamespacedName, Object};
use serde_json::Value;

use super::metadata::{metadata_mut, metadata_text};
use super::update::check_name;
use super::{Registry, WriteOptions};
use crate::body::MAX_BODY_BYTES;
use crate::resource::Resource;
use crate::status::ApiError;

/// Who manages the fields that a write changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldWriter<'a> {
    /// A component of the cluster. The managers stay as they are.
    #[default]
    Component,
    /// The manager of a request.
    Manager {
        /// Its name.
        name: &'a str,
        /// The subresource that it writes; empty for objects themselves.
        subresource: &'a str,
    },
    /// The object to be written has its managers already.
    Recorded,
}

/// A configuration that a request applies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AppliedConfig<'a> {
    pub(crate) config: &'a Value,
    pub(crate) manager: &'a str,
    /// The subresource to which it is applied; empty for objects themselves.
    pub(crate) subresource: &'a str,
    /// Whether fields are taken from other managers.
    pub(crate) force: bool,
}

impl WriteOptions<'_> {
    /// Makes a new or changed object one that the schema of a custom resource allows.
    pub(super) fn coerce(&self, resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
        let coerced = match self.writer {
            FieldWriter::Component | FieldWriter::Manager { .. } => resource.coerce(object),
            FieldWriter::Recorded => resource.coerce_applied(object),
        };
        coerced.map(drop).map_err(ApiError::bad_request)
    }
}

impl Registry {
    /// Sets the managers of an object that is created or updated. `requested` are those of the request.
    pub(super) fn track_write(
        &self,
        resource: &Resource,
        old: Option<&Value>,
        new: &mut Value,
        requested: Option<Value>,
        options: WriteOptions<'_>,
    ) {
        let managed_fields = match options.writer {
            FieldWriter::Component => old.and_then(|old| old["metadata"].get("managedFields").cloned()),
            FieldWriter::Manager { .. } | FieldWriter::Recorded => requested,
        };
        if let Some(managed_fields) = managed_fields.filter(|managed_fields| !managed_fields.is_null()) {
            metadata_mut(new).insert("managedFields".to_owned(), managed_fields);
        }
        if let FieldWriter::Manager { name, subresource } = options.writer {
            let kind = resource.storage_kind();
            let api_version = if resource.is_event() { "v1".to_owned() } else { resource.api_version() };
            let manager = field_manager(resource, &kind, &api_version, subresource);
            manager.update(old, new, name, self.now());
        }
    }

    /// The object, or the subresource `scale`, that a configuration makes of the current one, or a new object.
    pub(crate) fn applied(
        &self,
        resource: &Resource,
        kind: &Kind,
        old: Option<&Value>,
        apply: AppliedConfig<'_>,
    ) -> Result<Value, ApiError> {
        let AppliedConfig { config, manager, subresource, force } = apply;
        let is_scale = subresource == "scale";
        let api_version = if is_scale { "autoscaling/v1".to_owned() } else { resource.api_version() };
        let managers = field_manager(resource, kind, &api_version, subresource);
        let applied =
            managers.apply(old, config, manager, force, self.now()).map_err(|error| match error {
                ApplyError::BadRequest(why) => ApiError::bad_request(why),
                ApplyError::Untyped(why) => ApiError::unexpected(why),
                ApplyError::TooLarge => ApiError::too_large(MAX_BODY_BYTES),
                ApplyError::Conflict { message, causes } => ApiError::apply_conflict(message, &causes),
            })?;
        let decoded = decode_object(kind, applied.to_string().as_bytes());
        decoded.map(|decoded| decoded.value).map_err(|error| {
            let name = |field: &str| config["metadata"][field].as_str().unwrap_or_default();
            let group_version = if kind.group.is_empty() { format!("/{api_version}") } else { api_version };
            let kind = format!("{group_version}, Kind={}", kind.kind);
            ApiError::unexpected(format!(
                "failed to convert new object ({}/{}; {kind}) to proper version: unable to convert unstructured object to \
                 {kind}: {}",
                name("namespace"),
                name("name"),
                conversion_error(&error.to_string())
            ))
        })
    }

    /// Creates an object that was applied and did not exist.
    pub(crate) fn create_applied(
        &self,
        resource: &Resource,
        name: &NamespacedName,
        mut object: Value,
        options: WriteOptions<'_>,
    ) -> Result<Object, ApiError> {
        let uid = metadata_text(&object, "uid");
        if !uid.is_empty() {
            let why = format!(
                "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            );
            return Err(ApiError::conflict(resource, &name.name, why));
        }
        check_name(resource, name, &mut object)?;
        // As in the original, it does not matter here.
        metadata_mut(&mut object).remove("resourceVersion");
        self.create(resource, Some(&*name.namespace).filter(|_| resource.namespaced), object, options)
    }

    /// Sets the managers of an updated Scale and moves them to those of its workload.
    pub(super) fn track_scale(
        &self,
        resource: &Resource,
        workload: &Value,
        scale: &Value,
        edited: &mut Value,
        options: WriteOptions<'_>,
    ) -> Option<Value> {
        let api_version = resource.api_version();
        match options.writer {
            FieldWriter::Component => return workload["metadata"].get("managedFields").cloned(),
            FieldWriter::Manager { name, subresource } => {
                let kind = Kind::new("autoscaling", "Scale");
                let manager = field_manager(resource, &kind, "autoscaling/v1", subresource);
                manager.update(Some(scale), edited, name, self.now());
            }
            FieldWriter::Recorded => {}
        }
        scale_to_parent(workload, edited, &api_version, &replicas_path(resource))
    }
}

/// An error of decoding in the words of the conversion of an applied object, which is no JSON any more.
fn conversion_error(why: &str) -> String {
    if why.starts_with("illegal base64") {
        return format!("error decoding from json: {why}");
    }
    let parts = why.strip_prefix("json: cannot unmarshal ").and_then(|rest| {
        let (value, field) = rest.split_once(" into Go struct field ")?;
        Some((value, field.rsplit_once(" of type ")?.1))
    });
    match parts {
        Some((value, go_type)) if value.starts_with("number ") => {
            format!("cannot convert float64 to {go_type}")
        }
        Some((value, go_type)) => format!("json: cannot unmarshal {value} into Go value of type {go_type}"),
        None => why.to_owned(),
    }
}

/// The managers of a workload that have its number of replicas, as managers of its Scale.
pub(super) fn managers_of_scale(resource: &Resource, workload: &Value) -> Option<Value> {
    scale_to_subresource(workload, &resource.api_version(), &replicas_path(resource))
}

/// The names of the fields that lead to the number of replicas.
fn replicas_path(resource: &Resource) -> Vec<&str> {
    match resource.scale_paths() {
        Some(paths) => paths.spec_replicas_fields().collect(),
        None => vec!["spec", "replicas"],
    }
}

fn field_manager<'a>(
    resource: &'a Resource,
    kind: &'a Kind,
    api_version: &'a str,
    subresource: &'a str,
) -> FieldManager<'a> {
    let schema = resource.custom.as_ref().and_then(|custom| custom.schema(&resource.version));
    let object_type = TypeRef::of_kind(kind, schema);
    FieldManager { kind, api_version, object_type, subresource, has_status: resource.has_status }
}
