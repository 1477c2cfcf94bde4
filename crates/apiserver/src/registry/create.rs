//! Creation of objects.

use apimachinery::decoding::decode_object;
use apimachinery::defaults;
use apimachinery::strategy::{prepare_custom_for_create, prepare_for_create};
use apimachinery::validation::validate_create;
use kubernetes::event_conversion::converted_event;
use kubernetes::kinds;
use model::{Kind, NamespacedName, Object};
use serde_json::Value;

use super::metadata::{
    generated_name, is_terminating_object, metadata_mut, metadata_text, prepare_new, take_managed_fields,
};
use super::{CommitError, Registry, WriteOptions};
use crate::field_validation::unknown_fields;
use crate::resource::Resource;
use crate::status::ApiError;

/// How often another name is tried if a generated one exists.
const MAX_NAME_ATTEMPTS: usize = 8;

impl Registry {
    /// Creates an object of a kind that the store has, for a component; in the namespace `default` if it names none.
    pub fn create_object(&self, object: Value) -> Result<Object, ApiError> {
        self.create_for_component(object, WriteOptions::default())
    }

    /// The same for a manifest, decoded as the body of a request: unknown fields are dropped. Returns what strict decoding
    /// would refuse: `unknown field "spec.foo"`.
    pub fn create_manifest(&self, manifest: &Object) -> Result<(Object, Vec<String>), ApiError> {
        let meta = manifest.meta();
        let kind = Kind::of(&meta.api_version, &meta.kind);
        let table = self.table();
        let resource = table.of_kind(&kind).ok_or_else(ApiError::unknown_path)?;
        let refused = |why: String| {
            let (kind, version) = (&kind.kind, &resource.version);
            ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            ))
        };
        let decoded = decode_object(&kind, manifest.as_str().as_bytes());
        let mut decoded = decoded.map_err(|error| refused(error.to_string()))?;
        let unknown = resource.coerce(&mut decoded.value).map_err(refused)?;
        decoded.strict_errors.extend(unknown_fields(unknown));
        Ok((self.create_object(decoded.value)?, decoded.strict_errors))
    }

    /// The same with the uid that the object has: controllers refer to what they create before they see it.
    pub fn create_with_uid(&self, object: Value) -> Result<Object, ApiError> {
        self.create_for_component(object, WriteOptions { keeps_uid: true, ..WriteOptions::default() })
    }

    fn create_for_component(&self, object: Value, options: WriteOptions<'_>) -> Result<Object, ApiError> {
        let kind = Kind::of(
            object["apiVersion"].as_str().unwrap_or_default(),
            object["kind"].as_str().unwrap_or_default(),
        );
        let table = self.table();
        let resource = table.of_kind(&kind).ok_or_else(ApiError::unknown_path)?;
        let namespace = match metadata_text(&object, "namespace") {
            "" => "default".to_owned(),
            namespace => namespace.to_owned(),
        };
        let options = WriteOptions { is_component: true, ..options };
        self.create(resource, Some(&*namespace).filter(|_| resource.namespaced), object, options)
    }

    /// Creates an object in a namespace, or a cluster-scoped one.
    pub fn create(
        &self,
        resource: &Resource,
        namespace: Option<&str>,
        mut object: Value,
        options: WriteOptions<'_>,
    ) -> Result<Object, ApiError> {
        check_type(resource, &mut object)?;
        let namespace = check_namespace(namespace, &object)?;
        if !metadata_text(&object, "resourceVersion").is_empty() {
            return Err(ApiError::bad_request("resourceVersion should not be set on objects to be created"));
        }
        self.check_namespace_exists(resource, namespace, &object)?;
        if resource.is_terminating() {
            let why = "create not allowed while custom resource definition is terminating";
            return Err(ApiError::forbidden(resource, metadata_text(&object, "name"), why));
        }
        let mut object = self.admitted(resource, namespace, object, options)?;
        let _allocation = self.lock_allocations(resource);
        let generate_name = metadata_text(&object, "generateName");
        if metadata_text(&object, "name").is_empty() && !generate_name.is_empty() {
            let name = self.unused_name(resource, namespace, generate_name)?;
            metadata_mut(&mut object).insert("name".to_owned(), name.into());
        }
        let (name, object) = self.complete_new(resource, object)?;
        let created = self.commit_new(resource, namespace, &name, object, options)?;
        created.ok_or_else(|| ApiError::already_exists(resource, &name))
    }

    /// A generated name that no object has.
    fn unused_name(&self, resource: &Resource, namespace: &str, prefix: &str) -> Result<String, ApiError> {
        for _ in 0..MAX_NAME_ATTEMPTS {
            let name = generated_name(prefix, &mut *self.rng());
            if self.store.get(resource, &NamespacedName::new(namespace, &*name))?.is_none() {
                return Ok(name);
            }
        }
        Err(ApiError::already_exists(resource, prefix))
    }

    /// Writes a new object; `None` if there is one of its name.
    fn commit_new(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        object: Value,
        options: WriteOptions<'_>,
    ) -> Result<Option<Object>, ApiError> {
        let key = NamespacedName::new(namespace, name);
        if self.store.get(resource, &key)?.is_some() {
            return Ok(None);
        }
        let object = resource.to_storage(object);
        match self.commit(resource, &key, None, object, false, options) {
            Ok(created) => {
                if resource.is_definition() && !options.dry_run {
                    self.settle_names(&created)?;
                }
                Ok(Some(created))
            }
            Err(CommitError::Overtaken) => Ok(None),
            Err(CommitError::Refused(error)) => Err(error),
        }
    }

    /// A new object with its defaults, admitted. Its name may still be missing.
    fn admitted(
        &self,
        resource: &Resource,
        namespace: &str,
        mut object: Value,
        options: WriteOptions<'_>,
    ) -> Result<Value, ApiError> {
        let kind = &resource.storage_kind();
        if resource.is_event() {
            object = converted_event(object, &kind.group);
        }
        let requested = take_managed_fields(&mut object);
        let uid = Some(metadata_text(&object, "uid")).filter(|uid| options.keeps_uid && !uid.is_empty());
        let uid = uid.map_or_else(|| self.new_uid(), str::to_owned);
        prepare_new(&mut object, namespace, uid, self.now());
        options.coerce(resource, &mut object)?;
        defaults::set_defaults(kind, &mut object);
        self.track_write(resource, None, &mut object, requested, options);
        self.admit_new(resource, &mut object)?;
        Ok(object)
    }

    /// An admitted object as it is stored, and its name.
    fn complete_new(&self, resource: &Resource, mut object: Value) -> Result<(String, Value), ApiError> {
        if resource.is_custom() {
            prepare_custom_for_create(&mut object, resource.has_status);
        } else {
            prepare_for_create(&resource.storage_kind(), &mut object);
        }
        let name = metadata_text(&object, "name").to_owned();
        let api_version = resource.api_version();
        let errors = match resource.custom_rules(&api_version) {
            Some(rules) => rules.validate_create(&object),
            // Both kinds of Events have rules of their own.
            None if resource.is_event() => {
                validate_create(&resource.kind, true, &resource.converted_value(object.clone()))
            }
            None => validate_create(&resource.kind, resource.namespaced, &object),
        };
        if !errors.is_empty() {
            return Err(ApiError::invalid_object(resource, &object, &name, &errors));
        }
        self.check_custom(&resource.kind, &name, &object)?;
        self.check_bounds(resource, &object)?;
        if resource.kind.is("", "Service") {
            self.allocate_addresses(resource, None, &mut object)?;
        }
        if resource.is_definition() {
            self.accept_names(&mut object)?;
        }
        Ok((name, object))
    }

    /// Nothing can be created in a namespace that does not exist or is being deleted.
    pub(super) fn check_namespace_exists(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &Value,
    ) -> Result<(), ApiError> {
        if !resource.namespaced {
            return Ok(());
        }
        let kind = Kind::new("", "Namespace");
        let found = self.get(&kind, &NamespacedName::new("", namespace));
        let Some(found) = found else {
            let namespaces = kinds::of(&kind).map(Resource::built_in);
            return Err(namespaces.map_or_else(ApiError::unknown_path, |namespaces| {
                ApiError::not_found(&namespaces, namespace)
            }));
        };
        if is_terminating_object(&found) {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            let cause = format!("namespace {namespace} is being terminated");
            let error = ApiError::forbidden(resource, metadata_text(object, "name"), why);
            return Err(error.with_cause("NamespaceTerminating", &cause));
        }
        Ok(())
    }
}

/// The body must be of the resource's kind; apiVersion and kind may be missing.
pub(crate) fn check_type(resource: &Resource, object: &mut Value) -> Result<(), ApiError> {
    if !object.is_object() {
        return Err(ApiError::bad_request("the body of the request is not a JSON object"));
    }
    for (field, expected) in
        [("apiVersion", resource.api_version()), ("kind", resource.kind.kind.to_string())]
    {
        match object[field].as_str() {
            None | Some("") => object[field] = expected.into(),
            Some(found) if found == expected => {}
            // The validation of custom resources says so.
            Some(_) if field == "kind" && resource.custom.is_some() => {}
            Some(found) if resource.custom.is_some() => {
                return Err(ApiError::bad_request(format!(
                    "the API version in the data ({found}) does not match the expected API version ({expected})"
                )));
            }
            Some(found) => {
                return Err(ApiError::bad_request(format!(
                    "the {field} of the object ({found}) does not match the expected one ({expected})"
                )));
            }
        }
    }
    if !(object["metadata"].is_object() || object["metadata"].is_null()) {
        return Err(ApiError::bad_request("the metadata of the object is not a JSON object"));
    }
    Ok(())
}

/// The namespace of the request, which that of the object must not contradict.
fn check_namespace<'a>(namespace: Option<&'a str>, object: &Value) -> Result<&'a str, ApiError> {
    let namespace = namespace.unwrap_or_default();
    let own = metadata_text(object, "namespace");
    if own.is_empty() || own == namespace {
        return Ok(namespace);
    }
    Err(ApiError::other_namespace())
}
