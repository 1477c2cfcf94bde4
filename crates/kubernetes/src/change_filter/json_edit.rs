//! Edits of a JSON text: ranges that are removed or replaced.

use std::borrow::Cow;
use std::ops::Range;

use smallvec::SmallVec;

/// A range of a text and its replacement.
struct JsonEdit {
    from: usize,
    to: usize,
    /// The range of the replacement in [`JsonEdits::replacements`].
    replacement: Range<usize>,
}

/// The edits of one text, in order, collected while its maps are read; a member is removed together with the right
/// comma.
#[derive(Default)]
pub(super) struct JsonEdits {
    /// Few objects have more variables than fit without an allocation.
    list: SmallVec<[JsonEdit; 8]>,
    replacements: String,
}

/// State of member removal in one map. A removed member after a kept one takes the comma before it along; leading
/// members take the one after them.
#[derive(Default)]
pub(super) struct MemberRemoval {
    has_kept_member: bool,
    removed_from: Option<usize>,
}

// === impl JsonEdits ===

impl JsonEdits {
    /// Keeps the member that begins at `start`.
    pub(super) fn keep(&mut self, cutting: &mut MemberRemoval, start: usize) {
        cutting.has_kept_member = true;
        if let Some(from) = cutting.removed_from.take() {
            self.replace(from, start, "");
        }
    }

    /// Removes the member from `start` to `end`; the previous one ended at `before`.
    pub(super) fn remove(&mut self, cutting: &mut MemberRemoval, before: usize, start: usize, end: usize) {
        if cutting.has_kept_member {
            self.replace(before, end, "");
        } else {
            cutting.removed_from.get_or_insert(start);
        }
    }

    /// Ends the map whose last member ended at `end`.
    pub(super) fn close(&mut self, cutting: &mut MemberRemoval, end: usize) {
        if let Some(from) = cutting.removed_from.take() {
            self.replace(from, end, "");
        }
    }

    /// Replaces a range.
    pub(super) fn replace(&mut self, from: usize, to: usize, with: &str) {
        let start = self.replacements.len();
        if start == 0 && !with.is_empty() {
            // Where there is one variable there are more.
            self.replacements.reserve(8 * with.len());
        }
        self.replacements.push_str(with);
        self.list.push(JsonEdit { from, to, replacement: start..self.replacements.len() });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The offset up to which a text stays the same.
    pub(super) fn unchanged_bytes(&self, json: &str) -> usize {
        self.list.first().map_or(json.len(), |edit| edit.from)
    }

    /// The edited text.
    pub(super) fn apply(&self, json: &str) -> String {
        let mut text = String::with_capacity(self.pieces(json).map(str::len).sum());
        text.extend(self.pieces(json));
        text
    }

    /// The edited text, piece by piece.
    pub(super) fn pieces<'a>(&'a self, json: &'a str) -> impl Iterator<Item = &'a str> {
        let starts = std::iter::once(0).chain(self.list.iter().map(|edit| edit.to));
        let ends = self.list.iter().map(|edit| edit.from).chain(std::iter::once(json.len()));
        let replacement = |edit: &JsonEdit| &self.replacements[edit.replacement.clone()];
        let instead = self.list.iter().map(replacement).chain(std::iter::once(""));
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
    use model::JsonCursor;

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
