//! Handling of damaged histories: they are set aside and replaced by new ones with a gap that names them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use history::{Batch, History, Writer};
use model::{Gap, Moment};

/// Whether an error means that the history is damaged, or was removed while it was written.
pub(super) fn is_damage(error: &anyhow::Error, path: &Path) -> bool {
    match error.downcast_ref::<history::Error>() {
        // A file that was never a history is not touched.
        Some(history::Error::NotAHistory { .. }) => history::has_salvageable_data(path),
        // It existed when the recording began.
        Some(history::Error::Missing(_)) => true,
        Some(error) => error.is_damage(),
        None => false,
    }
}

/// Sets a damaged history aside and starts a new one, with a gap that names it. Returns the new path of the damaged
/// file; `None` if it was removed. `since` is when its recording began.
pub(super) fn replace_damaged(
    path: &Path,
    source: &Arc<str>,
    since: Moment,
    now: Moment,
) -> history::Result<Option<PathBuf>> {
    let existed = history::exists(path)?;
    let timestamp = now.timestamp().strftime("%Y%m%dT%H%M%SZ").to_string();
    let renamed = Some(history::set_aside(path, &timestamp)?).filter(|_| existed);
    let (from, why) = match &renamed {
        Some(renamed) => {
            let name = renamed.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let why = format!("the history was damaged and renamed to {name}");
            (end_of_damaged(renamed, source).unwrap_or(now), why)
        }
        None => (since, "the history was removed while it was recorded".to_owned()),
    };
    let gap = Gap { source: source.clone(), kinds: Vec::new(), from: from.min(now), to: now, why };
    let writer = Writer::open(path)?;
    writer.append(Batch { gaps: vec![gap], ..Batch::default() })?;
    writer.close()?;
    Ok(renamed)
}

/// The end of a damaged history: by its content, or else by the modification time of its file.
fn end_of_damaged(renamed: &Path, source: &Arc<str>) -> Option<Moment> {
    let span = History::open(renamed).and_then(|history| history.span_of(source));
    if let Ok(Some((_, end))) = span {
        return Some(end);
    }
    let modified = renamed.metadata().and_then(|file| file.modified()).ok()?;
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Moment::from_nanos(i64::try_from(since.as_nanos()).ok()?))
}
