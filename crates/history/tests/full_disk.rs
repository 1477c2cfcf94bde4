//! A full disk: the writer reports it and stops, and another one continues when there is space again.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops where something is not as it should be, and starts itself as a child process"
)]

use std::path::Path;
use std::process::Command;

use history::{Batch, History, Selection, Writer, doctor};
use model::{IncomingChange, Window};
use workload::churn::{ChurnOptions, churn};

/// The path for the child process, passed in the environment because its arguments are the test runner's.
const CHILD: &str = "KINESCOPE_TEST_FILL";

fn all() -> impl Iterator<Item = IncomingChange> {
    churn(ChurnOptions { seed: 7, live_objects: 300, changes: 1_000_000, ..ChurnOptions::default() })
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    if let Some(path) = std::env::var_os(CHILD) {
        return fill(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    // A file size limit acts like a small disk and needs no privileges. It grows from try to try, so that it is hit
    // in the first rows, in the log, and during packing.
    for limit in [100, 400, 1_000, 4_000] {
        let path = folder.path().join(format!("{limit}.kine"));
        let child = Command::new("bash")
            .args(["-c", "trap '' XFSZ; ulimit -Sf $1; shift; exec \"$@\"", "limited", &limit.to_string()])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "a_full_disk_loses_nothing_that_was_acknowledged", "--nocapture"])
            .env(CHILD, &path)
            .output()
            .unwrap();
        assert!(child.status.success(), "{limit}: {}", String::from_utf8_lossy(&child.stderr));
    }
}

/// Writes until it fails, makes space, and continues.
fn fill(path: &Path) {
    let mut changes = all();
    let mut acknowledged = 0;
    let writer = match Writer::open(path) {
        Ok(writer) => writer,
        Err(error) => {
            assert!(error.is_transient(), "{error}");
            assert!(!path.exists(), "an incomplete history was left");
            return;
        }
    };
    let error = loop {
        let changes: Vec<IncomingChange> = changes.by_ref().take(100).collect();
        match writer.append(Batch { changes, ..Batch::default() }).and_then(|()| writer.flush()) {
            Ok(seq) => acknowledged = seq,
            Err(error) => break error,
        }
    };
    assert!(error.is_transient(), "{error}");
    // Closing ends with the reason.
    assert!(writer.close().unwrap_err().is_transient());
    let unlimited = ["--fsize=unlimited:", "--pid", &std::process::id().to_string()].map(str::to_owned);
    assert!(Command::new("prlimit").args(unlimited).status().unwrap().success());
    let writer = Writer::open(path).unwrap();
    let durable = writer.flush().unwrap();
    assert!(durable == acknowledged || durable == acknowledged + 100, "{durable} of {acknowledged}");
    let rest = all().skip(usize::try_from(durable).unwrap()).take(1_000).collect();
    writer.append(Batch { changes: rest, ..Batch::default() }).unwrap();
    writer.close().unwrap();
    assert!(doctor(path).unwrap().is_clean());
    let history = History::open(path).unwrap();
    let between = history.between(Window::ALL, &Selection::default()).unwrap();
    let written: Vec<_> =
        between.map(|change| change.unwrap()).map(|change| (change.key, change.what)).collect();
    let expected: Vec<_> = all().take(written.len()).map(|observed| (observed.key, observed.what)).collect();
    assert_eq!(written.len() as i64, durable + 1_000);
    assert!(written == expected, "the history differs from the appended changes");
}
