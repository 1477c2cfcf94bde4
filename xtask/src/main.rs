//! The project's tasks, as `cargo xtask NAME`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a task prints its results")]

mod cache;
mod conformance;
mod deny;
mod test;
mod tidy;

use std::path::Path;
use std::process::{Command, ExitCode};

const HELP: &str = "\
The project's tasks.

  cargo xtask test                    all checks: format, lints, tests, commands, fuzz, docs, dependencies, tidy
  cargo xtask test NAME…              some of these parts, or the tests of a crate, such as scheduler
  cargo xtask test --thorough         with more kills, and more moments of recordings
  cargo xtask tidy                    the last part alone
  cargo xtask bench [NAME…] [--full]  benchmarks, with their budgets; see --help

  Comparison of the scheduler and the autoscaler with the real ones; see --help of each:
  cargo xtask vectors FILE… [--family F] [--case C] [--all] [--verbose]
                                      with decisions printed by the real code
  cargo xtask oracle --seed N --count M [--families A,B] [--keep FILE]
                                      with decisions of the real code on fresh cases; needs Go
  cargo xtask films FILE…             with recordings of real control planes
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (task, rest) = match arguments.split_first() {
        Some((task, rest)) => (task.as_str(), rest),
        None => ("help", &[][..]),
    };
    let passed = match (task, rest) {
        ("help" | "--help" | "-h", _) => {
            print!("{HELP}");
            true
        }
        ("test", arguments) => test::run_parts(root(), arguments),
        ("tidy", []) => test::run_tidy(root()),
        // Some benchmarks run the program itself, which must be in the same folder.
        ("bench", names) => {
            let dist = ["--quiet", "--profile", "dist", "--package"];
            run(cargo(root()).arg("build").args(dist).arg("kinescope-cli"))
                && run(cargo(root()).arg("run").args(dist).args(["benches", "--"]).args(names))
        }
        ("vectors" | "oracle" | "films", _) => conformance::run_comparison(root(), &arguments),
        _ => {
            eprint!("unknown task {:?}\n\n{HELP}", arguments.join(" "));
            false
        }
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The workspace's root folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the workspace's folder")
}

/// The cargo that runs this program, in the workspace's root folder.
fn cargo(root: &Path) -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root);
    // A clean checkout is built once: the files for the next build would take time, and a third of the disk space.
    if cache::is_ci() {
        cargo.env("CARGO_INCREMENTAL", "0");
    }
    if let Some(folder) = cache::ci_build_folder() {
        cargo.env("CARGO_TARGET_DIR", folder);
    }
    cargo
}

/// Whether a command ran and succeeded.
fn run(command: &mut Command) -> bool {
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => {
            eprintln!("cannot start {}: {error}", command.get_program().display());
            false
        }
    }
}
