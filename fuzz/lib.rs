//! The body of every target: reading a file of arbitrary bytes must succeed or return an error, and must not panic.

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
                drop(observed.what.object().value().expect("objects that readers accept are valid JSON"))
            }
            Ok(ImportItem::Object(object)) => {
                drop(object.value().expect("objects that readers accept are valid JSON"))
            }
            Ok(_) => {}
            Err(_) => return,
        }
    }
}
