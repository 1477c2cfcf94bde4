//! The user's cache folder, which outlives a checkout: programs that checks need, and built dependencies.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{cargo, run};

/// A larger build folder is removed, with what earlier versions of the dependencies and of the compiler left in it.
const MAX_BUILD_BYTES: u64 = 24 << 30;

/// The cache folder for programs that the tests build.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    folder_from_env("KINESCOPE_CACHE")
        .or_else(|| Some(folder_from_env("XDG_CACHE_HOME")?.join("kinescope")))
        .or_else(|| Some(folder_from_env("HOME")?.join(".cache/kinescope")))
}

/// A folder that an environment variable names.
pub(crate) fn folder_from_env(variable: &str) -> Option<PathBuf> {
    std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Whether this is continuous integration, with a checkout of its own.
pub(crate) fn is_ci() -> bool {
    std::env::var_os("CI").is_some()
}

/// The folder that cargo builds a clean checkout into, so that the next one finds its dependencies there. `None` if the
/// default folder, in the checkout, is right.
pub(crate) fn ci_build_folder() -> Option<PathBuf> {
    if !is_ci() || folder_from_env("CARGO_TARGET_DIR").is_some() {
        return None;
    }
    Some(cache_folder()?.join("target"))
}

/// Removes from the build folder what cannot be used again: the crates of earlier checkouts. Only time and disk space
/// depend on its success.
pub(crate) fn prepare_build_folder(root: &Path) {
    let Some(folder) = ci_build_folder().filter(|folder| folder.is_dir()) else { return };
    // A folder that another run changes meanwhile has no size, and is left alone.
    if size_of(&folder).unwrap_or(0) <= MAX_BUILD_BYTES {
        run(cargo(root).args(["clean", "--quiet", "--workspace"]));
    } else if let Err(error) = fs::remove_dir_all(&folder) {
        println!("{} cannot be removed: {error}", folder.display());
    }
}

/// The bytes of all files in a folder.
fn size_of(folder: &Path) -> io::Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        size += if metadata.is_dir() { size_of(&entry.path())? } else { metadata.len() };
    }
    Ok(size)
}
