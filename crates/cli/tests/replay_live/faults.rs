//! Live replays against API servers that fail, close connections, do not respond or restart; and runs that are killed.

use std::process::Stdio;

use testcluster::{Options, Plan, Proxy, Refusal, Trouble};

use crate::common::{run, said};
use crate::server::{seed, start};
use crate::{import_recording, line_count, objects, replay, replaying, wait};

const LABELLED: [&str; 4] = ["get", "pods", "-A", "--selector=replay.kinescope.io/run"];

#[test]
fn a_flaky_server_gets_everything() {
    let folder = tempfile::tempdir().unwrap();
    let Some(history) = import_recording(folder.path(), "small") else { return };
    let Some(cluster) = start(Options::default()) else { return };
    let troubles = [
        Trouble::Refuse(Refusal::TooManyRequests),
        Trouble::Refuse(Refusal::InternalError),
        Trouble::Refuse(Refusal::Unavailable),
        Trouble::HangUp,
        Trouble::Unanswered,
    ];
    let proxy = Proxy::start(&cluster, Plan::of_writes(seed(), &troubles, 40, 800)).unwrap();
    let said = replay(folder.path(), proxy.kubeconfig(), &[&history, "--speed", "max"]).fine();
    assert_eq!(proxy.faults().len(), 40, "{said}");
    assert!(!said.contains("Refused"), "{said}");
    objects::check(&cluster, folder.path(), &history, &said);
}

#[test]
fn a_server_that_restarts_half_way_gets_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let Some(history) = import_recording(folder.path(), "small") else { return };
    let Some(mut cluster) = start(Options::default()) else { return };
    let kubeconfig = cluster.kubeconfig().to_owned();
    let mut command = replaying(folder.path(), &kubeconfig, &[&history, "--speed", "max"]);
    let playing = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait("some pods are there", || line_count(&cluster, &LABELLED) > 20);
    cluster.restart_apiserver().unwrap();
    let said = said(playing.wait_with_output().unwrap()).fine();
    objects::check(&cluster, folder.path(), &history, &said);
}

#[test]
fn a_killed_run_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(history) = import_recording(folder.path(), "tight") else { return };
    let Some(cluster) = start(Options::default()) else { return };
    let arguments = [history.as_str(), "--speed", "max"];
    let mut command = replaying(folder.path(), cluster.kubeconfig(), &arguments);
    let mut playing = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait("some pods are there", || line_count(&cluster, &LABELLED) > 100);
    playing.kill().unwrap();
    playing.wait().unwrap();
    let busy = line_count(&cluster, &LABELLED);
    // A run with a recent heartbeat may still be active.
    let resume = [&arguments[..], &["--resume"]].concat();
    let mut said = replay(folder.path(), cluster.kubeconfig(), &resume);
    wait("nobody is at work any more", || {
        let is_busy = said.err.contains("is being played by another process");
        if is_busy {
            said = replay(folder.path(), cluster.kubeconfig(), &resume);
        }
        !is_busy
    });
    let said = said.fine();
    eprintln!("killed with {busy} pods there\n{said}");
    objects::check(&cluster, folder.path(), &history, &said);
    // The run is complete: it can neither be resumed nor started again under this name.
    let again = replay(folder.path(), cluster.kubeconfig(), &resume).wrong(1);
    assert!(again.contains("run tight has come to its end"), "{again}");
    let again = replay(folder.path(), cluster.kubeconfig(), &arguments).wrong(1);
    assert!(again.contains("there is a run tight already, ended"), "{again}");
    let runs =
        run(folder.path(), &["replay", "runs", "--target", cluster.kubeconfig().to_str().unwrap()]).fine();
    assert!(runs.contains("tight") && runs.contains("ended"), "{runs}");
}

#[cfg(unix)]
#[test]
fn a_run_that_is_interrupted_says_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let Some(history) = import_recording(folder.path(), "small") else { return };
    let Some(cluster) = start(Options::default()) else { return };
    let arguments = [history.as_str(), "--speed", "20"];
    let mut command = replaying(folder.path(), cluster.kubeconfig(), &arguments);
    let playing = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait("some pods are there", || line_count(&cluster, &LABELLED) > 5);
    std::process::Command::new("kill").args(["-INT", &playing.id().to_string()]).status().unwrap();
    let stopped = said(playing.wait_with_output().unwrap()).fine();
    assert!(stopped.contains("Stopped") && stopped.contains("--resume"), "{stopped}");
    let resume = [history.as_str(), "--speed", "max", "--resume"];
    let said = replay(folder.path(), cluster.kubeconfig(), &resume).fine();
    objects::check(&cluster, folder.path(), &history, &said);
}
