//! Histories played into a real API server: what is there at the end, whoever decided, whatever went wrong.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test stops where something is not as it should be, and prints what came of it"
)]

#[path = "../common/mod.rs"]
mod common;
mod deciding;
mod faults;
mod films;
mod objects;
mod outside;
#[allow(dead_code, reason = "others use the rest")]
#[path = "../record/server.rs"]
mod server;
mod simkube;
mod words;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use testcluster::Cluster;

use crate::common::{Said, command, films, run, said};

/// How long anything may take that is waited for.
const PATIENCE: Duration = Duration::from_secs(120);

/// A film of that name as a history; none if there are no films.
fn film(folder: &Path, name: &str) -> Option<String> {
    let film = films().into_iter().find(|film| stem(film) == name)?;
    Some(imported(folder, &film))
}

fn stem(film: &Path) -> &str {
    film.file_name().unwrap().to_str().unwrap().split('.').next().unwrap()
}

fn imported(folder: &Path, film: &Path) -> String {
    let history = format!("{}.kine", stem(film));
    run(folder, &["import", film.to_str().unwrap(), "--into", &history]).fine();
    history
}

fn replay(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> Said {
    said(replaying(folder, kubeconfig, arguments).output().unwrap())
}

fn replaying(folder: &Path, kubeconfig: &Path, arguments: &[&str]) -> std::process::Command {
    let mut command = command(folder);
    command.arg("replay").args(arguments).arg("--target").arg(kubeconfig);
    command
}

/// Waits until something holds.
#[track_caller]
fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{what} is waited for in vain");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// How many lines kubectl has to say.
fn lines(cluster: &Cluster, arguments: &[&str]) -> usize {
    cluster.kubectl(&[arguments, &["--no-headers"]].concat()).unwrap().lines().count()
}

fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, text).unwrap();
    path
}
