//! The formats of texts that schemas name, as kube-openapi checks them.
//!
//! An address in an email may not contain comments.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use jiff::civil::Date;
use kubernetes::go::duration;
use regex::Regex;

use super::ValueType;

/// The formats of texts, without dashes.
const TEXT_FORMATS: [&str; 26] = [
    "bsonobjectid",
    "uri",
    "email",
    "hostname",
    "ipv4",
    "ipv6",
    "cidr",
    "mac",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
    "isbn",
    "isbn10",
    "isbn13",
    "creditcard",
    "ssn",
    "hexcolor",
    "rgbcolor",
    "byte",
    "password",
    "date",
    "duration",
    "datetime",
    "k8sshortname",
    "k8slongname",
];

/// Whether the format is one that values of the type may have; `None` is any type.
pub(super) fn is_known(value_type: Option<ValueType>, format: &str) -> bool {
    match value_type {
        None | Some(ValueType::String) => is_validated(format),
        Some(ValueType::Integer) => matches!(format, "int32" | "int64"),
        Some(ValueType::Number) => matches!(format, "float" | "double"),
        Some(ValueType::Object | ValueType::Array | ValueType::Boolean) => false,
    }
}

/// Whether texts are checked against the format.
pub(super) fn is_validated(format: &str) -> bool {
    TEXT_FORMATS.contains(&&*format.replace('-', ""))
}

/// Whether a text has a format.
pub(super) fn matches(format: &str, text: &str) -> bool {
    match &*format.replace('-', "") {
        "bsonobjectid" => text.len() == 24 && is_hex(text),
        "uri" => is_request_uri(text),
        "email" => is_email(text),
        "hostname" => is_hostname(text),
        "ipv4" => text.contains('.') && is_ip_sloppy(text),
        "ipv6" => text.contains(':') && text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => is_uuid(text, None),
        "uuid3" => is_uuid(text, Some('3')),
        "uuid4" => is_uuid(text, Some('4')),
        "uuid5" => is_uuid(text, Some('5')),
        "isbn" => is_isbn_10(text) || is_isbn_13(text),
        "isbn10" => is_isbn_10(text),
        "isbn13" => is_isbn_13(text),
        "creditcard" => is_credit_card(text),
        "ssn" => text.len() == 11 && SSN.is_match(text),
        "hexcolor" => HEX_COLOR.is_match(text),
        "rgbcolor" => RGB_COLOR.is_match(text),
        "byte" => is_base64(text),
        "date" => is_date(text),
        "duration" => parse_duration(text).is_some(),
        "datetime" => is_date_time(text),
        "k8sshortname" => text.len() <= 63 && is_label(text),
        "k8slongname" => text.len() <= 253 && text.split('.').all(is_label),
        _ => true,
    }
}

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    regex("(?i)^([0-9a-f]{8})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{4})-?([0-9a-f]{12})$")
});
static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$",
    )
});
static CREDIT_CARD: LazyLock<Regex> = LazyLock::new(|| {
    regex(
        r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11})$",
    )
});
static SSN: LazyLock<Regex> = LazyLock::new(|| regex(r"^[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}$"));
static HEX_COLOR: LazyLock<Regex> = LazyLock::new(|| regex("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"));
static RGB_COLOR: LazyLock<Regex> = LazyLock::new(|| {
    let part = r"[\t\n\f\r ]*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])[\t\n\f\r ]*";
    regex(&format!(r"^rgb\({part},{part},{part}\)$"))
});
static DURATION_PART: LazyLock<Regex> = LazyLock::new(|| regex(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)"));
static DAY_TIME: LazyLock<Regex> =
    LazyLock::new(|| regex(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_label(text: &str) -> bool {
    let is_end =
        |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    is_end(text.bytes().next())
        && is_end(text.bytes().next_back())
        && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|part| part.len() <= 63) && HOSTNAME.is_match(text)
}

/// An address whose numbers may have leading zeros.
fn is_ip_sloppy(text: &str) -> bool {
    let is_number = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) && part.parse::<u8>().is_ok()
    };
    let is_v4 = text.split('.').count() == 4 && text.split('.').all(is_number);
    is_v4 || text.parse::<Ipv4Addr>().is_ok() || text.parse::<Ipv6Addr>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, length)) = text.split_once('/') else { return false };
    let limit = if address.contains(':') { 128 } else { 32 };
    let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
    is_ip_sloppy(address) && is_number && length.parse::<u8>().is_ok_and(|length| length <= limit)
}

/// Six, eight or twenty bytes in hexadecimal, separated by colons, dashes, or a dot after every second.
fn is_mac(text: &str) -> bool {
    [(':', 2), ('-', 2), ('.', 4)].into_iter().any(|(separator, digits)| {
        let mut parts = text.split(separator);
        let count = parts.clone().count() * digits / 2;
        matches!(count, 6 | 8 | 20) && parts.all(|part| part.len() == digits && is_hex(part))
    })
}

/// A UUID with or without dashes, of a version if there is one.
fn is_uuid(text: &str, version: Option<char>) -> bool {
    let Some(parts) = UUID.captures(text) else { return false };
    let is_variant = || parts[4].starts_with(|letter| "89abAB".contains(letter));
    version.is_none_or(|version| parts[3].starts_with(version) && (version == '3' || is_variant()))
}

/// The text without white space and dashes.
fn compact(text: &str) -> String {
    text.chars().filter(|letter| !matches!(letter, '-' | ' ' | '\t' | '\n' | '\r' | '\x0c')).collect()
}

fn is_isbn_10(text: &str) -> bool {
    let digits = compact(text);
    let (Some(body), Some(last)) = (digits.get(..9), digits.get(9..)) else { return false };
    let last = match last {
        "X" => 10,
        _ if last.len() == 1 && last.bytes().all(|byte| byte.is_ascii_digit()) => {
            u32::from(last.as_bytes()[0] - b'0')
        }
        _ => return false,
    };
    let is_number = body.bytes().all(|byte| byte.is_ascii_digit());
    let sum: u32 =
        (1..).zip(body.bytes()).map(|(weight, digit)| weight * u32::from(digit.wrapping_sub(b'0'))).sum();
    is_number && (sum + 10 * last).is_multiple_of(11)
}

fn is_isbn_13(text: &str) -> bool {
    let digits = compact(text);
    if digits.len() != 13 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    let weights = [1, 3].into_iter().cycle();
    let sum: u32 =
        weights.zip(digits.bytes()).take(12).map(|(weight, digit)| weight * u32::from(digit - b'0')).sum();
    u32::from(digits.as_bytes()[12] - b'0') == (10 - sum % 10) % 10
}

fn is_credit_card(text: &str) -> bool {
    let digits: String = text.chars().filter(char::is_ascii_digit).collect();
    let sum: u32 = digits
        .bytes()
        .rev()
        .enumerate()
        .map(|(index, digit)| {
            let digit = u32::from(digit - b'0') * if index % 2 == 1 { 2 } else { 1 };
            digit % 10 + digit / 10
        })
        .sum();
    CREDIT_CARD.is_match(&digits) && sum.is_multiple_of(10)
}

fn is_base64(text: &str) -> bool {
    let padding = text.bytes().rev().take_while(|byte| *byte == b'=').count();
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !text.is_empty()
        && text.len().is_multiple_of(4)
        && padding <= 2
        && text.bytes().take(text.len() - padding).all(is_letter)
}

fn is_date(text: &str) -> bool {
    let is_form = text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        });
    is_form && text.parse::<Date>().is_ok()
}

fn is_date_time(text: &str) -> bool {
    let lower = text.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(time)) = (parts.next(), parts.next()) else { return false };
    let Some(captured) = DAY_TIME.captures(time) else { return false };
    is_date(date) && &captured[1] <= "23" && &captured[2] <= "59" && &captured[3] <= "59"
}

/// The nanoseconds of `1h30m`, or of numbers with units such as `2 days`.
pub(crate) fn parse_duration(text: &str) -> Option<i64> {
    const SECOND: i64 = 1_000_000_000;
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], SECOND),
        (&["m", "min"], 60 * SECOND),
        (&["h", "hr", "hour"], 3600 * SECOND),
        (&["d", "day"], 24 * 3600 * SECOND),
        (&["w", "wk", "week"], 7 * 24 * 3600 * SECOND),
    ];
    if let Some(nanos) = duration::parse(text) {
        return Some(nanos);
    }
    let mut total = None;
    for part in DURATION_PART.captures_iter(text) {
        let count = part[1].parse::<i64>().ok()?;
        let unit = part[2].to_lowercase();
        let found = UNITS.iter().find(|(names, _)| {
            names.contains(&&*unit) || names.last().is_some_and(|longest| unit.starts_with(longest))
        });
        if let Some((_, nanos)) = found {
            total = Some(total.unwrap_or(0_i64).wrapping_add(count.wrapping_mul(*nanos)));
        }
    }
    total
}

/// A URI as Go's `url.ParseRequestURI` accepts it: a path, or anything with a scheme.
pub(crate) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let Some((scheme, rest)) = split_scheme(text) else { return false };
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        return !scheme.is_empty();
    }
    let (authority, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None => ("", rest),
    };
    is_authority(authority) && has_valid_escapes(path)
}

/// The scheme, empty if there is none, and the rest. `None` if a scheme is missing before a colon.
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at > 0 => return Some((&text[..at], &text[at + 1..])),
            b':' => return None,
            _ => break,
        }
    }
    Some(("", text))
}

fn is_authority(authority: &str) -> bool {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let is_user_letter =
        |letter: char| letter.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(letter);
    if !user.chars().all(is_user_letter) || !has_valid_escapes(user) {
        return false;
    }
    let (name, port) = match host.strip_prefix('[') {
        Some(inner) => match inner.rfind(']') {
            Some(end) => (&inner[..end], &inner[end + 1..]),
            None => return false,
        },
        None => host.split_at(host.rfind(':').unwrap_or(host.len())),
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let is_host_letter = |letter: char| {
        !letter.is_ascii() || letter.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(letter)
    };
    (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
        && name.chars().all(is_host_letter)
        && has_valid_escapes(name)
}

fn has_valid_escapes(text: &str) -> bool {
    text.split('%').skip(1).all(|part| part.get(..2).is_some_and(is_hex))
}

/// An address, alone or in angle brackets after a name.
fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match text.strip_suffix('>').and_then(|text| text.rsplit_once('<')) {
        Some((name, address)) => {
            let name = name.trim();
            let is_quoted = name.len() >= 2 && name.starts_with('"') && name.ends_with('"');
            if !is_quoted && !name.split_whitespace().all(is_dot_atom) {
                return false;
            }
            address
        }
        None => text,
    };
    let Some((local, domain)) = address.rsplit_once('@') else { return false };
    let is_quoted = local.len() >= 2
        && local.starts_with('"')
        && local.ends_with('"')
        && !local[1..local.len() - 1].contains(['"', '\\']);
    let is_literal =
        domain.strip_prefix('[').and_then(|domain| domain.strip_suffix(']')).is_some_and(|inner| {
            let inner = inner.strip_prefix("IPv6:").unwrap_or(inner);
            inner.parse::<std::net::IpAddr>().is_ok()
        });
    (is_quoted || is_dot_atom(local)) && (is_literal || is_dot_atom(domain))
}

fn is_dot_atom(text: &str) -> bool {
    let is_letter = |letter: char| {
        !letter.is_ascii() || letter.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(letter)
    };
    text.split('.').all(|part| !part.is_empty() && part.chars().all(is_letter))
}
