//! A msgpack writer with SimKube's encoding: maps with field names, the shortest encoding of integers.

use std::io::{self, Write};

use rmp::encode::{self, ValueWriteError};
use serde_json::{Map, Value};

/// Writes msgpack.
pub(super) struct MsgpackWriter<W>(pub(super) W);

impl<W: Write> MsgpackWriter<W> {
    pub(super) fn map(&mut self, length: usize) -> io::Result<()> {
        encode::write_map_len(&mut self.0, count(length)?).map(drop).map_err(io_error)
    }

    pub(super) fn list(&mut self, length: usize) -> io::Result<()> {
        encode::write_array_len(&mut self.0, count(length)?).map(drop).map_err(io_error)
    }

    pub(super) fn text(&mut self, text: &str) -> io::Result<()> {
        count(text.len())?;
        encode::write_str(&mut self.0, text).map_err(io_error)
    }

    pub(super) fn unsigned(&mut self, number: u64) -> io::Result<()> {
        encode::write_uint(&mut self.0, number).map(drop).map_err(io_error)
    }

    pub(super) fn signed(&mut self, number: i64) -> io::Result<()> {
        encode::write_sint(&mut self.0, number).map(drop).map_err(io_error)
    }

    pub(super) fn value(&mut self, value: &Value) -> io::Result<()> {
        match value {
            Value::Null => encode::write_nil(&mut self.0),
            Value::Bool(truth) => encode::write_bool(&mut self.0, *truth),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(number), _, _) => self.unsigned(number),
                (_, Some(number), _) => self.signed(number),
                (_, _, number) => {
                    encode::write_f64(&mut self.0, number.unwrap_or_default()).map_err(io_error)
                }
            },
            Value::String(text) => self.text(text),
            Value::Array(entries) => {
                self.list(entries.len())?;
                entries.iter().try_for_each(|entry| self.value(entry))
            }
            Value::Object(fields) => {
                self.map(fields.len())?;
                fields.iter().try_for_each(|field| self.field(field))
            }
        }
    }

    /// Writes a Kubernetes object, `apiVersion`, `kind` and `metadata` first.
    pub(super) fn object(&mut self, object: &Map<String, Value>) -> io::Result<()> {
        const FIRST: [&str; 3] = ["apiVersion", "kind", "metadata"];
        self.map(object.len())?;
        let first = FIRST.iter().filter_map(|name| object.get_key_value(*name));
        first
            .chain(object.iter().filter(|(name, _)| !FIRST.contains(&name.as_str())))
            .try_for_each(|field| self.field(field))
    }

    fn field(&mut self, (name, value): (&String, &Value)) -> io::Result<()> {
        self.text(name)?;
        self.value(value)
    }
}

fn count(length: usize) -> io::Result<u32> {
    u32::try_from(length)
        .map_err(|_| io::Error::other("more than 4294967295 entries, the maximum of msgpack"))
}

fn io_error(error: ValueWriteError) -> io::Error {
    match error {
        ValueWriteError::InvalidMarkerWrite(error) | ValueWriteError::InvalidDataWrite(error) => error,
    }
}
