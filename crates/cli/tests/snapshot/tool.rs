//! `kinescope snapshot-tool`, also under its own name.

use serde_json::Value;

use super::cluster::folder;
use crate::common::{self, PROGRAM, run};

/// The log lines, and the summary after them.
fn output(text: &str) -> (Vec<&str>, Value) {
    let at = text.find("\n{").map_or(0, |at| at + 1);
    (text[..at].lines().collect(), serde_json::from_str(&text[at..]).unwrap())
}

#[test]
fn it_logs_what_the_original_logs() {
    let folder = folder();
    let text = run(folder.path(), &["snapshot-tool", "--filename", "cluster.zip"]).success();
    let (lines, summary) = output(&text);
    let has = |part: &str| lines.iter().any(|line| line.contains(part));
    assert!(has(
        "Resource division result for queue <team-a>: Queue Priority: <100>, GPU: deserved: <4>, requested: <2>"
    ));
    assert!(has("Evicting task: ml/run-") && has("Pipelining task: ml/train-0"), "{text}");
    assert!(has("Reclaimed resources for job <ml/train>"));
    let actions: Vec<&String> = summary["action_durations_ms"].as_object().unwrap().keys().collect();
    assert_eq!(actions, ["allocate", "consolidation", "preempt", "reclaim", "stalegangeviction"]);
    assert!(summary["total_duration_ms"].is_u64());
    let quiet = run(folder.path(), &["snapshot-tool", "-filename=cluster.zip", "-verbosity", "0"]).success();
    assert!(quiet.starts_with('{'), "{quiet}");
    let level = |level: &str| {
        let text = run(folder.path(), &["snapshot-tool", "--filename", "cluster.zip", "--verbosity", level])
            .success();
        text.lines().count()
    };
    assert!(level("2") < level("3") && level("3") < level("4"));
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
    let (lines, summary) =
        (run(&["-filename", "cluster.zip", "-verbosity=4"]).success(), "total_duration_ms");
    assert!(lines.contains("Pipelining task: ml/train-0") && lines.contains(summary), "{lines}");
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
    let text = run(folder.path(), &["snapshot-tool", "--filename", "old.zip"]).success();
    assert!(!text.contains("Evicting task"), "{text}");
}
