//! The tag of a container image, which decides how its images are pulled by default.

/// The default pull policy of an image: `Always` for the tag `latest`, which is also the tag of an image that
/// names neither tag nor digest. An invalid reference has no tag.
pub(super) fn pull_policy(image: &str) -> &'static str {
    if is_latest(image) == Some(true) { "Always" } else { "IfNotPresent" }
}

/// Whether the image has the tag `latest`; `None` if the reference is invalid.
fn is_latest(image: &str) -> Option<bool> {
    if image.len() == 64 && image.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, Some(digest)),
        None => (image, None),
    };
    let after_slash = rest.rfind('/').map_or(0, |slash| slash + 1);
    let (name, tag) = match rest[after_slash..].find(':') {
        Some(colon) => (&rest[..after_slash + colon], Some(&rest[after_slash + colon + 1..])),
        None => (rest, None),
    };
    let (domain, path) = match name.split_once('/') {
        Some((first, path)) if is_domain(first) => (Some(first), path),
        _ => (None, name),
    };
    let valid = domain.is_none_or(is_valid_domain)
        && path.split('/').all(is_path_component)
        && tag.is_none_or(is_tag)
        && digest.is_none_or(is_digest)
        && path.len() <= 255;
    valid.then(|| tag == Some("latest") || (tag.is_none() && digest.is_none()))
}

/// Whether the first part of a name is the registry rather than a part of the path.
fn is_domain(first: &str) -> bool {
    first == "localhost"
        || first.contains(['.', ':'])
        || first.chars().any(|letter| letter.is_ascii_uppercase())
}

fn is_valid_domain(domain: &str) -> bool {
    let (host, port) = domain.rsplit_once(':').map_or((domain, None), |(host, port)| (host, Some(port)));
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    host.split('.').all(is_label) && port.is_none_or(is_port)
}

/// Lower-case letters and digits, separated by `.`, `_`, `__` or any number of `-`.
fn is_path_component(component: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let mut rest = component.as_bytes();
    loop {
        let word = rest.iter().take_while(|byte| is_word(**byte)).count();
        if word == 0 {
            return false;
        }
        rest = &rest[word..];
        let separator = rest.iter().take_while(|byte| !is_word(**byte)).count();
        match &rest[..separator] {
            b"" => return true,
            b"." | b"_" | b"__" => {}
            dashes if dashes.iter().all(|byte| *byte == b'-') => {}
            _ => return false,
        }
        rest = &rest[separator..];
    }
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&tag.len())
        && tag.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-')
        && tag.bytes().next().is_some_and(is_word)
}

fn is_digest(digest: &str) -> bool {
    let Some((algorithm, hex)) = digest.split_once(':') else { return false };
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    hex.len() == length && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_image_is_always_pulled() {
        let digest = format!("sha256:{}", "0123456789abcdef".repeat(4));
        for latest in ["nginx", "a/b/c", "r.io:5000/a", "localhost/a", "a:latest", "r:1/a_b__c---d:latest"] {
            assert_eq!(pull_policy(latest), "Always", "{latest}");
        }
        assert_eq!(pull_policy(&format!("a:latest@{digest}")), "Always");
        assert_eq!(pull_policy(&format!("a@{digest}")), "IfNotPresent");
        for other in
            ["nginx:1", "r.io:5000/a:v1", "", "Nginx", "a b", "a:", "a@sha256:12", "a/", "a..b", "a:-x"]
        {
            assert_eq!(pull_policy(other), "IfNotPresent", "{other}");
        }
    }
}
