//! Recordings of real control planes, if available: gzipped lines of watch events.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use formats::jsonl::JsonlReader;
use formats::{ImportItem, Input, ReadOptions};
use model::{IncomingChange, Moment};

use crate::Result;

/// Outside the workspace, since they are too large to be part of it.
const FOLDER: &str = "../shared/data/films";
const EXTENSION: &str = ".jsonl.gz";

/// The available recordings, by name; none if the folder does not exist.
pub(crate) fn all() -> Vec<(String, PathBuf)> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("this crate lies in the workspace's folder");
    let Ok(entries) = fs::read_dir(root.join(FOLDER)) else { return Vec::new() };
    let mut recordings: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let name = path.file_name()?.to_str()?.strip_suffix(EXTENSION)?.to_owned();
            Some((name, path))
        })
        .collect();
    recordings.sort_unstable();
    recordings
}

/// All changes of a recording.
pub(super) fn read(name: &str, path: &Path) -> Result<Vec<IncomingChange>> {
    let input = Input::open(name, Box::new(File::open(path)?))?;
    let mut changes = Vec::new();
    for item in JsonlReader::new(input, ReadOptions { source: name.into(), at: None, now: Moment::MAX }) {
        if let ImportItem::Change(observed) = item? {
            changes.push(observed);
        }
    }
    Ok(changes)
}
