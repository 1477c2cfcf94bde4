//! `/openapi.json`: what can be asked, for programs that make clients of it.

use axum::Json;
use serde_json::{Map, Value, json};

const NAME: (&str, &str) = ("name", "The history's name: that of its file, without .kine");
const TIMES: &str = "2026-11-01T14:03Z, 2026-11-01 14:03, 14:03 (the last one), -2h, start, start+30m, end, now; \
                     they count from the history's end, in the server's zone";

/// Parameters of the question, by name, and what they mean.
type Parameters = &'static [(&'static str, &'static str)];

const OBJECTS: Parameters = &[
    ("at", "The moment; the history's end if it is left out"),
    ("kind", "Only these kinds, as kubectl names them: pods,nodes"),
    ("namespace", "Only this namespace"),
    ("name", "Only objects of this name"),
    ("labelSelector", "Only objects with these labels: app=web,tier!=db"),
    ("source", "The recording, if the history holds several"),
];
const CHANGES: Parameters = &[
    ("from", "From this moment"),
    ("to", "Up to and at this moment"),
    ("state", "true: the lines begin with the objects that were there at from, as if each had been added"),
    ("kind", "Only these kinds, as kubectl names them: pods,nodes"),
    ("namespace", "Only this namespace"),
    ("name", "Only objects of this name"),
    ("labelSelector", "Only objects with these labels: app=web,tier!=db"),
    ("source", "Only this recording"),
];
const EXPORT: Parameters = &[
    ("history", "The history, if there are several"),
    ("source", "The recording, if the history holds several"),
];
const SNAPSHOT: Parameters = &[
    ("history", "The history, if there are several"),
    ("source", "The recording, if the history holds several"),
    ("at", "The moment; the history's end if it is left out"),
    ("partition", "Only nodes, queues and pod groups with this label, KEY=VALUE, or without it, KEY"),
];
const DATABASE: Parameters = &[("source", "The recording, if the history holds several")];

/// `GET /openapi.json`
pub(super) async fn show() -> Json<Value> {
    Json(document())
}

fn document() -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Kinescope",
            "version": env!("CARGO_PKG_VERSION"),
            "description": format!("Histories of Kubernetes clusters. Times are {TIMES}."),
        },
        "paths": paths(),
        "components": { "schemas": schemas(), "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
        "security": [{}, { "token": [] }],
    })
}

fn paths() -> Value {
    let mut paths = json!({
            "/": get("A page that lists the histories", "text/html; charset=utf-8", Value::Null, &[]),
            "/api/v1/histories": get("The histories there are", "application/json", reference("Histories"), &[]),
            "/api/v1/histories/{name}": get("What a history holds", "application/json", reference("Info"), &[]),
            "/api/v1/histories/{name}/objects": get(
                "The objects at a moment, as a Kubernetes list, kind by kind, without Secrets",
                "application/json",
                reference("List"),
                OBJECTS,
            ),
            "/api/v1/histories/{name}/changes": get(
                "What happened, a watch event a line, without Secrets",
                "application/x-ndjson",
                Value::Null,
                CHANGES,
            ),
            "/api/v1/histories/{name}/gaps": get(
                "When something may have been missed",
                "application/json",
                reference("Gaps"),
                &[],
            ),
            "/api/v1/histories/{name}/download": get(
                "The history itself with all it holds, whole also while it is written",
                "application/vnd.sqlite3",
                Value::Null,
                &[],
            ),
            "/api/v1/recordings": get(
                "How the recordings that this process makes are getting on",
                "application/json",
                reference("Recordings"),
                &[],
            ),
            "/export": post(
                "A window as SimKube's trace, as its tracer answers; errors are text",
                "application/octet-stream",
                reference("ExportRequest"),
                EXPORT,
            ),
            "/get-snapshot": get(
                "A moment as the KAI scheduler's snapshot, as its plugin answers",
                "application/zip",
                Value::Null,
                SNAPSHOT,
            ),
            "/api/db": get(
                "The histories as Gardener's recorder lists its databases; errors are text",
                "text/plain; charset=utf-8",
                Value::Null,
                &[],
            ),
            "/api/db/{name}": get(
                "A history as a database of Gardener's scaling history; errors are text",
                "application/octet-stream",
                Value::Null,
                DATABASE,
            ),
            "/metrics": get(
                "How the histories and the server are doing",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
                Value::Null,
                &[],
            ),
            "/healthz": get("That nothing hangs here, a line a recording; 503 if something does; needs no token", "text/plain; charset=utf-8", Value::Null, &[]),
            "/readyz": get("That histories can be looked for and one of the recordings works, a line each; needs no token", "text/plain; charset=utf-8", Value::Null, &[]),
            "/openapi.json": get("This", "application/json", json!({ "type": "object" }), &[]),
    });
    for (path, item) in paths.as_object_mut().into_iter().flatten() {
        if path == "/export" || path.starts_with("/api/db") {
            let operation = if path == "/export" { "post" } else { "get" };
            item[operation]["responses"]["default"]["content"] = json!({ "text/plain; charset=utf-8": {} });
        }
        if path.contains("{name}") {
            let (name, means) = NAME;
            item["parameters"] = json!([{
                "name": name, "in": "path", "required": true, "description": means, "schema": { "type": "string" },
            }]);
        }
    }
    paths
}

fn get(summary: &str, media: &str, schema: Value, parameters: Parameters) -> Value {
    json!({ "get": operation(summary, media, schema, parameters) })
}

fn post(summary: &str, media: &str, request: Value, parameters: Parameters) -> Value {
    let mut operation = operation(summary, media, Value::Null, parameters);
    operation["requestBody"] = json!({
        "required": true, "content": { "application/json": { "schema": request } },
    });
    json!({ "post": operation })
}

fn operation(summary: &str, media: &str, schema: Value, parameters: Parameters) -> Value {
    let content =
        if schema.is_null() { json!({ media: {} }) } else { json!({ media: { "schema": schema } }) };
    let parameters: Vec<Value> = parameters
        .iter()
        .map(|(name, means)| {
            json!({ "name": name, "in": "query", "description": means, "schema": { "type": "string" } })
        })
        .collect();
    json!({
        "summary": summary,
        "parameters": parameters,
        "responses": {
            "200": { "description": summary, "content": content },
            "default": {
                "description": "What is wrong, and what would be right. 503 says in Retry-After when to ask again",
                "content": { "application/json": { "schema": reference("Error") } },
            },
        },
    })
}

fn reference(schema: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{schema}") })
}

fn schemas() -> Value {
    let (text, number, flag) =
        (json!({"type": "string"}), json!({"type": "integer"}), json!({"type": "boolean"}));
    let time = json!({"type": "string", "format": "date-time"});
    let or_null = |kind: &str| json!({"type": [kind, "null"]});
    json!({
        "Error": object(&[("error", text.clone())], &[]),
        "Histories": object(&[("histories", list_of(reference("History")))], &[]),
        "History": object(
            &[("name", text.clone())],
            &[
                ("from", or_null("string")),
                ("to", or_null("string")),
                ("bytes", number.clone()),
                ("sources", list_of(text.clone())),
                ("gaps", number.clone()),
                ("error", text.clone()),
            ],
        ),
        "Info": object(
            &[
                ("history", text.clone()),
                ("changes", number.clone()),
                ("notPackedYet", number.clone()),
                ("fileBytes", number.clone()),
                ("objectBytes", number.clone()),
                ("blockBytes", number.clone()),
                ("keyframeBytes", number.clone()),
                ("prunedTo", or_null("string")),
                ("sources", list_of(reference("Source"))),
                ("gaps", list_of(reference("Gap"))),
            ],
            &[],
        ),
        "Source": object(
            &[
                ("name", text.clone()),
                ("from", or_null("string")),
                ("to", or_null("string")),
                ("timesInferred", flag),
                ("kinds", list_of(reference("KindInfo"))),
            ],
            &[],
        ),
        "KindInfo": object(
            &[
                ("group", text.clone()),
                ("kind", text.clone()),
                ("changes", number.clone()),
                ("objects", or_null("integer")),
                ("aliveAtEnd", or_null("integer")),
                ("objectBytes", number.clone()),
                ("packedBytes", number.clone()),
            ],
            &[],
        ),
        "Gaps": object(&[("gaps", list_of(reference("Gap")))], &[]),
        "Gap": object(
            &[
                ("source", text.clone()),
                ("kinds", list_of(text.clone())),
                ("from", time.clone()),
                // Null while it has not ended.
                ("to", or_null("string")),
                ("why", text.clone()),
            ],
            &[],
        ),
        "Recordings": object(&[("recordings", list_of(reference("Recording")))], &[]),
        "Recording": object(
            &[
                ("name", text.clone()),
                ("history", text.clone()),
                ("state", json!({"enum": ["starting", "recording", "paused", "waiting"]})),
                ("why", or_null("string")),
                ("changes", number.clone()),
                ("leftOut", number.clone()),
                ("objects", number.clone()),
                ("gaps", number.clone()),
                ("restarts", number.clone()),
                ("damagedHistories", number.clone()),
                ("clockSteps", number.clone()),
                ("retentionFailures", number.clone()),
                ("lagSeconds", json!({"type": "number"})),
                ("waiting", number.clone()),
                ("kinds", list_of(reference("RecordedKind"))),
            ],
            &[],
        ),
        "RecordedKind": object(
            &[
                ("kind", text.clone()),
                ("state", json!({"enum": ["listing", "watching", "waiting", "forbidden", null]})),
                ("why", or_null("string")),
                ("objects", or_null("integer")),
                ("changes", number.clone()),
                ("leftOut", number.clone()),
                ("gaps", number.clone()),
                ("heardSecondsAgo", or_null("number")),
            ],
            &[],
        ),
        "List": object(
            &[
                ("apiVersion", text.clone()),
                ("kind", text.clone()),
                ("metadata", json!({"type": "object"})),
                ("at", time),
                ("gaps", list_of(reference("Gap"))),
                ("items", list_of(json!({"type": "object"}))),
            ],
            &[],
        ),
        "ExportRequest": object(
            &[
                ("start_ts", number.clone()),
                ("end_ts", number),
                ("export_path", text.clone()),
                ("filters", reference("ExportFilters")),
            ],
            &[("transform", text.clone())],
        ),
        "ExportFilters": object(
            &[("excluded_namespaces", list_of(text)), ("excluded_labels", list_of(json!({"type": "object"})))],
            &[],
        ),
    })
}

fn object(required: &[(&str, Value)], optional: &[(&str, Value)]) -> Value {
    let properties = required.iter().chain(optional);
    let properties: Map<String, Value> =
        properties.map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let required: Vec<&str> = required.iter().map(|(name, _)| *name).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

fn list_of(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}
