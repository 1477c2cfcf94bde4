//! Fields that change with every version and say nothing about what happened.

/// Whether a field changes with every version or heartbeat, and is not worth showing.
pub(super) fn is_noise(path: &str) -> bool {
    is_below(path, "metadata.resourceVersion")
        || is_below(path, "metadata.managedFields")
        || path.ends_with(".lastHeartbeatTime")
        || path.ends_with(".renewTime")
}

/// Whether `path` is the field `root` or below it.
pub(super) fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
