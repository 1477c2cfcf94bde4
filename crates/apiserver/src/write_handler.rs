//! Requests that write, and reviews.

use std::cell::RefCell;
use std::sync::Arc;

use apimachinery::decoding::{DecodeError, decode_delete_options, decode_object};
use apimachinery::validation::{definition_warnings, expression_warnings, finalizer_warning};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use kubernetes::owners::remove_duplicate_references;
use model::{Kind, NamespacedName, Object};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::apply_config::{self, decode_config};
use crate::body::{self, check_is_json, parse_json};
use crate::field_validation::{FieldValidation, add_warnings, unknown_fields};
use crate::list::{ObjectRenderer, is_selected};
use crate::list_options::{IncludeObject, ListOptions};
use crate::media_type::ObjectForm;
use crate::object_map::name_of;
use crate::patch::Patch;
use crate::registry::{
    AppliedConfig, DeleteOptions, Deletion, FieldWriter, Registry, UpdatedPart, WriteOptions, check_type,
    success_status,
};
use crate::request_info::RequestInfo;
use crate::resource::Resource;
use crate::response::{accept, find_resource, json_response, no_container};
use crate::reviews::ReviewRequest;
use crate::status::ApiError;
use crate::user::UserInfo;
use crate::write_query::{WriteQuery, bad_options, check_policy};

/// The most attempts to apply a configuration to an object that others create and delete.
const MAX_APPLY_ATTEMPTS: usize = 4;
const DUPLICATES_AFTER_ADMISSION: &str = "contains duplicate entries after mutating admission happens";

/// The most characters of a body that an error about it repeats at its end.
const SUMMARY_LENGTH: usize = 30;

/// A request that writes a resource.
struct WriteRequest<'a> {
    registry: &'a Arc<Registry>,
    parts: &'a Parts,
    body: &'a [u8],
    info: RequestInfo,
    resource: Arc<Resource>,
    options: WriteOptions<'a>,
    /// Whether an applied configuration takes fields from other managers.
    force: bool,
    field_validation: FieldValidation,
    /// Those of the response.
    warnings: &'a RefCell<Vec<String>>,
}

/// Answers a request with any method but GET.
pub(crate) async fn handle(registry: &Arc<Registry>, request: Request) -> Result<Response, ApiError> {
    let (mut parts, body) = request.into_parts();
    let store = registry.store();
    let read_only = store.read_only_reason();
    let path = parts.uri.path().to_owned();
    let path = &*path;
    let review = ReviewRequest::parse(path).filter(|_| parts.method == Method::POST);
    if let Some(reason) = read_only.as_ref().filter(|_| review.is_none()) {
        return Err(ApiError::read_only(reason));
    }
    let body = body::make_json(&mut parts.headers, body::read(body).await?)?;
    if let Some(request) = review {
        let user = parts.extensions.get().cloned().unwrap_or_else(UserInfo::admin);
        let review = parse_json(&parts.headers, &body)?;
        let reviewed = request.answer(review, &user, registry, read_only.is_some())?;
        return Ok(created(json_response("application/json", reviewed.to_string())));
    }
    let mut info = RequestInfo::parse(path).ok_or_else(ApiError::unknown_path)?;
    // The older path of a binding: the pod is named in the body.
    let is_binding = info.group.is_empty() && info.resource == "bindings" && info.name.is_none();
    if is_binding && parts.method == Method::POST {
        let binding = parse_json(&parts.headers, &body)?;
        info.name = Some(binding["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        info.resource = "pods".to_owned();
        info.subresource = Some("binding".to_owned());
    }
    let query = WriteQuery::parse(&parts)?;
    let manager = query.manager(&parts.headers);
    let subresource = info.subresource.clone().unwrap_or_default();
    let writer = match parts.method {
        // What is created there has no managers.
        Method::POST if !subresource.is_empty() => FieldWriter::Component,
        Method::POST | Method::PUT | Method::PATCH => {
            FieldWriter::Manager { name: &manager, subresource: &subresource }
        }
        _ => FieldWriter::Component,
    };
    let warnings = RefCell::default();
    let request = WriteRequest {
        registry,
        resource: find_resource(&**store, &info)?,
        info,
        body: &body,
        options: WriteOptions {
            dry_run: query.is_dry_run,
            writer,
            warnings: Some(&warnings),
            ..WriteOptions::default()
        },
        force: query.force == Some(true),
        parts: &parts,
        field_validation: query.field_validation,
        warnings: &warnings,
    };
    request.warnings.borrow_mut().extend(request.resource.deprecation_warning.clone());
    let response = match parts.method {
        Method::POST => request.post(),
        Method::PUT => request.put(),
        Method::PATCH => request.patch(),
        Method::DELETE => request.delete(query.delete),
        _ => Err(method_not_allowed()),
    };
    let mut response = response.unwrap_or_else(IntoResponse::into_response);
    add_warnings(response.headers_mut(), &warnings.borrow());
    Ok(response)
}

// === impl WriteRequest ===

impl WriteRequest<'_> {
    fn post(&self) -> Result<Response, ApiError> {
        let (registry, resource) = (self.registry, &self.resource);
        let Some(name) = self.name() else {
            if self.info.namespace.is_none() && resource.namespaced {
                return Err(method_not_allowed());
            }
            let object = self.decode_body(&resource.kind)?;
            self.warn_of_finalizers(None, &object);
            self.warn_of_new_schemas(&object);
            let object = registry.create(resource, self.info.namespace.as_deref(), object, self.options)?;
            return Ok(created(self.respond(&object)?));
        };
        match self.info.subresource.as_deref() {
            None => Err(method_not_allowed()),
            Some("binding") if resource.is_pod() => {
                let binding = self.decode_body(&Kind::new("", "Binding"))?;
                registry.bind(resource, &name, &binding, self.options)?;
                Ok(created(success()))
            }
            Some("eviction") if resource.is_pod() => {
                let eviction = self.decode_body(&Kind::new("policy", "Eviction"))?;
                let options = match eviction.get("deleteOptions").filter(|options| !options.is_null()) {
                    Some(options) => DeleteOptions::deserialize(options).map_err(bad_options)?,
                    None => DeleteOptions::default(),
                };
                registry.evict(resource, &name, options, self.options)?;
                Ok(created(success()))
            }
            Some("token") if resource.kind.is("", "ServiceAccount") => {
                let request = self.decode_body(&Kind::new("authentication.k8s.io", "TokenRequest"))?;
                let request = registry.create_token(resource, &name, request)?;
                Ok(created(json_response("application/json", request.to_string())))
            }
            Some(subresource) => Err(no_container(resource, &name.name, subresource, &**registry.store())),
        }
    }

    fn put(&self) -> Result<Response, ApiError> {
        let object = self.decode_body(&self.updated_kind())?;
        self.update(self.options, |_| Ok(object.clone()))
    }

    fn patch(&self) -> Result<Response, ApiError> {
        if body::content_type(&self.parts.headers) == apply_config::MEDIA_TYPE {
            return self.apply();
        }
        let patch = Patch::parse(body::content_type(&self.parts.headers), self.body)?;
        let kind = self.updated_kind();
        self.update(self.options, |object| self.decode_patched(&kind, &patch, object))
    }

    /// Applies the configuration in the body. An object that does not exist is created.
    fn apply(&self) -> Result<Response, ApiError> {
        let (registry, resource) = (self.registry, &self.resource);
        let name = self.name().ok_or_else(method_not_allowed)?;
        let FieldWriter::Manager { name: manager, subresource } = self.options.writer else {
            return Err(method_not_allowed());
        };
        let config = decode_config(self.body)?;
        let apply = AppliedConfig { config: &config, manager, subresource, force: self.force };
        let kind = self.updated_kind();
        let applied = |old: Option<&Value>| {
            let object = registry.applied(resource, &kind, old, apply)?;
            self.check_uid(old, &object)?;
            let warnings = apply_config::warnings(self.body, self.field_validation)?;
            Ok(self.with_warnings(warnings, object, DUPLICATES_AFTER_ADMISSION))
        };
        let options = WriteOptions { writer: FieldWriter::Recorded, ..self.options };
        for _ in 0..MAX_APPLY_ATTEMPTS {
            if subresource.is_empty() && registry.store().get(resource, &name)?.is_none() {
                let object = applied(None)?;
                self.warn_of_new_schemas(&object);
                match registry.create_applied(resource, &name, object, options) {
                    // Someone else was first.
                    Err(error) if error.is_already_exists() => {}
                    Err(error) => return Err(error),
                    Ok(object) => return Ok(created(self.respond(&object)?)),
                }
            }
            match self.update(options, |object| applied(Some(object))) {
                // It was deleted since.
                Err(error) if error.is_not_found() && subresource.is_empty() => {}
                updated => return updated,
            }
        }
        Err(ApiError::modified(resource, &name.name))
    }

    /// The kind of the body of an update.
    fn updated_kind(&self) -> Kind {
        match self.info.subresource.as_deref() {
            Some("scale") => Kind::new("autoscaling", "Scale"),
            _ => self.resource.kind.clone(),
        }
    }

    /// The body of the request, an object of this kind.
    fn decode_body(&self, kind: &Kind) -> Result<Value, ApiError> {
        check_is_json(&self.parts.headers)?;
        let refused = |why: String| {
            // Of an object of another kind nothing else is said.
            if *kind == self.resource.kind
                && let Ok(mut object) = serde_json::from_slice(self.body)
                && let Err(error) = check_type(&self.resource, &mut object)
            {
                return error;
            }
            let version = if *kind == self.resource.kind { &*self.resource.version } else { "v1" };
            let kind = &kind.kind;
            ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {why}"
            ))
        };
        self.check_has_kind(kind)?;
        let mut decoded = decode_object(kind, self.body).map_err(|error| match error {
            DecodeError::Syntax(error) => ApiError::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
                 error: {error}",
                kind.kind
            )),
            DecodeError::Type(why) => refused(why),
        })?;
        if *kind == self.resource.kind {
            let unknown = self.resource.coerce(&mut decoded.value).map_err(refused)?;
            decoded.strict_errors.extend(unknown_fields(unknown));
        }
        let warnings = self.field_validation.warnings(decoded.strict_errors).map_err(refused)?;
        Ok(self.with_warnings(warnings, decoded.value, "contains duplicate entries"))
    }

    /// The decoder of custom resources needs to know their kind.
    fn check_has_kind(&self, kind: &Kind) -> Result<(), ApiError> {
        let has_kind = |object: &Value| object["kind"].as_str().is_some_and(|kind| !kind.is_empty());
        let is_custom = self.resource.custom.is_some() && *kind == self.resource.kind;
        let object = if is_custom { serde_json::from_slice(self.body).ok() } else { None };
        if object.as_ref().is_none_or(|object: &Value| !object.is_object() || has_kind(object)) {
            return Ok(());
        }
        let body = String::from_utf8_lossy(self.body);
        let summary: String = match body.char_indices().nth(SUMMARY_LENGTH) {
            Some((end, _)) => format!("{} ...", &body[..end]),
            None => body.clone().into_owned(),
        };
        Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{body}' ({summary})",
            kind.kind
        )))
    }

    /// Warns of finalizers of custom resources that others may use too.
    fn warn_of_finalizers(&self, old: Option<&Value>, new: &Value) {
        if self.resource.custom.is_none() || self.info.subresource.is_some() {
            return;
        }
        let finalizers =
            |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        let old = old.map(finalizers).unwrap_or_default();
        let mut added = finalizers(new);
        added.retain(|finalizer| !old.contains(finalizer));
        let mut added: Vec<&str> = added.iter().filter_map(Value::as_str).collect();
        added.sort_unstable();
        self.warnings.borrow_mut().extend(added.into_iter().filter_map(finalizer_warning));
    }

    /// Warns of what this server does not do with the schemas of a new definition.
    fn warn_of_new_schemas(&self, definition: &Value) {
        if self.resource.is_definition() {
            self.warnings.borrow_mut().extend(definition_warnings(definition));
        }
    }

    /// The same for a definition that is changed, once although the change may take several attempts.
    fn warn_of_expressions(&self, definition: &Value) {
        if self.resource.is_definition() {
            let mut warnings = self.warnings.borrow_mut();
            let mut added = expression_warnings(definition);
            added.retain(|warning| !warnings.contains(warning));
            warnings.append(&mut added);
        }
    }

    /// An object without duplicate owners. The warnings about it are those of the response.
    fn with_warnings(&self, mut warnings: Vec<String>, mut object: Value, duplicates: &str) -> Value {
        let uids = remove_duplicate_references(&mut object);
        if !uids.is_empty() {
            warnings.push(format!(
                ".metadata.ownerReferences {duplicates}; API server dedups owner references in 1.20+, and may reject \
                 such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}",
                uids.join(", ")
            ));
        }
        let mut all: Vec<String> = self.resource.deprecation_warning.iter().cloned().collect();
        all.append(&mut warnings);
        self.warnings.replace(all);
        object
    }

    /// The object that a patch makes of another one.
    fn decode_patched(&self, kind: &Kind, patch: &Patch, object: &Value) -> Result<Value, ApiError> {
        let text = patch.apply(kind, object)?.to_string();
        let refused = |why: String| patch.invalid(&text, &why);
        let mut decoded = decode_object(kind, text.as_bytes()).map_err(|error| refused(error.to_string()))?;
        if *kind == self.resource.kind {
            let unknown = self.resource.coerce(&mut decoded.value).map_err(refused)?;
            decoded.strict_errors.extend(unknown_fields(unknown));
        }
        let mut strict_errors = patch.strict_errors.clone();
        if !decoded.strict_errors.is_empty() {
            // What was recorded in another version of Kubernetes may have fields that are not the patch's.
            let earlier = decode_object(kind, object.to_string().as_bytes());
            let earlier = earlier.map(|decoded| decoded.strict_errors).unwrap_or_default();
            strict_errors.extend(decoded.strict_errors.into_iter().filter(|error| !earlier.contains(error)));
        }
        let warnings = self.field_validation.warnings(strict_errors).map_err(refused)?;
        self.check_uid(Some(object), &decoded.value)?;
        Ok(self.with_warnings(warnings, decoded.value, DUPLICATES_AFTER_ADMISSION))
    }

    /// The uid is a precondition of updates, but in patches a field that cannot change.
    fn check_uid(&self, old: Option<&Value>, new: &Value) -> Result<(), ApiError> {
        let uid = |object: &'_ Value| object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let (Some(old), new) = (old.map(uid), uid(new)) else { return Ok(()) };
        if new.is_empty() || new == old {
            return Ok(());
        }
        let name = self.info.name.as_deref().unwrap_or_default();
        Err(ApiError::uid_changed(&self.resource, name, &new))
    }

    /// Updates the object or subresource that the path names.
    fn update(
        &self,
        options: WriteOptions<'_>,
        mut edit: impl FnMut(&Value) -> Result<Value, ApiError>,
    ) -> Result<Response, ApiError> {
        let (registry, resource) = (self.registry, &self.resource);
        let name = self.name().ok_or_else(method_not_allowed)?;
        let part = match self.info.subresource.as_deref() {
            None => UpdatedPart::Object,
            Some("status") if resource.has_status || resource.custom.is_none() => UpdatedPart::Status,
            Some("scale") if resource.has_scale || resource.custom.is_none() => {
                let scale = registry.update_scale(resource, &name, options, edit)?;
                return Ok(json_response("application/json", scale.to_string()));
            }
            Some("resize" | "ephemeralcontainers") if resource.is_pod() => UpdatedPart::Spec,
            Some("finalize") if resource.kind.is("", "Namespace") => UpdatedPart::Spec,
            Some(subresource) => {
                return Err(no_container(resource, &name.name, subresource, &**registry.store()));
            }
        };
        let edited = |object: &Value| {
            // A client reads and writes an Event in the group of its resource.
            let edited = match resource.is_event() {
                true => edit(&resource.converted_value(object.clone()))?,
                false => edit(object)?,
            };
            self.warn_of_finalizers(Some(object), &edited);
            self.warn_of_expressions(&edited);
            Ok(edited)
        };
        let object = registry.update(resource, &name, part, options, edited)?;
        self.respond(&object)
    }

    fn delete(&self, query: DeleteOptions) -> Result<Response, ApiError> {
        let options = if self.body.is_empty() {
            query
        } else {
            check_is_json(&self.parts.headers)?;
            let decoded =
                decode_delete_options(self.body).map_err(|error| ApiError::bad_request(error.to_string()))?;
            check_policy(decoded.value["propagationPolicy"].as_str())?;
            DeleteOptions::deserialize(decoded.value).map_err(bad_options)?.or(query)
        };
        options.check()?;
        if self.info.subresource.is_some() {
            return Err(method_not_allowed());
        }
        match self.name() {
            Some(name) => match self.registry.delete(&self.resource, &name, &options, self.options)? {
                Deletion::Gone(object) if !returns_deleted_object(&self.resource) => {
                    Ok(json_response("application/json", success_status(&self.resource, &object).to_string()))
                }
                Deletion::Gone(object) | Deletion::Terminating(object) => self.respond(&object),
            },
            None => self.delete_collection(&options),
        }
    }

    fn delete_collection(&self, options: &DeleteOptions) -> Result<Response, ApiError> {
        let is_of_all_namespaces = self.resource.namespaced && self.info.namespace.is_none();
        if is_of_all_namespaces || !self.resource.can_delete_collection() {
            return Err(method_not_allowed());
        }
        let selection = ListOptions::parse(&self.parts.uri, &self.resource)?;
        let list = self.registry.store().list(&self.resource)?;
        let mut selected = Vec::new();
        for object in list.objects.range(self.info.namespace.as_deref(), None) {
            if !is_selected(&self.resource, object, &selection) {
                continue;
            }
            match self.registry.delete(&self.resource, &name_of(object), options, self.options) {
                // The response lists the objects as they were before.
                Ok(_) => selected.push(object.clone()),
                // Someone else was first.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let list = crate::store::ObjectList { objects: selected.into_iter().collect(), ..list };
        let text = self.renderer()?.list(&list, None, &ListOptions::default());
        Ok(json_response("application/json", text))
    }

    /// The name of the object that the path names.
    fn name(&self) -> Option<NamespacedName> {
        let namespace = self.info.namespace.as_deref().unwrap_or_default();
        self.info.name.as_deref().map(|name| NamespacedName::new(namespace, name))
    }

    fn renderer(&self) -> Result<ObjectRenderer, ApiError> {
        Ok(ObjectRenderer {
            resource: self.resource.clone(),
            form: ObjectForm::of(accept(&self.parts.headers))?,
            include: IncludeObject::default(),
            store: self.registry.store().clone(),
        })
    }

    fn respond(&self, object: &Object) -> Result<Response, ApiError> {
        Ok(json_response("application/json", self.renderer()?.object(object)))
    }
}

/// Kinds whose deletion returns the object instead of a Status.
pub(crate) fn returns_deleted_object(resource: &Resource) -> bool {
    let kind = &resource.kind;
    matches!(
        (&*kind.group, &*kind.kind),
        (
            "",
            "Pod"
                | "PodTemplate"
                | "ResourceQuota"
                | "Service"
                | "ServiceAccount"
                | "PersistentVolume"
                | "PersistentVolumeClaim"
        ) | ("resource.k8s.io", _)
            | (
                "storage.k8s.io",
                "StorageClass" | "VolumeAttachment" | "VolumeAttributesClass" | "CSINode" | "CSIDriver"
            )
    )
}

fn method_not_allowed() -> ApiError {
    ApiError::method_not_allowed("the server does not allow this method on the requested resource".to_owned())
}

fn success() -> Response {
    let status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    json_response("application/json", status.to_string())
}

fn created(response: Response) -> Response {
    (StatusCode::CREATED, response).into_response()
}

#[cfg(test)]
mod tests;
