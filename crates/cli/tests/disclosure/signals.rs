//! A test that the second signal ends the program at once.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::command;
use crate::kubeconfig;

/// The capacity of a pipe on Linux; then writes block.
const PIPE_CAPACITY: usize = 64 << 10;
/// The longest wait of a test.
const TIMEOUT: Duration = Duration::from_secs(60);

fn signal(child: &Child, name: &str) {
    assert!(Command::new("kill").args([name, &child.id().to_string()]).status().unwrap().success());
}

#[test]
fn the_second_signal_ends_a_recorder_that_cannot_stop() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    // A server that never responds, and a standard error to which nothing can be written any more.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    std::fs::write(folder.join("config"), kubeconfig(&format!("http://{}", silent.local_addr().unwrap())))
        .unwrap();
    let (_unread, mut full) = std::io::pipe().unwrap();
    full.write_all(&[b'.'; PIPE_CAPACITY]).unwrap();
    let mut child = command(folder)
        .args(["record", "--kubeconfig", "config", "--into", "h.kine"])
        .stderr(full)
        .spawn()
        .unwrap();
    let _connection = silent.accept().unwrap();
    // Two pending signals of the same kind might be merged.
    signal(&child, "-INT");
    signal(&child, "-TERM");
    let end = Instant::now() + TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("the recorder does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(130));
}
