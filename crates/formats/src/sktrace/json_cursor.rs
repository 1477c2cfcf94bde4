//! A cursor in a JSON file. Values keep their bytes.

use super::byte_reader::ByteReader;
use super::cursor::{ValueCursor, ValueKind};
use crate::{Error, MAX_VALUE_BYTES, Result};

pub(super) struct JsonCursor {
    bytes: ByteReader,
    /// The offset of the value read last.
    value_start: u64,
    /// For each open map or list, its closing byte and whether an entry has been read.
    open_containers: Vec<(u8, bool)>,
}

/// Finds the end of a value.
#[derive(Clone, Copy, Default)]
struct JsonValueScanner {
    open: usize,
    in_string: bool,
    escaped: bool,
    /// The previous byte was the value's last.
    done: bool,
}

// === impl JsonCursor ===

impl JsonCursor {
    pub(super) fn new(bytes: ByteReader) -> JsonCursor {
        JsonCursor { bytes, value_start: 0, open_containers: Vec::new() }
    }

    /// The next byte that is not whitespace, without consuming it.
    fn peek_token(&mut self) -> Result<u8> {
        loop {
            let chunk = self.bytes.require_chunk()?;
            let spaces = chunk.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let found = chunk.get(spaces).copied();
            self.bytes.consume(spaces);
            if let Some(byte) = found {
                self.value_start = self.bytes.position();
                return Ok(byte);
            }
        }
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.peek_token()? != byte {
            return Err(self.error(format!("expected {:?} here", char::from(byte))));
        }
        self.bytes.consume(1);
        Ok(())
    }

    /// Reads a value, and appends its text to `out` if there is one.
    fn scan_value(&mut self, mut out: Option<&mut Vec<u8>>) -> Result<()> {
        self.peek_token()?;
        let start = self.value_start;
        let mut depth = JsonValueScanner::default();
        loop {
            let chunk = self.bytes.peek_chunk()?;
            let end = chunk.iter().position(|byte| depth.ends_before(*byte));
            let count = end.unwrap_or(chunk.len());
            if let Some(out) = &mut out {
                out.extend_from_slice(&chunk[..count]);
                if out.len() > MAX_VALUE_BYTES {
                    return Err(self.error(format!("value longer than {} MiB", MAX_VALUE_BYTES >> 20)));
                }
            }
            let at_end = chunk.is_empty();
            self.bytes.consume(count);
            if end.is_some() || at_end && depth.open == 0 && !depth.in_string {
                break;
            }
            if at_end {
                self.bytes.require_chunk()?;
            }
        }
        if self.bytes.position() == start {
            return Err(self.error("expected a value here".to_owned()));
        }
        self.value_start = start;
        Ok(())
    }
}

impl ValueCursor for JsonCursor {
    fn peek_kind(&mut self) -> Result<ValueKind> {
        Ok(match self.peek_token()? {
            b'{' => ValueKind::Map,
            b'[' => ValueKind::List,
            _ => ValueKind::Scalar,
        })
    }

    fn enter(&mut self) -> Result<()> {
        let close = match self.peek_token()? {
            b'{' => b'}',
            b'[' => b']',
            _ => return Err(self.error("neither a list nor a map".to_owned())),
        };
        self.bytes.consume(1);
        self.open_containers.push((close, false));
        Ok(())
    }

    fn next_entry(&mut self) -> Result<bool> {
        let next = self.peek_token()?;
        let (close, has_entries) =
            self.open_containers.last_mut().expect("a next element is read only inside a map or list");
        if next == *close {
            self.bytes.consume(1);
            self.open_containers.pop();
            return Ok(false);
        }
        if std::mem::replace(has_entries, true) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    fn read_key(&mut self, json: &mut Vec<u8>) -> Result<()> {
        if self.peek_token()? != b'"' {
            return Err(self.error("expected a key here".to_owned()));
        }
        self.read_value(json)?;
        let began = self.value_start;
        self.expect(b':')?;
        self.value_start = began;
        Ok(())
    }

    fn read_value(&mut self, json: &mut Vec<u8>) -> Result<()> {
        json.clear();
        self.scan_value(Some(json))
    }

    fn skip_value(&mut self) -> Result<()> {
        self.scan_value(None)
    }

    fn position(&self) -> u64 {
        self.bytes.position()
    }

    fn seek(&mut self, place: u64) -> Result<()> {
        self.bytes.seek(place)
    }

    fn error(&self, why: String) -> Error {
        self.bytes.error_at(self.value_start, why)
    }
}

// === impl JsonValueScanner ===

impl JsonValueScanner {
    /// Whether the value has ended before this byte.
    fn ends_before(&mut self, byte: u8) -> bool {
        if self.done {
            return true;
        }
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => {
                self.in_string = !self.in_string;
                self.done = !self.in_string && self.open == 0;
            }
            _ if self.in_string => {}
            b'{' | b'[' => self.open += 1,
            b'}' | b']' | b',' | b':' if self.open == 0 => return true,
            _ if self.open == 0 => return byte.is_ascii_whitespace(),
            b'}' | b']' => {
                self.open -= 1;
                self.done = self.open == 0;
            }
            _ => {}
        }
        false
    }
}
