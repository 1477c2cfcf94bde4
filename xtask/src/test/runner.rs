//! Runner of all tests of the workspace: built once, then run two programs at a time. They mostly wait for servers, so
//! two in parallel take little longer than one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::cargo;

/// How many programs run at the same time.
const PARALLEL_PROGRAMS: usize = 2;

/// The tests to run.
pub(crate) struct Selection<'a> {
    /// A single package, or all.
    pub(crate) package: Option<&'a str>,
    /// Whether tests check many more cases.
    pub(crate) is_thorough: bool,
}

/// A test executable.
#[derive(Clone, Debug)]
struct TestProgram {
    /// `PACKAGE/TARGET`.
    name: String,
    path: PathBuf,
    /// The folder of its package, in which tests expect to run.
    folder: PathBuf,
}

/// The outcome of a test program.
struct ProgramOutcome {
    passed: bool,
    took: Duration,
    /// The reasons for skipped tests that it printed.
    skipped: BTreeSet<String>,
}

/// Runs the tests. Returns whether all passed, and the reasons for skipped tests.
pub(crate) fn run(root: &Path, selection: &Selection<'_>) -> (bool, BTreeSet<String>) {
    let Some(programs) = build(root, selection) else { return (false, BTreeSet::new()) };
    let times = programs.first().map_or(root.join("target"), TestProgram::target_folder).join("test-times");
    let mut queue = longest_first(programs, &read_times(&times));
    println!("test programs: {}, {PARALLEL_PROGRAMS} at a time, the longest first", queue.len());
    queue.reverse();
    let queue = Mutex::new(queue);
    let outcomes: Mutex<BTreeMap<String, ProgramOutcome>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..PARALLEL_PROGRAMS {
            scope.spawn(|| {
                loop {
                    let Some(program) = lock(&queue).pop() else { return };
                    let outcome = program.run(selection);
                    lock(&outcomes).insert(program.name.clone(), outcome);
                }
            });
        }
    });
    let outcomes = lock(&outcomes);
    let failed: Vec<&str> =
        outcomes.iter().filter(|(_, outcome)| !outcome.passed).map(|(name, _)| name.as_str()).collect();
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    let passed = failed.is_empty();
    write_times(&times, &outcomes);
    let skipped = outcomes.values().flat_map(|outcome| outcome.skipped.iter().cloned()).collect();
    (passed && run_doc_tests(root, selection), skipped)
}

/// Builds and returns all test programs.
fn build(root: &Path, selection: &Selection<'_>) -> Option<Vec<TestProgram>> {
    let mut command = cargo(root);
    command.args(["test", "--no-run", "--message-format", "json-render-diagnostics"]);
    selection.add_arguments(&mut command);
    let mut child = command.stdout(Stdio::piped()).spawn().ok()?;
    let messages = BufReader::new(child.stdout.take()?);
    let programs =
        messages.lines().map_while(Result::ok).filter_map(|line| TestProgram::from_message(&line)).collect();
    child.wait().is_ok_and(|status| status.success()).then_some(programs)
}

/// Runs the doc tests, which only cargo can run.
fn run_doc_tests(root: &Path, selection: &Selection<'_>) -> bool {
    let mut command = cargo(root);
    command.args(["test", "--quiet", "--doc"]);
    selection.add_arguments(&mut command);
    crate::run(&mut command)
}

/// The longest first, as far as known, so that no long one runs alone at the end.
fn longest_first(mut programs: Vec<TestProgram>, times: &BTreeMap<String, f64>) -> Vec<TestProgram> {
    let time = |program: &TestProgram| times.get(&program.name).copied().unwrap_or(f64::MAX);
    programs.sort_by(|a, b| time(b).total_cmp(&time(a)).then_with(|| a.name.cmp(&b.name)));
    programs
}

/// The seconds that each program took last time, one per line. They only determine the order.
fn read_times(file: &Path) -> BTreeMap<String, f64> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = |line: &str| {
        let (name, seconds) = line.split_once(' ')?;
        Some((name.to_owned(), seconds.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn write_times(file: &Path, outcomes: &BTreeMap<String, ProgramOutcome>) {
    let mut times = read_times(file);
    times.extend(outcomes.iter().map(|(name, outcome)| (name.clone(), outcome.took.as_secs_f64())));
    let text: String = times.iter().map(|(name, seconds)| format!("{name} {seconds:.1}\n")).collect();
    // Without the file the next run is only slightly slower.
    let _ = fs::write(file, text);
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

// === impl Selection ===

impl Selection<'_> {
    fn add_arguments(&self, command: &mut Command) {
        match self.package {
            // With the features that other crates enable in it.
            Some(package) => command.args(["--package", package, "--all-features"]),
            None => command.arg("--workspace"),
        };
    }
}

// === impl TestProgram ===

impl TestProgram {
    /// The test program that a cargo message describes, if it does.
    fn from_message(message: &str) -> Option<TestProgram> {
        let message: Value = serde_json::from_str(message).ok()?;
        if message["profile"]["test"] != true {
            return None;
        }
        let path = PathBuf::from(message["executable"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
        let package = folder.file_name()?.to_string_lossy().into_owned();
        Some(TestProgram { name: format!("{package}/{}", message["target"]["name"].as_str()?), path, folder })
    }

    /// The folder that cargo builds into, which need not be that of the workspace: the program is in `debug/deps`.
    fn target_folder(&self) -> PathBuf {
        self.path.ancestors().nth(3).unwrap_or(&self.folder).to_owned()
    }

    fn run(&self, selection: &Selection<'_>) -> ProgramOutcome {
        let start = Instant::now();
        let output_path =
            self.target_folder().join("tmp").join(format!("{}.txt", self.name.replace('/', "-")));
        let status = File::create(&output_path).and_then(|output| {
            let mut command = Command::new(&self.path);
            command.current_dir(&self.folder).stdin(Stdio::null());
            if selection.is_thorough {
                command.env("KINESCOPE_THOROUGH", "1");
            }
            command.stdout(output.try_clone()?).stderr(output).status()
        });
        let took = start.elapsed();
        let text = fs::read(&output_path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let text = text.unwrap_or_else(|error| format!("its output cannot be read: {error}\n"));
        let passed = matches!(&status, Ok(status) if status.success());
        self.print_outcome(&status, &text, took, passed);
        let skipped = text.lines().filter_map(|line| line.trim().strip_prefix("skipped: "));
        ProgramOutcome { passed, took, skipped: skipped.map(str::to_owned).collect() }
    }

    /// Prints a line, or the whole output if it failed.
    fn print_outcome(
        &self,
        status: &io::Result<std::process::ExitStatus>,
        text: &str,
        took: Duration,
        passed: bool,
    ) {
        let counts = text.lines().filter_map(|line| line.strip_prefix("test result: ok. "));
        let tests: u64 = counts.filter_map(|line| line.split(' ').next()?.parse::<u64>().ok()).sum();
        let seconds = took.as_secs_f64();
        // One call, so that the output of two programs is not mixed.
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
    fn test_programs_are_found_in_cargos_messages() {
        let message = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/a/crates/model/Cargo.toml","target":{{"name":"model"}},
                    "profile":{{"test":{test}}},"executable":"/a/target/debug/deps/model-1"}}"#
            )
        };
        let program = TestProgram::from_message(&message(true)).expect("it has tests");
        assert_eq!((&*program.name, &*program.folder), ("model/model", Path::new("/a/crates/model")));
        assert!(TestProgram::from_message(&message(false)).is_none());
        assert!(TestProgram::from_message("Compiling model").is_none());
    }

    #[test]
    fn the_longest_and_the_unknown_programs_run_first() {
        let program =
            |name: &str| TestProgram { name: name.to_owned(), path: PathBuf::new(), folder: PathBuf::new() };
        let times = BTreeMap::from([("short".to_owned(), 1.0), ("long".to_owned(), 9.0)]);
        let order = longest_first(vec![program("short"), program("new"), program("long")], &times);
        assert_eq!(order.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["new", "long", "short"]);
    }
}
