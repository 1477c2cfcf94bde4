//! One big JSON document, cut into the values it is made of, of which no more than one is ever held.

use std::fmt;
use std::io::{self, BufRead};

use crate::Error;
use crate::values::MAX_VALUE;

/// So many characters of a foreign text stand in a message.
const MAX_SHOWN: usize = 120;

/// Goes through a document, into the objects and lists it is told to, and cuts out the values in them.
pub(crate) struct Pull<R> {
    reader: R,
    /// What to do with the value at a path.
    way: fn(&[Step]) -> Way,
    /// Bytes taken so far.
    taken: u64,
    begun: bool,
    /// The objects and lists that are open, and where in each of them the document stands.
    open: Vec<Open>,
    path: Vec<Step>,
    text: Vec<u8>,
}

/// What is to be done with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Go into it, and give the values inside. What is neither object nor list is cut out.
    Into,
    /// Give its text.
    Cut,
    /// Pass over it, however long it is.
    Skip,
}

/// One step down a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The field of an object.
    Field(String),
    /// The item of a list.
    Item(u64),
}

/// A value that was met.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    /// What is inside comes next.
    Inside,
    /// The text of a value, which is JSON only as far as its end could be told.
    Text(&'a str),
    /// It was passed over.
    Skipped,
}

/// Where and why a document cannot be read on.
#[derive(Debug)]
pub(crate) struct Broken {
    /// The bytes before that place.
    pub(crate) at: u64,
    /// What stands there.
    pub(crate) path: String,
    pub(crate) why: Why,
}

/// Why a document cannot be read on.
#[derive(Debug)]
pub(crate) enum Why {
    /// It ends early.
    Ends,
    /// A value longer than [`MAX_VALUE`].
    Long,
    /// It is no JSON.
    Odd(String),
    /// The system says why.
    Io(io::Error),
}

struct Open {
    end: u8,
    is_list: bool,
    /// Nothing of it has been met yet.
    fresh: bool,
}

/// How far into a value its text is.
#[derive(Default)]
struct Extent {
    depth: u64,
    in_string: bool,
    escaped: bool,
    in_word: bool,
}

// === impl Pull ===

impl<R: BufRead> Pull<R> {
    pub(crate) fn new(reader: R, way: fn(&[Step]) -> Way) -> Pull<R> {
        Pull { reader, way, taken: 0, begun: false, open: Vec::new(), path: Vec::new(), text: Vec::new() }
    }

    /// The next value and its path; `None` at the end of the document. What stands behind that is not looked at.
    pub(crate) fn next(&mut self) -> std::result::Result<Option<(&[Step], Piece<'_>)>, Broken> {
        let step = self.step();
        match step {
            Err(why) => Err(Broken { at: self.taken, path: written(&self.path), why }),
            Ok(None) => Ok(None),
            Ok(Some(way)) => {
                let piece = match way {
                    Way::Into => Piece::Inside,
                    Way::Skip => Piece::Skipped,
                    Way::Cut => match std::str::from_utf8(&self.text) {
                        Ok(text) => Piece::Text(text),
                        Err(error) => {
                            let at = self.taken - (self.text.len() - error.valid_up_to()) as u64;
                            let why = Why::Odd("not UTF-8".to_owned());
                            return Err(Broken { at, path: written(&self.path), why });
                        }
                    },
                };
                Ok(Some((&self.path, piece)))
            }
        }
    }

    /// Where the value given last stands.
    pub(crate) fn path(&self) -> String {
        written(&self.path)
    }

    /// Reads to the end of the file, whatever is there; whether there was anything but space.
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

    /// Goes to the next value and through it, or to the beginning of what is inside it.
    fn step(&mut self) -> std::result::Result<Option<Way>, Why> {
        if !self.begun {
            self.begun = true;
            self.skip_mark()?;
            return self.value().map(Some);
        }
        loop {
            let Some(open) = self.open.last_mut() else { return Ok(None) };
            let (end, is_list, fresh) = (open.end, open.is_list, std::mem::take(&mut open.fresh));
            let byte = self.look()?;
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
                    return Err(odd(byte, &format!("',' or '{}'", char::from(end))));
                }
                self.consume(1);
            }
            let step = if is_list {
                Step::Item(match self.path.last() {
                    Some(Step::Item(last)) if !fresh => last + 1,
                    _ => 0,
                })
            } else {
                Step::Field(self.name()?)
            };
            match self.path.last_mut() {
                Some(last) if !fresh => *last = step,
                _ => self.path.push(step),
            }
            return self.value().map(Some);
        }
    }

    /// A field's name and the colon behind it.
    fn name(&mut self) -> std::result::Result<String, Why> {
        match self.look()? {
            b'"' => self.take(true)?,
            byte => return Err(odd(byte, "the name of a field")),
        }
        let name = serde_json::from_slice(&self.text).map_err(|error| Why::Odd(error.to_string()))?;
        match self.look()? {
            b':' => self.consume(1),
            byte => return Err(odd(byte, "':'")),
        }
        Ok(name)
    }

    fn value(&mut self) -> std::result::Result<Way, Why> {
        let byte = self.look()?;
        match (self.way)(&self.path) {
            Way::Into if byte == b'{' || byte == b'[' => {
                let is_list = byte == b'[';
                self.open.push(Open { end: if is_list { b']' } else { b'}' }, is_list, fresh: true });
                self.consume(1);
                Ok(Way::Into)
            }
            Way::Into | Way::Cut => self.take(true).map(|()| Way::Cut),
            Way::Skip => self.take(false).map(|()| Way::Skip),
        }
    }

    /// Takes one value, into the buffer if it is to be kept.
    fn take(&mut self, keep: bool) -> std::result::Result<(), Why> {
        self.text.clear();
        let mut extent = Extent::default();
        loop {
            let chunk = self.reader.fill_buf().map_err(Why::Io)?;
            if chunk.is_empty() {
                return if extent.in_word { Ok(()) } else { Err(Why::Ends) };
            }
            let (length, over) = extent.go_through(chunk)?;
            if keep {
                if self.text.len() + length > MAX_VALUE {
                    return Err(Why::Long);
                }
                self.text.extend_from_slice(&chunk[..length]);
            }
            self.consume(length);
            if over {
                return Ok(());
            }
        }
    }

    /// The next byte that is no space, which stays there.
    fn look(&mut self) -> std::result::Result<u8, Why> {
        loop {
            let chunk = self.reader.fill_buf().map_err(Why::Io)?;
            if chunk.is_empty() {
                return Err(Why::Ends);
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

    /// Passes over a byte-order mark.
    fn skip_mark(&mut self) -> std::result::Result<(), Why> {
        for byte in b"\xef\xbb\xbf" {
            if self.reader.fill_buf().map_err(Why::Io)?.first() != Some(byte) {
                break;
            }
            self.consume(1);
        }
        Ok(())
    }

    fn consume(&mut self, length: usize) {
        self.reader.consume(length);
        self.taken += length as u64;
    }
}

// === impl Broken ===

impl Broken {
    /// What the user is told.
    pub(crate) fn error(self, file: &str) -> Error {
        let Broken { at, path, why } = self;
        let why = match why {
            Why::Io(source) => return Error::read(file, source),
            Why::Ends => format!("ends early, at {path}"),
            Why::Long => format!("{path} is longer than {} MiB", MAX_VALUE >> 20),
            Why::Odd(what) => format!("{what}, at {path}"),
        };
        Error::bad(file, format_args!("byte {at}"), why)
    }
}

// === impl Extent ===

impl Extent {
    /// How many of the bytes belong to the value, and whether it is over then.
    fn go_through(&mut self, bytes: &[u8]) -> std::result::Result<(usize, bool), Why> {
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
                _ => return Err(odd(byte, "a value")),
            }
        }
        Ok((bytes.len(), false))
    }
}

// === impl Step ===

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Field(name) => f.write_str(&shown(name)),
            Step::Item(index) => write!(f, "[{index}]"),
        }
    }
}

/// A foreign text as it may stand in a message: nothing that moves a terminal's cursor, and not much of it.
pub(crate) fn shown(text: &str) -> String {
    let mut shown: String = text.chars().take(MAX_SHOWN).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// `rawObjects.pods[3]`.
fn written(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path {
        if !text.is_empty() && matches!(step, Step::Field(_)) {
            text.push('.');
        }
        text.push_str(&step.to_string());
    }
    if text.is_empty() { "the beginning".to_owned() } else { text }
}

fn odd(byte: u8, expected: &str) -> Why {
    Why::Odd(format!("'{}' where {expected} should be", byte.escape_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufReader, Cursor};

    fn way(path: &[Step]) -> Way {
        match path {
            [] => Way::Into,
            [Step::Field(name)] if name == "skip" => Way::Skip,
            [Step::Field(name)] if name == "in" => Way::Into,
            _ => Way::Cut,
        }
    }

    fn pieces(text: &[u8]) -> std::result::Result<Vec<String>, String> {
        // A buffer smaller than any value finds what goes wrong at its edges.
        let mut pull = Pull::new(BufReader::with_capacity(2, Cursor::new(text.to_vec())), way);
        let mut found = Vec::new();
        loop {
            match pull.next() {
                Ok(None) => return Ok(found),
                Ok(Some((path, piece))) => {
                    let path = written(path);
                    found.push(match piece {
                        Piece::Inside => format!("{path}:"),
                        Piece::Text(text) => format!("{path}={text}"),
                        Piece::Skipped => format!("{path}!"),
                    });
                }
                Err(broken) => return Err(broken.error("file").to_string()),
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
                "the beginning:",
                "a=1.5e3",
                "in:",
                r#"in[0]={"x":"]}\"\\"}"#,
                "in[1]=null",
                "in[2]=[]",
                "skip!",
                r#"b\n={"in":[1]}"#,
            ],
        );
        check(
            r#"{"in":{"b":true,"c":""},"in":{}}"#,
            &["the beginning:", "in:", "in.b=true", "in.c=\"\"", "in:"],
        );
        check("{}", &["the beginning:"]);
        check("\u{feff}[]", &["the beginning:"]);
        check("7", &["the beginning=7"]);
        check(r#"{"in":null}garbage"#, &["the beginning:", "in=null"]);
    }

    #[test]
    fn where_it_is_no_json_is_told() {
        refused("", "file, byte 0: ends early, at the beginning");
        refused(r#"{"in":[{"a":1},{"b"#, "file, byte 18: ends early, at in[1]");
        refused(r#"{"in":[1"#, "file, byte 8: ends early, at in[0]");
        refused(r#"{"in":[1 2]}"#, "file, byte 9: '2' where ',' or ']' should be, at in[0]");
        refused(r#"{"in":[1,]}"#, "file, byte 9: ']' where a value should be, at in[1]");
        refused(r#"{"a":1,}"#, "file, byte 7: '}' where the name of a field should be, at a");
        refused(r#"{"a" 1}"#, "file, byte 5: '1' where ':' should be, at the beginning");
        refused(b"{\"a\":\"ab\xff\"}", "file, byte 8: not UTF-8, at a");
    }

    #[test]
    fn a_value_too_long_is_refused_and_one_passed_over_is_not() {
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
            let whole = io::Read::chain(io::Read::chain(head, Long(2 * MAX_VALUE as u64)), tail);
            Pull::new(BufReader::with_capacity(1 << 16, whole), way)
        };
        let mut long = document("a");
        long.next().unwrap();
        let broken = long.next().unwrap_err();
        assert!(matches!(broken.why, Why::Long), "{broken:?}");
        assert!(long.text.capacity() <= 2 * MAX_VALUE);
        let mut passed = document("skip");
        passed.next().unwrap();
        assert_eq!(passed.next().unwrap().unwrap().1, Piece::Skipped);
        assert!(passed.text.capacity() < 100);
        assert!(passed.next().unwrap().is_none());
    }
}
