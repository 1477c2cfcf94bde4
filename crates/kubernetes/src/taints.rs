//! Taints of nodes and tolerations of pods.

use std::sync::Arc;

use model::Moment;
use serde::Deserialize;

/// A node taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    /// Its key.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub key: Arc<str>,
    /// Its value, which may be empty.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub value: Arc<str>,
    /// Its effect: one of the constants below.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub effect: Arc<str>,
    /// When it was added, which is known of NoExecute taints only.
    #[serde(deserialize_with = "crate::read::moment")]
    pub time_added: Option<Moment>,
}

/// A pod toleration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    /// The taint's key; empty matches all.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub key: Arc<str>,
    /// `Equal` or `Exists`; empty means `Equal`.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub operator: Arc<str>,
    /// The taint's value, for `Equal`.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub value: Arc<str>,
    /// The taint's effect; empty matches all.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub effect: Arc<str>,
    /// How long a NoExecute taint is tolerated; `None` means forever.
    pub toleration_seconds: Option<i64>,
}

/// Pods that do not tolerate the taint are not scheduled.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Pods that do not tolerate the taint are not scheduled, and running ones are evicted.
pub const NO_EXECUTE: &str = "NoExecute";
/// The scheduler avoids the node if possible.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

impl Taint {
    /// Whether pods that do not tolerate it are not scheduled on the node.
    pub fn prevents_scheduling(&self) -> bool {
        matches!(&*self.effect, NO_SCHEDULE | NO_EXECUTE)
    }
}

impl Toleration {
    /// Whether it tolerates that taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let same = |tolerated: &str, found: &str| tolerated.is_empty() || tolerated == found;
        same(&self.effect, &taint.effect)
            && same(&self.key, &taint.key)
            && match &*self.operator {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

/// Whether one of the tolerations tolerates that taint.
pub fn is_tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}

/// The first taint that prevents scheduling of a pod with these tolerations.
pub fn first_untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    taints.iter().find(|taint| taint.prevents_scheduling() && !is_tolerated(tolerations, taint))
}
