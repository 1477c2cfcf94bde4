//! What names an object.

use std::fmt;
use std::sync::Arc;

/// An API group and a kind within it: `apps` and `Deployment`. The core group is the empty string.
///
/// The version is no part of it: `autoscaling/v1` and `autoscaling/v2` show the same object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind {
    /// The API group, empty for the core group.
    pub group: Arc<str>,
    /// The kind in its singular, capitalised form.
    pub kind: Arc<str>,
}

/// What names an object through all of its lives: the uid, not the key, separates those.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The recording this object belongs to, usually a cluster's name.
    pub source: Arc<str>,
    /// Group and kind.
    pub kind: Kind,
    /// Empty for objects of the whole cluster.
    pub namespace: Arc<str>,
    /// The object's name.
    pub name: Arc<str>,
}

/// How the source of an audit log ends, behind the name of the source that it belongs to.
const AUDIT_LOG: &str = " (audit log)";

/// The source of an audit log that has joined the recording of `source`: a log comes later and tells of the same time,
/// and within one source times rise.
pub fn audit_source(source: &str) -> Arc<str> {
    format!("{source}{AUDIT_LOG}").into()
}

/// Whether a source is that of an audit log.
pub fn is_audit_source(source: &str) -> bool {
    source.ends_with(AUDIT_LOG)
}

/// The source of the recording that the source of an audit log belongs to; any other source itself.
pub fn recorded_source(source: &str) -> &str {
    source.strip_suffix(AUDIT_LOG).unwrap_or(source)
}

// === impl Kind ===

impl Kind {
    /// A kind by the name of its group and its own.
    pub fn new(group: &str, kind: &str) -> Kind {
        Kind { group: group.into(), kind: kind.into() }
    }

    /// A kind by the `apiVersion` and `kind` an object carries.
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
