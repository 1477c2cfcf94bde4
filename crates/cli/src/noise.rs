//! Fields that change without anything having happened.

/// Whether a field changes with every version, or with every heartbeat, and tells nothing.
pub(super) fn is_noise(path: &str) -> bool {
    is_below(path, "metadata.resourceVersion")
        || is_below(path, "metadata.managedFields")
        || path.ends_with(".lastHeartbeatTime")
        || path.ends_with(".renewTime")
}

/// Whether a field is the one at `root` or part of it.
pub(super) fn is_below(path: &str, root: &str) -> bool {
    path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
