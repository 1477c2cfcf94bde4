//! Tests of damaged and malicious files.

use super::*;

#[track_caller]
fn refused(sql: &str, message: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = database_with(folder.path(), "a.db", sql);
    let error = read(&path).expect_err(sql);
    assert!(error.contains(message), "{error:?} should say {message:?}");
}

#[test]
fn errors_in_a_row_have_their_position() {
    let one = "DELETE FROM pod_info WHERE RowID <> (SELECT min(RowID) FROM pod_info); UPDATE pod_info SET RowID = 7;";
    let pod = |set: &str, message: &str| refused(&format!("{one} UPDATE pod_info SET {set}"), message);
    pod(
        "SnapshotTimestamp = 'soon'",
        "file.db, pod_info, row 7, column SnapshotTimestamp: expected an integer, found a string",
    );
    pod(
        "SnapshotTimestamp = 9223372036854775807",
        "pod_info, row 7, column SnapshotTimestamp: invalid time 9223372036854775807",
    );
    pod(
        "SnapshotTimestamp = 9223372036854775808",
        "column SnapshotTimestamp: expected an integer, found a non-integer or too large number",
    );
    pod("CreationTimestamp = x'00'", "column CreationTimestamp: expected an integer, found bytes");
    pod("DeletionTimestamp = 'x'", "column DeletionTimestamp: expected an integer, found a string");
    pod("Name = NULL", "row 7, column Name: expected a string, found NULL");
    pod("Name = x'ff'", "row 7, column Name: expected a string, found bytes");
    pod("Name = CAST(x'ff' AS TEXT)", "row 7, column Name: not UTF-8");
    pod("Name = '../x'", "pod_info, row 7: \"../x\" is not a valid name");
    pod("Spec = '[]'", "row 7, column Spec: not an object");
    pod("Spec = '{\"containers\":[1]}'", "row 7, column Spec: containers is not a list of objects");
    pod("Spec = '{'", "row 7, column Spec: not JSON");
    pod("Spec = NULL", "row 7, column Spec: expected a string, found NULL");
    pod("Labels = '{\"a\":1}'", "row 7, column Labels: invalid type");
    pod("ScheduleStatus = -2", "row 7, column ScheduleStatus: unknown value -2");
    pod("Labels = printf('%.*c', 100000000, 'x')", "row 7: value longer than 64 MiB");
    refused(
        "UPDATE node_info SET Capacity = '{\"cpu\":\"much\"}'",
        "column Capacity: invalid quantity \"much\"",
    );
    refused("UPDATE node_info SET Taints = '[1]'", "column Taints: invalid type");
    refused("UPDATE event_info SET EventTime = 'soon'", "column EventTime: invalid time \"soon\"");
    refused("UPDATE event_info SET EventTime = 5", "column EventTime: expected a string, found an integer");
    refused(
        "UPDATE ca_settings_info SET NodeGroupsMinMax = '{\"a\":{\"Min\":1}}'",
        "column NodeGroupsMinMax: missing field `Max`",
    );
    refused("UPDATE ca_settings_info SET IgnoreDaemonSetUtilization = 7", "expected 0 or 1, found 7");
    refused(
        "UPDATE recorder_state_info SET BeginTimestamp = 'x'",
        "recorder_state_info, row 1, column BeginTimestamp",
    );
}

#[test]
fn views_and_virtual_tables_are_refused() {
    refused(
        "ALTER TABLE pod_info RENAME TO pods; CREATE VIEW pod_info AS SELECT * FROM pods",
        "pod_info is a view, not a table",
    );
    refused(
        "DROP TABLE node_info; CREATE VIRTUAL TABLE node_info USING fts5(Name)",
        "node_info is a virtual table, not a table",
    );
    refused("ALTER TABLE node_info DROP COLUMN Labels", "table node_info: column Labels is missing");
    refused(
        "ALTER TABLE node_info DROP COLUMN Labels; ALTER TABLE node_info ADD COLUMN Labels TEXT AS (Name)",
        "column Labels is computed, not stored",
    );
    refused(
        "DROP TABLE node_info; CREATE TABLE node_info AS SELECT *, 0 AS ProviderID, '' AS Labels, '' AS Taints,
         '' AS Allocatable, '' AS Capacity FROM csi_node_info",
        "column RowID is not the INTEGER PRIMARY KEY",
    );
    refused(
        "CREATE TABLE nodegroup_info (a)",
        "scaling histories from before 2024-06-24 (tables nodegroup_info, event_nodegroup_assoc)",
    );
    let all: String = TABLES.iter().map(|table| format!("DROP TABLE {table};")).collect();
    refused(
        &format!("{all} CREATE TABLE t (a)"),
        "not a scaling history: none of the tables recorder_state_info, pc_info",
    );
    // A trigger never fires, as nothing is written.
    let folder = tempfile::tempdir().unwrap();
    let trigger = "CREATE TRIGGER t AFTER INSERT ON pod_info BEGIN DELETE FROM node_info; END";
    read(&database_with(folder.path(), "a.db", trigger)).unwrap();
}

#[test]
fn a_truncated_or_corrupted_file_is_refused_or_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = write(folder.path(), "a.db", &recorded_cases()[0].changes, &[]);
    let whole = std::fs::read(&path).unwrap();
    let seed = 5;
    println!("seed {seed}");
    let mut rng = rand_pcg::Pcg64::seed_from_u64(seed);
    let mut refused = 0;
    for round in 0..300 {
        let mut bytes = whole.clone();
        if round % 3 == 0 {
            bytes.truncate(rng.random_range(0..whole.len()));
        } else {
            for _ in 0..rng.random_range(1..40) {
                let index = rng.random_range(0..bytes.len());
                bytes[index] = rng.random();
            }
        }
        let path = folder.path().join("b.db");
        std::fs::write(&path, &bytes).unwrap();
        refused += u32::from(read(&path).is_err());
        // The same from a stream instead of a file.
        let input = Input::open("file.db", Box::new(std::io::Cursor::new(bytes))).unwrap();
        let _ = formats::read(input, Format::ScalingHistory, read_options()).map(|items| items.count());
    }
    assert!(refused > 100, "{refused}");
}
