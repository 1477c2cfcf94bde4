//! Thousands of random histories. Frames hold eight changes here, so that few changes make many blocks.

use std::path::Path;

use model::{IncomingChange, Moment, What, Window};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use testobjects::resource;

use super::naive::NaiveHistory;
use crate::change_indexer::ChangeIndexer;
use crate::prune_steps::{PruneBound, PruneStep, run_prune};
use crate::schema::{self, Durability};
use crate::stream_state::VersionReader;
use crate::{Batch, BulkWriter, Error, History, Selection, Writer, doctor, prune, prune_incrementally};

/// One change of a small cluster: few names, so that they recur; few moments, so that they coincide.
#[derive(Clone, Debug)]
struct RandomChange {
    source: u8,
    kind: u8,
    name: u8,
    uid: u8,
    change_type: u8,
    moment: i64,
    filler: u8,
    inferred: bool,
}

/// An operation on a history.
#[derive(Clone, Debug)]
enum HistoryOperation {
    /// Appended by a writer opened and closed for it, in batches of this size.
    Record(Vec<RandomChange>, usize),
    /// Imported, later than all existing changes.
    Import(Vec<RandomChange>),
    Prune(i64),
    /// Pruned in steps by a process that is killed after this many of them, then by a writer while these changes are
    /// appended.
    PruneInterrupted(i64, usize, Vec<RandomChange>),
}

fn random_change() -> impl Strategy<Value = RandomChange> {
    (0u8..2, 0u8..3, 0u8..4, 0u8..3, 0u8..4, 0i64..60, 0u8..3, prop::bool::weighted(0.1)).prop_map(
        |(source, kind, name, uid, change_type, moment, filler, inferred)| RandomChange {
            source,
            kind,
            name,
            uid,
            change_type,
            moment,
            filler,
            inferred,
        },
    )
}

fn operation() -> impl Strategy<Value = HistoryOperation> {
    let changes = || proptest::collection::vec(random_change(), 0..60);
    prop_oneof![
        4 => (changes(), 1usize..20).prop_map(|(changes, size)| HistoryOperation::Record(changes, size)),
        2 => changes().prop_map(HistoryOperation::Import),
        1 => (0i64..80).prop_map(HistoryOperation::Prune),
        2 => (0i64..80, 0usize..30, changes()).prop_map(|(moment, steps, changes)| HistoryOperation::PruneInterrupted(moment, steps, changes)),
    ]
}

impl RandomChange {
    fn observed(&self, after: Moment) -> IncomingChange {
        let (kind, namespace) = [("Pod", "shop"), ("Node", ""), ("Event", "shop")][usize::from(self.kind)];
        // The last uid stands for none, as in a manifest.
        let uid = if self.uid == 2 { String::new() } else { format!("u{}", self.uid) };
        let filler = "x".repeat(usize::from(self.filler) * 30);
        let name = format!("n{}", self.name);
        let object = resource("v1", kind, &name).namespace(namespace).uid(&uid).set("f", filler).object();
        let what = match self.change_type {
            0 => What::Added(object),
            1 | 2 => What::Modified(object),
            _ => What::Deleted(object),
        };
        let source = format!("s{}", self.source).into();
        let moment = after.plus_nanos(self.moment);
        IncomingChange { inferred: self.inferred, ..IncomingChange::received(moment, &source, what) }
    }
}

#[test]
fn a_history_has_the_contents_of_the_naive_model() {
    let cases = 2_000;
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&proptest::collection::vec(operation(), 1..5), |steps| {
        let folder = folder();
        let path = folder.path().join("h.kine");
        let mut naive = NaiveHistory::default();
        for step in &steps {
            apply(step, &path, &mut naive)?;
        }
        if path.exists() {
            assert_same(&path, &naive)?;
            let report = doctor(&path).unwrap();
            prop_assert!(report.is_clean(), "{:?}", report.findings);
            let file_names: Vec<_> =
                std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            prop_assert_eq!(file_names, ["h.kine"]);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
}

/// A temporary directory, in memory where available: thousands of histories are written.
fn folder() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap()
}

fn apply(step: &HistoryOperation, path: &Path, naive: &mut NaiveHistory) -> Result<(), TestCaseError> {
    match step {
        HistoryOperation::Record(changes, size) => {
            let writer = Writer::open(path).unwrap();
            for batch in changes.chunks(*size) {
                // Clocks jump back here: moments count from the same zero in every operation.
                let changes: Vec<IncomingChange> =
                    batch.iter().map(|seen| seen.observed(Moment::from_nanos(0))).collect();
                changes.iter().for_each(|observed| naive.push(observed));
                writer.append(Batch { changes, ..Batch::default() }).unwrap();
            }
            writer.flush().unwrap();
            // Compares while the packer may be in the middle of its work.
            assert_same(path, naive)?;
            writer.close().unwrap();
        }
        HistoryOperation::Import(changes) => {
            let after = naive.end().map_or(Moment::from_nanos(0), |end| end.plus_nanos(1));
            let mut bulk = BulkWriter::open(path).unwrap();
            for seen in changes {
                let observed = seen.observed(after);
                bulk.push(&observed).unwrap();
                naive.push(&observed);
            }
            prop_assert_eq!(bulk.finish().unwrap(), changes.len() as u64);
        }
        HistoryOperation::Prune(moment) if path.exists() => {
            let moment = Moment::from_nanos(*moment);
            let start = naive.beginning(moment);
            let prune_naive =
                if moment.nanos() % 2 == 0 { NaiveHistory::prune } else { NaiveHistory::prune_behind_writer };
            let prune = if moment.nanos() % 2 == 0 { prune } else { prune_incrementally };
            let pruned = prune(path, moment).unwrap();
            prop_assert_eq!(pruned.begins, start);
            if naive.end().is_some() {
                prune_naive(naive, start);
            }
            prop_assert_eq!(pruned.changes.1, naive.len() as u64);
        }
        HistoryOperation::PruneInterrupted(moment, steps, changes) if naive.end().is_some() => {
            let moment = Moment::from_nanos(*moment);
            let start = naive.beginning(moment);
            prune_until_killed(path, moment, *steps);
            assert_same_after(path, naive, start)?;
            let writer = Writer::open(path).unwrap();
            // Uses the new beginning, because `moment` may be later than the end, which moves from here on.
            let pruning = writer.prune(start).unwrap();
            let after = naive.end().unwrap_or_default();
            // A new source, so that the versions kept of each are unambiguous.
            let source = naive.sources() as u8 + 2;
            naive.prune_behind_writer(start);
            for seen in changes {
                let observed = RandomChange { source, ..seen.clone() }.observed(after.plus_nanos(1));
                naive.push(&observed);
                writer.append(Batch { changes: vec![observed], ..Batch::default() }).unwrap();
            }
            prop_assert_eq!(pruning.wait().unwrap(), start);
            writer.flush().unwrap();
            assert_same(path, naive)?;
            writer.close().unwrap();
        }
        HistoryOperation::Prune(_) | HistoryOperation::PruneInterrupted(..) => {}
    }
    Ok(())
}

/// Prunes as a writer does, but stops after this many steps.
pub(super) fn prune_until_killed(path: &Path, moment: Moment, steps: usize) {
    let connection = schema::open_writable(path, Durability::EveryCommit).unwrap();
    let last_seq = ChangeIndexer::open(&connection, path).unwrap().last_seq();
    let mut left = steps;
    let mut step = |step: PruneStep| {
        left = left.checked_sub(1).ok_or_else(Error::writer_ended)?;
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        step.apply(&connection, path, last_seq).unwrap();
        connection.execute_batch("COMMIT").unwrap();
        Ok(())
    };
    let cut = PruneBound::BehindWriter;
    // The history must be correct whether or not the prune was interrupted.
    let _ = run_prune(&connection, path, &mut VersionReader::new(), moment, cut, &mut step);
}

/// Checks what every prune step must keep: everything after the new beginning.
fn assert_same_after(path: &Path, naive: &NaiveHistory, start: Moment) -> Result<(), TestCaseError> {
    let history = History::open(path).unwrap();
    let end = naive.end().map_or(0, Moment::nanos);
    for nanos in [start.nanos(), i64::midpoint(start.nanos(), end), end] {
        let moment = Moment::from_nanos(nanos).max(start);
        let cluster = history.at(moment, &Selection::default()).unwrap();
        prop_assert_eq!(cluster.objects(), naive.at(moment), "at {}", nanos);
    }
    let window = Window { from: start.plus_nanos(1), to: Moment::MAX };
    let between: Vec<_> =
        history.between(window, &Selection::default()).unwrap().collect::<Result<_, _>>().unwrap();
    prop_assert_eq!(between, naive.between(window));
    let report = doctor(path).unwrap();
    prop_assert!(report.is_clean(), "{:?}", report.findings);
    Ok(())
}

fn assert_same(path: &Path, naive: &NaiveHistory) -> Result<(), TestCaseError> {
    let history = History::open(path).unwrap();
    let start = history.summary().unwrap().pruned_to.map_or(-1, Moment::nanos);
    let end = naive.end().map_or(0, Moment::nanos);
    let length = (end + 1 - start).max(1);
    // Few checks of each kind: the number of histories is what finds rare cases.
    for nanos in [start, start + length / 3, start + length * 2 / 3, end, end + 1] {
        let moment = Moment::from_nanos(nanos);
        let cluster = history.at(moment, &Selection::default()).unwrap();
        prop_assert_eq!(cluster.objects(), naive.at(moment), "at {}", nanos);
        let window = Window { from: moment, to: Moment::from_nanos(nanos + 13) };
        let between: Vec<_> =
            history.between(window, &Selection::default()).unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(between, naive.between(window), "between {} and 13 later", nanos);
    }
    for key in naive.keys().into_iter().step_by(5) {
        let of: Vec<_> = history.of(&key).unwrap().collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(of, naive.of(&key), "of {}", key);
        let selection = Selection {
            kinds: Some(vec![key.kind.clone()]),
            source: Some(key.source.clone()),
            namespace: Some(key.namespace.to_string()),
            name: Some(key.name.to_string()),
        };
        let moment = Moment::from_nanos((start + end) / 2).max(Moment::from_nanos(start));
        let cluster = history.at(moment, &selection).unwrap();
        let expected: Vec<_> = naive.at(moment).into_iter().filter(|version| version.key == key).collect();
        prop_assert_eq!(cluster.objects(), expected, "{} at {:?}", key, moment);
    }
    Ok(())
}
