//! A cursor in a file of nested values, independent of its encoding.

use crate::{Error, Result};

/// A position in a file of nested values.
pub(super) trait ValueCursor: Send {
    /// The kind of the next value, without reading it.
    fn peek_kind(&mut self) -> Result<ValueKind>;
    /// Enters the map or the list that comes next.
    fn enter(&mut self) -> Result<()>;
    /// Whether the innermost map or list has another entry; leaves it if not.
    fn next_entry(&mut self) -> Result<bool>;
    /// Reads the key of a map's entry as JSON. It comes before the entry's value.
    fn read_key(&mut self, json: &mut Vec<u8>) -> Result<()>;
    /// Reads a value as JSON.
    fn read_value(&mut self, json: &mut Vec<u8>) -> Result<()>;
    /// Skips a value, whatever its length.
    fn skip_value(&mut self) -> Result<()>;
    /// The byte offset.
    fn position(&self) -> u64;
    /// Moves to the beginning of a value, or back to the end of a value in the innermost map or list.
    fn seek(&mut self, place: u64) -> Result<()>;
    /// An error about the value read last.
    fn error(&self, why: String) -> Error;
}

/// The kind of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueKind {
    Map,
    List,
    /// A number, a text, a boolean or null.
    Scalar,
}

impl dyn ValueCursor + '_ {
    /// Reads a value of the given type.
    pub(super) fn read_typed<T: serde::de::DeserializeOwned>(&mut self, value_name: &str) -> Result<T> {
        let mut json = Vec::new();
        self.read_value(&mut json)?;
        serde_json::from_slice(&json)
            .map_err(|error| self.error(format!("{value_name}: {}", message_without_position(&error))))
    }

    /// Enters the list that must come next.
    pub(super) fn enter_list(&mut self, value_name: &str) -> Result<()> {
        match self.peek_kind()? {
            ValueKind::List => self.enter(),
            _ => Err(self.error(format!("{value_name} must be a list"))),
        }
    }

    /// Enters the map that must come next.
    pub(super) fn enter_map(&mut self, value_name: &str) -> Result<()> {
        match self.peek_kind()? {
            ValueKind::Map => self.enter(),
            _ => Err(self.error(format!("{value_name} must be a map"))),
        }
    }
}

/// A parser's message without line and column, which do not refer to the file.
pub(super) fn message_without_position(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(why, _)| why.to_owned())
}
