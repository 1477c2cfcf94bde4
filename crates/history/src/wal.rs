//! Reader for SQLite's write-ahead log, the `-wal` file beside a history that is open or was not closed. It does not
//! use SQLite, which silently stops at the first damage.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The last bit is the byte order of the checksum's words.
const MAGIC: u32 = 0x377f_0682;

/// Contents of a write-ahead log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct WalContents {
    /// The pages it replaces, with the offset of each in the log: in the order written, up to the last commit of the
    /// current generation, including damaged ones.
    pub(crate) pages: Vec<(u32, u64)>,
    /// Whether a frame fails its checksum while more frames follow, so that SQLite would ignore committed data.
    pub(crate) is_damaged: bool,
}

/// The path of a file's write-ahead log.
pub(crate) fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Reads the log at `path`; a missing log is empty.
pub(crate) fn read(path: &Path, page_bytes: usize) -> WalContents {
    let Ok(file) = File::open(path) else { return WalContents::default() };
    let mut file = BufReader::new(file);
    let mut header = [0; HEADER_BYTES];
    if file.read_exact(&mut header).is_err() {
        return WalContents::default();
    }
    let field = |bytes: &[u8], index: usize| {
        u32::from_be_bytes(bytes[4 * index..4 * index + 4].try_into().unwrap_or_default())
    };
    let big = field(&header, 0) & 1 == 1;
    let mut last_sums = [field(&header, 6), field(&header, 7)];
    let header_is_whole = field(&header, 0) | 1 == MAGIC | 1
        && field(&header, 2) as usize == page_bytes
        && checksum(big, [0, 0], &header[..24]) == last_sums;

    // A log is reused from its start with new salts; frames of the previous generation remain after its end. If the
    // header is damaged, the salts are taken from the first frames.
    let mut salts = vec![header[16..24].to_vec()];
    let (mut log, mut committed, mut all_whole) = (WalContents::default(), 0, header_is_whole);
    let mut bytes = vec![0; FRAME_HEADER_BYTES + page_bytes];
    let mut start = HEADER_BYTES as u64;
    while file.read_exact(&mut bytes).is_ok() {
        if !header_is_whole && log.pages.len() < 2 {
            salts.push(bytes[8..16].to_vec());
        }
        // Checksums are cumulative; starting from the stored checksum of the previous frame, each can be verified
        // alone.
        let sums = checksum(big, last_sums, &bytes[..8]);
        let sums = checksum(big, sums, &bytes[FRAME_HEADER_BYTES..]);
        last_sums = [field(&bytes, 4), field(&bytes, 5)];
        let is_whole = sums == last_sums && salts.iter().any(|salt| *salt == bytes[8..16]);
        log.pages.push((field(&bytes, 0), start + FRAME_HEADER_BYTES as u64));
        start += bytes.len() as u64;
        if is_whole {
            // An invalid frame at the very end was being written when its writer died; here a valid one follows it.
            log.is_damaged |= !all_whole;
            // The database size after a commit; zero inside a transaction.
            if field(&bytes, 1) != 0 {
                committed = log.pages.len();
            }
        }
        all_whole &= is_whole;
    }
    log.pages.truncate(committed);
    log
}

fn checksum(big: bool, [mut a, mut b]: [u32; 2], bytes: &[u8]) -> [u32; 2] {
    let to_u32 = |four: &[u8]| {
        let four = four.try_into().unwrap_or_default();
        if big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    };
    for pair in bytes.chunks_exact(8) {
        a = a.wrapping_add(to_u32(&pair[..4])).wrapping_add(b);
        b = b.wrapping_add(to_u32(&pair[4..])).wrapping_add(a);
    }
    [a, b]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn a_log_by_sqlite_is_valid_and_a_flipped_bit_is_detected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; CREATE TABLE t (a);")
            .unwrap();
        for _ in 0..20 {
            connection.execute("INSERT INTO t VALUES (randomblob(900))", []).unwrap();
        }
        let log = wal_path(&path);
        let whole = read(&log, 4096);
        assert!(whole.pages.len() >= 20 && !whole.is_damaged);
        let bytes = std::fs::read(&log).unwrap();
        let copy = folder.path().join("y-wal");
        for at in (0..bytes.len()).step_by(53) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            std::fs::write(&copy, flipped).unwrap();
            let found = read(&copy, 4096);
            // A damaged last page may look like an unfinished write.
            let is_last = at >= bytes.len() - FRAME_HEADER_BYTES - 4096;
            assert_eq!(found.is_damaged, !is_last, "byte {at}");
            assert!(found.pages.len() + 2 >= whole.pages.len(), "byte {at}");
        }
    }
}
