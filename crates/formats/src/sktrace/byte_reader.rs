//! A buffered reader of a file that knows its position and can seek.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::{Error, Result};

pub(super) struct ByteReader {
    file: String,
    reader: BufReader<File>,
    /// The offset of the next byte.
    position: u64,
}

// === impl ByteReader ===

impl ByteReader {
    /// Opens the file at `path`, which messages call `file`.
    pub(super) fn open(file: &str, path: &Path) -> Result<ByteReader> {
        let opened = File::open(path).map_err(|source| Error::cannot_read(file, source))?;
        Ok(ByteReader {
            file: file.to_owned(),
            reader: BufReader::with_capacity(1 << 18, opened),
            position: 0,
        })
    }

    /// The next bytes, without consuming them; empty at the end of the file.
    pub(super) fn peek_chunk(&mut self) -> Result<&[u8]> {
        self.reader.fill_buf().map_err(|source| Error::cannot_read(&self.file, source))
    }

    /// The next bytes, without consuming them; an error at the end of the file.
    pub(super) fn require_chunk(&mut self) -> Result<&[u8]> {
        if self.reader.buffer().is_empty() && self.peek_chunk()?.is_empty() {
            return Err(self.error_at(self.position, "unexpected end of file"));
        }
        Ok(self.reader.buffer())
    }

    /// Reads one byte.
    pub(super) fn read_byte(&mut self) -> Result<u8> {
        let byte = self.require_chunk()?[0];
        self.consume(1);
        Ok(byte)
    }

    pub(super) fn consume(&mut self, count: usize) {
        self.reader.consume(count);
        self.position += count as u64;
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    pub(super) fn seek(&mut self, position: u64) -> Result<()> {
        let by = i64::try_from(i128::from(position) - i128::from(self.position))
            .expect("file offsets fit into i64");
        // Unlike a plain seek this keeps the buffer if possible.
        self.reader.seek_relative(by).map_err(|source| Error::cannot_read(&self.file, source))?;
        self.position = position;
        Ok(())
    }

    pub(super) fn error_at(&self, place: u64, why: impl Into<String>) -> Error {
        Error::invalid_at(&self.file, format_args!("byte {place}"), why)
    }
}
