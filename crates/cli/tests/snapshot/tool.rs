//! `kinescope snapshot-tool`, also under its own name.

use serde_json::Value;

use super::cluster::folder;
use crate::common::{self, PROGRAM, run};

#[test]
fn it_logs_what_the_original_logs() {
    let folder = folder();
    let tool = |verbosity: &[&str]| {
        let arguments = [&["snapshot-tool", "-filename=cluster.zip"], verbosity].concat();
        let output = run(folder.path(), &arguments);
        let log = output.err.clone();
        let summary: Value = serde_json::from_str(&output.success()).unwrap();
        (log, summary)
    };
    let (log, summary) = tool(&[]);
    for part in [
        "Resource division result for queue <team-a>: Queue Priority: <100>, GPU: deserved: <4>, requested: <2>",
        "Evicting task: ml/run-",
        "Pipelining task: ml/train-0",
        "Reclaimed resources for job <ml/train>",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let actions: Vec<&String> = summary["action_durations_ms"].as_object().unwrap().keys().collect();
    assert_eq!(actions, ["allocate", "consolidation", "preempt", "reclaim", "stalegangeviction"]);
    assert!(summary["total_duration_ms"].is_u64());
    let lines = |level: &str| tool(&["--verbosity", level]).0.lines().count();
    assert_eq!(lines("0"), 0);
    assert!(lines("2") < lines("3") && lines("3") < lines("4"));
}

#[test]
fn it_answers_under_its_own_name() {
    let folder = folder();
    let name = folder.path().join("snapshot-tool");
    std::os::unix::fs::symlink(PROGRAM, &name).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = common::command(folder.path());
        let mut own = std::process::Command::new(&name);
        own.current_dir(folder.path())
            .env_clear()
            .envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        command = own;
        common::program_output(command.args(arguments).output().unwrap())
    };
    let output = run(&["-filename", "cluster.zip", "-verbosity=4"]);
    assert!(output.err.contains("Pipelining task: ml/train-0"), "{}", output.err);
    assert!(output.success().contains("total_duration_ms"));
    assert!(run(&["--help"]).success().contains("Usage: kinescope snapshot-tool [OPTIONS]"));
    let usage = run(&[]);
    assert_eq!(usage.code, 0);
    assert!(usage.err.contains("-filename string"), "{}", usage.err);
    let profiled = run(&["--filename", "cluster.zip", "--cpuprofile", "cpu.out", "-memprofile", "mem.out"]);
    assert!(profiled.err.contains("-cpuprofile: profiles are not written"), "{}", profiled.err);
    profiled.success();
    assert!(!folder.path().join("cpu.out").exists());
    assert!(run(&["-filename", "none.zip"]).failure(1).contains("none.zip"));
}

#[test]
fn configurations_without_generators_find_no_victims() {
    let folder = folder();
    let mut old = super::cluster::cluster();
    old["config"].as_object_mut().unwrap().remove("scenarioSearchBudgets");
    let plugins = old["config"]["tiers"][0]["plugins"].as_array_mut().unwrap();
    plugins.retain(|plugin| !plugin["name"].as_str().unwrap().starts_with("sg-"));
    super::cluster::write_zip(&folder.path().join("old.zip"), &old);
    let output = run(folder.path(), &["snapshot-tool", "--filename", "old.zip"]);
    assert!(!output.err.contains("Evicting task"), "{}", output.err);
    output.success();
}
