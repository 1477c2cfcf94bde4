//! The test command: its parts in order, up to the first that fails.

mod runner;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{cache, cargo, deny, run, tidy};
use runner::Selection;

/// The action of one part.
enum TestStep {
    /// A cargo command, and the component that provides it if it is optional.
    Cargo { arguments: &'static [&'static str], component: Option<&'static str> },
    /// All tests, by [`runner`].
    Tests,
    /// Checks that each package of CONTRIBUTING's commands builds alone, with only the features that it enables itself.
    Commands,
    /// Checks that the fuzz targets, a workspace of their own, build. Long runs of them are separate.
    Fuzz,
    /// The checks of [`deny`].
    Dependencies,
    /// The checks of [`tidy`].
    Tidy,
}

enum StepOutcome {
    Passed(Duration),
    Failed(Duration),
    Skipped(&'static str),
}

const PARTS: &[(&str, TestStep)] = &[
    ("format", TestStep::Cargo { arguments: &["fmt", "--all", "--check"], component: Some("rustfmt") }),
    (
        "lints",
        TestStep::Cargo {
            arguments: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
            component: Some("clippy"),
        },
    ),
    ("tests", TestStep::Tests),
    ("commands", TestStep::Commands),
    ("fuzz", TestStep::Fuzz),
    ("docs", TestStep::Cargo { arguments: &["doc", "--workspace", "--no-deps"], component: None }),
    ("dependencies", TestStep::Dependencies),
    ("tidy", TestStep::Tidy),
];

const CHECK_FUZZ: [&str; 3] = ["check", "--manifest-path", "fuzz/Cargo.toml"];

/// The packages that CONTRIBUTING's commands build alone.
const COMMANDS: [&str; 3] = ["kinescope-cli", "kinescope-conformance", "benches"];

/// Runs all parts, or the named ones: a part, or the tests of a crate. Returns whether none failed.
pub(crate) fn run_parts(root: &Path, arguments: &[String]) -> bool {
    let is_thorough = arguments.iter().any(|word| word == "--thorough");
    let names: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| *word != "--thorough").collect();
    let is_part = |name: &str| PARTS.iter().any(|(part, _)| *part == name);
    let is_unknown = |name: &&&str| !is_part(name) && !tidy::is_package(root, &package_of(name));
    if let Some(unknown) = names.iter().find(is_unknown) {
        let parts: Vec<&str> = PARTS.iter().map(|(part, _)| *part).collect();
        println!("there is no part and no crate {unknown:?}; the parts are {}", parts.join(", "));
        return false;
    }
    let crates: Vec<String> =
        names.iter().filter(|name| !is_part(name)).map(|name| package_of(name)).collect();
    cache::prepare_build_folder(root);
    let mut skipped = BTreeSet::new();
    if !crates.is_empty() {
        let tested = crates.iter().all(|package| {
            let (passed, more) = runner::run(root, &Selection { package: Some(package), is_thorough });
            skipped.extend(more);
            passed
        });
        if !tested || crates.len() == names.len() {
            print_skipped(&skipped);
            return tested;
        }
    }
    let parts: Vec<_> = PARTS.iter().filter(|(part, _)| names.is_empty() || names.contains(part)).collect();
    let mut outcomes = Vec::new();
    for (name, step) in &parts {
        println!("== {name}: {}", step.description());
        let outcome = step.run(root, is_thorough, &mut skipped);
        println!("== {name}: {}\n", outcome.description());
        let failed = matches!(outcome, StepOutcome::Failed(_));
        outcomes.push((name, outcome));
        if failed {
            break;
        }
    }
    println!("Summary");
    for (name, outcome) in &outcomes {
        println!("  {name:<15}{}", outcome.description());
    }
    for (name, _) in &parts[outcomes.len()..] {
        println!("  {name:<15}not run");
    }
    print_skipped(&skipped);
    !outcomes.iter().any(|(_, outcome)| matches!(outcome, StepOutcome::Failed(_)))
}

/// Prints in one line the reasons for which tests were skipped.
fn print_skipped(skipped: &BTreeSet<String>) {
    if !skipped.is_empty() {
        let skipped: Vec<&str> = skipped.iter().map(String::as_str).collect();
        println!("skipped: {}", skipped.join("; "));
    }
}

/// The package of a crate: `kinescope-NAME`, except for some.
fn package_of(name: &str) -> String {
    match name {
        "kinescope" | "benches" | "xtask" => name.to_owned(),
        name => format!("kinescope-{}", name.trim_start_matches("kinescope-")),
    }
}

/// Runs the tidy checks and prints the findings. Returns whether there are none.
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

// === impl TestStep ===

impl TestStep {
    fn description(&self) -> String {
        match self {
            TestStep::Cargo { arguments, .. } => format!("cargo {}", arguments.join(" ")),
            TestStep::Tests => "cargo test --workspace, two test programs at a time".to_owned(),
            TestStep::Commands => format!("cargo check -p {}", COMMANDS.join("; cargo check -p ")),
            TestStep::Fuzz => format!("cargo {}", CHECK_FUZZ.join(" ")),
            TestStep::Dependencies => format!("cargo deny check {}", deny::CHECKS.join(" ")),
            TestStep::Tidy => "the checks of xtask/src/tidy.rs".to_owned(),
        }
    }

    fn run(&self, root: &Path, is_thorough: bool, skipped: &mut BTreeSet<String>) -> StepOutcome {
        let start = Instant::now();
        let passed = match self {
            TestStep::Cargo { arguments: [name, ..], component: Some(tool) }
                if !has_cargo_command(root, name) =>
            {
                return StepOutcome::Skipped(tool);
            }
            // Only rustdoc reads these flags.
            TestStep::Cargo { arguments, .. } => {
                run(cargo(root).args(*arguments).env("RUSTDOCFLAGS", "-D warnings"))
            }
            TestStep::Tests => {
                let (passed, more) = runner::run(root, &Selection { package: None, is_thorough });
                skipped.extend(more);
                passed
            }
            TestStep::Commands => {
                COMMANDS.iter().all(|package| run(cargo(root).args(["check", "--package", package])))
            }
            TestStep::Fuzz => {
                let folder = cache::ci_build_folder().unwrap_or_else(|| root.join("target"));
                run(cargo(root).args(CHECK_FUZZ).arg("--target-dir").arg(folder.join("fuzz")))
            }
            TestStep::Dependencies => deny::run_checks(root),
            TestStep::Tidy => run_tidy(root),
        };
        let took = start.elapsed();
        if passed { StepOutcome::Passed(took) } else { StepOutcome::Failed(took) }
    }
}

// === impl StepOutcome ===

impl StepOutcome {
    fn description(&self) -> String {
        match self {
            StepOutcome::Passed(took) => format!("passed in {:.1} s", took.as_secs_f64()),
            StepOutcome::Failed(took) => format!("FAILED after {:.1} s", took.as_secs_f64()),
            StepOutcome::Skipped(tool) => format!("skipped: {tool} is not installed"),
        }
    }
}

/// Whether cargo has the command.
fn has_cargo_command(root: &Path, command: &str) -> bool {
    let mut version = cargo(root);
    version.args([command, "--version"]).stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}
