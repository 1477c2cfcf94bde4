//! The bodies of the targets: reading arbitrary bytes must succeed or return an error, and must not panic.

use std::io::Cursor;

use apiserver::{Patch, RequestInfo};
use formats::{Format, ImportItem, Input, ReadOptions};
use kubernetes::change_filter::{FilterOptions, ObjectReader};
use kubernetes::selector::{FieldSelector, Selector};
use model::{Kind, Meta, Moment, Object};
use serde_json::Value;

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

/// Applies bytes as a patch of a pod. The result must be an object that can be read again.
pub fn patch(bytes: &[u8], content_type: &str) {
    let pod = serde_json::json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["a.b/c"]},
        "spec": {"containers": [{"name": "a", "image": "1"}, {"name": "b"}], "volumes": [{"name": "v", "emptyDir": {}}]},
    });
    let Ok(patch) = Patch::parse(content_type, bytes) else { return };
    let Ok(patched) = patch.apply(&Kind::new("", "Pod"), &pod) else { return };
    let again: Value = serde_json::from_str(&patched.to_string()).expect("a patched object is valid JSON");
    assert_eq!(again, patched);
}

/// Parses bytes as a label selector. Its text must mean the same.
pub fn label_selector(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(selector) = Selector::parse(text) else { return };
    let printed = selector.to_string();
    assert_eq!(Selector::parse(&printed).expect("a printed selector is one").to_string(), printed);
}

/// Parses bytes as a field selector of pods. Its text must mean the same.
pub fn field_selector(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let kind = Kind::new("", "Pod");
    let Ok(selector) = FieldSelector::parse(text, &kind) else { return };
    let printed = selector.to_string();
    assert_eq!(
        FieldSelector::parse(&printed, &kind).expect("a printed selector is one").to_string(),
        printed
    );
}

/// Parses bytes as the path of a request. No part of it may lead out of its collection.
pub fn request_path(bytes: &[u8]) {
    let Ok(path) = std::str::from_utf8(bytes) else { return };
    let Some(RequestInfo { version, namespace, resource, name, subresource, .. }) = RequestInfo::parse(path)
    else {
        return;
    };
    let parts = [Some(version), namespace, Some(resource), name, subresource];
    for part in parts.into_iter().flatten() {
        assert!(!matches!(&*part, "" | "." | "..") && !part.contains(['/', '\0']), "{part:?}");
    }
}
