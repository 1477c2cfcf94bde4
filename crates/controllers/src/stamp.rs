//! Times and conditions as statuses have them.

use kubernetes::time::whole_second;
use model::Moment;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const SECOND: i64 = 1_000_000_000;

/// A time in whole seconds: what an API server keeps of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(pub(super) Moment);

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
    pub(super) last_probe_time: Option<Stamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_update_time: Option<Stamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) last_transition_time: Option<Stamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
}

// === impl Stamp ===

impl Stamp {
    /// The time, less what is not kept of it.
    pub(super) fn at(moment: Moment) -> Stamp {
        Stamp(whole_second(moment))
    }

    /// So many seconds later.
    pub(super) fn plus_seconds(self, seconds: i64) -> Moment {
        self.0.plus_nanos(seconds.saturating_mul(SECOND))
    }
}

impl Serialize for Stamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Stamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Stamp, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map(Stamp).map_err(serde::de::Error::custom)
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
