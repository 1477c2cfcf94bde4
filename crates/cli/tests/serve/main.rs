//! Tests of `kinescope serve`: the real program, with requests over real connections.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod authentication;
#[path = "../common/mod.rs"]
mod common;
mod connection_flood;
mod downloads;
mod explanations;
mod folders;
mod load;
mod other_systems;
mod probes;
mod recording;
mod replays;
mod server;

use common::run;
use folders::{added_pod, demo_history, many, required_input, shop};
use serde_json::{Value, json};
use server::Server;

#[test]
fn every_route_responds_as_documented() {
    let shop = shop();
    let server = Server::start(shop.path(), &[]);
    assert_eq!(server.first_line, format!("serving 1 history on http://{}\n", server.address));
    let document = server.get("/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    assert!(paths.len() >= 15, "routes are missing");
    let operations = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter().filter(|(name, _)| *name != "parameters");
        methods.map(move |(method, operation)| (path, method.to_uppercase(), operation))
    });
    for (path, method, operation) in operations {
        // Replays by id have tests of their own.
        if path.contains("{id}") {
            continue;
        }
        let (query, request_body) = required_input(path, &method);
        let url = format!("{}{query}", path.replace("{name}", "shop"));
        let response = server.request(&method, &url, &[], request_body.as_bytes());
        let mut codes = operation["responses"].as_object().unwrap().iter();
        let (code, described) = codes.find(|(code, _)| *code != "default").unwrap();
        assert_eq!(response.code.to_string(), *code, "{path}");
        let (media, content) = described["content"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(response.header("content-type"), Some(&**media), "{path}: {}", response.code);
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
        let body = response.body;
        assert!(!body.is_empty(), "{path}");
        if let Some(schema) = content.get("schema") {
            check_schema(&document, schema, &serde_json::from_slice(&body).unwrap(), path);
        }
        // Every documented parameter is accepted, and no other.
        for parameter in operation["parameters"].as_array().unwrap() {
            let name = parameter["name"].as_str().unwrap();
            if query.contains(&format!("{name}=")) {
                continue;
            }
            let empty = format!("{url}&{name}=");
            let empty = if empty.contains("state=") { empty + "false" } else { empty };
            server.request(&method, &empty, &[], request_body.as_bytes()).success();
        }
        if !operation["parameters"].as_array().unwrap().is_empty() {
            let unknown = server.request(&method, &format!("{url}&colour=red"), &[], b"{}");
            let media =
                operation["responses"]["default"]["content"].as_object().unwrap().keys().next().unwrap();
            assert_eq!(unknown.header("content-type"), Some(&**media), "{path}");
            let unknown = unknown.failure(400);
            assert!(unknown.contains("unknown field `colour`, expected "), "{unknown}");
        }
    }
    check_schema(
        &document,
        &json!({"$ref": "#/components/schemas/Error"}),
        &json!({"error": "words"}),
        "error",
    );
    let unknown = server.get("/nowhere");
    check_schema(
        &document,
        &json!({"$ref": "#/components/schemas/Error"}),
        &serde_json::from_slice(&unknown.body).unwrap(),
        "404",
    );
    assert!(unknown.failure(404).contains("/openapi.json"));
    assert!(server.post("/api/v1/histories", &json!({})).failure(405).contains("method not allowed"));
    server.get("/export").failure(405);
}

#[test]
fn histories_are_described_as_by_the_commands() {
    let shop = shop();
    run(shop.path(), &["import", "shop.jsonl", "--into", "a \"second\".kine", "--source", "west"]).success();
    let server = Server::start(shop.path(), &["."]);
    assert!(
        server.first_line.starts_with("serving 2 histories on http://127.0.0.1:"),
        "{}",
        server.first_line
    );
    let list = server.get("/api/v1/histories").json();
    let names: Vec<&Value> = list["histories"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["a \"second\"", "shop"]);
    assert_eq!(list["histories"][1]["from"], "2026-11-01T14:00:00Z");
    assert_eq!(list["histories"][1]["to"], "2026-11-01T14:30:00Z");
    assert_eq!(list["histories"][0]["sources"], json!(["west"]));
    assert_eq!(list["histories"][1]["gaps"], 1);

    let mut info: Value =
        serde_json::from_str(&run(shop.path(), &["info", "shop.kine", "-o", "json"]).success()).unwrap();
    info["history"] = json!("shop");
    assert_eq!(server.get("/api/v1/histories/shop").json(), info);
    assert_eq!(server.get("/api/v1/histories/shop/gaps").json()["gaps"], info["gaps"]);
    assert_eq!(server.get("/api/v1/histories/a%20%22second%22").json()["history"], "a \"second\"");

    // A history added later is listed; a file that is not a history has an error, and does no harm.
    std::fs::write(
        shop.path().join("broken.kine"),
        "this is no SQLite file, but long enough to be one, or is it?",
    )
    .unwrap();
    let list = server.get("/api/v1/histories").json();
    assert!(list["histories"][1]["error"].as_str().unwrap().contains("is not a Kinescope history"), "{list}");
    assert!(server.get("/api/v1/histories/broken").failure(409).contains("not an SQLite file"));
    let page = String::from_utf8(server.get("/").success()).unwrap();
    assert!(
        page.contains("<a href=\"/api/v1/histories/a%20%22second%22\">a &quot;second&quot;</a>"),
        "{page}"
    );
    assert!(page.contains("is not a Kinescope history"), "{page}");
    let metrics = String::from_utf8(server.get("/metrics").success()).unwrap();
    for line in [
        "kinescope_history_changes{history=\"shop\"} 4",
        "kinescope_history_gaps{history=\"shop\"} 1",
        "kinescope_history_readable{history=\"broken\"} 0",
        "kinescope_history_readable{history=\"a \\\"second\\\"\"} 1",
        "kinescope_requests_total{route=\"/api/v1/histories/{name}\",code=\"409\"} 1",
        "kinescope_request_seconds_count{route=\"/api/v1/histories/{name}\"} 3",
        "# EOF",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line}\n{metrics}");
    }
    assert!(metrics.contains("kinescope_history_last_change_age_seconds{history=\"shop\"} "), "{metrics}");
}

#[test]
fn objects_are_those_of_the_moment() {
    let shop = shop();
    let server = Server::start(shop.path(), &["shop.kine"]);
    let objects = |query: &str| server.get(&format!("/api/v1/histories/shop/objects{query}"));
    let names = |query: &str| -> Vec<String> {
        let list = objects(query).json();
        assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("List"), &json!("v1")));
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| format!("{}/{}", item["kind"], item["metadata"]["name"]).replace('"', "")).collect()
    };
    assert_eq!(names(""), ["Node/node-1"]);
    assert_eq!(names("?at=14:00:02"), ["Node/node-1", "Pod/web-1"]);
    assert_eq!(names("?at=14:00:02&kind=po"), ["Pod/web-1"]);
    assert_eq!(names("?at=-20m&namespace=shop"), ["Pod/web-1"]);
    assert_eq!(names("?at=start+2s&name=web-1"), ["Pod/web-1"]);
    assert_eq!(names("?at=2026-11-01T15:00:02+01:00&labelSelector=app%20in%20(web,db)"), ["Pod/web-1"]);
    assert!(names("?at=14:01&labelSelector=!app&kind=pods").is_empty());
    let list = objects("?at=14:11&kind=pods").json();
    assert_eq!(list["gaps"][0]["why"], "the API server was away");
    assert_eq!(list["items"][0]["status"]["phase"], "Running");
    assert_eq!(list["at"], "2026-11-01T14:11:00Z");

    for (query, code, message) in [
        ("?at=teatime", 400, "invalid time \"teatime\": expected 2026-11-01T14:03Z"),
        ("?kind=wombats", 400, "unknown resource type \"wombats\"; the history has: nodes, pods"),
        ("?labelSelector=a%3Db%3Dc", 400, "invalid selector"),
        ("?source=east", 400, "source \"east\" not found; the history has: shop"),
        ("?colour=red", 400, "unknown field `colour`, expected one of `at`, `kind`"),
    ] {
        let error = objects(query).failure(code);
        assert!(error.contains(message), "{query}: {error}");
    }
    for name in ["shp", "..%2Fshop", "shop.kine", ".", "%2e%2e", "shop%00", "%2Fetc%2Fpasswd"] {
        let response = server.get(&format!("/api/v1/histories/{name}/objects"));
        let error = response.failure(404);
        assert!(error.contains("available: shop"), "{name}: {error}");
    }
    assert!(server.get("/api/v1/histories/%FF").failure(400).contains("UTF-8"));
    run(shop.path(), &["import", "shop.jsonl", "--into", "shop.kine", "--source", "west"]).success();
    let error = objects("").failure(400);
    assert!(error.contains("several sources; set ?source= to one of: shop, west"), "{error}");
    assert_eq!(names("?source=west"), ["Node/node-1"]);
    run(shop.path(), &["prune", "shop.kine", "--before", "14:10"]).success();
    assert!(objects("?source=west&at=14:00:02").failure(410).contains("earlier changes were pruned"));
}

#[test]
fn changes_are_the_lines_of_an_export() {
    let day = demo_history();
    let server = Server::start(day.path(), &[]);
    let export = |arguments: &[&str]| {
        run(day.path(), &[&["export", "day.kine", "--format", "jsonl"], arguments].concat()).success()
    };
    let changes = |query: &str| {
        let response = server.get(&format!("/api/v1/histories/day/changes{query}"));
        String::from_utf8(response.success()).unwrap()
    };
    let all = export(&[]);
    assert!(all.lines().count() > 100);
    assert!(changes("") == all);
    let window = ["--from", "2026-11-02T14:04:30Z", "--to", "2026-11-02T14:10:00Z"];
    let query = "?from=2026-11-02T14:04:30Z&to=2026-11-02T14:10:00Z";
    let lines = changes(query);
    assert!(!lines.is_empty());
    assert!(lines == export(&[&window[..], &["--changes-only"]].concat()));
    assert!(changes(&format!("{query}&state=true")) == export(&window));
    let narrow = [&window[..], &["--kinds", "pods", "-n", "shop", "-l", "app=checkout"]].concat();
    let narrowed = format!("{query}&state=true&kind=pods&namespace=shop&labelSelector=app%3Dcheckout");
    assert!(changes(&narrowed) == export(&narrow));
    assert_eq!(changes("?name=nobody"), "");
    let wrong = |query: &str| server.get(&format!("/api/v1/histories/day/changes{query}")).failure(400);
    assert!(wrong("?from=end&to=start").contains("is before from="));
    assert!(wrong("?state=true").contains("requires from="));
    assert!(wrong("?state=perhaps").contains("state"));
}

#[test]
fn a_download_is_complete_while_the_history_is_written() {
    let folder = many(2_000);
    let server = Server::start(folder.path(), &[]);
    let writer = history::Writer::open(&folder.path().join("many.kine")).unwrap();
    std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let writer = &writer;
        scope.spawn(move || {
            let mut number = 2_000;
            while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
                let changes = (number..number + 50).map(|number| added_pod("many", number)).collect();
                writer.append(history::Batch { changes, ..Default::default() }).unwrap();
                writer.flush().unwrap();
                number += 50;
            }
        });
        let mut last = 0;
        for turn in 0..4 {
            let response = server.get("/api/v1/histories/many/download");
            assert_eq!(response.header("content-type"), Some("application/vnd.sqlite3"));
            assert_eq!(response.header("content-disposition"), Some("attachment; filename=many.kine"));
            let name = format!("copy-{turn}.kin");
            std::fs::write(folder.path().join(&name), response.success()).unwrap();
            let output = run(folder.path(), &["doctor", &name]);
            assert_eq!(output.code, 0, "{}{}", output.out, output.err);
            let info = run(folder.path(), &["info", &name, "-o", "json"]).success();
            let changes = serde_json::from_str::<Value>(&info).unwrap()["changes"].as_u64().unwrap();
            assert!(changes > last && changes >= 2_000 && (changes - 2_000).is_multiple_of(50), "{changes}");
            last = changes;
            // New changes are visible at once, also in responses that are not copies.
            let objects = server.get("/api/v1/histories/many/objects?kind=pods").json();
            assert!(objects["items"].as_array().unwrap().len() as u64 >= changes);
        }
        drop(stop);
    });
    writer.close().unwrap();
    server.get("/api/v1/histories/other/download").failure(404);
    server.get("/api/v1/histories/many").success();
}

/// Checks a value against a schema: types, required members, and no undocumented members.
#[track_caller]
fn check_schema(document: &Value, schema: &Value, value: &Value, json_path: &str) {
    if let Some(reference) = schema["$ref"].as_str() {
        let schema = document.pointer(reference.trim_start_matches('#')).unwrap();
        return check_schema(document, schema, value, json_path);
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds = &schema["type"];
    assert!(
        kinds == kind || kinds.as_array().is_some_and(|kinds| kinds.contains(&json!(kind))),
        "{json_path}: {value} is not {kinds}"
    );
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        check_schema(document, &schema["items"], item, &format!("{json_path}[{index}]"));
    }
    if let (Some(members), Some(described)) = (value.as_object(), schema["properties"].as_object()) {
        for name in schema["required"].as_array().unwrap() {
            assert!(members.contains_key(name.as_str().unwrap()), "{json_path} has no {name}");
        }
        for (name, member) in members {
            let schema =
                described.get(name).unwrap_or_else(|| panic!("{json_path}.{name} is not documented"));
            check_schema(document, schema, member, &format!("{json_path}.{name}"));
        }
    }
}
