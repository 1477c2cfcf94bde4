//! JSON as Go writes it.
//!
//! Kubernetes programs that hold an object as an unstructured map read it with `sigs.k8s.io/json` and write it with
//! `encoding/json`: fields sorted by the bytes of their names, no spaces, `<`, `>` and `&` escaped, 64-bit integers as
//! they are and all other numbers as the nearest float.

use std::borrow::Cow;
use std::fmt;
use std::io::Write;

use model::MAX_DEPTH;
use serde::de::Error as _;
use serde_json::{Number, Result, Value};

/// Writes a JSON text as Go would after reading it. On invalid JSON part of it may have been written.
pub(crate) fn write(out: &mut Vec<u8>, text: &str) -> Result<()> {
    let mut rewrite = Rewriter { text, at: 0, out, fields: Vec::new(), sort_buffer: Vec::new() };
    rewrite.value(0)?;
    rewrite.skip_space();
    if rewrite.at < text.len() { Err(rewrite.unexpected("the end")) } else { Ok(()) }
}

/// Writes a value. A negative zero keeps its sign, as a float does in Go.
pub(crate) fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend(b"null"),
        Value::Bool(true) => out.extend(b"true"),
        Value::Bool(false) => out.extend(b"false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(entries) => {
            out.push(b'[');
            for (index, entry) in entries.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_value(out, entry);
            }
            out.push(b']');
        }
        Value::Object(fields) => {
            out.push(b'{');
            for (index, (name, value)) in fields.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(out, name);
                out.push(b':');
                write_value(out, value);
            }
            out.push(b'}');
        }
    }
}

/// Writes a text as a JSON string.
pub(crate) fn write_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        let end = start + plain_prefix_length(&bytes[start..]);
        out.extend_from_slice(&bytes[start..end]);
        let Some(c) = text[end..].chars().next() else { break };
        write_char(out, c);
        start = end + c.len_utf8();
    }
    out.push(b'"');
}

/// Writes a JSON text unchanged, except that it escapes the characters that only Go escapes.
pub(crate) fn escape(out: &mut Vec<u8>, text: &str) {
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => write_char(out, c),
            _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
}

/// Rewrites one JSON text.
struct Rewriter<'a> {
    text: &'a str,
    at: usize,
    out: &'a mut Vec<u8>,
    /// The fields of all open objects, the innermost last.
    fields: Vec<WrittenField<'a>>,
    /// The buffer in which fields are sorted.
    sort_buffer: Vec<u8>,
}

/// A field and its range in the output.
struct WrittenField<'a> {
    name: Cow<'a, str>,
    start: usize,
    end: usize,
}

// === impl Rewriter ===

impl<'a> Rewriter<'a> {
    fn value(&mut self, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.error(format_args!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => self.string().map(drop),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let rest = &self.text[self.at..];
                let Some(word) = ["null", "true", "false"].into_iter().find(|word| rest.starts_with(word))
                else {
                    return Err(self.unexpected("a value"));
                };
                self.out.extend(word.as_bytes());
                self.at += word.len();
                Ok(())
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<()> {
        self.at += 1;
        self.out.push(b'[');
        self.skip_space();
        if self.peek() != Some(b']') {
            loop {
                self.value(depth + 1)?;
                self.skip_space();
                match self.peek() {
                    Some(b',') => self.out.push(b','),
                    Some(b']') => break,
                    _ => return Err(self.unexpected("`,` or `]`")),
                }
                self.at += 1;
            }
        }
        self.at += 1;
        self.out.push(b']');
        Ok(())
    }

    fn object(&mut self, depth: usize) -> Result<()> {
        self.at += 1;
        self.out.push(b'{');
        let (first_field, body) = (self.fields.len(), self.out.len());
        self.skip_space();
        if self.peek() != Some(b'}') {
            loop {
                self.skip_space();
                if self.peek() != Some(b'"') {
                    return Err(self.unexpected("a field name"));
                }
                let start = self.out.len();
                let name = self.string()?;
                self.skip_space();
                if self.peek() != Some(b':') {
                    return Err(self.unexpected("`:`"));
                }
                self.at += 1;
                self.out.push(b':');
                self.value(depth + 1)?;
                self.fields.push(WrittenField { name, start, end: self.out.len() });
                self.skip_space();
                match self.peek() {
                    Some(b',') => self.out.push(b','),
                    Some(b'}') => break,
                    _ => return Err(self.unexpected("`,` or `}`")),
                }
                self.at += 1;
            }
        }
        self.at += 1;
        self.sort_fields(first_field, body);
        self.out.push(b'}');
        Ok(())
    }

    /// Sorts the fields of the innermost object, the first of which begins at `body`.
    fn sort_fields(&mut self, first_field: usize, body: usize) {
        let fields = &mut self.fields[first_field..];
        if !fields.is_sorted_by(|a, b| a.name < b.name) {
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            self.sort_buffer.clear();
            for (index, field) in fields.iter().enumerate() {
                // Of duplicate names the last counts, and the sort is stable.
                if fields.get(index + 1).is_some_and(|next| next.name == field.name) {
                    continue;
                }
                if !self.sort_buffer.is_empty() {
                    self.sort_buffer.push(b',');
                }
                self.sort_buffer.extend_from_slice(&self.out[field.start..field.end]);
            }
            self.out.truncate(body);
            self.out.extend_from_slice(&self.sort_buffer);
        }
        self.fields.truncate(first_field);
    }

    /// Writes the string that begins here and returns it unescaped.
    fn string(&mut self) -> Result<Cow<'a, str>> {
        let start = self.at + 1;
        let end = start + plain_prefix_length(&self.text.as_bytes()[start..]);
        if self.text.as_bytes().get(end) == Some(&b'"') {
            self.out.extend_from_slice(&self.text.as_bytes()[start - 1..=end]);
            self.at = end + 1;
            return Ok(self.text[start..end].into());
        }
        self.at = start;
        let text = self.read_escaped_string()?;
        write_string(self.out, &text);
        Ok(text.into())
    }

    /// The unescaped string up to its closing quote.
    fn read_escaped_string(&mut self) -> Result<String> {
        let mut said = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)) else {
                self.at = self.text.len();
                return Err(self.unexpected("`\"`"));
            };
            said.push_str(&rest[..end]);
            self.at += end;
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(said);
                }
                Some(b'\\') => said.push(self.read_escape()?),
                _ => return Err(self.unexpected("no control character in a string")),
            }
        }
    }

    /// The character of an escape. An unpaired surrogate becomes U+FFFD, as in Go.
    fn read_escape(&mut self) -> Result<char> {
        let c = match self.text.as_bytes().get(self.at + 1) {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(*c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                let Some(first) = self.utf16_unit(self.at) else {
                    return Err(self.unexpected("four hexadecimal digits after `\\u`"));
                };
                self.at += 6;
                let pair = [first, self.utf16_unit(self.at).unwrap_or(0)];
                // The text after an unpaired surrogate is parsed by itself.
                let (c, taken) = match char::decode_utf16(pair).next() {
                    Some(Ok(c)) => (c, 6 * (c.len_utf16() - 1)),
                    _ => (char::REPLACEMENT_CHARACTER, 0),
                };
                self.at += taken;
                return Ok(c);
            }
            _ => return Err(self.unexpected("an escape")),
        };
        self.at += 2;
        Ok(c)
    }

    /// The UTF-16 code unit of an escape such as `\u00e9` at this position; `None` if there is none.
    fn utf16_unit(&self, at: usize) -> Option<u16> {
        let digits = self.text.as_bytes().get(at..at + 6)?.strip_prefix(b"\\u")?;
        let digit = |byte: &u8| char::from(*byte).to_digit(16);
        digits.iter().try_fold(0, |unit, byte| Some(unit << 4 | digit(byte)? as u16))
    }

    fn number(&mut self) -> Result<()> {
        let rest = &self.text[self.at..];
        let length = rest.bytes().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
        let text = &rest[..length];
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_whole = digits.bytes().all(|byte| byte.is_ascii_digit());
        // Eighteen digits always fit.
        if is_whole && (1..=18).contains(&digits.len()) && !digits.starts_with('0') {
            self.out.extend(text.as_bytes());
        } else if text == "-0" {
            // Integers have no signed zero; `-0.0` is a float and has one.
            self.out.push(b'0');
        } else {
            let Ok(number) = serde_json::from_str::<Number>(text) else {
                return Err(self.error(format_args!("{:.40} is not a number or out of range", text)));
            };
            write_number(self.out, &number);
        }
        self.at += length;
        Ok(())
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn unexpected(&self, expected: &str) -> serde_json::Error {
        self.error(format_args!("expected {expected}"))
    }

    fn error(&self, why: fmt::Arguments<'_>) -> serde_json::Error {
        serde_json::Error::custom(format_args!("{why} at byte {}", self.at))
    }
}

/// The length of the prefix that is written without escapes.
fn plain_prefix_length(bytes: &[u8]) -> usize {
    // U+2028 and U+2029 begin with 0xe2; stopping at other characters with that first byte does no harm.
    const STOPS: [bool; 256] = {
        let mut stops = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            stops[byte] = byte < 0x20 || matches!(byte as u8, b'"' | b'\\' | b'<' | b'>' | b'&' | 0xe2);
            byte += 1;
        }
        stops
    };
    bytes.iter().position(|byte| STOPS[usize::from(*byte)]).unwrap_or(bytes.len())
}

fn write_char(out: &mut Vec<u8>, c: char) {
    match c {
        '"' | '\\' => out.extend([b'\\', c as u8]),
        '\u{8}' => out.extend(b"\\b"),
        '\u{c}' => out.extend(b"\\f"),
        '\n' => out.extend(b"\\n"),
        '\r' => out.extend(b"\\r"),
        '\t' => out.extend(b"\\t"),
        '\0'..'\u{20}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
            append(out, format_args!("\\u{:04x}", u32::from(c)))
        }
        _ => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Exponents only below 1e-6 and from 1e21 on, as in JavaScript; integers beyond 64 bits are floats.
fn write_number(out: &mut Vec<u8>, number: &Number) {
    if let Some(whole) = number.as_i64() {
        return append(out, format_args!("{whole}"));
    }
    let float = number.as_f64().expect("a number outside i64 converts to f64");
    let size = float.abs();
    if size == 0.0 || (1e-6..1e21).contains(&size) {
        return append(out, format_args!("{float}"));
    }
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').expect("scientific notation has an exponent");
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    append(out, format_args!("{digits}e{sign}{exponent}"));
}

fn append(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a Vec cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde::Deserialize;

    fn written(text: &str) -> Result<String> {
        let mut out = Vec::new();
        write(&mut out, text)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn objects_come_out_as_go_prints_them() {
        #[derive(Deserialize)]
        struct Case {
            r#in: String,
            /// `None` where Go rejects the text.
            out: Option<String>,
        }
        let cases = include_str!("../../../testdata/formats/go_json.jsonl");
        assert!(cases.lines().count() > 400);
        for line in cases.lines() {
            let case: Case = serde_json::from_str(line).unwrap();
            assert_eq!(written(&case.r#in).ok(), case.out, "{}", case.r#in);
        }
    }

    #[test]
    fn errors_have_their_position() {
        for (text, why) in [
            ("", "expected a value at byte 0"),
            (r#"{"a":1,}"#, "expected a field name at byte 7"),
            ("[1 2]", "expected `,` or `]` at byte 3"),
            ("[01]", "01 is not a number or out of range at byte 1"),
            ("{} x", "expected the end at byte 3"),
        ] {
            assert_eq!(written(text).unwrap_err().to_string(), why);
        }
        let deep = "[".repeat(100_000);
        assert!(written(&deep).unwrap_err().to_string().starts_with("nested deeper than"));
    }

    #[test]
    fn a_value_is_written_like_its_text() {
        let text =
            r#"{"b":[1,2.50,{"y":"<\u2028","x":null}],"a":{"z":-1e21,"é\n":true},"c":18446744073709551615}"#;
        let mut out = Vec::new();
        write_value(&mut out, &serde_json::from_str(text).unwrap());
        assert_eq!(String::from_utf8(out).unwrap(), written(text).unwrap());
    }

    proptest! {
        #[test]
        fn any_text_is_read_back(text: String) {
            let mut out = Vec::new();
            write_string(&mut out, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
        }

        #[test]
        fn any_text_is_written_or_refused(text in "[\\[\\]{}\",:0-9.eE+\\\\u-]{0,40}") {
            if let Ok(once) = written(&text) {
                prop_assert_eq!(written(&once).unwrap(), once);
            }
        }
    }
}
