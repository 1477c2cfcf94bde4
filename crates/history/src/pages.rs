//! SQLite's file format, read page by page without SQLite: for files that it refuses.
//!
//! Nothing here trusts anything: whatever the bytes say, there is an end to it. What was found has to prove itself by
//! its own checksum. The format is described at <https://www.sqlite.org/fileformat2.html>.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use rusqlite::types::Value;

use crate::error::{Doing, Error, Result};
use crate::frame::{FRAME_BYTES, OBJECT_BYTES};
use crate::schema::PAGE_BYTES;
use crate::wal;

/// No record of a history is longer: a frame of one object of the largest size, and what is around it.
const RECORD_BYTES: usize = FRAME_BYTES + OBJECT_BYTES + (1 << 20);
/// How much of a file is looked at to tell its page size.
const PAGE_SIZE_SAMPLE: u64 = 4 << 20;

const INDEX_INTERIOR: u8 = 0x02;
const INDEX_LEAF: u8 = 0x0a;
const TABLE_LEAF: u8 = 0x0d;

/// The pages of a file, as the log beside it leaves them.
pub(crate) struct Pages {
    file: RefCell<File>,
    log: Option<RefCell<File>>,
    /// Where the log has pages that are newer than the file's.
    newer: BTreeMap<u32, u64>,
    /// Whether that may not be all that was written.
    pub(crate) log_is_damaged: bool,
    page_bytes: usize,
    count: u32,
}

/// Where a record lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    page: u32,
    start: u32,
    bytes: u32,
    tree: Tree,
}

/// Tables and indexes leave different shares of a long record on its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tree {
    Table,
    Index,
}

/// A cell of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// Only tables have it.
    pub(crate) rowid: Option<i64>,
    pub(crate) place: Place,
}

// === impl Pages ===

impl Pages {
    /// Opens a file of any content.
    pub(crate) fn open(path: &Path) -> Result<Pages> {
        let doing = "read";
        let mut file = match File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::Missing(path.to_owned()));
            }
            opened => opened.doing(doing, path)?,
        };
        let length = file.metadata().doing(doing, path)?.len();
        let page_bytes = page_bytes(&mut file);
        let log_path = wal::beside(path);
        let wal::Log { pages, is_damaged } = wal::read(&log_path, page_bytes);
        let newer = pages.into_iter().collect();
        // SQLite counts pages with 32 bits.
        let count = u32::try_from(length.div_ceil(page_bytes as u64)).unwrap_or(u32::MAX);
        let log = File::open(&log_path).ok().map(RefCell::new);
        Ok(Pages { file: RefCell::new(file), log, newer, log_is_damaged: is_damaged, page_bytes, count })
    }

    /// The numbers of all pages, rising.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let behind = self.newer.range(self.count.saturating_add(1)..).map(|(page, _)| *page);
        (1..=self.count).chain(behind)
    }

    /// A page. Where the file ends early or the medium is broken there are zeros.
    pub(crate) fn page(&self, number: u32) -> Vec<u8> {
        let mut page = vec![0; self.page_bytes];
        let in_file = u64::from(number).saturating_sub(1).saturating_mul(self.page_bytes as u64);
        match (self.newer.get(&number), &self.log) {
            (Some(start), Some(log)) => read_at(&mut log.borrow_mut(), *start, &mut page),
            _ => read_at(&mut self.file.borrow_mut(), in_file, &mut page),
        }
        page
    }

    /// The bytes of a record, put together from all the pages it lies on; `first` is the page of its place.
    pub(crate) fn record(&self, first: &[u8], place: Place) -> Option<Vec<u8>> {
        let total = place.bytes as usize;
        let local = place.tree.local(self.page_bytes, total);
        let (start, end) = (place.start as usize, place.start as usize + local);
        let mut record = first.get(start..end)?.to_vec();
        if local < total {
            let mut next = number_at(first, end)?;
            let mut visited = HashSet::new();
            while record.len() < total {
                if next == 0 || !visited.insert(next) {
                    return None;
                }
                let page = self.page(next);
                next = number_at(&page, 0)?;
                let wanted = (total - record.len()).min(self.page_bytes - 4);
                record.extend_from_slice(page.get(4..4 + wanted)?);
            }
        }
        Some(record)
    }

    /// The same, of a place that was found before.
    pub(crate) fn record_at(&self, place: Place) -> Option<Vec<u8>> {
        self.record(&self.page(place.page), place)
    }
}

// === impl Tree ===

impl Tree {
    /// How much of a record of so many bytes lies on its first page.
    fn local(self, page: usize, bytes: usize) -> usize {
        let most = match self {
            Tree::Table => page - 35,
            Tree::Index => (page - 12) * 64 / 255 - 23,
        };
        if bytes <= most {
            return bytes;
        }
        let least = (page - 12) * 32 / 255 - 23;
        let share = least + (bytes - least) % (page - 4);
        if share <= most { share } else { least }
    }
}

/// The cells of a page that can hold rows or index entries; none for other pages.
pub(crate) fn cells(page: &[u8], number: u32) -> Vec<Cell> {
    // The first page begins with the header of the file.
    let header = if number == 1 { 100 } else { 0 };
    let (tree, pointers, child) = match page.get(header) {
        Some(&TABLE_LEAF) => (Tree::Table, header + 8, 0),
        Some(&INDEX_LEAF) => (Tree::Index, header + 8, 0),
        Some(&INDEX_INTERIOR) => (Tree::Index, header + 12, 4),
        _ => return Vec::new(),
    };
    // A wrong count leads to cells that are none, and no further than the page.
    let count =
        page.get(header + 3..header + 5).map_or(0, |two| usize::from(two[0]) << 8 | usize::from(two[1]));
    let pointers = page.get(pointers..).unwrap_or_default().chunks_exact(2).take(count);
    pointers
        .filter_map(|pointer| {
            let start = (usize::from(pointer[0]) << 8 | usize::from(pointer[1])) + child;
            let (bytes, length) = varint(page.get(start..)?)?;
            let mut start = start + length;
            let mut rowid = None;
            if tree == Tree::Table {
                let (id, length) = varint(page.get(start..)?)?;
                rowid = Some(id as i64);
                start += length;
            }
            let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes as usize <= RECORD_BYTES)?;
            Some(Cell { rowid, place: Place { page: number, start: start as u32, bytes, tree } })
        })
        .collect()
}

/// Where a page holds rows of two columns, a number and a blob with this beginning. Such a row is known by the blob
/// alone, whatever has become of the page around it.
pub(crate) fn blobs(page: &[u8], number: u32, beginning: &[u8]) -> Vec<Place> {
    let found = page.windows(beginning.len()).enumerate().filter(|(_, window)| *window == beginning);
    found
        .filter_map(|(blob, _)| {
            // Before the blob lies the record's header: its own length, no value (the number is the row's), the
            // blob's length doubled and 12 more.
            (1..=5).find_map(|width: usize| {
                let start = blob.checked_sub(width + 2)?;
                let (serial, length) = varint(&page[start + 2..blob])?;
                let is_header =
                    usize::from(page[start]) == width + 2 && page[start + 1] == 0 && length == width;
                let bytes = serial.checked_sub(12).filter(|double| is_header && double % 2 == 0)? / 2;
                let bytes = usize::try_from(bytes).ok()?.checked_add(width + 2)?;
                let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes as usize <= RECORD_BYTES)?;
                Some(Place { page: number, start: start as u32, bytes, tree: Tree::Table })
            })
        })
        .collect()
}

/// The values of a record, if it is one.
pub(crate) fn values(record: &[u8]) -> Option<Vec<Value>> {
    let (header, mut at) = varint(record)?;
    let header = usize::try_from(header).ok().filter(|header| *header <= record.len())?;
    let mut rest = &record[header..];
    let mut values = Vec::new();
    while at < header {
        let (serial, length) = varint(&record[at..header])?;
        at += length;
        let bytes = match serial {
            0 | 8 | 9 => 0,
            1..=4 => serial as usize,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return None,
            _ => usize::try_from((serial - 12) / 2).ok()?,
        };
        let (value, after) = rest.split_at_checked(bytes)?;
        rest = after;
        values.push(match serial {
            0 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            7 => Value::Real(f64::from_be_bytes(value.try_into().ok()?)),
            1..=6 => Value::Integer(integer(value)),
            _ if serial % 2 == 0 => Value::Blob(value.to_vec()),
            _ => Value::Text(String::from_utf8(value.to_vec()).ok()?),
        });
    }
    (at == header && rest.is_empty()).then_some(values)
}

/// The header's page size may be damaged itself: against that of our own files it must show more pages that make sense.
fn page_bytes(file: &mut File) -> usize {
    let mut sample = Vec::new();
    // What cannot be read cannot vote.
    let _ = file.take(PAGE_SIZE_SAMPLE).read_to_end(&mut sample);
    let told = sample.get(16..18).map_or(0, |two| usize::from(two[0]) << 8 | usize::from(two[1]));
    // 65536 does not fit into two bytes.
    let told = if told == 1 { 65536 } else { told };
    if told == PAGE_BYTES || told < 512 || !told.is_power_of_two() {
        return PAGE_BYTES;
    }
    let sound = |size: usize| {
        let pages = sample.chunks_exact(size).skip(1);
        pages.filter(|page| cells(page, 2).iter().any(|cell| holds_record(page, cell))).count()
    };
    if sound(told) > sound(PAGE_BYTES) { told } else { PAGE_BYTES }
}

fn holds_record(page: &[u8], cell: &Cell) -> bool {
    let (start, bytes) = (cell.place.start as usize, cell.place.bytes as usize);
    page.get(start..start + bytes).and_then(values).is_some_and(|values| !values.is_empty())
}

/// Fills what it can.
fn read_at(file: &mut File, start: u64, page: &mut [u8]) {
    if file.seek(SeekFrom::Start(start)).is_err() {
        return;
    }
    let mut filled = 0;
    while filled < page.len() {
        match file.read(&mut page[filled..]) {
            Ok(0) => return,
            Ok(bytes) => filled += bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

fn number_at(page: &[u8], start: usize) -> Option<u32> {
    page.get(start..start + 4).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes)
}

/// SQLite's varint: seven bits a byte, high bits first, the ninth byte whole. Also says how many bytes it took.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0u64;
    for (index, &byte) in bytes.iter().enumerate().take(8) {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((number, index + 1));
        }
    }
    bytes.get(8).map(|&byte| (number << 8 | u64::from(byte), 9))
}

/// A signed number of one to eight bytes, the high byte first.
fn integer(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|byte| *byte >= 0x80) { -1 } else { 0 };
    bytes.iter().fold(sign, |number, &byte| number << 8 | i64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rusqlite::{Connection, params};

    fn all(path: &Path) -> Vec<(Option<i64>, Vec<Value>)> {
        let pages = Pages::open(path).unwrap();
        let numbers: Vec<u32> = pages.numbers().collect();
        let mut found = Vec::new();
        for number in numbers {
            let page = pages.page(number);
            for place in blobs(&page, number, b"KINE") {
                pages.record(&page, place);
            }
            for cell in cells(&page, number) {
                let record = pages.record(&page, cell.place);
                found.extend(record.and_then(|record| values(&record)).map(|values| (cell.rowid, values)));
            }
        }
        found
    }

    #[test]
    fn every_row_is_read_as_sqlite_wrote_it() {
        for page_bytes in [512, 4096, 65536] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("x");
            let connection = Connection::open(&path).unwrap();
            connection.pragma_update(None, "page_size", page_bytes).unwrap();
            connection
                .execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b); CREATE INDEX i ON t (b);")
                .unwrap();
            let mut rows = Vec::new();
            let numbers =
                [0, 1, -1, 127, -128, 40_000, -8_000_000, 1 << 30, -(1 << 40), 1 << 50, i64::MAX, i64::MIN];
            for (id, number) in (1..).zip(numbers) {
                // Around every length at which a record begins to overflow, and some that take many pages.
                for length in
                    [0, 100, 350, 400, 450, 480, 510, 1000, 3950, 4020, 4050, 4070, 5000, 65480, 200_000]
                {
                    let text = "ä".repeat(length / 2);
                    let id = number ^ (id << 20 | length as i64);
                    let values = vec![Value::Null, Value::Integer(number), Value::Text(text)];
                    connection
                        .execute("INSERT INTO t VALUES (?1, ?2, ?3)", params![id, values[1], values[2]])
                        .unwrap();
                    rows.push((Some(id), values));
                }
            }
            let other = [Value::Real(0.5), Value::Blob(vec![7; 9])];
            connection.execute("INSERT INTO t VALUES (7, ?1, ?2)", params![other[0], other[1]]).unwrap();
            rows.push((Some(7), vec![Value::Null, other[0].clone(), other[1].clone()]));
            drop(connection);
            let found = all(&path);
            for row in &rows {
                assert!(found.contains(row), "row {:?} in pages of {page_bytes}", row.0);
                let entry = (None, vec![row.1[2].clone(), Value::Integer(row.0.unwrap())]);
                assert!(found.contains(&entry), "index of row {:?} in pages of {page_bytes}", row.0);
            }
        }
    }

    #[test]
    fn a_damaged_page_size_is_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA page_size = 4096; CREATE TABLE t (a); CREATE TABLE u (a);").unwrap();
        for _ in 0..100 {
            connection.execute("INSERT INTO t VALUES (randomblob(400))", []).unwrap();
        }
        drop(connection);
        let whole = std::fs::read(&path).unwrap();
        let expected = all(&path);
        for told in [[0, 0], [0xff, 0xff], [0, 1], [2, 0], [0x20, 0], [0x80, 0], [0x10, 1]] {
            let mut bytes = whole.clone();
            bytes[16..18].copy_from_slice(&told);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(all(&path), expected, "{told:?}");
        }
    }

    proptest! {
        #[test]
        fn garbage_is_read_to_its_end_without_panic(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..9000),
            log in proptest::collection::vec(any::<u8>(), 0..9000),
            size in prop::sample::select(vec![512u16, 1, 4096, 8192, 32768]),
            kind in prop::sample::select(vec![INDEX_INTERIOR, INDEX_LEAF, TABLE_LEAF]),
            magic in 0usize..9000,
        ) {
            // Pages of the right types, so that the garbage is gone into.
            for at in (0..bytes.len()).step_by(512) {
                bytes[at] = kind;
            }
            if let Some(place) = bytes.get_mut(16..18) {
                place.copy_from_slice(&size.to_be_bytes());
            }
            if let Some(place) = bytes.get_mut(magic..magic + 4) {
                place.copy_from_slice(b"KINE");
            }
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("x"), &bytes).unwrap();
            std::fs::write(folder.path().join("x-wal"), &log).unwrap();
            all(&folder.path().join("x"));
            values(&bytes);
        }
    }
}
