//! Escaping of control characters, so that no text from a server or a history can control the terminal.
//!
//! ESC and CR are written as kubectl writes them, `^[` and `\r`; other control characters in caret notation. Those
//! without one, and those that change the direction of text, are written by number: `<U+202E>`.

use std::borrow::Cow;
use std::io::{self, Write};

/// A writer that passes text, line breaks, tabs and its own styles through, and escapes everything else.
///
/// A style passes if it is written by itself, as `write!` does for each argument. A style within a text is escaped.
pub(super) struct EscapingWriter<W> {
    writer: W,
    styles: Vec<String>,
    /// The first bytes of a character that is not complete yet.
    partial: Vec<u8>,
}

/// Escapes all control characters except line breaks and tabs.
pub(super) fn escaped(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\r' => out.push_str("\\r"),
            '\0'..='\x1f' | '\x7f' if is_escaped(c) => {
                out.push('^');
                out.push(char::from(c as u8 ^ 0x40));
            }
            c if is_escaped(c) => out.push_str(&format!("<U+{:04X}>", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Whether a terminal may interpret the character as a command, or change the direction of text at it.
fn is_escaped(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
        c => c.is_control(),
    }
}

// === impl EscapingWriter ===

impl<W: Write> EscapingWriter<W> {
    pub(super) fn new(writer: W, styles: Vec<String>) -> EscapingWriter<W> {
        EscapingWriter { writer, styles, partial: Vec::new() }
    }

    fn write_bytes(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        loop {
            let (valid, rest, is_partial) = match std::str::from_utf8(bytes) {
                Ok(text) => return self.writer.write_all(escaped(text).as_bytes()),
                Err(error) => {
                    let (valid, rest) = bytes.split_at(error.valid_up_to());
                    (valid, rest, error.error_len().is_none())
                }
            };
            let valid = String::from_utf8_lossy(valid);
            self.writer.write_all(escaped(&valid).as_bytes())?;
            if is_partial {
                self.partial = rest.to_vec();
                return Ok(());
            }
            // A byte that is not UTF-8: old terminals interpret some of them as commands.
            write!(self.writer, "<{:02X}>", rest[0])?;
            bytes = &rest[1..];
        }
    }
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.partial.is_empty() {
            match self.styles.iter().any(|style| style.as_bytes() == bytes) {
                true => self.writer.write_all(bytes)?,
                false => self.write_bytes(bytes)?,
            }
        } else {
            let mut joined = std::mem::take(&mut self.partial);
            joined.extend_from_slice(bytes);
            self.write_bytes(&joined)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        for byte in std::mem::take(&mut self.partial) {
            write!(self.writer, "<{byte:02X}>")?;
        }
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(escaped(text), expected);
    }

    #[test]
    fn control_characters_become_visible() {
        check("web-1 é 漢字 👩‍👩‍👧\n\tb", "web-1 é 漢字 👩‍👩‍👧\n\tb");
        // As kubectl prints them.
        check("\x1b]0;pwned\x07", "^[]0;pwned^G");
        check("a\rb", "a\\rb");
        check("\0\x08\x7f", "^@^H^?");
        check("\u{9b}2J\u{9d}0;x\u{9c}", "<U+009B>2J<U+009D>0;x<U+009C>");
        check("user\u{202e}nimda\u{2066}", "user<U+202E>nimda<U+2066>");
    }

    #[test]
    fn every_control_character_is_escaped() {
        for c in (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| c.is_control() && !"\n\t".contains(*c))
        {
            assert!(!escaped(&c.to_string()).contains(c), "{c:?}");
        }
    }

    #[test]
    fn styles_pass_by_themselves_and_not_within_a_text() {
        let (style, text) = ("\x1b[31m".to_owned(), "x\x1b[31my");
        let mut writer = EscapingWriter::new(Vec::new(), vec![style.clone()]);
        write!(writer, "{style}a{text}b").unwrap();
        assert_eq!(String::from_utf8(writer.writer).unwrap(), "\x1b[31max^[[31myb");
    }

    #[test]
    fn characters_may_be_split_and_bytes_may_be_invalid_utf8() {
        let text = "aé漢\u{9b}\u{202e}👩".as_bytes();
        for size in 1..text.len() {
            let mut writer = EscapingWriter::new(Vec::new(), Vec::new());
            text.chunks(size).for_each(|piece| writer.write_all(piece).unwrap());
            writer.flush().unwrap();
            assert_eq!(String::from_utf8(writer.writer).unwrap(), "aé漢<U+009B><U+202E>👩", "{size}");
        }
        let mut writer = EscapingWriter::new(Vec::new(), Vec::new());
        writer.write_all(b"a\x9bb\xff\xe6\xbc").unwrap();
        writer.flush().unwrap();
        assert_eq!(String::from_utf8(writer.writer).unwrap(), "a<9B>b<FF><E6><BC>");
    }
}
