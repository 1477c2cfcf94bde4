//! The folder for what comes of a replay: all of it is there, or nothing is.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::signals;

/// What a replay writes, in the order in which it is put in place.
const FILES: [&str; 3] = ["replay.kine", "decisions.jsonl", "report.json"];

/// The folder.
pub(super) struct Folder {
    path: PathBuf,
}

/// A folder beside it, where everything is written first. What is not put in place is removed.
pub(super) struct Scratch {
    place: PathBuf,
    target: PathBuf,
}

// === impl Folder ===

impl Folder {
    /// The folder named, or one that is called after the history. One that holds anything else is refused.
    pub(super) fn choose(named: Option<&Path>, history: &Path) -> anyhow::Result<Folder> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => {
                let mut name = std::ffi::OsString::from("replay-");
                name.push(history.file_stem().unwrap_or_default());
                name.into()
            }
        };
        let shown = path.display();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !parent.is_dir() {
            bail!("there is no folder {} to make {shown} in", parent.display());
        }
        if path.try_exists().with_context(|| format!("cannot look for {shown}"))? {
            let entries = std::fs::read_dir(&path)
                .with_context(|| format!("{shown} is no folder that can be read: name another with --out"))?;
            for entry in entries {
                let name = entry.with_context(|| format!("cannot read {shown}"))?.file_name();
                // A lock may lie beside a history.
                if !FILES.iter().any(|file| name.to_string_lossy().starts_with(file)) {
                    bail!(
                        "{shown} holds {}, which no replay wrote: name another folder with --out",
                        name.display()
                    );
                }
            }
            let same =
                |a: &Path, b: &Path| a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a));
            if same(&path.join(FILES[0]), history) {
                bail!("{shown} holds the history that is to be replayed: name another folder with --out");
            }
        }
        Ok(Folder { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Begins to write.
    pub(super) fn begin(&self) -> anyhow::Result<Scratch> {
        let mut name = self.path.file_name().unwrap_or("replay".as_ref()).to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let scratch = Scratch { place: self.path.with_file_name(name), target: self.path.clone() };
        signals::remove_if_interrupted([scratch.place.clone()]);
        std::fs::create_dir(&scratch.place)
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(scratch)
    }
}

// === impl Scratch ===

impl Scratch {
    /// Where a file is written.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.place.join(file)
    }

    /// What is being done, for errors.
    pub(super) fn doing(&self) -> String {
        format!("cannot write {}", self.target.display())
    }

    /// Puts everything in its place: the report last, so that what it tells of is there.
    pub(super) fn publish(self) -> anyhow::Result<()> {
        let doing = || self.doing();
        if !self.target.try_exists().with_context(doing)? {
            return std::fs::rename(&self.place, &self.target).with_context(doing);
        }
        for file in FILES {
            let (new, old) = (self.place.join(file), self.target.join(file));
            if new.try_exists().with_context(doing)? {
                std::fs::rename(new, old).with_context(doing)?;
            } else if old.try_exists().with_context(doing)? {
                // It told of another replay.
                std::fs::remove_file(old).with_context(doing)?;
            }
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Once it is in its place there is nothing here any more.
        let _ = std::fs::remove_dir_all(&self.place);
    }
}
