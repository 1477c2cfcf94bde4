//! Tests of `kinescope cluster`: kubectl reads a moment of a history like a cluster, and works on a virtual one as on a
//! real one.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where something is not as it should be, and prints its seed"
)]

#[path = "cluster/arguments.rs"]
mod arguments;
mod common;
#[path = "cluster/components.rs"]
mod components;
#[path = "cluster/connections.rs"]
mod connections;
#[path = "cluster/go_client.rs"]
mod go_client;
#[path = "cluster/judge.rs"]
mod judge;
#[path = "cluster/kube_client.rs"]
mod kube_client;
#[path = "cluster/loading.rs"]
mod loading;
#[path = "cluster/openapi.rs"]
mod openapi;
#[path = "cluster/playing.rs"]
mod playing;
#[path = "cluster/real_components.rs"]
mod real_components;
#[path = "cluster/same_placements.rs"]
mod same_placements;
#[path = "serve/server.rs"]
#[allow(dead_code, reason = "these tests use parts of it")]
mod server;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;

use model::Moment;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde_json::{Value, json};
use testcluster::Program;
use testobjects::case_count;

use common::{command, demo_history, program_output, recordings, run};
use server::Server;

/// Served moments of a history, and the kubectl that reads them.
struct PastCluster<'a> {
    _server: Server,
    folder: &'a Path,
    history: &'a str,
    kubectl: PathBuf,
}

/// One of the moments.
struct PastMoment<'a> {
    cluster: &'a PastCluster<'a>,
    at: &'a str,
    /// The context of the kubeconfig.
    context: String,
}

// === impl PastCluster ===

impl<'a> PastCluster<'a> {
    /// `None` without Go, of which kubectl is built.
    fn start(folder: &'a Path, history: &'a str, moments: &[&str]) -> Option<PastCluster<'a>> {
        let Some(programs) = testcluster::build(&[Program::Kubectl]).unwrap() else {
            // Written directly: the test runner captures the output of print macros.
            std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no go\n").unwrap();
            return None;
        };
        let mut command = command(folder);
        command.args(["cluster", history, "--read-only", "--kubeconfig-out", "past.yaml"]);
        command.args(moments.iter().flat_map(|at| ["--at", at]));
        let mut server = Server::of(&mut command);
        for _ in 1..moments.len() {
            assert!(server.next_line().contains(" on https://127.0.0.1:"));
        }
        let line = server.next_line();
        assert_eq!(line, "try: kubectl --kubeconfig past.yaml get pods -A -o wide\n");
        Some(PastCluster { _server: server, folder, history, kubectl: Program::Kubectl.in_folder(&programs) })
    }

    /// The moments in the order in which they were given.
    fn moments(&'a self, moments: &'a [&'a str]) -> impl Iterator<Item = PastMoment<'a>> {
        let kubeconfig = std::fs::read(self.folder.join("past.yaml")).unwrap();
        let kubeconfig: Value = serde_json::from_slice(&kubeconfig).unwrap();
        moments.iter().enumerate().map(move |(index, at)| {
            let context = kubeconfig["contexts"][index]["name"].as_str().unwrap().to_owned();
            PastMoment { cluster: self, at, context }
        })
    }
}

// === impl PastMoment ===

impl PastMoment<'_> {
    fn kubectl(&self, arguments: &[&str]) -> String {
        let mut kubectl = Command::new(&self.cluster.kubectl);
        kubectl.current_dir(self.cluster.folder).env("KUBERC", "off").env("TZ", "UTC");
        kubectl.args(["--kubeconfig", "past.yaml", "--cache-dir", "cache", "--context", &self.context]);
        let output = program_output(kubectl.args(arguments).output().unwrap());
        assert_eq!(output.code, 0, "{arguments:?}: {}", output.err);
        output.out
    }

    /// kubectl must print what `kinescope get` prints.
    #[track_caller]
    fn check(&self, arguments: &[&str]) {
        let PastCluster { folder, history, .. } = self.cluster;
        let expected =
            run(folder, &[&["get"], arguments, &["--at", self.at, "--history", history]].concat()).success();
        assert_eq!(
            self.kubectl(&[&["get"], arguments].concat()),
            expected,
            "{history} at {}: {arguments:?}",
            self.at
        );
    }

    /// All resources that can be listed.
    #[track_caller]
    fn resources(&self) -> Vec<String> {
        let resources = self.kubectl(&["api-resources", "-o", "name", "--verbs", "list"]);
        assert!(resources.lines().count() > 3, "{resources}");
        resources.lines().map(str::to_owned).collect()
    }

    /// Compares the tables of all resources, one by one.
    #[track_caller]
    fn check_each(&self) {
        for resource in self.resources() {
            self.check(&[&resource, "-A"]);
            self.check(&[&resource, "-A", "-o", "wide"]);
        }
    }

    /// Compares the tables of all resources, one below the other.
    #[track_caller]
    fn check_all(&self) {
        let resources = self.resources().join(",");
        self.check(&[&resources, "-A"]);
        self.check(&[&resources, "-A", "-o", "wide"]);
    }
}

#[test]
fn kubectl_shows_the_demo_as_get_does() {
    let folder = demo_history("shop.kine");
    let folder = folder.path();
    let moments = ["14:20", "13:00"];
    let Some(past) = PastCluster::start(folder, "shop.kine", &moments) else { return };
    let [past, earlier] = past.moments(&moments).collect::<Vec<_>>().try_into().ok().unwrap();
    past.check_each();
    earlier.check_all();
    for arguments in [
        &["pods", "-n", "web", "-l", "app=storefront", "--show-labels"][..],
        &["pods", "-n", "web", "--field-selector", "status.phase=Pending"],
        &["pods,services,deploy", "-A"],
        // Once kubectl has printed a namespaced kind, it prints a namespace column for all others too.
        &["pods,nodes", "-A"],
        &["nodes,pods,storageclasses", "-A"],
        &["jobs,nodes", "-A", "--field-selector", "metadata.name=nothere"],
        &["pods,nodes", "-n", "web"],
        &["all", "-n", "web"],
        &["nodes", "-o", "name"],
        &["pods,events", "-n", "web", "-o", "name"],
        &["pods,events.events.k8s.io", "-n", "web", "-o", "name"],
        &["pods,events", "-n", "web"],
        &["pods", "-A", "-L", "app"],
    ] {
        past.check(arguments);
    }
    // Pages, and a table that the server does not sort.
    let all = past.kubectl(&["get", "pods", "-A"]);
    assert_eq!(past.kubectl(&["get", "pods", "-A", "--chunk-size", "7"]), all);
    let nodes: Value = serde_json::from_str(&past.kubectl(&["get", "nodes", "-o", "json"])).unwrap();
    let expected = run(folder, &["get", "nodes", "-o", "json", "--at", "14:20"]).success();
    let expected: Value = serde_json::from_str(&expected).unwrap();
    assert_eq!(nodes["items"], expected["items"]);
    let pod = "storefront-5877c4b6d8-24nb6";
    let described = past.kubectl(&["describe", "pod", pod, "-n", "web"]);
    assert!(described.contains("FailedScheduling") && described.contains("Pending"), "{described}");
    let (version, context) = (past.kubectl(&["version"]), past.kubectl(&["config", "current-context"]));
    assert!(version.contains("Server Version: v1.36"), "{version}");
    assert_eq!(context, "shop@2026-11-02T14:20:00Z\n");
}

#[test]
fn kubectl_shows_recordings_as_get_does() {
    let seed: u64 = std::env::var("KINESCOPE_SEED").map_or(1, |seed| seed.parse().unwrap());
    println!("KINESCOPE_SEED={seed}");
    let mut rng = Pcg64::seed_from_u64(seed);
    for recording in recordings() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        run(folder, &["import", recording.to_str().unwrap(), "--into", "film.kine"]).success();
        let length = length_in_millis(folder, "film.kine");
        let moments: Vec<String> = (0..case_count(3, 20))
            .map(|_| format!("start+{}ms", rng.random_range(500.min(length)..=length)))
            .collect();
        let moments: Vec<&str> = moments.iter().map(String::as_str).collect();
        let Some(past) = PastCluster::start(folder, "film.kine", &moments) else { return };
        for moment in past.moments(&moments) {
            moment.check_all();
        }
    }
}

fn length_in_millis(folder: &Path, history: &str) -> i64 {
    let info: Value = serde_json::from_str(&run(folder, &["info", history, "-o", "json"]).success()).unwrap();
    let time = |name: &str| -> Moment { info["sources"][0][name].as_str().unwrap().parse().unwrap() };
    time("to").nanos_since(time("from")) / 1_000_000
}

/// A server without TLS and token, for requests that kubectl does not make.
fn insecure(folder: &Path) -> Server {
    Server::of(command(folder).args(["cluster", "shop.kine", "--at", "14:20", "--read-only", "--insecure"]))
}

#[test]
fn writes_and_unknown_paths_are_refused_as_by_an_api_server() {
    let folder = demo_history("shop.kine");
    let server = insecure(folder.path());
    let check = |method: &str, path: &str, code: u16, reason: &str, message: &str| {
        let response = server.request(method, path, &["Content-Type: application/json"], b"{}");
        let status: Value = serde_json::from_slice(&response.body).unwrap();
        assert_eq!(
            (response.code, &status["reason"], &status["code"]),
            (code, &json!(reason), &json!(code)),
            "{path}"
        );
        let text = status["message"].as_str().unwrap();
        assert!(text.contains(message), "{path}: {text}");
    };
    let past = "as it was at 2026-11-02T14:20:00Z";
    let unchanged = format!("this is the cluster {past}: it can be read, but not changed");
    check("POST", "/api/v1/namespaces/web/pods", 405, "MethodNotAllowed", &unchanged);
    check("DELETE", "/api/v1/namespaces/web/pods/x", 405, "MethodNotAllowed", past);
    check("GET", "/api/v1/namespaces/web/pods/x", 404, "NotFound", "pods \"x\" not found");
    check(
        "GET",
        "/apis/apps/v1/namespaces/web/deployments/x",
        404,
        "NotFound",
        "deployments.apps \"x\" not found",
    );
    check("GET", "/api/v1/secrets", 404, "NotFound", "could not find");
    check("GET", "/api/v1/pods/x", 404, "NotFound", "could not find");
    check("GET", "/api/v1/pods?labelSelector=a==b==c", 400, "BadRequest", "");
    check("GET", "/api/v1/pods?fieldSelector=spec.image=x", 400, "BadRequest", "not supported");
    check("GET", "/api/v1/pods?continue=x", 400, "BadRequest", "continue key is not valid");
    check(
        "GET",
        "/api/v1/pods?resourceVersion=18446744073709551615",
        504,
        "Timeout",
        "Too large resource version",
    );
    let log = "/api/v1/namespaces/web/pods/storefront-5877c4b6d8-24nb6/log";
    check("GET", log, 501, "NotImplemented", &format!("logs were not recorded: this is the cluster {past}"));
    let proxy = log.replace("/log", "/proxy");
    check("GET", &proxy, 501, "NotImplemented", "proxy needs a running container: this is the cluster");
    let review = json!({"spec": {"resourceAttributes": {"verb": "delete", "resource": "pods"}}});
    let answer = server.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &review);
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!(answer["status"]["allowed"], false);
}

#[test]
fn pages_metadata_and_plain_discovery_are_served() {
    let folder = demo_history("shop.kine");
    let server = insecure(folder.path());
    let get = |path: &str, accept: &str| -> Value {
        let response = server.request("GET", path, &[&format!("Accept: {accept}")], b"");
        assert_eq!(response.code, 200, "{path}");
        serde_json::from_slice(&response.body).unwrap()
    };
    let page = get("/api/v1/nodes?limit=7", "application/json");
    assert_eq!(
        (page["items"].as_array().unwrap().len(), &page["metadata"]["remainingItemCount"]),
        (7, &json!(92))
    );
    let partial = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let nodes = get("/api/v1/nodes", partial);
    assert_eq!(
        (nodes["items"].as_array().unwrap().len(), &nodes["kind"]),
        (99, &json!("PartialObjectMetadataList"))
    );
    assert!(nodes["items"][0]["metadata"]["name"].is_string() && nodes["items"][0].get("spec").is_none());
    let groups = get("/apis", "application/json");
    let apps = groups["groups"].as_array().unwrap().iter().find(|group| group["name"] == "apps").unwrap();
    assert_eq!(apps["preferredVersion"]["groupVersion"], "apps/v1");
    let resources = get("/apis/apps/v1", "application/json");
    let names: Vec<&Value> =
        resources["resources"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert!(names.contains(&&json!("deployments")), "{names:?}");
}

#[test]
fn a_watch_begins_with_the_objects_and_stays_open() {
    let folder = demo_history("shop.kine");
    let server = insecure(folder.path());
    let query = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=600";
    let stream = server.send("GET", &format!("/api/v1/nodes?{query}"), &[], b"");
    let lines = BufReader::new(stream).lines().map(Result::unwrap).filter(|line| line.starts_with('{'));
    let mut added = 0;
    for line in lines {
        let event: Value = serde_json::from_str(&line).unwrap();
        if event["type"] == "BOOKMARK" {
            assert_eq!(event["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
            break;
        }
        assert_eq!((&event["type"], &event["object"]["kind"]), (&json!("ADDED"), &json!("Node")));
        added += 1;
    }
    assert_eq!(added, 99);
}

#[test]
fn only_clients_with_the_token_are_served() {
    let folder = demo_history("shop.kine");
    let folder = folder.path();
    let failed = run(folder, &["cluster", "shop.kine", "--read-only", "--insecure", "--listen", "0.0.0.0:0"])
        .failure(2);
    assert!(failed.contains("0.0.0.0:0 is not a loopback address"), "{failed}");
    std::fs::write(folder.join("mine.yaml"), "mine").unwrap();
    let failed =
        run(folder, &["cluster", "shop.kine", "--read-only", "--kubeconfig-out", "mine.yaml"]).failure(1);
    assert!(failed.contains("mine.yaml exists"), "{failed}");
    assert_eq!(std::fs::read_to_string(folder.join("mine.yaml")).unwrap(), "mine");
    let server = Server::of(command(folder).args([
        "cluster",
        "shop.kine",
        "--read-only",
        "--at",
        "14:20",
        "--at",
        "13:00",
    ]));
    let kubeconfig = folder.join("shop.kubeconfig");
    let text = std::fs::read_to_string(&kubeconfig).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    let contexts: Vec<&str> = config["contexts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|context| context["name"].as_str().unwrap())
        .collect();
    assert_eq!(contexts, ["shop@2026-11-02T14:20:00Z", "shop@2026-11-02T13:00:00Z"]);
    #[cfg(unix)]
    {
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&kubeconfig).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
    if let Some(programs) = testcluster::build(&[Program::Kubectl]).unwrap() {
        let wrong = folder.join("wrong.yaml");
        let token = config["users"][0]["user"]["token"].as_str().unwrap();
        std::fs::write(&wrong, text.replace(token, "wrong")).unwrap();
        let mut kubectl = Command::new(Program::Kubectl.in_folder(&programs));
        let output = kubectl
            .env("KUBERC", "off")
            .arg("--kubeconfig")
            .arg(&wrong)
            .args(["get", "pods"])
            .output()
            .unwrap();
        let output = program_output(output);
        assert!(output.code != 0 && output.err.contains("must be logged in"), "{}", output.err);
    }
    server.signal("-INT");
    let mut server = server;
    assert!(server.child.wait().unwrap().success());
    assert!(!kubeconfig.exists());
}
