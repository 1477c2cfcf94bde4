//! A walk through msgpack. No length that the file claims is believed before its bytes are there.

use std::io::Write;

use model::MAX_DEPTH;

use super::bytes::Bytes;
use super::cursor::{Cursor, Kind};
use crate::{Error, MAX_VALUE, Result};

pub(super) struct Msgpack {
    bytes: Bytes,
    /// Where the value read last begins.
    began: u64,
    /// Of each map or list entered, how many entries are still to come.
    entered: Vec<u32>,
    /// The text read last.
    text: Vec<u8>,
}

enum Token {
    Nil,
    Bool(bool),
    Unsigned(u64),
    Signed(i64),
    Float(f64),
    /// With so many bytes to follow.
    Text(u32),
    /// The same, but neither text nor anything else that JSON has.
    Bytes(u32),
    List(u32),
    Map(u32),
}

// === impl Msgpack ===

impl Msgpack {
    pub(super) fn new(bytes: Bytes) -> Msgpack {
        Msgpack { bytes, began: 0, entered: Vec::new(), text: Vec::new() }
    }

    fn token(&mut self) -> Result<Token> {
        self.began = self.bytes.place();
        let byte = self.bytes.one()?;
        Ok(match byte {
            0x00..=0x7f => Token::Unsigned(byte.into()),
            0x80..=0x8f => Token::Map((byte & 0x0f).into()),
            0x90..=0x9f => Token::List((byte & 0x0f).into()),
            0xa0..=0xbf => Token::Text((byte & 0x1f).into()),
            0xc0 => Token::Nil,
            0xc1 => return Err(self.bad("c1 begins no value of msgpack".to_owned())),
            0xc2 => Token::Bool(false),
            0xc3 => Token::Bool(true),
            0xc4 | 0xd9 => self.sized(byte == 0xd9, 1)?,
            0xc5 | 0xda => self.sized(byte == 0xda, 2)?,
            0xc6 | 0xdb => self.sized(byte == 0xdb, 4)?,
            // Extensions: the type is one byte more.
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
        self.fill(&mut bytes[8 - width..])?;
        Ok(u64::from_be_bytes(bytes))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            let there = self.bytes.some_more()?;
            let count = there.len().min(bytes.len() - filled);
            bytes[filled..filled + count].copy_from_slice(&there[..count]);
            self.bytes.consume(count);
            filled += count;
        }
        Ok(())
    }

    /// Writes a value with `depth` lists and maps around it.
    fn write(&mut self, json: &mut Vec<u8>, depth: usize) -> Result<()> {
        let token = self.token()?;
        if json.len() > MAX_VALUE {
            return Err(self.too_long());
        }
        match token {
            Token::Nil => json.extend_from_slice(b"null"),
            Token::Bool(true) => json.extend_from_slice(b"true"),
            Token::Bool(false) => json.extend_from_slice(b"false"),
            Token::Unsigned(number) => plain(write!(json, "{number}")),
            Token::Signed(number) => plain(write!(json, "{number}")),
            // What is no number becomes null, as it does in SimKube.
            Token::Float(number) => plain(serde_json::to_writer(json, &number)),
            Token::Text(length) => self.write_text(json, length as usize)?,
            Token::Bytes(_) => return Err(self.bad("bytes, which no Kubernetes object has".to_owned())),
            Token::List(_) | Token::Map(_) if depth == MAX_DEPTH => {
                return Err(self.bad(format!("nested deeper than {MAX_DEPTH} levels")));
            }
            Token::List(length) => {
                json.push(b'[');
                for index in 0..length {
                    if index > 0 {
                        json.push(b',');
                    }
                    self.write(json, depth + 1)?;
                }
                json.push(b']');
            }
            Token::Map(length) => {
                json.push(b'{');
                for index in 0..length {
                    if index > 0 {
                        json.push(b',');
                    }
                    match self.token()? {
                        Token::Text(length) => self.write_text(json, length as usize)?,
                        _ => return Err(self.bad("a key that is no text".to_owned())),
                    }
                    json.push(b':');
                    self.write(json, depth + 1)?;
                }
                json.push(b'}');
            }
        }
        Ok(())
    }

    fn write_text(&mut self, json: &mut Vec<u8>, length: usize) -> Result<()> {
        if length > MAX_VALUE || json.len() > MAX_VALUE {
            return Err(self.too_long());
        }
        self.text.clear();
        while self.text.len() < length {
            let there = self.bytes.some_more()?;
            let count = there.len().min(length - self.text.len());
            self.text.extend_from_slice(&there[..count]);
            self.bytes.consume(count);
        }
        match std::str::from_utf8(&self.text) {
            Ok(text) => plain(serde_json::to_writer(json, text)),
            Err(_) => return Err(self.bad("a text that is no UTF-8".to_owned())),
        }
        Ok(())
    }

    fn too_long(&self) -> Error {
        self.bad(format!("a value longer than {} MiB", MAX_VALUE >> 20))
    }
}

impl Cursor for Msgpack {
    fn kind(&mut self) -> Result<Kind> {
        self.began = self.bytes.place();
        Ok(match self.bytes.some_more()?[0] {
            0x80..=0x8f | 0xde | 0xdf => Kind::Map,
            0x90..=0x9f | 0xdc | 0xdd => Kind::List,
            _ => Kind::Plain,
        })
    }

    fn enter(&mut self) -> Result<()> {
        match self.token()? {
            Token::List(length) | Token::Map(length) => self.entered.push(length),
            _ => return Err(self.bad("neither a list nor a map".to_owned())),
        }
        Ok(())
    }

    fn more(&mut self) -> Result<bool> {
        let left = self.entered.last_mut().expect("more is asked only inside of a map or list");
        if *left == 0 {
            self.entered.pop();
            return Ok(false);
        }
        *left -= 1;
        Ok(true)
    }

    fn key(&mut self, json: &mut Vec<u8>) -> Result<()> {
        self.value(json)
    }

    fn value(&mut self, json: &mut Vec<u8>) -> Result<()> {
        json.clear();
        let began = self.bytes.place();
        self.write(json, 0)?;
        self.began = began;
        // A text is measured before its escapes, which may make it six times as long.
        if json.len() > MAX_VALUE { Err(self.too_long()) } else { Ok(()) }
    }

    fn skip(&mut self) -> Result<()> {
        // A value may hold more than a count can say, but never in a file that ends.
        let mut values = 1_u64;
        while values > 0 {
            values -= 1;
            match self.token()? {
                Token::List(length) => values = values.saturating_add(length.into()),
                Token::Map(length) => values = values.saturating_add(2 * u64::from(length)),
                Token::Text(length) | Token::Bytes(length) => {
                    let mut left = length as usize;
                    while left > 0 {
                        let count = self.bytes.some_more()?.len().min(left);
                        self.bytes.consume(count);
                        left -= count;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn place(&self) -> u64 {
        self.bytes.place()
    }

    fn go_to(&mut self, place: u64) -> Result<()> {
        self.bytes.go_to(place)
    }

    fn bad(&self, why: String) -> Error {
        self.bytes.bad(self.began, why)
    }
}

/// Writing to memory.
fn plain<E: std::fmt::Debug>(result: std::result::Result<(), E>) {
    result.expect("memory takes what is written");
}
