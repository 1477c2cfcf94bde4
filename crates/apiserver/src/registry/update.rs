//! Updates of objects and of their subresources.

use std::borrow::Cow;

use apimachinery::defaults;
use apimachinery::managed_fields::restore_times;
use apimachinery::strategy::{
    allows_unconditional_update, prepare_custom_for_status_update, prepare_custom_for_update,
    prepare_for_status_update, prepare_for_update, set_times,
};
use apimachinery::validation::validate_update;
use model::{Kind, NamespacedName, Object};
use serde_json::Value;

use super::create::check_type;
use super::metadata::{
    has_finalizers, is_terminating, metadata_mut, metadata_text, prepare_updated, take_managed_fields,
};
use super::{CommitError, MAX_ATTEMPTS, Registry, WriteOptions};
use crate::resource::Resource;
use crate::status::ApiError;

/// The part of an object that an update changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdatedPart {
    /// Everything but the status, if that is a subresource.
    Object,
    /// The subresource `status`.
    Status,
    /// The subresource `binding`, `resize` or `ephemeralcontainers` of a pod, or `finalize` of a namespace: the spec,
    /// beyond what an update may change.
    Spec,
    /// Everything, as a component wrote it, with the generation that it set.
    Everything,
}

impl Registry {
    /// Updates an object with the result of `edit`, which is called again if another writer is first.
    ///
    /// The edited object may name the resourceVersion and uid that it is based on: if they are not the current ones,
    /// the update is refused.
    pub fn update(
        &self,
        resource: &Resource,
        name: &NamespacedName,
        part: UpdatedPart,
        options: WriteOptions<'_>,
        mut edit: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Object, ApiError> {
        let _allocation = self.lock_allocations(resource);
        for _ in 0..MAX_ATTEMPTS {
            let old_object = self.current(resource, name)?;
            let stored = parsed(&old_object)?;
            // A custom resource is read in the version of the request.
            let old = match &resource.custom {
                Some(_) => Cow::Owned(resource.converted_value(stored.clone())),
                None => Cow::Borrowed(&stored),
            };
            let edited = edit(&old)?;
            let new = self.complete_update(resource, name, part, &old, edited, options)?;
            let new = resource.to_storage(new);
            if new == stored {
                return Ok(old_object);
            }
            let is_deletion = is_terminating(&new) && !has_finalizers(&new) && is_gone(resource, &new);
            match self.commit(resource, name, Some(&old_object), new, is_deletion, options) {
                Ok(updated) => {
                    if part == UpdatedPart::Object && resource.is_definition() && !options.dry_run {
                        self.settle_names(&updated)?;
                    }
                    return Ok(updated);
                }
                Err(CommitError::Overtaken) => {}
                Err(CommitError::Refused(error)) => return Err(error),
            }
        }
        Err(ApiError::modified(resource, &name.name))
    }

    /// The same for a component: an object of a kind that the store has, unless `edit` returns `None`.
    pub fn update_object(
        &self,
        kind: &Kind,
        name: &NamespacedName,
        part: UpdatedPart,
        mut edit: impl FnMut(&mut Value) -> bool,
    ) -> Result<Object, ApiError> {
        let table = self.table();
        let resource = table.of_kind(kind).ok_or_else(ApiError::unknown_path)?;
        let options = WriteOptions { is_component: true, ..WriteOptions::default() };
        self.update(resource, name, part, options, |old| {
            let mut new = old.clone();
            if edit(&mut new) { Ok(new) } else { Ok(old.clone()) }
        })
    }

    /// The new state of an object.
    fn complete_update(
        &self,
        resource: &Resource,
        name: &NamespacedName,
        part: UpdatedPart,
        old: &Value,
        mut new: Value,
        options: WriteOptions<'_>,
    ) -> Result<Value, ApiError> {
        let kind = &resource.storage_kind();
        if resource.is_event() {
            new = kubernetes::event_conversion::converted_event(new, &kind.group);
        } else {
            check_type(resource, &mut new)?;
        }
        check_name(resource, name, &mut new)?;
        check_preconditions(resource, name, old, &new)?;
        let generation = new["metadata"].get("generation").cloned();
        let requested = take_managed_fields(&mut new);
        prepare_updated(&mut new, old);
        options.coerce(resource, &mut new)?;
        defaults::set_defaults(kind, &mut new);
        self.track_write(resource, Some(old), &mut new, requested, options);
        if part == UpdatedPart::Object {
            Registry::admit_update(resource, old, &mut new);
        }
        match part {
            UpdatedPart::Object if resource.is_custom() => {
                prepare_custom_for_update(old, &mut new, resource.has_status);
            }
            UpdatedPart::Object => prepare_for_update(kind, old, &mut new),
            UpdatedPart::Status if !resource.has_status => return Err(ApiError::unknown_path()),
            UpdatedPart::Status if resource.is_custom() => prepare_custom_for_status_update(old, &mut new),
            UpdatedPart::Status => prepare_for_status_update(kind, old, &mut new),
            UpdatedPart::Spec => {}
            UpdatedPart::Everything => {
                if let Some(generation) = generation {
                    new["metadata"]["generation"] = generation;
                }
            }
        }
        if part != UpdatedPart::Everything {
            set_times(kind, Some(old), &mut new, self.now());
        }
        let api_version = resource.api_version();
        let rules = resource.custom_rules(&api_version);
        let mut warnings = Vec::new();
        if let Some(rules) = rules.filter(|_| part == UpdatedPart::Status) {
            let errors = rules.validate_status_update(old, &new, &mut warnings);
            options.warn(&mut warnings);
            if !errors.is_empty() {
                return Err(ApiError::invalid_object(resource, &new, &name.name, &errors));
            }
        }
        if part == UpdatedPart::Object {
            let errors = match rules {
                Some(rules) => rules.validate_update(old, &new, &mut warnings),
                // Both kinds of Events have rules of their own.
                None if resource.is_event() => {
                    let converted = |object: &Value| resource.converted_value(object.clone());
                    validate_update(&resource.kind, true, &converted(old), &converted(&new))
                }
                None => validate_update(kind, resource.namespaced, old, &new),
            };
            options.warn(&mut warnings);
            if !errors.is_empty() {
                return Err(ApiError::invalid_object(resource, &new, &name.name, &errors));
            }
            self.check_custom(&resource.kind, &name.name, &new)?;
            if resource.kind.is("", "Service") {
                self.allocate_addresses(resource, Some(old), &mut new)?;
            }
            if resource.is_definition() {
                self.accept_names(&mut new)?;
            }
        }
        restore_times(old, &mut new);
        Ok(new)
    }
}

/// A stored object as a value.
pub(super) fn parsed(object: &Object) -> Result<Value, ApiError> {
    object.value().map_err(|error| ApiError::bad_request(error.to_string()))
}

/// Whether a terminating object without finalizers is removed at once: a pod's node has to stop it before.
pub(super) fn is_gone(resource: &Resource, object: &Value) -> bool {
    let is_namespace = &*resource.kind.kind == "Namespace" && resource.kind.group.is_empty();
    if is_namespace {
        return object["spec"]["finalizers"].as_array().is_none_or(Vec::is_empty);
    }
    object["metadata"]["deletionGracePeriodSeconds"].as_i64().unwrap_or(0) == 0
}

/// The name of the object must be that of the request.
pub(super) fn check_name(
    resource: &Resource,
    name: &NamespacedName,
    object: &mut Value,
) -> Result<(), ApiError> {
    let found = metadata_text(object, "name");
    if found.is_empty() {
        return Err(ApiError::name_undeterminable(&name.name));
    }
    if *found != *name.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({})",
            name.name
        )));
    }
    let namespace = metadata_text(object, "namespace");
    if !namespace.is_empty() && *namespace != *name.namespace {
        return Err(ApiError::other_namespace());
    }
    let metadata = metadata_mut(object);
    metadata.insert("name".to_owned(), (*name.name).into());
    if resource.namespaced {
        metadata.insert("namespace".to_owned(), (*name.namespace).into());
    }
    Ok(())
}

fn check_preconditions(
    resource: &Resource,
    name: &NamespacedName,
    old: &Value,
    new: &Value,
) -> Result<(), ApiError> {
    let uid = metadata_text(new, "uid");
    if !uid.is_empty() && uid != metadata_text(old, "uid") {
        let current = metadata_text(old, "uid");
        let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {current}");
        return Err(ApiError::conflict(resource, &name.name, why));
    }
    match metadata_text(new, "resourceVersion") {
        "" | "0" if !allows_unconditional_update(&resource.kind) => {
            Err(ApiError::version_required(resource, &name.name))
        }
        "" | "0" => Ok(()),
        version if version == metadata_text(old, "resourceVersion") => Ok(()),
        _ => Err(ApiError::modified(resource, &name.name)),
    }
}
