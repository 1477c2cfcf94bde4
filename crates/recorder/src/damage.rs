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
        // It was there when the recording began.
        Some(history::Error::Missing(_)) => true,
        Some(error) => error.is_damage(),
        None => false,
    }
}

/// Sets a damaged history aside and begins another in its place, with a gap that names it. Says where it is; `None` if
/// somebody has removed it. `since` is when its recording began.
pub(super) fn begin_anew(
    path: &Path,
    source: &Arc<str>,
    since: Moment,
    now: Moment,
) -> history::Result<Option<PathBuf>> {
    let is_there = history::exists(path)?;
    let mark = now.timestamp().strftime("%Y%m%dT%H%M%SZ").to_string();
    let aside = Some(history::set_aside(path, &mark)?).filter(|_| is_there);
    let (from, why) = match &aside {
        Some(aside) => {
            let name = aside.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let why = format!("the history was damaged, and is set aside as {name}");
            (end(aside, source).unwrap_or(now), why)
        }
        None => (since, "the history was removed while it was recorded".to_owned()),
    };
    let gap = Gap { source: source.clone(), kinds: Vec::new(), from: from.min(now), to: now, why };
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
