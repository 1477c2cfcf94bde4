//! What the tests of formats share: data of other systems, where it is to be had, and a short form of changes.

#![allow(dead_code, reason = "tests use parts of it")]

use std::io::Write;
use std::path::{Path, PathBuf};

use model::{Observed, What};

/// A file of `shared`, beside the checkout or where KINESCOPE_SHARED says; `None`, and a word about it, if it is not there.
pub(crate) fn shared(file: &str) -> Option<PathBuf> {
    #[allow(clippy::disallowed_methods, reason = "a test is told by its environment where data lies")]
    let folder = std::env::var_os("KINESCOPE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = folder.join(file);
    if path.exists() {
        return Some(path);
    }
    // Not by a macro, whose output the test runner would keep to itself.
    let _ = writeln!(std::io::stderr(), "skipped: no {}", path.display());
    None
}

/// `second + Kind namespace/name`, or `~`, `-`; in brackets if made up.
fn shown(observed: &Observed) -> String {
    let mark = match observed.what {
        What::Added(_) => "+",
        What::Modified(_) => "~",
        What::Deleted(_) => "-",
    };
    let second = observed.seen.nanos() / 1_000_000_000;
    let text = format!("{second} {mark} {}", observed.key);
    if observed.inferred { format!("[{text}]") } else { text }
}

pub(crate) fn all_shown(observed: &[Observed]) -> Vec<String> {
    observed.iter().map(shown).collect()
}
