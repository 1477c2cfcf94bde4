//! Values in addresses of an API server.

/// A text as it may stand in a URL.
pub(crate) fn encoded(text: &str) -> String {
    let mut url = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => url.push(byte.into()),
            _ => url.push_str(&format!("%{byte:02X}")),
        }
    }
    url
}
