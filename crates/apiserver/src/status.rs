//! Status errors, as Kubernetes API servers answer them.

use apimachinery::managed_fields::FieldConflict;
use apimachinery::protobuf::ProtobufError;
use apimachinery::validation::{FieldError, aggregate_message};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use kubernetes::go::text::quote;
use model::Kind;
use serde_json::{Value, json};

use crate::resource::Resource;
use crate::store::StoreError;

/// An error of a request: the `Status` object of the response.
#[derive(Debug, PartialEq)]
pub struct ApiError {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
}

/// An invalid field of something that has no name.
pub(crate) struct InvalidField {
    field: &'static str,
    reason: &'static str,
    detail: String,
}

/// When a client that has to wait should try again.
const RETRY_AFTER_SECONDS: u32 = 1;

// === impl InvalidField ===

impl InvalidField {
    /// The value is not one of a fixed set. It is printed as it is.
    pub(crate) fn not_supported(field: &'static str, value: &str, supported: &[&str]) -> InvalidField {
        let supported: Vec<String> = supported.iter().map(|value| quote(value)).collect();
        let detail = format!("Unsupported value: {value}: supported values: {}", supported.join(", "));
        InvalidField { field, reason: "FieldValueNotSupported", detail }
    }

    /// The field must not be set here.
    pub(crate) fn forbidden(field: &'static str, why: &str) -> InvalidField {
        InvalidField { field, reason: "FieldValueForbidden", detail: format!("Forbidden: {why}") }
    }

    /// The field must be set.
    pub(crate) fn required(field: &'static str, why: &str) -> InvalidField {
        InvalidField { field, reason: "FieldValueRequired", detail: format!("Required value: {why}") }
    }

    /// The text is longer than so many bytes.
    pub(crate) fn too_long(field: &'static str, limit: usize) -> InvalidField {
        let detail = format!("Too long: may not be more than {limit} bytes");
        InvalidField { field, reason: "FieldValueTooLong", detail }
    }

    /// The field has a wrong value. It is printed as it is.
    pub(crate) fn invalid(field: &'static str, value: &str, why: &str) -> InvalidField {
        InvalidField { field, reason: "FieldValueInvalid", detail: format!("Invalid value: {value}: {why}") }
    }
}

// === impl ApiError ===

impl ApiError {
    /// The object does not exist.
    pub(crate) fn not_found(resource: &Resource, name: &str) -> ApiError {
        let message = format!("{} {name:?} not found", resource.qualified_name());
        ApiError {
            details: details_of(resource, name),
            ..ApiError::new(StatusCode::NOT_FOUND, "NotFound", message)
        }
    }

    /// The path or resource does not exist.
    pub(crate) fn unknown_path() -> ApiError {
        let message = "the server could not find the requested resource".to_owned();
        ApiError { code: StatusCode::NOT_FOUND, reason: "NotFound", message, details: json!({}) }
    }

    /// The request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// The object is for another namespace than that of the URL.
    pub(crate) fn other_namespace() -> ApiError {
        ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )
    }

    pub(crate) fn unauthorized() -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// A request under a name that is not the server's.
    pub(crate) fn forbidden_host() -> ApiError {
        let message = "forbidden: without a token only localhost and IP addresses are served";
        ApiError::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    /// The server does not do this with anything of the kind.
    pub fn method_not_allowed(message: String) -> ApiError {
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// The store accepts no writes.
    pub(crate) fn read_only(reason: &str) -> ApiError {
        ApiError::method_not_allowed(format!("{reason}: it can be read, but not changed"))
    }

    /// A feature that the server does not have.
    pub(crate) fn not_implemented(message: String) -> ApiError {
        ApiError::new(StatusCode::NOT_IMPLEMENTED, "NotImplemented", message)
    }

    /// The media types that the client accepts are not served.
    pub(crate) fn not_acceptable(accept: &str) -> ApiError {
        let message = format!(
            "only the following media types are accepted: application/json, application/json;as=Table;v=v1;\
             g=meta.k8s.io, application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io; requested: {accept}"
        );
        ApiError::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// A body in an encoding other than JSON.
    pub(crate) fn unsupported_media_type(content_type: &str) -> ApiError {
        ApiError::unsupported_media_type_of(content_type, "application/json")
    }

    /// A body in an encoding other than those accepted.
    pub(crate) fn unsupported_media_type_of(content_type: &str, accepted: &str) -> ApiError {
        let message = format!(
            "the body of the request was in an unknown format - accepted media types include: {accepted}; \
             the request has: {content_type}"
        );
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// A patch of a type that custom resources do not have.
    pub(crate) fn unsupported_custom_patch() -> ApiError {
        let message = "the body of the request was in an unknown format - accepted media types include: \
                       application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// A body in the protobuf encoding of an object that is only known in JSON.
    pub(crate) fn unsupported_protobuf(error: &ProtobufError) -> ApiError {
        let message = format!(
            "{error}; send JSON: set contentType to application/json in the client's configuration (for Kubernetes \
             components: clientConnection, or --kube-api-content-type)"
        );
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// An object of the name exists.
    pub(crate) fn already_exists(resource: &Resource, name: &str) -> ApiError {
        let message = format!("{} {name:?} already exists", resource.qualified_name());
        ApiError {
            details: details_of(resource, name),
            ..ApiError::new(StatusCode::CONFLICT, "AlreadyExists", message)
        }
    }

    /// The write is based on another version of the object, or not possible in its state.
    pub(crate) fn conflict(resource: &Resource, name: &str, why: impl std::fmt::Display) -> ApiError {
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.qualified_name());
        ApiError {
            details: details_of(resource, name),
            ..ApiError::new(StatusCode::CONFLICT, "Conflict", message)
        }
    }

    /// The preconditions of a deletion do not hold. Kubernetes names the kind here, not the resource.
    pub(crate) fn conflict_of_kind(resource: &Resource, name: &str, why: impl std::fmt::Display) -> ApiError {
        let mut details = details_of(resource, name);
        details["kind"] = (*resource.kind.kind).into();
        let message =
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", qualified_kind(resource));
        ApiError { details, ..ApiError::new(StatusCode::CONFLICT, "Conflict", message) }
    }

    /// A patch changes the uid of an object. The server checks that twice.
    pub(crate) fn uid_changed(resource: &Resource, name: &str, uid: &str) -> ApiError {
        let detail = format!("Invalid value: {}: field is immutable", quote(uid));
        let cause = json!({"reason": "FieldValueInvalid", "message": detail, "field": "metadata.uid"});
        let mut details = details_of(resource, name);
        details["kind"] = (*resource.kind.kind).into();
        details["causes"] = json!([cause, cause]);
        let message = format!("{} {name:?} is invalid: metadata.uid: {detail}", qualified_kind(resource));
        ApiError { details, ..ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message) }
    }

    /// A configuration would change fields of other managers.
    pub(crate) fn apply_conflict(message: String, conflicts: &[FieldConflict]) -> ApiError {
        let cause = |conflict: &FieldConflict| json!({"reason": "FieldManagerConflict", "message": conflict.message, "field": conflict.field});
        let details = json!({"causes": conflicts.iter().map(cause).collect::<Value>()});
        ApiError { details, ..ApiError::new(StatusCode::CONFLICT, "Conflict", message) }
    }

    /// An error that the original does not expect.
    pub(crate) fn unexpected(message: String) -> ApiError {
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// The write is based on an old version of the object.
    pub(crate) fn modified(resource: &Resource, name: &str) -> ApiError {
        let why =
            "the object has been modified; please apply your changes to the latest version and try again";
        ApiError::conflict(resource, name, why)
    }

    /// The name of a changed object is missing.
    pub(crate) fn name_undeterminable(name: &str) -> ApiError {
        ApiError::bad_request(format!(
            "the name of the object ({name} based on URL) was undeterminable: name must be provided"
        ))
    }

    /// An admission plugin refuses the object.
    pub(crate) fn forbidden(resource: &Resource, name: &str, why: impl std::fmt::Display) -> ApiError {
        let message = format!("{} {name:?} is forbidden: {why}", resource.qualified_name());
        ApiError {
            details: details_of(resource, name),
            ..ApiError::new(StatusCode::FORBIDDEN, "Forbidden", message)
        }
    }

    /// The same, of an object whose kind may be the invalid field.
    pub(crate) fn invalid_object(
        resource: &Resource,
        object: &Value,
        name: &str,
        errors: &[FieldError],
    ) -> ApiError {
        match object["kind"].as_str().filter(|kind| **kind != *resource.kind.kind) {
            None => ApiError::invalid(resource, name, errors),
            Some(found) => {
                let kind = Kind::new(&resource.kind.group, found);
                ApiError::invalid(&Resource { kind, ..resource.clone() }, name, errors)
            }
        }
    }

    /// The server itself failed.
    pub(crate) fn internal(message: String) -> ApiError {
        let message = format!("Internal error occurred: {message}");
        ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// The object has invalid fields.
    pub(crate) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> ApiError {
        let message =
            format!("{} {name:?} is invalid: {}", qualified_kind(resource), aggregate_message(errors));
        let cause = |error: &FieldError| json!({"reason": error.reason(), "message": error.message(), "field": error.field()});
        let mut details = details_of(resource, name);
        details["kind"] = (*resource.kind.kind).into();
        details["causes"] = errors.iter().map(cause).collect();
        ApiError { details, ..ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message) }
    }

    /// The update of an object does not say on which version it is based.
    pub(crate) fn version_required(resource: &Resource, name: &str) -> ApiError {
        let detail = "Invalid value: 0: must be specified for an update";
        let cause =
            json!({"reason": "FieldValueInvalid", "message": detail, "field": "metadata.resourceVersion"});
        let mut details = details_of(resource, name);
        details["causes"] = json!([cause]);
        let message =
            format!("{} {name:?} is invalid: metadata.resourceVersion: {detail}", resource.qualified_name());
        ApiError { details, ..ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message) }
    }

    /// The result of a patch is not an object of its kind.
    pub(crate) fn invalid_patch(value: &str, why: &str) -> ApiError {
        let detail = format!("Invalid value: {}: {why}", quote(value));
        let details =
            json!({"causes": [{"reason": "FieldValueInvalid", "message": detail, "field": "patch"}]});
        let message = format!(" \"\" is invalid: patch: {detail}");
        ApiError { details, ..ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message) }
    }

    /// A parameter of a URL has a value that it cannot have. `kind` is that of the options that it belongs to.
    pub(crate) fn invalid_option(
        kind: &str,
        field: &'static str,
        value: &str,
        supported: &[&str],
    ) -> ApiError {
        ApiError::invalid_options(kind, &[InvalidField::not_supported(field, value, supported)])
    }

    /// The options of a request contradict each other.
    pub(crate) fn invalid_options(kind: &str, errors: &[InvalidField]) -> ApiError {
        ApiError::invalid_fields("meta.k8s.io", kind, "", errors)
    }

    /// Something that is not stored, such as options or a review, is invalid. Most have no name.
    pub(crate) fn invalid_fields(group: &str, kind: &str, name: &str, errors: &[InvalidField]) -> ApiError {
        let cause = |error: &InvalidField| json!({"reason": error.reason, "message": error.detail, "field": error.field});
        let mut details = json!({"group": group, "causes": errors.iter().map(cause).collect::<Value>()});
        if !kind.is_empty() {
            details["kind"] = kind.into();
        }
        if !name.is_empty() {
            details["name"] = name.into();
        }
        let messages: Vec<String> =
            errors.iter().map(|error| format!("{}: {}", error.field, error.detail)).collect();
        let message = match &messages[..] {
            [message] => message.clone(),
            messages => format!("[{}]", messages.join(", ")),
        };
        let message = format!("{kind}.{group} {name:?} is invalid: {message}");
        ApiError { details, ..ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message) }
    }

    /// A request that the server understands, with content that it cannot process.
    pub(crate) fn unprocessable(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    /// The events after a resourceVersion are no longer known.
    pub(crate) fn expired(requested: u64, oldest: u64) -> ApiError {
        let message = format!("too old resource version: {requested} ({oldest})");
        ApiError::new(StatusCode::GONE, "Expired", message)
    }

    /// The client is to try again, after some seconds unless they are 0.
    pub(crate) fn too_many_requests(message: impl Into<String>, seconds: u32) -> ApiError {
        let details = if seconds == 0 { json!({}) } else { json!({"retryAfterSeconds": seconds}) };
        ApiError { details, ..ApiError::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message) }
    }

    /// The body is larger than the server accepts.
    pub(crate) fn too_large(limit: usize) -> ApiError {
        let message = format!("Request entity too large: limit is {limit}");
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// A JSON patch of more operations than the server accepts.
    pub(crate) fn too_many_operations(limit: usize, count: usize) -> ApiError {
        let message = format!(
            "Request entity too large: The allowed maximum operations in a JSON patch is {limit}, got {count}"
        );
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// The same error with a cause.
    #[must_use]
    pub(crate) fn with_cause(mut self, reason: &str, message: &str) -> ApiError {
        if !self.details.is_object() {
            self.details = json!({});
        }
        self.details["causes"] = json!([{"reason": reason, "message": message}]);
        self
    }

    /// Whether a cause has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        let causes = self.details["causes"].as_array();
        causes.into_iter().flatten().any(|cause| cause["reason"] == reason)
    }

    /// Whether the object does not exist.
    pub fn is_not_found(&self) -> bool {
        self.code == StatusCode::NOT_FOUND
    }

    /// Whether another writer was first.
    pub(crate) fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// Whether another write was first.
    pub fn is_conflict(&self) -> bool {
        self.code == StatusCode::CONFLICT
    }

    /// The Status object.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code.as_u16(),
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }

    /// The resourceVersion is newer than the server's.
    pub(crate) fn too_new(requested: u64, current: u64) -> ApiError {
        let message = format!("Timeout: Too large resource version: {requested}, current: {current}");
        let causes = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        ApiError {
            code: StatusCode::GATEWAY_TIMEOUT,
            reason: "Timeout",
            message,
            details: json!({"causes": causes, "retryAfterSeconds": 1}),
        }
    }

    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> ApiError {
        ApiError { code, reason, message: message.into(), details: Value::Null }
    }
}

/// The kind with its group: `Deployment.apps`.
fn qualified_kind(resource: &Resource) -> String {
    let kind = &resource.kind;
    if kind.group.is_empty() { kind.kind.to_string() } else { format!("{}.{}", kind.kind, kind.group) }
}

/// Name, group and plural of an object.
fn details_of(resource: &Resource, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": resource.plural});
    if !resource.kind.group.is_empty() {
        details["group"] = (*resource.kind.group).into();
    }
    details
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}

impl From<StoreError> for ApiError {
    fn from(error: StoreError) -> ApiError {
        match error {
            StoreError::Conflict => {
                ApiError::new(StatusCode::CONFLICT, "Conflict", "the object has been modified")
            }
            StoreError::Expired { oldest } => ApiError::expired(0, oldest),
            StoreError::TooNew { current } => ApiError::too_new(0, current),
            StoreError::Overloaded => ApiError::too_many_requests(
                "the cluster's components are behind; please try again later",
                RETRY_AFTER_SECONDS,
            ),
            StoreError::ReadOnly(reason) => ApiError::read_only(&reason),
            StoreError::Failed(message) => ApiError::internal(message),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let json = HeaderValue::from_static("application/json");
        let mut response =
            (self.code, [(header::CONTENT_TYPE, json)], self.status().to_string()).into_response();
        // Clients of the load balancer in front of an API server read the header, client-go the details.
        if let Some(seconds) = self.details.get("retryAfterSeconds").and_then(Value::as_u64) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
