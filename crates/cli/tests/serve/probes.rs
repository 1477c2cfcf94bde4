//! Tests of probes while recordings fail and recover, and of the messages about it.

use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use crate::common::command;
use crate::recording::{cluster, recording, until};
use crate::server::Server;

/// A folder with the configuration of one cluster, `a`, whose kubeconfig names a port on which nothing listens.
fn unreachable() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let kubeconfig = json!({
        "current-context": "here",
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
        "clusters": [{"name": "here", "cluster": {"server": format!("http://{free}")}}],
        "users": [{"name": "me", "user": {}}],
    });
    std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
    let config = json!({"clusters": [{"name": "a", "kubeconfig": "kubeconfig", "kinds": ["namespaces"]}]});
    std::fs::write(folder.path().join("clusters.yaml"), config.to_string()).unwrap();
    folder
}

/// Replaces the cluster's kubeconfig.
fn reach(folder: &Path, kubeconfig: &Path) {
    std::fs::copy(kubeconfig, folder.join("next")).unwrap();
    std::fs::rename(folder.join("next"), folder.join("kubeconfig")).unwrap();
}

#[test]
fn probes_report_recordings() {
    let folder = unreachable();
    let server = Server::start(folder.path(), &["--config", "clusters.yaml"]);
    until("the recording is retried", || recording(&server, "a")["state"] == "waiting");
    let body = server.get("/readyz").failure(503);
    assert_eq!(body, "[+]histories ok\n[-]a failed: waiting\nreadyz check failed\n");
    // A restart would not help, so that it is alive.
    assert_eq!(server.get("/healthz").success(), b"[+]a ok\nhealthz check passed\n");

    let Some(cluster) = cluster() else { return };
    reach(folder.path(), cluster.kubeconfig());
    until("the server is ready", || server.get("/readyz").code == 200);
    assert_eq!(server.get("/readyz").success(), b"[+]histories ok\n[+]a ok\nreadyz check passed\n");
    until("the cluster is recorded", || server.get("/api/v1/histories/a").code == 200);

    // Damage the history while it is written.
    for file in ["a.kine", "a.kine-wal"] {
        let mut file = std::fs::File::options().write(true).open(folder.path().join(file)).unwrap();
        let length = file.metadata().unwrap().len();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.write_all(&vec![0xa5; length as usize]).unwrap();
    }
    let damaged = "kinescope_recorder_damaged_histories_total{cluster=\"a\"} 1";
    until("the history is set aside", || server.get("/metrics").text().contains(damaged));
    until("the cluster is recorded again", || {
        server.get("/readyz").code == 200 && server.get("/api/v1/histories/a").code == 200
    });
    let figures = recording(&server, "a");
    assert_eq!(figures["damagedHistories"], 1, "{figures}");
    let gaps = server.get("/api/v1/histories/a/gaps").json().to_string();
    assert!(gaps.contains("the history was damaged and renamed to a.kine.damaged-"), "{gaps}");
}

#[test]
fn recovery_is_reported() {
    let Some(cluster) = cluster() else { return };
    let folder = unreachable();
    let mut child = command(folder.path())
        .args(["record", "--config", "clusters.yaml"])
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (sender, output) = std::sync::mpsc::channel();
    let errors = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || errors.lines().map_while(Result::ok).all(|line| sender.send(line).is_ok()));
    let next = || output.recv_timeout(Duration::from_secs(120)).unwrap();
    let line = next();
    assert!(line.starts_with("warning: a: ") && line.ends_with("; retrying"), "{line}");
    reach(folder.path(), cluster.kubeconfig());
    assert_eq!(next(), "warning: a: recording again");

    // The same for errors of the configuration file.
    std::fs::write(folder.path().join("clusters.yaml"), "clusters: [").unwrap();
    let line = next();
    assert!(line.ends_with("; the previous configuration stays in effect"), "{line}");
    std::fs::write(folder.path().join("clusters.yaml"), "clusters: []").unwrap();
    assert_eq!(next(), "warning: clusters.yaml: valid again");
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    child.wait().unwrap();
}
