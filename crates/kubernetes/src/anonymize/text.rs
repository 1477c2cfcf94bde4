//! Renaming of one text, word by word.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::words::{CALENDAR, KAI, KAI_GPU_GROUP_PREFIX, KUBERNETES, MESSAGES};
use super::{Anonymizer, FieldRole, KeyHalf};
use crate::quantity::Quantity;

/// Maximum length of a label value, a namespace or a container name. A name that fits stays within it.
const MAX_LABEL_LENGTH: usize = 63;
/// Maximum length of a name. A text that would become longer is replaced by one word.
const MAX_NAME_LENGTH: usize = 253;
/// Maximum length of a port name.
const MAX_PORT_LENGTH: usize = 15;
/// Longer annotations are documents, not names.
const MAX_ANNOTATION_LENGTH: usize = 256;
/// Maximum length of a number that is kept: ordinals, ports, percentages, but not account numbers.
const MAX_NUMBER_LENGTH: usize = 5;
/// The length of a pseudonym in letters and digits: 26 times 36 to the ninth are 51 bits.
const PSEUDONYM_LENGTH: usize = 10;

const UNITS: &[&str] = &[
    "E", "Ei", "G", "Gi", "K", "Ki", "M", "Mi", "P", "Pi", "T", "Ti", "d", "g", "gb", "h", "k", "m", "mb",
    "ms", "n", "ns", "s", "u", "us",
];

impl Anonymizer {
    /// The renamed form of a name.
    pub(super) fn text(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.rename(text, FieldRole::Plain, &mut out);
        out
    }

    /// The renamed form of a message.
    pub(super) fn message(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.rename(text, FieldRole::Message, &mut out);
        out
    }

    /// Writes the renamed form of a string in that role.
    pub(super) fn rename(&self, text: &str, role: FieldRole, out: &mut String) {
        match role {
            FieldRole::Kept => out.push_str(text),
            FieldRole::Enumeration if is_enumeration(text) => out.push_str(text),
            FieldRole::Quantity | FieldRole::Resources if Quantity::parse(text).is_ok() => out.push_str(text),
            FieldRole::Opaque => self.rename_whole(text, out),
            FieldRole::Annotations if is_document(text) => self.rename_whole(text, out),
            FieldRole::Schedule if is_schedule(text) => out.push_str(text),
            FieldRole::Message => TextRenamer { anonymizer: self, text, is_message: true, out }.rename_all(),
            FieldRole::Port => self.rename_words(text, MAX_PORT_LENGTH, out),
            _ if KAI.binary_search(&text).is_ok() => out.push_str(text),
            _ if text.starts_with(KAI_GPU_GROUP_PREFIX) => {
                out.push_str(KAI_GPU_GROUP_PREFIX);
                self.rename_words(&text[KAI_GPU_GROUP_PREFIX.len()..], MAX_LABEL_LENGTH, out);
            }
            _ => self.rename_words(text, MAX_NAME_LENGTH, out),
        }
    }

    /// Renames word by word; if the result exceeds `longest` bytes, as a whole.
    fn rename_words(&self, text: &str, longest: usize, out: &mut String) {
        let start = out.len();
        TextRenamer { anonymizer: self, text, is_message: false, out }.rename_all();
        if out.len() - start > longest {
            out.truncate(start);
            self.rename_whole(text, out);
        }
    }

    /// Replaces the whole text by one pseudonym; an empty text stays empty.
    fn rename_whole(&self, text: &str, out: &mut String) {
        if !text.is_empty() {
            write_pseudonym(self.hash(KeyHalf::Second, b'w', text.as_bytes()), out);
        }
    }

    fn uid(&self, uid: &str, out: &mut String) {
        let high = self.hash(KeyHalf::First, b'u', uid.as_bytes());
        let low = self.hash(KeyHalf::Second, b'v', uid.as_bytes());
        let (a, b, c) = (high >> 32, high >> 16 & 0xffff, high & 0xfff);
        let (d, e) = (low >> 50 | 0x8000, low & 0xffff_ffff_ffff);
        out.push_str(&format!("{a:08x}-{b:04x}-4{c:03x}-{d:04x}-{e:012x}"));
    }
}

/// Renames one text in one pass.
struct TextRenamer<'a> {
    anonymizer: &'a Anonymizer,
    text: &'a str,
    /// In a message the words of Kubernetes' messages are kept too, unless they are parts of names.
    is_message: bool,
    out: &'a mut String,
}

impl TextRenamer<'_> {
    fn rename_all(&mut self) {
        let mut at = 0;
        while let Some(next) = self.text[at..].chars().next() {
            at = if next.is_alphanumeric() {
                self.time(at).or_else(|| self.address6(at)).unwrap_or_else(|| self.token(at))
            } else if next == ':'
                && !self.text[..at].ends_with(char::is_alphanumeric)
                && let Some(end) = self.address6(at)
            {
                end
            } else {
                self.out.push(next);
                at + next.len_utf8()
            };
        }
    }

    /// Renames a token such as a name: a run of letters, digits, `-`, `_` and `.` that begins and ends with a letter
    /// or digit.
    fn token(&mut self, start: usize) -> usize {
        let is_inner = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
        let run = self.text[start..].find(|c| !is_inner(c)).map_or(self.text.len(), |length| start + length);
        let end = start + self.text[start..run].trim_end_matches(['-', '_', '.']).len();
        let token = &self.text[start..end];
        if self.is_message && self.stands_alone(start, end) && contains(MESSAGES, token) {
            self.out.push_str(token);
            return end;
        }
        let from = self.out.len();
        // The offset in the output at which a shortened name may end.
        let mut valid_length = from;
        let mut at = start;
        while at < end {
            at = self.word(at, end);
            if self.out.len() - from < MAX_LABEL_LENGTH - PSEUDONYM_LENGTH {
                valid_length = self.out.len();
            }
            let gap = self.text[at..end.max(at)].find(char::is_alphanumeric).unwrap_or(0);
            self.out.push_str(&self.text[at..at + gap]);
            at += gap;
        }
        if end - start <= MAX_LABEL_LENGTH && self.out.len() - from > MAX_LABEL_LENGTH {
            self.out.truncate(valid_length);
            if valid_length > from {
                self.out.push('-');
            }
            self.anonymizer.rename_whole(token, self.out);
        }
        at
    }

    /// Whether no adjacent character suggests that this is part of a name.
    fn stands_alone(&self, start: usize, end: usize) -> bool {
        let before = self.text[..start].chars().next_back();
        let after = self.text[end..].chars().next();
        let quote = |c: Option<char>| matches!(c, Some('"' | '\''));
        before != Some('/') && after != Some('/') && !(quote(before) && quote(after))
    }

    /// Renames one word of a token, or a uid or address in it; returns where it ends.
    fn word(&mut self, start: usize, end: usize) -> usize {
        let rest = &self.text[start..];
        if let Some(uid) = rest.get(..36).filter(|text| is_uid(text))
            && self.is_word_boundary(start + 36)
        {
            self.anonymizer.uid(uid, self.out);
            return start + 36;
        }
        if let Some(end) = self.address4(start) {
            return end;
        }
        let length = self.text[start..end].find(|c: char| !c.is_alphanumeric()).unwrap_or(end - start);
        let word = &rest[..length];
        if is_public_word(word) {
            self.out.push_str(word);
        } else {
            write_pseudonym(self.anonymizer.hash(KeyHalf::First, b'w', word.as_bytes()), self.out);
        }
        start + length
    }

    /// `2026-11-01T14:03:00.5Z`, or as Go prints it with a space in the middle; it is kept.
    fn time(&mut self, start: usize) -> Option<usize> {
        let bytes = &self.text.as_bytes()[start..];
        let fits = |(byte, pattern): (&u8, &u8)| match pattern {
            b'0' => byte.is_ascii_digit(),
            b'T' => matches!(byte, b'T' | b' '),
            _ => byte == pattern,
        };
        let pattern = b"0000-00-00T00:00:00";
        if bytes.len() < pattern.len() || !bytes.iter().zip(pattern).all(fits) {
            return None;
        }
        let mut length = pattern.len();
        let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if bytes.get(length) == Some(&b'.') {
            length += 1 + digits(length + 1);
        }
        if bytes.get(length) == Some(&b'Z') {
            length += 1;
        }
        let end = start + length;
        self.is_word_boundary(end).then(|| {
            self.out.push_str(&self.text[start..end]);
            end
        })
    }

    /// `10.1.2.3`, or as in node names of clouds `ip-10-1-2-3`.
    fn address4(&mut self, start: usize) -> Option<usize> {
        let rest = &self.text[start..];
        if !rest.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
        let separator = rest[length..].chars().next().filter(|c| matches!(c, '.' | '-'))?;
        let run = rest.find(|c: char| !c.is_ascii_digit() && c != separator).unwrap_or(rest.len());
        let run = rest[..run].trim_end_matches(separator);
        let before = &self.text[..start];
        let begins = match separator {
            '.' => !before.ends_with('.'),
            _ => {
                before.ends_with("ip-")
                    || !before.ends_with(|c: char| c.is_alphanumeric() || "-_.".contains(c))
            }
        };
        let end = start + run.len();
        if !begins || run.len() > 15 || !self.is_word_boundary(end) {
            return None;
        }
        let address: Ipv4Addr = match separator {
            '.' => run.parse().ok()?,
            _ => run.replace('-', ".").parse().ok()?,
        };
        let renamed = self.anonymizer.address4(address, self.prefix_length(end)).to_string();
        match separator {
            '.' => self.out.push_str(&renamed),
            _ => self.out.push_str(&renamed.replace('.', "-")),
        }
        Some(end)
    }

    /// `fd00::1`
    fn address6(&mut self, start: usize) -> Option<usize> {
        let rest = &self.text[start..];
        let run = rest.find(|c: char| !c.is_ascii_hexdigit() && c != ':' && c != '.').unwrap_or(rest.len());
        if run > 45 || rest[..run].matches(':').nth(1).is_none() {
            return None;
        }
        let sentence = rest[..run].trim_end_matches('.');
        let clause = sentence.strip_suffix(':').unwrap_or(sentence);
        let (address, length) = [sentence, clause]
            .into_iter()
            .find_map(|text| Some((text.parse::<Ipv6Addr>().ok()?, text.len())))?;
        let end = start + length;
        if !self.is_word_boundary(end) {
            return None;
        }
        let renamed = self.anonymizer.address6(address, self.prefix_length(end));
        self.out.push_str(&renamed.to_string());
        Some(end)
    }

    /// The prefix length after a slash at `at`, as in `10.1.0.0/16`.
    fn prefix_length(&self, at: usize) -> Option<u32> {
        let rest = self.text[at..].strip_prefix('/')?;
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    }

    /// Whether a word boundary is here.
    fn is_word_boundary(&self, at: usize) -> bool {
        let before = self.text[..at].chars().next_back();
        let after = self.text[at..].chars().next();
        !(before.is_some_and(char::is_alphanumeric) && after.is_some_and(char::is_alphanumeric))
    }
}

/// Writes a pseudonym. It begins with a letter, so that it is not a number.
fn write_pseudonym(hash: u64, out: &mut String) {
    let mut rest = hash;
    out.push(char::from(b'a' + (rest % 26) as u8));
    rest /= 26;
    for _ in 1..PSEUDONYM_LENGTH {
        out.push(char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[(rest % 36) as usize]));
        rest /= 36;
    }
}

/// Whether a word is not specific to an owner.
pub(super) fn is_public_word(word: &str) -> bool {
    if word.starts_with(|c: char| c.is_ascii_digit()) && is_amount(word) {
        return true;
    }
    contains(KUBERNETES, word) || is_version(word)
}

/// `80`, `25m`, `1h30m`
fn is_amount(word: &str) -> bool {
    let mut rest = word;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        if digits == 0 || digits > MAX_NUMBER_LENGTH {
            return false;
        }
        rest = &rest[digits..];
        let unit = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let alone = unit == 0 && digits == word.len();
        if !alone && UNITS.binary_search(&&rest[..unit]).is_err() {
            return false;
        }
        rest = &rest[unit..];
    }
    true
}

/// `v1`, `v2beta3`
fn is_version(word: &str) -> bool {
    let number = |text: &str| (1..=3).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let Some(rest) = word.strip_prefix('v') else { return false };
    let parts = rest.split_once("alpha").or_else(|| rest.split_once("beta"));
    parts.map_or_else(|| number(rest), |(major, minor)| number(major) && number(minor))
}

/// Whether a sorted list of lower-case words contains this one, ignoring case.
fn contains(list: &[&str], word: &str) -> bool {
    let lower = |byte: u8| byte.to_ascii_lowercase();
    list.binary_search_by(|entry| entry.bytes().cmp(word.bytes().map(lower))).is_ok()
}

fn is_enumeration(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.len() <= MAX_LABEL_LENGTH
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// `*/5 9-17 * * MON-FRI`, `@hourly`
fn is_schedule(text: &str) -> bool {
    let is_known = |word: &str| contains(CALENDAR, word) || word.bytes().all(|byte| byte.is_ascii_digit());
    text.split(|c: char| !c.is_alphanumeric()).all(is_known)
}

fn is_document(text: &str) -> bool {
    text.len() > MAX_ANNOTATION_LENGTH || text.trim_start().starts_with(['{', '[', '"'])
}

/// `8-4-4-4-12` hexadecimal digits.
fn is_uid(text: &str) -> bool {
    text.bytes().enumerate().all(|(index, byte)| match index {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    })
}
