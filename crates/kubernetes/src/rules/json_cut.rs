//! Reading through JSON text and cutting ranges out of it, without parsing what is not asked for.
//!
//! The text is known to be valid JSON. On any other the ranges found mean nothing, but nothing panics or runs on.

use std::borrow::Cow;

use memchr::memchr2;

/// A place in a JSON text.
pub(super) struct Cursor<'a> {
    json: &'a str,
    at: usize,
}

/// A range of a text and what stands there instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) with: String,
}

/// The edits of one text, in order, while its maps are read: takes members out together with the right comma.
#[derive(Default)]
pub(super) struct Edits {
    list: Vec<Edit>,
}

/// Where in a map the cutting stands. A member behind one that stays takes the comma before it along; leading
/// members take the one behind them.
#[derive(Default)]
pub(super) struct Cutting {
    stays: bool,
    leading: Option<usize>,
}

// === impl Cursor ===

impl<'a> Cursor<'a> {
    pub(super) fn new(json: &'a str) -> Cursor<'a> {
        Cursor { json, at: 0 }
    }

    /// How far the text has been read.
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
        self.step(1);
    }

    /// Whether the map or list has another member; stands before it then, else behind the closing bracket.
    pub(super) fn more(&mut self) -> bool {
        match self.peek() {
            b',' => {
                self.step(1);
                self.peek();
                true
            }
            b'}' | b']' => {
                self.step(1);
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
            self.step(1);
        }
        self.peek();
        key
    }

    /// Reads past one value.
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
                // At least one byte, so that a loop over members gets on whatever stands here.
                self.step(rest.iter().take_while(scalar).count().max(1));
            }
        }
    }

    /// Reads past the string that begins here.
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

    fn step(&mut self, bytes: usize) {
        self.at = (self.at + bytes).min(self.json.len());
    }

    fn byte(&self) -> Option<u8> {
        self.json.as_bytes().get(self.at).copied()
    }
}

// === impl Edits ===

impl Edits {
    /// The member that begins at `start` stays.
    pub(super) fn keep(&mut self, cutting: &mut Cutting, start: usize) {
        cutting.stays = true;
        if let Some(from) = cutting.leading.take() {
            self.replace(from, start, String::new());
        }
    }

    /// The member from `start` to `end` goes; the one before it ended at `before`.
    pub(super) fn cut(&mut self, cutting: &mut Cutting, before: usize, start: usize, end: usize) {
        if cutting.stays {
            self.replace(before, end, String::new());
        } else {
            cutting.leading.get_or_insert(start);
        }
    }

    /// The map whose last member ended at `end` is read.
    pub(super) fn close(&mut self, cutting: &mut Cutting, end: usize) {
        if let Some(from) = cutting.leading.take() {
            self.replace(from, end, String::new());
        }
    }

    /// A range gives way to another text.
    pub(super) fn replace(&mut self, from: usize, to: usize, with: String) {
        self.list.push(Edit { from, to, with });
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
        let instead = self.list.iter().map(|edit| edit.with.as_str()).chain(std::iter::once(""));
        let kept = starts.zip(ends).map(|(from, to)| json.get(from..to).unwrap_or_default());
        kept.zip(instead).flat_map(|(kept, instead)| [kept, instead])
    }
}

/// The text of a JSON string with its quotes.
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
        let (mut cursor, mut edits, mut cutting) = (Cursor::new(json), Edits::default(), Cutting::default());
        cursor.enter();
        let mut end = cursor.at();
        while cursor.more() {
            let start = cursor.at();
            let stays = !names.contains(&*cursor.key());
            if stays {
                edits.keep(&mut cutting, start);
            }
            cursor.skip();
            if !stays {
                edits.cut(&mut cutting, end, start, cursor.at());
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
            let mut cursor = Cursor::new(json);
            cursor.enter();
            while cursor.more() {
                cursor.key();
                cursor.skip();
            }
            assert!(cursor.at() <= json.len());
        }
    }
}
