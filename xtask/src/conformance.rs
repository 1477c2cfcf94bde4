//! Comparing the virtual scheduler and autoscaler with the real ones. That lies in a crate of its own, so that other tasks
//! need not wait for it to be built.

use std::path::Path;
use std::process::Command;

use crate::run;

/// Runs a comparison where paths are still meant as they were typed. Says whether all was equal.
pub(crate) fn compare(root: &Path, arguments: &[String]) -> bool {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--release", "--package", "kinescope-conformance", "--manifest-path"]);
    run(cargo.arg(root.join("Cargo.toml")).arg("--").args(arguments))
}
