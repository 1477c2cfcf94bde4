//! The golden check: what the program answers to many questions about the demo's day and the films of real control
//! planes is, byte for byte, what it answered before.
//!
//! It judges nothing: other tests say what is right. It shows that a change that was to change nothing did not. For one
//! that was to change something, `KINESCOPE_GOLDEN=write` makes the new answers the expected ones, and the difference of
//! `testdata/golden` says which they are.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod common;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use common::{command, day, films, run, said};
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

/// What replays are set to besides.
const REPLAYS: [&[&str]; 4] = [
    &[],
    &["--level", "workloads"],
    &["--set", "scheduler.percentageOfNodesToScore=30", "--scheduler-version", "1.33", "--seed", "7"],
    &["--autoscaler", "--scale-down-unneeded-time=2m --expander=least-waste"],
];

/// A history that is asked, and a line for each answer: its digest, its length and what was asked.
struct Questions {
    folder: PathBuf,
    /// A moment at which much is going on.
    moment: &'static str,
    answers: String,
}

impl Questions {
    /// A history at `NAME/film.kine` among what tests keep: the answers stay there for whoever looks for a difference.
    fn about(name: &str, moment: &'static str) -> Questions {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden").join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("answers")).unwrap();
        Questions { folder, moment, answers: String::new() }
    }

    /// Notes what a command answers on standard output. That something is not there is an answer too.
    fn ask(&mut self, arguments: &[&str]) {
        let output = command(&self.folder).args(arguments).output().unwrap();
        let question = arguments.join(" ");
        assert!(output.status.code().is_some_and(|code| code < 2), "{question}: {}", said(output).err);
        // How long a replay took is another each time.
        let replayed = if arguments[0] == "replay" {
            output.stdout.iter().position(|&byte| byte == b'\n')
        } else {
            None
        };
        self.note(&output.stdout[replayed.unwrap_or(0)..], &question);
    }

    /// Notes the contents of a file that a command has written.
    fn look_at(&mut self, file: &str) {
        let contents = std::fs::read(self.folder.join(file)).unwrap();
        self.note(&contents, file);
    }

    fn note(&mut self, answer: &[u8], question: &str) {
        let number = self.answers.lines().count() + 1;
        std::fs::write(self.folder.join(format!("answers/{number:03}")), answer).unwrap();
        let digest = xxhash_rust::xxh3::xxh3_64(answer);
        writeln!(self.answers, "{digest:016x} {:>9} {question}", answer.len()).unwrap();
    }

    /// Some objects of a kind, spread evenly over all of them: namespace and name.
    fn some(&self, kind: &str, count: usize) -> Vec<(String, String)> {
        let answer = run(&self.folder, &["get", kind, "-A", "--at", self.moment, "-o", "json"]).fine();
        let list: Value = serde_json::from_str(&answer).unwrap();
        let items = list["items"].as_array().unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = |item: &Value| (text(&item["metadata"]["namespace"]), text(&item["metadata"]["name"]));
        items.iter().step_by((items.len() / count).max(1)).map(name).collect()
    }

    fn ask_all(&mut self) {
        let at = self.moment;
        self.ask(&["info"]);
        self.ask(&["doctor"]);
        for output in ["wide", "yaml"] {
            self.ask(&["get", "all", "-A", "--at", at, "-o", output]);
        }
        self.ask(&["get", "nodes,pv,pvc,pdb,events", "-A", "--at", at, "--show-labels"]);
        self.ask(&["diff", at, "end"]);
        for format in FORMATS {
            let whole = format!("{format}.out");
            self.ask(&["export", "--format", format, "--out", &whole]);
            self.look_at(&whole);
        }
        self.ask(&["export", "--format", "jsonl", "--from", at, "--kinds", "pods,nodes"]);
        for (namespace, name) in self.some("pods", 4) {
            let pod = format!("pod/{name}");
            self.ask(&["log", &pod, "-n", &namespace]);
            self.ask(&["explain", &pod, "-n", &namespace, "-o", "wide"]);
            self.ask(&["explain", &pod, "-n", &namespace, "--at", at, "-o", "json", "--nodes"]);
        }
        for (_, name) in self.some("nodes", 2) {
            let node = format!("node/{name}");
            self.ask(&["explain", &node, "--at", at]);
            self.ask(&["explain", &node, "--at", at, "-o", "json"]);
        }
        for (number, settings) in REPLAYS.iter().enumerate() {
            let folder = format!("replay-{number}");
            let command = ["replay", "film.kine", "--out", &folder];
            self.ask(&[&command, *settings].concat());
            self.look_at(&format!("{folder}/report.json"));
            self.look_at(&format!("{folder}/decisions.jsonl"));
            self.ask(&["export", &format!("{folder}/replay.kine"), "--format", "jsonl"]);
        }
    }

    /// Compares with what was answered before.
    fn finish(self, name: &str) {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/golden").join(name);
        let path = path.with_extension("txt");
        if std::env::var_os("KINESCOPE_GOLDEN").is_some_and(|word| word == "write") {
            std::fs::write(path, self.answers).unwrap();
            return;
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let (before, now) = (lines(&expected), lines(&self.answers));
        let differ = (0..before.len().max(now.len())).filter(|&at| before.get(at) != now.get(at));
        let none = String::new();
        let shown: Vec<String> = differ
            .map(|at| {
                let line = |lines: &[String]| lines.get(at).unwrap_or(&none).clone();
                format!("answer {:03}\n  - {}\n  + {}", at + 1, line(&before), line(&now))
            })
            .collect();
        let folder = self.folder.display();
        assert!(shown.is_empty(), "other answers than before, in {folder}:\n{}", shown.join("\n"));
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

#[test]
fn the_demo_is_told_as_before() {
    let mut questions = Questions::about("demo", "14:20");
    let day = day("film.kine");
    std::fs::copy(day.path().join("film.kine"), questions.folder.join("film.kine")).unwrap();
    questions.ask_all();
    questions.finish("demo");
}

/// Where there are no films, there is nothing to tell.
fn check_film(name: &str) {
    let file = format!("{name}.jsonl.gz");
    for film in films().iter().filter(|film| film.ends_with(&file)) {
        let mut questions = Questions::about(name, "-20s");
        run(&questions.folder, &["import", film.to_str().unwrap(), "--into", "film.kine"]).fine();
        questions.ask_all();
        questions.finish(name);
    }
}

#[test]
fn an_autoscaled_cluster_is_told_as_before() {
    check_film("autoscaled");
}

#[test]
fn a_calm_cluster_is_told_as_before() {
    check_film("calm");
}

#[test]
fn a_small_cluster_is_told_as_before() {
    check_film("small");
}

#[test]
fn a_tight_cluster_is_told_as_before() {
    check_film("tight");
}

#[test]
fn a_cluster_with_volumes_is_told_as_before() {
    check_film("volumes");
}
