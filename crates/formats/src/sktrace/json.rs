//! A walk through JSON. Values that are taken whole keep their bytes.

use super::bytes::Bytes;
use super::cursor::{Cursor, Kind};
use crate::{Error, MAX_VALUE, Result};

pub(super) struct Json {
    bytes: Bytes,
    /// Where the value read last begins.
    began: u64,
    /// Of each map or list entered, what closes it and whether an entry has been read.
    entered: Vec<(u8, bool)>,
}

/// How far into a value the text is.
#[derive(Clone, Copy, Default)]
struct Depth {
    open: usize,
    in_string: bool,
    escaped: bool,
    /// The value's last byte was the one before.
    done: bool,
}

// === impl Json ===

impl Json {
    pub(super) fn new(bytes: Bytes) -> Json {
        Json { bytes, began: 0, entered: Vec::new() }
    }

    /// The next byte that is no space, which is not taken.
    fn next(&mut self) -> Result<u8> {
        loop {
            let there = self.bytes.some_more()?;
            let spaces = there.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let found = there.get(spaces).copied();
            self.bytes.consume(spaces);
            if let Some(byte) = found {
                self.began = self.bytes.place();
                return Ok(byte);
            }
        }
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        if self.next()? != byte {
            return Err(self.bad(format!("expected {:?} here", char::from(byte))));
        }
        self.bytes.consume(1);
        Ok(())
    }

    /// Goes through a value, keeping its text if it is asked for.
    fn pass(&mut self, mut kept: Option<&mut Vec<u8>>) -> Result<()> {
        self.next()?;
        let began = self.began;
        let mut depth = Depth::default();
        loop {
            let there = self.bytes.some()?;
            let end = there.iter().position(|byte| depth.ends_before(*byte));
            let count = end.unwrap_or(there.len());
            if let Some(kept) = &mut kept {
                kept.extend_from_slice(&there[..count]);
                if kept.len() > MAX_VALUE {
                    return Err(self.bad(format!("a value longer than {} MiB", MAX_VALUE >> 20)));
                }
            }
            let at_end = there.is_empty();
            self.bytes.consume(count);
            if end.is_some() || at_end && depth.open == 0 && !depth.in_string {
                break;
            }
            if at_end {
                self.bytes.some_more()?;
            }
        }
        if self.bytes.place() == began {
            return Err(self.bad("expected a value here".to_owned()));
        }
        self.began = began;
        Ok(())
    }
}

impl Cursor for Json {
    fn kind(&mut self) -> Result<Kind> {
        Ok(match self.next()? {
            b'{' => Kind::Map,
            b'[' => Kind::List,
            _ => Kind::Plain,
        })
    }

    fn enter(&mut self) -> Result<()> {
        let close = match self.next()? {
            b'{' => b'}',
            b'[' => b']',
            _ => return Err(self.bad("neither a list nor a map".to_owned())),
        };
        self.bytes.consume(1);
        self.entered.push((close, false));
        Ok(())
    }

    fn more(&mut self) -> Result<bool> {
        let next = self.next()?;
        let (close, begun) = self.entered.last_mut().expect("more is asked only inside of a map or list");
        if next == *close {
            self.bytes.consume(1);
            self.entered.pop();
            return Ok(false);
        }
        if std::mem::replace(begun, true) {
            self.expect(b',')?;
        }
        Ok(true)
    }

    fn key(&mut self, json: &mut Vec<u8>) -> Result<()> {
        if self.next()? != b'"' {
            return Err(self.bad("expected a key here".to_owned()));
        }
        self.value(json)?;
        let began = self.began;
        self.expect(b':')?;
        self.began = began;
        Ok(())
    }

    fn value(&mut self, json: &mut Vec<u8>) -> Result<()> {
        json.clear();
        self.pass(Some(json))
    }

    fn skip(&mut self) -> Result<()> {
        self.pass(None)
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

// === impl Depth ===

impl Depth {
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
