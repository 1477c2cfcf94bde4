//! Kinds and keys: the identifiers of objects.

use std::fmt;
use std::sync::Arc;

/// An API group and a kind within it: `apps` and `Deployment`. The core group is the empty string.
///
/// The API version is not part of it: `autoscaling/v1` and `autoscaling/v2` serve the same object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The API group, empty for the core group.
    pub group: Arc<str>,
    /// The kind in its singular, capitalised form.
    pub kind: Arc<str>,
}

/// The name of an object across all of its incarnations, which are told apart by uid and not by key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The recording this object belongs to, usually a cluster's name.
    pub source: Arc<str>,
    /// Group and kind.
    pub kind: Kind,
    /// Empty for cluster-scoped objects.
    pub namespace: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
}

/// Suffix of an audit log's source, appended to the name of the recorded source it belongs to.
const AUDIT_LOG: &str = " (audit log)";

/// The source of an audit log imported into the recording of `source`. It needs a source of its own because it is
/// imported later but covers the same time, and times never decrease within one source.
pub fn audit_source(source: &str) -> Arc<str> {
    format!("{source}{AUDIT_LOG}").into()
}

/// Whether this is the source of an audit log.
pub fn is_audit_source(source: &str) -> bool {
    source.ends_with(AUDIT_LOG)
}

/// The recorded source that an audit log's source belongs to; any other source is returned unchanged.
pub fn recorded_source(source: &str) -> &str {
    source.strip_suffix(AUDIT_LOG).unwrap_or(source)
}

// === impl Kind ===

impl Kind {
    /// A kind by group and kind name.
    pub fn new(group: &str, kind: &str) -> Kind {
        Kind { group: group.into(), kind: kind.into() }
    }

    /// Whether it has this group and kind name.
    pub fn is(&self, group: &str, kind: &str) -> bool {
        *self.group == *group && *self.kind == *kind
    }

    /// A kind by the `apiVersion` and `kind` fields of an object.
    pub fn of(api_version: &str, kind: &str) -> Kind {
        Kind::new(api_version.split_once('/').map_or("", |(group, _)| group), kind)
    }
}

impl fmt::Display for Kind {
    /// `Pod`, `Deployment.apps`: what kubectl accepts as a type.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.kind)
        } else {
            write!(f, "{}.{}", self.kind, self.group)
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}
