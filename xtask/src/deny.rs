//! The dependency check by cargo-deny: licenses, sources and banned crates.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{cache_folder, folder_from_env};
use crate::{cargo, run};

const VERSION: &str = "0.20.2";

/// The checks that always run.
pub(crate) const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Runs the checks, after building cargo-deny if this version of it is not in the user's cache folder.
pub(crate) fn run_checks(root: &Path) -> bool {
    let Some(folder) = cache_folder() else {
        println!("no cache folder: set KINESCOPE_CACHE or HOME");
        return false;
    };
    let folder = folder.join(format!("cargo-deny-{VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if !program.is_file() {
        println!("building cargo-deny {VERSION} (several minutes the first time)…");
        let package = format!("cargo-deny@{VERSION}");
        // A debug build takes half as long, and is fast enough here.
        let built =
            run(cargo(root).args(["install", &package, "--locked", "--debug", "--root"]).arg(&folder));
        if !built {
            return false;
        }
    }
    let deny = || {
        let mut deny = Command::new(&program);
        deny.current_dir(root).arg("--workspace");
        deny
    };
    // Advisories are checked only if their database exists: the test command downloads nothing but crates.
    let has_advisories = advisory_database().is_some_and(|folder| folder.is_dir());
    run(deny().args(["check", "--hide-inclusion-graph"]).args(CHECKS))
        && (!has_advisories || run(deny().args(["--offline", "check", "advisories"])))
}

/// The folder in which cargo-deny keeps the advisory database.
fn advisory_database() -> Option<PathBuf> {
    let cargo_home = folder_from_env("CARGO_HOME").or_else(|| Some(folder_from_env("HOME")?.join(".cargo")));
    Some(cargo_home?.join("advisory-dbs"))
}
