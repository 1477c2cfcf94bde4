//! Gardener's scaling history against what its real recorder wrote, and against files of all kinds of harm.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test stops where something is not as it should be, and prints its seed"
)]

mod film;
mod harm;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use formats::{Format, Given, Input, Item, Writer, Written, scaling_history};
use kubernetes::quantity::Quantity;
use model::{Change, Gap, Moment, Observed, What};
use rand::{RngExt, SeedableRng};
use rusqlite::Connection;
use rusqlite::types::ValueRef;
use serde_json::{Value, json};

const RECORDER: &str = include_str!("../../../../testdata/formats/gardener_recorder.jsonl");

const TABLES: [&str; 11] = [
    "recorder_state_info",
    "worker_pool_info",
    "mcd_info",
    "mcc_info",
    "event_info",
    "node_info",
    "csi_node_info",
    "pod_info",
    "pc_info",
    "pdb_info",
    "ca_settings_info",
];

/// A history and the rows that the recorder made of it.
#[derive(Default)]
struct Recorded {
    changes: Vec<Change>,
    rows: BTreeMap<String, Vec<Value>>,
}

type Rows = BTreeMap<String, Vec<Value>>;

fn recorded() -> Vec<Recorded> {
    let mut all: Vec<Recorded> = Vec::new();
    for line in RECORDER.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line.get("history").is_some() {
            all.push(Recorded::default());
            continue;
        }
        let last = all.last_mut().unwrap();
        match line["table"].as_str() {
            Some(table) => last.rows.entry(table.to_owned()).or_default().push(meaning(&line["row"])),
            None => {
                let seq = last.changes.len() as i64;
                last.changes.push(change(seq, &line));
            }
        }
    }
    all
}

fn change(seq: i64, line: &Value) -> Change {
    let object = testobjects::object(&line["object"]);
    let what = match line["type"].as_str().unwrap() {
        "ADDED" => What::Added(object),
        "MODIFIED" => What::Modified(object),
        _ => What::Deleted(object),
    };
    let at = Moment::from_micros(line["at"].as_i64().unwrap()).unwrap();
    numbered(seq, Observed::received(at, &"garden".into(), what))
}

fn numbered(seq: i64, observed: Observed) -> Change {
    let Observed { seen, key, what, inferred } = observed;
    Change { seq, at: seen, seen, key, what, inferred }
}

/// A row whose JSON columns are compared by what they mean.
fn meaning(row: &Value) -> Value {
    let mut row = row.clone();
    for column in ["Labels", "Taints", "Requests", "Spec", "Allocatable", "Capacity", "NodeGroupsMinMax"] {
        if let Some(text) = row[column].as_str().filter(|text| !text.is_empty()) {
            row[column] = serde_json::from_str(text).unwrap();
        } else if row.get(column).is_some_and(Value::is_null) {
            row.as_object_mut().unwrap().remove(column);
        }
    }
    row
}

fn write(folder: &Path, name: &str, changes: &[Change], gaps: &[Gap]) -> (PathBuf, Written) {
    let path = folder.join(name);
    let mut writer: Box<dyn Writer> = Box::new(scaling_history::Writer::create(&path).unwrap());
    let mut gaps = gaps.iter().peekable();
    for change in changes {
        while let Some(gap) = gaps.next_if(|gap| gap.to <= change.at) {
            writer.gap(gap).unwrap();
        }
        writer.change(change).unwrap();
    }
    gaps.for_each(|gap| writer.gap(gap).unwrap());
    let written = writer.finish().unwrap();
    (path, written)
}

fn rows(path: &Path) -> Rows {
    let db = Connection::open(path).unwrap();
    let mut all = Rows::new();
    for table in TABLES {
        for row in select(&db, &format!("SELECT * FROM {table} ORDER BY rowid"), &[]) {
            all.entry(table.to_owned()).or_default().push(row);
        }
    }
    all
}

fn select(db: &Connection, sql: &str, values: &[i64]) -> Vec<Value> {
    let mut select = db.prepare(sql).unwrap();
    let names: Vec<String> = select.column_names().map(str::to_owned).collect();
    let mut rows = select.query(rusqlite::params_from_iter(values)).unwrap();
    let mut all = Vec::new();
    while let Some(row) = rows.next().unwrap() {
        let cell = |(index, name): (usize, &String)| {
            let value = match row.get_ref(index).unwrap() {
                ValueRef::Null => Value::Null,
                ValueRef::Integer(number) => json!(number),
                ValueRef::Text(text) => json!(std::str::from_utf8(text).unwrap()),
                other => panic!("{other:?} in {name}"),
            };
            (name.clone(), value)
        };
        all.push(meaning(&Value::Object(names.iter().enumerate().map(cell).collect())));
    }
    all
}

/// The recorder writes the pools of a Worker in the order of a Go map, which is none.
fn without_order(mut rows: Rows) -> Rows {
    for (table, rows) in &mut rows {
        if table == "worker_pool_info" {
            unnumber(rows);
        }
    }
    rows
}

fn unnumber(rows: &mut [Value]) {
    rows.iter_mut().for_each(|row| row["RowID"] = json!(0));
    rows.sort_by_key(Value::to_string);
}

/// The first container decides how a sum is written, and the rows have them in another order.
fn amounts(rows: &mut [Value]) {
    for requests in rows.iter_mut().filter_map(|row| row.get_mut("Requests")?.as_object_mut()) {
        for amount in requests.values_mut() {
            *amount = json!(Quantity::parse(amount.as_str().unwrap()).unwrap().scaled_value(-9));
        }
    }
}

fn given() -> Given {
    Given { source: "garden".into(), at: None, now: Moment::from_nanos(0) }
}

fn open(path: &Path) -> Input {
    let file = std::fs::File::open(path).unwrap();
    Input::open("file.db", Box::new(file)).unwrap().lying_at(path)
}

fn read(path: &Path) -> Result<Vec<Item>, String> {
    let items =
        formats::read(open(path), Format::ScalingHistory, given()).map_err(|error| error.to_string())?;
    items.map(|item| item.map_err(|error| error.to_string())).collect()
}

fn changes(items: &[Item]) -> (Vec<Change>, Vec<Gap>) {
    let (mut changes, mut gaps) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Item::Change(observed) => changes.push(numbered(changes.len() as i64, observed.clone())),
            Item::Gap(gap) => gaps.push(gap.clone()),
            Item::Warning(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert!(changes.is_sorted_by_key(|change| change.at));
    assert!(changes.iter().all(|change| change.inferred));
    (changes, gaps)
}

#[test]
fn an_export_has_the_rows_that_the_recorder_writes() {
    let folder = tempfile::tempdir().unwrap();
    let histories = recorded();
    assert!(!histories.is_empty());
    for (number, history) in histories.into_iter().enumerate() {
        let (path, written) = write(folder.path(), &format!("{number}.db"), &history.changes, &[]);
        let (ours, theirs) = (without_order(rows(&path)), without_order(history.rows));
        for table in TABLES {
            let (ours, theirs) = (ours.get(table), theirs.get(table));
            for (ours, theirs) in ours.into_iter().flatten().zip(theirs.into_iter().flatten()) {
                assert_eq!(ours, theirs, "{table} of history {number}");
            }
            assert_eq!(ours.map(Vec::len), theirs.map(Vec::len), "rows of {table} of history {number}");
        }
        let left_out: u64 = written.left_out.iter().map(|(_, count)| count).sum();
        assert_eq!(written.count + left_out, history.changes.len() as u64);
    }
}

#[test]
fn a_finished_file_is_alone_and_in_rollback_mode() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write(folder.path(), "a.db", &recorded()[0].changes, &[]);
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(&bytes[18..20], [1, 1]);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(open(&path).format, Some(Format::ScalingHistory));
    let db = Connection::open(&path).unwrap();
    let check: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
    assert!(select(&db, "SELECT * FROM sqlite_schema WHERE type IN ('trigger', 'view')", &[]).is_empty());
    // The only index is SQLite's own, of the events' uid.
    assert_eq!(select(&db, "SELECT name FROM sqlite_schema WHERE type = 'index'", &[]).len(), 1);
    assert!(
        scaling_history::Writer::create(&path)
            .is_err_and(|error| error.to_string().contains("is there already"))
    );
}

/// The replayer's questions about a moment.
const QUESTIONS: [(&str, usize); 7] = [
    ("SELECT * FROM mcc_info WHERE SnapshotTimestamp <= ?1 GROUP BY Name HAVING max(RowID)", 1),
    ("SELECT * FROM mcd_info WHERE SnapshotTimestamp <= ?1 GROUP BY Name HAVING max(RowID)", 1),
    ("SELECT * FROM worker_pool_info WHERE SnapshotTimestamp <= ?1 GROUP BY Name HAVING max(RowID)", 1),
    (
        "SELECT * FROM pc_info WHERE CreationTimestamp <= ?1
         AND (DeletionTimestamp IS NULL OR DeletionTimestamp >= ?2) GROUP BY Name HAVING max(RowID)",
        2,
    ),
    (
        "SELECT * FROM node_info WHERE CreationTimestamp <= ?1
         AND (DeletionTimestamp IS NULL OR DeletionTimestamp >= ?2) GROUP BY Name HAVING max(RowID)",
        2,
    ),
    (
        "SELECT * FROM csi_node_info WHERE CreationTimestamp <= ?1
         AND (DeletionTimestamp IS NULL OR DeletionTimestamp >= ?2) GROUP BY Name HAVING max(RowID)",
        2,
    ),
    (
        "SELECT * FROM pod_info WHERE SnapshotTimestamp <= ?1
         AND (DeletionTimestamp IS NULL OR DeletionTimestamp >= ?2) GROUP BY UID HAVING max(RowID)",
        2,
    ),
];

fn answers(path: &Path, moments: &[i64]) -> Vec<Vec<Value>> {
    let db = Connection::open(path).unwrap();
    let ask = |moment: &i64| {
        QUESTIONS
            .iter()
            .map(|(sql, values)| {
                let mut rows = select(&db, sql, &[*moment, *moment][..*values]);
                amounts(&mut rows);
                unnumber(&mut rows);
                rows
            })
            .collect::<Vec<_>>()
    };
    let mut all: Vec<Vec<Value>> = moments.iter().flat_map(ask).collect();
    let mut settings = select(&db, "SELECT * FROM ca_settings_info ORDER BY RowID DESC LIMIT 1", &[]);
    unnumber(&mut settings);
    all.push(settings);
    all.push(select(
        &db,
        "SELECT * FROM event_info WHERE Reason = 'TriggeredScaleUp' ORDER BY EventTime, UID",
        &[],
    ));
    all
}

#[test]
fn what_is_exported_imported_and_exported_again_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for history in recorded() {
        let (once, _) = write(folder.path(), "once.db", &history.changes, &[]);
        // After an object that it could not read, the recorder writes what its newest row says already.
        for table in ["mcd_info", "mcc_info"] {
            let sql = format!(
                "DELETE FROM {table} AS row WHERE Hash = (SELECT Hash FROM {table} AS before
                 WHERE before.Name = row.Name AND before.RowID < row.RowID ORDER BY before.RowID DESC LIMIT 1)"
            );
            Connection::open(&once).unwrap().execute_batch(&sql).unwrap();
        }
        let (imported, gaps) = changes(&read(&once).unwrap());
        let (twice, _) = write(folder.path(), "twice.db", &imported, &gaps);
        let (again, gaps) = changes(&read(&twice).unwrap());
        let (thrice, _) = write(folder.path(), "thrice.db", &again, &gaps);
        assert!(rows(&twice) == rows(&thrice), "the second time it is not the same");
        let (mut first, mut second) = (rows(&once), rows(&twice));
        // A recording begins with its first change, and of that the recorder may have kept nothing.
        first.remove("recorder_state_info");
        assert_eq!(second.remove("recorder_state_info").unwrap().len(), 1);
        for table in TABLES {
            let (first, second) =
                (first.entry(table.to_owned()).or_default(), second.entry(table.to_owned()).or_default());
            for rows in [&mut *first, second] {
                amounts(rows);
                unnumber(rows);
            }
            for (first, second) in first.iter().zip(second.iter()) {
                assert_eq!(first, second, "{table}");
            }
            assert_eq!(first.len(), second.len(), "{table}");
        }
        let (begin, end) = (history.changes[0].at, history.changes.last().unwrap().at);
        let step = end.nanos_since(begin) / 40_000;
        let moments: Vec<i64> = (-2..44).map(|index| begin.nanos() / 1_000 + index * step).collect();
        for (one, other) in answers(&once, &moments).iter().zip(answers(&twice, &moments)) {
            assert_eq!(*one, other);
        }
        for path in [once, twice, thrice] {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// A file as the recorder makes it, with these statements on top.
fn made(folder: &Path, name: &str, sql: &str) -> PathBuf {
    let (path, _) = write(folder, name, &recorded()[0].changes, &[]);
    let db = Connection::open(&path).unwrap();
    db.execute_batch(sql).unwrap();
    path
}

#[test]
fn a_file_of_milliseconds_is_read_without_phases_and_volumes_come_with_the_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let path = made(
        folder.path(),
        "old.db",
        "ALTER TABLE pod_info DROP COLUMN Phase;
         ALTER TABLE ca_settings_info DROP COLUMN NodeGroupsMinMax;
         DROP TABLE csi_node_info; DROP TABLE pc_info;
         DELETE FROM pod_info; DELETE FROM node_info; DELETE FROM event_info;
         UPDATE recorder_state_info SET BeginTimestamp = BeginTimestamp / 1000;
         UPDATE mcd_info SET CreationTimestamp = CreationTimestamp / 1000, SnapshotTimestamp = SnapshotTimestamp / 1000,
            DeletionTimestamp = DeletionTimestamp / 1000;
         UPDATE mcc_info SET CreationTimestamp = CreationTimestamp / 1000, SnapshotTimestamp = SnapshotTimestamp / 1000,
            DeletionTimestamp = DeletionTimestamp / 1000;
         UPDATE worker_pool_info SET CreationTimestamp = CreationTimestamp / 1000,
            SnapshotTimestamp = SnapshotTimestamp / 1000;
         UPDATE ca_settings_info SET SnapshotTimestamp = SnapshotTimestamp / 1000;
         INSERT INTO node_info VALUES (1, 1728700000000, 1728700000500, 'n', '', 'p', 26, '', '', '{\"cpu\":\"2\"}', '',
            1728700009000, 'h');
         INSERT INTO pod_info VALUES (1, 1728700001000, 1728700001500, 'p', 'd', 'u', 'n', '', '', '',
            '{\"containers\":null}', 1, NULL, 'h');",
    );
    let items = read(&path).unwrap();
    let warnings: Vec<&Item> = items.iter().filter(|item| matches!(item, Item::Warning(_))).collect();
    assert_eq!(
        warnings,
        [
            &Item::Warning("file.db has no table pc_info".to_owned()),
            &Item::Warning("file.db has no table csi_node_info".to_owned())
        ]
    );
    let (changes, _) = changes(&items);
    let shown = |change: &Change| format!("{} {} {}", change.at, change.what.word(), change.key);
    let shown: Vec<String> = changes
        .iter()
        .filter(|change| matches!(&*change.key.kind.kind, "Node" | "CSINode" | "Pod"))
        .map(shown)
        .collect();
    assert_eq!(
        shown,
        [
            "2024-10-12T02:26:40.5Z ADDED Node n",
            "2024-10-12T02:26:40.5Z ADDED CSINode.storage.k8s.io n",
            "2024-10-12T02:26:41.5Z ADDED Pod d/p",
            "2024-10-12T02:26:49Z DELETED Node n",
            "2024-10-12T02:26:49Z DELETED CSINode.storage.k8s.io n",
        ]
    );
    let pod =
        changes.iter().find(|change| &*change.key.kind.kind == "Pod").unwrap().what.object().value().unwrap();
    assert_eq!((&pod["status"]["phase"], &pod["spec"]["nodeName"]), (&json!("Running"), &json!("n")));
}

#[test]
fn a_name_that_comes_back_ends_its_former_life_before() {
    let folder = tempfile::tempdir().unwrap();
    let row = |row: i64, created: i64, uid: &str, deleted: &str| {
        format!(
            "INSERT INTO pod_info VALUES ({row}, {created}000000, {created}000000, 'web-0', 'd', '{uid}', 'n', '',
             'Running', '', '', '{{\"nodeName\":\"n\"}}', 1, {deleted}, 'h{row}');"
        )
    };
    let sql = [
        "DELETE FROM pod_info; DELETE FROM recorder_state_info;".to_owned(),
        row(1, 1_728_700_000, "one", "1728700040000000"),
        row(2, 1_728_700_012, "two", "NULL"),
    ];
    let path = made(folder.path(), "a.db", &sql.concat());
    let (imported, gaps) = changes(&read(&path).unwrap());
    let shown: Vec<String> = imported
        .iter()
        .filter(|change| &*change.key.kind.kind == "Pod")
        .map(|change| {
            let object = change.what.object();
            format!("{} {} {}", change.at, change.what.word(), object.meta().uid.unwrap())
        })
        .collect();
    assert_eq!(
        shown,
        [
            "2024-10-12T02:26:40Z ADDED one",
            "2024-10-12T02:26:52Z DELETED one",
            "2024-10-12T02:26:52Z ADDED two"
        ]
    );
    let (again, _) = write(folder.path(), "b.db", &imported, &gaps);
    let db = Connection::open(again).unwrap();
    let deleted = select(&db, "SELECT UID, DeletionTimestamp FROM pod_info ORDER BY UID", &[]);
    assert_eq!(
        deleted,
        [
            json!({"UID": "one", "DeletionTimestamp": 1_728_700_040_000_000_i64}),
            json!({"UID": "two", "DeletionTimestamp": null})
        ]
    );
}

#[test]
fn a_second_start_is_a_gap_and_comes_out_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let history = &recorded()[0];
    let half = history.changes[history.changes.len() / 2].at;
    let gap = Gap {
        source: "garden".into(),
        kinds: Vec::new(),
        from: half.plus_nanos(-1_000_000_000),
        to: half,
        why: String::new(),
    };
    let (path, _) = write(folder.path(), "a.db", &history.changes, std::slice::from_ref(&gap));
    let items = read(&path).unwrap();
    let place = items.iter().position(|item| matches!(item, Item::Gap(_))).unwrap();
    let Item::Gap(found) = &items[place] else { unreachable!() };
    assert_eq!((found.to, &*found.why), (half, "recorder restarted"));
    let Item::Change(before) = &items[place - 1] else { panic!("{:?}", items[place - 1]) };
    assert_eq!(found.from, before.seen);
    let (_, gaps) = changes(&items);
    assert_eq!(gaps.len(), 1);

    let db = Connection::open(&path).unwrap();
    db.execute_batch("INSERT INTO recorder_state_info SELECT min(BeginTimestamp) FROM recorder_state_info")
        .unwrap();
    drop(db);
    let items = read(&path).unwrap();
    assert!(
        matches!(&items[0], Item::Warning(text) if text.contains("connected anew 1 times")),
        "{:?}",
        items[0]
    );
}

#[test]
fn a_file_that_is_being_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write(folder.path(), "a.db", &recorded()[0].changes, &[]);
    let before = read(&path).unwrap();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; DELETE FROM node_info")
        .unwrap();
    assert!(folder.path().join("a.db-wal").metadata().unwrap().len() > 0);
    let after = read(&path).unwrap();
    let nodes = |items: &[Item]| {
        items
            .iter()
            .filter(|item| matches!(item, Item::Change(change) if &*change.key.kind.kind == "Node"))
            .count()
    };
    assert!(nodes(&before) > 0);
    assert_eq!(nodes(&after), 0);
    drop(db);
    // Left in write-ahead mode by a recorder that ended well, it is read without a trace beside it.
    read(&path).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn two_clusters_do_not_go_into_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = scaling_history::Writer::create(&folder.path().join("a.db")).unwrap();
    let change = recorded()[0].changes[0].clone();
    writer.change(&change).unwrap();
    let mut other = change;
    other.key.source = "other".into();
    let error = writer.change(&other).unwrap_err().to_string();
    assert!(error.contains("garden and other"), "{error}");
}
