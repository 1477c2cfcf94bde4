//! Tests of requests that write, from the request to the response.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use kubernetes::kinds;
use model::{Kind, Moment, NamespacedName};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::memory_store::MemoryStore;
use crate::registry::Registry;
use crate::resource::Resource;
use crate::server::{ServeOptions, router};
use crate::service_account_token::TokenSigner;

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
        self.send_bytes(method, path, content_type, body.into_bytes())
    }

    fn send_bytes(&self, method: &str, path: &str, content_type: &str, body: Vec<u8>) -> (u16, Value) {
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
fn a_binding_that_names_its_pod_binds_it() {
    let fixture = Fixture::new();
    let bind = |pod: &str| {
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod},
            "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
        });
        fixture.send("POST", "/api/v1/namespaces/default/bindings", "application/json", &binding)
    };
    assert_eq!((bind("a").0, bind("nothere").0), (201, 404));
    assert_eq!(fixture.get(&format!("{PODS}/a")).1["spec"]["nodeName"], "n1");
    let (_, resources) = fixture.get("/api/v1");
    let resources = resources["resources"].as_array().unwrap();
    for (name, verbs) in [("bindings", json!(["create"])), ("componentstatuses", json!(["get", "list"]))] {
        let resource = resources.iter().find(|resource| resource["name"] == name).unwrap();
        assert_eq!(resource["verbs"], verbs, "{name}");
    }
}

#[test]
fn a_token_is_for_an_account_of_a_namespace_that_exists() {
    let store = Arc::new(MemoryStore::new(Box::new(Moment::default), "v1.36.4"));
    let registry = Registry::new(store, 1).with_token_signer(TokenSigner::generate().unwrap());
    let accounts = Resource::built_in(kinds::of(&Kind::new("", "ServiceAccount")).unwrap());
    let name = NamespacedName::new("nowhere", "default");
    let refused = registry.create_token(&accounts, &name, json!({"spec": {}})).unwrap_err();
    assert_eq!(refused.to_string(), "namespaces \"nowhere\" not found");
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

/// Codes and messages are those of kube-apiserver 1.36.
#[test]
fn requests_that_kubernetes_refuses_are_refused() {
    let fixture = Fixture::new();
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let map =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sd"}, "data": {"a": "b"}});
    assert_eq!(fixture.send("POST", MAPS, "application/json", &map).0, 201);
    let not_allowed = "the server does not allow this method on the requested resource";
    let no_name = "the name of the object (sd based on URL) was undeterminable: name must be provided";
    let wrong_binding = "name in URL does not match name in Binding object";
    let policy = "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy";
    let both = format!(
        "{policy}: Invalid value: \"Foreground\": orphanDependents and deletionPropagation cannot be both set"
    );
    let unsupported = format!(
        "{policy}: Unsupported value: \"Bogus\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\""
    );
    let rejected = "the server rejected our request due to an error in our request";
    let (sd, strategic) = (format!("{MAPS}/sd"), "application/strategic-merge-patch+json");
    for (method, path, content_type, body, expected) in [
        ("DELETE", "/api/v1/namespaces", "", Value::Null, (405, not_allowed)),
        ("DELETE", "/api/v1/pods", "", Value::Null, (405, not_allowed)),
        (
            "DELETE",
            "/api/v1/namespaces/default",
            "",
            Value::Null,
            (403, "namespaces \"default\" is forbidden: this namespace may not be deleted"),
        ),
        (
            "DELETE",
            &format!("{sd}?orphanDependents=true&propagationPolicy=Foreground"),
            "",
            Value::Null,
            (422, &both),
        ),
        ("DELETE", &sd, "application/json", json!({"propagationPolicy": "Bogus"}), (422, &unsupported)),
        ("DELETE", &format!("{sd}?propagationPolicy=Bogus"), "", Value::Null, (422, &unsupported)),
        ("PATCH", &sd, strategic, json!({"$patch": "delete"}), (400, no_name)),
        ("PATCH", &sd, strategic, json!({"$patch": "replace", "data": {"z": "1"}}), (400, no_name)),
        ("PATCH", &sd, "application/merge-patch+json", json!({"metadata": null}), (400, no_name)),
        ("PUT", &sd, "application/json", json!({"metadata": {}, "data": {}}), (400, no_name)),
        ("POST", &format!("{PODS}/a/binding"), "", json!({"target": {"name": "n"}}), (400, wrong_binding)),
        (
            "PATCH",
            &sd,
            "application/json-patch+json",
            json!([{"op": "replace", "path": "/nope/new", "value": "v"}]),
            (422, rejected),
        ),
        (
            "PATCH",
            &sd,
            "application/json-patch+json",
            json!([{"op": "remove", "path": "/data/none"}]),
            (422, rejected),
        ),
    ] {
        let (status, response) = fixture.send(method, path, content_type, &body);
        assert_eq!(
            (status, &response["message"]),
            (expected.0, &json!(expected.1)),
            "{method} {path} {body}"
        );
    }
    let patch = json!([
        {"op": "test", "path": "/data/new", "value": null},
        {"op": "replace", "path": "/data/new", "value": "v"},
    ]);
    let (status, patched) = fixture.send("PATCH", &sd, "application/json-patch+json", &patch);
    assert_eq!((status, &patched["data"]), (200, &json!({"a": "b", "new": "v"})));
    let (_, resources) = fixture.get("/api/v1");
    let verbs = |name: &str| {
        let resource = resources["resources"].as_array().unwrap().iter().find(|one| one["name"] == name);
        resource.unwrap()["verbs"].as_array().unwrap().len()
    };
    assert_eq!((verbs("namespaces"), verbs("pods")), (7, 8));
}

#[test]
fn paths_may_end_in_a_slash_and_the_root_lists_them() {
    let fixture = Fixture::new();
    assert_eq!(fixture.get("/api/v1/namespaces/"), fixture.get("/api/v1/namespaces"));
    let (status, root) = fixture.get("/");
    assert_eq!(status, 200);
    for path in ["/api/v1", "/apis/apps/v1", "/healthz"] {
        assert!(root["paths"].as_array().unwrap().contains(&json!(path)), "{path}");
    }
    for path in ["/api/v1//pods", "/api/v1/pods//", "//"] {
        assert_eq!(fixture.send("GET", path, "", &Value::Null).0, 404, "{path}");
    }
}

#[test]
fn bodies_may_be_protobuf() {
    let fixture = Fixture::new();
    // A message in the field of a number, shorter than 128 bytes.
    let field = |number: u8, bytes: &[u8]| [&[number << 3 | 2, bytes.len() as u8], bytes].concat();
    let object = |api_version: &str, kind: &str, raw: &[u8]| {
        let type_meta = [field(1, api_version.as_bytes()), field(2, kind.as_bytes())].concat();
        [&b"k8s\0"[..], &field(1, &type_meta), &field(2, raw)].concat()
    };
    let post = |path: &str, body: Vec<u8>| {
        fixture.send_bytes("POST", path, "application/vnd.kubernetes.protobuf", body)
    };
    let metadata = field(1, &field(1, b"a"));
    let target = field(2, &[field(1, b"Node"), field(3, b"n1")].concat());
    let binding = object("v1", "Binding", &[metadata.clone(), target].concat());
    assert_eq!(post(&format!("{PODS}/a/binding"), binding).0, 201);
    assert_eq!(fixture.get(&format!("{PODS}/a")).1["spec"]["nodeName"], "n1");
    let maps = "/api/v1/namespaces/default/configmaps";
    let entry = field(2, &[field(1, b"key"), field(2, b"value")].concat());
    let (status, created) = post(maps, object("v1", "ConfigMap", &[metadata, entry].concat()));
    assert_eq!((status, &created["data"]), (201, &json!({"key": "value"})));

    let (status, refused) = post(maps, object("v1", "ConfigMap", &field(9, b"x")));
    assert_eq!((status, &refused["message"]), (400, &json!("unknown field number 9 in core.ConfigMap")));
    let (status, refused) = post(maps, b"{}".to_vec());
    assert_eq!(status, 400, "{refused}");
    let (status, refused) = post(maps, object("example.com/v1", "Gadget", b""));
    assert_eq!(status, 415);
    assert!(
        refused["message"].as_str().unwrap().contains("set contentType to application/json"),
        "{refused}"
    );
}
