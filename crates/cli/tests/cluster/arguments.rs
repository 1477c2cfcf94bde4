//! Arguments of `kinescope cluster` and its control: what is refused, and how.

use std::path::Path;

use serde_json::{Value, json};

use crate::common::{command, demo_history, run};
use crate::server::Server;

#[track_caller]
fn check_refused(folder: &Path, arguments: &[&str], expected: &str) {
    let refused = run(folder, &[&["cluster"], arguments].concat()).failure(2);
    assert!(refused.contains(expected), "{arguments:?}: {refused}");
}

#[test]
fn invalid_arguments_are_refused() {
    let folder = demo_history("shop.kine");
    let folder = folder.path();
    for (arguments, expected) in [
        (&["shop.kine", "--read-only", "--at", "25:99"][..], "--at: invalid time \"25:99\""),
        (&["shop.kine", "--at", "25:99"], "--at: invalid time \"25:99\""),
        (&["shop.kine", "--at", "14:20", "--at", "13:00"], "--at is given several times"),
        (&["--nodes", "3", "--speed", "10"], "error: --speed is for a moment of a history"),
        (
            &["shop.kine", "--nodes", "1", "--shift-times"],
            "error: --shift-times is for a moment of a history",
        ),
        (
            &["--controllers", "kubelet", "--scheduling-annotations"],
            "error: --scheduling-annotations is for the component scheduler, which does not run",
        ),
        (
            &["--controllers", "none", "--scheduler-config", "s.yaml"],
            "error: --scheduler-config is for the component scheduler, which does not run",
        ),
        (&["--node-template", "node.yaml"], "error: --node-template is for new nodes, and none are created"),
        (
            &["--nodes", "1", "--autoscaler-flags", "--expander=random"],
            "error: --autoscaler-flags are for the autoscaler, which needs node groups",
        ),
        (
            &["shop.kine", "--at", "2020-01-01", "--read-only"],
            "2020-01-01T00:00:00Z is before the history, which is from 2026-11-02T",
        ),
        (&["shop.kine", "--at", "2020-01-01"], "is before the history, which is from 2026-11-02T"),
        (&["--insecure", "--listen", "0.0.0.0:0"], "is not a loopback address"),
        (&["--nodes", "100001"], "a cluster has at most 100,000 nodes"),
        (&["--nodes", "99999999999999999999999"], "is not a number of nodes"),
        (&["--controllers", "none,scheduler"], "none cannot be combined with components"),
        (&["shop.kine", "--read-only", "--clock", "virtual"], "cannot be used with"),
        (
            &["dmup"],
            "error: dmup is neither a history nor a command: did you mean `kinescope cluster dump`?\n",
        ),
        (&["dmup", "--kubeconfig", "x"], "did you mean `kinescope cluster dump`?\n"),
        (&["advnace", "7d"], "did you mean `kinescope cluster advance`?\n"),
        (
            &["shop.kine", "dump"],
            "error: dump after shop.kine: a cluster begins with at most one history, and the commands reset, dump, \
             advance have none\n",
        ),
        (&["advance"], "--until-idle"),
        (&["advance", "1h", "--until-idle"], "cannot be used with"),
        (&["advance", "99999d"], "at most 10 years"),
        (&["advance", "soon"], "invalid duration \"soon\""),
    ] {
        check_refused(folder, arguments, expected);
    }
}

#[test]
fn a_source_alone_means_the_history_of_the_folder() {
    let folder = demo_history("shop.kine");
    for history in [&[][..], &["shop.kine"], &["--history", "shop.kine"]] {
        let arguments = [&["cluster"], history, &["--source", "nothere"]].concat();
        let refused = run(folder.path(), &arguments).failure(1);
        assert!(refused.contains("source \"nothere\" not found; the history has: "), "{refused}");
    }
}

/// The names of the contexts, and what was printed on standard error.
fn contexts(folder: &Path, moments: &[&str]) -> (Vec<String>, String) {
    let errors = folder.join("errors.txt");
    let mut command = command(folder);
    command.args(["cluster", "shop.kine", "--read-only"]).args(moments.iter().flat_map(|at| ["--at", at]));
    let mut server = Server::of(command.stderr(std::fs::File::create(&errors).unwrap()));
    // The last line is printed when the kubeconfig is complete.
    while !server.next_line().starts_with("try: ") {
        assert!(server.child.try_wait().unwrap().is_none());
    }
    let kubeconfig = std::fs::read(folder.join("shop.kubeconfig")).unwrap();
    let kubeconfig: Value = serde_json::from_slice(&kubeconfig).unwrap();
    let contexts = kubeconfig["contexts"].as_array().unwrap();
    let names = contexts.iter().map(|context| context["name"].as_str().unwrap().to_owned()).collect();
    server.signal("-INT");
    server.child.wait().unwrap();
    (names, std::fs::read_to_string(errors).unwrap())
}

#[test]
fn each_moment_is_served_once() {
    let folder = demo_history("shop.kine");
    let (names, errors) =
        contexts(folder.path(), &["14:20", "14:20", "13:00", "2026-11-02T14:20:00Z", "2026-11-02 14:20"]);
    assert_eq!(names, ["shop@2026-11-02T14:20:00Z", "shop@2026-11-02T13:00:00Z"]);
    assert_eq!(errors, "");
    let (ends, _) = contexts(folder.path(), &["end"]);
    let (names, errors) = contexts(folder.path(), &["2030-01-01", "end"]);
    assert_eq!(names, ends);
    let end = ends[0].trim_start_matches("shop@");
    let expected =
        format!("--at 2030-01-01: the history ends before 2030-01-01T00:00:00Z; its end is served: {end}\n");
    assert_eq!(errors, expected);
}

#[test]
fn a_kubeconfig_of_another_cluster_is_not_controlled() {
    let folder = demo_history("shop.kine");
    let folder = folder.path();
    let mut arguments = vec!["cluster", "shop.kine", "--at", "14:20", "--read-only"];
    arguments.extend(["--kubeconfig-out", "past.yaml"]);
    let mut server = Server::of(command(folder).args(&arguments));
    server.next_line();
    for control in [&["dump"][..], &["reset"], &["advance", "1h"]] {
        let refused =
            run(folder, &[&["cluster"], control, &["--kubeconfig", "past.yaml"]].concat()).failure(1);
        assert_eq!(
            refused,
            "error: this is the cluster as it was at 2026-11-02T14:20:00Z, which is read-only; `kinescope export \
             --format manifests --at 2026-11-02T14:20:00Z` prints its objects\n"
        );
    }
    let text = std::fs::read_to_string(folder.join("past.yaml")).unwrap();
    server.signal("-INT");
    server.child.wait().unwrap();
    std::fs::write(folder.join("ended.yaml"), text).unwrap();
    let refused = run(folder, &["cluster", "dump", "--kubeconfig", "ended.yaml"]).failure(1);
    assert_eq!(refused, "error: no server listens at the address in ended.yaml: the cluster has ended\n");
}

/// `kinescope serve` answers 404, as other API servers do.
#[test]
fn a_server_that_is_no_cluster_is_not_controlled() {
    let folder = demo_history("shop.kine");
    let folder = folder.path();
    let server = Server::start(folder, &["shop.kine"]);
    let name = "other";
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": format!("http://{}", server.address)}}],
        "users": [{"name": name, "user": {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    });
    std::fs::write(folder.join("other.yaml"), kubeconfig.to_string()).unwrap();
    let refused = run(folder, &["cluster", "dump", "--kubeconfig", "other.yaml"]).failure(1);
    let expected = "other.yaml is not the kubeconfig of a cluster that `kinescope cluster` runs";
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn a_lease_that_prevents_an_advance_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path());
    let server = Server::of(command.args(["cluster", "--insecure", "--clock", "virtual"]));
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "my-scheduler"},
        "spec": {"holderIdentity": "laptop"},
    });
    let created = server.post("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases", &lease);
    assert_eq!(created.code, 201);
    let refused = server.post("/kinescope/v1/cluster/advance", &json!({"seconds": 1}));
    let status: Value = serde_json::from_slice(&refused.body).unwrap();
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("laptop holds the Lease kube-system/my-scheduler: "), "{message}");
}

#[test]
fn a_signal_ends_a_cluster_whose_clock_is_moving() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path());
    command.args(["cluster", "--insecure", "--clock", "virtual", "--nodes", "1"]);
    let mut server = Server::of(command.args(["--controllers", "scheduler,kubelet,gc,workloads"]));
    let pod = json!({"containers": [{"name": "c", "image": "busybox:1"}], "restartPolicy": "Never"});
    let job = json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}},
    });
    assert_eq!(server.post("/apis/batch/v1/namespaces/default/cronjobs", &job).code, 201);
    let ten_years = json!({"seconds": 3650 * 86_400});
    let head = ["Content-Type: application/json"];
    let _waiting =
        server.send("POST", "/kinescope/v1/cluster/advance", &head, ten_years.to_string().as_bytes());
    let has_pods = || -> bool {
        let pods: Value = serde_json::from_slice(&server.get("/api/v1/pods").success()).unwrap();
        !pods["items"].as_array().unwrap().is_empty()
    };
    while !has_pods() {}
    server.signal("-TERM");
    assert!(server.child.wait().unwrap().success());
}

#[test]
fn a_kubeconfig_that_a_killed_cluster_left_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let kubeconfig = folder.join("kinescope.kubeconfig");
    let mut killed = Server::of(command(folder).args(["cluster"]));
    killed.next_line();
    let refused = run(folder, &["cluster"]).failure(1);
    assert!(refused.contains("kinescope.kubeconfig exists: delete it"), "{refused}");
    killed.child.kill().unwrap();
    killed.child.wait().unwrap();
    let stale = std::fs::read_to_string(&kubeconfig).unwrap();
    // One of another program stays, even if its server does not answer.
    let mut other: Value = serde_json::from_str(&stale).unwrap();
    other.as_object_mut().unwrap().remove("extensions");
    std::fs::write(&kubeconfig, other.to_string()).unwrap();
    let refused = run(folder, &["cluster"]).failure(1);
    assert!(refused.contains("kinescope.kubeconfig exists: delete it"), "{refused}");
    std::fs::write(&kubeconfig, &stale).unwrap();
    let errors = folder.join("errors.txt");
    let address = killed.address.to_string();
    let mut command = command(folder);
    command.args(["cluster", "--listen", &address]).stderr(std::fs::File::create(&errors).unwrap());
    let mut server = Server::of(&mut command);
    server.next_line();
    assert_ne!(std::fs::read_to_string(&kubeconfig).unwrap(), stale);
    server.signal("-INT");
    server.child.wait().unwrap();
    assert_eq!(
        std::fs::read_to_string(errors).unwrap(),
        "kinescope.kubeconfig was left by a cluster that has ended, and is replaced\n"
    );
    assert!(!kubeconfig.exists());
}

#[test]
fn the_clock_can_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path());
    let server = Server::of(command.args(["cluster", "--insecure", "--clock", "virtual"]));
    let read = || -> Value {
        let clock: Value =
            serde_json::from_slice(&server.get("/kinescope/v1/cluster/clock").success()).unwrap();
        clock["now"].clone()
    };
    let before = read();
    assert_eq!(server.post("/kinescope/v1/cluster/advance", &json!({"seconds": 60})).code, 200);
    assert_ne!(read(), before);
}
