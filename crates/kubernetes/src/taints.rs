//! Taints of nodes and tolerations of pods.

use std::sync::Arc;

use serde::Deserialize;

/// What keeps pods away from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Its key.
    pub key: Arc<str>,
    /// Its value, which may be empty.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub value: Arc<str>,
    /// What it does to pods: one of the words below.
    pub effect: Arc<str>,
}

/// What lets a pod ignore a taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// The taint's key; empty for all.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub key: Arc<str>,
    /// `Equal`, `Exists`, or nothing, which is `Equal`.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub operator: Arc<str>,
    /// The taint's value, for `Equal`.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub value: Arc<str>,
    /// The taint's effect; empty for all.
    #[serde(deserialize_with = "crate::read::nullable")]
    pub effect: Arc<str>,
}

/// Pods that do not tolerate it are not placed.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Nor may they stay.
pub const NO_EXECUTE: &str = "NoExecute";
/// They are placed elsewhere if that can be.
pub const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

impl Taint {
    /// Whether pods that do not tolerate it are not placed there.
    pub fn refuses(&self) -> bool {
        matches!(&*self.effect, NO_SCHEDULE | NO_EXECUTE)
    }
}

impl Toleration {
    /// Whether it is for that taint.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let same = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        same(&self.effect, &taint.effect)
            && same(&self.key, &taint.key)
            && match &*self.operator {
                "" | "Equal" => self.value == taint.value,
                "Exists" => true,
                _ => false,
            }
    }
}

/// Whether one of the tolerations is for that taint.
pub fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}

/// The first taint that keeps a pod with these tolerations away.
pub fn first_untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    taints.iter().find(|taint| taint.refuses() && !tolerated(tolerations, taint))
}
