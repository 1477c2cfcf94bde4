//! What every target does: a file of any bytes is read or refused, never worse.

use std::io::Cursor;

use formats::{Format, ImportItem, Input, ReadOptions};
use model::Moment;

/// Reads bytes as a file of a format.
pub fn read(bytes: &[u8], format: Format) {
    let Ok(input) = Input::open("fuzz", Box::new(Cursor::new(bytes.to_vec()))) else { return };
    let start = Moment::from_nanos(0);
    let options = ReadOptions { source: "s".into(), at: Some(start), now: start };
    let Ok(items) = formats::read(input, format, options) else { return };
    for item in items {
        match item {
            Ok(ImportItem::Change(observed)) => {
                drop(observed.what.object().value().expect("a tree is let in"))
            }
            Ok(ImportItem::Object(object)) => drop(object.value().expect("a tree is let in")),
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
