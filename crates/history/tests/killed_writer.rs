//! A writer killed at any instant: everything it acknowledged is there, and the file is intact.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a test stops where something is not as it should be, prints its seed, and starts a child process"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use history::{Batch, History, Selection, WatchPosition, Writer, doctor};
use model::{IncomingChange, Kind, Moment, Window};
use rand::{RngExt, SeedableRng};
use workload::churn::{ChurnOptions, churn};

/// The path for the child process, passed in the environment because its arguments are the test runner's.
const CHILD: &str = "KINESCOPE_TEST_APPEND_TO";
/// A history is continued by this many writer processes before a new one is started.
const WRITERS_PER_HISTORY: usize = 4;

/// The same changes every time: whatever was written is a prefix of them.
fn all() -> impl Iterator<Item = IncomingChange> {
    churn(ChurnOptions { seed: 7, live_objects: 300, changes: 1_000_000, ..ChurnOptions::default() })
}

#[test]
fn what_was_acknowledged_survives_every_kill() {
    if let Some(path) = std::env::var_os(CHILD) {
        append_until_killed(Path::new(&path));
    }
    let seed: u64 = std::env::var("KINESCOPE_TEST_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("seed {seed}: set KINESCOPE_TEST_SEED to try another");
    let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
    let kills = testobjects::case_count(100, 1_000);
    let (mut acknowledged, mut packed) = (0, 0);
    for kill in 0..kills {
        let writer_index = kill % WRITERS_PER_HISTORY;
        if writer_index == 0 {
            acknowledged = 0;
        }
        let folder = std::env::temp_dir().join(format!("kinescope-kill-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("h.kine");
        let acks = rng.random_range(0..30);
        let spin = rng.random_range(0..200_000);
        acknowledged = acknowledged.max(append_and_kill(&path, acks, spin));
        packed += check(&path, acknowledged, kill);
        if writer_index == WRITERS_PER_HISTORY - 1 || kill == kills - 1 {
            std::fs::remove_dir_all(&folder).unwrap();
        }
    }
    assert!(packed > kills as u64, "the packer packed too little: {packed} blocks in all");
}

/// Lets a child append until it has acknowledged `acks` times, and a little longer; returns the number of changes
/// acknowledged.
fn append_and_kill(path: &Path, acks: usize, spin: u64) -> usize {
    let mut child: Child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "what_was_acknowledged_survives_every_kill", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut acknowledged_changes = 0;
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let acknowledgements =
        lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("durable ")?.parse().ok());
    for count in acknowledgements.take(acks + 1) {
        acknowledged_changes = count;
    }
    // Any instant between two acknowledgements may be the last.
    for step in 0..spin {
        std::hint::black_box(step);
    }
    child.kill().unwrap();
    child.wait().unwrap();
    acknowledged_changes
}

/// The child: continues where the history ends, and prints after each flush how much is durable.
fn append_until_killed(path: &Path) -> ! {
    let written = if path.exists() { count(path) } else { 0 };
    let writer = Writer::open(path).unwrap();
    let mut changes = all().skip(written);
    let mut durable = written;
    loop {
        let size = 1 + (durable * 7) % 600;
        let batch: Vec<IncomingChange> = changes.by_ref().take(size).collect();
        durable += batch.len();
        let position = WatchPosition {
            source: "churn".into(),
            kind: Kind::new("", "Pod"),
            resource_version: durable.to_string(),
            at: Moment::from_nanos(durable as i64),
        };
        writer.append(Batch { changes: batch, positions: vec![position], ..Batch::default() }).unwrap();
        writer.flush().unwrap();
        let mut out = std::io::stdout().lock();
        writeln!(out, "durable {durable}").unwrap();
        out.flush().unwrap();
    }
}

/// Returns the number of blocks.
fn check(path: &Path, acknowledged: usize, kill: usize) -> u64 {
    // Killed before it created the file.
    if !path.exists() && acknowledged == 0 {
        return 0;
    }
    let report = match doctor(path) {
        Ok(report) => report,
        // Killed while creating it: there is no history yet, and nothing was acknowledged.
        Err(error) => {
            assert_eq!(acknowledged, 0, "kill {kill}: {error}");
            return 0;
        }
    };
    assert!(report.is_clean(), "kill {kill}: {:?}", report.findings);
    let history = History::open(path).unwrap();
    let changes = history.between(Window::ALL, &Selection::default()).unwrap();
    let mut found = 0;
    for (change, expected) in changes.zip(all()) {
        let change = change.unwrap();
        assert_eq!(
            (&change.key, &change.what),
            (&expected.key, &expected.what),
            "kill {kill}, change {found}"
        );
        found += 1;
    }
    assert_eq!(found as u64, report.changes, "kill {kill}");
    assert!(found >= acknowledged, "kill {kill}: {found} changes, {acknowledged} were acknowledged");
    let positions = history.positions().unwrap();
    let position = positions.first().map_or(0, |position| position.resource_version.parse().unwrap());
    assert_eq!(position, found, "kill {kill}: the position was not committed with its changes");
    report.frames
}

fn count(path: &Path) -> usize {
    match History::open(path) {
        Ok(history) => {
            let summary = history.summary().unwrap();
            summary.sources.iter().flat_map(|source| &source.kinds).map(|kind| kind.changes as usize).sum()
        }
        Err(_) => 0,
    }
}
