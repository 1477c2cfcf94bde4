//! Live replays against API servers that fail, close connections, do not respond or restart; and runs that are killed.

use std::process::Stdio;

use testcluster::{ClusterOptions, ErrorResponse, FaultKind, FaultPlan, Proxy};

use crate::common::{program_output, run};
use crate::server::{seed, start};
use crate::{import_recording, line_count, objects, replay, replaying, wait};

const LABELED: [&str; 4] = ["get", "pods", "-A", "--selector=replay.kinescope.io/run"];

#[test]
fn a_flaky_server_gets_everything() {
    let folder = tempfile::tempdir().unwrap();
    let Some(history) = import_recording(folder.path(), "small") else { return };
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let faults = [
        FaultKind::Respond(ErrorResponse::TooManyRequests),
        FaultKind::Respond(ErrorResponse::InternalError),
        FaultKind::Respond(ErrorResponse::Unavailable),
        FaultKind::CloseConnection,
        FaultKind::DropResponse,
    ];
    let proxy = Proxy::start(&cluster, FaultPlan::seeded_for_writes(seed(), &faults, 40, 800)).unwrap();
    let output = replay(folder.path(), proxy.kubeconfig(), &[&history, "--speed", "max"]).success();
    assert_eq!(proxy.faults().len(), 40, "{output}");
    assert!(!output.contains("Rejected"), "{output}");
    objects::check(cluster.client(), folder.path(), &history, &output);
}

#[test]
fn a_server_that_restarts_half_way_gets_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let Some(history) = import_recording(folder.path(), "small") else { return };
    let Some(mut cluster) = start(ClusterOptions::default()) else { return };
    let kubeconfig = cluster.kubeconfig().to_owned();
    let mut command = replaying(folder.path(), &kubeconfig, &[&history, "--speed", "max"]);
    let playing = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait("some pods exist", || line_count(&cluster, &LABELED) > 20);
    cluster.restart_apiserver().unwrap();
    let output = program_output(playing.wait_with_output().unwrap()).success();
    objects::check(cluster.client(), folder.path(), &history, &output);
}

#[test]
fn a_killed_run_can_be_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(history) = import_recording(folder.path(), "tight") else { return };
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let arguments = [history.as_str(), "--speed", "max"];
    let mut command = replaying(folder.path(), cluster.kubeconfig(), &arguments);
    let mut playing = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait("some pods exist", || line_count(&cluster, &LABELED) > 100);
    playing.kill().unwrap();
    playing.wait().unwrap();
    let busy = line_count(&cluster, &LABELED);
    // A run with a recent heartbeat may still be active.
    let resume = [&arguments[..], &["--resume"]].concat();
    let mut output = replay(folder.path(), cluster.kubeconfig(), &resume);
    wait("the killed run counts as ended", || {
        let is_busy = output.err.contains("is running in another process");
        if is_busy {
            output = replay(folder.path(), cluster.kubeconfig(), &resume);
        }
        !is_busy
    });
    let output = output.success();
    eprintln!("killed with {busy} pods\n{output}");
    objects::check(cluster.client(), folder.path(), &history, &output);
    // The run is complete: it can neither be resumed nor started again under this name.
    let again = replay(folder.path(), cluster.kubeconfig(), &resume).failure(1);
    assert!(again.contains("run tight has ended"), "{again}");
    let again = replay(folder.path(), cluster.kubeconfig(), &arguments).failure(1);
    assert!(again.contains("run tight already exists, ended"), "{again}");
    let runs =
        run(folder.path(), &["replay", "runs", "--target", cluster.kubeconfig().to_str().unwrap()]).success();
    assert!(runs.contains("tight") && runs.contains("ended"), "{runs}");
}

#[cfg(unix)]
#[test]
fn a_run_that_is_interrupted_says_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let Some(history) = import_recording(folder.path(), "small") else { return };
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let arguments = [history.as_str(), "--speed", "20"];
    let mut command = replaying(folder.path(), cluster.kubeconfig(), &arguments);
    let playing = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait("some pods exist", || line_count(&cluster, &LABELED) > 5);
    std::process::Command::new("kill").args(["-INT", &playing.id().to_string()]).status().unwrap();
    let stopped = program_output(playing.wait_with_output().unwrap()).success();
    assert!(stopped.contains("Stopped") && stopped.contains("--resume"), "{stopped}");
    let resume = [history.as_str(), "--speed", "max", "--resume"];
    let output = replay(folder.path(), cluster.kubeconfig(), &resume).success();
    objects::check(cluster.client(), folder.path(), &history, &output);
}
