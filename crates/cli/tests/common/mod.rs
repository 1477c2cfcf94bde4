//! Helpers shared by the tests of the program: running it, and finding recordings of real control planes.

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

/// The exit code and output of a run of the program.
pub(crate) struct ProgramOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Runs the program in a folder with a minimal environment: times in UTC, no colors, the folder as home.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> ProgramOutput {
    program_output(command(folder).args(arguments).output().unwrap())
}

pub(crate) fn command(folder: &Path) -> Command {
    let mut command = Command::new(PROGRAM);
    command.current_dir(folder).env_clear().env("TZ", "UTC").env("HOME", folder).env("NO_COLOR", "1");
    command
}

pub(crate) fn program_output(output: Output) -> ProgramOutput {
    ProgramOutput {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A folder with the demo's history, which is generated once per process.
pub(crate) fn demo_history(name: &str) -> tempfile::TempDir {
    static DAY: OnceLock<Vec<u8>> = OnceLock::new();
    let history = DAY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        run(folder.path(), &["demo", "--folder", ".", "--no-walk"]).success();
        std::fs::read(folder.path().join("shop.kine")).unwrap()
    });
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(name), history).unwrap();
    folder
}

impl ProgramOutput {
    /// Standard output of a run that must have succeeded.
    #[track_caller]
    pub(crate) fn success(self) -> String {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self.out
    }

    /// Standard error of a run that must have failed with this exit code.
    #[track_caller]
    pub(crate) fn failure(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self.err
    }
}

/// The recordings of real control planes in `shared` next to the checkout, if they exist.
pub(crate) fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/films");
    let mut recordings: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().ends_with(".jsonl.gz"))
        .collect();
    recordings.sort_unstable();
    if recordings.is_empty() {
        // Written directly: the test runner captures the output of print macros.
        std::io::stderr().write_all(b"skipped: no films\n").unwrap();
    }
    recordings
}
