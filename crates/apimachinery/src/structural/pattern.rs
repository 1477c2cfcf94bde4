//! Regular expressions of schemas, which are Go's: translated to those of the crate `regex`, with Go's errors.
//!
//! They differ in the classes `\d`, `\w`, `\s` and the boundary `\b`, which are those of ASCII in Go, in what has a meaning
//! within brackets, and in braces that repeat nothing. Both take linear time.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// A regular expression, compiled when it is first used.
#[derive(Debug)]
pub struct Pattern {
    text: String,
    compiled: OnceLock<Result<Regex, String>>,
}

/// The most bytes of a compiled expression.
const MAX_COMPILED_BYTES: usize = 4 << 20;
/// The most repetitions that Go allows.
const MAX_REPEAT: u32 = 1000;
/// The ASCII classes that a letter after a backslash stands for, negated if it is a capital letter.
const CLASSES: [(char, &str); 3] = [('d', "0-9"), ('w', "0-9A-Za-z_"), ('s', r"\t\n\f\r ")];
const POSIX_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];

/// Translates one expression.
struct Translator<'t> {
    text: &'t str,
    /// The position of the next character.
    at: usize,
    translated: String,
    open_groups: usize,
    /// Whether there is something that can be repeated.
    has_atom: bool,
    /// Where a repetition begins, directly before the next character.
    last_repetition: Option<usize>,
}

// === impl Pattern ===

impl Pattern {
    /// An expression that may be invalid.
    pub fn new(text: &str) -> Pattern {
        Pattern { text: text.to_owned(), compiled: OnceLock::new() }
    }

    /// The expression as it is written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches a part of a text; the error of an invalid expression.
    pub fn is_match(&self, text: &str) -> Result<bool, &str> {
        self.regex().map(|regex| regex.is_match(text))
    }

    /// The first part of a text that it matches.
    pub(crate) fn find<'t>(&self, text: &'t str) -> Result<Option<&'t str>, &str> {
        Ok(self.regex()?.find(text).map(|found| found.as_str()))
    }

    /// The first parts of a text that it matches.
    pub(crate) fn find_all<'t>(&self, text: &'t str, limit: usize) -> Result<Vec<&'t str>, &str> {
        Ok(self.regex()?.find_iter(text).take(limit).map(|found| found.as_str()).collect())
    }

    fn regex(&self) -> Result<&Regex, &str> {
        self.compiled.get_or_init(|| compile(&self.text)).as_ref().map_err(String::as_str)
    }
}

/// Checks that an expression is valid; the error is that of Go's `regexp.Compile`.
pub fn check_pattern(text: &str) -> Result<(), String> {
    compile(text).map(|_| ())
}

fn compile(text: &str) -> Result<Regex, String> {
    let translator = Translator {
        text,
        at: 0,
        translated: String::with_capacity(text.len()),
        open_groups: 0,
        has_atom: false,
        last_repetition: None,
    };
    let translated = translator.translate().map_err(|why| format!("error parsing regexp: {why}"))?;
    let regex = RegexBuilder::new(&translated).size_limit(MAX_COMPILED_BYTES).build();
    regex.map_err(|_| format!("error parsing regexp: expression too large: `{text}`"))
}

// === impl Translator ===

impl Translator<'_> {
    fn translate(mut self) -> Result<String, String> {
        while let Some(letter) = self.peek() {
            let start = self.at;
            let (repetition, had_atom) = (self.last_repetition.take(), self.has_atom);
            match letter {
                '(' => self.translate_group()?,
                ')' => {
                    self.open_groups = self
                        .open_groups
                        .checked_sub(1)
                        .ok_or_else(|| format!("unexpected ): `{}`", self.text))?;
                    self.copy(letter, true);
                }
                '|' => self.copy(letter, false),
                '^' | '$' | '.' => self.copy(letter, true),
                '*' | '+' | '?' => {
                    self.copy(letter, true);
                    self.end_repetition(start, repetition, had_atom)?;
                }
                '{' => self.translate_braces(repetition)?,
                '[' => self.translate_class()?,
                '\\' => self.translate_escape()?,
                _ => {
                    self.at += letter.len_utf8();
                    self.push_literal(letter);
                }
            }
        }
        if self.open_groups > 0 {
            return Err(format!("missing closing ): `{}`", self.text));
        }
        Ok(self.translated)
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    /// Copies an ASCII operator.
    fn copy(&mut self, letter: char, is_atom: bool) {
        self.at += 1;
        self.translated.push(letter);
        self.has_atom = is_atom;
    }

    fn push_literal(&mut self, letter: char) {
        self.translated.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4])));
        self.has_atom = true;
    }

    /// Checks a repetition that begins at `start` and whose operator was copied, and copies a `?` behind it.
    fn end_repetition(
        &mut self,
        start: usize,
        repetition: Option<usize>,
        had_atom: bool,
    ) -> Result<(), String> {
        if self.peek() == Some('?') {
            self.copy('?', true);
        }
        if let Some(first) = repetition {
            return Err(format!("invalid nested repetition operator: `{}`", &self.text[first..self.at]));
        }
        if !had_atom {
            let operator = &self.text[start..self.at];
            return Err(format!("missing argument to repetition operator: `{operator}`"));
        }
        self.last_repetition = Some(start);
        Ok(())
    }

    /// `{2}`, `{2,}`, `{2,3}`; any other brace stands for itself.
    fn translate_braces(&mut self, repetition: Option<usize>) -> Result<(), String> {
        let (start, had_atom) = (self.at, self.has_atom);
        let Some((from, to, length)) = parse_braces(self.rest()) else {
            self.at += 1;
            self.push_literal('{');
            return Ok(());
        };
        let braces = self.rest()[..length].to_owned();
        let is_valid = |count: u32| count <= MAX_REPEAT;
        if !is_valid(from) || to.is_some_and(|to| !is_valid(to) || to < from) {
            return Err(format!("invalid repeat count: `{braces}`"));
        }
        self.at += length;
        self.translated.push_str(&braces);
        self.end_repetition(start, repetition, had_atom)
    }

    /// `(`, `(?:`, `(?i)`, `(?P<name>`
    fn translate_group(&mut self) -> Result<(), String> {
        if !self.rest().starts_with("(?") {
            self.open_groups += 1;
            self.copy('(', false);
            return Ok(());
        }
        let start = self.at;
        let rest = self.rest();
        let name_at = [("(?P<", 4), ("(?<", 3)].iter().find(|(prefix, _)| rest.starts_with(prefix));
        if let Some((_, name_at)) = name_at {
            let end = rest.find('>').ok_or_else(|| format!("invalid named capture: `{rest}`"))?;
            let name = &rest[*name_at..end];
            let is_word = |letter: char| letter == '_' || letter.is_ascii_alphanumeric();
            if name.is_empty() || !name.chars().all(is_word) {
                return Err(format!("invalid named capture: `{}`", &rest[..=end]));
            }
            // Names do not matter here, and those of Go may begin with a digit.
            self.translated.push('(');
            self.at += end + 1;
            self.open_groups += 1;
            self.has_atom = false;
            return Ok(());
        }
        self.at += 2;
        let (mut is_negative, mut has_flag) = (false, false);
        while let Some(letter) = self.next() {
            match letter {
                'i' | 'm' | 's' | 'U' => has_flag = true,
                '-' if !is_negative => (is_negative, has_flag) = (true, false),
                ':' | ')' if has_flag || !is_negative => {
                    self.translated.push_str(&self.text[start..self.at]);
                    self.open_groups += usize::from(letter == ':');
                    self.has_atom = false;
                    return Ok(());
                }
                _ => break,
            }
        }
        let found = &self.text[start..self.at];
        Err(match self.rest().is_empty() && !found.ends_with(['!', '=']) {
            true => format!("missing closing ): `{}`", self.text),
            false => format!("invalid or unsupported Perl syntax: `{found}`"),
        })
    }

    fn translate_escape(&mut self) -> Result<(), String> {
        if self.rest().starts_with("\\Q") {
            let quoted = &self.text[self.at + 2..];
            let (quoted, length) = match quoted.find("\\E") {
                Some(end) => (&quoted[..end], end + 4),
                None => (quoted, quoted.len() + 2),
            };
            self.translated.push_str(&regex::escape(quoted));
            self.at += length;
            self.has_atom = true;
            return Ok(());
        }
        let boundary = match self.rest().as_bytes().get(1) {
            Some(b'A') => Some(r"\A"),
            Some(b'z') => Some(r"\z"),
            Some(b'b') => Some(r"(?-u:\b)"),
            Some(b'B') => Some(r"(?-u:\B)"),
            _ => None,
        };
        if let Some(boundary) = boundary {
            self.translated.push_str(boundary);
            self.at += 2;
        } else if let Some(class) = self.translate_perl_class()? {
            self.translated.push_str(&class);
        } else {
            let letter = self.escaped_letter()?;
            self.push_literal(letter);
        }
        self.has_atom = true;
        Ok(())
    }

    /// `\d`, `\pL`: a class that is at this place. `None` if there is none.
    fn translate_perl_class(&mut self) -> Result<Option<String>, String> {
        let start = self.at;
        let mut letters = self.rest().chars().skip(1);
        let Some(letter) = letters.next() else { return Ok(None) };
        let class = CLASSES.iter().find(|(name, _)| *name == letter.to_ascii_lowercase());
        if let Some((_, class)) = class {
            self.at += 2;
            let negation = if letter.is_ascii_uppercase() { "^" } else { "" };
            return Ok(Some(format!("[{negation}{class}]")));
        }
        if !matches!(letter, 'p' | 'P') {
            return Ok(None);
        }
        let name = match letters.next() {
            Some('{') => {
                let end = self.rest().find('}').ok_or_else(|| self.bad_range(start, self.text.len()))?;
                let name = self.rest()[3..end].to_owned();
                self.at += end + 1;
                name
            }
            Some(name) => {
                self.at += 2 + name.len_utf8();
                name.to_string()
            }
            None => return Err(self.bad_range(start, self.text.len())),
        };
        let (name, is_negated) = match name.strip_prefix('^') {
            Some(name) => (name, letter == 'p'),
            None => (&*name, letter == 'P'),
        };
        let class = format!("\\{}{{{name}}}", if is_negated { 'P' } else { 'p' });
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name || Regex::new(&class).is_err() {
            return Err(self.bad_range(start, self.at));
        }
        Ok(Some(class))
    }

    /// The character that an escape stands for.
    fn escaped_letter(&mut self) -> Result<char, String> {
        let start = self.at;
        self.at += 1;
        let Some(letter) = self.next() else {
            return Err("trailing backslash at end of expression: ``".to_owned());
        };
        let invalid = |end: usize| format!("invalid escape sequence: `{}`", &self.text[start..end]);
        let is_octal = |letter: Option<char>| letter.is_some_and(|letter| ('0'..='7').contains(&letter));
        let code = match letter {
            // Without a second digit it would be a backreference.
            '1'..='7' if !is_octal(self.peek()) => return Err(invalid(self.at)),
            '0'..='7' => {
                let digits = self.rest().bytes().take(2).take_while(|digit| (b'0'..=b'7').contains(digit));
                let count = digits.count();
                let code = u32::from_str_radix(&self.text[start + 1..self.at + count], 8);
                self.at += count;
                code.ok()
            }
            'x' => {
                let rest = self.rest();
                let (digits, length) = match rest.strip_prefix('{') {
                    Some(braced) => {
                        let end = braced.find('}').ok_or_else(|| invalid(self.text.len()))?;
                        (&braced[..end], end + 2)
                    }
                    None => (rest.get(..2).ok_or_else(|| invalid(self.text.len()))?, 2),
                };
                let is_hex = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                let code = u32::from_str_radix(digits, 16).ok().filter(|_| is_hex);
                let code = code.ok_or_else(|| invalid(self.at + length))?;
                self.at += length;
                Some(code)
            }
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            letter if letter.is_ascii_punctuation() => Some(letter.into()),
            _ => None,
        };
        code.and_then(char::from_u32)
            .ok_or_else(|| format!("invalid escape sequence: `{}`", &self.text[start..self.at]))
    }

    fn translate_class(&mut self) -> Result<(), String> {
        let start = self.at;
        self.at += 1;
        self.translated.push('[');
        if self.peek() == Some('^') {
            self.copy('^', false);
        }
        let mut is_first = true;
        loop {
            let item_start = self.at;
            let Some(letter) = self.peek() else {
                return Err(format!("missing closing ]: `{}`", &self.text[start..]));
            };
            if letter == ']' && !is_first {
                self.copy(']', true);
                return Ok(());
            }
            is_first = false;
            if let Some(name) = self.rest().strip_prefix("[:")
                && let Some(end) = name.find(":]")
            {
                let name = name[..end].to_owned();
                self.at += end + 4;
                if !POSIX_CLASSES.contains(&name.trim_start_matches('^')) {
                    return Err(self.bad_range(item_start, self.at));
                }
                self.translated.push_str(&format!("[:{name}:]"));
                continue;
            }
            if letter == '\\'
                && let Some(class) = self.translate_perl_class()?
            {
                self.translated.push_str(&class);
                continue;
            }
            let first = self.class_letter(start)?;
            let mut last = first;
            if self.rest().starts_with('-') && !self.rest().starts_with("-]") && self.rest().len() > 1 {
                self.at += 1;
                last = self.class_letter(start)?;
                if last < first {
                    return Err(self.bad_range(item_start, self.at));
                }
            }
            let (first, last) = (u32::from(first), u32::from(last));
            self.translated.push_str(&format!("\\x{{{first:x}}}-\\x{{{last:x}}}"));
        }
    }

    fn class_letter(&mut self, class_start: usize) -> Result<char, String> {
        if self.peek() == Some('\\') {
            return self.escaped_letter();
        }
        self.next().ok_or_else(|| format!("missing closing ]: `{}`", &self.text[class_start..]))
    }

    fn bad_range(&self, start: usize, end: usize) -> String {
        format!("invalid character class range: `{}`", &self.text[start..end])
    }
}

/// The numbers of a repetition in braces, and its length.
fn parse_braces(text: &str) -> Option<(u32, Option<u32>, usize)> {
    let end = text.find('}')?;
    let number = |text: &str| -> Option<u32> {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        // Go reads no number with a leading zero.
        let is_number = is_number && (text == "0" || !text.starts_with('0'));
        is_number.then(|| text.parse().unwrap_or(u32::MAX))
    };
    let inner = &text[1..end];
    let (from, to) = match inner.split_once(',') {
        None => (number(inner)?, None),
        Some((from, "")) => (number(from)?, None),
        Some((from, to)) => (number(from)?, Some(number(to)?)),
    };
    Some((from, to, end + 1))
}
