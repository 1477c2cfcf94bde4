//! Parts that requests which read and those which write have in common: the resource of a path, headers, and responses.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::request_info::RequestInfo;
use crate::resource::Resource;
use crate::status::ApiError;
use crate::store::Store;

/// The resource that a request is about.
pub(crate) fn find_resource(store: &dyn Store, info: &RequestInfo) -> Result<Arc<Resource>, ApiError> {
    let table = store.resources();
    let found = table.find(&info.group, &info.version, &info.resource);
    let resource = found.ok_or_else(ApiError::unknown_path)?;
    if info.namespace.is_some() && !resource.namespaced {
        return Err(ApiError::unknown_path());
    }
    if info.name.is_some() && info.namespace.is_none() && resource.namespaced {
        return Err(ApiError::unknown_path());
    }
    Ok(resource.clone())
}

/// The answer to requests for a subresource that an object does not have. No containers run here.
pub(crate) fn no_container(
    resource: &Resource,
    name: &str,
    subresource: &str,
    store: &dyn Store,
) -> ApiError {
    match subresource {
        "log" | "exec" | "attach" | "portforward" | "proxy"
            if resource.is_pod() || subresource == "proxy" =>
        {
            ApiError::not_implemented(match (store.read_only_reason(), subresource) {
                (Some(reason), "log") => format!("logs were not recorded: {reason}"),
                (Some(reason), _) => format!("{subresource} needs a running container: {reason}"),
                (None, _) => format!(
                    "{subresource} needs a running container: this is a virtual cluster, whose pods have no containers"
                ),
            })
        }
        _ if resource.custom.is_some() => ApiError::not_found(resource, name),
        _ => ApiError::unknown_path(),
    }
}

pub(crate) fn accept(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok())
}

pub(crate) fn json_response(content_type: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))], body.into()).into_response()
}
