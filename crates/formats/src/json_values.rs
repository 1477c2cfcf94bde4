//! A sequence of JSON values: one per line, or over several lines as kubectl prints them.

use std::io::BufRead;

use crate::{Error, Result};

/// The longest value that is read: twice the longest object of a history.
pub const MAX_VALUE_BYTES: usize = 64 << 20;

/// Splits a text into JSON values without parsing them.
pub(crate) struct JsonValues {
    file: String,
    reader: Box<dyn BufRead + Send>,
    /// The line being read, counted from 1.
    line: u64,
    buffer: Vec<u8>,
}

/// The nesting at a position in a value.
#[derive(Clone, Copy, Default)]
struct NestingScanner {
    open: usize,
    in_string: bool,
    escaped: bool,
}

// === impl JsonValues ===

impl JsonValues {
    pub(crate) fn new(file: &str, reader: Box<dyn BufRead + Send>) -> JsonValues {
        JsonValues { file: file.to_owned(), reader, line: 0, buffer: Vec::new() }
    }

    /// The next value's text and the line it begins on.
    pub(crate) fn next(&mut self) -> Result<Option<(u64, &str)>> {
        self.buffer.clear();
        let mut depth = NestingScanner::default();
        let mut first = 0;
        loop {
            let start = self.buffer.len();
            self.read_line()?;
            let more = self.buffer.len() > start;
            self.line += u64::from(more);
            let line = &self.buffer[start..];
            if first == 0 {
                // Blank lines between values, and a byte-order mark before the first.
                let blank = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line).trim_ascii().is_empty();
                if blank {
                    self.buffer.clear();
                    if more {
                        continue;
                    }
                    return Ok(None);
                }
                if self.line == 1 && line.starts_with(b"\xef\xbb\xbf") {
                    self.buffer.drain(..3);
                }
                first = self.line;
            }
            depth.scan(&self.buffer[start..]);
            // If the brackets are unbalanced at the end, the parser reports it.
            if depth.open == 0 || !more {
                break;
            }
        }
        match std::str::from_utf8(self.buffer.trim_ascii()) {
            Ok(text) => Ok(Some((first, text))),
            Err(error) => Err(self.line_error(first, format!("byte {} is not UTF-8", error.valid_up_to()))),
        }
    }

    /// The file's name.
    pub(crate) fn file(&self) -> &str {
        &self.file
    }

    pub(crate) fn line_error(&self, line: u64, why: impl Into<String>) -> Error {
        Error::invalid_line(&self.file, line, why)
    }

    /// Appends a line to the buffer; nothing at the end of the file.
    fn read_line(&mut self) -> Result<()> {
        loop {
            let chunk = self.reader.fill_buf().map_err(|source| Error::cannot_read(&self.file, source))?;
            if chunk.is_empty() {
                return Ok(());
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(chunk.len(), |end| end + 1);
            self.buffer.extend_from_slice(&chunk[..length]);
            self.reader.consume(length);
            if self.buffer.len() > MAX_VALUE_BYTES {
                return Err(self
                    .line_error(self.line + 1, format!("value longer than {} MiB", MAX_VALUE_BYTES >> 20)));
            }
            if end.is_some() {
                return Ok(());
            }
        }
    }
}

// === impl NestingScanner ===

impl NestingScanner {
    fn scan(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => self.in_string = false,
                    _ => {}
                }
            } else {
                match byte {
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.open += 1,
                    b'}' | b']' => self.open = self.open.saturating_sub(1),
                    _ => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Cursor};

    #[track_caller]
    fn check(text: &[u8], expected: &[(u64, &str)]) {
        // A buffer smaller than any line finds errors at its edges.
        let reader = BufReader::with_capacity(3, Cursor::new(text.to_vec()));
        let mut values = JsonValues::new("file", Box::new(reader));
        let mut found = Vec::new();
        while let Some((line, text)) = values.next().unwrap() {
            found.push((line, text.to_owned()));
        }
        let found: Vec<(u64, &str)> = found.iter().map(|(line, text)| (*line, text.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn one_value_a_line() {
        check(b"{\"a\":1}\n\n {\"b\":\"}\\\"{\"} \r\n", &[(1, "{\"a\":1}"), (3, "{\"b\":\"}\\\"{\"}")]);
        check(b"", &[]);
        check(b"\n\n", &[]);
        check(b"\xef\xbb\xbf{}", &[(1, "{}")]);
    }

    #[test]
    fn a_value_over_many_lines() {
        check(b"{\n  \"a\": [\n  1\n]}\n{\n}", &[(1, "{\n  \"a\": [\n  1\n]}"), (5, "{\n}")]);
    }

    #[test]
    fn a_truncated_value_is_returned_as_it_is() {
        check(b"{\"a\":\n{\"b\":1}\n", &[(1, "{\"a\":\n{\"b\":1}")]);
    }

    #[test]
    fn wrong_utf_8_is_an_error_with_its_line() {
        let mut values = JsonValues::new("file", Box::new(Cursor::new(b"{}\n{\"\xff\"}\n".to_vec())));
        values.next().unwrap();
        assert_eq!(values.next().unwrap_err().to_string(), "file, line 2: byte 2 is not UTF-8");
    }
}
