//! Tests of Gardener's scaling history: against files of its real recorder, and with damaged files.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking and prints its seed")]

mod damaged;
mod recording;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use formats::{Format, ImportItem, Input, ReadOptions, WriteSummary, Writer, scaling_history};
use kubernetes::quantity::Quantity;
use model::{Change, Gap, IncomingChange, Moment, What};
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

/// A history and the recorder's rows for it.
#[derive(Default)]
struct RecordedCase {
    changes: Vec<Change>,
    rows: BTreeMap<String, Vec<Value>>,
}

type Rows = BTreeMap<String, Vec<Value>>;

fn recorded_cases() -> Vec<RecordedCase> {
    let mut all: Vec<RecordedCase> = Vec::new();
    for line in RECORDER.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        if line.get("history").is_some() {
            all.push(RecordedCase::default());
            continue;
        }
        let last = all.last_mut().unwrap();
        match line["table"].as_str() {
            Some(table) => {
                last.rows.entry(table.to_owned()).or_default().push(parse_json_columns(&line["row"]))
            }
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
    numbered(seq, IncomingChange::received(at, &"garden".into(), what))
}

fn numbered(seq: i64, observed: IncomingChange) -> Change {
    let IncomingChange { seen, key, what, inferred } = observed;
    Change { seq, at: seen, seen, key, what, inferred }
}

/// A row with its JSON columns parsed, for comparison.
fn parse_json_columns(row: &Value) -> Value {
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

fn write(folder: &Path, name: &str, changes: &[Change], gaps: &[Gap]) -> (PathBuf, WriteSummary) {
    let path = folder.join(name);
    let mut writer: Box<dyn Writer> = Box::new(scaling_history::ScalingHistoryWriter::create(&path).unwrap());
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
        all.push(parse_json_columns(&Value::Object(names.iter().enumerate().map(cell).collect())));
    }
    all
}

/// The recorder writes the pools of a Worker in the random order of a Go map.
fn without_pool_order(mut rows: Rows) -> Rows {
    for (table, rows) in &mut rows {
        if table == "worker_pool_info" {
            clear_row_ids(rows);
        }
    }
    rows
}

fn clear_row_ids(rows: &mut [Value]) {
    rows.iter_mut().for_each(|row| row["RowID"] = json!(0));
    rows.sort_by_key(Value::to_string);
}

/// The first container determines the format of a sum, and the rows have the containers in another order.
fn normalize_amounts(rows: &mut [Value]) {
    for requests in rows.iter_mut().filter_map(|row| row.get_mut("Requests")?.as_object_mut()) {
        for amount in requests.values_mut() {
            *amount = json!(Quantity::parse(amount.as_str().unwrap()).unwrap().scaled_value(-9));
        }
    }
}

fn read_options() -> ReadOptions {
    ReadOptions { source: "garden".into(), at: None, now: Moment::from_nanos(0) }
}

fn open(path: &Path) -> Input {
    let file = std::fs::File::open(path).unwrap();
    Input::open("file.db", Box::new(file)).unwrap().with_path(path)
}

fn read(path: &Path) -> Result<Vec<ImportItem>, String> {
    let items = formats::read(open(path), Format::ScalingHistory, read_options())
        .map_err(|error| error.to_string())?;
    items.map(|item| item.map_err(|error| error.to_string())).collect()
}

fn changes(items: &[ImportItem]) -> (Vec<Change>, Vec<Gap>) {
    let (mut changes, mut gaps) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            ImportItem::Change(observed) => changes.push(numbered(changes.len() as i64, observed.clone())),
            ImportItem::Gap(gap) => gaps.push(gap.clone()),
            ImportItem::Warning(_) => {}
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
    let histories = recorded_cases();
    assert!(!histories.is_empty());
    for (number, history) in histories.into_iter().enumerate() {
        let (path, written) = write(folder.path(), &format!("{number}.db"), &history.changes, &[]);
        let (ours, theirs) = (without_pool_order(rows(&path)), without_pool_order(history.rows));
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
fn a_finished_file_is_a_single_file_in_rollback_mode() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write(folder.path(), "a.db", &recorded_cases()[0].changes, &[]);
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
        scaling_history::ScalingHistoryWriter::create(&path)
            .is_err_and(|error| error.to_string().contains("already exists"))
    );
}

/// The replayer's queries about a moment.
const REPLAYER_QUERIES: [(&str, usize); 7] = [
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

fn query_moments(path: &Path, moments: &[i64]) -> Vec<Vec<Value>> {
    let db = Connection::open(path).unwrap();
    let ask = |moment: &i64| {
        REPLAYER_QUERIES
            .iter()
            .map(|(sql, values)| {
                let mut rows = select(&db, sql, &[*moment, *moment][..*values]);
                normalize_amounts(&mut rows);
                clear_row_ids(&mut rows);
                rows
            })
            .collect::<Vec<_>>()
    };
    let mut all: Vec<Vec<Value>> = moments.iter().flat_map(ask).collect();
    let mut settings = select(&db, "SELECT * FROM ca_settings_info ORDER BY RowID DESC LIMIT 1", &[]);
    clear_row_ids(&mut settings);
    all.push(settings);
    all.push(select(
        &db,
        "SELECT * FROM event_info WHERE Reason = 'TriggeredScaleUp' ORDER BY EventTime, UID",
        &[],
    ));
    all
}

#[test]
fn an_exported_file_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    for history in recorded_cases() {
        let (once, _) = write(folder.path(), "once.db", &history.changes, &[]);
        // After an object that it could not parse, the recorder repeats its latest row.
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
        assert!(rows(&twice) == rows(&thrice), "the second export differs");
        let (mut first, mut second) = (rows(&once), rows(&twice));
        // A recording begins with its first change, which the recorder may not have stored.
        first.remove("recorder_state_info");
        assert_eq!(second.remove("recorder_state_info").unwrap().len(), 1);
        for table in TABLES {
            let (first, second) =
                (first.entry(table.to_owned()).or_default(), second.entry(table.to_owned()).or_default());
            for rows in [&mut *first, second] {
                normalize_amounts(rows);
                clear_row_ids(rows);
            }
            for (first, second) in first.iter().zip(second.iter()) {
                assert_eq!(first, second, "{table}");
            }
            assert_eq!(first.len(), second.len(), "{table}");
        }
        let (begin, end) = (history.changes[0].at, history.changes.last().unwrap().at);
        let step = end.nanos_since(begin) / 40_000;
        let moments: Vec<i64> = (-2..44).map(|index| begin.nanos() / 1_000 + index * step).collect();
        for (one, other) in query_moments(&once, &moments).iter().zip(query_moments(&twice, &moments)) {
            assert_eq!(*one, other);
        }
        for path in [once, twice, thrice] {
            std::fs::remove_file(path).unwrap();
        }
    }
}

/// A file as the recorder creates it, with these statements executed on it.
fn database_with(folder: &Path, name: &str, sql: &str) -> PathBuf {
    let (path, _) = write(folder, name, &recorded_cases()[0].changes, &[]);
    let db = Connection::open(&path).unwrap();
    db.execute_batch(sql).unwrap();
    path
}

#[test]
fn a_file_of_milliseconds_is_read_without_phases_and_volumes_come_with_the_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let path = database_with(
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
    let warnings: Vec<&ImportItem> =
        items.iter().filter(|item| matches!(item, ImportItem::Warning(_))).collect();
    assert_eq!(
        warnings,
        [
            &ImportItem::Warning("file.db has no table pc_info".to_owned()),
            &ImportItem::Warning("file.db has no table csi_node_info".to_owned())
        ]
    );
    let (changes, _) = changes(&items);
    let shown = |change: &Change| format!("{} {} {}", change.at, change.what.event_type(), change.key);
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
fn an_object_is_deleted_before_the_next_of_its_name_is_added() {
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
    let path = database_with(folder.path(), "a.db", &sql.concat());
    let (imported, gaps) = changes(&read(&path).unwrap());
    let shown: Vec<String> = imported
        .iter()
        .filter(|change| &*change.key.kind.kind == "Pod")
        .map(|change| {
            let object = change.what.object();
            format!("{} {} {}", change.at, change.what.event_type(), object.meta().uid.unwrap())
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
fn a_second_start_is_a_gap_and_round_trips() {
    let folder = tempfile::tempdir().unwrap();
    let history = &recorded_cases()[0];
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
    let place = items.iter().position(|item| matches!(item, ImportItem::Gap(_))).unwrap();
    let ImportItem::Gap(found) = &items[place] else { unreachable!() };
    assert_eq!((found.to, &*found.why), (half, "recorder restarted"));
    let ImportItem::Change(before) = &items[place - 1] else { panic!("{:?}", items[place - 1]) };
    assert_eq!(found.from, before.seen);
    let (_, gaps) = changes(&items);
    assert_eq!(gaps.len(), 1);

    let db = Connection::open(&path).unwrap();
    db.execute_batch("INSERT INTO recorder_state_info SELECT min(BeginTimestamp) FROM recorder_state_info")
        .unwrap();
    drop(db);
    let items = read(&path).unwrap();
    assert!(
        matches!(&items[0], ImportItem::Warning(text) if text.contains("reconnected 1 times")),
        "{:?}",
        items[0]
    );
}

#[test]
fn a_file_that_is_being_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write(folder.path(), "a.db", &recorded_cases()[0].changes, &[]);
    let before = read(&path).unwrap();
    let db = Connection::open(&path).unwrap();
    db.execute_batch("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; DELETE FROM node_info")
        .unwrap();
    assert!(folder.path().join("a.db-wal").metadata().unwrap().len() > 0);
    let after = read(&path).unwrap();
    let nodes = |items: &[ImportItem]| {
        items
            .iter()
            .filter(|item| matches!(item, ImportItem::Change(change) if &*change.key.kind.kind == "Node"))
            .count()
    };
    assert!(nodes(&before) > 0);
    assert_eq!(nodes(&after), 0);
    drop(db);
    // A file left in WAL mode by a recorder that ended cleanly is read without creating files beside it.
    read(&path).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn two_clusters_do_not_go_into_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = scaling_history::ScalingHistoryWriter::create(&folder.path().join("a.db")).unwrap();
    let change = recorded_cases()[0].changes[0].clone();
    writer.change(&change).unwrap();
    let mut other = change;
    other.key.source = "other".into();
    let error = writer.change(&other).unwrap_err().to_string();
    assert!(error.contains("garden and other"), "{error}");
}
