//! The settings of a scheduler: a `KubeSchedulerConfiguration` with defaults filled in and plugins listed by extension
//! point.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kubernetes::selector::{NodeSelector, NodeSelectorTerm};
use kubernetes::version;

use super::plugin::Plugin;

/// The settings of a scheduler.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// The version of kube-scheduler that is simulated.
    pub version: Version,
    /// The profiles, with distinct names; at least one.
    pub profiles: Vec<Profile>,
    /// The percentage of nodes to find feasible before the search ends; zero lets the size of the cluster decide.
    pub percentage_of_nodes_to_score: i32,
    /// The backoff after the first failure.
    pub initial_backoff_seconds: i64,
    /// The maximum backoff.
    pub max_backoff_seconds: i64,
    /// The seed for kube-scheduler's random choices.
    pub seed: u64,
    /// Configured features that are not simulated, as messages for the user.
    pub unsupported_features: Vec<String>,
}

/// A version of kube-scheduler. Only the newest is compared with the real scheduler's decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Kubernetes 1.32.
    V1_32,
    /// Kubernetes 1.33.
    V1_33,
    /// Kubernetes 1.34.
    V1_34,
    /// Kubernetes 1.35.
    V1_35,
    /// Kubernetes 1.36.
    V1_36,
}

/// A version that cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported Kubernetes version {text:?}: expected 1.32 to 1.36")]
pub struct BadVersion {
    /// The text that was given.
    pub text: String,
}

/// A scheduling profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The `schedulerName` of its pods.
    pub scheduler_name: Arc<str>,
    /// Overrides the value of the settings.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// PreEnqueue plugins.
    pub pre_enqueue: Vec<Plugin>,
    /// PreFilter plugins, in order.
    pub pre_filter: Vec<Plugin>,
    /// Filter plugins, in order.
    pub filter: Vec<Plugin>,
    /// PostFilter plugins, in order.
    pub post_filter: Vec<Plugin>,
    /// PreScore plugins, in order.
    pub pre_score: Vec<Plugin>,
    /// Score plugins, in order, with their weights.
    pub score: Vec<(Plugin, i64)>,
    /// Reserve plugins, in order.
    pub reserve: Vec<Plugin>,
    /// `NodeAffinityArgs`.
    pub added_affinity: AddedAffinity,
    /// `NodeResourcesFitArgs`.
    pub fit: NodeResourcesFitArgs,
    /// `NodeResourcesBalancedAllocationArgs`: the resources to balance.
    pub balanced_resources: Vec<Arc<str>>,
    /// `PodTopologySpreadArgs`.
    pub spread: SpreadDefaults,
    /// `InterPodAffinityArgs`.
    pub inter_pod_affinity: InterPodAffinityArgs,
    /// `DefaultPreemptionArgs`.
    pub preemption: DefaultPreemptionArgs,
}

/// `addedAffinity`: node affinity that applies to every pod of a profile besides its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddedAffinity {
    /// Required terms.
    pub required: Option<NodeSelector>,
    /// Preferred terms with their weights.
    pub preferred: Vec<(i64, NodeSelectorTerm)>,
}

/// The arguments of NodeResourcesFit.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeResourcesFitArgs {
    /// Extended resources that are ignored.
    pub ignored_resources: Vec<Arc<str>>,
    /// Extended resources are ignored if the part before the slash is one of these.
    pub ignored_groups: Vec<Arc<str>>,
    /// The scoring strategy.
    pub strategy: ScoringStrategy,
    /// The resources scored and their weights, in order.
    pub resources: Vec<(Arc<str>, i64)>,
}

/// A scoring strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScoringStrategy {
    /// Prefers nodes with low utilization.
    LeastAllocated,
    /// Prefers nodes with high utilization.
    MostAllocated,
    /// By a shape of points: utilization in percent, score from 0 to 10.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// The spread constraints of pods that have none.
#[derive(Clone, Debug, PartialEq)]
pub enum SpreadDefaults {
    /// kube-scheduler's own: soft constraints by host and by zone.
    System,
    /// These.
    List(Vec<DefaultSpreadConstraint>),
}

/// A spread constraint for pods that have none.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultSpreadConstraint {
    /// `maxSkew`.
    pub max_skew: i32,
    /// The topology key.
    pub topology_key: Arc<str>,
    /// Whether it is `DoNotSchedule` rather than `ScheduleAnyway`.
    pub hard: bool,
    /// With fewer domains than this the global minimum is taken as zero.
    pub min_domains: Option<i32>,
    /// `nodeAffinityPolicy`; `Honor` by default.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy`; `Ignore` by default.
    pub honor_taints: bool,
    /// `matchLabelKeys`.
    pub match_label_keys: Vec<Arc<str>>,
}

/// The arguments of InterPodAffinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterPodAffinityArgs {
    /// The score weight of an existing pod's required affinity that matches the incoming pod.
    pub hard_pod_affinity_weight: i64,
    /// Preferred terms of existing pods count only if the incoming pod has preferred terms too.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

/// The arguments of DefaultPreemption: the number of candidate nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultPreemptionArgs {
    /// In percent of the nodes.
    pub min_candidate_nodes_percentage: i64,
    /// The absolute minimum.
    pub min_candidate_nodes_absolute: i64,
}

// === impl Version ===

impl Version {
    /// All, the oldest first.
    const ALL: [Version; 5] =
        [Version::V1_32, Version::V1_33, Version::V1_34, Version::V1_35, Version::V1_36];

    /// Parses `1.34`, or the version that a server reports: `v1.34.2`, `v1.34.1-gke.7`.
    pub fn parse(text: &str) -> Result<Version, BadVersion> {
        let found = Version::ALL.into_iter().find(|version| version::is_of_release(text, version.name()));
        found.ok_or_else(|| BadVersion { text: text.to_owned() })
    }

    const fn name(self) -> &'static str {
        match self {
            Version::V1_32 => "1.32",
            Version::V1_33 => "1.33",
            Version::V1_34 => "1.34",
            Version::V1_35 => "1.35",
            Version::V1_36 => "1.36",
        }
    }
}

impl FromStr for Version {
    type Err = BadVersion;

    fn from_str(text: &str) -> Result<Version, BadVersion> {
        Version::parse(text)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_written_as_it_is_read() {
        for version in Version::ALL {
            assert_eq!(version.to_string().parse(), Ok(version));
        }
    }

    #[test]
    fn a_server_may_call_itself_by_more_than_the_version() {
        assert_eq!(Version::parse("v1.34.2"), Ok(Version::V1_34));
        assert_eq!(Version::parse("v1.33+"), Ok(Version::V1_33));
        assert_eq!(Version::parse("1.36.0-rc.1"), Ok(Version::V1_36));
    }

    #[test]
    fn versions_that_are_not_simulated_are_refused() {
        for text in ["", "1", "1.3", "1.31", "1.37", "1.360", "2.36", "vv1.36", "V1.36", "latest"] {
            let error = Version::parse(text).unwrap_err();
            assert_eq!(error.text, text);
            assert!(error.to_string().contains("1.32 to 1.36"), "{error}");
        }
    }
}
