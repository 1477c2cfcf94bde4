//! Version numbers of Kubernetes components.

/// Whether a text such as `v1.34.2` or `1.34.1-gke.7` is of a release such as `1.34`.
pub fn is_of_release(text: &str, version: &str) -> bool {
    let numbers = text.strip_prefix('v').unwrap_or(text);
    let rest = numbers.strip_prefix(version);
    rest.is_some_and(|rest| !rest.starts_with(|next: char| next.is_ascii_digit()))
}
