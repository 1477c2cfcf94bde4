//! The bodies of the targets: reading arbitrary bytes must succeed or return an error, and must not panic.

use std::io::Cursor;

use formats::{Format, ImportItem, Input, ReadOptions};
use kubernetes::change_filter::{FilterOptions, ObjectReader};
use model::{Kind, Meta, Moment, Object};

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

/// Reads bytes as an object, with and without the rules of a recorder. The parser must find the same in it.
pub fn read_object(bytes: &[u8]) {
    let Ok(json) = std::str::from_utf8(bytes) else { return };
    let reader = ObjectReader::new(&Kind::new("", "Pod"), &FilterOptions::default());
    let kept = reader.and_then(|reader| reader.read(json));
    let Ok(object) = Object::parse(json) else {
        assert!(kept.is_none(), "only objects are kept");
        return;
    };
    object.value().expect("an object is valid JSON");
    assert_eq!(object.meta(), Meta::read(json).expect("an object has identifying fields"));
    if let Some(kept) = kept {
        kept.value().expect("a kept object is valid JSON");
        assert_eq!(Some(kept.meta()), Meta::read_prefix(kept.as_str()));
        assert_eq!(kept.meta(), object.meta());
    }
}
