//! Replays over HTTP: started, polled, cancelled, and their reports.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::check_schema;
use crate::common::run;
use crate::folders::{demo_history, shop};
use crate::server::Server;

const PLACE: &str = "/api/v1/histories/day/replays";

/// Waits until a replay has ended.
fn wait_for_end(server: &Server, place: &str) -> Value {
    let patience = Instant::now() + Duration::from_secs(120);
    loop {
        let shown = server.get(place).json();
        if shown["state"] != "playing" {
            return shown;
        }
        assert!(Instant::now() < patience, "{shown}");
        std::thread::yield_now();
    }
}

fn create(server: &Server, asked: &Value) -> Value {
    let answer = server.post(PLACE, asked);
    assert_eq!(answer.code, 202, "{}", String::from_utf8_lossy(&answer.body));
    let place = answer.header("location").unwrap().to_owned();
    let begun: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(place, format!("{PLACE}/{}", begun["id"]));
    begun
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
    let asked = json!({"from": "13:20", "to": "14:30", "set": ["nodeGroups.general.max=90"], "seed": 3});
    let begun = create(&server, &asked);
    described("Replay", &begun);
    assert_eq!(begun["from"], "2026-11-02T13:20:00Z");
    let shown = wait_for_end(&server, &format!("{PLACE}/{}", begun["id"]));
    described("Replay", &shown);
    assert_eq!((&shown["state"], &shown["playedShare"]), (&json!("done"), &json!(1.0)), "{shown}");
    let listed = server.get(PLACE).json();
    described("Replays", &listed);
    assert_eq!(listed["replays"][0]["id"], begun["id"]);

    let command = ["replay", "day.kine", "--from", "13:20", "--to", "14:30", "--no-history", "--out", "told"];
    let settings = ["--set", "nodeGroups.general.max=90", "--seed", "3"];
    run(day.path(), &[&command[..], &settings].concat()).success();
    assert_eq!(shown["report"], report_in(&day.path().join("told")));

    let place = format!("{PLACE}/{}", begun["id"]);
    assert_eq!(server.ask("DELETE", &place, &[], b"").json()["state"], "done");
    server.get(&place).failure(404);
    assert_eq!(server.get(PLACE).json()["replays"], json!([]));
}

#[test]
fn a_replay_that_is_cancelled_ends_and_makes_room() {
    let day = demo_history();
    let server = Server::start(day.path(), &[]);
    // At the limit further replays are rejected; each cancelled one frees a slot.
    let route = &server.get("/openapi.json").json()["paths"]["/api/v1/histories/{name}/replays"]["post"];
    assert_eq!(route["requestBody"]["required"], false);
    let first = server.ask("POST", PLACE, &[], b"");
    assert_eq!(first.code, 202);
    let first: Value = serde_json::from_slice(&first.body).unwrap();
    create(&server, &json!({}));
    assert!(server.post(PLACE, &json!({})).failure(503).contains("replays are running"));
    let place = format!("{PLACE}/{}", first["id"]);
    assert_eq!(server.ask("DELETE", &place, &[], b"").json()["state"], "cancelled");
    server.get(&place).failure(404);
    let patience = Instant::now() + Duration::from_secs(60);
    while server.post(PLACE, &json!({"to": "start+1m"})).code == 503 {
        assert!(Instant::now() < patience, "no room was made");
        std::thread::yield_now();
    }
}

#[test]
fn errors_name_the_fields_of_the_request() {
    let shop = shop();
    let server = Server::start(shop.path(), &[]);
    let check = |explain_at: Value, expected: &str| {
        let error = server.post("/api/v1/histories/shop/replays", &explain_at).failure(400);
        assert!(error.contains(expected) && !error.contains("--from") && !error.contains("--to"), "{error}");
    };
    check(json!({"from": "2030-01-01T00:00Z"}), "from=2030-01-01T00:00:00Z is outside the history");
    check(json!({"to": "2020-01-01T00:00Z"}), "to=2020-01-01T00:00:00Z is outside the history");
    check(json!({"from": "end", "to": "start"}), " is after to=");
    check(json!({"from": "start", "to": "start"}), "from must be before to; both are ");
    check(json!({"autoscaler": " "}), "autoscaler must be recorded, off, or flags");
}

#[test]
fn a_replay_that_cannot_be_is_refused_at_once() {
    let shop = shop();
    let server = Server::start(shop.path(), &[]);
    let wrong = |explain_at: &Value| server.post("/api/v1/histories/shop/replays", explain_at).failure(400);
    assert!(wrong(&json!({"colour": "red"})).contains("unknown field `colour`"));
    assert!(wrong(&json!({"from": "yesterday"})).contains("yesterday"));
    assert!(wrong(&json!({"level": "nodes"})).contains("expected pods or workloads"));
    assert!(wrong(&json!({"set": ["nonsense"]})).contains("nonsense"));
    assert!(wrong(&json!({"autoscaler": "off"})).contains("node groups"));
    assert!(wrong(&json!({"duration": "soon"})).contains("duration"));
    let cut = server.ask("POST", "/api/v1/histories/shop/replays", &[], b"{\"from\":").failure(400);
    assert!(cut.contains("invalid replay request"), "{cut}");
    server.post("/api/v1/histories/nothing/replays", &json!({})).failure(404);
    server.get("/api/v1/histories/shop/replays/1").failure(404);
    server.get("/api/v1/histories/shop/replays/x").failure(404);
}
