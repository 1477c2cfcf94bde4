//! Rules for names, labels and keys, with the messages of Kubernetes about texts that violate them.
//!
//! Each function returns the messages, in Kubernetes' order; no message means that the text is valid.

const LABEL_1123: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_1123: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_KEY: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_1123_LENGTH: usize = 63;
const SUBDOMAIN_LENGTH: usize = 253;

/// The rule for the names of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameRule {
    /// `a-1.b`: most kinds.
    Subdomain,
    /// The same, with another text about the length: ReplicationControllers.
    LongName,
    /// `a-1`: namespaces, services, StatefulSets.
    Label,
    /// Anything that can be part of a URL path: RBAC.
    PathSegment,
}

// === impl NameRule ===

impl NameRule {
    /// Checks a name, or the beginning of one (`generateName`).
    pub(crate) fn check(self, name: &str, is_prefix: bool) -> Vec<String> {
        if self == NameRule::PathSegment {
            return if is_prefix { path_segment_prefix(name) } else { path_segment(name) };
        }
        let masked;
        let mut name = name;
        // The generated suffix follows the dash. Kubernetes replaces two characters.
        if is_prefix && name.len() > 1 && name.ends_with('-') {
            let kept = name.char_indices().rev().nth(1).map_or(0, |(at, _)| at);
            masked = format!("{}a", &name[..kept]);
            name = &masked;
        }
        match self {
            NameRule::Label => label_1123(name),
            NameRule::LongName => subdomain_1123_with_unit(name, "bytes"),
            NameRule::Subdomain | NameRule::PathSegment => subdomain_1123(name),
        }
    }
}

/// A lowercase RFC 1123 label.
pub(crate) fn label_1123(value: &str) -> Vec<String> {
    let mut messages = too_long(value, LABEL_1123_LENGTH, "characters");
    if !is_label_1123(value) {
        messages.push(if is_subdomain_1123(value) {
            "must not contain dots".to_owned()
        } else {
            let text = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or \
                        '-', and must start and end with an alphanumeric character";
            regex_message(text, LABEL_1123, &["my-name", "123-abc"])
        });
    }
    messages
}

/// An RFC 1035 label.
pub(crate) fn label_1035(value: &str) -> Vec<String> {
    let mut messages = too_long(value, LABEL_1123_LENGTH, "characters");
    if !is_label_1123(value) || !value.starts_with(|first: char| first.is_ascii_lowercase()) {
        let text = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with \
                    an alphabetic character, and end with an alphanumeric character";
        messages.push(regex_message(text, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    messages
}

/// A lowercase RFC 1123 subdomain.
pub(crate) fn subdomain_1123(value: &str) -> Vec<String> {
    subdomain_1123_with_unit(value, "characters")
}

fn subdomain_1123_with_unit(value: &str, unit: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_LENGTH, unit);
    if !is_subdomain_1123(value) {
        let text = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' \
                    or '.', and must start and end with an alphanumeric character";
        messages.push(regex_message(text, SUBDOMAIN_1123, &["example.com"]));
    }
    messages
}

/// A subdomain that may contain underscores.
pub(crate) fn subdomain_with_underscores(value: &str) -> Vec<String> {
    const PART: &str = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        let is_end = |byte: Option<u8>| byte.is_some_and(is_lowercase_or_digit);
        is_end(part.bytes().next())
            && is_end(part.bytes().next_back())
            && part.bytes().all(|byte| is_lowercase_or_digit(byte) || byte == b'-' || byte == b'_')
    };
    let mut messages = too_long(value, SUBDOMAIN_LENGTH, "characters");
    if !value.split('.').all(is_part) {
        let text = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', \
                    '-' or '.', and must start and end with an alphanumeric character";
        messages.push(regex_message(text, &format!(r"{PART}(\.{PART})*"), &["example.com"]));
    }
    messages
}

/// `*.example.com`
pub(crate) fn wildcard_subdomain(value: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_LENGTH, "characters");
    if !value.strip_prefix("*.").is_some_and(is_subdomain_1123) {
        let text = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, \
                    which must consist of lower case alphanumeric characters, '-' or '.' and end with an \
                    alphanumeric character";
        messages.push(regex_message(text, &format!(r"\*\.{SUBDOMAIN_1123}"), &["*.example.com"]));
    }
    messages
}

/// A label's key, a finalizer, a condition's type: a name after an optional subdomain and a slash.
pub(crate) fn qualified_name(value: &str) -> Vec<String> {
    let text = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
                alphanumeric character";
    let examples = ["MyName", "my.name", "123-abc"];
    let (prefix, name) = match value.split_once('/') {
        None => (None, value),
        Some((prefix, name)) if !name.contains('/') => (Some(prefix), name),
        Some(_) => {
            let message = regex_message(text, LABEL_KEY, &examples);
            let suffix = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')";
            return vec![format!("a valid label key {message}{suffix}")];
        }
    };
    let mut messages = Vec::new();
    match prefix {
        Some("") => messages.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => {
            let about = |message: String| format!("prefix part {message}");
            messages.extend(subdomain_1123_with_unit(prefix, "bytes").into_iter().map(about));
        }
        None => {}
    }
    if name.is_empty() {
        messages.push("name part must be non-empty".to_owned());
    }
    let about = |message: String| format!("name part {message}");
    messages.extend(too_long(name, 63, "bytes").into_iter().map(about));
    if name.is_empty() || !is_label_text(name) {
        messages.push(about(regex_message(text, LABEL_KEY, &examples)));
    }
    messages
}

/// A label's value.
pub(crate) fn label_value(value: &str) -> Vec<String> {
    let mut messages = too_long(value, 63, "bytes");
    if !is_label_text(value) {
        let text = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or \
                    '.', and must start and end with an alphanumeric character";
        messages.push(regex_message(text, &format!("({LABEL_KEY})?"), &["MyValue", "my_value", "12345"]));
    }
    messages
}

/// A name that can be part of a URL path.
pub(crate) fn path_segment(name: &str) -> Vec<String> {
    match name {
        "." | ".." => vec![format!("may not be '{name}'")],
        _ => path_segment_prefix(name),
    }
}

fn path_segment_prefix(name: &str) -> Vec<String> {
    let contained = ['/', '%'].into_iter().filter(|letter| name.contains(*letter));
    contained.map(|letter| format!("may not contain '{letter}'")).collect()
}

/// The name of a port, such as `http`.
pub(crate) fn port_name(name: &str) -> Vec<String> {
    let mut messages = too_long(name, 15, "characters");
    let mut add = |is_wrong: bool, text: &str| {
        if is_wrong {
            messages.push(text.to_owned());
        }
    };
    let is_allowed = |byte: u8| is_lowercase_or_digit(byte) || byte == b'-';
    add(
        name.is_empty() || !name.bytes().all(is_allowed),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    let has_letter = name.bytes().any(|byte| byte.is_ascii_lowercase());
    add(!has_letter, "must contain at least one letter (a-z)");
    add(name.contains("--"), "must not contain consecutive hyphens");
    add(name.starts_with('-') || name.ends_with('-'), "must not begin or end with a hyphen");
    messages
}

/// A port number.
pub(crate) fn port_number(port: i64) -> Vec<String> {
    number_in_range(port, 1, 65535)
}

/// A number between two bounds, inclusive.
pub(crate) fn number_in_range(value: i64, min: i64, max: i64) -> Vec<String> {
    if (min..=max).contains(&value) {
        return Vec::new();
    }
    vec![format!("must be between {min} and {max}, inclusive")]
}

/// `25%`
pub(crate) fn percent(value: &str) -> Vec<String> {
    let is_percent = value
        .strip_suffix('%')
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    if is_percent {
        return Vec::new();
    }
    let text = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![regex_message(text, "[0-9]+%", &["1%", "93%"])]
}

/// The key of an entry in a ConfigMap or Secret.
pub(crate) fn config_map_key(value: &str) -> Vec<String> {
    let mut messages = too_long(value, SUBDOMAIN_LENGTH, "characters");
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if value.is_empty() || !value.bytes().all(is_allowed) {
        let text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        messages.push(regex_message(text, "[-._a-zA-Z0-9]+", &["key.name", "KEY_NAME", "key-name"]));
    }
    match value {
        "." | ".." => messages.push(format!("must not be '{value}'")),
        _ if value.starts_with("..") => messages.push("must not start with '..'".to_owned()),
        _ => {}
    }
    messages
}

/// The name of an environment variable.
pub(crate) fn environment_variable(value: &str) -> Vec<String> {
    if value.bytes().all(|byte| (b' '..0x7f).contains(&byte) && byte != b'=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned(),
    ]
}

/// The name of an HTTP header.
pub(crate) fn http_header(value: &str) -> Vec<String> {
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Vec::new();
    }
    let text = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![regex_message(text, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

fn too_long(value: &str, max: usize, unit: &str) -> Vec<String> {
    if value.len() <= max {
        return Vec::new();
    }
    vec![format!("must be no more than {max} {unit}")]
}

fn regex_message(text: &str, regex: &str, examples: &[&str]) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    format!("{text} (e.g. {}regex used for validation is '{regex}')", examples.join(" or "))
}

fn is_lowercase_or_digit(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Whether it has the form of an RFC 1123 label, of any length.
fn is_label_1123(value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_some_and(|byte| is_lowercase_or_digit(*byte));
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| is_lowercase_or_digit(*byte) || *byte == b'-')
}

fn is_subdomain_1123(value: &str) -> bool {
    value.split('.').all(is_label_1123)
}

/// Whether it has the form of a label's value, of any length.
fn is_label_text(value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_end = |byte: Option<&u8>| byte.is_none_or(u8::is_ascii_alphanumeric);
    is_end(bytes.first())
        && is_end(bytes.last())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}
