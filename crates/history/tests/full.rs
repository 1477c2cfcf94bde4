//! A disk that takes no more: the writer says so and lets go, and another goes on when there is room again.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test stops where something is not as it should be, and tells its child what to do"
)]

use std::path::Path;
use std::process::Command;

use history::{Batch, History, Selection, Writer, doctor};
use model::{Observed, Window};
use workload::churn::{Churn, churn};

/// What the child is told through its environment, since its arguments are the test runner's.
const CHILD: &str = "KINESCOPE_TEST_FILL";

fn all() -> impl Iterator<Item = Observed> {
    churn(Churn { seed: 7, alive: 300, changes: 1_000_000, ..Churn::default() })
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    if let Some(path) = std::env::var_os(CHILD) {
        return fill(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    // A limit for the size of files is as good as a small disk, and needs no rights. It grows from try to try, so that
    // it is met in the first rows, in the log, in the middle of packing.
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

/// Writes until it does not go on, makes room, and goes on.
fn fill(path: &Path) {
    let mut changes = all();
    let mut acknowledged = 0;
    let writer = match Writer::open(path) {
        Ok(writer) => writer,
        Err(error) => {
            assert!(error.may_pass(), "{error}");
            assert!(!path.exists(), "half a history");
            return;
        }
    };
    let error = loop {
        let changes: Vec<Observed> = changes.by_ref().take(100).collect();
        match writer.append(Batch { changes, ..Batch::default() }).and_then(|()| writer.flush()) {
            Ok(seq) => acknowledged = seq,
            Err(error) => break error,
        }
    };
    assert!(error.may_pass(), "{error}");
    // It ends, and with the reason.
    assert!(writer.close().unwrap_err().may_pass());
    let unlimited = ["--fsize=unlimited:", "--pid", &std::process::id().to_string()].map(str::to_owned);
    assert!(Command::new("prlimit").args(unlimited).status().unwrap().success());
    let writer = Writer::open(path).unwrap();
    let there = writer.flush().unwrap();
    assert!(there == acknowledged || there == acknowledged + 100, "{there} of {acknowledged}");
    let rest = all().skip(usize::try_from(there).unwrap()).take(1_000).collect();
    writer.append(Batch { changes: rest, ..Batch::default() }).unwrap();
    writer.close().unwrap();
    assert!(doctor(path).unwrap().is_clean());
    let history = History::open(path).unwrap();
    let between = history.between(Window::ALL, &Selection::default()).unwrap();
    let written: Vec<_> =
        between.map(|change| change.unwrap()).map(|change| (change.key, change.what)).collect();
    let told: Vec<_> = all().take(written.len()).map(|observed| (observed.key, observed.what)).collect();
    assert_eq!(written.len() as i64, there + 1_000);
    assert!(written == told, "what is there is not what was told");
}
