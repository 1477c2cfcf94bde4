//! Reader for SQLite's file format that works page by page without SQLite, for files that SQLite rejects.
//!
//! Nothing is trusted: every loop is bounded whatever the bytes are, and all data found has to match its own
//! checksum. The format is described at <https://www.sqlite.org/fileformat2.html>.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use rusqlite::types::Value;

use crate::error::{Error, ErrorContext, Result};
use crate::frame::{MAX_FRAME_BYTES, MAX_OBJECT_BYTES};
use crate::schema::PAGE_BYTES;
use crate::wal;

/// Maximum record length: a frame with one object of the largest size, and the overhead around it.
const MAX_RECORD_BYTES: usize = MAX_FRAME_BYTES + MAX_OBJECT_BYTES + (1 << 20);
/// The part of a file that is examined to detect its page size.
const PAGE_SIZE_SAMPLE: u64 = 4 << 20;

const INDEX_INTERIOR: u8 = 0x02;
const INDEX_LEAF: u8 = 0x0a;
const TABLE_LEAF: u8 = 0x0d;

/// The pages of a file, with its write-ahead log applied.
pub(crate) struct Pages {
    file: RefCell<File>,
    wal: Option<RefCell<File>>,
    /// Offsets in the log of pages that are newer than the file's.
    wal_pages: BTreeMap<u32, u64>,
    /// Whether the log may be incomplete.
    pub(crate) wal_is_damaged: bool,
    page_bytes: usize,
    count: u32,
}

/// The location of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordLocation {
    page: u32,
    start: u32,
    bytes: u32,
    tree: BTreeKind,
}

/// Tables and indexes keep different parts of a long record on its first page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BTreeKind {
    Table,
    Index,
}

/// A cell of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    /// `None` for index cells.
    pub(crate) rowid: Option<i64>,
    pub(crate) location: RecordLocation,
}

// === impl Pages ===

impl Pages {
    /// Opens any file, whatever its contents.
    pub(crate) fn open(path: &Path) -> Result<Pages> {
        let doing = "read";
        let mut file = match File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::Missing(path.to_owned()));
            }
            opened => opened.context(doing, path)?,
        };
        let length = file.metadata().context(doing, path)?.len();
        let page_bytes = detect_page_bytes(&mut file);
        let log_path = wal::wal_path(path);
        let wal::WalContents { pages, is_damaged } = wal::read(&log_path, page_bytes);
        let newer = pages.into_iter().collect();
        // SQLite page numbers have 32 bits.
        let count = u32::try_from(length.div_ceil(page_bytes as u64)).unwrap_or(u32::MAX);
        let log = File::open(&log_path).ok().map(RefCell::new);
        Ok(Pages {
            file: RefCell::new(file),
            wal: log,
            wal_pages: newer,
            wal_is_damaged: is_damaged,
            page_bytes,
            count,
        })
    }

    /// All page numbers, ascending.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let behind = self.wal_pages.range(self.count.saturating_add(1)..).map(|(page, _)| *page);
        (1..=self.count).chain(behind)
    }

    /// Reads a page. Parts that cannot be read are zero.
    pub(crate) fn page(&self, number: u32) -> Vec<u8> {
        let mut page = vec![0; self.page_bytes];
        let in_file = u64::from(number).saturating_sub(1).saturating_mul(self.page_bytes as u64);
        match (self.wal_pages.get(&number), &self.wal) {
            (Some(start), Some(log)) => read_at(&mut log.borrow_mut(), *start, &mut page),
            _ => read_at(&mut self.file.borrow_mut(), in_file, &mut page),
        }
        page
    }

    /// The bytes of a record, assembled from its overflow pages; `first` is the page it begins on.
    pub(crate) fn record(&self, first: &[u8], location: RecordLocation) -> Option<Vec<u8>> {
        let total = location.bytes as usize;
        let local = location.tree.local_bytes(self.page_bytes, total);
        let (start, end) = (location.start as usize, location.start as usize + local);
        let mut record = first.get(start..end)?.to_vec();
        if local < total {
            let mut next = u32_at(first, end)?;
            let mut visited = HashSet::new();
            while record.len() < total {
                if next == 0 || !visited.insert(next) {
                    return None;
                }
                let page = self.page(next);
                next = u32_at(&page, 0)?;
                let length = (total - record.len()).min(self.page_bytes - 4);
                record.extend_from_slice(page.get(4..4 + length)?);
            }
        }
        Some(record)
    }

    /// The same, for a location found earlier.
    pub(crate) fn record_at(&self, location: RecordLocation) -> Option<Vec<u8>> {
        self.record(&self.page(location.page), location)
    }
}

// === impl BTreeKind ===

impl BTreeKind {
    /// The number of bytes of a record that are stored on its first page.
    fn local_bytes(self, page: usize, bytes: usize) -> usize {
        let most = match self {
            BTreeKind::Table => page - 35,
            BTreeKind::Index => (page - 12) * 64 / 255 - 23,
        };
        if bytes <= most {
            return bytes;
        }
        let least = (page - 12) * 32 / 255 - 23;
        let share = least + (bytes - least) % (page - 4);
        if share <= most { share } else { least }
    }
}

/// The cells of a leaf page or an interior index page; none for other pages.
pub(crate) fn cells(page: &[u8], number: u32) -> Vec<Cell> {
    // The first page begins with the header of the file.
    let header = if number == 1 { 100 } else { 0 };
    let (tree, pointers, child) = match page.get(header) {
        Some(&TABLE_LEAF) => (BTreeKind::Table, header + 8, 0),
        Some(&INDEX_LEAF) => (BTreeKind::Index, header + 8, 0),
        Some(&INDEX_INTERIOR) => (BTreeKind::Index, header + 12, 4),
        _ => return Vec::new(),
    };
    // A wrong count yields invalid cells, but never reads beyond the page.
    let count =
        page.get(header + 3..header + 5).map_or(0, |two| usize::from(two[0]) << 8 | usize::from(two[1]));
    let pointers = page.get(pointers..).unwrap_or_default().chunks_exact(2).take(count);
    pointers
        .filter_map(|pointer| {
            let start = (usize::from(pointer[0]) << 8 | usize::from(pointer[1])) + child;
            let (bytes, length) = read_varint(page.get(start..)?)?;
            let mut start = start + length;
            let mut rowid = None;
            if tree == BTreeKind::Table {
                let (id, length) = read_varint(page.get(start..)?)?;
                rowid = Some(id as i64);
                start += length;
            }
            let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes as usize <= MAX_RECORD_BYTES)?;
            Some(Cell { rowid, location: RecordLocation { page: number, start: start as u32, bytes, tree } })
        })
        .collect()
}

/// Locations of rows with two columns, an integer and a blob that starts with `beginning`. Such a row is recognized
/// by the blob alone, even if the page around it is damaged.
pub(crate) fn find_blobs(page: &[u8], number: u32, beginning: &[u8]) -> Vec<RecordLocation> {
    let found = page.windows(beginning.len()).enumerate().filter(|(_, window)| *window == beginning);
    found
        .filter_map(|(blob, _)| {
            // The record header before the blob: its own length, NULL (the integer is the rowid), and the blob's
            // serial type, which is twice its length plus 12.
            (1..=5).find_map(|width: usize| {
                let start = blob.checked_sub(width + 2)?;
                let (serial, length) = read_varint(&page[start + 2..blob])?;
                let is_header =
                    usize::from(page[start]) == width + 2 && page[start + 1] == 0 && length == width;
                let bytes = serial.checked_sub(12).filter(|double| is_header && double % 2 == 0)? / 2;
                let bytes = usize::try_from(bytes).ok()?.checked_add(width + 2)?;
                let bytes = u32::try_from(bytes).ok().filter(|bytes| *bytes as usize <= MAX_RECORD_BYTES)?;
                Some(RecordLocation { page: number, start: start as u32, bytes, tree: BTreeKind::Table })
            })
        })
        .collect()
}

/// The values of a record, if it is valid.
pub(crate) fn record_values(record: &[u8]) -> Option<Vec<Value>> {
    let (header, mut at) = read_varint(record)?;
    let header = usize::try_from(header).ok().filter(|header| *header <= record.len())?;
    let mut rest = &record[header..];
    let mut values = Vec::new();
    while at < header {
        let (serial, length) = read_varint(&record[at..header])?;
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
            1..=6 => Value::Integer(read_integer(value)),
            _ if serial % 2 == 0 => Value::Blob(value.to_vec()),
            _ => Value::Text(String::from_utf8(value.to_vec()).ok()?),
        });
    }
    (at == header && rest.is_empty()).then_some(values)
}

/// Detects the page size. The one in the header may be damaged: it is used only if it yields more valid pages than
/// the page size of our own files.
fn detect_page_bytes(file: &mut File) -> usize {
    let mut sample = Vec::new();
    // If the sample cannot be read, no page is valid.
    let _ = file.take(PAGE_SIZE_SAMPLE).read_to_end(&mut sample);
    let header_page_bytes =
        sample.get(16..18).map_or(0, |two| usize::from(two[0]) << 8 | usize::from(two[1]));
    // 65536 is stored as 1, because it does not fit into two bytes.
    let header_page_bytes = if header_page_bytes == 1 { 65536 } else { header_page_bytes };
    if header_page_bytes == PAGE_BYTES || header_page_bytes < 512 || !header_page_bytes.is_power_of_two() {
        return PAGE_BYTES;
    }
    let sound = |size: usize| {
        let pages = sample.chunks_exact(size).skip(1);
        pages.filter(|page| cells(page, 2).iter().any(|cell| holds_record(page, cell))).count()
    };
    if sound(header_page_bytes) > sound(PAGE_BYTES) { header_page_bytes } else { PAGE_BYTES }
}

fn holds_record(page: &[u8], cell: &Cell) -> bool {
    let (start, bytes) = (cell.location.start as usize, cell.location.bytes as usize);
    page.get(start..start + bytes).and_then(record_values).is_some_and(|values| !values.is_empty())
}

/// Fills as much of the buffer as can be read.
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

fn u32_at(page: &[u8], start: usize) -> Option<u32> {
    page.get(start..start + 4).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes)
}

/// SQLite's varint: seven bits per byte, high bits first, all of the ninth byte. Also returns its length.
fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0u64;
    for (index, &byte) in bytes.iter().enumerate().take(8) {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((number, index + 1));
        }
    }
    bytes.get(8).map(|&byte| (number << 8 | u64::from(byte), 9))
}

/// A signed big-endian integer of one to eight bytes.
fn read_integer(bytes: &[u8]) -> i64 {
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
            for location in find_blobs(&page, number, b"KINE") {
                pages.record(&page, location);
            }
            for cell in cells(&page, number) {
                let record = pages.record(&page, cell.location);
                found.extend(
                    record.and_then(|record| record_values(&record)).map(|values| (cell.rowid, values)),
                );
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
                // Lengths around each overflow threshold, and some that take many pages.
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
    fn a_damaged_page_size_is_ignored() {
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
        for size_bytes in [[0, 0], [0xff, 0xff], [0, 1], [2, 0], [0x20, 0], [0x80, 0], [0x10, 1]] {
            let mut bytes = whole.clone();
            bytes[16..18].copy_from_slice(&size_bytes);
            std::fs::write(&path, bytes).unwrap();
            assert_eq!(all(&path), expected, "{size_bytes:?}");
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
            // Sets valid page types, so that the garbage is parsed.
            for at in (0..bytes.len()).step_by(512) {
                bytes[at] = kind;
            }
            if let Some(location) = bytes.get_mut(16..18) {
                location.copy_from_slice(&size.to_be_bytes());
            }
            if let Some(location) = bytes.get_mut(magic..magic + 4) {
                location.copy_from_slice(b"KINE");
            }
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("x"), &bytes).unwrap();
            std::fs::write(folder.path().join("x-wal"), &log).unwrap();
            all(&folder.path().join("x"));
            record_values(&bytes);
        }
    }
}
