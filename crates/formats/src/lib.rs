//! Other people's files, read and written as changes.
//!
//! An [`Input`] knows by its content what it is. Readers take one value at a time and never hold more than
//! [`MAX_VALUE`] bytes of input; errors name the file and the line.

mod error;
mod input;
pub mod jsonl;
pub mod manifests;
mod times;
mod values;

pub use error::{Error, Result};
pub use input::{Compression, Input};
pub use times::newest_time;
pub use values::MAX_VALUE;

/// A format that is read or written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A watch event a line.
    Jsonl,
    /// Objects as kubectl takes them, YAML or JSON.
    Manifests,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 2] = [Format::Jsonl, Format::Manifests];

    /// What a user calls it.
    pub fn name(self) -> &'static str {
        match self {
            Format::Jsonl => "jsonl",
            Format::Manifests => "manifests",
        }
    }
}
