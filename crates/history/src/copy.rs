//! A copy of a history that stands alone, also while the history is written.

use std::path::Path;

use crate::error::{Doing, Error, Result};
use crate::schema;

/// SQLite's own steps between two questions whether to go on. A row takes a few, and a frame is a row: some megabytes.
const STEPS: i32 = 1_000;

/// Copies the history at `path`, as it is at this moment, into a new file. A recorder need not stop for it.
///
/// `go_on` is asked now and then; when it says no the copy is given up, and what there is of it is the caller's to
/// remove.
pub fn copy(path: &Path, to: &Path, mut go_on: impl FnMut() -> bool + Send + 'static) -> Result<()> {
    if to.metadata().is_ok_and(|file| file.len() > 0) {
        return Err(Error::Exists(to.to_owned()));
    }
    let mut connection = schema::open_readable(path)?;
    // The history is opened for reading; it is the copy that is written.
    connection.execute_batch("PRAGMA query_only = OFF").doing("copy", path)?;
    connection.progress_handler(STEPS, Some(move || !go_on())).doing("copy", path)?;
    schema::make_private(to)?;
    connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]).doing("copy", path)?;
    Ok(())
}
