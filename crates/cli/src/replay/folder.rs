//! The output folder of a replay, which is published as a whole or not at all.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::output::Printer;
use crate::signals;

/// The files of a replay, in the order in which they are published.
const FILES: [&str; 3] = ["replay.kine", "decisions.jsonl", "report.json"];

/// The output folder.
pub(super) struct OutputFolder {
    path: PathBuf,
    /// Whether it has files of an earlier replay, which will be replaced.
    has_replay: bool,
}

/// A temporary folder next to the output folder. It is removed on drop unless it was published.
pub(super) struct PendingFolder {
    temporary_path: PathBuf,
    target: PathBuf,
}

/// Removes the files of an earlier replay from a folder, if there are any.
pub(crate) fn remove_replay(folder: &Path) -> anyhow::Result<()> {
    for file in FILES {
        let path = folder.join(file);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot replace {}", path.display()));
            }
            _ => {}
        }
    }
    Ok(())
}

// === impl OutputFolder ===

impl OutputFolder {
    /// The folder given, or one named after the history. A folder that contains other files is rejected.
    pub(super) fn choose(named: Option<&Path>, history: &Path) -> anyhow::Result<OutputFolder> {
        let path = match named {
            Some(path) => path.to_owned(),
            None => {
                let mut name = std::ffi::OsString::from("replay-");
                name.push(history.file_stem().unwrap_or_default());
                name.into()
            }
        };
        let displayed_path = path.display();
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if !parent.is_dir() {
            bail!("cannot create {displayed_path}: folder {} not found", parent.display());
        }
        let mut has_replay = false;
        if path.try_exists().with_context(|| format!("cannot access {displayed_path}"))? {
            let entries = std::fs::read_dir(&path).with_context(|| {
                format!("{displayed_path} is not a readable folder: specify another with --out")
            })?;
            for entry in entries {
                let name = entry.with_context(|| format!("cannot read {displayed_path}"))?.file_name();
                has_replay |= FILES.iter().any(|file| name == *file);
                // A history may have a lock file beside it.
                if !FILES.iter().any(|file| name.to_string_lossy().starts_with(file)) {
                    bail!(
                        "{displayed_path} contains {}, which is not a file of a replay: specify another folder with --out",
                        name.display()
                    );
                }
            }
            let same =
                |a: &Path, b: &Path| a.canonicalize().ok().is_some_and(|a| b.canonicalize().ok() == Some(a));
            if same(&path.join(FILES[0]), history) {
                bail!("{displayed_path} contains the history to replay: specify another folder with --out");
            }
        }
        Ok(OutputFolder { path, has_replay })
    }

    /// Says that the files of an earlier replay will be replaced, if there are any.
    pub(super) fn print_notice(&self, out: &mut Printer) {
        if self.has_replay {
            out.print_to_stderr(&format!("the earlier replay in {} will be replaced", self.path.display()));
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates the temporary folder.
    pub(super) fn create_pending(&self) -> anyhow::Result<PendingFolder> {
        let mut name = self.path.file_name().unwrap_or("replay".as_ref()).to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let scratch =
            PendingFolder { temporary_path: self.path.with_file_name(name), target: self.path.clone() };
        signals::remove_if_interrupted([scratch.temporary_path.clone()]);
        std::fs::create_dir(&scratch.temporary_path)
            .with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(scratch)
    }
}

// === impl PendingFolder ===

impl PendingFolder {
    /// The temporary path of a file.
    pub(super) fn path(&self, file: &str) -> PathBuf {
        self.temporary_path.join(file)
    }

    /// The context for error messages.
    pub(super) fn error_context(&self) -> String {
        format!("cannot write {}", self.target.display())
    }

    /// Moves all files to the output folder, the report last, so that the files it describes exist.
    pub(super) fn publish(self) -> anyhow::Result<()> {
        let doing = || self.error_context();
        if !self.target.try_exists().with_context(doing)? {
            return std::fs::rename(&self.temporary_path, &self.target).with_context(doing);
        }
        for file in FILES {
            let (new, old) = (self.temporary_path.join(file), self.target.join(file));
            if new.try_exists().with_context(doing)? {
                std::fs::rename(new, old).with_context(doing)?;
            } else if old.try_exists().with_context(doing)? {
                // It belongs to an earlier replay.
                std::fs::remove_file(old).with_context(doing)?;
            }
        }
        Ok(())
    }
}

impl Drop for PendingFolder {
    fn drop(&mut self) {
        // After publishing there may be nothing to remove.
        let _ = std::fs::remove_dir_all(&self.temporary_path);
    }
}
