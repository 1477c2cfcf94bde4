use std::sync::Arc;

use axum::Router;
use axum::body::to_bytes;
use axum::http::{Request, StatusCode};
use model::Moment;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::memory_store::MemoryStore;
use crate::registry::Registry;
use crate::server::{ServeOptions, router};

/// A server with no objects.
struct Served {
    registry: Arc<Registry>,
    app: Router,
}

impl Served {
    fn new() -> Served {
        let now: Moment = "2026-11-02T14:20:00Z".parse().unwrap();
        let store = Arc::new(MemoryStore::new(Box::new(move || now), "v1.36.4"));
        let registry = Arc::new(Registry::new(store, 1));
        Served { app: router(registry.clone(), ServeOptions::default()), registry }
    }

    /// The response to a request with this header.
    fn get(&self, path: &str, header: (&str, &str)) -> (StatusCode, HeaderMap, Vec<u8>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let request = Request::builder().uri(path).header(header.0, header.1).body(Body::empty()).unwrap();
        runtime.block_on(async {
            let (parts, body) = self.app.clone().oneshot(request).await.unwrap().into_parts();
            (parts.status, parts.headers, to_bytes(body, usize::MAX).await.unwrap().to_vec())
        })
    }

    fn document(&self, path: &str) -> Value {
        let (status, _, body) = self.get(path, ("accept", "application/json"));
        assert_eq!(status, StatusCode::OK, "{path}");
        serde_json::from_slice(&body).unwrap()
    }

    /// The URL of a document in the index.
    fn url(&self, path: &str) -> Option<String> {
        let index = self.document("/openapi/v3");
        index["paths"][path]["serverRelativeURL"].as_str().map(str::to_owned)
    }
}

/// A definition whose resources have a field `spec.size`.
fn definition(group: &str, size: Value) -> Value {
    let spec = json!({"type": "object", "properties": {"size": size}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
            }],
        },
    })
}

/// The names of all references that lead nowhere.
fn dangling_references(document: &Value, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get("$ref")
                && document.pointer(reference.trim_start_matches('#')).is_none()
            {
                found.push(reference.clone());
            }
            members.values().for_each(|member| dangling_references(document, member, found));
        }
        Value::Array(entries) => entries.iter().for_each(|entry| dangling_references(document, entry, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_to_a_schema() {
    let served = Served::new();
    served.registry.create_object(definition("example.com", json!({"type": "integer"}))).unwrap();
    let index = served.document("/openapi/v3");
    let urls = index["paths"].as_object().unwrap().values();
    let urls = urls.map(|entry| entry["serverRelativeURL"].as_str().unwrap()).chain(["/openapi/v2"]);
    let mut count = 0;
    for url in urls {
        let document = served.document(url);
        let mut found = Vec::new();
        dangling_references(&document, &document, &mut found);
        assert_eq!(found, Vec::<String>::new(), "{url}");
        count += 1;
    }
    assert!(count > 20, "{count}");
}

#[test]
fn a_document_is_known_by_its_hash() {
    let served = Served::new();
    let url = served.url("apis/apps/v1").unwrap();
    let (status, headers, _) = served.get(&url, ("accept", "*/*"));
    assert_eq!(status, StatusCode::OK);
    assert_eq!(headers[header::CACHE_CONTROL], "public, immutable, max-age=31536000");
    let etag = headers[header::ETAG].to_str().unwrap();
    assert!(url.ends_with(&format!("?hash={}", etag.trim_matches('"'))), "{url} {etag}");
    let (status, _, body) = served.get("/openapi/v3/apis/apps/v1", (header::IF_NONE_MATCH.as_str(), etag));
    assert_eq!((status, body.len()), (StatusCode::NOT_MODIFIED, 0));
    let (status, headers, _) = served.get("/openapi/v3/apis/apps/v1?hash=OLD", ("accept", "*/*"));
    assert_eq!((status, headers[header::LOCATION].to_str().unwrap()), (StatusCode::MOVED_PERMANENTLY, &*url));
}

#[test]
fn documents_have_the_forms_that_clients_accept() {
    let served = Served::new();
    let protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
    for (path, accept, expected) in [
        ("/openapi/v2", "application/json", Some("application/json")),
        ("/openapi/v2", protobuf, Some("application/com.github.proto-openapi.spec.v2.v1.0+protobuf")),
        ("/openapi/v2", "application/yaml", None),
        ("/openapi/v3/api/v1", "application/json, */*", Some("application/json")),
        ("/openapi/v3/api/v1", "application/com.github.proto-openapi.spec.v3@v1.0+protobuf", None),
        ("/openapi/v3/api/v1", protobuf, None),
    ] {
        let (status, headers, _) = served.get(path, ("accept", accept));
        let found = headers[header::CONTENT_TYPE].to_str().unwrap();
        match expected {
            Some(expected) => assert_eq!((status, found), (StatusCode::OK, expected), "{path} {accept}"),
            None => assert_eq!(status, StatusCode::NOT_ACCEPTABLE, "{path} {accept}"),
        }
    }
    for path in ["/openapi/v3/apis/apps/v2", "/openapi/v3/api/v1/", "/openapi/v3/version", "/openapi/v4"] {
        assert_eq!(served.get(path, ("accept", "*/*")).0, StatusCode::NOT_FOUND, "{path}");
    }
}

#[test]
fn documents_follow_the_definitions_of_custom_resources() {
    let served = Served::new();
    let apps = served.url("apis/apps/v1");
    assert_eq!(served.url("apis/example.com/v1"), None);
    served.registry.create_object(definition("example.com", json!({"type": "integer"}))).unwrap();
    let first = served.url("apis/example.com/v1").unwrap();
    let document = served.document(&first);
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["properties"]["spec"]["properties"]["size"], json!({"type": "integer"}));
    let metadata = "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
    assert_eq!(schema["properties"]["metadata"]["allOf"], json!([{"$ref": metadata}]));
    let kind = json!({"group": "example.com", "version": "v1", "kind": "Widget"});
    assert_eq!(schema["x-kubernetes-group-version-kind"], json!([kind]));
    let patch = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"], kind);
    let contents = patch["requestBody"]["content"].as_object().unwrap();
    assert!(!contents.contains_key("application/strategic-merge-patch+json"));

    served.registry.create_object(definition("example.org", json!({"type": "integer"}))).unwrap();
    assert_eq!(served.url("apis/example.com/v1").unwrap(), first);
    assert!(served.url("apis/example.org/v1").is_some());
    assert_eq!(served.url("apis/apps/v1"), apps);
    let swagger = served.document("/openapi/v2");
    assert!(swagger["definitions"]["org.example.v1.Widget"].is_object());
    assert_eq!(
        swagger["definitions"]["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["type"],
        json!("string")
    );
}

#[test]
fn odd_schemas_of_definitions_are_published() {
    let served = Served::new();
    let mut deep = json!({"type": "object"});
    for _ in 0..40 {
        deep = json!({"type": "array", "items": deep});
    }
    let odd = [
        json!({"$ref": "#/components/schemas/nothing"}),
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "required": "all", "properties": 1}),
        json!({"x-kubernetes-int-or-string": true, "allOf": []}),
        deep,
    ];
    for (index, schema) in odd.into_iter().enumerate() {
        let group = format!("odd{index}.example.com");
        // What validation refuses needs no document.
        if served.registry.create_object(definition(&group, schema)).is_ok() {
            served.document(&served.url(&format!("apis/{group}/v1")).unwrap());
            served.document("/openapi/v2");
        }
    }
}
