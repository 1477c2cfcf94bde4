//! The judges of the virtual scheduler. They lie in a crate of their own, so that other tasks need not wait for it to
//! be built.

use std::path::Path;
use std::process::Command;

use crate::run;

/// Runs a judge, where paths are still meant as they were typed. Says whether it found all to be equal.
pub(crate) fn run_judge(root: &Path, arguments: &[String]) -> bool {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--release", "--package", "judge", "--manifest-path"]);
    run(cargo.arg(root.join("Cargo.toml")).arg("--").args(arguments))
}
