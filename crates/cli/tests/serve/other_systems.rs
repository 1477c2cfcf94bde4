//! Tests of the APIs of other systems: the responses are the same as the files of `kinescope export`.

use model::Moment;
use serde_json::{Value, json};

use crate::common::run;
use crate::folders::{EXPORT, demo_history};
use crate::server::Server;

#[test]
fn clients_of_simkube_get_the_trace_that_is_exported() {
    let day = demo_history();
    let server = Server::start(day.path(), &["."]);
    let (from, to) = ("2026-11-02T09:30:00Z", "2026-11-02T14:10:00Z");
    let seconds = |text: &str| text.parse::<Moment>().unwrap().nanos() / 1_000_000_000;
    let request = |filters: Value| {
        json!({
            "start_ts": seconds(from), "end_ts": seconds(to), "export_path": "file:///data/trace",
            "filters": filters, "exclude_daemonsets": true, "transform": "",
        })
    };
    // SimKube's window excludes its end, ours includes it.
    let export = [
        "export",
        "day.kine",
        "--format",
        "sktrace",
        "--from",
        from,
        "--to",
        "2026-11-02T14:09:59.999999999Z",
    ];
    run(day.path(), &[&export[..], &["--out", "all.sktrace"]].concat()).success();
    let response =
        server.post("/export", &request(json!({"excluded_namespaces": [], "excluded_labels": []})));
    assert_eq!(response.header("content-type"), Some("application/octet-stream"));
    let all = response.success();
    assert!(all == std::fs::read(day.path().join("all.sktrace")).unwrap());
    assert!(all.starts_with(b"\x85\xa7version\x02"));
    std::fs::write(day.path().join("response.sktrace"), &all).unwrap();
    run(day.path(), &["import", "response.sktrace", "--into", "back.kin"]).success();

    let filters = json!({
        "excluded_namespaces": ["shop"],
        "excluded_labels": [{"matchExpressions": [{"key": "app", "operator": "In", "values": ["checkout"]}]}],
    });
    let excluded =
        ["--exclude-namespaces", "shop", "--exclude-labels", "app in (checkout)", "--out", "less.sktrace"];
    run(day.path(), &[&export[..], &excluded].concat()).success();
    let less = server.post("/export", &request(filters)).success();
    assert!(less == std::fs::read(day.path().join("less.sktrace")).unwrap());
    assert!(less.len() < all.len());

    let with = |name: &str, value: Value| {
        let mut request = request(json!({"excluded_namespaces": [], "excluded_labels": []}));
        request[name] = value;
        let response = server.post("/export", &request);
        assert_eq!(response.header("content-type"), Some("text/plain; charset=utf-8"));
        response.failure(400)
    };
    for cloud in ["s3", "gs", "az", "azure"] {
        let error = with("export_path", json!(format!("{cloud}://bucket/trace")));
        assert!(error.contains(&format!("export_path {cloud}: is not supported")), "{error}");
    }
    assert!(with("transform", json!("remove(kind == Pod);")).contains("transform is not supported"));
    assert!(with("start_ts", json!(seconds(to))).contains("must be after start_ts"));
    assert!(with("end_ts", json!(i64::MAX)).contains("expected seconds since 1970"));
    assert!(with("end_ts", json!("soon")).contains("invalid export request: invalid type"));
    let operator = json!({"excluded_namespaces": [], "excluded_labels": [{"matchExpressions": [{"key": "a", "operator": "Like"}]}]});
    assert!(with("filters", operator).contains("excluded_labels: invalid selector"));
    assert!(server.post("/export", &json!({})).failure(400).contains("missing field `start_ts`"));
    assert!(
        server
            .post("/export?history=other", &serde_json::from_str(EXPORT).unwrap())
            .failure(404)
            .contains("day")
    );
    let padding = "x".repeat(1 << 20);
    server.post("/export", &json!({ "padding": padding })).failure(413);
}

#[test]
fn clients_of_kai_get_the_snapshot_that_is_exported() {
    let day = demo_history();
    let server = Server::start(day.path(), &["day.kine"]);
    for (query, arguments) in [
        ("", &[][..]),
        ("?at=2026-11-02T14:04:30Z", &["--at", "2026-11-02T14:04:30Z"][..]),
        ("?at=14:05&partition=team%3Dweb&history=day", &["--at", "14:05", "--partition", "team=web"]),
    ] {
        let out = ["export", "day.kine", "--format", "kai-snapshot", "--out", "snapshot.zip"];
        run(day.path(), &[&out[..], arguments].concat()).success();
        let response = server.get(&format!("/get-snapshot{query}"));
        assert_eq!(response.header("content-type"), Some("application/zip"));
        assert_eq!(response.header("content-disposition"), Some("attachment; filename=snapshot.zip"));
        assert!(response.success() == std::fs::read(day.path().join("snapshot.zip")).unwrap(), "{query}");
    }
    // KAI's server ignores the method.
    server.request("POST", "/get-snapshot", &[], b"").success();
    assert!(server.get("/get-snapshot?partition=a%20b").failure(400).contains("invalid partition"));
    assert!(server.get("/get-snapshot?history=night").failure(404).contains("available: day"));
    let both = tempfile::tempdir().unwrap();
    let copies = [both.path().join("a.kine"), both.path().join("b.kine")];
    for copy in &copies {
        std::fs::copy(day.path().join("day.kine"), copy).unwrap();
    }
    let server = Server::start(both.path(), &[]);
    assert!(server.get("/get-snapshot").failure(400).contains("specify one with ?history=: a, b"));
}

#[test]
fn clients_of_gardeners_recorder_get_its_database() {
    let day = demo_history();
    let server = Server::start(day.path(), &["day.kine"]);
    assert_eq!(String::from_utf8(server.get("/api/db").success()).unwrap(), "day.db\n");
    let response = server.get("/api/db/day.db");
    assert_eq!(response.header("content-disposition"), Some("attachment; filename=day_copy.db"));
    std::fs::write(day.path().join("served.db"), response.success()).unwrap();
    run(day.path(), &["export", "day.kine", "--format", "scaling-history", "--out", "exported.db"]).success();
    let rows = |file: &str| -> Vec<String> {
        let database = rusqlite::Connection::open(day.path().join(file)).unwrap();
        let mut rows = Vec::new();
        for table in ["pod_info", "node_info", "event_info", "pc_info", "recorder_state_info"] {
            let mut statement = database.prepare(&format!("SELECT * FROM {table}")).unwrap();
            let columns = statement.column_count();
            let mut found = statement.query([]).unwrap();
            while let Some(row) = found.next().unwrap() {
                let cells = (0..columns).map(|index| format!("{:?}", row.get_ref(index).unwrap()));
                rows.push(format!("{table}: {}", cells.collect::<Vec<_>>().join(", ")));
            }
        }
        rows
    };
    let served = rows("served.db");
    assert!(served.len() > 50, "{}", served.len());
    assert_eq!(served, rows("exported.db"));
    let missing = server.get("/api/db/night.db");
    assert_eq!(missing.header("content-type"), Some("text/plain; charset=utf-8"));
    assert!(missing.failure(400).contains("history \"night\" not found; available: day"));
}
