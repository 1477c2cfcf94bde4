//! Tests of requests that write, from the request to the response.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use model::Moment;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::memory_store::MemoryStore;
use crate::registry::Registry;
use crate::server::{ServeOptions, router};

const PODS: &str = "/api/v1/namespaces/default/pods";

/// A server with the namespace `default` and the pods `a` and `b`.
struct Fixture {
    app: axum::Router,
    runtime: tokio::runtime::Runtime,
}

impl Fixture {
    fn new() -> Fixture {
        let now: Moment = "2026-11-02T14:20:00Z".parse().unwrap();
        let store = Arc::new(MemoryStore::new(Box::new(move || now), "v1.36.4"));
        let registry = Arc::new(Registry::new(store, 1));
        registry
            .create_object(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}))
            .unwrap();
        for name in ["a", "b"] {
            let containers = json!([{"name": "c", "image": "i"}]);
            registry
                .create_object(json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers},
                }))
                .unwrap();
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Fixture { app: router(registry, ServeOptions::default()), runtime }
    }

    /// Status code and body of the response.
    fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> (u16, Value) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header("Content-Type", content_type);
        let request = request.body(Body::from(body)).unwrap();
        self.runtime.block_on(async {
            let response = self.app.clone().oneshot(request).await.unwrap();
            let status = response.status().as_u16();
            let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
            (status, serde_json::from_slice(&body).unwrap())
        })
    }

    fn get(&self, path: &str) -> (u16, Value) {
        self.send("GET", path, "application/json", &Value::Null)
    }
}

#[test]
fn a_pod_is_read_and_resized_through_its_subresource() {
    let fixture = Fixture::new();
    let path = format!("{PODS}/a/resize");
    assert_eq!(fixture.get(&path), fixture.get(&format!("{PODS}/a")));
    let patch = json!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
    let (status, resized) = fixture.send("PATCH", &path, "application/strategic-merge-patch+json", &patch);
    assert_eq!(status, 200, "{resized}");
    let (_, pod) = fixture.get(&format!("{PODS}/a"));
    assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"]["cpu"], "1");
    assert_eq!(fixture.get(&format!("{PODS}/a/nothing")).0, 404);
}

#[test]
fn the_deletion_of_a_collection_returns_the_objects_as_they_were() {
    let fixture = Fixture::new();
    let (_, before) = fixture.get(&format!("{PODS}/a"));
    let path = format!("{PODS}?fieldSelector=metadata.name%3Da");
    let (status, deleted) = fixture.send("DELETE", &path, "application/json", &Value::Null);
    assert_eq!((status, &deleted["kind"]), (200, &json!("PodList")));
    assert_eq!(deleted["items"], json!([before]));
    let (_, rest) = fixture.get(PODS);
    assert_eq!(rest["items"][0]["metadata"]["name"], "b");
    assert_eq!(rest["items"].as_array().unwrap().len(), 1);
}
