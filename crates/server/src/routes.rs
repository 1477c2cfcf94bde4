//! All routes of the server. The router and `/openapi.json` are generated from this list.

use axum::Json;

use super::route::{Parameters, Route, TEXT};
use super::{
    auth, explanations, gardener, histories, kai, metrics, openapi, page, recordings, replays, simkube,
};

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
const EXPLAIN: Parameters = &[
    ("pod", "The pod; one of pod and node"),
    ("node", "The node, as an autoscaler sees it"),
    ("namespace", "The pod's namespace; default if it is left out"),
    (
        "at",
        "The moment; when the pod was decided about, or the end of its life or the history, if it is left out",
    ),
    ("source", "The recording, if the history holds several"),
    ("schedulerVersion", "Whose rules the scheduler follows: 1.32 to 1.36"),
    (
        "autoscalerFlags",
        "Flags of cluster-autoscaler that count more than those the history has, in one text",
    ),
    ("autoscalerVersion", "Whose rules the autoscaler follows: 1.32 to 1.37"),
];
const EXPLAIN_MANIFEST: Parameters = &[
    ("namespace", "Where the pod would be; what the manifest says if it is left out"),
    ("at", "The moment; the history's end if it is left out"),
    ("source", "The recording, if the history holds several"),
    ("schedulerVersion", "Whose rules the scheduler follows: 1.32 to 1.36"),
    (
        "autoscalerFlags",
        "Flags of cluster-autoscaler that count more than those the history has, in one text",
    ),
    ("autoscalerVersion", "Whose rules the autoscaler follows: 1.32 to 1.37"),
];

/// All routes.
pub(super) fn all() -> Vec<Route> {
    vec![
        Route::get("/", page::show, "A page that lists the histories").media("text/html; charset=utf-8"),
        Route::get("/api/v1/histories", histories::list, "The histories there are").json("Histories"),
        Route::get("/api/v1/histories/{name}", histories::info, "What a history holds").json("Info"),
        Route::get(
            "/api/v1/histories/{name}/objects",
            histories::objects,
            "The objects at a moment, as a Kubernetes list, kind by kind, without Secrets",
        )
        .json("List")
        .parameters(OBJECTS),
        Route::get(
            "/api/v1/histories/{name}/changes",
            histories::changes,
            "What happened, a watch event a line, without Secrets",
        )
        .media("application/x-ndjson")
        .parameters(CHANGES),
        Route::get("/api/v1/histories/{name}/gaps", histories::gaps, "When something may have been missed")
            .json("Gaps"),
        Route::get(
            "/api/v1/histories/{name}/explain",
            explanations::explain_recorded,
            "How the scheduler and the autoscaler decide about a pod, or the autoscaler about a node, and what really \
             happened",
        )
        .json("Explanation")
        .parameters(EXPLAIN),
        Route::post(
            "/api/v1/histories/{name}/explain",
            explanations::explain_manifest,
            "The same for a pod that never was: a manifest of it, or of a workload that makes it, YAML or JSON",
        )
        .json("Explanation")
        .request("application/yaml", None)
        .parameters(EXPLAIN_MANIFEST),
        Route::get(
            "/api/v1/histories/{name}/replays",
            replays::list,
            "The replays of a history that this server knows of",
        )
        .json("Replays"),
        Route::post(
            "/api/v1/histories/{name}/replays",
            replays::create,
            "Begins to play a history again in virtual time; Location says where to ask how far it is",
        )
        .json("Replay")
        .optional_request("application/json", Some("ReplayRequest"))
        .code(202),
        Route::get(
            "/api/v1/histories/{name}/replays/{id}",
            replays::show,
            "How far a replay is, and its report when it is done",
        )
        .json("Replay"),
        Route::delete(
            "/api/v1/histories/{name}/replays/{id}",
            replays::cancel,
            "Ends a replay that is under way, and forgets it",
        )
        .json("Replay"),
        Route::get(
            "/api/v1/histories/{name}/download",
            histories::download,
            "The history itself with all it holds, whole also while it is written",
        )
        .media("application/vnd.sqlite3"),
        Route::get(
            "/api/v1/recordings",
            recordings::list,
            "How the recordings that this process makes are getting on",
        )
        .json("Recordings"),
        Route::post(
            "/export",
            simkube::export,
            "A window as SimKube's trace, as its tracer answers; errors are text",
        )
        .media("application/octet-stream")
        .request("application/json", Some("ExportRequest"))
        .parameters(EXPORT)
        .text_errors(),
        // KAI's own server ignores the method too.
        Route::any(
            "/get-snapshot",
            kai::snapshot,
            "A moment as the KAI scheduler's snapshot, as its plugin answers",
        )
        .media("application/zip")
        .parameters(SNAPSHOT),
        Route::get(
            "/api/db",
            gardener::list,
            "The histories as Gardener's recorder lists its databases; errors are text",
        )
        .media(TEXT)
        .text_errors(),
        Route::get(
            "/api/db/{name}",
            gardener::database,
            "A history as a database of Gardener's scaling history; errors are text",
        )
        .media("application/octet-stream")
        .parameters(DATABASE)
        .text_errors(),
        Route::get("/metrics", metrics::show, "How the histories and the server are doing")
            .media("application/openmetrics-text; version=1.0.0; charset=utf-8"),
        Route::get(
            "/healthz",
            auth::healthz,
            "That nothing hangs here, a line a recording; 503 if something does; needs no token",
        )
        .media(TEXT),
        Route::get(
            "/readyz",
            auth::readyz,
            "That histories can be looked for and one of the recordings works, a line each; needs no token",
        )
        .media(TEXT),
        Route::get("/openapi.json", || async { Json(openapi::document(&all())) }, "This").json("Anything"),
    ]
}
