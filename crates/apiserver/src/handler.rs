//! Dispatch of requests, and those that read.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::{IntoResponse, Response};
use model::{NamespacedName, Object};
use serde_json::{Value, json};

use crate::component_status;
use crate::discovery;
use crate::field_validation::add_warnings;
use crate::health;
use crate::list::{ObjectRenderer, RenderedList};
use crate::list_options::ListOptions;
use crate::media_type::{DiscoveryForm, ObjectForm};
use crate::openapi::{OpenApiDocuments, OpenApiRequest};
use crate::registry::Registry;
use crate::request_info::RequestInfo;
use crate::resource::{Resource, ResourceTable};
use crate::response::{accept, find_resource, json_response, no_container};
use crate::status::ApiError;
use crate::store::{ObjectList, Store, StoreError};
use crate::watch::{Watch, sends_initial};
use crate::write_handler;

/// The response to a request for a resource.
enum ResourceResponse {
    Json(String),
    List(Box<RenderedList>),
    Watch(Box<Watch>),
}

/// A request that reads a resource.
struct ReadRequest {
    info: RequestInfo,
    resource: Arc<Resource>,
    form: ObjectForm,
    options: ListOptions,
}

/// What requests are answered from.
#[derive(Clone)]
pub(crate) struct HandlerState {
    pub(crate) registry: Arc<Registry>,
    pub(crate) documents: Arc<OpenApiDocuments>,
}

/// Answers a request.
pub(crate) async fn handle(
    State(HandlerState { registry, documents }): State<HandlerState>,
    request: Request,
) -> Response {
    let response = match *request.method() {
        Method::GET | Method::HEAD => get(&registry, documents, request).await,
        _ => write_handler::handle(&registry, request).await,
    };
    response.unwrap_or_else(IntoResponse::into_response)
}

async fn get(
    registry: &Arc<Registry>,
    documents: Arc<OpenApiDocuments>,
    request: Request,
) -> Result<Response, ApiError> {
    let store = registry.store();
    if let Some(request) = OpenApiRequest::parse(request.uri(), request.headers()) {
        let store = store.clone();
        let answered = tokio::task::spawn_blocking(move || documents.answer(&*store, &request));
        return answered.await.map_err(|error| StoreError::Failed(error.to_string()))?;
    }
    if let Some(response) = health::answer(request.uri()) {
        return response;
    }
    let path = request.uri().path();
    if let Some(response) = get_document(&**store, path, request.headers())? {
        return Ok(response);
    }
    if let Some(document) = registry.issuer_document(path) {
        return Ok(json_response("application/json", document.to_string()));
    }
    let info =
        RequestInfo::parse(path.strip_suffix('/').unwrap_or(path)).ok_or_else(ApiError::unknown_path)?;
    let statuses = component_status::resource_of(&info).filter(|_| store.read_only_reason().is_none());
    let resource = match statuses {
        Some(resource) => Arc::new(resource),
        None => find_resource(&**store, &info)?,
    };
    let warnings: Vec<String> = resource.deprecation_warning.iter().cloned().collect();
    let (parts, _) = request.into_parts();
    let response = read(registry, &parts, info, resource).await;
    let mut response = response.unwrap_or_else(IntoResponse::into_response);
    add_warnings(response.headers_mut(), &warnings);
    Ok(response)
}

async fn read(
    registry: &Arc<Registry>,
    parts: &Parts,
    info: RequestInfo,
    resource: Arc<Resource>,
) -> Result<Response, ApiError> {
    let store = registry.store();
    let options = ListOptions::parse(&parts.uri, &resource)?;
    let form = ObjectForm::of(accept(&parts.headers))?;
    let read = ReadRequest { info, resource, form, options };
    // A list may be long even if it is in memory.
    let is_quick = store.is_in_memory() && (read.info.name.is_some() || read.options.watch);
    let response = if is_quick {
        read.answer(registry)?
    } else {
        let registry = registry.clone();
        let answered = tokio::task::spawn_blocking(move || read.answer(&registry));
        answered.await.map_err(|error| StoreError::Failed(error.to_string()))??
    };
    Ok(match response {
        ResourceResponse::Json(text) => json_response("application/json", text),
        ResourceResponse::List(list) => json_response("application/json", *list),
        ResourceResponse::Watch(watch) => json_response("application/json", watch.into_body()),
    })
}

/// Discovery and version. `None` for other paths.
fn get_document(store: &dyn Store, path: &str, headers: &HeaderMap) -> Result<Option<Response>, ApiError> {
    let table = store.resources();
    let plain = |document: Option<Value>| {
        let document = document.ok_or_else(ApiError::unknown_path)?;
        Ok(Some(json_response("application/json", document.to_string())))
    };
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        [""] if path == "/" => plain(Some(discovery::root_paths(&table))),
        ["version"] => plain(Some(version(store.git_version()))),
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

// === impl ReadRequest ===

impl ReadRequest {
    fn answer(self, registry: &Registry) -> Result<ResourceResponse, ApiError> {
        let store = registry.store();
        let list = match self.resource.kind.is("", "ComponentStatus") {
            true => component_status::list(registry),
            false => store.list(&self.resource)?,
        };
        self.options.check_version(&list)?;
        let renderer = self.renderer(store);
        let Some(name) = &self.info.name else {
            if self.options.watch {
                return Ok(ResourceResponse::Watch(Box::new(self.into_watch(store, renderer, list))));
            }
            let list = renderer.list(&list, self.info.namespace.as_deref(), &self.options);
            return Ok(ResourceResponse::List(Box::new(list)));
        };
        let key = NamespacedName::new(self.info.namespace.as_deref().unwrap_or_default(), name.as_str());
        let object = list.objects.get(&key).ok_or_else(|| ApiError::not_found(&self.resource, name))?;
        match self.info.subresource.as_deref() {
            None => Ok(ResourceResponse::Json(renderer.object(object))),
            Some("status") if self.resource.has_status => Ok(ResourceResponse::Json(renderer.object(object))),
            Some("resize" | "ephemeralcontainers") if self.resource.is_pod() => {
                Ok(ResourceResponse::Json(renderer.object(object)))
            }
            Some("scale") if self.resource.has_scale => {
                let scale = registry.scale(&self.resource, &key)?;
                let renderer =
                    ObjectRenderer { resource: Resource::scale_of(&self.resource).into(), ..renderer };
                let scale = Object::parse(&scale.to_string())
                    .map_err(|error| ApiError::internal(error.to_string()))?;
                Ok(ResourceResponse::Json(renderer.object(&scale)))
            }
            Some(subresource) => Err(no_container(&self.resource, name, subresource, &**store)),
        }
    }

    fn renderer(&self, store: &Arc<dyn Store>) -> ObjectRenderer {
        ObjectRenderer {
            resource: self.resource.clone(),
            form: self.form,
            include: self.options.include_object,
            store: store.clone(),
        }
    }

    fn into_watch(self, store: &Arc<dyn Store>, renderer: ObjectRenderer, list: ObjectList) -> Watch {
        let is_current = sends_initial(&self.options);
        let requested = self.options.resource_version.unwrap_or(0);
        Watch {
            store: store.clone(),
            renderer,
            namespace: self.info.namespace,
            version: if is_current { list.resource_version } else { requested },
            initial: is_current.then_some(list),
            options: self.options,
        }
    }
}

fn version(git_version: &str) -> Value {
    let mut numbers = git_version.trim_start_matches('v').split('.');
    let (major, minor) = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
    json!({
        "major": major, "minor": minor, "gitVersion": git_version, "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": "kinescope",
    })
}
