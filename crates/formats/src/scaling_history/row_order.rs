//! The order of rows: by time over all tables, each object's rows in the order they were written.

use model::Moment;
use rusqlite::{Connection, params};

use super::tables::{HistoryDatabase, RowCells, Table};
use super::timestamps;
use crate::{Error, Result};

/// How many entries are read at once.
const PAGE_SIZE: usize = 1_000;

/// The changes that rows stand for, sorted on disk in a temporary SQLite database. It contains no text of the file.
pub(super) struct RowOrder {
    db: Connection,
    file: String,
    position: SortKey,
    page: std::vec::IntoIter<RowChange>,
    /// The recorder's first start. Rows with an earlier time were observed then.
    pub(super) first_start: Option<Moment>,
    /// Starts recorded with the time of an earlier one.
    pub(super) untimed_starts: u64,
}

/// The sort key of a change: time, table, row, and whether it is the row's deletion.
type SortKey = (i64, i64, i64, i64);

/// A change that a row stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowChange {
    pub(super) at: Moment,
    pub(super) table: Table,
    pub(super) row: i64,
    pub(super) change_type: RowChangeType,
}

/// The type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowChangeType {
    Added,
    Modified,
    Deleted,
}

/// The columns of a row that determine its position in time.
struct RowTimes {
    number: i64,
    namespace: String,
    name: String,
    /// Distinguishes objects of the same name: the uid, or the time of creation where there is none.
    incarnation: String,
    changed: Option<Moment>,
    deleted: Option<Moment>,
}

// === impl RowOrder ===

impl RowOrder {
    /// Reads the times of all rows.
    pub(super) fn build(tables: &HistoryDatabase) -> Result<RowOrder> {
        let file = tables.file.clone();
        let make = || -> rusqlite::Result<Connection> {
            let db = Connection::open("")?;
            db.execute_batch(
                "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
                 CREATE TABLE plan (at INTEGER, rank INTEGER, row INTEGER, step INTEGER, what INTEGER,
                    PRIMARY KEY (at, rank, row, step)) WITHOUT ROWID;
                 BEGIN",
            )?;
            Ok(db)
        };
        let db = make().map_err(|error| cannot_sort(&file, &error))?;
        let first = (i64::MIN, i64::MIN, i64::MIN, i64::MIN);
        let mut plan = RowOrder {
            db,
            file,
            position: first,
            page: Vec::new().into_iter(),
            first_start: None,
            untimed_starts: 0,
        };
        plan.add_starts(tables)?;
        for table in Table::ALL {
            match table {
                Table::RecorderState => {}
                Table::Settings => plan.add_settings(tables)?,
                Table::Event => plan.add_events(tables)?,
                _ => plan.add_objects(tables, table)?,
            }
        }
        plan.db.execute_batch("COMMIT").map_err(|error| cannot_sort(&plan.file, &error))?;
        Ok(plan)
    }

    /// A start after the first ends a time in which no recorder ran.
    fn add_starts(&mut self, tables: &HistoryDatabase) -> Result<()> {
        let mut last = None;
        tables.for_each_row(Table::RecorderState, Table::RecorderState.columns(), "BeginTimestamp", |cells| {
            let Some(at) = cells.time("BeginTimestamp")? else { return Ok(()) };
            match last {
                None => self.first_start = Some(at),
                // A recorder that reconnects records its first start again.
                Some(last) if last == at => self.untimed_starts += 1,
                Some(_) => {
                    self.insert(RowChange {
                        at,
                        table: Table::RecorderState,
                        row: cells.row,
                        change_type: RowChangeType::Added,
                    })?;
                }
            }
            last = Some(at);
            Ok(())
        })
    }

    /// Adds the rows of each object in turn. An object is deleted before the next one of its name is added, whatever
    /// its deletion timestamp: that of a pod lies ahead by its grace period.
    fn add_objects(&mut self, tables: &HistoryDatabase, table: Table) -> Result<()> {
        let (columns, order): (&[&'static str], &str) = match table {
            Table::PriorityClass => (
                &["CreationTimestamp", "SnapshotTimestamp", "DeletionTimestamp", "Name", "UID"],
                "Name COLLATE BINARY, RowID",
            ),
            Table::Pod => (
                &["CreationTimestamp", "SnapshotTimestamp", "DeletionTimestamp", "Name", "Namespace", "UID"],
                "Namespace COLLATE BINARY, Name COLLATE BINARY, RowID",
            ),
            _ => (
                &["CreationTimestamp", "SnapshotTimestamp", "DeletionTimestamp", "Name", "Namespace"],
                "Namespace COLLATE BINARY, Name COLLATE BINARY, RowID",
            ),
        };
        let mut previous: Option<(RowTimes, Moment)> = None;
        tables.for_each_row(table, columns, order, |cells| {
            let row = RowTimes::read(&cells, table)?;
            let own = previous
                .take_if(|(previous, _)| previous.namespace == row.namespace && previous.name == row.name);
            if let Some((previous, at)) = previous.take() {
                self.add_deletion(table, &previous, at, Moment::MAX)?;
            }
            let floor = own.as_ref().map(|(_, at)| *at).max(self.first_start);
            let Some(at) = row.changed.max(floor) else {
                return Err(cells.column_error("SnapshotTimestamp", "the row has no time"));
            };
            let goes_on = match &own {
                Some((previous, _))
                    if previous.incarnation == row.incarnation && previous.deleted == row.deleted =>
                {
                    true
                }
                Some((previous, before_at)) => {
                    self.add_deletion(table, previous, *before_at, at)?;
                    previous.incarnation == row.incarnation && previous.deleted.is_none()
                }
                None => false,
            };
            let change_type = if goes_on { RowChangeType::Modified } else { RowChangeType::Added };
            self.insert(RowChange { at, table, row: row.number, change_type })?;
            previous = Some((row, at));
            Ok(())
        })?;
        match previous {
            Some((row, at)) => self.add_deletion(table, &row, at, Moment::MAX),
            None => Ok(()),
        }
    }

    /// Adds the deletion of an object, if it is recorded, no later than `latest`.
    fn add_deletion(&self, table: Table, row: &RowTimes, at: Moment, latest: Moment) -> Result<()> {
        let Some(deleted) = row.deleted else { return Ok(()) };
        self.insert(RowChange {
            at: deleted.max(at).min(latest),
            table,
            row: row.number,
            change_type: RowChangeType::Deleted,
        })
    }

    fn add_settings(&mut self, tables: &HistoryDatabase) -> Result<()> {
        let mut last = self.first_start;
        tables.for_each_row(Table::Settings, &["SnapshotTimestamp"], "RowID", |cells| {
            last = last.max(cells.time("SnapshotTimestamp")?);
            let at = last.ok_or_else(|| cells.column_error("SnapshotTimestamp", "the row has no time"))?;
            self.insert(RowChange {
                at,
                table: Table::Settings,
                row: cells.row,
                change_type: RowChangeType::Added,
            })
        })
    }

    fn add_events(&mut self, tables: &HistoryDatabase) -> Result<()> {
        tables.for_each_row(Table::Event, &["EventTime"], "RowID", |cells| {
            let at = timestamps::parse_text(cells.text("EventTime")?)
                .map_err(|why| cells.column_error("EventTime", why))?;
            let at = at.max(self.first_start.unwrap_or(at));
            self.insert(RowChange {
                at,
                table: Table::Event,
                row: cells.row,
                change_type: RowChangeType::Added,
            })
        })
    }

    fn insert(&self, step: RowChange) -> Result<()> {
        let put = || -> rusqlite::Result<()> {
            let mut insert = self.db.prepare_cached("INSERT INTO plan VALUES (?, ?, ?, ?, ?)")?;
            let end = i64::from(step.change_type == RowChangeType::Deleted);
            let (rank, change_type) = (step.table as i64, step.change_type as i64);
            insert.execute(params![step.at.nanos(), rank, step.row, end, change_type]).map(drop)
        };
        put().map_err(|error| cannot_sort(&self.file, &error))
    }

    /// The next change.
    pub(super) fn next(&mut self) -> Result<Option<RowChange>> {
        if self.page.as_slice().is_empty() {
            let page = self.read_page().map_err(|error| cannot_sort(&self.file, &error))?;
            self.page = page.into_iter();
        }
        Ok(self.page.next())
    }

    fn read_page(&mut self) -> rusqlite::Result<Vec<RowChange>> {
        let mut select = self.db.prepare_cached(
            "SELECT at, rank, row, step, what FROM plan WHERE (at, rank, row, step) > (?, ?, ?, ?)
             ORDER BY at, rank, row, step LIMIT ?",
        )?;
        let (at, rank, row, step) = self.position;
        let mut rows = select.query(params![at, rank, row, step, PAGE_SIZE as i64])?;
        let mut page = Vec::new();
        while let Some(found) = rows.next()? {
            self.position = (found.get(0)?, found.get(1)?, found.get(2)?, found.get(3)?);
            let (at, rank, row, _) = self.position;
            let change_type = match found.get(4)? {
                0 => RowChangeType::Added,
                1 => RowChangeType::Modified,
                _ => RowChangeType::Deleted,
            };
            page.push(RowChange {
                at: Moment::from_nanos(at),
                table: Table::ALL[rank as usize],
                row,
                change_type,
            });
        }
        Ok(page)
    }
}

// === impl RowTimes ===

impl RowTimes {
    fn read(cells: &RowCells<'_>, table: Table) -> Result<RowTimes> {
        let (namespaced, has_uid) = match table {
            Table::PriorityClass => (false, true),
            Table::Pod => (true, true),
            _ => (true, false),
        };
        let created = cells.time("CreationTimestamp")?;
        Ok(RowTimes {
            number: cells.row,
            namespace: if namespaced { cells.string("Namespace")? } else { String::new() },
            name: cells.string("Name")?,
            incarnation: if has_uid { cells.string("UID")? } else { format!("{created:?}") },
            changed: cells.time("SnapshotTimestamp")?.max(created),
            deleted: cells.optional_time("DeletionTimestamp")?,
        })
    }
}

fn cannot_sort(file: &str, error: &rusqlite::Error) -> Error {
    let source = std::io::Error::other(error.to_string());
    Error::Io { doing: "sort the rows of", file: file.to_owned(), source }
}
