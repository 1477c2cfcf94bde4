//! Scanning JSON text and removing ranges from it, without parsing values that are not needed.
//!
//! The text must be valid JSON. On any other input the ranges are meaningless, but nothing panics or loops forever.

use std::borrow::Cow;

use memchr::memchr2;

/// A read position in a JSON text.
pub(super) struct JsonCursor<'a> {
    json: &'a str,
    at: usize,
}

/// A range of a text and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonEdit {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) replacement: String,
}

/// The edits of one text, in order, collected while its maps are read; a member is removed together with the right
/// comma.
#[derive(Default)]
pub(super) struct JsonEdits {
    list: Vec<JsonEdit>,
}

/// State of member removal in one map. A removed member after a kept one takes the comma before it along; leading
/// members take the one after them.
#[derive(Default)]
pub(super) struct MemberRemoval {
    has_kept_member: bool,
    removed_from: Option<usize>,
}

// === impl JsonCursor ===

impl<'a> JsonCursor<'a> {
    pub(super) fn new(json: &'a str) -> JsonCursor<'a> {
        JsonCursor { json, at: 0 }
    }

    /// The current offset.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The text from `from` to here.
    pub(super) fn since(&self, from: usize) -> &'a str {
        self.json.get(from..self.at).unwrap_or_default()
    }

    /// The first byte of the next value or key; 0 at the end.
    pub(super) fn peek(&mut self) -> u8 {
        while let Some(byte) = self.byte()
            && byte.is_ascii_whitespace()
        {
            self.at += 1;
        }
        self.byte().unwrap_or(0)
    }

    /// Steps into the map or list that begins here.
    pub(super) fn enter(&mut self) {
        self.peek();
        self.advance(1);
    }

    /// Whether the map or list has another member. Stops before that member, or after the closing bracket.
    pub(super) fn has_next(&mut self) -> bool {
        match self.peek() {
            b',' => {
                self.advance(1);
                self.peek();
                true
            }
            b'}' | b']' => {
                self.advance(1);
                false
            }
            other => other != 0,
        }
    }

    /// Reads a member's key and stops before its value.
    pub(super) fn key(&mut self) -> Cow<'a, str> {
        let from = self.at;
        self.skip_string();
        let key = unquoted(self.since(from));
        if self.peek() == b':' {
            self.advance(1);
        }
        self.peek();
        key
    }

    /// Skips one value.
    pub(super) fn skip(&mut self) {
        let bytes = self.json.as_bytes();
        match self.peek() {
            b'"' => self.skip_string(),
            b'{' | b'[' => {
                let mut depth = 0_usize;
                while let Some(byte) = bytes.get(self.at) {
                    match byte {
                        b'"' => {
                            self.skip_string();
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    self.at += 1;
                    if depth == 0 {
                        return;
                    }
                }
            }
            _ => {
                let scalar = |byte: &&u8| !matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
                let rest = bytes.get(self.at..).unwrap_or_default();
                // At least one byte, so that a loop over members always advances.
                self.advance(rest.iter().take_while(scalar).count().max(1));
            }
        }
    }

    /// Skips the string that begins here.
    fn skip_string(&mut self) {
        let bytes = self.json.as_bytes();
        let mut at = self.at + 1;
        while let Some(next) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
            at += next;
            if bytes[at] == b'"' {
                self.at = at + 1;
                return;
            }
            at += 2;
        }
        self.at = bytes.len();
    }

    fn advance(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.json.len());
    }

    fn byte(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }
}

// === impl JsonEdits ===

impl JsonEdits {
    /// Keeps the member that begins at `start`.
    pub(super) fn keep(&mut self, cutting: &mut MemberRemoval, start: usize) {
        cutting.has_kept_member = true;
        if let Some(from) = cutting.removed_from.take() {
            self.replace(from, start, String::new());
        }
    }

    /// Removes the member from `start` to `end`; the previous one ended at `before`.
    pub(super) fn remove(&mut self, cutting: &mut MemberRemoval, before: usize, start: usize, end: usize) {
        if cutting.has_kept_member {
            self.replace(before, end, String::new());
        } else {
            cutting.removed_from.get_or_insert(start);
        }
    }

    /// Ends the map whose last member ended at `end`.
    pub(super) fn close(&mut self, cutting: &mut MemberRemoval, end: usize) {
        if let Some(from) = cutting.removed_from.take() {
            self.replace(from, end, String::new());
        }
    }

    /// Replaces a range.
    pub(super) fn replace(&mut self, from: usize, to: usize, with: String) {
        self.list.push(JsonEdit { from, to, replacement: with });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The edited text.
    pub(super) fn apply(&self, json: &str) -> String {
        let mut text = String::with_capacity(json.len());
        text.extend(self.pieces(json));
        text
    }

    /// The edited text, piece by piece.
    pub(super) fn pieces<'a>(&'a self, json: &'a str) -> impl Iterator<Item = &'a str> {
        let starts = std::iter::once(0).chain(self.list.iter().map(|edit| edit.to));
        let ends = self.list.iter().map(|edit| edit.from).chain(std::iter::once(json.len()));
        let instead = self.list.iter().map(|edit| edit.replacement.as_str()).chain(std::iter::once(""));
        let kept_ranges = starts.zip(ends).map(|(from, to)| json.get(from..to).unwrap_or_default());
        kept_ranges.zip(instead).flat_map(|(kept_ranges, instead)| [kept_ranges, instead])
    }
}

/// The contents of a quoted JSON string.
pub(super) fn unquoted(string: &str) -> Cow<'_, str> {
    let inner = string.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(string);
    match inner.contains('\\').then(|| serde_json::from_str(string)) {
        Some(Ok(text)) => Cow::Owned(text),
        _ => Cow::Borrowed(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn cut(json: &str, names: &str, expected: &str) {
        let (mut cursor, mut edits, mut cutting) =
            (JsonCursor::new(json), JsonEdits::default(), MemberRemoval::default());
        cursor.enter();
        let mut end = cursor.at();
        while cursor.has_next() {
            let start = cursor.at();
            let stays = !names.contains(&*cursor.key());
            if stays {
                edits.keep(&mut cutting, start);
            }
            cursor.skip();
            if !stays {
                edits.remove(&mut cutting, end, start, cursor.at());
            }
            end = cursor.at();
        }
        edits.close(&mut cutting, end);
        assert_eq!(edits.apply(json), expected);
        assert_eq!(cursor.at(), json.len());
    }

    #[test]
    fn a_member_goes_with_its_comma() {
        let json = r#"{"a":1,"b":[{},"]}\""],"c":{"a":2}}"#;
        cut(json, "", json);
        cut(json, "a", r#"{"b":[{},"]}\""],"c":{"a":2}}"#);
        cut(json, "b", r#"{"a":1,"c":{"a":2}}"#);
        cut(json, "c", r#"{"a":1,"b":[{},"]}\""]}"#);
        cut(json, "ab", r#"{"c":{"a":2}}"#);
        cut(json, "ac", r#"{"b":[{},"]}\""]}"#);
        cut(json, "bc", r#"{"a":1}"#);
        cut(json, "abc", "{}");
    }

    #[test]
    fn space_and_escaped_keys_are_read() {
        cut("{ \"a\" : 1 ,\n \"\\u0062\" : 2 }", "b", "{ \"a\" : 1 }");
        cut("{ \"a\" : 1 ,\n \"b\" : 2 }", "a", "{ \"b\" : 2 }");
        cut("{ }", "a", "{ }");
    }

    #[test]
    fn text_that_is_no_json_ends_too() {
        for json in
            ["", "{", "{\"", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":1,", "{\"a\":[", "{,,,", "{:::", "{\"\\"]
        {
            let mut cursor = JsonCursor::new(json);
            cursor.enter();
            while cursor.has_next() {
                cursor.key();
                cursor.skip();
            }
            assert!(cursor.at() <= json.len());
        }
    }
}
