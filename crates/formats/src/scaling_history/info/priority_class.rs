//! Priority classes.

use serde_json::{Value, json};

use super::hash::InfoHasher;
use super::{InfoResult, Labels, SnapshotMeta, labels, set_if_not_empty, text};
use crate::scaling_history::timestamps::go_millis;

/// A row of `pc_info`: a PriorityClass.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityClassInfo {
    /// Its name and times.
    pub meta: SnapshotMeta,
    /// Its uid.
    pub uid: String,
    /// The priority.
    pub value: i32,
    /// Whether it applies to pods without a class.
    pub global_default: bool,
    /// Whether its pods may preempt others.
    pub preemption_policy: String,
    /// Its description.
    pub description: String,
    /// Its labels.
    pub labels: Labels,
}

// === impl PriorityClassInfo ===

impl PriorityClassInfo {
    /// The recorder's row for a priority class.
    pub(crate) fn of(object: &Value) -> InfoResult<PriorityClassInfo> {
        let value = object["value"].as_i64().unwrap_or_default();
        let policy = text(object, "preemptionPolicy");
        Ok(PriorityClassInfo {
            meta: SnapshotMeta::of(object)?,
            uid: text(&object["metadata"], "uid").to_owned(),
            value: i32::try_from(value).map_err(|_| format!("the value {value} does not fit 32 bits"))?,
            global_default: object["globalDefault"].as_bool().unwrap_or_default(),
            // The API server sets it by default; without it the recorder would fail.
            preemption_policy: if policy.is_empty() { "PreemptLowerPriority" } else { policy }.to_owned(),
            description: text(object, "description").to_owned(),
            labels: labels(&object["metadata"]["labels"])?,
        })
    }

    pub(crate) fn hash(&self) -> String {
        let mut hash = InfoHasher::default();
        hash.text(&self.meta.name);
        let created = go_millis(self.meta.created).to_be_bytes();
        hash.bytes(&created);
        // The recorder reuses a buffer: the value overwrites its first half, the second still holds the time.
        hash.bytes(&self.value.to_be_bytes());
        hash.bytes(&created[4..]);
        hash.bytes(&[u8::from(self.global_default)]);
        hash.text(&self.preemption_policy);
        hash.hex()
    }

    /// A priority class from which the recorder would make this row.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object("scheduling.k8s.io/v1", "PriorityClass");
        set_if_not_empty(&mut object["metadata"], "uid", json!(self.uid));
        set_if_not_empty(&mut object["metadata"], "labels", json!(self.labels));
        object["value"] = json!(self.value);
        if self.global_default {
            object["globalDefault"] = json!(true);
        }
        set_if_not_empty(&mut object, "description", json!(self.description));
        set_if_not_empty(&mut object, "preemptionPolicy", json!(self.preemption_policy));
        object
    }
}
