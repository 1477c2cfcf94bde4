//! Priority classes.

use serde_json::{Value, json};

use super::hash::Hash;
use super::{Fit, Labels, Meta, labels, put, text};
use crate::scaling_history::times::go_millis;

/// What `pc_info` keeps of a PriorityClass.
#[derive(Clone, Debug, PartialEq)]
pub struct PriorityClassInfo {
    /// What names it.
    pub meta: Meta,
    /// Its uid.
    pub uid: String,
    /// The priority.
    pub value: i32,
    /// Whether pods have it that name none.
    pub global_default: bool,
    /// Whether its pods push others aside.
    pub preemption_policy: String,
    /// In words.
    pub description: String,
    /// Its labels.
    pub labels: Labels,
}

// === impl PriorityClassInfo ===

impl PriorityClassInfo {
    /// What the recorder keeps of this class.
    pub(crate) fn of(object: &Value) -> Fit<PriorityClassInfo> {
        let value = object["value"].as_i64().unwrap_or_default();
        let policy = text(object, "preemptionPolicy");
        Ok(PriorityClassInfo {
            meta: Meta::of(object)?,
            uid: text(&object["metadata"], "uid").to_owned(),
            value: i32::try_from(value).map_err(|_| format!("the value {value} takes more than 32 bits"))?,
            global_default: object["globalDefault"].as_bool().unwrap_or_default(),
            // An API server sets it where it is not given; without it the recorder would stop.
            preemption_policy: if policy.is_empty() { "PreemptLowerPriority" } else { policy }.to_owned(),
            description: text(object, "description").to_owned(),
            labels: labels(&object["metadata"]["labels"])?,
        })
    }

    pub(crate) fn hash(&self) -> String {
        let mut hash = Hash::default();
        hash.text(&self.meta.name);
        let created = go_millis(self.meta.created).to_be_bytes();
        hash.bytes(&created);
        // The value overwrites half of the buffer that still holds the time.
        hash.bytes(&self.value.to_be_bytes());
        hash.bytes(&created[4..]);
        hash.bytes(&[u8::from(self.global_default)]);
        hash.text(&self.preemption_policy);
        hash.hex()
    }

    /// A class that the recorder would have seen so.
    pub(crate) fn object(&self) -> Value {
        let mut object = self.meta.object("scheduling.k8s.io/v1", "PriorityClass");
        put(&mut object["metadata"], "uid", json!(self.uid));
        put(&mut object["metadata"], "labels", json!(self.labels));
        object["value"] = json!(self.value);
        if self.global_default {
            object["globalDefault"] = json!(true);
        }
        put(&mut object, "description", json!(self.description));
        put(&mut object, "preemptionPolicy", json!(self.preemption_policy));
        object
    }
}
