//! The tables of an untrusted database: those that exist, and checked access to their cells.

use std::collections::BTreeSet;
use std::path::Path;

use model::Moment;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use super::timestamps;
use crate::{Error, MAX_VALUE_BYTES, Result};

/// A table that is read. The order is that of rows with the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Table {
    RecorderState,
    PriorityClass,
    WorkerPool,
    MachineClass,
    MachineDeployment,
    Settings,
    CsiNode,
    Node,
    Pod,
    Event,
}

/// The tables of one file.
pub(super) struct HistoryDatabase {
    pub(super) db: Connection,
    pub(super) file: String,
    present_tables: BTreeSet<Table>,
    /// Columns of later layouts that this file does not have.
    missing_columns: BTreeSet<&'static str>,
}

/// One row, accessed by column name.
pub(super) struct RowCells<'a> {
    file: &'a str,
    table: Table,
    pub(super) row: i64,
    columns: &'a [&'static str],
    cells: &'a rusqlite::Row<'a>,
}

/// Tables of the layout before 2024-06-24.
const UNSUPPORTED_TABLES: [&str; 2] = ["nodegroup_info", "event_nodegroup_assoc"];

/// Columns that were added in later layouts.
const LATER_COLUMNS: [&str; 2] = ["Phase", "NodeGroupsMinMax"];

// === impl Table ===

impl Table {
    pub(super) const ALL: [Table; 10] = [
        Table::RecorderState,
        Table::PriorityClass,
        Table::WorkerPool,
        Table::MachineClass,
        Table::MachineDeployment,
        Table::Settings,
        Table::CsiNode,
        Table::Node,
        Table::Pod,
        Table::Event,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Table::RecorderState => "recorder_state_info",
            Table::PriorityClass => "pc_info",
            Table::WorkerPool => "worker_pool_info",
            Table::MachineClass => "mcc_info",
            Table::MachineDeployment => "mcd_info",
            Table::Settings => "ca_settings_info",
            Table::CsiNode => "csi_node_info",
            Table::Node => "node_info",
            Table::Pod => "pod_info",
            Table::Event => "event_info",
        }
    }

    /// The columns that are read.
    #[rustfmt::skip] // One per line they would fill pages.
    pub(super) fn columns(self) -> &'static [&'static str] {
        match self {
            Table::RecorderState => &["BeginTimestamp"],
            Table::PriorityClass => &[
                "CreationTimestamp", "SnapshotTimestamp", "Name", "UID", "Value", "GlobalDefault",
                "PreemptionPolicy", "Description", "Labels", "DeletionTimestamp",
            ],
            Table::WorkerPool => &[
                "CreationTimestamp", "SnapshotTimestamp", "Name", "Namespace", "MachineType", "Architecture",
                "Minimum", "Maximum", "MaxSurge", "MaxUnavailable", "Zones", "DeletionTimestamp",
            ],
            Table::MachineClass => &[
                "CreationTimestamp", "SnapshotTimestamp", "Name", "Namespace", "InstanceType", "PoolName", "Region",
                "Zone", "Labels", "Capacity", "DeletionTimestamp",
            ],
            Table::MachineDeployment => &[
                "CreationTimestamp", "SnapshotTimestamp", "Name", "Namespace", "Replicas", "PoolName", "Zone",
                "MaxSurge", "MaxUnavailable", "MachineClassName", "Labels", "Taints", "DeletionTimestamp",
            ],
            Table::Settings => &[
                "SnapshotTimestamp", "Expander", "ScanInterval", "MaxNodeProvisionTime",
                "MaxGracefulTerminationSeconds", "NewPodScaleUpDelay", "MaxEmptyBulkDelete",
                "IgnoreDaemonSetUtilization", "MaxNodesTotal", "NodeGroupsMinMax", "Priorities",
            ],
            Table::CsiNode => &[
                "CreationTimestamp", "SnapshotTimestamp", "Name", "Namespace", "AllocatableVolumes",
                "DeletionTimestamp",
            ],
            Table::Node => &[
                "CreationTimestamp", "SnapshotTimestamp", "Name", "Namespace", "ProviderID", "AllocatableVolumes",
                "Labels", "Taints", "Allocatable", "Capacity", "DeletionTimestamp",
            ],
            Table::Pod => &[
                "CreationTimestamp", "SnapshotTimestamp", "Name", "Namespace", "UID", "NodeName",
                "NominatedNodeName", "Phase", "Labels", "Requests", "Spec", "ScheduleStatus", "DeletionTimestamp",
            ],
            Table::Event => &[
                "UID", "EventTime", "ReportingController", "Reason", "Message", "InvolvedObjectKind",
                "InvolvedObjectName", "InvolvedObjectNamespace", "InvolvedObjectUID",
            ],
        }
    }

    /// Whether it has an explicit `RowID` column.
    fn has_row_column(self) -> bool {
        !matches!(self, Table::RecorderState | Table::Event)
    }
}

// === impl HistoryDatabase ===

impl HistoryDatabase {
    /// Opens a file and checks that it is a scaling history, and that its tables are real tables.
    pub(super) fn open(path: &Path, file: &str) -> Result<HistoryDatabase> {
        let db = connect(path).map_err(|error| not_sqlite(file, &error))?;
        let mut tables = HistoryDatabase {
            db,
            file: file.to_owned(),
            present_tables: BTreeSet::new(),
            missing_columns: BTreeSet::new(),
        };
        let found = tables.schema_entries().map_err(|error| not_sqlite(file, &error))?;
        let named = |name: &str| found.iter().find(|(found, ..)| found.eq_ignore_ascii_case(name));
        if UNSUPPORTED_TABLES.iter().any(|name| named(name).is_some()) {
            let why = format!(
                "scaling histories from before 2024-06-24 (tables {}) are not supported",
                UNSUPPORTED_TABLES.join(", ")
            );
            return Err(Error::invalid_file(file, why));
        }
        for table in Table::ALL {
            let Some((_, kind, page)) = named(table.name()) else { continue };
            // A view or a virtual table could run code that the file chooses; only real tables have a root page.
            if kind != "table" || *page <= 0 {
                let kind = if kind == "table" { "virtual table" } else { kind };
                return Err(Error::invalid_file(file, format!("{} is a {kind}, not a table", table.name())));
            }
            tables.check_columns(table)?;
            tables.present_tables.insert(table);
        }
        if tables.present_tables.is_empty() {
            let names: Vec<&str> = Table::ALL.iter().map(|table| table.name()).collect();
            let why = format!("not a scaling history: none of the tables {} found", names.join(", "));
            return Err(Error::invalid_file(file, why));
        }
        Ok(tables)
    }

    pub(super) fn has(&self, table: Table) -> bool {
        self.present_tables.contains(&table)
    }

    /// The tables that do not exist.
    pub(super) fn missing_tables(&self) -> impl Iterator<Item = Table> {
        Table::ALL.into_iter().filter(|table| !self.present_tables.contains(table))
    }

    /// Calls `handle_row` with the given columns of every row.
    pub(super) fn for_each_row(
        &self,
        table: Table,
        columns: &[&'static str],
        order: &str,
        mut handle_row: impl FnMut(RowCells<'_>) -> Result<()>,
    ) -> Result<()> {
        if !self.has(table) {
            return Ok(());
        }
        let sql = format!("SELECT RowID, {} FROM {} ORDER BY {order}", columns.join(", "), table.name());
        let mut select = self.db.prepare(&sql).map_err(|error| self.table_error(table, &error))?;
        let mut rows = select.query([]).map_err(|error| self.table_error(table, &error))?;
        while let Some(cells) = rows.next().map_err(|error| self.table_error(table, &error))? {
            let row = match cells.get_ref(0) {
                Ok(ValueRef::Integer(row)) => row,
                _ => return Err(Error::invalid_at(&self.file, table.name(), "RowID is not an integer")),
            };
            handle_row(RowCells { file: &self.file, table, row, columns, cells })?;
        }
        Ok(())
    }

    /// Calls `handle_row` with one row and all columns that are read.
    pub(super) fn with_row<T>(
        &self,
        table: Table,
        row: i64,
        handle_row: impl FnOnce(&RowCells<'_>) -> Result<T>,
    ) -> Result<T> {
        let location = || format!("{}, row {row}", table.name());
        let fail = |error: &rusqlite::Error| Error::invalid_at(&self.file, location(), sqlite_message(error));
        let columns = table.columns();
        let select: Vec<&str> = columns
            .iter()
            .map(|column| if self.missing_columns.contains(column) { "''" } else { column })
            .collect();
        let sql = format!("SELECT RowID, {} FROM {} WHERE RowID = ?", select.join(", "), table.name());
        let mut select = self.db.prepare_cached(&sql).map_err(|error| fail(&error))?;
        let mut rows = select.query([row]).map_err(|error| fail(&error))?;
        match rows.next().map_err(|error| fail(&error))? {
            Some(cells) => handle_row(&RowCells { file: &self.file, table, row, columns, cells }),
            None => {
                Err(Error::invalid_at(&self.file, location(), "the row has disappeared: the file is damaged"))
            }
        }
    }

    /// The name, type and root page of the schema's entries.
    fn schema_entries(&self) -> rusqlite::Result<Vec<(String, String, i64)>> {
        // A transaction gives a consistent view while a recorder is running.
        self.db.execute_batch("BEGIN")?;
        let names = Table::ALL.iter().map(|table| table.name()).chain(UNSUPPORTED_TABLES);
        let names: Vec<String> = names.map(|name| format!("'{name}'")).collect();
        let sql = format!(
            "SELECT name, type, ifnull(rootpage, 0) FROM sqlite_schema
             WHERE lower(name) IN ({}) AND type IN ('table', 'view')",
            names.join(", ")
        );
        let mut select = self.db.prepare(&sql)?;
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        rows.collect()
    }

    fn check_columns(&mut self, table: Table) -> Result<()> {
        let read = || -> rusqlite::Result<Vec<(String, String, i64, i64)>> {
            let mut select = self.db.prepare("SELECT name, type, pk, hidden FROM pragma_table_xinfo(?)")?;
            let rows = select
                .query_map([table.name()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?;
            rows.collect()
        };
        let found = read().map_err(|error| self.table_error(table, &error))?;
        let rows = table.has_row_column().then_some("RowID");
        for &column in table.columns().iter().chain(rows.as_slice()) {
            let invalid = |why: &str| {
                Error::invalid_file(&self.file, format!("table {}: column {column} {why}", table.name()))
            };
            match found.iter().find(|(name, ..)| name.eq_ignore_ascii_case(column)) {
                None if LATER_COLUMNS.contains(&column) => drop(self.missing_columns.insert(column)),
                None => return Err(invalid("is missing")),
                Some((.., hidden)) if *hidden != 0 => return Err(invalid("is computed, not stored")),
                Some((_, kind, key, _))
                    if column == "RowID" && !(kind.eq_ignore_ascii_case("INTEGER") && *key == 1) =>
                {
                    return Err(invalid("is not the INTEGER PRIMARY KEY"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn table_error(&self, table: Table, error: &rusqlite::Error) -> Error {
        Error::invalid_at(&self.file, table.name(), sqlite_message(error))
    }
}

fn connect(path: &Path) -> rusqlite::Result<Connection> {
    let sidecar = |suffix: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        Path::new(&name).exists()
    };
    let read = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = if sidecar("-wal") || sidecar("-journal") {
        Connection::open_with_flags(path, read)?
    } else {
        // No program has it open. With `immutable` SQLite does not create files beside it, as it would in WAL mode and
        // could not on a read-only file system.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let name = path.to_string_lossy().replace('%', "%25").replace('?', "%3f").replace('#', "%23");
        let name = name.trim_start_matches('/');
        Connection::open_with_flags(format!("file:///{name}?immutable=1"), read | OpenFlags::SQLITE_OPEN_URI)?
    };
    db.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES as i32)?;
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    db.execute_batch("PRAGMA trusted_schema = OFF; PRAGMA busy_timeout = 10000; PRAGMA cache_size = -16384")?;
    Ok(db)
}

fn not_sqlite(file: &str, error: &rusqlite::Error) -> Error {
    Error::invalid_file(file, format!("not a readable SQLite database: {}", sqlite_message(error)))
}

fn sqlite_message(error: &rusqlite::Error) -> String {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::TooBig) => format!("value longer than {} MiB", MAX_VALUE_BYTES >> 20),
        _ => error.to_string(),
    }
}

// === impl RowCells ===

impl RowCells<'_> {
    /// A text. No column but `DeletionTimestamp` may be NULL.
    pub(super) fn text(&self, column: &str) -> Result<&str> {
        match self.cell(column)? {
            ValueRef::Text(bytes) => {
                std::str::from_utf8(bytes).map_err(|_| self.column_error(column, "not UTF-8"))
            }
            other => Err(self.column_error(column, format!("expected a string, found {}", type_name(other)))),
        }
    }

    pub(super) fn string(&self, column: &str) -> Result<String> {
        self.text(column).map(str::to_owned)
    }

    pub(super) fn number(&self, column: &str) -> Result<i64> {
        match self.cell(column)? {
            ValueRef::Integer(number) => Ok(number),
            other => {
                Err(self.column_error(column, format!("expected an integer, found {}", type_name(other))))
            }
        }
    }

    pub(super) fn time(&self, column: &str) -> Result<Option<Moment>> {
        timestamps::parse_number(self.number(column)?).map_err(|why| self.column_error(column, why))
    }

    /// A time that may be NULL.
    pub(super) fn optional_time(&self, column: &str) -> Result<Option<Moment>> {
        match self.cell(column)? {
            ValueRef::Null => Ok(None),
            _ => self.time(column),
        }
    }

    /// The JSON in a text; an empty text is `null`.
    pub(super) fn json(&self, column: &str) -> Result<Value> {
        let text = self.text(column)?;
        if text.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(text).map_err(|error| self.column_error(column, format!("not JSON: {error}")))
    }

    pub(super) fn column_error(&self, column: &str, why: impl Into<String>) -> Error {
        Error::invalid_at(
            self.file,
            format_args!("{}, row {}, column {column}", self.table.name(), self.row),
            why,
        )
    }

    /// An error about the row as a whole.
    pub(super) fn row_error(&self, why: impl Into<String>) -> Error {
        Error::invalid_at(self.file, format_args!("{}, row {}", self.table.name(), self.row), why)
    }

    fn cell(&self, column: &str) -> Result<ValueRef<'_>> {
        let index = self.columns.iter().position(|name| *name == column);
        let index = index.expect("only requested columns are read") + 1;
        self.cells.get_ref(index).map_err(|error| self.column_error(column, sqlite_message(&error)))
    }
}

fn type_name(value: ValueRef<'_>) -> &'static str {
    match value {
        ValueRef::Null => "NULL",
        ValueRef::Integer(_) => "an integer",
        ValueRef::Real(_) => "a non-integer or too large number",
        ValueRef::Text(_) => "a string",
        ValueRef::Blob(_) => "bytes",
    }
}
