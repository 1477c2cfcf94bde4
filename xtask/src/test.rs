//! The test command: its parts in order, up to the first that fails.

mod runner;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{cargo, deny, run, tidy};
use runner::Selection;

/// What is done in one part.
enum Step {
    /// A cargo command, and what is not installed if cargo does not know it.
    Cargo { arguments: &'static [&'static str], comes_with: Option<&'static str> },
    /// All tests, by [`runner`].
    Tests,
    /// That what CONTRIBUTING names is built, each as it is called: alone, with the features that it brings itself.
    Commands,
    /// The checks of [`deny`].
    Dependencies,
    /// The checks of [`tidy`].
    Tidy,
}

enum Outcome {
    Passed(Duration),
    Failed(Duration),
    Skipped(&'static str),
}

const PARTS: &[(&str, Step)] = &[
    ("format", Step::Cargo { arguments: &["fmt", "--all", "--check"], comes_with: Some("rustfmt") }),
    (
        "lints",
        Step::Cargo {
            arguments: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
            comes_with: Some("clippy"),
        },
    ),
    ("tests", Step::Tests),
    ("commands", Step::Commands),
    // Long runs of them are for whoever has the time; that they still build is for everybody.
    (
        "fuzz",
        Step::Cargo {
            arguments: &["check", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target/fuzz"],
            comes_with: None,
        },
    ),
    ("docs", Step::Cargo { arguments: &["doc", "--workspace", "--no-deps"], comes_with: None }),
    ("dependencies", Step::Dependencies),
    ("tidy", Step::Tidy),
];

/// The packages that the commands of CONTRIBUTING build by themselves.
const COMMANDS: [&str; 3] = ["kinescope-cli", "kinescope-conformance", "benches"];

/// Runs all parts, or those that are named: a part, or the tests of a crate. Says whether none failed.
pub(crate) fn run_parts(root: &Path, arguments: &[String]) -> bool {
    let is_thorough = arguments.iter().any(|word| word == "--thorough");
    let names: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| *word != "--thorough").collect();
    let is_part = |name: &str| PARTS.iter().any(|(part, _)| *part == name);
    let is_unknown = |name: &&&str| !is_part(name) && !tidy::is_package(root, &package(name));
    if let Some(unknown) = names.iter().find(is_unknown) {
        let parts: Vec<&str> = PARTS.iter().map(|(part, _)| *part).collect();
        println!("there is no part or crate {unknown:?}: the parts are {}", parts.join(", "));
        return false;
    }
    let crates: Vec<String> = names.iter().filter(|name| !is_part(name)).map(|name| package(name)).collect();
    let mut skipped = BTreeSet::new();
    if !crates.is_empty() {
        let tested = crates.iter().all(|package| {
            let (passed, more) = runner::run(root, &Selection { package: Some(package), is_thorough });
            skipped.extend(more);
            passed
        });
        if !tested || crates.len() == names.len() {
            tell_skipped(&skipped);
            return tested;
        }
    }
    let parts: Vec<_> = PARTS.iter().filter(|(part, _)| names.is_empty() || names.contains(part)).collect();
    let mut outcomes = Vec::new();
    for (name, step) in &parts {
        println!("== {name}: {}", step.in_words());
        let outcome = step.run(root, is_thorough, &mut skipped);
        println!("== {name}: {}\n", outcome.in_words());
        let failed = matches!(outcome, Outcome::Failed(_));
        outcomes.push((name, outcome));
        if failed {
            break;
        }
    }
    println!("Summary");
    for (name, outcome) in &outcomes {
        println!("  {name:<15}{}", outcome.in_words());
    }
    for (name, _) in &parts[outcomes.len()..] {
        println!("  {name:<15}not run");
    }
    tell_skipped(&skipped);
    !outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Failed(_)))
}

/// What was not looked at for want of something, in one line.
fn tell_skipped(skipped: &BTreeSet<String>) {
    if !skipped.is_empty() {
        let skipped: Vec<&str> = skipped.iter().map(String::as_str).collect();
        println!("skipped: {}", skipped.join("; "));
    }
}

/// The package of a crate: they are called alike, but for those that are not published.
fn package(name: &str) -> String {
    match name {
        "kinescope" | "benches" | "xtask" => name.to_owned(),
        name => format!("kinescope-{}", name.trim_start_matches("kinescope-")),
    }
}

/// Runs the checks of tidiness and prints what they find. Says whether that is nothing.
pub(crate) fn run_tidy(root: &Path) -> bool {
    match tidy::check(root) {
        Ok(found) => {
            for finding in &found {
                println!("{finding}");
            }
            found.is_empty()
        }
        Err(error) => {
            println!("{error}");
            false
        }
    }
}

// === impl Step ===

impl Step {
    fn in_words(&self) -> String {
        match self {
            Step::Cargo { arguments, .. } => format!("cargo {}", arguments.join(" ")),
            Step::Tests => "cargo test --workspace, its programs beside each other".to_owned(),
            Step::Commands => format!("cargo check -p {}", COMMANDS.join("; cargo check -p ")),
            Step::Dependencies => format!("cargo deny check {}", deny::CHECKS.join(" ")),
            Step::Tidy => "the checks of xtask/src/tidy.rs".to_owned(),
        }
    }

    fn run(&self, root: &Path, is_thorough: bool, skipped: &mut BTreeSet<String>) -> Outcome {
        let start = Instant::now();
        let passed = match self {
            Step::Cargo { arguments: [name, ..], comes_with: Some(tool) } if !knows(root, name) => {
                return Outcome::Skipped(tool);
            }
            // Only rustdoc reads these flags.
            Step::Cargo { arguments, .. } => {
                run(cargo(root).args(*arguments).env("RUSTDOCFLAGS", "-D warnings"))
            }
            Step::Tests => {
                let (passed, more) = runner::run(root, &Selection { package: None, is_thorough });
                skipped.extend(more);
                passed
            }
            Step::Commands => {
                COMMANDS.iter().all(|package| run(cargo(root).args(["check", "--package", package])))
            }
            Step::Dependencies => deny::run_checks(root),
            Step::Tidy => run_tidy(root),
        };
        let took = start.elapsed();
        if passed { Outcome::Passed(took) } else { Outcome::Failed(took) }
    }
}

// === impl Outcome ===

impl Outcome {
    fn in_words(&self) -> String {
        match self {
            Outcome::Passed(took) => format!("passed in {:.1} s", took.as_secs_f64()),
            Outcome::Failed(took) => format!("FAILED after {:.1} s", took.as_secs_f64()),
            Outcome::Skipped(tool) => format!("skipped: {tool} is not installed"),
        }
    }
}

/// Whether cargo has that command.
fn knows(root: &Path, command: &str) -> bool {
    let mut version = cargo(root);
    version.args([command, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}
