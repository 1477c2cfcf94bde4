//! The outline of an object's text: the offsets of its identifying fields, and the result of its filter.

use crate::json_cursor::JsonCursor;

/// Offsets of the identifying fields in an object's text, and the result of the filter that it has passed.
/// The pass that validates the text finds them, so that later readers need not parse it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectOutline {
    /// By [`IdentifyingField`].
    identifying: [TextRange; 6],
    filter_mark: Option<FilterMark>,
}

/// The result of a filter that an object has passed when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterMark {
    /// Identifies the filter's rules: with the same rules the result is the same.
    pub rules: u64,
    /// A hash of what the rules regard as the object's contents.
    pub fingerprint: u64,
    /// The length of the text before the filter.
    pub received_bytes: usize,
}

/// The fields that identify an object and its version.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdentifyingField {
    ApiVersion,
    Kind,
    Name,
    Namespace,
    Uid,
    ResourceVersion,
}

/// A range of bytes; empty for an absent field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TextRange {
    start: u32,
    end: u32,
}

/// Collects the outline of a text from the members of the object and of its metadata.
#[derive(Default)]
pub struct ObjectOutlineBuilder {
    outline: ObjectOutline,
    has_metadata: bool,
    /// An identifying field is a duplicate, no string, or contains escapes.
    is_unusual: bool,
}

// === impl ObjectOutline ===

impl ObjectOutline {
    /// Validates the text of an object and returns its outline. `None` if the text is invalid, or valid but unlike what
    /// API servers write.
    pub(crate) fn scan(json: &str) -> Option<ObjectOutline> {
        let (mut cursor, mut builder) = (JsonCursor::new(json), ObjectOutlineBuilder::default());
        cursor.enter();
        while cursor.has_next() {
            scan_member(&mut cursor, &mut builder);
        }
        if cursor.is_valid_end() { builder.finish() } else { None }
    }

    /// The outline of a text that is known to be an object. It is read only until all identifying fields are found,
    /// which API servers write first. `None` if the text is unlike what they write.
    pub fn of_prefix(json: &str) -> Option<ObjectOutline> {
        let (mut cursor, mut builder) = (JsonCursor::new(json), ObjectOutlineBuilder::default());
        cursor.enter();
        while !builder.has_members() && cursor.has_next() {
            scan_member(&mut cursor, &mut builder);
        }
        if cursor.is_valid() { builder.finish() } else { None }
    }

    /// The text of an identifying field; empty if it is absent.
    pub(crate) fn text<'a>(&self, field: IdentifyingField, json: &'a str) -> &'a str {
        let TextRange { start, end } = self.identifying[field as usize];
        &json[start as usize..end as usize]
    }

    /// The outline of an object whose text was changed from byte `offset` on; `None` if that may concern the
    /// identifying fields.
    pub fn if_unchanged_before(self, offset: usize) -> Option<ObjectOutline> {
        let is_unchanged = |range: &TextRange| (range.end as usize) < offset;
        self.identifying.iter().all(is_unchanged).then_some(self)
    }

    /// Adds the result of a filter.
    #[must_use]
    pub fn with_filter_mark(self, mark: FilterMark) -> ObjectOutline {
        ObjectOutline { filter_mark: Some(mark), ..self }
    }

    /// The result of the filter that the object has passed, if there was one.
    pub fn filter_mark(&self) -> Option<FilterMark> {
        self.filter_mark
    }
}

/// Reads a member of an object, and notes what identifies the object.
fn scan_member(cursor: &mut JsonCursor<'_>, builder: &mut ObjectOutlineBuilder) {
    let name = cursor.key();
    let start = cursor.at();
    if name == "metadata" && cursor.peek() == b'{' {
        cursor.enter();
        while cursor.has_next() {
            let name = cursor.key();
            let start = cursor.at();
            cursor.skip();
            builder.note_metadata(&name, start, cursor.since(start));
        }
    } else {
        cursor.skip();
    }
    builder.note_member(&name, start, cursor.since(start));
}

// === impl ObjectOutlineBuilder ===

impl ObjectOutlineBuilder {
    /// Notes a member of the object: its name, and its value as text, which begins at an offset.
    #[inline]
    pub fn note_member(&mut self, name: &str, start: usize, value: &str) {
        match name {
            "apiVersion" => self.note_field(IdentifyingField::ApiVersion, start, value),
            "kind" => self.note_field(IdentifyingField::Kind, start, value),
            "metadata" => {
                self.is_unusual |= self.has_metadata || !value.starts_with('{');
                self.has_metadata = true;
            }
            _ => {}
        }
    }

    /// Notes a member of the object's metadata in the same way.
    #[inline]
    pub fn note_metadata(&mut self, name: &str, start: usize, value: &str) {
        match name {
            "name" => self.note_field(IdentifyingField::Name, start, value),
            "namespace" => self.note_field(IdentifyingField::Namespace, start, value),
            "uid" => self.note_field(IdentifyingField::Uid, start, value),
            "resourceVersion" => self.note_field(IdentifyingField::ResourceVersion, start, value),
            _ => {}
        }
    }

    /// The outline. `None` if a field is missing, or so unusual that the text has to be parsed to read it.
    pub fn finish(self) -> Option<ObjectOutline> {
        let is_complete = self.has_members() && self.has(IdentifyingField::Name);
        (is_complete && !self.is_unusual).then_some(self.outline)
    }

    /// Whether all members of the object that have identifying fields were noted.
    fn has_members(&self) -> bool {
        self.has_metadata && self.has(IdentifyingField::ApiVersion) && self.has(IdentifyingField::Kind)
    }

    fn has(&self, field: IdentifyingField) -> bool {
        self.outline.identifying[field as usize].end > 0
    }

    fn note_field(&mut self, field: IdentifyingField, start: usize, value: &str) {
        let range = &mut self.outline.identifying[field as usize];
        let is_duplicate = range.end > 0;
        let is_plain = value.len() >= 2 && value.starts_with('"') && !value.contains('\\');
        match (u32::try_from(start + 1), u32::try_from(start + value.len() - 1)) {
            (Ok(start), Ok(end)) if is_plain && !is_duplicate => *range = TextRange { start, end },
            _ => self.is_unusual = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::object::check_depth_and_scalars;
    use crate::{BadObject, Meta, Object};

    const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-1","namespace":"shop","uid":"u1","resourceVersion":"7"}}"#;

    /// The cursor must accept exactly what the parser accepts, an outline must say what the parser says, and an object
    /// must be read or refused as the parser alone would.
    #[track_caller]
    fn check_scan(json: &str) {
        let mut cursor = JsonCursor::new(json);
        cursor.skip();
        let is_tree = serde_json::from_str::<Value>(json).is_ok() && check_depth_and_scalars(json).is_ok();
        assert_eq!(cursor.is_valid_end(), is_tree, "{json}");
        if let Some(outline) = ObjectOutline::scan(json) {
            assert!(is_tree, "{json}");
            assert_eq!(Meta::of_outline(&outline, json), Meta::read(json).unwrap());
        }
        match (Object::parse(json), parse_without_scan(json)) {
            (Ok(object), Ok(meta)) => {
                if let Some(outline) = ObjectOutline::of_prefix(json) {
                    assert_eq!(Some(Meta::of_outline(&outline, json)), Meta::read_prefix(json));
                }
                assert_eq!((object.as_str(), object.meta()), (json, meta));
                assert!(is_tree, "{json}");
            }
            (Err(error), Err(expected)) => assert_eq!(error.to_string(), expected.to_string(), "{json}"),
            (parsed, expected) => panic!("{parsed:?} instead of {expected:?}"),
        }
    }

    fn parse_without_scan(json: &str) -> Result<Meta<'_>, BadObject> {
        check_depth_and_scalars(json)?;
        let meta = Meta::read(json)?;
        meta.check()?;
        Ok(meta)
    }

    #[test]
    fn objects_of_api_servers_have_an_outline() {
        for json in [
            POD.to_owned(),
            POD.replace("}}", r#"},"spec":{},"status":null}"#),
            POD.replace("}}", r#","labels":{"k:{\"a\":1}":"\u003c"}}, "spec" : [ 1 , true ] } "#),
        ] {
            assert!(
                ObjectOutline::scan(&json).is_some() && ObjectOutline::of_prefix(&json).is_some(),
                "{json}"
            );
            check_scan(&json);
        }
    }

    #[test]
    fn unusual_objects_have_no_outline_and_are_read_nevertheless() {
        for json in [POD.replace("web-1", r"web\u002d1"), POD.replace(r#""uid":"u1""#, r#""uid":null"#)] {
            assert_eq!(ObjectOutline::scan(&json), None, "{json}");
            assert_eq!(Object::parse(&json).unwrap().meta(), Meta::read(&json).unwrap());
        }
    }

    /// A struct may be read from a list, and a cursor enters lists and maps alike.
    #[test]
    fn lists_are_no_objects() {
        let in_list = format!("[{}]", &POD[1..POD.len() - 1]);
        for json in [
            in_list.as_str(),
            r#"["v1","Pod",{"name":"web-1"}]"#,
            r#"["v1","Pod",["web-1"]]"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":["web-1"]}"#,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":["name":"web-1"]}"#,
        ] {
            assert!(
                ObjectOutline::scan(json).is_none() && ObjectOutline::of_prefix(json).is_none(),
                "{json}"
            );
            assert!(Object::parse(json).is_err(), "{json}");
            check_scan(json);
        }
    }

    #[test]
    fn a_changed_text_keeps_its_outline_only_behind_the_identifying_fields() {
        let end = POD.find("\"}}").unwrap();
        for offset in 0..POD.len() {
            let outline = ObjectOutline::scan(POD).unwrap().if_unchanged_before(offset);
            assert_eq!(outline.is_some(), offset > end);
        }
    }

    #[test]
    fn texts_that_are_no_json_are_invalid() {
        for json in [
            "",
            " ",
            "{",
            "}",
            "[",
            "]",
            "{]",
            "[}",
            "{,}",
            "[,]",
            "[1,]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{\"a\":1 \"b\":2}",
            "{1:2}",
            "{\"a\":1}}",
            "1 2",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "tru",
            "nul",
            "NaN",
            "\"",
            "\"\\",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u12g4\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "\"\n\"",
            "1e999",
            "\u{a0}1",
        ] {
            check_scan(json);
        }
        for json in ["0", "-0", "-1.5e+3", "[]", "{}", " [ { } , \"\\ud83d\\ude00\" ] ", "\"\u{7f}\u{e9}\""] {
            check_scan(json);
        }
        for depth in [119, 120, 121, 130] {
            check_scan(&("[".repeat(depth) + &"]".repeat(depth)));
            check_scan(&(r#"{"a":"#.repeat(depth) + "1" + &"}".repeat(depth)));
        }
    }

    fn values() -> impl Strategy<Value = String> {
        let scalar = prop_oneof![
            Just("null".to_owned()),
            Just("true".to_owned()),
            "-?(0|[1-9][0-9]{0,20})(\\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?",
            "\"([ -!#-\\[\\]-~é𝄞]|\\\\(u[0-9a-f]{4}|[\"nt/\\\\])){0,12}\"",
        ];
        scalar.prop_recursive(4, 40, 5, |inner| {
            let name = prop_oneof!["\"[a-z]{1,3}\"", Just("\"kind\"".to_owned())];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5)
                    .prop_map(|entries| format!("[{}]", entries.join(", "))),
                prop::collection::vec((name, inner), 0..5).prop_map(|members| {
                    let members: Vec<String> =
                        members.iter().map(|(name, value)| format!("{name}: {value}")).collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_scan_agrees_with_the_parser(
            spec in values(),
            label in values(),
            from: prop::sample::Index,
            to: prop::sample::Index,
            width in 0..3_usize,
            with in "([ -~]|\\PC|[\u{0}-\u{1f}]){0,2}",
        ) {
            let json = POD.replace("}}", &format!(r#","labels":{label}}},"spec":{spec}}}"#));
            check_scan(&json);
            let chars: Vec<char> = json.chars().collect();
            let (from, to) = (from.index(chars.len()), to.index(chars.len()));
            let text = |parts: &[&[char]]| parts.concat().into_iter().collect::<String>();
            check_scan(&text(&[&chars[..from]]));
            let rest = &chars[(from + width).min(chars.len())..];
            check_scan(&text(&[&chars[..from], &with.chars().collect::<Vec<char>>(), rest]));
            // A part of the text once more: duplicate members, and brackets that do not match.
            check_scan(&text(&[&chars[..from.max(to)], &chars[from.min(to)..]]));
        }
    }
}
