//! Who wrote the versions of an object, as the audit log says that joined its recording.

use formats::audit::{self, AuditedWrite};
use history::History;
use model::{Change, Key, Object, What, audit_source};
use serde::Deserialize;

use super::KindWords;

/// The writes to one object that have not been found to be one of its versions yet, in the order they were received.
pub(crate) struct AuditedWrites(Vec<AuditedWrite>);

/// A write that made a version of the object.
pub(crate) struct WrittenBy {
    pub(crate) write: AuditedWrite,
    /// Whether the log says which version it made. Else it is the write before this version that could have.
    pub(crate) is_certain: bool,
}

// === impl AuditedWrites ===

impl AuditedWrites {
    /// All writes to an object; none if no audit log has joined.
    pub(crate) fn to(history: &History, key: &Key) -> anyhow::Result<AuditedWrites> {
        let mut writes = Vec::new();
        for name in audit::names(&KindWords::plural(&key.kind), &key.name) {
            let kept = Key {
                source: audit_source(&key.source),
                kind: audit::kind(),
                namespace: key.namespace.clone(),
                name: name.into(),
            };
            for change in history.of(&kept)? {
                writes.extend(AuditedWrite::kept_in(change?.what.object()));
            }
        }
        writes.sort_by_key(|write| write.received);
        Ok(AuditedWrites(writes))
    }

    /// Who made this version. Versions are asked about in their order, and each write is found once.
    pub(crate) fn of(&mut self, change: &Change) -> Vec<WrittenBy> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let meta = change.what.object().meta();
        let version = meta.resource_version.as_deref();
        let ends = matches!(change.what, What::Deleted(_)) || is_being_deleted(change.what.object());
        let found = self.0.extract_if(.., |write| {
            let could_be = match (&*write.verb, &*write.subresource) {
                ("create", "") => matches!(change.what, What::Added(_)),
                // A server that is older answers with the version before.
                ("delete" | "deletecollection", _) => ends,
                _ => !matches!(change.what, What::Deleted(_)),
            };
            could_be
                && match &write.resource_version {
                    Some(_) => write.resource_version.as_deref() == version,
                    None => write.received <= change.at,
                }
        });
        let found = found.map(|write| WrittenBy { is_certain: write.resource_version.is_some(), write });
        found.collect()
    }
}

// === impl WrittenBy ===

impl WrittenBy {
    /// `by alice (kubectl/v1.36.4): patch status`.
    pub(crate) fn in_words(&self) -> String {
        let AuditedWrite { verb, subresource, user, impersonated_user, user_agent, .. } = &self.write;
        let perhaps = if self.is_certain { "" } else { "perhaps " };
        let acting_as = impersonated_user.as_ref().map(|user| format!(" as {user}")).unwrap_or_default();
        let program =
            user_agent.split_whitespace().next().map(|name| format!(" ({name})")).unwrap_or_default();
        let space = if subresource.is_empty() { "" } else { " " };
        format!("{perhaps}by {user}{acting_as}{program}: {verb}{space}{subresource}")
    }

    pub(crate) fn as_json(&self) -> serde_json::Value {
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

fn is_being_deleted(object: &Object) -> bool {
    #[derive(Deserialize)]
    struct View {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(rename = "deletionTimestamp")]
        deletion_timestamp: Option<String>,
    }
    serde_json::from_str(object.as_str()).is_ok_and(|View { metadata }| metadata.deletion_timestamp.is_some())
}
