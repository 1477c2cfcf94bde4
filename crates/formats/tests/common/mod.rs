//! Helpers shared by the tests of formats: optional data of other systems, and a short form of changes.

#![allow(dead_code, reason = "tests use parts of it")]

use std::io::Write;
use std::path::{Path, PathBuf};

use model::{IncomingChange, What};

/// The path of a file in `shared`, beside the checkout or in the folder KINESCOPE_SHARED. `None`, with a message, if it
/// does not exist.
pub(crate) fn shared_file(file: &str) -> Option<PathBuf> {
    #[allow(clippy::disallowed_methods, reason = "the environment configures the data folder")]
    let folder = std::env::var_os("KINESCOPE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let path = folder.join(file);
    if path.exists() {
        return Some(path);
    }
    // Not with a macro, whose output the test runner captures.
    let _ = writeln!(std::io::stderr(), "skipped: no {}", path.display());
    None
}

/// `second + Kind namespace/name`, or with `~` or `-`; in brackets if inferred.
fn describe_change(observed: &IncomingChange) -> String {
    let mark = match observed.what {
        What::Added(_) => "+",
        What::Modified(_) => "~",
        What::Deleted(_) => "-",
    };
    let second = observed.seen.nanos() / 1_000_000_000;
    let text = format!("{second} {mark} {}", observed.key);
    if observed.inferred { format!("[{text}]") } else { text }
}

pub(crate) fn describe_changes(observed: &[IncomingChange]) -> Vec<String> {
    observed.iter().map(describe_change).collect()
}
