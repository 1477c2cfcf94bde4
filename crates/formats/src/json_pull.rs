//! A pull parser for large JSON documents that holds one extracted value at a time.

use std::fmt;
use std::io::{self, BufRead};

use crate::Error;
use crate::json_values::MAX_VALUE_BYTES;

/// The most characters of a foreign text in a message.
const MAX_MESSAGE_CHARS: usize = 120;

/// Goes through a document, descends into the objects and lists that `action` selects, and extracts the values in them.
pub(crate) struct JsonPullParser<R> {
    reader: R,
    /// Decides what to do with the value at a path.
    action: fn(&[PathSegment]) -> PullAction,
    /// Bytes read so far.
    bytes_read: u64,
    started: bool,
    /// The open objects and lists.
    open: Vec<OpenContainer>,
    path: Vec<PathSegment>,
    text: Vec<u8>,
}

/// What to do with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PullAction {
    /// Descend into it and return the values inside. A scalar is extracted.
    Descend,
    /// Return its text.
    Extract,
    /// Skip it, whatever its length.
    Skip,
}

/// One segment of a path into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathSegment {
    /// The field of an object.
    Field(String),
    /// The item of a list.
    Index(u64),
}

/// A value that was reached.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PulledValue<'a> {
    /// An object or list whose values come next.
    Descended,
    /// The text of a value. It is checked for JSON only as far as needed to find its end.
    Text(&'a str),
    /// A skipped value.
    Skipped,
}

/// An error in a document and its position.
#[derive(Debug)]
pub(crate) struct PullError {
    /// The byte offset.
    pub(crate) at: u64,
    /// The path of the value there.
    pub(crate) path: String,
    pub(crate) kind: PullErrorKind,
}

/// The kind of an error in a document.
#[derive(Debug)]
pub(crate) enum PullErrorKind {
    /// It ends early.
    UnexpectedEnd,
    /// A value is longer than [`MAX_VALUE_BYTES`].
    TooLong,
    /// It is not JSON.
    Invalid(String),
    /// An error of the system.
    Io(io::Error),
}

struct OpenContainer {
    end: u8,
    is_list: bool,
    /// No entry of it has been read yet.
    at_start: bool,
}

/// Finds the end of a value.
#[derive(Default)]
struct ValueScanner {
    depth: u64,
    in_string: bool,
    escaped: bool,
    in_word: bool,
}

// === impl JsonPullParser ===

impl<R: BufRead> JsonPullParser<R> {
    pub(crate) fn new(reader: R, way: fn(&[PathSegment]) -> PullAction) -> JsonPullParser<R> {
        JsonPullParser {
            reader,
            action: way,
            bytes_read: 0,
            started: false,
            open: Vec::new(),
            path: Vec::new(),
            text: Vec::new(),
        }
    }

    /// The next value and its path; `None` at the end of the document. What follows the document is not read.
    pub(crate) fn next(
        &mut self,
    ) -> std::result::Result<Option<(&[PathSegment], PulledValue<'_>)>, PullError> {
        let step = self.advance();
        match step {
            Err(why) => Err(PullError { at: self.bytes_read, path: format_path(&self.path), kind: why }),
            Ok(None) => Ok(None),
            Ok(Some(way)) => {
                let piece = match way {
                    PullAction::Descend => PulledValue::Descended,
                    PullAction::Skip => PulledValue::Skipped,
                    PullAction::Extract => match std::str::from_utf8(&self.text) {
                        Ok(text) => PulledValue::Text(text),
                        Err(error) => {
                            let at = self.bytes_read - (self.text.len() - error.valid_up_to()) as u64;
                            let why = PullErrorKind::Invalid("not UTF-8".to_owned());
                            return Err(PullError { at, path: format_path(&self.path), kind: why });
                        }
                    },
                };
                Ok(Some((&self.path, piece)))
            }
        }
    }

    /// The path of the value returned last.
    pub(crate) fn path(&self) -> String {
        format_path(&self.path)
    }

    /// Reads to the end of the file and returns whether there was anything but whitespace.
    pub(crate) fn drain(&mut self) -> io::Result<bool> {
        let mut more = false;
        loop {
            let chunk = self.reader.fill_buf()?;
            if chunk.is_empty() {
                return Ok(more);
            }
            more |= !chunk.trim_ascii().is_empty();
            let length = chunk.len();
            self.consume(length);
        }
    }

    /// Moves to the next value and reads or skips it, or descends into it.
    fn advance(&mut self) -> std::result::Result<Option<PullAction>, PullErrorKind> {
        if !self.started {
            self.started = true;
            self.skip_byte_order_mark()?;
            return self.handle_value().map(Some);
        }
        loop {
            let Some(open) = self.open.last_mut() else { return Ok(None) };
            let (end, is_list, fresh) = (open.end, open.is_list, std::mem::take(&mut open.at_start));
            let byte = self.peek_token()?;
            if byte == end {
                self.consume(1);
                self.open.pop();
                if !fresh {
                    self.path.pop();
                }
                continue;
            }
            if !fresh {
                if byte != b',' {
                    return Err(unexpected_byte(byte, &format!("',' or '{}'", char::from(end))));
                }
                self.consume(1);
            }
            let step = if is_list {
                PathSegment::Index(match self.path.last() {
                    Some(PathSegment::Index(last)) if !fresh => last + 1,
                    _ => 0,
                })
            } else {
                PathSegment::Field(self.read_field_name()?)
            };
            match self.path.last_mut() {
                Some(last) if !fresh => *last = step,
                _ => self.path.push(step),
            }
            return self.handle_value().map(Some);
        }
    }

    /// Reads a field's name and the colon after it.
    fn read_field_name(&mut self) -> std::result::Result<String, PullErrorKind> {
        match self.peek_token()? {
            b'"' => self.read_value(true)?,
            byte => return Err(unexpected_byte(byte, "a field name")),
        }
        let name =
            serde_json::from_slice(&self.text).map_err(|error| PullErrorKind::Invalid(error.to_string()))?;
        match self.peek_token()? {
            b':' => self.consume(1),
            byte => return Err(unexpected_byte(byte, "':'")),
        }
        Ok(name)
    }

    fn handle_value(&mut self) -> std::result::Result<PullAction, PullErrorKind> {
        let byte = self.peek_token()?;
        match (self.action)(&self.path) {
            PullAction::Descend if byte == b'{' || byte == b'[' => {
                let is_list = byte == b'[';
                self.open.push(OpenContainer {
                    end: if is_list { b']' } else { b'}' },
                    is_list,
                    at_start: true,
                });
                self.consume(1);
                Ok(PullAction::Descend)
            }
            PullAction::Descend | PullAction::Extract => self.read_value(true).map(|()| PullAction::Extract),
            PullAction::Skip => self.read_value(false).map(|()| PullAction::Skip),
        }
    }

    /// Reads one value, into the buffer if `keep` is set.
    fn read_value(&mut self, keep: bool) -> std::result::Result<(), PullErrorKind> {
        self.text.clear();
        let mut extent = ValueScanner::default();
        loop {
            let chunk = self.reader.fill_buf().map_err(PullErrorKind::Io)?;
            if chunk.is_empty() {
                return if extent.in_word { Ok(()) } else { Err(PullErrorKind::UnexpectedEnd) };
            }
            let (length, over) = extent.scan(chunk)?;
            if keep {
                if self.text.len() + length > MAX_VALUE_BYTES {
                    return Err(PullErrorKind::TooLong);
                }
                self.text.extend_from_slice(&chunk[..length]);
            }
            self.consume(length);
            if over {
                return Ok(());
            }
        }
    }

    /// The next byte that is not whitespace, without consuming it.
    fn peek_token(&mut self) -> std::result::Result<u8, PullErrorKind> {
        loop {
            let chunk = self.reader.fill_buf().map_err(PullErrorKind::Io)?;
            if chunk.is_empty() {
                return Err(PullErrorKind::UnexpectedEnd);
            }
            let found = chunk.iter().position(|byte| !b" \t\r\n".contains(byte));
            let byte = found.map(|at| chunk[at]);
            let length = found.unwrap_or(chunk.len());
            self.consume(length);
            if let Some(byte) = byte {
                return Ok(byte);
            }
        }
    }

    /// Skips a byte-order mark.
    fn skip_byte_order_mark(&mut self) -> std::result::Result<(), PullErrorKind> {
        for byte in b"\xef\xbb\xbf" {
            if self.reader.fill_buf().map_err(PullErrorKind::Io)?.first() != Some(byte) {
                break;
            }
            self.consume(1);
        }
        Ok(())
    }

    fn consume(&mut self, length: usize) {
        self.reader.consume(length);
        self.bytes_read += length as u64;
    }
}

// === impl PullError ===

impl PullError {
    /// The error as shown to the user.
    pub(crate) fn into_error(self, file: &str) -> Error {
        let PullError { at, path, kind: why } = self;
        let why = match why {
            PullErrorKind::Io(source) => return Error::cannot_read(file, source),
            PullErrorKind::UnexpectedEnd => format!("unexpected end, at {path}"),
            PullErrorKind::TooLong => format!("{path} is longer than {} MiB", MAX_VALUE_BYTES >> 20),
            PullErrorKind::Invalid(what) => format!("{what}, at {path}"),
        };
        Error::invalid_at(file, format_args!("byte {at}"), why)
    }
}

// === impl ValueScanner ===

impl ValueScanner {
    /// Returns how many of the bytes belong to the value, and whether it ends there.
    fn scan(&mut self, bytes: &[u8]) -> std::result::Result<(usize, bool), PullErrorKind> {
        for (at, &byte) in bytes.iter().enumerate() {
            if self.in_string {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.in_string = false;
                        if self.depth == 0 {
                            return Ok((at + 1, true));
                        }
                    }
                    _ => {}
                }
                continue;
            }
            let of_word = byte.is_ascii_alphanumeric() || b"+-.".contains(&byte);
            if self.in_word && !of_word {
                return Ok((at, true));
            }
            match byte {
                b'"' => self.in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    if self.depth == 0 {
                        return Ok((at + 1, true));
                    }
                }
                _ if self.depth > 0 => {}
                _ if of_word => self.in_word = true,
                _ => return Err(unexpected_byte(byte, "a value")),
            }
        }
        Ok((bytes.len(), false))
    }
}

// === impl PathSegment ===

impl fmt::Display for PathSegment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathSegment::Field(name) => f.write_str(&escape_for_message(name)),
            PathSegment::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A foreign text for a message: escaped, so that it cannot control the terminal, and truncated.
pub(crate) fn escape_for_message(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_MESSAGE_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_MESSAGE_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// `rawObjects.pods[3]`.
fn format_path(path: &[PathSegment]) -> String {
    let mut text = String::new();
    for step in path {
        if !text.is_empty() && matches!(step, PathSegment::Field(_)) {
            text.push('.');
        }
        text.push_str(&step.to_string());
    }
    if text.is_empty() { "the start".to_owned() } else { text }
}

fn unexpected_byte(byte: u8, expected: &str) -> PullErrorKind {
    PullErrorKind::Invalid(format!("expected {expected}, found '{}'", byte.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Cursor};

    fn pull_action(path: &[PathSegment]) -> PullAction {
        match path {
            [] => PullAction::Descend,
            [PathSegment::Field(name)] if name == "skip" => PullAction::Skip,
            [PathSegment::Field(name)] if name == "in" => PullAction::Descend,
            _ => PullAction::Extract,
        }
    }

    fn pieces(text: &[u8]) -> std::result::Result<Vec<String>, String> {
        // A buffer smaller than any value finds errors at its edges.
        let mut pull =
            JsonPullParser::new(BufReader::with_capacity(2, Cursor::new(text.to_vec())), pull_action);
        let mut found = Vec::new();
        loop {
            match pull.next() {
                Ok(None) => return Ok(found),
                Ok(Some((path, piece))) => {
                    let path = format_path(path);
                    found.push(match piece {
                        PulledValue::Descended => format!("{path}:"),
                        PulledValue::Text(text) => format!("{path}={text}"),
                        PulledValue::Skipped => format!("{path}!"),
                    });
                }
                Err(broken) => return Err(broken.into_error("file").to_string()),
            }
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(pieces(text.as_bytes()).unwrap(), expected, "{text}");
    }

    #[track_caller]
    fn refused(text: impl AsRef<[u8]>, because: &str) {
        let text = text.as_ref();
        assert_eq!(pieces(text).expect_err(&String::from_utf8_lossy(text)), because);
    }

    #[test]
    fn values_come_with_their_paths() {
        check(
            r#" { "a" : 1.5e3, "in":[{"x":"]}\"\\"} ,null, [] ], "skip":{"y":[1]},"b\n":{"in":[1]} }  "#,
            &[
                "the start:",
                "a=1.5e3",
                "in:",
                r#"in[0]={"x":"]}\"\\"}"#,
                "in[1]=null",
                "in[2]=[]",
                "skip!",
                r#"b\n={"in":[1]}"#,
            ],
        );
        check(r#"{"in":{"b":true,"c":""},"in":{}}"#, &["the start:", "in:", "in.b=true", "in.c=\"\"", "in:"]);
        check("{}", &["the start:"]);
        check("\u{feff}[]", &["the start:"]);
        check("7", &["the start=7"]);
        check(r#"{"in":null}garbage"#, &["the start:", "in=null"]);
    }

    #[test]
    fn invalid_json_is_reported_with_its_position() {
        refused("", "file, byte 0: unexpected end, at the start");
        refused(r#"{"in":[{"a":1},{"b"#, "file, byte 18: unexpected end, at in[1]");
        refused(r#"{"in":[1"#, "file, byte 8: unexpected end, at in[0]");
        refused(r#"{"in":[1 2]}"#, "file, byte 9: expected ',' or ']', found '2', at in[0]");
        refused(r#"{"in":[1,]}"#, "file, byte 9: expected a value, found ']', at in[1]");
        refused(r#"{"a":1,}"#, "file, byte 7: expected a field name, found '}', at a");
        refused(r#"{"a" 1}"#, "file, byte 5: expected ':', found '1', at the start");
        refused(b"{\"a\":\"ab\xff\"}", "file, byte 8: not UTF-8, at a");
    }

    #[test]
    fn a_value_too_long_is_refused_unless_it_is_skipped() {
        struct Long(u64);
        impl io::Read for Long {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                let length = (into.len() as u64).min(self.0) as usize;
                into[..length].fill(b'a');
                self.0 -= length as u64;
                Ok(length)
            }
        }
        let document = |name: &str| {
            let head = Cursor::new(format!("{{\"{name}\":\""));
            let tail = Cursor::new("\"}");
            let whole = io::Read::chain(io::Read::chain(head, Long(2 * MAX_VALUE_BYTES as u64)), tail);
            JsonPullParser::new(BufReader::with_capacity(1 << 16, whole), pull_action)
        };
        let mut long = document("a");
        long.next().unwrap();
        let broken = long.next().unwrap_err();
        assert!(matches!(broken.kind, PullErrorKind::TooLong), "{broken:?}");
        assert!(long.text.capacity() <= 2 * MAX_VALUE_BYTES);
        let mut passed = document("skip");
        passed.next().unwrap();
        assert_eq!(passed.next().unwrap().unwrap().1, PulledValue::Skipped);
        assert!(passed.text.capacity() < 100);
        assert!(passed.next().unwrap().is_none());
    }
}
