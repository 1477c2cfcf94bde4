//! OpenAPI documents: made of the resources of a store when a client first asks for them, and kept until definitions of
//! custom resources change.
//!
//! kubectl validates, patches and explains objects by them. The documents of built-in groups have a fixed size, those of
//! custom resources that of their definitions.

mod gnostic;
mod operations;
mod schemas;
#[cfg(test)]
mod tests;
mod v2;
mod v3;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use kubernetes::kinds;
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_128;

use crate::discovery::{named_groups, versions};
use crate::media_type::OpenApiForm;
use crate::resource::{ResourceTable, group_version};
use crate::response::accept;
use crate::status::ApiError;
use crate::store::Store;
use operations::PathItem;
use schemas::Schemas;

/// The documents of a server.
#[derive(Default)]
pub(crate) struct OpenApiDocuments {
    cache: Mutex<Cache>,
}

/// A request for a document.
pub(crate) struct OpenApiRequest {
    target: Target,
    accept: Option<String>,
    /// The version of the document that the client has.
    etag: Option<String>,
    /// The version that the URL names.
    hash: Option<String>,
}

enum Target {
    /// `/openapi/v2`
    V2,
    /// `/openapi/v3`
    Index,
    /// `/openapi/v3/apis/apps/v1`: the part after `v3/`.
    GroupVersion(String),
}

/// What was made for a table of resources.
#[derive(Default)]
struct Cache {
    table: Option<Arc<ResourceTable>>,
    /// The documents of v3, by their paths: `apis/apps/v1`.
    group_versions: BTreeMap<String, Document>,
    v2: Option<Document>,
    v2_protobuf: Option<Document>,
}

#[derive(Clone)]
struct Document {
    body: Bytes,
    /// Of the document in JSON.
    hash: String,
    /// Whether it has custom resources.
    is_custom: bool,
}

// === impl OpenApiRequest ===

impl OpenApiRequest {
    /// The document that a request asks for; `None` if it asks for something else.
    pub(crate) fn parse(uri: &Uri, headers: &HeaderMap) -> Option<OpenApiRequest> {
        let target = match uri.path().strip_prefix("/openapi/")? {
            "v2" => Target::V2,
            "v3" | "v3/" => Target::Index,
            path => Target::GroupVersion(path.strip_prefix("v3/")?.to_owned()),
        };
        let parameters = uri.query().unwrap_or_default().split('&');
        let etag = headers.get(header::IF_NONE_MATCH).and_then(|etag| etag.to_str().ok());
        Some(OpenApiRequest {
            target,
            accept: accept(headers).map(str::to_owned),
            etag: etag.map(str::to_owned),
            hash: parameters
                .filter_map(|parameter| parameter.strip_prefix("hash="))
                .next()
                .map(str::to_owned),
        })
    }

    /// The document, or that the client has it already.
    fn response(&self, document: &Document, content_type: &'static str) -> Response {
        let etag = format!("\"{}\"", document.hash);
        let headers = [(header::ETAG, etag.clone()), (header::VARY, "Accept".to_owned())];
        let mut response = if self.etag.as_deref().is_some_and(|known| known.contains(&etag)) {
            (StatusCode::NOT_MODIFIED, headers).into_response()
        } else {
            let content_type = [(header::CONTENT_TYPE, content_type)];
            (headers, content_type, Body::from(document.body.clone())).into_response()
        };
        if self.hash.is_some() {
            // The URL names this version: another one will have another URL.
            let forever = header::HeaderValue::from_static("public, immutable, max-age=31536000");
            response.headers_mut().insert(header::CACHE_CONTROL, forever);
        }
        response
    }
}

// === impl OpenApiDocuments ===

impl OpenApiDocuments {
    /// Answers a request. It may block.
    pub(crate) fn answer(&self, store: &dyn Store, request: &OpenApiRequest) -> Result<Response, ApiError> {
        let accept = request.accept.as_deref();
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        cache.follow(store.resources());
        match &request.target {
            Target::Index => {
                cache.make_group_versions(store)?;
                let index = cache.index().to_string();
                Ok(request.response(&Document::new(index, false), "application/json"))
            }
            Target::GroupVersion(path) => {
                OpenApiForm::of(accept, &[OpenApiForm::Json])?;
                cache.make_group_versions(store)?;
                let document = cache.group_versions.get(path).ok_or_else(ApiError::unknown_path)?;
                if request.hash.as_ref().is_some_and(|hash| *hash != document.hash) {
                    let location = [(header::LOCATION, url(path, &document.hash))];
                    return Ok((StatusCode::MOVED_PERMANENTLY, location).into_response());
                }
                Ok(request.response(document, "application/json"))
            }
            Target::V2 => match OpenApiForm::of(accept, &[OpenApiForm::Json, OpenApiForm::ProtobufV2])? {
                OpenApiForm::Json => Ok(request.response(cache.v2(store)?, "application/json")),
                OpenApiForm::ProtobufV2 => {
                    let content_type = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
                    Ok(request.response(cache.v2_protobuf(store)?, content_type))
                }
            },
        }
    }
}

// === impl Cache ===

impl Cache {
    /// Drops what was made of another table.
    fn follow(&mut self, table: Arc<ResourceTable>) {
        if self.table.as_ref().is_some_and(|known| Arc::ptr_eq(known, &table)) {
            return;
        }
        let are_built_in = |path: &str| {
            group_versions(&table).any(|(known, group, version)| {
                known == path && !table.in_version(group, version).any(|resource| resource.is_custom())
            })
        };
        self.group_versions.retain(|path, document| !document.is_custom && are_built_in(path));
        self.v2 = None;
        self.v2_protobuf = None;
        self.table = Some(table);
    }

    fn table(&self) -> Arc<ResourceTable> {
        self.table.clone().unwrap_or_default()
    }

    /// Makes the documents of v3 that are missing.
    fn make_group_versions(&mut self, store: &dyn Store) -> Result<(), ApiError> {
        let table = self.table();
        let missing: Vec<_> =
            group_versions(&table).filter(|(path, ..)| !self.group_versions.contains_key(path)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let schemas = read_schemas(store, &table)?;
        for (path, group, version) in missing {
            let paths = operations::paths(&table, group, version);
            let is_custom = table.in_version(group, version).any(|resource| resource.is_custom());
            let document = v3::document(&paths, &schemas, store.git_version());
            self.group_versions.insert(path, Document::new(document, is_custom));
        }
        Ok(())
    }

    /// The list of the documents of v3.
    fn index(&self) -> Value {
        let entry = |(path, document): (&String, &Document)| {
            (path.clone(), json!({"serverRelativeURL": url(path, &document.hash)}))
        };
        let paths: Map<String, Value> = self.group_versions.iter().map(entry).collect();
        json!({"paths": paths})
    }

    fn v2(&mut self, store: &dyn Store) -> Result<&Document, ApiError> {
        let document = match self.v2.take() {
            Some(document) => document,
            None => Document::new(make_v2(store, &self.table())?.to_string(), true),
        };
        Ok(self.v2.insert(document))
    }

    fn v2_protobuf(&mut self, store: &dyn Store) -> Result<&Document, ApiError> {
        let document = match self.v2_protobuf.take() {
            Some(document) => document,
            None => Document::new(gnostic::encode(&make_v2(store, &self.table())?), true),
        };
        Ok(self.v2_protobuf.insert(document))
    }
}

// === impl Document ===

impl Document {
    fn new(body: impl Into<Bytes>, is_custom: bool) -> Document {
        let body = body.into();
        Document { hash: format!("{:032X}", xxh3_128(&body)), body, is_custom }
    }
}

/// Each group version with its path: `apis/apps/v1`.
fn group_versions(table: &ResourceTable) -> impl Iterator<Item = (String, &str, &str)> {
    let path = |group: &str, version: &str| {
        let root = if group.is_empty() { "api" } else { "apis" };
        format!("{root}/{}", group_version(group, version))
    };
    let groups = [""].into_iter().chain(named_groups(table));
    groups.flat_map(move |group| {
        versions(table, group).into_iter().map(move |version| (path(group, version), group, version))
    })
}

fn make_v2(store: &dyn Store, table: &ResourceTable) -> Result<Value, ApiError> {
    let schemas = read_schemas(store, table)?;
    let mut paths: BTreeMap<String, PathItem> = BTreeMap::new();
    for (_, group, version) in group_versions(table) {
        paths.extend(operations::paths(table, group, version));
    }
    Ok(v2::document(&paths, &schemas, store.git_version()))
}

fn read_schemas(store: &dyn Store, table: &ResourceTable) -> Result<Schemas, ApiError> {
    let definitions =
        table.of_kind(&kinds::definition_kind()).map(|resource| store.list(resource)).transpose()?;
    Ok(Schemas::new(table.iter(), definitions.as_ref()))
}

fn url(path: &str, hash: &str) -> String {
    format!("/openapi/v3/{path}?hash={hash}")
}
