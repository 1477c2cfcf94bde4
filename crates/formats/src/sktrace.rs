//! SimKube's traces: what happened to the objects it tracks, and how long their pods ran.
//!
//! A trace is msgpack, or JSON where it holds no lives of pods. Versions 0, 1 and 2 are read and version 2 is written,
//! as SimKube 2.7 does. Times are whole seconds.

mod bytes;
mod config;
mod cursor;
mod event;
mod hash;
mod json;
mod lived;
mod lives;
mod msgpack;
mod names;
mod outline;
mod owners;
mod pack;
mod pods;
mod pointer;
mod read;
mod sanitise;
mod stable_spec;
mod write;

use crate::{Given, Input, Items, Result};

pub use config::TracerConfig;
pub use write::{Filters, Writer};

/// What a trace says. Pods that it knows only by how long they ran are made up, and so is the state of those it has.
pub fn read(input: Input, given: Given) -> Result<Items> {
    Ok(Box::new(read::Reader::new(input, given)?))
}
