//! Comparison of requests about custom resources with the answers of kube-apiserver.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use model::Moment;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::memory_store::MemoryStore;
use crate::registry::Registry;
use crate::server::{ServeOptions, router};

/// A request and the answer to it.
#[derive(Debug, Deserialize)]
struct Exchange {
    method: String,
    path: String,
    #[serde(rename = "type")]
    content_type: Option<String>,
    accept: Option<String>,
    body: Option<String>,
    #[serde(flatten)]
    answer: Answer,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Answer {
    status: u16,
    #[serde(default)]
    warnings: Vec<String>,
    response: Value,
}

const EXCHANGES: &str = include_str!("../../../../testdata/kubernetes/custom_resources.jsonl");
const EXPRESSIONS: &str = include_str!("../../../../testdata/kubernetes/expressions.jsonl");

fn server() -> axum::Router {
    let now: Moment = "2026-11-02T14:20:00Z".parse().unwrap();
    let store = Arc::new(MemoryStore::new(Box::new(move || now), "v1.36.4"));
    let registry = Arc::new(Registry::new(store, 1));
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}});
    registry.create_object(namespace).unwrap();
    router(registry, ServeOptions::default())
}

async fn answer(server: &axum::Router, exchange: &Exchange) -> Answer {
    let mut request = Request::builder().method(&*exchange.method).uri(&*exchange.path);
    request = request.header("User-Agent", "tester/v1");
    for (name, value) in [("Content-Type", &exchange.content_type), ("Accept", &exchange.accept)] {
        if let Some(value) = value {
            request = request.header(name, value);
        }
    }
    let body = exchange.body.clone().unwrap_or_default();
    let response = server.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
    let (status, warnings) = (response.status().as_u16(), warnings_of(response.headers()));
    let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    Answer { status, warnings, response: serde_json::from_slice(&body).unwrap() }
}

fn warnings_of(headers: &HeaderMap) -> Vec<String> {
    let texts = headers.get_all("warning").iter().map(|value| value.to_str().unwrap());
    texts.map(|text| serde_json::from_str(text.strip_prefix("299 - ").unwrap()).unwrap()).collect()
}

/// Replaces what differs between two runs, as the program that printed the answers does.
fn normalize(name: &str, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(name, value)| normalize(name, value));
            if let Some(Value::Array(causes)) = fields.get_mut("causes") {
                causes.sort_by_cached_key(Value::to_string);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalize(name, item)),
        Value::String(text) if name == "resourceVersion" => "VERSION".clone_into(text),
        Value::String(text) => {
            let is_age = |text: &str| {
                let digits = text.strip_suffix('s').unwrap_or_default();
                !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
            };
            if name == "cells" && is_age(text) {
                "AGE".clone_into(text);
            }
            let hex = "[0-9a-f]";
            let uid = Regex::new(&format!("{hex}{{8}}(-{hex}{{4}}){{3}}-{hex}{{12}}")).unwrap();
            let time = Regex::new("20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z").unwrap();
            *text = time.replace_all(&uid.replace_all(text, "UID"), "TIME").into_owned();
            // A parser lists the same tokens in other ways.
            let tokens = Regex::new(r" expecting (\{[^\n]*\}|[^\n]*)").unwrap();
            *text = tokens.replace_all(text, " expecting TOKENS").into_owned();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Removes what is known to differ.
fn without_known_differences(exchange: &Exchange, answer: &mut Answer) {
    normalize("", &mut answer.response);
    // Paths that are not served are answered in plain text.
    if answer.status == 404 && exchange.answer.response.is_string() {
        answer.response = Value::Null;
    }
    let response = &mut answer.response;
    // A server lists the errors of fields in random order.
    let is_error = response["kind"] == "Status" && response["status"] == "Failure";
    if is_error && response["details"]["causes"].as_array().is_some_and(|causes| causes.len() > 1) {
        let message = response["message"].as_str().unwrap().split(" is invalid: ").next().unwrap().to_owned();
        response["message"] = message.into();
    }
    // Names are accepted in the write that asks for them, not some time later and by another manager.
    let is_definition = exchange.path.contains("customresourcedefinitions");
    if let Some(managers) = response["metadata"].get_mut("managedFields").and_then(Value::as_array_mut) {
        // They are sorted by time, which stands still here.
        managers.sort_by_cached_key(Value::to_string);
    }
    let is_write = is_definition && exchange.method != "GET" && answer.status < 300;
    if let Some(fields) = response.as_object_mut().filter(|_| is_write) {
        fields.remove("status");
    }
    if let Some(metadata) = response["metadata"].as_object_mut().filter(|_| is_definition) {
        metadata.remove("managedFields");
    }
    // Kinds of a group are listed in random order.
    if let Some(resources) = response.get_mut("resources").and_then(Value::as_array_mut) {
        resources.sort_by_cached_key(|resource| resource["name"].to_string());
    }
    // Columns have no descriptions.
    let columns = response.get_mut("columnDefinitions").and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten() {
        column["description"] = "".into();
    }
    // Of a version that does not exist, Kubernetes knows no field.
    if response["message"].as_str().is_some_and(|message| message.starts_with("the API version in the data"))
    {
        answer.warnings.clear();
    }
    // Fields are visited in random order.
    answer.warnings.sort();
}

#[tokio::test]
async fn answers_are_those_of_an_api_server() {
    assert_answers(EXCHANGES).await;
}

#[tokio::test]
async fn expressions_mean_what_they_mean_to_an_api_server() {
    assert_answers(EXPRESSIONS).await;
}

async fn assert_answers(exchanges: &str) {
    let server = server();
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in exchanges.lines() {
        let exchange: Exchange = serde_json::from_str(line).unwrap();
        let mut found = answer(&server, &exchange).await;
        without_known_differences(&exchange, &mut found);
        let mut expected = exchange.answer.clone();
        without_known_differences(&exchange, &mut expected);
        count += 1;
        if found != expected {
            let (method, path, body) = (&exchange.method, &exchange.path, &exchange.body);
            let body = body.as_deref().unwrap_or_default();
            let lines = |answer: &Answer| {
                let Answer { status, warnings, response } = answer;
                format!("{status} {warnings:?} {response}")
            };
            let (expected, found) = (lines(&expected), lines(&found));
            wrong.push(format!("{count}: {method} {path}\n{body}\nexpected {expected}\nfound    {found}\n"));
        }
    }
    assert!(count > 100);
    assert!(wrong.is_empty(), "{} of {count} answers differ:\n{}", wrong.len(), wrong.join("\n"));
}
