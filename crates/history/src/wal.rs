//! SQLite's write-ahead log, the `-wal` file beside a history that is open or was not closed: read without SQLite,
//! which stops at the first damage without a word.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

const HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
/// The last bit says in which order the bytes of a checksum's words are taken.
const MAGIC: u32 = 0x377f_0682;

/// What a log holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    /// Which pages of the file it replaces, and where in the log each begins: in the order they were written, up to
    /// the last commit of the round it is in, the damaged ones too.
    pub(crate) pages: Vec<(u32, u64)>,
    /// Whether something does not match its checksum, so that SQLite takes only what is before it, and more follows.
    pub(crate) is_damaged: bool,
}

/// Where the log of a file is.
pub(crate) fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// Reads the log at `path`; where there is none it is empty.
pub(crate) fn read(path: &Path, page_bytes: usize) -> Log {
    let Ok(file) = File::open(path) else { return Log::default() };
    let mut file = BufReader::new(file);
    let mut header = [0; HEADER_BYTES];
    if file.read_exact(&mut header).is_err() {
        return Log::default();
    }
    let field = |bytes: &[u8], index: usize| {
        u32::from_be_bytes(bytes[4 * index..4 * index + 4].try_into().unwrap_or_default())
    };
    let big = field(&header, 0) & 1 == 1;
    let mut last_sums = [field(&header, 6), field(&header, 7)];
    let header_is_whole = field(&header, 0) | 1 == MAGIC | 1
        && field(&header, 2) as usize == page_bytes
        && checksum(big, [0, 0], &header[..24]) == last_sums;

    // A log is begun anew from its start, with other salts; behind its end are pages of the round before. If the
    // header is damaged, the first frames tell the salts too.
    let mut salts = vec![header[16..24].to_vec()];
    let (mut log, mut committed, mut all_whole) = (Log::default(), 0, header_is_whole);
    let mut bytes = vec![0; FRAME_HEADER_BYTES + page_bytes];
    let mut start = HEADER_BYTES as u64;
    while file.read_exact(&mut bytes).is_ok() {
        if !header_is_whole && log.pages.len() < 2 {
            salts.push(bytes[8..16].to_vec());
        }
        // Checksums go on from frame to frame; from the one that is stored before, each can be checked alone.
        let sums = checksum(big, last_sums, &bytes[..8]);
        let sums = checksum(big, sums, &bytes[FRAME_HEADER_BYTES..]);
        last_sums = [field(&bytes, 4), field(&bytes, 5)];
        let is_whole = sums == last_sums && salts.iter().any(|salt| *salt == bytes[8..16]);
        log.pages.push((field(&bytes, 0), start + FRAME_HEADER_BYTES as u64));
        start += bytes.len() as u64;
        if is_whole {
            // What is not whole at the very end was being written when its writer died. This goes on behind it.
            log.is_damaged |= !all_whole;
            // The size of the file after a commit; nothing inside a transaction.
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
    let word = |four: &[u8]| {
        let four = four.try_into().unwrap_or_default();
        if big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    };
    for pair in bytes.chunks_exact(8) {
        a = a.wrapping_add(word(&pair[..4])).wrapping_add(b);
        b = b.wrapping_add(word(&pair[4..])).wrapping_add(a);
    }
    [a, b]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn sqlites_own_log_is_sound_and_a_flip_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch("PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; CREATE TABLE t (a);")
            .unwrap();
        for _ in 0..20 {
            connection.execute("INSERT INTO t VALUES (randomblob(900))", []).unwrap();
        }
        let log = beside(&path);
        let whole = read(&log, 4096);
        assert!(whole.pages.len() >= 20 && !whole.is_damaged);
        let bytes = std::fs::read(&log).unwrap();
        let copy = folder.path().join("y-wal");
        for at in (0..bytes.len()).step_by(53) {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            std::fs::write(&copy, flipped).unwrap();
            let found = read(&copy, 4096);
            // The last page may as well have been half written.
            let is_last = at >= bytes.len() - FRAME_HEADER_BYTES - 4096;
            assert_eq!(found.is_damaged, !is_last, "byte {at}");
            assert!(found.pages.len() + 2 >= whole.pages.len(), "byte {at}");
        }
    }
}
