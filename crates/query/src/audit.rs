//! Attribution of an object's versions to the writes in an audit log that was joined to the recording.

use formats::audit::{self, AuditedWrite};
use history::History;
use model::{Change, Key, What, audit_source};
use serde::Deserialize;

use super::KindResolver;

/// The writes to one object that are not attributed to a version yet, in the order they were received.
pub struct AuditedWrites {
    pending: Vec<AuditedWrite>,
    /// The write that set the deletion timestamp, if the log does not name the version it made: perhaps it also removed
    /// the object.
    deletion: Option<AuditedWrite>,
}

/// A write to which a version of the object is attributed.
pub struct WriteAttribution {
    /// The write in the audit log.
    pub write: AuditedWrite,
    /// Whether the log names the version. Otherwise it is an earlier write that may have made it.
    pub is_certain: bool,
}

/// The properties of a version that decide which writes may have made it.
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

/// The longest recorder lag in nanoseconds: later versions are not attributed to a write.
const MAX_RECORDER_LAG: i64 = 10_000_000_000;

// === impl AuditedWrites ===

impl AuditedWrites {
    /// All writes to an object; none if no audit log was joined.
    pub fn for_object(history: &History, key: &Key) -> anyhow::Result<AuditedWrites> {
        let mut pending = Vec::new();
        for name in audit::object_names(&KindResolver::plural(&key.kind), &key.name) {
            let log_key = Key {
                source: audit_source(&key.source),
                kind: audit::kind(),
                namespace: key.namespace.clone(),
                name: name.into(),
            };
            for change in history.of(&log_key)? {
                pending.extend(AuditedWrite::from_object(change?.what.object()));
            }
        }
        pending.sort_by_key(|write| write.received);
        Ok(AuditedWrites { pending, deletion: None })
    }

    /// The writes that made this version. Versions are to be passed in their order.
    pub fn attribute(&mut self, change: &Change) -> Vec<WriteAttribution> {
        if self.pending.is_empty() && self.deletion.is_none() {
            return Vec::new();
        }
        let version = VersionTraits::of(change);
        let meta = change.what.object().meta();
        let mut found = Vec::new();
        self.pending.retain(|write| {
            let could_be = version.could_be_made_by(write);
            let (is_made, remains_candidate) = match &write.resource_version {
                Some(made) => (could_be && meta.resource_version.as_deref() == Some(made), true),
                None => {
                    let since = change.at.nanos_since(write.received);
                    (could_be && since >= 0, since <= MAX_RECORDER_LAG)
                }
            };
            if is_made {
                found.push(WriteAttribution {
                    write: write.clone(),
                    is_certain: write.resource_version.is_some(),
                });
            }
            !is_made && remains_candidate
        });
        if version.is_added {
            self.deletion = None;
        } else if version.is_deleted {
            let deletion = self.deletion.take().filter(|_| found.is_empty());
            found.extend(deletion.map(|write| WriteAttribution { write, is_certain: false }));
        } else if let Some(by) = found.iter().find(|by| !by.is_certain && is_deletion(&by.write)) {
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

    /// Whether a write may have made this version.
    fn could_be_made_by(&self, write: &AuditedWrite) -> bool {
        match (&*write.verb, &*write.subresource) {
            ("create", "") => self.is_added,
            ("create", "binding") => self.is_bound && !self.is_deleted,
            _ if is_deletion(write) => self.is_deleted || self.is_terminating,
            // If the log names the version, the recording may begin with it.
            _ => !self.is_deleted && (write.resource_version.is_some() || !self.is_added),
        }
    }
}

/// Whether a write deletes an object, at once or after its termination.
fn is_deletion(write: &AuditedWrite) -> bool {
    ["delete", "deletecollection"].contains(&&*write.verb) || write.subresource == "eviction"
}

// === impl WriteAttribution ===

impl WriteAttribution {
    /// `by alice (kubectl/v1.36.4): patch status`.
    pub fn as_text(&self) -> String {
        let AuditedWrite { verb, subresource, user, impersonated_user, user_agent, .. } = &self.write;
        let perhaps = if self.is_certain { "" } else { "perhaps " };
        let acting_as = impersonated_user.as_ref().map(|user| format!(" as {user}")).unwrap_or_default();
        let program =
            user_agent.split_whitespace().next().map(|name| format!(" ({name})")).unwrap_or_default();
        let space = if subresource.is_empty() { "" } else { " " };
        format!("{perhaps}by {user}{acting_as}{program}: {verb}{space}{subresource}")
    }

    /// The same as JSON.
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
