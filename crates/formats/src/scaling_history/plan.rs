//! The order in which rows are told: by time over all tables, each object's rows in the order they were written.

use model::Moment;
use rusqlite::{Connection, params};

use super::tables::{Cells, Table, Tables};
use super::times;
use crate::{Error, Result};

/// How many steps are read at once.
const PAGE: usize = 1_000;

/// What to tell, in a database of its own: SQLite puts it in order on disk, and no word of the file gets into it.
pub(super) struct Plan {
    db: Connection,
    file: String,
    after: Place,
    page: std::vec::IntoIter<Step>,
    /// When the recorder was first started: what it found then, it saw then, whatever time the rows carry.
    pub(super) began: Option<Moment>,
    /// Starts that carry the time of an earlier one.
    pub(super) untimed_starts: u64,
}

/// Where a step is in the order: time, table, row, and whether the row's end.
type Place = (i64, i64, i64, i64);

/// One thing to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    pub(super) at: Moment,
    pub(super) table: Table,
    pub(super) row: i64,
    pub(super) what: Word,
}

/// What a row tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Added,
    Modified,
    Deleted,
}

/// A row as far as its place in time goes.
struct Row {
    number: i64,
    namespace: String,
    name: String,
    /// Separates the lives of a name: the uid, or the time of creation where there is none.
    life: String,
    changed: Option<Moment>,
    deleted: Option<Moment>,
}

// === impl Plan ===

impl Plan {
    /// Looks at the times of all rows.
    pub(super) fn make(tables: &Tables) -> Result<Plan> {
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
        let mut plan =
            Plan { db, file, after: first, page: Vec::new().into_iter(), began: None, untimed_starts: 0 };
        plan.starts(tables)?;
        for table in Table::ALL {
            match table {
                Table::Begin => {}
                Table::Settings => plan.settings(tables)?,
                Table::Event => plan.events(tables)?,
                _ => plan.lives(tables, table)?,
            }
        }
        plan.db.execute_batch("COMMIT").map_err(|error| cannot_sort(&plan.file, &error))?;
        Ok(plan)
    }

    /// A start after the first ends a time in which nobody watched.
    fn starts(&mut self, tables: &Tables) -> Result<()> {
        let mut last = None;
        tables.each(Table::Begin, Table::Begin.columns(), "BeginTimestamp", |cells| {
            let Some(at) = cells.time("BeginTimestamp")? else { return Ok(()) };
            match last {
                None => self.began = Some(at),
                // Connecting anew, a recorder writes down its first start once more.
                Some(last) if last == at => self.untimed_starts += 1,
                Some(_) => {
                    self.put(Step { at, table: Table::Begin, row: cells.row, what: Word::Added })?;
                }
            }
            last = Some(at);
            Ok(())
        })
    }

    /// The rows of each object in turn. A life ends before the next of that name begins, whatever the time of its
    /// deletion says: that of a pod lies ahead by its grace period.
    fn lives(&mut self, tables: &Tables, table: Table) -> Result<()> {
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
        let mut before: Option<(Row, Moment)> = None;
        tables.each(table, columns, order, |cells| {
            let row = Row::read(&cells, table)?;
            let own =
                before.take_if(|(before, _)| before.namespace == row.namespace && before.name == row.name);
            if let Some((before, at)) = before.take() {
                self.end(table, &before, at, Moment::MAX)?;
            }
            let floor = own.as_ref().map(|(_, at)| *at).max(self.began);
            let Some(at) = row.changed.max(floor) else {
                return Err(cells.bad("SnapshotTimestamp", "the row has no time"));
            };
            let goes_on = match &own {
                Some((before, _)) if before.life == row.life && before.deleted == row.deleted => true,
                Some((before, before_at)) => {
                    self.end(table, before, *before_at, at)?;
                    before.life == row.life && before.deleted.is_none()
                }
                None => false,
            };
            let what = if goes_on { Word::Modified } else { Word::Added };
            self.put(Step { at, table, row: row.number, what })?;
            before = Some((row, at));
            Ok(())
        })?;
        match before {
            Some((row, at)) => self.end(table, &row, at, Moment::MAX),
            None => Ok(()),
        }
    }

    /// The end of a life, if it is recorded, no later than `latest`.
    fn end(&self, table: Table, row: &Row, at: Moment, latest: Moment) -> Result<()> {
        let Some(deleted) = row.deleted else { return Ok(()) };
        self.put(Step { at: deleted.max(at).min(latest), table, row: row.number, what: Word::Deleted })
    }

    fn settings(&mut self, tables: &Tables) -> Result<()> {
        let mut last = self.began;
        tables.each(Table::Settings, &["SnapshotTimestamp"], "RowID", |cells| {
            last = last.max(cells.time("SnapshotTimestamp")?);
            let at = last.ok_or_else(|| cells.bad("SnapshotTimestamp", "the row has no time"))?;
            self.put(Step { at, table: Table::Settings, row: cells.row, what: Word::Added })
        })
    }

    fn events(&mut self, tables: &Tables) -> Result<()> {
        tables.each(Table::Event, &["EventTime"], "RowID", |cells| {
            let at = times::of_text(cells.text("EventTime")?).map_err(|why| cells.bad("EventTime", why))?;
            let at = at.max(self.began.unwrap_or(at));
            self.put(Step { at, table: Table::Event, row: cells.row, what: Word::Added })
        })
    }

    fn put(&self, step: Step) -> Result<()> {
        let put = || -> rusqlite::Result<()> {
            let mut insert = self.db.prepare_cached("INSERT INTO plan VALUES (?, ?, ?, ?, ?)")?;
            let end = i64::from(step.what == Word::Deleted);
            let (rank, what) = (step.table as i64, step.what as i64);
            insert.execute(params![step.at.nanos(), rank, step.row, end, what]).map(drop)
        };
        put().map_err(|error| cannot_sort(&self.file, &error))
    }

    /// The next thing to tell.
    pub(super) fn next(&mut self) -> Result<Option<Step>> {
        if self.page.as_slice().is_empty() {
            let page = self.read_page().map_err(|error| cannot_sort(&self.file, &error))?;
            self.page = page.into_iter();
        }
        Ok(self.page.next())
    }

    fn read_page(&mut self) -> rusqlite::Result<Vec<Step>> {
        let mut select = self.db.prepare_cached(
            "SELECT at, rank, row, step, what FROM plan WHERE (at, rank, row, step) > (?, ?, ?, ?)
             ORDER BY at, rank, row, step LIMIT ?",
        )?;
        let (at, rank, row, step) = self.after;
        let mut rows = select.query(params![at, rank, row, step, PAGE as i64])?;
        let mut page = Vec::new();
        while let Some(found) = rows.next()? {
            self.after = (found.get(0)?, found.get(1)?, found.get(2)?, found.get(3)?);
            let (at, rank, row, _) = self.after;
            let what = match found.get(4)? {
                0 => Word::Added,
                1 => Word::Modified,
                _ => Word::Deleted,
            };
            page.push(Step { at: Moment::from_nanos(at), table: Table::ALL[rank as usize], row, what });
        }
        Ok(page)
    }
}

// === impl Row ===

impl Row {
    fn read(cells: &Cells<'_>, table: Table) -> Result<Row> {
        let (namespaced, has_uid) = match table {
            Table::PriorityClass => (false, true),
            Table::Pod => (true, true),
            _ => (true, false),
        };
        let created = cells.time("CreationTimestamp")?;
        Ok(Row {
            number: cells.row,
            namespace: if namespaced { cells.owned("Namespace")? } else { String::new() },
            name: cells.owned("Name")?,
            life: if has_uid { cells.owned("UID")? } else { format!("{created:?}") },
            changed: cells.time("SnapshotTimestamp")?.max(created),
            deleted: cells.time_if_any("DeletionTimestamp")?,
        })
    }
}

fn cannot_sort(file: &str, error: &rusqlite::Error) -> Error {
    let source = std::io::Error::other(error.to_string());
    Error::Io { doing: "put in order the rows of", file: file.to_owned(), source }
}
