//! A walk through a file of nested values, whatever its encoding.

use crate::{Error, Result};

/// Where in a file of nested values the reading is.
pub(super) trait Cursor: Send {
    /// What comes next, without taking it.
    fn kind(&mut self) -> Result<Kind>;
    /// Goes into the map or the list that comes next.
    fn enter(&mut self) -> Result<()>;
    /// Whether there is another entry in the map or list that was entered last; leaves it if not.
    fn more(&mut self) -> Result<bool>;
    /// Takes the key of an entry of a map, as JSON. It comes before the entry's value.
    fn key(&mut self, json: &mut Vec<u8>) -> Result<()>;
    /// Takes a value, as JSON.
    fn value(&mut self, json: &mut Vec<u8>) -> Result<()>;
    /// Passes over a value, however long.
    fn skip(&mut self) -> Result<()>;
    /// How many bytes have been read.
    fn place(&self) -> u64;
    /// Goes where a value begins, or back to the end of one within the map or list entered last.
    fn go_to(&mut self, place: u64) -> Result<()>;
    /// An error about what was read last.
    fn bad(&self, why: String) -> Error;
}

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Map,
    List,
    /// A number, a text, nothing.
    Plain,
}

impl dyn Cursor + '_ {
    /// Takes a value that is to be of a type.
    pub(super) fn typed<T: serde::de::DeserializeOwned>(&mut self, what: &str) -> Result<T> {
        let mut json = Vec::new();
        self.value(&mut json)?;
        serde_json::from_slice(&json).map_err(|error| self.bad(format!("{what}: {}", without_place(&error))))
    }

    /// Goes into the list that must come next.
    pub(super) fn enter_list(&mut self, what: &str) -> Result<()> {
        match self.kind()? {
            Kind::List => self.enter(),
            _ => Err(self.bad(format!("{what} must be a list"))),
        }
    }

    /// Goes into the map that must come next.
    pub(super) fn enter_map(&mut self, what: &str) -> Result<()> {
        match self.kind()? {
            Kind::Map => self.enter(),
            _ => Err(self.bad(format!("{what} must be a map"))),
        }
    }
}

/// What a parser says, without the line and column of a text that is no file.
pub(super) fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(why, _)| why.to_owned())
}
