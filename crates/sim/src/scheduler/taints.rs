//! Taints of nodes and tolerations of pods.

use std::sync::Arc;

use serde::Deserialize;

/// What keeps pods away from a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub(crate) struct Taint {
    pub key: Arc<str>,
    #[serde(deserialize_with = "super::read::nullable")]
    pub value: Arc<str>,
    pub effect: Arc<str>,
}

/// What lets a pod ignore a taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub(crate) struct Toleration {
    #[serde(deserialize_with = "super::read::nullable")]
    pub key: Arc<str>,
    #[serde(deserialize_with = "super::read::nullable")]
    pub operator: Arc<str>,
    #[serde(deserialize_with = "super::read::nullable")]
    pub value: Arc<str>,
    #[serde(deserialize_with = "super::read::nullable")]
    pub effect: Arc<str>,
}

pub(crate) const NO_SCHEDULE: &str = "NoSchedule";
pub(crate) const NO_EXECUTE: &str = "NoExecute";
pub(crate) const PREFER_NO_SCHEDULE: &str = "PreferNoSchedule";

impl Taint {
    /// Whether pods that do not tolerate it are not placed there.
    pub(crate) fn refuses(&self) -> bool {
        matches!(&*self.effect, NO_SCHEDULE | NO_EXECUTE)
    }
}

impl Toleration {
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
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
pub(crate) fn tolerated(tolerations: &[Toleration], taint: &Taint) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}

/// The first taint that keeps a pod with these tolerations away.
pub(crate) fn first_untolerated<'t>(taints: &'t [Taint], tolerations: &[Toleration]) -> Option<&'t Taint> {
    taints.iter().find(|taint| taint.refuses() && !tolerated(tolerations, taint))
}
