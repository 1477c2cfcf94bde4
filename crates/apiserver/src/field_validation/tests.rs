//! Comparison of whole requests with the answers of kube-apiserver.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use model::Moment;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::memory_store::MemoryStore;
use crate::registry::Registry;
use crate::server::{ServeOptions, router};

/// A request and the answer to it.
#[derive(Debug, serde::Deserialize)]
struct Exchange {
    method: String,
    path: String,
    #[serde(rename = "type")]
    content_type: String,
    body: Option<String>,
    #[serde(flatten)]
    answer: Answer,
}

#[derive(Debug, PartialEq, serde::Deserialize)]
struct Answer {
    status: u16,
    reason: Option<String>,
    message: Option<String>,
    causes: Option<Vec<Value>>,
    warnings: Vec<String>,
}

/// A server with a namespace and a kind of custom resources.
fn server() -> axum::Router {
    let now: Moment = "2026-11-02T14:20:00Z".parse().unwrap();
    let store = Arc::new(MemoryStore::new(Box::new(move || now), "v1.36.4"));
    let registry = Arc::new(Registry::new(store, 1));
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}),
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        }),
    ] {
        registry.create_object(object).unwrap();
    }
    router(registry, ServeOptions::default())
}

async fn answer(server: &axum::Router, exchange: &Exchange) -> Answer {
    let request = Request::builder().method(&*exchange.method).uri(&*exchange.path);
    let request = request.header("Content-Type", &*exchange.content_type);
    let body = Body::from(exchange.body.clone().unwrap_or_default());
    let response = server.clone().oneshot(request.body(body).unwrap()).await.unwrap();
    let warnings = warnings_of(response.headers());
    let status = response.status().as_u16();
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    if status < 300 {
        return Answer { status, reason: None, message: None, causes: None, warnings };
    }
    let text = |field: &str| body[field].as_str().map(without_object);
    let causes = body["details"]["causes"].as_array().map(|causes| {
        let cause = |cause: &Value| {
            let mut cause = cause.clone();
            cause["message"] = without_object(cause["message"].as_str().unwrap()).into();
            cause
        };
        causes.iter().map(cause).collect()
    });
    Answer { status, reason: text("reason"), message: text("message"), causes, warnings }
}

/// The texts of the warnings, unquoted.
fn warnings_of(headers: &HeaderMap) -> Vec<String> {
    let text = |value: &HeaderValue| {
        let text = String::from_utf8(value.as_bytes().to_vec()).unwrap();
        let quoted = text.strip_prefix("299 - ").unwrap();
        serde_json::from_str(quoted).unwrap()
    };
    headers.get_all("warning").iter().map(text).collect()
}

/// A message without the object in it, which has uids and times.
fn without_object(message: &str) -> String {
    match (message.find("Invalid value: \"{"), message.rfind("}\": ")) {
        (Some(start), Some(end)) => {
            format!("{}Invalid value: \"…{}", &message[..start], &message[end + 1..])
        }
        _ => message.to_owned(),
    }
}

#[tokio::test]
async fn answers_are_those_of_an_api_server() {
    let server = server();
    let mut wrong = Vec::new();
    for line in include_str!("../../../../testdata/kubernetes/field_validation.jsonl").lines() {
        let exchange: Exchange = serde_json::from_str(line).unwrap();
        let found = answer(&server, &exchange).await;
        if found != exchange.answer {
            wrong.push(format!("{exchange:#?}\nfound {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn headers_of(warnings: &[String]) -> Vec<String> {
    let mut headers = HeaderMap::new();
    add_warnings(&mut headers, warnings);
    let texts = headers.get_all("warning").iter();
    texts.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect()
}

#[test]
fn each_warning_is_a_header() {
    let warning = |name: &str| format!("unknown field \"{name}\"");
    let found = headers_of(&[warning("a"), warning("é"), warning("a")]);
    assert_eq!(found, [r#"299 - "unknown field \"a\"""#, r#"299 - "unknown field \"é\"""#]);
}

#[test]
fn many_long_warnings_are_cut() {
    let found = headers_of(&["x".repeat(5000)]);
    assert_eq!(found, [format!("299 - \"{}\"", "x".repeat(256))]);
    let warnings: Vec<String> = (0..100).map(|index| format!("{index:0>200}")).collect();
    let found = headers_of(&warnings);
    assert_eq!(found.len(), 21);
    assert_eq!(headers_of(&warnings[..20]).len(), 20);
}
