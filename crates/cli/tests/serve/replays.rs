//! Replays over HTTP: started, polled, cancelled, and their reports.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::check_schema;
use crate::common::run;
use crate::folders::{demo_history, shop};
use crate::server::Server;

const REPLAYS_PATH: &str = "/api/v1/histories/day/replays";

/// Waits until a replay has ended.
fn wait_for_end(server: &Server, url: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        let shown = server.get(url).json();
        if shown["state"] != "playing" {
            return shown;
        }
        assert!(Instant::now() < deadline, "{shown}");
        std::thread::yield_now();
    }
}

fn create(server: &Server, request_body: &Value) -> Value {
    let response = server.post(REPLAYS_PATH, request_body);
    assert_eq!(response.code, 202, "{}", String::from_utf8_lossy(&response.body));
    let url = response.header("location").unwrap().to_owned();
    let created: Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!(url, format!("{REPLAYS_PATH}/{}", created["id"]));
    created
}

fn report_in(folder: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join("report.json")).unwrap()).unwrap()
}

#[test]
fn a_client_gets_the_report_that_the_command_writes() {
    let day = demo_history();
    let server = Server::start(day.path(), &[]);
    let document = server.get("/openapi.json").json();
    let described = |schema: &str, value: &Value| {
        check_schema(&document, &json!({"$ref": format!("#/components/schemas/{schema}")}), value, schema);
    };
    let request_body =
        json!({"from": "13:20", "to": "14:30", "set": ["nodeGroups.general.max=90"], "seed": 3});
    let created = create(&server, &request_body);
    described("Replay", &created);
    assert_eq!(created["from"], "2026-11-02T13:20:00Z");
    let shown = wait_for_end(&server, &format!("{REPLAYS_PATH}/{}", created["id"]));
    described("Replay", &shown);
    assert_eq!((&shown["state"], &shown["playedShare"]), (&json!("done"), &json!(1.0)), "{shown}");
    let listed = server.get(REPLAYS_PATH).json();
    described("Replays", &listed);
    assert_eq!(listed["replays"][0]["id"], created["id"]);

    let command = ["replay", "day.kine", "--from", "13:20", "--to", "14:30", "--no-history", "--out", "out"];
    let settings = ["--set", "nodeGroups.general.max=90", "--seed", "3"];
    run(day.path(), &[&command[..], &settings].concat()).success();
    assert_eq!(shown["report"], report_in(&day.path().join("out")));

    let url = format!("{REPLAYS_PATH}/{}", created["id"]);
    assert_eq!(server.request("DELETE", &url, &[], b"").json()["state"], "done");
    server.get(&url).failure(404);
    assert_eq!(server.get(REPLAYS_PATH).json()["replays"], json!([]));
}

#[test]
fn a_cancelled_replay_ends_and_frees_its_slot() {
    let day = demo_history();
    let server = Server::start(day.path(), &[]);
    // At the limit further replays are rejected; each cancelled one frees a slot.
    let route = &server.get("/openapi.json").json()["paths"]["/api/v1/histories/{name}/replays"]["post"];
    assert_eq!(route["requestBody"]["required"], false);
    let first = server.request("POST", REPLAYS_PATH, &[], b"");
    assert_eq!(first.code, 202);
    let first: Value = serde_json::from_slice(&first.body).unwrap();
    create(&server, &json!({}));
    assert!(server.post(REPLAYS_PATH, &json!({})).failure(503).contains("replays are running"));
    let url = format!("{REPLAYS_PATH}/{}", first["id"]);
    assert_eq!(server.request("DELETE", &url, &[], b"").json()["state"], "cancelled");
    server.get(&url).failure(404);
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.post(REPLAYS_PATH, &json!({"to": "start+1m"})).code == 503 {
        assert!(Instant::now() < deadline, "no slot was freed");
        std::thread::yield_now();
    }
}

#[test]
fn errors_name_the_fields_of_the_request() {
    let shop = shop();
    let server = Server::start(shop.path(), &[]);
    let check = |request_body: Value, expected: &str| {
        let error = server.post("/api/v1/histories/shop/replays", &request_body).failure(400);
        assert!(error.contains(expected) && !error.contains("--from") && !error.contains("--to"), "{error}");
    };
    check(json!({"from": "2030-01-01T00:00Z"}), "from=2030-01-01T00:00:00Z is outside the history");
    check(json!({"to": "2020-01-01T00:00Z"}), "to=2020-01-01T00:00:00Z is outside the history");
    check(json!({"from": "end", "to": "start"}), " is after to=");
    check(json!({"from": "start", "to": "start"}), "from must be before to; both are ");
    check(json!({"autoscaler": " "}), "autoscaler must be recorded, off, or flags");
}

#[test]
fn an_invalid_replay_request_is_rejected_at_once() {
    let shop = shop();
    let server = Server::start(shop.path(), &[]);
    let error_of =
        |request_body: &Value| server.post("/api/v1/histories/shop/replays", request_body).failure(400);
    assert!(error_of(&json!({"colour": "red"})).contains("unknown field `colour`"));
    assert!(error_of(&json!({"from": "yesterday"})).contains("yesterday"));
    assert!(error_of(&json!({"level": "nodes"})).contains("level \"nodes\": expected pods or workloads"));
    assert!(error_of(&json!({"set": ["nonsense"]})).contains("nonsense"));
    assert!(error_of(&json!({"autoscaler": "off"})).contains("node groups"));
    assert!(error_of(&json!({"duration": "soon"})).contains("duration"));
    let cut = server.request("POST", "/api/v1/histories/shop/replays", &[], b"{\"from\":").failure(400);
    assert!(cut.contains("invalid replay request"), "{cut}");
    server.post("/api/v1/histories/nothing/replays", &json!({})).failure(404);
    server.get("/api/v1/histories/shop/replays/1").failure(404);
    server.get("/api/v1/histories/shop/replays/x").failure(404);
}
