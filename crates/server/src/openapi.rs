//! `/openapi.json`: the OpenAPI description of all routes.

use serde_json::{Map, Value, json};

use super::route::Route;

const TIMES: &str = "2026-11-01T14:03Z, 2026-11-01 14:03, 14:03 (most recent), -2h, start, start+30m, end, now; \
                     relative to the end of the history, in the server's time zone";

/// The path parameters, with their descriptions.
const PATH_PARAMETERS: [(&str, &str); 2] =
    [("name", "Name of the history: its file name without .kine"), ("id", "ID of the replay")];

/// The OpenAPI document of these routes.
pub(super) fn document(routes: &[Route]) -> Value {
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Kinescope",
            "version": env!("CARGO_PKG_VERSION"),
            "description": format!("Histories of Kubernetes clusters. Times are {TIMES}."),
        },
        "paths": paths(routes),
        "components": { "schemas": schemas(), "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } } },
        "security": [{}, { "token": [] }],
    })
}

fn paths(routes: &[Route]) -> Value {
    let mut paths = json!({});
    for route in routes {
        let mut operation = operation(route);
        if route.has_text_errors {
            operation["responses"]["default"]["content"] = json!({ "text/plain; charset=utf-8": {} });
        }
        let item = &mut paths[route.path];
        item[route.method.name()] = operation;
        let in_path = PATH_PARAMETERS.iter().filter(|(name, _)| route.path.contains(&format!("{{{name}}}")));
        let in_path: Vec<Value> = in_path
            .map(|(name, description)| {
                json!({
                    "name": name,
                    "in": "path",
                    "required": true,
                    "description": description,
                    "schema": { "type": "string" },
                })
            })
            .collect();
        if !in_path.is_empty() {
            item["parameters"] = in_path.into();
        }
    }
    paths
}

fn operation(route: &Route) -> Value {
    let content = match route.schema {
        None => json!({ route.media: {} }),
        Some(schema) => json!({ route.media: { "schema": reference(schema) } }),
    };
    let parameters: Vec<Value> = route
        .parameters
        .iter()
        .map(|(name, description)| {
            json!({ "name": name, "in": "query", "description": description, "schema": { "type": "string" } })
        })
        .collect();
    let mut operation = json!({
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            route.code.to_string(): { "description": route.summary, "content": content },
            "default": {
                "description": "An error: what is wrong, and what is expected. 503 has Retry-After",
                "content": { "application/json": { "schema": reference("Error") } },
            },
        },
    });
    if let Some(body) = route.request {
        let content = body.schema.map_or_else(|| json!({}), |schema| json!({ "schema": reference(schema) }));
        operation["requestBody"] =
            json!({ "required": body.is_required, "content": { body.media: content } });
    }
    operation
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
        "Anything": json!({"type": "object"}),
        "Explanation": explanation(),
        "ReplayRequest": object(
            &[],
            &[
                ("from", text.clone()),
                ("to", text.clone()),
                ("duration", text.clone()),
                ("source", text.clone()),
                ("level", json!({"type": "string", "enum": ["pods", "workloads"]})),
                ("seed", number.clone()),
                ("schedulerVersion", text.clone()),
                ("autoscaler", text.clone()),
                ("autoscalerVersion", text.clone()),
                ("set", list_of(text.clone())),
            ],
        ),
        "Replays": object(&[("replays", list_of(reference("Replay")))], &[]),
        "Replay": object(
            &[
                ("id", number.clone()),
                ("history", text.clone()),
                ("state", json!({"type": "string", "enum": ["playing", "done", "failed", "cancelled"]})),
                ("from", time.clone()),
                ("to", time.clone()),
                ("readShare", json!({"type": "number"})),
                ("playedShare", json!({"type": "number"})),
                ("playedTo", time.clone()),
            ],
            // docs/replay-report.md describes the report.
            &[("report", json!({"type": "object"})), ("error", text.clone())],
        ),
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
                // Null while the gap is open.
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

/// The schema of `kinescope explain -o json` for a pod or a node, with the warnings.
fn explanation() -> Value {
    let typed = |kind: &str| json!({ "type": kind });
    let one_of = |values: &[&str]| json!({ "type": "string", "enum": values });
    let objects = || list_of(typed("object"));
    object(
        &[
            ("at", json!({"type": "string", "format": "date-time"})),
            ("before", typed("boolean")),
            ("why", typed("string")),
            ("warnings", list_of(typed("string"))),
        ],
        &[
            // For pods.
            ("pod", typed("object")),
            ("decision", one_of(&["placed", "refused", "gated", "skipped", "failed"])),
            ("message", typed("string")),
            ("fitting", typed("integer")),
            ("plugins", list_of(typed("string"))),
            ("nominatedNode", typed("string")),
            ("victims", objects()),
            ("clearedNominations", objects()),
            ("gated", typed("object")),
            ("preFilter", typed("object")),
            ("preFilterNodes", list_of(typed("string"))),
            ("nodes", objects()),
            ("scheduler", typed("object")),
            // For both. For a pod `node` is the node chosen, and `lookedAt` the number of nodes examined.
            ("node", typed("string")),
            ("lookedAt", json!({"type": ["integer", "object"]})),
            ("reason", typed("string")),
            ("autoscaler", typed("object")),
            ("happened", typed("object")),
            // For nodes.
            ("verdict", one_of(&["goes", "mayGo", "stays", "notLookedAt", "notTried"])),
            ("means", typed("string")),
            ("group", typed("object")),
            ("ready", typed("boolean")),
            ("threshold", typed("number")),
            ("utilization", typed("object")),
            ("unneededSeconds", typed("number")),
            ("pods", objects()),
            ("blocking", typed("object")),
            ("cooldown", typed("object")),
            ("notAgainBefore", typed("string")),
            ("since", typed("string")),
            ("sinceAtLeast", typed("boolean")),
            ("drains", typed("boolean")),
            ("removalBeganAt", typed("string")),
        ],
    )
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
