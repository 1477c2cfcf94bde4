//! Who wrote the versions of an object, as the audit log says that joined its recording.

use formats::audit::{self, AuditedWrite};
use history::History;
use model::{Change, Key, What, audit_source};
use serde::Deserialize;

use super::KindWords;

/// The writes to one object whose versions have not been found yet, in the order they were received.
pub struct AuditedWrites {
    pending: Vec<AuditedWrite>,
    /// The deletion that made the object terminate, if the log does not say which version it made: perhaps it also
    /// removed the object.
    deletion: Option<AuditedWrite>,
}

/// A write that made a version of the object.
pub struct WrittenBy {
    /// What the audit log says of it.
    pub write: AuditedWrite,
    /// Whether the log says which version it made. Else it is a write before this version that could have.
    pub is_certain: bool,
}

/// What tells by which writes a version can have been made.
struct VersionTraits {
    is_added: bool,
    is_deleted: bool,
    is_terminating: bool,
    is_bound: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectView {
    metadata: MetadataView,
    spec: SpecView,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct MetadataView {
    deletion_timestamp: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecView {
    node_name: Option<String>,
}

/// Nanoseconds after which a version is no longer taken for that of a write: recorders see them sooner.
const LAG: i64 = 10_000_000_000;

// === impl AuditedWrites ===

impl AuditedWrites {
    /// All writes to an object; none if no audit log has joined.
    pub fn to(history: &History, key: &Key) -> anyhow::Result<AuditedWrites> {
        let mut pending = Vec::new();
        for name in audit::names(&KindWords::plural(&key.kind), &key.name) {
            let kept = Key {
                source: audit_source(&key.source),
                kind: audit::kind(),
                namespace: key.namespace.clone(),
                name: name.into(),
            };
            for change in history.of(&kept)? {
                pending.extend(AuditedWrite::kept_in(change?.what.object()));
            }
        }
        pending.sort_by_key(|write| write.received);
        Ok(AuditedWrites { pending, deletion: None })
    }

    /// Who made this version. Versions are asked about in their order.
    pub fn of(&mut self, change: &Change) -> Vec<WrittenBy> {
        if self.pending.is_empty() && self.deletion.is_none() {
            return Vec::new();
        }
        let version = VersionTraits::of(change);
        let meta = change.what.object().meta();
        let mut found = Vec::new();
        self.pending.retain(|write| {
            let could_be = version.could_be_of(write);
            let (is_made, stays) = match &write.resource_version {
                Some(made) => (could_be && meta.resource_version.as_deref() == Some(made), true),
                None => {
                    let since = change.at.nanos_since(write.received);
                    (could_be && since >= 0, since <= LAG)
                }
            };
            if is_made {
                found.push(WrittenBy { write: write.clone(), is_certain: write.resource_version.is_some() });
            }
            !is_made && stays
        });
        if version.is_added {
            self.deletion = None;
        } else if version.is_deleted {
            let deletion = self.deletion.take().filter(|_| found.is_empty());
            found.extend(deletion.map(|write| WrittenBy { write, is_certain: false }));
        } else if let Some(by) = found.iter().find(|by| !by.is_certain && deletes(&by.write)) {
            self.deletion = Some(by.write.clone());
        }
        found
    }
}

// === impl VersionTraits ===

impl VersionTraits {
    fn of(change: &Change) -> VersionTraits {
        let view: ObjectView = serde_json::from_str(change.what.object().as_str()).unwrap_or_default();
        VersionTraits {
            is_added: matches!(change.what, What::Added(_)),
            is_deleted: matches!(change.what, What::Deleted(_)),
            is_terminating: view.metadata.deletion_timestamp.is_some(),
            is_bound: view.spec.node_name.is_some(),
        }
    }

    /// Whether a write leaves an object like this.
    fn could_be_of(&self, write: &AuditedWrite) -> bool {
        match (&*write.verb, &*write.subresource) {
            ("create", "") => self.is_added,
            ("create", "binding") => self.is_bound && !self.is_deleted,
            _ if deletes(write) => self.is_deleted || self.is_terminating,
            // Where the log says which version it is, the recording may have begun with it.
            _ => !self.is_deleted && (write.resource_version.is_some() || !self.is_added),
        }
    }
}

/// Whether a write removes an object, at once or in the end.
fn deletes(write: &AuditedWrite) -> bool {
    ["delete", "deletecollection"].contains(&&*write.verb) || write.subresource == "eviction"
}

// === impl WrittenBy ===

impl WrittenBy {
    /// `by alice (kubectl/v1.36.4): patch status`.
    pub fn in_words(&self) -> String {
        let AuditedWrite { verb, subresource, user, impersonated_user, user_agent, .. } = &self.write;
        let perhaps = if self.is_certain { "" } else { "perhaps " };
        let acting_as = impersonated_user.as_ref().map(|user| format!(" as {user}")).unwrap_or_default();
        let program =
            user_agent.split_whitespace().next().map(|name| format!(" ({name})")).unwrap_or_default();
        let space = if subresource.is_empty() { "" } else { " " };
        format!("{perhaps}by {user}{acting_as}{program}: {verb}{space}{subresource}")
    }

    /// The same for programs.
    pub fn as_json(&self) -> serde_json::Value {
        let write = &self.write;
        serde_json::json!({
            "user": write.user,
            "impersonatedUser": write.impersonated_user,
            "verb": write.verb,
            "subresource": write.subresource,
            "userAgent": write.user_agent,
            "sourceIPs": write.source_ips,
            "received": write.received.to_string(),
            "auditID": write.audit_id,
            "certain": self.is_certain,
        })
    }
}
