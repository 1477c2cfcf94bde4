//! Tests of live replays: the objects in the API server at the end, with all kinds of faults and options.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops where something is not as it should be, and prints its results"
)]

mod all_recordings;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod isolation;
mod objects;
mod real_scheduler;
mod rejections;
#[allow(dead_code, reason = "others use the rest")]
#[path = "../record/server.rs"]
mod server;
mod simkube;
#[allow(dead_code, reason = "others use the rest")]
#[path = "../serve/server.rs"]
mod virtual_cluster;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testcluster::Cluster;

use crate::common::{ProgramOutput, command, program_output, recordings, run};

/// The longest wait of a test.
const TIMEOUT: Duration = Duration::from_secs(120);

/// The recording of this name as a history; `None` if there are no recordings.
fn import_recording(folder: &Path, name: &str) -> Option<String> {
    let recording = recordings().into_iter().find(|recording| stem(recording) == name)?;
    Some(import(folder, &recording))
}

fn stem(recording: &Path) -> &str {
    recording.file_name().unwrap().to_str().unwrap().split('.').next().unwrap()
}

fn import(folder: &Path, recording: &Path) -> String {
    let history = format!("{}.kine", stem(recording));
    run(folder, &["import", recording.to_str().unwrap(), "--into", &history]).success();
    history
}

fn replay(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> ProgramOutput {
    program_output(replaying(folder, kubeconfig, arguments).output().unwrap())
}

fn replaying(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = command(folder);
    command.arg("replay").args(arguments).arg("--target").arg(kubeconfig);
    command
}

/// Waits until the condition holds.
#[track_caller]
fn wait(what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < TIMEOUT, "timed out waiting until {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The number of lines that kubectl prints.
fn line_count(cluster: &Cluster, arguments: &[&str]) -> usize {
    cluster.kubectl(&[arguments, &["--no-headers"]].concat()).unwrap().lines().count()
}

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}
