//! Requests with the responses of a real server: server-side apply, and the managers of other writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use model::Moment;
use serde::Deserialize;
use serde_json::Value;
use tower::ServiceExt;

use crate::memory_store::MemoryStore;
use crate::registry::Registry;
use crate::server::{ServeOptions, router};

/// A request with its response.
#[derive(Deserialize)]
struct RecordedRequest {
    request: String,
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    agent: String,
    body: Option<Value>,
    /// Whether the response was left out.
    #[serde(default)]
    unchecked: bool,
    #[serde(default)]
    status: u16,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    response: Value,
}

/// Replaces what differs from run to run, as `tests/fieldmanager` does.
#[derive(Default)]
struct Normalizer {
    uid: String,
    version: String,
    versions: BTreeMap<String, String>,
}

impl Normalizer {
    fn normalize(&mut self, name: &str, value: &mut Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields.iter_mut() {
                    self.normalize(name, value);
                }
                if let Some(Value::String(message)) = fields.get_mut("message") {
                    let mut lines: Vec<&str> = message.split('\n').collect();
                    lines[1..].sort_unstable();
                    *message = lines.join("\n");
                }
            }
            Value::Array(entries) => {
                entries.iter_mut().for_each(|entry| self.normalize(name, entry));
                if matches!(name, "managedFields" | "causes") {
                    entries.sort_by_key(sort_text);
                }
            }
            Value::String(text) => match name {
                "uid" => self.uid = std::mem::replace(text, "uid".to_owned()),
                "resourceVersion" => {
                    self.version.clone_from(text);
                    let next = format!("v{}", self.versions.len() + 1);
                    *text = self.versions.entry(text.clone()).or_insert(next).clone();
                }
                "clusterIP" | "clusterIPs" => "address".clone_into(text),
                _ if text.ends_with('Z') && text.parse::<Moment>().is_ok() => "time".clone_into(text),
                _ => {}
            },
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

fn sort_text(entry: &Value) -> String {
    let text = |field: &str| entry[field].as_str().unwrap_or("<nil>").to_owned();
    ["operation", "manager", "subresource", "apiVersion", "field", "message"].map(text).join(" ")
}

/// Sends a request to our server and compares the response. Returns how it differs.
fn difference(
    app: &axum::Router,
    runtime: &tokio::runtime::Runtime,
    normalizer: &mut Normalizer,
    recorded: &RecordedRequest,
) -> Option<String> {
    let (method, path) = recorded.request.split_once(' ').unwrap();
    if method == "WAIT" {
        return None;
    }
    let body = match &recorded.body {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(body) => body.to_string(),
    };
    let body = body.replace("$uid", &normalizer.uid).replace("$version", &normalizer.version);
    let mut request = Request::builder().method(method).uri(path).header("User-Agent", &recorded.agent);
    if !recorded.r#type.is_empty() {
        request = request.header("Content-Type", &recorded.r#type);
    }
    let (status, warnings, mut response) = runtime.block_on(async {
        let response = app.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap();
        let status = response.status().as_u16();
        let warnings = response.headers().get_all("Warning").iter();
        let warnings: Vec<String> =
            warnings.map(|text| text.to_str().unwrap().trim_start_matches("299 - ").to_owned()).collect();
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, warnings, serde_json::from_slice::<Value>(&body).unwrap())
    });
    if recorded.unchecked && status == recorded.status {
        return None;
    }
    normalizer.normalize("", &mut response);
    if (status, &warnings, &response) == (recorded.status, &recorded.warnings, &recorded.response) {
        return None;
    }
    Some(format!(
        "{}\n  body {}\n  expected {} {:?} {}\n  found    {status} {warnings:?} {response}",
        recorded.request,
        recorded.body.as_ref().unwrap_or(&Value::Null),
        recorded.status,
        recorded.warnings,
        recorded.response
    ))
}

#[test]
fn applied_configurations_have_the_responses_of_a_real_server() {
    let now: Moment = "2026-11-02T14:20:00Z".parse().unwrap();
    let store = Arc::new(MemoryStore::new(Box::new(move || now), "v1.36.4"));
    let app = router(Arc::new(Registry::new(store, 1)), ServeOptions::default());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut normalizer = Normalizer::default();
    let text = include_str!("../../../../testdata/kubernetes/apply.jsonl");
    let differences: Vec<String> = text
        .lines()
        .enumerate()
        .filter_map(|(index, line)| {
            let recorded: RecordedRequest = serde_json::from_str(line).unwrap();
            let difference = difference(&app, &runtime, &mut normalizer, &recorded)?;
            Some(format!("line {}: {difference}", index + 1))
        })
        .collect();
    assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
}
