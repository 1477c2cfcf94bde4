//! The bytes of a file, read in order but for jumps, with their count.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::{Error, Result};

pub(super) struct Bytes {
    file: String,
    reader: BufReader<File>,
    /// How many there are before the next one.
    place: u64,
}

// === impl Bytes ===

impl Bytes {
    /// Those of the file at `path`, which the user knows as `file`.
    pub(super) fn open(file: &str, path: &Path) -> Result<Bytes> {
        let opened = File::open(path).map_err(|source| Error::read(file, source))?;
        Ok(Bytes { file: file.to_owned(), reader: BufReader::with_capacity(1 << 18, opened), place: 0 })
    }

    /// Some of those that come next; none at the end.
    pub(super) fn some(&mut self) -> Result<&[u8]> {
        self.reader.fill_buf().map_err(|source| Error::read(&self.file, source))
    }

    /// The same, where the file must not end.
    pub(super) fn some_more(&mut self) -> Result<&[u8]> {
        if self.reader.buffer().is_empty() && self.some()?.is_empty() {
            return Err(self.bad(self.place, "the file is cut off here"));
        }
        Ok(self.reader.buffer())
    }

    /// Takes the next one.
    pub(super) fn one(&mut self) -> Result<u8> {
        let byte = self.some_more()?[0];
        self.consume(1);
        Ok(byte)
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.reader.consume(count);
        self.place += count as u64;
    }

    pub(super) fn place(&self) -> u64 {
        self.place
    }

    pub(super) fn go_to(&mut self, place: u64) -> Result<()> {
        let by =
            i64::try_from(i128::from(place) - i128::from(self.place)).expect("a file is shorter than that");
        // Unlike a plain seek this keeps the buffer where it can.
        self.reader.seek_relative(by).map_err(|source| Error::read(&self.file, source))?;
        self.place = place;
        Ok(())
    }

    pub(super) fn bad(&self, place: u64, why: impl Into<String>) -> Error {
        Error::bad(&self.file, format_args!("byte {place}"), why)
    }
}
