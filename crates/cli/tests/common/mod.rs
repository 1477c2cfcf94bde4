//! What the tests of the program share: running it, and finding recordings of real control planes.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "tests use parts of it, and stop where something is not as it should be"
)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The program as built for these tests.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_kinescope");

/// What a run of the program said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the program in a folder, with no more of the environment than it needs: times in UTC, no colours, no home.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Said {
    said(command(folder).args(arguments).output().unwrap())
}

pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).env_clear().env("TZ", "UTC").env("HOME", folder).env("NO_COLOR", "1");
    command
}

pub(crate) fn said(output: Output) -> Said {
    Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A folder with the history of the demo's day, which is made once.
pub(crate) fn day(name: &str) -> tempfile::TempDir {
    static DAY: OnceLock<Vec<u8>> = OnceLock::new();
    let history = DAY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), &["demo", "--folder", ".", "--no-walk"]).fine();
        std::fs::read(folder.path().join("shop.kine")).unwrap()
    });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), history).unwrap();
    folder
}

impl Said {
    /// The answer of a run that must have gone well.
    #[track_caller]
    pub(crate) fn fine(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// The complaint of a run that must have gone wrong with this code.
    #[track_caller]
    pub(crate) fn wrong(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}

/// The recordings of real control planes, where they are to be had: in `shared` beside the checkout.
pub(crate) fn films() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/films");
    let mut films: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(".jsonl.gz"))
        .collect();
    films.sort_unstable();
    if films.is_empty() {
        // Not by a macro, whose output the test runner would keep to itself.
        std::io::stderr().write_all(b"skipped: no films\n").unwrap();
    }
    films
}
