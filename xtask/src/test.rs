//! The test command: its steps in order, up to the first that fails.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::{cargo, deny, run, tidy};

/// What is run in one step.
enum Step {
    /// A cargo command, and what is not installed if cargo does not know it.
    Cargo { arguments: &'static [&'static str], comes_with: Option<&'static str> },
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

const STEPS: &[(&str, Step)] = &[
    ("format", Step::Cargo { arguments: &["fmt", "--all", "--check"], comes_with: Some("rustfmt") }),
    (
        "lints",
        Step::Cargo {
            arguments: &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
            comes_with: Some("clippy"),
        },
    ),
    ("tests", Step::Cargo { arguments: &["test", "--workspace"], comes_with: None }),
    // Long runs of them are for whoever has the time; that they still build is for everybody.
    (
        "fuzz targets",
        Step::Cargo {
            arguments: &["check", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target/fuzz"],
            comes_with: None,
        },
    ),
    ("documentation", Step::Cargo { arguments: &["doc", "--workspace", "--no-deps"], comes_with: None }),
    ("dependencies", Step::Dependencies),
    ("tidiness", Step::Tidy),
];

/// Runs all steps. Says whether none failed.
pub(crate) fn run_all(root: &Path) -> bool {
    let mut outcomes = Vec::new();
    for (name, step) in STEPS {
        println!("== {name}: {}", step.in_words());
        let outcome = step.run(root);
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
    for (name, _) in &STEPS[outcomes.len()..] {
        println!("  {name:<15}not run");
    }
    !outcomes.iter().any(|(_, outcome)| matches!(outcome, Outcome::Failed(_)))
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
            Step::Dependencies => format!("cargo deny check {}", deny::CHECKS.join(" ")),
            Step::Tidy => "the checks of xtask/src/tidy.rs".to_owned(),
        }
    }

    fn run(&self, root: &Path) -> Outcome {
        let start = Instant::now();
        let passed = match self {
            Step::Cargo { arguments: [name, ..], comes_with: Some(tool) } if !knows(root, name) => {
                return Outcome::Skipped(tool);
            }
            // Only rustdoc reads these flags.
            Step::Cargo { arguments, .. } => {
                run(cargo(root).args(*arguments).env("RUSTDOCFLAGS", "-D warnings"))
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
