//! The check of what the program is built from: licences, sources and banned crates, by cargo-deny.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{cargo, run};

const VERSION: &str = "0.20.2";

/// What is always checked.
pub(crate) const CHECKS: [&str; 3] = ["bans", "licenses", "sources"];

/// Runs the checks, after building cargo-deny if this version of it is not in the user's cache folder.
pub(crate) fn run_checks(root: &Path) -> bool {
    let Some(folder) = cache() else {
        println!("no cache folder: set KINESCOPE_CACHE or HOME");
        return false;
    };
    let folder = folder.join(format!("cargo-deny-{VERSION}"));
    let program = folder.join("bin/cargo-deny");
    if !program.is_file() {
        println!("building cargo-deny {VERSION} (several minutes the first time)…");
        let package = format!("cargo-deny@{VERSION}");
        // A build for debugging takes half as long, and has little to do here.
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
    // Advisories only where their database is: the test command fetches nothing but crates.
    let has_advisories = advisory_database().is_some_and(|folder| folder.is_dir());
    run(deny().args(["check", "--hide-inclusion-graph"]).args(CHECKS))
        && (!has_advisories || run(deny().args(["--offline", "check", "advisories"])))
}

/// Where cargo-deny keeps the database of advisories.
fn advisory_database() -> Option<PathBuf> {
    let cargo_home = folder("CARGO_HOME").or_else(|| Some(folder("HOME")?.join(".cargo")));
    Some(cargo_home?.join("advisory-dbs"))
}

/// The folder in which the tests keep what they build.
fn cache() -> Option<PathBuf> {
    folder("KINESCOPE_CACHE")
        .or_else(|| Some(folder("XDG_CACHE_HOME")?.join("kinescope")))
        .or_else(|| Some(folder("HOME")?.join(".cache/kinescope")))
}

fn folder(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}
