//! Tests of environments in which recording fails: the error says why, and no files are left.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::time::Instant;

use crate::common::{ProgramOutput, command, run};
use crate::recorded_history::has_listed;
use crate::recorder::Recorder;
use crate::server::{TestKind, shared};
use crate::shutdown::STOP_TIMEOUT;

/// Runs `record` in a folder, where it must fail with these messages and change nothing.
async fn check(folder: &Path, arguments: &[&str], expected: &[&str]) {
    let before = files(folder);
    let output = Recorder::run(command(folder).arg("record").args(arguments)).end().await;
    check_refusal(output, expected);
    assert_eq!(files(folder), before, "{arguments:?} left something behind");
}

#[track_caller]
fn check_refusal(output: ProgramOutput, expected: &[&str]) {
    assert_eq!(output.out, "");
    let message = output.failure(1);
    assert!(message.starts_with("error: "), "{message}");
    for part in expected {
        assert_eq!(message.matches(part).count(), 1, "{message:?} should say {part:?} once");
    }
}

/// All files with their contents, except the redaction key, which belongs to no recording.
fn files(folder: &Path) -> BTreeSet<(String, Vec<u8>)> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name != ".local" {
            let bytes = if path.is_dir() { Vec::new() } else { std::fs::read(&path).unwrap() };
            found.insert((name, bytes));
        }
    }
    found
}

fn kubeconfig(server: &str, token: &str) -> String {
    format!(
        "current-context: here\n\
         contexts: [{{name: here, context: {{cluster: here, user: me}}}}, {{name: other, context: {{cluster: here, user: me}}}}]\n\
         clusters: [{{name: here, cluster: {{server: \"{server}\", insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: me, user: {{token: {token}}}}}]\n"
    )
}

/// A server that sends the same response to every request, or none.
fn fake_server(response: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let mut clients = Vec::new();
        for client in listener.incoming() {
            let mut client = client.unwrap();
            let _ = client.read(&mut [0; 4096]);
            if response.is_empty() {
                clients.push(client);
            } else {
                let _ = client.write_all(response.as_bytes());
            }
        }
    });
    format!("http://{address}")
}

#[tokio::test]
async fn the_kubeconfig_must_exist_and_be_valid() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    check(folder, &[], &["cannot read the kubeconfig of this user"]).await;
    check(
        folder,
        &["--kubeconfig", "no/such"],
        &["cannot read the kubeconfig no/such: ", "No such file or directory"],
    )
    .await;
    std::fs::write(folder.join("broken"), "{a: [}").unwrap();
    check(folder, &["--kubeconfig", "broken"], &["cannot read the kubeconfig broken: "]).await;
    std::fs::write(folder.join("config"), kubeconfig("https://127.0.0.1:1", "t")).unwrap();
    let expected = ["context nowhere not found in the kubeconfig config; available: here, other"];
    check(folder, &["--kubeconfig", "config", "--context", "nowhere"], &expected).await;
    std::fs::write(
        folder.join("config"),
        kubeconfig("https://127.0.0.1:1", "t").replace("current-context: here", ""),
    )
    .unwrap();
    check(folder, &["--kubeconfig", "config"], &["failed to determine current context"]).await;
}

#[tokio::test]
async fn the_server_must_be_a_reachable_api_server() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let with = |server: &str| std::fs::write(folder.join("config"), kubeconfig(server, "t")).unwrap();
    let record = ["--kubeconfig", "config", "--into", "h.kine"];
    // A port on which nothing listens.
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    with(&format!("https://{free}"));
    check(folder, &record, &["cannot get the server's version: ", "Connection refused"]).await;
    let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 23\r\nConnection: close\r\n\r\n<html>\nLog in!\n</html>\n";
    with(&fake_server(page));
    check(folder, &record, &["cannot get the server's version: "]).await;
    let page = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/html\r\nContent-Length: 23\r\nConnection: close\r\n\r\n<html>\nLog in!\n</html>\n";
    with(&fake_server(page));
    check(folder, &record, &["cannot get the server's version: the server responded 403: <html>"]).await;
    // The same with `--format sched-record`.
    let other = ["--kubeconfig", "config", "--format", "sched-record", "--path", "record.jsonl"];
    check(folder, &other, &["the server responded 403"]).await;

    // With a server that never responds the recorder can still be stopped.
    for signal in ["-INT", "-TERM"] {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        silent.set_nonblocking(true).unwrap();
        with(&format!("http://{}", silent.local_addr().unwrap()));
        let mut recorder = Recorder::run(command(folder).arg("record").args(record));
        let mut connection = None;
        recorder
            .wait("the recorder sends a request", || {
                connection = silent.accept().ok();
                connection.is_some()
            })
            .await;
        let signaled_at = Instant::now();
        recorder.signal(signal);
        let output = recorder.end().await;
        assert!(signaled_at.elapsed() < STOP_TIMEOUT, "{:?}", signaled_at.elapsed());
        assert!(output.err.contains("0 changes recorded from here to h.kine"), "{}", output.err);
        output.success();
        assert!(!folder.join("h.kine").exists());
        drop(connection);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn options_must_be_valid() {
    let Some(cluster) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::copy(cluster.kubeconfig(), folder.join("config")).unwrap();
    std::fs::write(folder.join("stranger"), kubeconfig(cluster.url(), "no-such-token")).unwrap();
    let record = |more: &[&'static str]| [&["--kubeconfig", "config", "--into", "h.kine"], more].concat();

    let expected = ["cannot get the server's version: the server responded 401: Unauthorized"];
    check(folder, &["--kubeconfig", "stranger"], &expected).await;
    check(
        folder,
        &record(&["--kinds", "podz"]),
        &["podz: the server doesn't have this resource type; similar: pods"],
    )
    .await;
    check(
        folder,
        &record(&["--also", "flying-pigs"]),
        &["flying-pigs: the server doesn't have this resource type"],
    )
    .await;
    check(
        folder,
        &record(&["--skip", "flying-pigs"]),
        &["flying-pigs: the server doesn't have this resource type"],
    )
    .await;
    check(folder, &record(&["--kinds", "secrets"]), &["secrets: Secrets are never recorded"]).await;
    check(
        folder,
        &record(&["--kinds", "tokenreviews"]),
        &["tokenreviews: the server does not support list and watch for it"],
    )
    .await;
    check(folder, &record(&["-l", "app in web"]), &["app in web"]).await;
    check(folder, &record(&["--everything"]), &["--no-redact"]).await;
    check(folder, &record(&["--scheduler-config", "no/such"]), &["cannot read no/such: "]).await;
    check(folder, &record(&["--scheduler-config", "config"]), &["config is not a scheduler configuration"])
        .await;
    let simulator =
        ["--kubeconfig", "config", "--format", "sched-record", "--path", "record.jsonl", "--kinds", "podz"];
    check(folder, &simulator, &["podz: the server doesn't have this resource type; similar: pods"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_destination_must_be_writable() {
    let Some(cluster) = shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::copy(cluster.kubeconfig(), folder.join("config")).unwrap();
    std::fs::write(folder.join("letter.kine"), "Dear diary").unwrap();
    let into = |path: &'static str| ["--kubeconfig", "config", "--into", path];
    check(folder, &into("letter.kine"), &["letter.kine is not a Kinescope history"]).await;
    check(folder, &into("no/such/h.kine"), &["no/such/h.kine: ", "there is no folder no/such;"]).await;
    check(folder, &into("letter.kine/h.kine"), &["letter.kine/h.kine: ", "there is no folder letter.kine;"])
        .await;
    check(folder, &into("."), &[". is a folder"]).await;
    let simulator = ["--kubeconfig", "config", "--format", "sched-record", "--path", "no/such/record.jsonl"];
    check(folder, &simulator, &["no/such/record.jsonl", "No such file or directory"]).await;

    // A history that another process is writing.
    let kinds = [TestKind::Namespaces.kind()];
    let record = ["--into", "h.kine", "--kinds", "ns"];
    let mut first = Recorder::start(folder, cluster.kubeconfig(), &record);
    first.wait("everything is listed", || has_listed(&folder.join("h.kine"), &kinds)).await;
    let second = Recorder::start(folder, cluster.kubeconfig(), &record).end().await;
    check_refusal(second, &["h.kine", &format!("(process {})", first.id())]);
    first.stop().await.success();
    run(folder, &["doctor", "h.kine"]).success();
    // After that process has ended; and a history whose first recorder was killed before it wrote anything.
    std::fs::write(folder.join("blank.kine"), "").unwrap();
    for name in ["h.kine", "blank.kine"] {
        let record = ["--into", name, "--kinds", "ns", "--duration", "1"];
        Recorder::start(folder, cluster.kubeconfig(), &record).end().await.success();
        assert!(has_listed(&folder.join(name), &kinds), "{name}");
    }
}
