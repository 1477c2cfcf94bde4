//! URLs, as Go's `net/url` takes them apart.

use crate::structural::is_request_uri;

/// The parts of a URL.
#[derive(Debug, PartialEq)]
pub(super) struct Url {
    pub(super) scheme: String,
    user: String,
    pub(super) host: String,
    /// With its escapes.
    pub(super) path: String,
    query: String,
    fragment: String,
}

// === impl Url ===

impl Url {
    pub(super) fn parse(text: &str) -> Option<Url> {
        if !is_request_uri(text) {
            return None;
        }
        let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = match rest.find([':', '/', '?']) {
            Some(at) if rest.as_bytes()[at] == b':' => (rest[..at].to_lowercase(), &rest[at + 1..]),
            _ => (String::new(), rest),
        };
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, path) = match rest.strip_prefix("//").filter(|_| !scheme.is_empty()) {
            Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
            None => ("", rest),
        };
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        // A path that does not begin with a slash is not one.
        let path = if path.starts_with('/') || scheme.is_empty() { path } else { "" };
        Some(Url {
            scheme,
            user: user.to_owned(),
            host: unescaped(host, false),
            path: escaped_path(path),
            query: query.to_owned(),
            fragment: fragment.to_owned(),
        })
    }

    /// The name and the port of the host.
    pub(super) fn split_host(&self) -> (&str, &str) {
        let (name, port) = match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => (name, port),
            _ => (&*self.host, ""),
        };
        let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        (inner.unwrap_or(name), port)
    }

    /// The names and values of the query.
    pub(super) fn query_pairs(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let parts = self.query.split('&').filter(|part| !part.is_empty() && !part.contains(';'));
        parts.map(|part| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (unescaped(name, true), unescaped(value, true))
        })
    }
}

fn unescaped(text: &str, plus_is_space: bool) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match (first, digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            (b'+', _) if plus_is_space => bytes.push(b' '),
            (byte, _) => bytes.push(*byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A path with escapes for what may not be in one.
fn escaped_path(path: &str) -> String {
    let is_allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@!'()*[]%".contains(byte);
    if path.bytes().all(|byte| is_allowed(&byte)) {
        return path.to_owned();
    }
    // Go decodes such a path, and encodes it anew.
    let is_kept = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte);
    let encode = |byte: u8| match is_kept(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    unescaped(path, false).bytes().map(encode).collect()
}
