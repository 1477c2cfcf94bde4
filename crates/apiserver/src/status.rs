//! Status errors, as Kubernetes API servers answer them.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use crate::resource::Resource;
use crate::store::StoreError;

/// An error of a request: the `Status` object of the response.
#[derive(Debug, PartialEq)]
pub(crate) struct ApiError {
    code: StatusCode,
    reason: &'static str,
    message: String,
    details: Value,
}

// === impl ApiError ===

impl ApiError {
    /// The object does not exist.
    pub(crate) fn not_found(resource: &Resource, name: &str) -> ApiError {
        let message = format!("{} {name:?} not found", resource.qualified_name());
        let mut details = json!({"name": name, "kind": resource.plural});
        if !resource.kind.group.is_empty() {
            details["group"] = (*resource.kind.group).into();
        }
        ApiError { code: StatusCode::NOT_FOUND, reason: "NotFound", message, details }
    }

    /// The path or resource does not exist.
    pub(crate) fn unknown_path() -> ApiError {
        let message = "the server could not find the requested resource".to_owned();
        ApiError { code: StatusCode::NOT_FOUND, reason: "NotFound", message, details: json!({}) }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> ApiError {
        ApiError::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn unauthorized() -> ApiError {
        ApiError::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// A request under a name that is not the server's.
    pub(crate) fn forbidden_host() -> ApiError {
        let message = "forbidden: without a token only localhost and IP addresses are served";
        ApiError::new(StatusCode::FORBIDDEN, "Forbidden", message)
    }

    pub(crate) fn method_not_allowed(message: String) -> ApiError {
        ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
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
        let message = format!(
            "the body of the request was in an unsupported format: {content_type}; this server reads application/json"
        );
        ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
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

impl From<StoreError> for ApiError {
    fn from(StoreError(message): StoreError) -> ApiError {
        ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalError",
            format!("Internal error occurred: {message}"),
        )
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code.as_u16(),
        });
        if !self.details.is_null() {
            status["details"] = self.details;
        }
        let json = HeaderValue::from_static("application/json");
        (self.code, [(header::CONTENT_TYPE, json)], status.to_string()).into_response()
    }
}
