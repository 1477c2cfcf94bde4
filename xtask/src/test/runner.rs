//! All tests of the workspace: built once, then run two programs at a time. Most of what they take is waiting for
//! servers, so that two beside each other take little longer than one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cargo;

/// Programs that run at once.
const LANES: usize = 2;

/// What is to be run.
pub(crate) struct Selection<'a> {
    /// One crate alone.
    pub(crate) package: Option<&'a str>,
    /// Whether tests take the time to look at many more cases.
    pub(crate) is_thorough: bool,
}

/// A program with tests in it.
#[derive(Clone, Debug)]
struct TestProgram {
    /// `PACKAGE/TARGET`.
    name: String,
    path: PathBuf,
    /// Tests find their files from the folder of their package.
    folder: PathBuf,
}

/// What came of one.
struct Outcome {
    passed: bool,
    took: Duration,
    /// What it said that it skipped.
    skipped: BTreeSet<String>,
}

/// Runs them. Says whether all passed, and what was skipped for want of something.
pub(crate) fn run(root: &Path, selection: &Selection<'_>) -> (bool, BTreeSet<String>) {
    let Some(programs) = build(root, selection) else { return (false, BTreeSet::new()) };
    let times = root.join("target/test-times");
    let mut queue = in_order(programs, &read_times(&times));
    println!("test programs: {}, {LANES} at a time, the longest first", queue.len());
    queue.reverse();
    let queue = Mutex::new(queue);
    let done: Mutex<BTreeMap<String, Outcome>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let has_failed = locked(&done).values().any(|outcome| !outcome.passed);
                    let Some(program) = locked(&queue).pop().filter(|_| !has_failed) else { return };
                    let outcome = program.run(root, selection);
                    locked(&done).insert(program.name.clone(), outcome);
                }
            });
        }
    });
    let done = locked(&done);
    let passed = done.values().all(|outcome| outcome.passed);
    write_times(&times, &done);
    let skipped = done.values().flat_map(|outcome| outcome.skipped.iter().cloned()).collect();
    (passed && doc_tests(root, selection), skipped)
}

/// Builds all programs and says which there are.
fn build(root: &Path, selection: &Selection<'_>) -> Option<Vec<TestProgram>> {
    let mut command = cargo(root);
    command.args(["test", "--no-run", "--message-format", "json-render-diagnostics"]);
    selection.choose(&mut command);
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let messages = BufReader::new(child.stdout.take()?);
    let programs = messages.lines().map_while(Result::ok).filter_map(|line| TestProgram::of(&line)).collect();
    child.wait().is_ok_and(|status| status.success()).then_some(programs)
}

/// Those in documents, which cargo alone knows how to run.
fn doc_tests(root: &Path, selection: &Selection<'_>) -> bool {
    let mut command = cargo(root);
    command.args(["test", "--quiet", "--doc"]);
    selection.choose(&mut command);
    crate::run(&mut command)
}

/// The longest first, as far as is known, so that none is left to run alone at the end.
fn in_order(mut programs: Vec<TestProgram>, times: &BTreeMap<String, f64>) -> Vec<TestProgram> {
    let time = |program: &TestProgram| times.get(&program.name).copied().unwrap_or(f64::MAX);
    programs.sort_by(|a, b| time(b).total_cmp(&time(a)).then_with(|| a.name.cmp(&b.name)));
    programs
}

/// How long each took the last time, a line each. It only decides about the order.
fn read_times(file: &Path) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = |line: &str| {
        let (name, seconds) = line.split_once(' ')?;
        Some((name.to_owned(), seconds.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn write_times(file: &Path, done: &BTreeMap<String, Outcome>) {
    let mut times = read_times(file);
    times.extend(done.iter().map(|(name, outcome)| (name.clone(), outcome.took.as_secs_f64())));
    let text: String = times.iter().map(|(name, seconds)| format!("{name} {seconds:.1}\n")).collect();
    // Without it the next run is a little slower.
    let _ = fs::write(file, text);
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

// === impl Selection ===

impl Selection<'_> {
    fn choose(&self, command: &mut Command) {
        match self.package {
            // With what other crates turn on in it.
            Some(package) => command.args(["--package", package, "--all-features"]),
            None => command.arg("--workspace"),
        };
    }
}

// === impl TestProgram ===

impl TestProgram {
    /// The program that a message of cargo tells of.
    fn of(message: &str) -> Option<TestProgram> {
        let message: Value = serde_json::from_str(message).ok()?;
        if message["profile"]["test"] != true {
            return None;
        }
        let path = PathBuf::from(message["executable"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package = folder.file_name()?.to_string_lossy().into_owned();
        Some(TestProgram { name: format!("{package}/{}", message["target"]["name"].as_str()?), path, folder })
    }

    fn run(&self, root: &Path, selection: &Selection<'_>) -> Outcome {
        let start = Instant::now();
        let said = root.join("target/tmp").join(format!("{}.txt", self.name.replace('/', "-")));
        let status = File::create(&said).and_then(|output| {
            let mut command = Command::new(&self.path);
            command.current_dir(&self.folder).stdin(Stdio::null());
            if selection.is_thorough {
                command.env("KINESCOPE_THOROUGH", "1");
            }
            command.stdout(output.try_clone()?).stderr(output).status()
        });
        let took = start.elapsed();
        let text = fs::read(&said).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.unwrap_or_else(|error| format!("what it said cannot be read: {error}\n"));
        let passed = matches!(&status, Ok(status) if status.success());
        self.tell(&status, &text, took, passed);
        let skipped = text.lines().filter_map(|line| line.trim().strip_prefix("skipped: "));
        Outcome { passed, took, skipped: skipped.map(str::to_owned).collect() }
    }

    /// A line, or all that it said if it failed.
    fn tell(&self, status: &io::Result<std::process::ExitStatus>, text: &str, took: Duration, passed: bool) {
        let counts = text.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
        let tests: u64 = counts.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum();
        let seconds = took.as_secs_f64();
        // One call, so that two lanes do not write into each other's lines.
        if passed {
            println!("  {:<34}{tests:>5} passed {seconds:>7.1} s", self.name);
        } else {
            let why = match status {
                Ok(status) => status.to_string(),
                Err(error) => error.to_string(),
            };
            println!("{text}\n  {:<34}FAILED after {seconds:.1} s: {why}", self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_with_tests_are_known_by_cargos_messages() {
        let message = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/crates/model/Cargo.toml","target":{{"name":"model"}},
                    "profile":{{"test":{test}}},"executable":"/a/target/debug/deps/model-1"}}"#
            )
        };
        let program = TestProgram::of(&message(true)).expect("it has tests");
        assert_eq!((&*program.name, &*program.folder), ("model/model", Path::new("/a/crates/model")));
        assert!(TestProgram::of(&message(false)).is_none());
        assert!(TestProgram::of("Compiling model").is_none());
    }

    #[test]
    fn the_longest_and_those_that_nobody_knows_come_first() {
        let program =
            |name: &str| TestProgram { name: name.to_owned(), path: PathBuf::new(), folder: PathBuf::new() };
        let times = BTreeMap::from([("short".to_owned(), 1.0), ("long".to_owned(), 9.0)]);
        let order = in_order(vec![program("short"), program("new"), program("long")], &times);
        assert_eq!(order.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["new", "long", "short"]);
    }
}
