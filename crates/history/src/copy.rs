//! A self-contained copy of a history, which may be written meanwhile.

use std::path::Path;

use crate::error::{Error, ErrorContext, Result};
use crate::schema;

/// SQLite VM instructions between two calls of `go_on`. A row takes a few. A frame is one row, so a check
/// happens every few megabytes.
const INSTRUCTIONS_PER_CHECK: i32 = 1_000;

/// Copies the history at `path`, as it is now, into a new file. A recorder need not stop for it.
///
/// `go_on` is called regularly; when it returns false the copy is aborted, and the caller has to remove the partial
/// file.
pub fn copy(path: &Path, to: &Path, mut go_on: impl FnMut() -> bool + Send + 'static) -> Result<()> {
    if to.metadata().is_ok_and(|file| file.len() > 0) {
        return Err(Error::Exists(to.to_owned()));
    }
    let mut connection = schema::open_readable(path)?;
    // The history is opened for reading; it is the copy that is written.
    connection.execute_batch("PRAGMA query_only = OFF").context("copy", path)?;
    connection.progress_handler(INSTRUCTIONS_PER_CHECK, Some(move || !go_on())).context("copy", path)?;
    schema::create_owner_only(to)?;
    connection.execute("VACUUM INTO ?1", [to.to_string_lossy()]).context("copy", path)?;
    Ok(())
}
