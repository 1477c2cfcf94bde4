//! Moving a damaged history aside, so that a new one can be started under its name.

use std::path::{Path, PathBuf};

use crate::error::{Error, ErrorContext, Result};
use crate::lock::WriterLock;

/// Maximum number of damaged histories kept beside one: with more of them the disk itself is at fault.
const MAX_SET_ASIDE: usize = 10;

/// Renames the history at `path` and its SQLite side files to an unused name `NAME.kine.damaged-MARK`. Nothing is
/// removed. Returns the new path.
pub fn set_aside(path: &Path, mark: &str) -> Result<PathBuf> {
    let doing = "rename";
    let _lock = WriterLock::take(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let beginning = format!("{name}.damaged-");
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut existing = Vec::new();
    for entry in std::fs::read_dir(folder).context(doing, path)? {
        let found = entry.context(doing, path)?.file_name().to_string_lossy().into_owned();
        if found.starts_with(&beginning) && !found.ends_with("-wal") && !found.ends_with("-shm") {
            existing.push(found);
        }
    }
    if existing.len() >= MAX_SET_ASIDE {
        let what =
            format!("{} earlier damaged copies exist: check the disk, then move them away", existing.len());
        return Err(Error::Damaged { path: path.to_owned(), what });
    }
    let mut new_name = format!("{beginning}{mark}");
    while existing.contains(&new_name) {
        new_name.push('+');
    }
    let new_name = path.with_file_name(new_name);
    // The write-ahead log first: SQLite would apply it to a new history of that name.
    for end in ["-wal", "-shm", ""] {
        let with_end = |path: &Path| {
            let mut name = path.as_os_str().to_owned();
            name.push(end);
            PathBuf::from(name)
        };
        match std::fs::rename(with_end(path), with_end(&new_name)) {
            // The history may have been removed while its log was left.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            renamed => renamed.context(doing, path)?,
        }
    }
    Ok(new_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            entry.unwrap().file_name().to_string_lossy().into_owned()
        };
        let mut names: Vec<String> = std::fs::read_dir(folder).unwrap().map(name).collect();
        names.sort();
        names
    }

    #[test]
    fn existing_copies_are_kept_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.kine");
        for text in ["first", "second"] {
            std::fs::write(&path, text).unwrap();
            std::fs::write(folder.path().join("a.kine-wal"), format!("{text} log")).unwrap();
            set_aside(&path, "then").unwrap();
        }
        let expected = ["then", "then+", "then+-wal", "then-wal"].map(|end| format!("a.kine.damaged-{end}"));
        assert_eq!(names(folder.path()), expected);
        let read =
            |end: &str| std::fs::read_to_string(folder.path().join(format!("a.kine.damaged-{end}"))).unwrap();
        assert_eq!([read("then"), read("then+"), read("then+-wal")], ["first", "second", "second log"]);
        for _ in 2..MAX_SET_ASIDE {
            std::fs::write(&path, "").unwrap();
            set_aside(&path, "then").unwrap();
        }
        std::fs::write(&path, "one more").unwrap();
        let error = set_aside(&path, "then").unwrap_err().to_string();
        assert!(error.contains("10 earlier damaged copies"), "{error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one more");
    }
}
