//! Damaged histories: set aside, and followed by new ones that tell of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use history::{Batch, History, Writer};
use model::{Gap, Moment};

/// Whether an error means that the history is damaged, or gone while it was written.
pub(super) fn is_damage(error: &anyhow::Error, path: &Path) -> bool {
    match error.downcast_ref::<history::Error>() {
        // A file that was never a history is somebody else's.
        Some(history::Error::NotOurs { .. }) => history::has_remains(path),
        Some(error) => error.is_damage(),
        None => false,
    }
}

/// Sets a damaged history aside and begins another in its place, with a gap that names it. Says where it is.
pub(super) fn begin_anew(path: &Path, source: &Arc<str>, now: Moment) -> history::Result<PathBuf> {
    let mark = now.timestamp().strftime("%Y%m%dT%H%M%SZ").to_string();
    let aside = history::set_aside(path, &mark)?;
    let from = end(&aside, source).unwrap_or(now).min(now);
    let name = aside.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let why = format!("the history was damaged, and is set aside as {name}");
    let gap = Gap { source: source.clone(), kinds: Vec::new(), from, to: now, why };
    let writer = Writer::open(path)?;
    writer.append(Batch { gaps: vec![gap], ..Batch::default() })?;
    writer.close()?;
    Ok(aside)
}

/// When the last thing in a damaged history was seen: as it says itself, or else when its file was last written.
fn end(aside: &Path, source: &Arc<str>) -> Option<Moment> {
    let span = History::open(aside).and_then(|history| history.span_of(source));
    if let Ok(Some((_, end))) = span {
        return Some(end);
    }
    let written = aside.metadata().and_then(|file| file.modified()).ok()?;
    let since = written.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Moment::from_nanos(i64::try_from(since.as_nanos()).ok()?))
}
