//! Explanations over HTTP: the same as the command's, and error responses.

use serde_json::{Value, json};

use crate::common::run;
use crate::folders::{POD, demo_history};
use crate::server::Server;

const EXPLAIN_PATH: &str = "/api/v1/histories/day/explain";

#[test]
fn explanations_are_those_of_the_command() {
    let day = demo_history();
    let server = Server::start(day.path(), &[]);
    let command_output = |arguments: &[&str]| -> Value {
        let command = [&["explain", "-o", "json", "--history", "day.kine"], arguments].concat();
        serde_json::from_str(&run(day.path(), &command).success()).unwrap()
    };
    let check = |mut response: Value, arguments: &[&str]| {
        assert_eq!(response["warnings"].take(), json!([]), "{arguments:?}");
        response.as_object_mut().unwrap().remove("warnings");
        assert_eq!(response, command_output(arguments), "{arguments:?}");
    };
    let waiting = "storefront-5877c4b6d8-24nb6";
    let url = format!("{EXPLAIN_PATH}?pod={waiting}&namespace=web&at=14:20");
    check(server.get(&url).json(), &[&format!("pod/{waiting}"), "-n", "web", "--at", "14:20"]);
    let url = format!("{url}&schedulerVersion=1.33&autoscalerFlags=--max-nodes-total%3D500");
    let settings = ["--scheduler-version", "1.33", "--autoscaler-flags", "--max-nodes-total=500"];
    let pod = format!("pod/{waiting}");
    check(server.get(&url).json(), &[&[&*pod, "-n", "web", "--at", "14:20"], &settings[..]].concat());
    let node = server.get("/api/v1/histories/day/objects?kind=nodes&at=14:20").json();
    let node = node["items"][0]["metadata"]["name"].as_str().unwrap();
    let url = format!("{EXPLAIN_PATH}?node={node}&at=14:20");
    check(server.get(&url).json(), &[&format!("node/{node}"), "--at", "14:20"]);

    std::fs::write(day.path().join("never.yaml"), POD).unwrap();
    let response = server.request("POST", &format!("{EXPLAIN_PATH}?at=14:20"), &[], POD.as_bytes()).json();
    assert_eq!(response["pod"], json!({"namespace": "web", "name": "never"}));
    check(response, &["--manifest", "never.yaml", "--at", "14:20"]);
}

#[test]
fn invalid_requests_get_a_helpful_error() {
    let day = demo_history();
    let server = Server::start(day.path(), &[]);
    let error_of = |query: &str| server.get(&format!("{EXPLAIN_PATH}{query}")).failure(400);
    let both = "specify exactly one of pod=, node= or a manifest";
    for query in ["", "?pod=a&node=b", "?namespace=web"] {
        assert!(error_of(query).contains(both), "{query}");
    }
    assert!(error_of("?pod=a&schedulerVersion=0.9").contains("expected 1.32 to 1.36"));
    assert!(error_of("?pod=a&at=yesterday").contains("yesterday"));
    let manifest = |text: &str| server.request("POST", EXPLAIN_PATH, &[], text.as_bytes()).failure(400);
    assert!(manifest("kind: [").contains("the manifest"));
    assert!(manifest("").contains("the manifest has no pod"));
    let both = server.request("POST", &format!("{EXPLAIN_PATH}?pod=a"), &[], POD.as_bytes()).failure(400);
    assert!(both.contains("exactly one of pod=, node= or a manifest"), "{both}");
    let missing = |query: &str| server.get(&format!("{EXPLAIN_PATH}{query}")).failure(404);
    assert!(missing("?pod=nobody").contains("nobody"));
    assert!(missing("?node=nowhere").contains("nowhere"));
    server.get("/api/v1/histories/nothing/explain?pod=a").failure(404);
}
