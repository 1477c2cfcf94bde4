//! Runner of the comparison with the real components. The comparison is a crate of its own, so that other tasks need
//! not wait for it to be built.

use std::path::Path;
use std::process::Command;

use crate::run;

/// Runs a comparison in the current folder, so that relative paths stay valid. Returns whether all decisions are equal.
pub(crate) fn run_comparison(root: &Path, arguments: &[String]) -> bool {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["run", "--quiet", "--release", "--package", "kinescope-conformance", "--manifest-path"]);
    run(cargo.arg(root.join("Cargo.toml")).arg("--").args(arguments))
}
