//! The golden check: the program's output for many commands on the demo's history and on recordings of real control
//! planes is the same as before, byte for byte.
//!
//! It does not test correctness; other tests do. It shows that a refactoring changed no output. After an intended
//! change `KINESCOPE_GOLDEN=write` replaces the expected digests, and the diff of `testdata/golden` shows which outputs
//! changed.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod common;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use common::{command, demo_history, program_output, recordings, run};
use serde_json::Value;

const FORMATS: [&str; 8] = [
    "jsonl",
    "manifests",
    "sched-record",
    "kss-snapshot",
    "sktrace",
    "scaling-history",
    "kai-snapshot",
    "kwok",
];

/// Additional arguments of the replays.
const REPLAYS: [&[&str]; 4] = [
    &[],
    &["--level", "workloads"],
    &["--set", "scheduler.percentageOfNodesToScore=30", "--scheduler-version", "1.33", "--seed", "7"],
    &["--autoscaler", "--scale-down-unneeded-time=2m --expander=least-waste"],
];

/// A history, and a line for each command run on it: digest, length and arguments.
struct GoldenOutputs {
    folder: PathBuf,
    /// A busy moment.
    moment: &'static str,
    lines: String,
}

impl GoldenOutputs {
    /// A history at `NAME/film.kine` in the tests' folder, where the outputs are kept to be compared.
    fn for_history(name: &str, moment: &'static str) -> GoldenOutputs {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("outputs")).unwrap();
        GoldenOutputs { folder, moment, lines: String::new() }
    }

    /// Records the standard output of a command. Failures count as output too.
    fn run_command(&mut self, arguments: &[&str]) {
        let output = command(&self.folder).args(arguments).output().unwrap();
        let command_line = arguments.join(" ");
        assert!(
            output.status.code().is_some_and(|code| code < 2),
            "{command_line}: {}",
            program_output(output).err
        );
        // The duration of a replay varies.
        let replayed = if arguments[0] == "replay" {
            output.stdout.iter().position(|&byte| byte == b'\n')
        } else {
            None
        };
        self.record_output(&output.stdout[replayed.unwrap_or(0)..], &command_line);
    }

    /// Records the contents of a file that a command has written.
    fn record_file(&mut self, file: &str) {
        let contents = std::fs::read(self.folder.join(file)).unwrap();
        self.record_output(&contents, file);
    }

    fn record_output(&mut self, output: &[u8], command_line: &str) {
        let number = self.lines.lines().count() + 1;
        std::fs::write(self.folder.join(format!("outputs/{number:03}")), output).unwrap();
        let digest = xxhash_rust::xxh3::xxh3_64(output);
        writeln!(self.lines, "{digest:016x} {:>9} {command_line}", output.len()).unwrap();
    }

    /// A sample of the objects of a kind, evenly spaced: namespace and name.
    fn sample(&self, kind: &str, count: usize) -> Vec<(String, String)> {
        let output = run(&self.folder, &["get", kind, "-A", "--at", self.moment, "-o", "json"]).success();
        let list: Value = serde_json::from_str(&output).unwrap();
        let items = list["items"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = |item: &Value| (text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]));
        items.iter().step_by((items.len() / count).max(1)).map(name).collect()
    }

    fn run_all(&mut self) {
        let at = self.moment;
        self.run_command(&["info"]);
        self.run_command(&["doctor"]);
        for output in ["wide", "yaml"] {
            self.run_command(&["get", "all", "-A", "--at", at, "-o", output]);
        }
        self.run_command(&["get", "nodes,pv,pvc,pdb,events", "-A", "--at", at, "--show-labels"]);
        self.run_command(&["diff", at, "end"]);
        for format in FORMATS {
            let whole = format!("{format}.out");
            self.run_command(&["export", "--format", format, "--out", &whole]);
            self.record_file(&whole);
        }
        self.run_command(&["export", "--format", "jsonl", "--from", at, "--kinds", "pods,nodes"]);
        for (namespace, name) in self.sample("pods", 4) {
            let pod = format!("pod/{name}");
            self.run_command(&["log", &pod, "-n", &namespace]);
            self.run_command(&["explain", &pod, "-n", &namespace, "-o", "wide"]);
            self.run_command(&["explain", &pod, "-n", &namespace, "--at", at, "-o", "json", "--nodes"]);
        }
        for (_, name) in self.sample("nodes", 2) {
            let node = format!("node/{name}");
            self.run_command(&["explain", &node, "--at", at]);
            self.run_command(&["explain", &node, "--at", at, "-o", "json"]);
        }
        for (number, settings) in REPLAYS.iter().enumerate() {
            let folder = format!("replay-{number}");
            let command = ["replay", "film.kine", "--out", &folder];
            self.run_command(&[&command, *settings].concat());
            self.record_file(&format!("{folder}/report.json"));
            self.record_file(&format!("{folder}/decisions.jsonl"));
            self.run_command(&["export", &format!("{folder}/replay.kine"), "--format", "jsonl"]);
        }
    }

    /// Compares with the expected digests.
    fn finish(self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden").join(name);
        let path = path.with_extension("txt");
        if std::env::var_os("KINESCOPE_GOLDEN").is_some_and(|word| word == "write") {
            std::fs::write(path, self.lines).unwrap();
            return;
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let (before, now) = (lines(&expected), lines(&self.lines));
        let differ = (0..before.len().max(now.len())).filter(|&at| before.get(at) != now.get(at));
        let none = String::new();
        let shown: Vec<String> = differ
            .map(|at| {
                let line = |lines: &[String]| lines.get(at).unwrap_or(&none).clone();
                format!("output {:03}\n  - {}\n  + {}", at + 1, line(&before), line(&now))
            })
            .collect();
        let folder = self.folder.display();
        assert!(shown.is_empty(), "other outputs than before, in {folder}:\n{}", shown.join("\n"));
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

#[test]
fn the_demo_is_unchanged() {
    let mut outputs = GoldenOutputs::for_history("demo", "14:20");
    let day = demo_history("film.kine");
    std::fs::copy(day.path().join("film.kine"), outputs.folder.join("film.kine")).unwrap();
    outputs.run_all();
    outputs.finish("demo");
}

/// Does nothing if the recordings do not exist.
fn check_recording(name: &str) {
    let file = format!("{name}.jsonl.gz");
    for recording in recordings().iter().filter(|recording| recording.ends_with(&file)) {
        let mut outputs = GoldenOutputs::for_history(name, "-20s");
        run(&outputs.folder, &["import", recording.to_str().unwrap(), "--into", "film.kine"]).success();
        outputs.run_all();
        outputs.finish(name);
    }
}

#[test]
fn an_autoscaled_cluster_is_unchanged() {
    check_recording("autoscaled");
}

#[test]
fn a_calm_cluster_is_unchanged() {
    check_recording("calm");
}

#[test]
fn a_small_cluster_is_unchanged() {
    check_recording("small");
}

#[test]
fn a_tight_cluster_is_unchanged() {
    check_recording("tight");
}

#[test]
fn a_cluster_with_volumes_is_unchanged() {
    check_recording("volumes");
}
