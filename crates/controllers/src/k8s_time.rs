//! Timestamps and conditions of statuses.

use kubernetes::time::whole_second;
use model::Moment;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const SECOND: i64 = 1_000_000_000;

/// A timestamp in whole seconds, as metav1.Time is serialized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct K8sTime(pub(super) Moment);

/// A condition of a status. Which of the times there are depends on the kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) status: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_probe_time: Option<K8sTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_update_time: Option<K8sTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_transition_time: Option<K8sTime>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

// === impl K8sTime ===

impl K8sTime {
    /// The moment, truncated to a second.
    pub(super) fn at(moment: Moment) -> K8sTime {
        K8sTime(whole_second(moment))
    }

    /// So many seconds later.
    pub(super) fn plus_seconds(self, seconds: i64) -> Moment {
        self.0.plus_nanos(seconds.saturating_mul(SECOND))
    }
}

impl Serialize for K8sTime {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for K8sTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<K8sTime, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map(K8sTime).map_err(serde::de::Error::custom)
    }
}

// === impl Condition ===

impl Condition {
    pub(super) fn new(kind: &str, status: bool, reason: &str, message: &str) -> Condition {
        Condition {
            kind: kind.to_owned(),
            status: if status { "True" } else { "False" }.to_owned(),
            reason: Some(reason.to_owned()),
            message: Some(message.to_owned()),
            ..Condition::default()
        }
    }

    pub(super) fn find<'c>(conditions: &'c [Condition], kind: &str) -> Option<&'c Condition> {
        conditions.iter().find(|condition| condition.kind == kind)
    }

    pub(super) fn is_true(conditions: &[Condition], kind: &str) -> bool {
        Condition::find(conditions, kind).is_some_and(|condition| condition.status == "True")
    }

    pub(super) fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or_default()
    }
}
