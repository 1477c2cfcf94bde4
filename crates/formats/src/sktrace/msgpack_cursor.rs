//! A cursor in a msgpack file. Memory is never allocated by a length that the file only declares.

use std::io::Write;

use model::MAX_DEPTH;

use super::byte_reader::ByteReader;
use super::cursor::{ValueCursor, ValueKind};
use crate::{Error, MAX_VALUE_BYTES, Result};

pub(super) struct MsgpackCursor {
    bytes: ByteReader,
    /// The offset of the value read last.
    value_start: u64,
    /// For each open map or list, the number of remaining entries.
    open_containers: Vec<u32>,
    /// The text read last.
    text: Vec<u8>,
}

enum Token {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// Followed by this many bytes.
    Text(u32),
    /// The same for binary data and extensions, which JSON does not have.
    Bytes(u32),
    List(u32),
    Map(u32),
}

// === impl MsgpackCursor ===

impl MsgpackCursor {
    pub(super) fn new(bytes: ByteReader) -> MsgpackCursor {
        MsgpackCursor { bytes, value_start: 0, open_containers: Vec::new(), text: Vec::new() }
    }

    fn read_token(&mut self) -> Result<Token> {
        self.value_start = self.bytes.position();
        let byte = self.bytes.read_byte()?;
        Ok(match byte {
            0x00..=0x7f => Token::Unsigned(byte.into()),
            0x80..=0x8f => Token::Map((byte & 0x0f).into()),
            0x90..=0x9f => Token::List((byte & 0x0f).into()),
            0xa0..=0xbf => Token::Text((byte & 0x1f).into()),
            0xc0 => Token::Nil,
            0xc1 => return Err(self.error("c1 is not a valid msgpack type".to_owned())),
            0xc2 => Token::Bool(false),
            0xc3 => Token::Bool(true),
            0xc4 | 0xd9 => self.sized(byte == 0xd9, 1)?,
            0xc5 | 0xda => self.sized(byte == 0xda, 2)?,
            0xc6 | 0xdb => self.sized(byte == 0xdb, 4)?,
            // Extensions have one more byte for their type.
            0xc7 => self.extension(1)?,
            0xc8 => self.extension(2)?,
            0xc9 => self.extension(4)?,
            0xca => Token::Float(f32::from_be_bytes(self.array()?).into()),
            0xcb => Token::Float(f64::from_be_bytes(self.array()?)),
            0xcc..=0xcf => Token::Unsigned(self.unsigned(1 << (byte - 0xcc))?),
            0xd0 => Token::Signed(i8::from_be_bytes(self.array()?).into()),
            0xd1 => Token::Signed(i16::from_be_bytes(self.array()?).into()),
            0xd2 => Token::Signed(i32::from_be_bytes(self.array()?).into()),
            0xd3 => Token::Signed(i64::from_be_bytes(self.array()?)),
            0xd4..=0xd8 => Token::Bytes((1 << (byte - 0xd4)) + 1),
            0xdc => Token::List(u16::from_be_bytes(self.array()?).into()),
            0xdd => Token::List(u32::from_be_bytes(self.array()?)),
            0xde => Token::Map(u16::from_be_bytes(self.array()?).into()),
            0xdf => Token::Map(u32::from_be_bytes(self.array()?)),
            0xe0..=0xff => Token::Signed(i64::from(byte) - 0x100),
        })
    }

    fn sized(&mut self, is_text: bool, width: usize) -> Result<Token> {
        let length = self.unsigned(width)? as u32;
        Ok(if is_text { Token::Text(length) } else { Token::Bytes(length) })
    }

    fn extension(&mut self, width: usize) -> Result<Token> {
        Ok(Token::Bytes((self.unsigned(width)? as u32).saturating_add(1)))
    }

    fn unsigned(&mut self, width: usize) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read_exact(&mut bytes[8 - width..])?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            let chunk = self.bytes.require_chunk()?;
            let count = chunk.len().min(bytes.len() - filled);
            bytes[filled..filled + count].copy_from_slice(&chunk[..count]);
            self.bytes.consume(count);
            filled += count;
        }
        Ok(())
    }

    /// Writes a value that is nested in `depth` lists and maps as JSON.
    fn write_json(&mut self, json: &mut Vec<u8>, depth: usize) -> Result<()> {
        let token = self.read_token()?;
        if json.len() > MAX_VALUE_BYTES {
            return Err(self.too_long());
        }
        match token {
            Token::Nil => json.extend_from_slice(b"null"),
            Token::Bool(true) => json.extend_from_slice(b"true"),
            Token::Bool(false) => json.extend_from_slice(b"false"),
            Token::Unsigned(number) => expect_written(write!(json, "{number}")),
            Token::Signed(number) => expect_written(write!(json, "{number}")),
            // NaN and infinities become null, as in SimKube.
            Token::Float(number) => expect_written(serde_json::to_writer(json, &number)),
            Token::Text(length) => self.write_text(json, length as usize)?,
            Token::Bytes(_) => {
                return Err(self.error("binary data is not allowed in a Kubernetes object".to_owned()));
            }
            Token::List(_) | Token::Map(_) if depth == MAX_DEPTH => {
                return Err(self.error(format!("nested deeper than {MAX_DEPTH} levels")));
            }
            Token::List(length) => {
                json.push(b'[');
                for index in 0..length {
                    if index > 0 {
                        json.push(b',');
                    }
                    self.write_json(json, depth + 1)?;
                }
                json.push(b']');
            }
            Token::Map(length) => {
                json.push(b'{');
                for index in 0..length {
                    if index > 0 {
                        json.push(b',');
                    }
                    match self.read_token()? {
                        Token::Text(length) => self.write_text(json, length as usize)?,
                        _ => return Err(self.error("a key is not a string".to_owned())),
                    }
                    json.push(b':');
                    self.write_json(json, depth + 1)?;
                }
                json.push(b'}');
            }
        }
        Ok(())
    }

    fn write_text(&mut self, json: &mut Vec<u8>, length: usize) -> Result<()> {
        if length > MAX_VALUE_BYTES || json.len() > MAX_VALUE_BYTES {
            return Err(self.too_long());
        }
        self.text.clear();
        while self.text.len() < length {
            let chunk = self.bytes.require_chunk()?;
            let count = chunk.len().min(length - self.text.len());
            self.text.extend_from_slice(&chunk[..count]);
            self.bytes.consume(count);
        }
        match std::str::from_utf8(&self.text) {
            Ok(text) => expect_written(serde_json::to_writer(json, text)),
            Err(_) => return Err(self.error("a string is not UTF-8".to_owned())),
        }
        Ok(())
    }

    fn too_long(&self) -> Error {
        self.error(format!("value longer than {} MiB", MAX_VALUE_BYTES >> 20))
    }
}

impl ValueCursor for MsgpackCursor {
    fn peek_kind(&mut self) -> Result<ValueKind> {
        self.value_start = self.bytes.position();
        Ok(match self.bytes.require_chunk()?[0] {
            0x80..=0x8f | 0xde | 0xdf => ValueKind::Map,
            0x90..=0x9f | 0xdc | 0xdd => ValueKind::List,
            _ => ValueKind::Scalar,
        })
    }

    fn enter(&mut self) -> Result<()> {
        match self.read_token()? {
            Token::List(length) | Token::Map(length) => self.open_containers.push(length),
            _ => return Err(self.error("neither a list nor a map".to_owned())),
        }
        Ok(())
    }

    fn next_entry(&mut self) -> Result<bool> {
        let remaining =
            self.open_containers.last_mut().expect("a next element is read only inside a map or list");
        if *remaining == 0 {
            self.open_containers.pop();
            return Ok(false);
        }
        *remaining -= 1;
        Ok(true)
    }

    fn read_key(&mut self, json: &mut Vec<u8>) -> Result<()> {
        self.read_value(json)
    }

    fn read_value(&mut self, json: &mut Vec<u8>) -> Result<()> {
        json.clear();
        let start = self.bytes.position();
        self.write_json(json, 0)?;
        self.value_start = start;
        // A text's length is checked before escaping, which may make it six times as long.
        if json.len() > MAX_VALUE_BYTES { Err(self.too_long()) } else { Ok(()) }
    }

    fn skip_value(&mut self) -> Result<()> {
        // The declared number of values may exceed the counter, but not the values of a real file.
        let mut values = 1_u64;
        while values > 0 {
            values -= 1;
            match self.read_token()? {
                Token::List(length) => values = values.saturating_add(length.into()),
                Token::Map(length) => values = values.saturating_add(2 * u64::from(length)),
                Token::Text(length) | Token::Bytes(length) => {
                    let mut remaining = length as usize;
                    while remaining > 0 {
                        let count = self.bytes.require_chunk()?.len().min(remaining);
                        self.bytes.consume(count);
                        remaining -= count;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn position(&self) -> u64 {
        self.bytes.position()
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.bytes.seek(position)
    }

    fn error(&self, why: String) -> Error {
        self.bytes.error_at(self.value_start, why)
    }
}

/// Unwraps the result of writing to memory, which cannot fail.
fn expect_written<E: std::fmt::Debug>(result: std::result::Result<(), E>) {
    result.expect("writing to memory cannot fail");
}
