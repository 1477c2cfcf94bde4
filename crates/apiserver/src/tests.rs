//! Hostile requests: whatever a client sends is answered, and never with an internal error.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use model::{Moment, NamespacedName};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use testobjects::case_count;
use tower::ServiceExt;

use crate::memory_store::MemoryStore;
use crate::registry::Registry;
use crate::server::{ServeOptions, router};

const METHODS: [&str; 6] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
const PATHS: [&str; 26] = [
    "/api/v1/componentstatuses",
    "/livez",
    "/api/v1/pods",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/p",
    "/api/v1/namespaces/default/pods/p/status",
    "/api/v1/namespaces/default/pods/p/binding",
    "/api/v1/namespaces/default/pods/p/eviction",
    "/api/v1/namespaces/default/pods/p/log",
    "/api/v1/namespaces/default/pods/p/resize",
    "/api/v1/namespaces/default/bindings",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default",
    "/api/v1/namespaces/default/finalize",
    "/api/v1/nodes/n",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/deployments/d",
    "/apis/apps/v1/namespaces/default/deployments/d/scale",
    "/apis/events.k8s.io/v1/namespaces/default/events",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/apps/v1",
    "/apis",
    "/api",
    "/version",
];
const QUERIES: [&str; 12] = [
    "",
    "labelSelector=a%3Db,c!%3Dd,e%20in%20(f,g),!h",
    "fieldSelector=metadata.name%3Dp,status.phase!%3DRunning",
    "limit=1",
    "limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiJhL2JcdTAwMDAifQ",
    "resourceVersion=1&resourceVersionMatch=Exact",
    "watch=true&resourceVersion=1&timeoutSeconds=0",
    "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&timeoutSeconds=0",
    "dryRun=All",
    "gracePeriodSeconds=-1&propagationPolicy=Foreground",
    "includeObject=Object",
    "fieldManager=x&fieldValidation=Strict&pretty=true",
];
const CONTENT_TYPES: [&str; 5] = [
    "application/json",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/vnd.kubernetes.protobuf",
];

fn bodies() -> Vec<String> {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["a/b"], "ownerReferences": []},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 1}]}],
            "tolerations": [{"key": "k", "operator": "Exists"}], "volumes": [{"name": "v", "emptyDir": {}}],
        },
    });
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": pod["spec"]});
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
        "spec": {"type": "NodePort", "ports": [{"port": 80}]},
    });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "xs.e.x"},
        "spec": {
            "group": "e.x", "scope": "Namespaced", "names": {"plural": "xs", "kind": "X"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    });
    let objects = [
        pod,
        deployment,
        service,
        definition,
        json!({"kind": "Binding", "metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n"}}),
        json!({"kind": "Eviction", "metadata": {"name": "p"}, "deleteOptions": {"gracePeriodSeconds": 1}}),
        json!({"kind": "DeleteOptions", "preconditions": {"uid": "u"}, "dryRun": ["All"]}),
        json!({"spec": {"containers": [{"name": "c", "$patch": "delete"}], "$setElementOrder/containers": [{"name": "c"}]}}),
        json!({"spec": {"replicas": 3}}),
        json!([{"op": "add", "path": "/metadata/labels/x", "value": "y"}, {"op": "remove", "path": "/spec/x"}]),
    ];
    objects.iter().map(Value::to_string).collect()
}

/// Changes some bytes of a text, or exchanges parts of it.
fn mutated(text: &str, rng: &mut Pcg64) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..rng.random_range(0..4) {
        if bytes.is_empty() {
            break;
        }
        let at = rng.random_range(0..bytes.len());
        match rng.random_range(0..5) {
            0 => bytes[at] = rng.random(),
            1 => drop(bytes.remove(at)),
            2 => bytes.insert(at, b"\"{}[],:/%0-\\\0"[rng.random_range(0..13)]),
            3 => bytes.truncate(at),
            _ => {
                let end = rng.random_range(at..bytes.len());
                let part = bytes[at..end].to_vec();
                let to = rng.random_range(0..bytes.len());
                bytes.splice(to..to, part);
            }
        }
    }
    bytes
}

#[test]
fn hostile_requests_are_answered() {
    let now: Moment = "2026-11-02T14:20:00Z".parse().unwrap();
    let store = Arc::new(MemoryStore::new(Box::new(move || now), "v1.36.4"));
    let registry = Arc::new(Registry::new(store.clone(), 1));
    for (kind, name) in [("Namespace", "default"), ("Node", "n")] {
        registry
            .create_object(json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}}))
            .unwrap();
    }
    let app = router(registry, ServeOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut rng = Pcg64::seed_from_u64(11);
    let bodies = bodies();
    let mut answered = 0;
    for _ in 0..case_count(5_000, 200_000) {
        let mut pick = |items: &[&'static str]| items[rng.random_range(0..items.len())];
        let (method, content_type) = (pick(&METHODS), pick(&CONTENT_TYPES));
        let (path, query) = (pick(&PATHS), pick(&QUERIES));
        let body = &bodies[rng.random_range(0..bodies.len())];
        let uri = match rng.random_range(0..3) {
            0 => mutated(&format!("{path}?{query}"), &mut rng),
            _ => format!("{path}?{query}").into_bytes(),
        };
        let body = mutated(body, &mut rng);
        let description = format!(
            "{method} {} {content_type} {}",
            String::from_utf8_lossy(&uri),
            String::from_utf8_lossy(&body)
        );
        let request = Request::builder().method(method).uri(uri).header("Content-Type", content_type);
        // A URI that is none does not reach the server.
        let Ok(request) = request.body(Body::from(body)) else { continue };
        let response = runtime.block_on(app.clone().oneshot(request)).unwrap();
        let status = response.status().as_u16();
        assert!(status < 500 || matches!(status, 501 | 504), "{status} for {description}");
        answered += 1;
    }
    assert!(answered > 1_000, "{answered}");
    // Whatever was stored is stored under its name.
    for kind in store.kinds() {
        for object in store.objects(&kind).iter() {
            let meta = object.meta();
            let name = NamespacedName::new(&*meta.namespace, &*meta.name);
            assert_eq!(store.objects(&kind).get(&name), Some(object));
        }
    }
}
