//! A cursor that validates a JSON text while it moves over it, without building values.

use std::borrow::Cow;

use crate::string_scan::find_string_stop;

/// Maximum nesting depth of an object. The JSON parsers in this program stop at 128; the difference leaves room for
/// envelopes.
pub const MAX_DEPTH: usize = 120;

/// A read position in a JSON text.
///
/// It accepts exactly the texts that a parser can turn into a tree of at most [`MAX_DEPTH`] levels. At the first error
/// it moves to the end of the text, where there are no more members, and the text is not valid.
pub struct JsonCursor<'a> {
    json: &'a str,
    at: usize,
    /// The number of maps and lists that the position is in.
    depth: usize,
    /// A bit for each of them, the innermost last: set for maps.
    open: u128,
    /// The position is right behind an opening bracket.
    is_first: bool,
    is_valid: bool,
    has_escaped_names: bool,
}

// === impl JsonCursor ===

impl<'a> JsonCursor<'a> {
    /// At the beginning of a text.
    pub fn new(json: &'a str) -> JsonCursor<'a> {
        JsonCursor {
            json,
            at: 0,
            depth: 0,
            open: 0,
            is_first: false,
            is_valid: true,
            has_escaped_names: false,
        }
    }

    /// The current offset.
    pub fn at(&self) -> usize {
        self.at
    }

    /// The text from `from` to here.
    pub fn since(&self, from: usize) -> &'a str {
        self.json.get(from..self.at).unwrap_or_default()
    }

    /// Whether the text up to here is valid.
    pub fn is_valid(&self) -> bool {
        self.is_valid
    }

    /// Whether the text up to here is valid, and only space is left.
    pub fn is_valid_end(&mut self) -> bool {
        self.peek();
        self.is_valid && self.at == self.json.len()
    }

    /// Whether a character of a name so far is written as an escape by code point, so that a search for the name in
    /// the text does not find it.
    pub fn has_escaped_names(&self) -> bool {
        self.has_escaped_names
    }

    /// The first byte of the next value or key; 0 at the end.
    #[inline]
    pub fn peek(&mut self) -> u8 {
        loop {
            match self.byte() {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return byte,
            }
        }
    }

    /// Steps into the map or list that begins here.
    #[inline]
    pub fn enter(&mut self) {
        match self.peek() {
            b'{' => self.open_level(1),
            b'[' => self.open_level(0),
            _ => self.fail(),
        }
    }

    /// Whether the map or list has another member. Stops before that member, or after the closing bracket.
    #[inline]
    pub fn has_next(&mut self) -> bool {
        let is_first = std::mem::take(&mut self.is_first);
        match self.peek() {
            b',' if !is_first => {
                self.at += 1;
                self.peek();
                true
            }
            bracket @ (b'}' | b']') => {
                self.close_level(bracket);
                false
            }
            0 => {
                self.fail();
                false
            }
            _ if is_first => true,
            _ => {
                self.fail();
                false
            }
        }
    }

    /// Reads a member's key and stops before its value. The members of a list have none: there it fails.
    #[inline]
    pub fn key(&mut self) -> Cow<'a, str> {
        if self.open & 1 == 0 {
            self.fail();
        }
        let start = self.at + 1;
        let has_escapes = self.string(true);
        let end = self.at.saturating_sub(1);
        self.colon();
        match has_escapes {
            false => Cow::Borrowed(self.json.get(start..end).unwrap_or_default()),
            true => unescaped(self.json.get(start - 1..end + 1).unwrap_or_default()),
        }
    }

    /// Skips one value.
    pub fn skip(&mut self) {
        self.skip_until(self.depth);
    }

    /// Skips the rest of the innermost map or list, from the beginning of a member.
    pub fn leave(&mut self) {
        if self.open & 1 == 1 {
            self.string(true);
            self.colon();
        }
        self.skip_until(self.depth.saturating_sub(1));
    }

    /// The texts of members, by name, of the map that begins here; `None` for one that is missing. Stops after the map.
    /// Fails if no map begins here, or it has one of them twice.
    pub fn members<const N: usize>(&mut self, names: [&str; N]) -> Option<[Option<&'a str>; N]> {
        if self.peek() != b'{' {
            return None;
        }
        let mut texts = [None; N];
        self.enter();
        while self.has_next() {
            let name = self.key();
            let start = self.at();
            self.skip();
            if let Some(index) = names.iter().position(|wanted| *wanted == name)
                && texts[index].replace(self.since(start)).is_some()
            {
                return None;
            }
        }
        Some(texts)
    }

    /// Skips values until the position is in `depth` maps and lists again.
    fn skip_until(&mut self, depth: usize) {
        loop {
            match self.peek() {
                b'"' => {
                    self.string(false);
                }
                b'{' => {
                    self.open_level(1);
                    if self.peek() == b'}' {
                        self.close_level(b'}');
                    } else {
                        self.string(true);
                        self.colon();
                        continue;
                    }
                }
                b'[' => {
                    self.open_level(0);
                    if self.peek() == b']' {
                        self.close_level(b']');
                    } else {
                        continue;
                    }
                }
                b'-' | b'0'..=b'9' => self.number(),
                b't' => self.literal("true"),
                b'f' => self.literal("false"),
                b'n' => self.literal("null"),
                _ => self.fail(),
            }
            // Behind a value.
            loop {
                if self.depth == depth {
                    self.is_first = false;
                    return;
                }
                match self.peek() {
                    b',' => {
                        self.at += 1;
                        if self.open & 1 == 1 {
                            self.peek();
                            self.string(true);
                            self.colon();
                        }
                        break;
                    }
                    bracket @ (b'}' | b']') => self.close_level(bracket),
                    _ => {
                        self.fail();
                        self.depth = depth;
                    }
                }
            }
        }
    }

    fn open_level(&mut self, is_map: u128) {
        self.at += 1;
        (self.depth, self.open, self.is_first) = (self.depth + 1, self.open << 1 | is_map, true);
        if self.depth > MAX_DEPTH {
            self.fail();
        }
    }

    fn close_level(&mut self, bracket: u8) {
        self.at += 1;
        if self.depth == 0 || (bracket == b'}') != (self.open & 1 == 1) {
            return self.fail();
        }
        (self.depth, self.open, self.is_first) = (self.depth - 1, self.open >> 1, false);
    }

    #[inline]
    fn colon(&mut self) {
        if self.peek() == b':' {
            self.at += 1;
            self.peek();
        } else {
            self.fail();
        }
    }

    /// Skips a string, and returns whether it contains escapes.
    #[inline]
    fn string(&mut self, is_name: bool) -> bool {
        let bytes = self.json.as_bytes();
        if self.byte() != b'"' {
            self.fail();
            return false;
        }
        self.at = find_string_stop(bytes, self.at + 1);
        if self.byte() == b'"' {
            self.at += 1;
            return false;
        }
        self.string_with_escapes(is_name);
        true
    }

    /// Skips the rest of a string from its first escape.
    fn string_with_escapes(&mut self, is_name: bool) {
        let bytes = self.json.as_bytes();
        loop {
            match self.byte() {
                b'"' => {
                    self.at += 1;
                    return;
                }
                b'\\' => match bytes.get(self.at + 1) {
                    Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
                    Some(b'u') => {
                        self.has_escaped_names |= is_name;
                        self.at += match (self.utf16_unit(self.at), self.utf16_unit(self.at + 6)) {
                            // Characters beyond U+FFFF are escaped as a surrogate pair.
                            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
                            (None | Some(0xd800..=0xdfff), _) => return self.fail(),
                            (Some(_), _) => 6,
                        };
                    }
                    _ => return self.fail(),
                },
                // A control character, or the end of the text.
                _ => return self.fail(),
            }
            self.at = find_string_stop(bytes, self.at);
        }
    }

    /// The UTF-16 code unit of the escape at an offset; `None` if there is none.
    fn utf16_unit(&self, at: usize) -> Option<u16> {
        let digits = self.json.as_bytes().get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits
            .iter()
            .try_fold(0, |unit: u16, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
    }

    fn number(&mut self) {
        let start = self.at;
        self.at += usize::from(self.byte() == b'-');
        if self.byte() == b'0' {
            self.at += 1;
        } else {
            self.digits();
        }
        if self.byte() == b'.' {
            self.at += 1;
            self.digits();
        }
        let has_exponent = matches!(self.byte(), b'e' | b'E');
        if has_exponent {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), b'+' | b'-'));
            self.digits();
        }
        // Eighteen digits always fit; beyond that the number must at least be finite.
        if (has_exponent || self.at - start > 18) && !self.since(start).parse().is_ok_and(f64::is_finite) {
            self.fail();
        }
    }

    /// Skips digits, of which there must be one.
    fn digits(&mut self) {
        if !self.byte().is_ascii_digit() {
            return self.fail();
        }
        while self.byte().is_ascii_digit() {
            self.at += 1;
        }
    }

    fn literal(&mut self, text: &str) {
        match self.json.as_bytes()[self.at..].starts_with(text.as_bytes()) {
            true => self.at += text.len(),
            false => self.fail(),
        }
    }

    #[cold]
    fn fail(&mut self) {
        (self.is_valid, self.at) = (false, self.json.len());
    }

    /// The next byte; 0 at the end.
    #[inline]
    fn byte(&self) -> u8 {
        self.json.as_bytes().get(self.at).copied().unwrap_or(0)
    }
}

/// The texts of members of a map by name; `None` for one that is missing. Fails if the text is no map, or has one of
/// them twice.
pub fn json_members<'a, const N: usize>(json: &'a str, names: [&str; N]) -> Option<[Option<&'a str>; N]> {
    let mut cursor = JsonCursor::new(json);
    let texts = cursor.members(names)?;
    cursor.is_valid_end().then_some(texts)
}

/// The contents of a quoted string with escapes.
fn unescaped(string: &str) -> Cow<'_, str> {
    serde_json::from_str(string).map_or(Cow::Borrowed(""), Cow::Owned)
}
