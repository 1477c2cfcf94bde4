//! Dispatch of requests.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::NamespacedName;
use serde_json::{Value, json};

use crate::discovery;
use crate::list::ObjectRenderer;
use crate::list_options::ListOptions;
use crate::media_type::{DiscoveryForm, ObjectForm};
use crate::request_info::RequestInfo;
use crate::resource::{Resource, ResourceTable};
use crate::status::ApiError;
use crate::store::{Store, StoreError};
use crate::watch::WatchPlan;

/// The largest request body accepted.
const MAX_BODY_BYTES: usize = 3 << 20;

/// The response to a request for a resource.
enum ResourceResponse {
    Json(String),
    Watch(WatchPlan),
}

/// Answers a request.
pub(crate) async fn handle(State(store): State<Arc<dyn Store>>, request: Request) -> Response {
    let response = match *request.method() {
        Method::GET => get(store, request).await,
        Method::POST => post(&*store, request).await,
        _ => Err(ApiError::method_not_allowed(store.read_only_reason())),
    };
    response.unwrap_or_else(IntoResponse::into_response)
}

async fn get(store: Arc<dyn Store>, request: Request) -> Result<Response, ApiError> {
    let path = request.uri().path().to_owned();
    if let Some(response) = get_document(&*store, &path, request.headers())? {
        return Ok(response);
    }
    let info = RequestInfo::parse(&path).ok_or_else(ApiError::unknown_path)?;
    let table = store.resources();
    if table.find(&info.group, &info.version, &info.resource).is_none() {
        return Err(ApiError::unknown_path());
    }
    let uri = request.uri().clone();
    let form = ObjectForm::of(accept(request.headers()))?;
    let response = tokio::task::spawn_blocking(move || {
        let resource =
            table.find(&info.group, &info.version, &info.resource).ok_or_else(ApiError::unknown_path)?;
        let options = ListOptions::parse(&uri, resource)?;
        get_resource(&*store, resource, &info, form, &options)
    });
    let response = response.await.map_err(|error| StoreError(error.to_string()))??;
    Ok(match response {
        ResourceResponse::Json(text) => json_response("application/json", text),
        ResourceResponse::Watch(plan) => json_response("application/json", plan.into_body()),
    })
}

/// Discovery, health and version. `None` for other paths.
fn get_document(store: &dyn Store, path: &str, headers: &HeaderMap) -> Result<Option<Response>, ApiError> {
    let table = store.resources();
    let plain = |document: Option<Value>| {
        let document = document.ok_or_else(ApiError::unknown_path)?;
        Ok(Some(json_response("application/json", document.to_string())))
    };
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["healthz" | "livez" | "readyz", ..] => Ok(Some("ok".into_response())),
        ["version"] => plain(Some(version(store.git_version()))),
        ["openapi", "v3"] => plain(Some(json!({"paths": {}}))),
        ["api"] => discovery_response(headers, &table, discovery::api_versions, discovery::aggregated_core),
        ["apis"] => {
            discovery_response(headers, &table, discovery::api_group_list, discovery::aggregated_groups)
        }
        ["api", version] => plain(discovery::api_resource_list(&table, "", version)),
        ["apis", group] => plain(discovery::api_group(&table, group)),
        ["apis", group, version] => plain(discovery::api_resource_list(&table, group, version)),
        _ => Ok(None),
    }
}

fn discovery_response(
    headers: &HeaderMap,
    table: &ResourceTable,
    plain: fn(&ResourceTable) -> Value,
    aggregated: fn(&ResourceTable) -> Value,
) -> Result<Option<Response>, ApiError> {
    let form = DiscoveryForm::of(accept(headers))?;
    let document = match form {
        DiscoveryForm::Plain => plain(table),
        DiscoveryForm::Aggregated => aggregated(table),
    };
    Ok(Some(json_response(form.content_type(), document.to_string())))
}

fn get_resource(
    store: &dyn Store,
    resource: &Resource,
    info: &RequestInfo,
    form: ObjectForm,
    options: &ListOptions,
) -> Result<ResourceResponse, ApiError> {
    if info.namespace.is_some() && !resource.namespaced {
        return Err(ApiError::unknown_path());
    }
    let list = store.list(resource)?;
    if let Some(requested) = options.resource_version.filter(|requested| *requested > list.resource_version) {
        return Err(ApiError::too_new(requested, list.resource_version));
    }
    let renderer = ObjectRenderer { resource, form, include: options.include_object, now: store.now() };
    let namespace = info.namespace.as_deref();
    let Some(name) = &info.name else {
        return Ok(match options.watch {
            true => ResourceResponse::Watch(WatchPlan::new(&renderer, &list, namespace, options)),
            false => ResourceResponse::Json(renderer.list(&list, namespace, options)),
        });
    };
    if resource.namespaced && namespace.is_none() {
        return Err(ApiError::unknown_path());
    }
    let found = list.get(&NamespacedName::new(namespace.unwrap_or_default(), name.as_str()));
    let object = found.ok_or_else(|| ApiError::not_found(resource, name))?;
    match info.subresource.as_deref() {
        None | Some("status") => Ok(ResourceResponse::Json(renderer.object(object))),
        Some(subresource @ ("log" | "exec" | "attach" | "portforward" | "proxy")) => {
            let message = format!("{subresource} needs a running container: {}", store.read_only_reason());
            Err(ApiError::not_implemented(message))
        }
        Some(_) => Err(ApiError::unknown_path()),
    }
}

/// Reviews of the client's own permissions are answered; nothing else can be posted.
async fn post(store: &dyn Store, request: Request) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let review = match parts.uri.path() {
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" => access_review,
        "/apis/authentication.k8s.io/v1/selfsubjectreviews" => subject_review,
        _ => return Err(ApiError::method_not_allowed(store.read_only_reason())),
    };
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or("application/json");
    if !content_type.starts_with("application/json") {
        return Err(ApiError::unsupported_media_type(content_type));
    }
    let body =
        to_bytes(body, MAX_BODY_BYTES).await.map_err(|error| ApiError::bad_request(error.to_string()))?;
    let body: Value =
        serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let reviewed = json_response("application/json", review(body).to_string());
    Ok((StatusCode::CREATED, reviewed).into_response())
}

/// Everything may be read, and nothing written.
fn access_review(mut review: Value) -> Value {
    let verb = review
        .pointer("/spec/resourceAttributes/verb")
        .or_else(|| review.pointer("/spec/nonResourceAttributes/verb"));
    let is_read = verb.and_then(Value::as_str).is_some_and(|verb| matches!(verb, "get" | "list" | "watch"));
    review["status"] = json!({"allowed": is_read});
    review
}

fn subject_review(mut review: Value) -> Value {
    review["status"] = json!({"userInfo": {"username": "kinescope", "groups": ["system:authenticated"]}});
    review
}

fn version(git_version: &str) -> Value {
    let mut numbers = git_version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    json!({
        "major": major, "minor": minor, "gitVersion": git_version, "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "kinescope",
    })
}

fn accept(headers: &HeaderMap) -> Option<&str> {
    headers.get(header::ACCEPT).and_then(|value| value.to_str().ok())
}

fn json_response(content_type: &'static str, body: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static(content_type))], body.into()).into_response()
}
