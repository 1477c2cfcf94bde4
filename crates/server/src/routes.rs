//! All routes of the server. The router and `/openapi.json` are generated from this list.

use axum::Json;

use super::route::{Parameters, Route, TEXT};
use super::{
    auth, explanations, gardener, histories, kai, metrics, openapi, page, recordings, replays, simkube,
};

const OBJECTS: Parameters = &[
    ("at", "Time; defaults to the end of the history"),
    ("kind", "Resource types as in kubectl: pods,nodes"),
    ("namespace", "Namespace"),
    ("name", "Name of the object"),
    ("labelSelector", "Label selector: app=web,tier!=db"),
    ("source", "Source; required if the history has several"),
];
const CHANGES: Parameters = &[
    ("from", "Start time, inclusive"),
    ("to", "End time, inclusive"),
    ("state", "true: begin with the objects that exist at from, as ADDED events; requires from"),
    ("kind", "Resource types as in kubectl: pods,nodes"),
    ("namespace", "Namespace"),
    ("name", "Name of the object"),
    ("labelSelector", "Label selector: app=web,tier!=db"),
    ("source", "Source"),
];
const EXPORT: Parameters = &[
    ("history", "Name of the history; required if there are several"),
    ("source", "Source; required if the history has several"),
];
const SNAPSHOT: Parameters = &[
    ("history", "Name of the history; required if there are several"),
    ("source", "Source; required if the history has several"),
    ("at", "Time; defaults to the end of the history"),
    (
        "partition",
        "Label of the nodes, queues and pod groups to include: KEY=VALUE; KEY for those without the label",
    ),
];
const DATABASE: Parameters = &[("source", "Source; required if the history has several")];
const EXPLAIN: Parameters = &[
    ("pod", "Pod to explain; exactly one of pod and node is required"),
    ("node", "Node to explain: its scale-down by cluster-autoscaler"),
    ("namespace", "Namespace of the pod; defaults to default"),
    ("at", "Time; defaults to the pod's scheduling, else to the end of its lifetime or of the history"),
    ("source", "Source; required if the history has several"),
    ("schedulerVersion", "kube-scheduler version to simulate: 1.32 to 1.36"),
    ("autoscalerFlags", "cluster-autoscaler flags that override the recorded ones, as one string"),
    ("autoscalerVersion", "cluster-autoscaler version to simulate: 1.32 to 1.37"),
];
const EXPLAIN_MANIFEST: Parameters = &[
    ("namespace", "Namespace of the pod; defaults to the manifest's"),
    ("at", "Time; defaults to the end of the history"),
    ("source", "Source; required if the history has several"),
    ("schedulerVersion", "kube-scheduler version to simulate: 1.32 to 1.36"),
    ("autoscalerFlags", "cluster-autoscaler flags that override the recorded ones, as one string"),
    ("autoscalerVersion", "cluster-autoscaler version to simulate: 1.32 to 1.37"),
];

/// All routes.
pub(super) fn all() -> Vec<Route> {
    vec![
        Route::get("/", page::show, "List histories, as an HTML page").media("text/html; charset=utf-8"),
        Route::get("/api/v1/histories", histories::list, "List histories").json("Histories"),
        Route::get("/api/v1/histories/{name}", histories::info, "Get the summary of a history").json("Info"),
        Route::get(
            "/api/v1/histories/{name}/objects",
            histories::objects,
            "List objects at a time, as a Kubernetes List grouped by kind, without Secrets",
        )
        .json("List")
        .parameters(OBJECTS),
        Route::get(
            "/api/v1/histories/{name}/changes",
            histories::changes,
            "List changes as watch events, one per line, without Secrets",
        )
        .media("application/x-ndjson")
        .parameters(CHANGES),
        Route::get(
            "/api/v1/histories/{name}/gaps",
            histories::gaps,
            "List gaps, in which changes may be missing",
        )
        .json("Gaps"),
        Route::get(
            "/api/v1/histories/{name}/explain",
            explanations::explain_recorded,
            "Explain the scheduling of a pod, or the scale-down of a node",
        )
        .json("Explanation")
        .parameters(EXPLAIN),
        Route::post(
            "/api/v1/histories/{name}/explain",
            explanations::explain_manifest,
            "Explain the scheduling of a pod from its manifest or that of its workload, YAML or JSON",
        )
        .json("Explanation")
        .request("application/yaml", None)
        .parameters(EXPLAIN_MANIFEST),
        Route::get("/api/v1/histories/{name}/replays", replays::list, "List replays of a history")
            .json("Replays"),
        Route::post(
            "/api/v1/histories/{name}/replays",
            replays::create,
            "Start a replay in virtual time; poll the URL in Location",
        )
        .json("Replay")
        .optional_request("application/json", Some("ReplayRequest"))
        .code(202),
        Route::get(
            "/api/v1/histories/{name}/replays/{id}",
            replays::show,
            "Get the progress of a replay, and its report when it is done",
        )
        .json("Replay"),
        Route::delete("/api/v1/histories/{name}/replays/{id}", replays::cancel, "Cancel and delete a replay")
            .json("Replay"),
        Route::get(
            "/api/v1/histories/{name}/download",
            histories::download,
            "Download the file of a history with all its contents, consistent even while it is written",
        )
        .media("application/vnd.sqlite3"),
        Route::get(
            "/api/v1/recordings",
            recordings::list,
            "List the recordings of this process and their state",
        )
        .json("Recordings"),
        Route::post(
            "/export",
            simkube::export,
            "Export a time range as a SimKube trace, like SimKube's tracer; errors are text",
        )
        .media("application/octet-stream")
        .request("application/json", Some("ExportRequest"))
        .parameters(EXPORT)
        .text_errors(),
        // KAI's own server ignores the method too.
        Route::any(
            "/get-snapshot",
            kai::snapshot,
            "Get the state at a time as a KAI scheduler snapshot, like its plugin",
        )
        .media("application/zip")
        .parameters(SNAPSHOT),
        Route::get(
            "/api/db",
            gardener::list,
            "List histories as databases, like Gardener's recorder; errors are text",
        )
        .media(TEXT)
        .text_errors(),
        Route::get(
            "/api/db/{name}",
            gardener::database,
            "Download a history as a database of Gardener's scaling history; errors are text",
        )
        .media("application/octet-stream")
        .parameters(DATABASE)
        .text_errors(),
        Route::get(
            "/metrics",
            metrics::show,
            "Prometheus metrics of the histories, the recordings and the server",
        )
        .media("application/openmetrics-text; version=1.0.0; charset=utf-8"),
        Route::get(
            "/healthz",
            auth::healthz,
            "Liveness, one line per recording; 503 if a recording hangs; requires no token",
        )
        .media(TEXT),
        Route::get(
            "/readyz",
            auth::readyz,
            "Readiness: histories can be listed and a recording runs, one line each; requires no token",
        )
        .media(TEXT),
        Route::get("/openapi.json", || async { Json(openapi::document(&all())) }, "This OpenAPI document")
            .json("Anything"),
    ]
}
