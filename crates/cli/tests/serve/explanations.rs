//! Explanations over HTTP: the same as the command's, and error responses.

use serde_json::{Value, json};

use crate::common::run;
use crate::folders::{POD, demo_history};
use crate::server::Server;

const PLACE: &str = "/api/v1/histories/day/explain";

#[test]
fn explanations_are_those_of_the_command() {
    let day = demo_history();
    let server = Server::start(day.path(), &[]);
    let told = |arguments: &[&str]| -> Value {
        let command = [&["explain", "-o", "json", "--history", "day.kine"], arguments].concat();
        serde_json::from_str(&run(day.path(), &command).success()).unwrap()
    };
    let check = |mut answer: Value, arguments: &[&str]| {
        assert_eq!(answer["warnings"].take(), json!([]), "{arguments:?}");
        answer.as_object_mut().unwrap().remove("warnings");
        assert_eq!(answer, told(arguments), "{arguments:?}");
    };
    let waiting = "storefront-5877c4b6d8-24nb6";
    let asked = format!("{PLACE}?pod={waiting}&namespace=web&at=14:20");
    check(server.get(&asked).json(), &[&format!("pod/{waiting}"), "-n", "web", "--at", "14:20"]);
    let asked = format!("{asked}&schedulerVersion=1.33&autoscalerFlags=--max-nodes-total%3D500");
    let settings = ["--scheduler-version", "1.33", "--autoscaler-flags", "--max-nodes-total=500"];
    let pod = format!("pod/{waiting}");
    check(server.get(&asked).json(), &[&[&*pod, "-n", "web", "--at", "14:20"], &settings[..]].concat());
    let node = server.get("/api/v1/histories/day/objects?kind=nodes&at=14:20").json();
    let node = node["items"][0]["metadata"]["name"].as_str().unwrap();
    let asked = format!("{PLACE}?node={node}&at=14:20");
    check(server.get(&asked).json(), &[&format!("node/{node}"), "--at", "14:20"]);

    std::fs::write(day.path().join("never.yaml"), POD).unwrap();
    let answer = server.ask("POST", &format!("{PLACE}?at=14:20"), &[], POD.as_bytes()).json();
    assert_eq!(answer["pod"], json!({"namespace": "web", "name": "never"}));
    check(answer, &["--manifest", "never.yaml", "--at", "14:20"]);
}

#[test]
fn invalid_requests_get_a_helpful_error() {
    let day = demo_history();
    let server = Server::start(day.path(), &[]);
    let wrong = |explain_at: &str| server.get(&format!("{PLACE}{explain_at}")).failure(400);
    let both = "specify exactly one of pod=, node= or a manifest";
    for explain_at in ["", "?pod=a&node=b", "?namespace=web"] {
        assert!(wrong(explain_at).contains(both), "{explain_at}");
    }
    assert!(wrong("?pod=nobody").contains("nobody"));
    assert!(wrong("?node=nowhere").contains("nowhere"));
    assert!(wrong("?pod=a&schedulerVersion=0.9").contains("expected 1.32 to 1.36"));
    assert!(wrong("?pod=a&at=yesterday").contains("yesterday"));
    let manifest = |text: &str| server.ask("POST", PLACE, &[], text.as_bytes()).failure(400);
    assert!(manifest("kind: [").contains("the manifest"));
    assert!(manifest("").contains("the manifest has no pod"));
    let both = server.ask("POST", &format!("{PLACE}?pod=a"), &[], POD.as_bytes()).failure(400);
    assert!(both.contains("exactly one of pod=, node= or a manifest"), "{both}");
    server.get("/api/v1/histories/nothing/explain?pod=a").failure(404);
}
