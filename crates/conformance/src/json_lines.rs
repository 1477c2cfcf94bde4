//! Files of JSON lines, compressed or not, one line in memory at a time.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use crate::{Error, Result};

/// The longest line accepted: far more than a cluster of thousands of nodes takes, far less than a few compressed bytes
/// can expand to.
const MAX_LINE_BYTES: u64 = 256 << 20;

/// Reads the lines of a file.
pub struct JsonLines {
    file: String,
    reader: Box<dyn BufRead>,
    number: u64,
    line: Vec<u8>,
    is_unread: bool,
}

// === impl JsonLines ===

impl JsonLines {
    /// Opens a file, which may be compressed with gzip.
    pub fn open(path: &Path) -> Result<JsonLines> {
        let name = path.display().to_string();
        let fail = |doing, source| Error::Io { doing, file: name.clone(), source };
        let file = File::open(path).map_err(|source| fail("open", source))?;
        let mut plain = BufReader::with_capacity(1 << 16, file);
        let is_gzip = plain.fill_buf().map_err(|source| fail("read", source))?.starts_with(&[0x1f, 0x8b]);
        Ok(if is_gzip {
            JsonLines::from_reader(&name, MultiGzDecoder::new(plain))
        } else {
            JsonLines::from_reader(&name, plain)
        })
    }

    /// Reads lines from a reader that error messages call `name`.
    pub fn from_reader(name: &str, reader: impl Read + 'static) -> JsonLines {
        let reader = Box::new(BufReader::with_capacity(1 << 18, reader));
        JsonLines { file: name.to_owned(), reader, number: 0, line: Vec::new(), is_unread: false }
    }

    /// The file's name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the next line that is not empty, without its line ending.
    pub fn read(&mut self) -> Result<Option<&str>> {
        while !std::mem::take(&mut self.is_unread) {
            self.line.clear();
            let length = (&mut self.reader)
                .take(MAX_LINE_BYTES)
                .read_until(b'\n', &mut self.line)
                .map_err(|source| Error::Truncated { file: self.file.clone(), line: self.number, source })?;
            if length == 0 {
                return Ok(None);
            }
            self.number += 1;
            if length as u64 == MAX_LINE_BYTES {
                return Err(self.line_error(format!("longer than {} MiB", MAX_LINE_BYTES >> 20)));
            }
            if !self.line.trim_ascii().is_empty() {
                break;
            }
        }
        match std::str::from_utf8(&self.line) {
            Ok(line) => Ok(Some(line.trim_end_matches(['\n', '\r']))),
            Err(error) => Err(self.line_error(format!("not UTF-8: {error}"))),
        }
    }

    /// Makes the next read return the last line again.
    pub fn unread(&mut self) {
        self.is_unread = true;
    }

    /// An error about the last line read.
    pub fn line_error(&self, why: impl ToString) -> Error {
        Error::BadLine { file: self.file.clone(), line: self.number, why: why.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn gzip(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn file(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn plain_and_compressed_lines_are_the_same() {
        for bytes in [b"one\n\r\n\ntwo".to_vec(), gzip("one\n\n\ntwo\n")] {
            let file = file(&bytes);
            let mut lines = JsonLines::open(file.path()).unwrap();
            assert_eq!(lines.read().unwrap(), Some("one"));
            assert_eq!(lines.read().unwrap(), Some("two"));
            assert_eq!(lines.number, 4);
            assert_eq!(lines.read().unwrap(), None);
        }
    }

    #[test]
    fn a_truncated_file_is_an_error_that_names_the_line() {
        let text: String = (0..10_000).map(|number| format!("line {}\n", number * 7919 % 10_007)).collect();
        let whole = gzip(&text);
        let file = file(&whole[..whole.len() / 2]);
        let mut lines = JsonLines::open(file.path()).unwrap();
        let error = loop {
            match lines.read() {
                Ok(line) => assert!(line.is_some(), "the truncation was not noticed"),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::Truncated { line: 1.., .. }), "{error}");
    }

    #[test]
    fn invalid_utf8_is_an_error() {
        let file = file(b"fine\n\xff\n");
        let mut lines = JsonLines::open(file.path()).unwrap();
        lines.read().unwrap();
        let error = lines.read().unwrap_err().to_string();
        assert!(error.contains(":2: not UTF-8"), "{error}");
    }
}
