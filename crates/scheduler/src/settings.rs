//! How a scheduler is set: what a `KubeSchedulerConfiguration` says once defaults are filled in and plugins are
//! listed by extension point.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use kubernetes::selector::{NodeSelector, NodeTerm};
use kubernetes::version;

use super::plugin::Plugin;

/// How a scheduler is set.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Whose rules are followed.
    pub version: Version,
    /// Each profile under its own name; there is at least one.
    pub profiles: Vec<Profile>,
    /// How many of the nodes are looked at until enough fit; zero lets the size of the cluster decide.
    pub percentage_of_nodes_to_score: i32,
    /// How long a pod waits after its first failure.
    pub initial_backoff_seconds: i64,
    /// How long a pod waits at most.
    pub most_backoff_seconds: i64,
    /// Where kube-scheduler throws dice.
    pub seed: u64,
    /// What the configuration asks for that is not simulated, in words for the user.
    pub left_out: Vec<String>,
}

/// Whose rules are followed. Only the newest is compared with the real scheduler's own decisions.
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

/// A text that names no version that is simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a version of Kubernetes that can be simulated: give one from 1.32 to 1.36")]
pub struct BadVersion {
    /// What was given.
    pub text: String,
}

/// How pods that name one scheduler are scheduled.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// What pods call it.
    pub scheduler_name: Arc<str>,
    /// Instead of that of the settings.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Who may keep a pod out of the queue.
    pub pre_enqueue: Vec<Plugin>,
    /// Who looks at the pod before any node, in order.
    pub pre_filter: Vec<Plugin>,
    /// Who may refuse a node, in order.
    pub filter: Vec<Plugin>,
    /// Who makes room when no node fits, in order.
    pub post_filter: Vec<Plugin>,
    /// Who prepares to score, in order.
    pub pre_score: Vec<Plugin>,
    /// Who scores, in order, and how much each counts.
    pub score: Vec<(Plugin, i64)>,
    /// Who reserves, in order.
    pub reserve: Vec<Plugin>,
    /// `NodeAffinityArgs`.
    pub added_affinity: AddedAffinity,
    /// `NodeResourcesFitArgs`.
    pub fit: FitArgs,
    /// `NodeResourcesBalancedAllocationArgs`: the resources to balance.
    pub balanced: Vec<Arc<str>>,
    /// `PodTopologySpreadArgs`.
    pub spread: SpreadDefaults,
    /// `InterPodAffinityArgs`.
    pub inter_pod_affinity: InterPodAffinityArgs,
    /// `DefaultPreemptionArgs`.
    pub preemption: PreemptionArgs,
}

/// Node affinity that every pod of a profile has besides its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AddedAffinity {
    /// What nodes must match.
    pub required: Option<NodeSelector>,
    /// What nodes had better match, by weight.
    pub preferred: Vec<(i64, NodeTerm)>,
}

/// How requests are compared with what a node has.
#[derive(Clone, Debug, PartialEq)]
pub struct FitArgs {
    /// Extended resources that do not count.
    pub ignored_resources: Vec<Arc<str>>,
    /// Extended resources whose part before the slash is one of these do not count.
    pub ignored_groups: Vec<Arc<str>>,
    /// How nodes are scored.
    pub strategy: Strategy,
    /// The resources scored, by weight, in order.
    pub resources: Vec<(Arc<str>, i64)>,
}

/// How what is used of a node becomes a score.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// The emptier the better.
    LeastAllocated,
    /// The fuller the better.
    MostAllocated,
    /// By a curve of points: utilization in percent, score from 0 to 10.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// The spread constraints of pods that have none.
#[derive(Clone, Debug, PartialEq)]
pub enum SpreadDefaults {
    /// By host and by zone, softly.
    System,
    /// These.
    List(Vec<DefaultConstraint>),
}

/// A spread constraint for pods that have none.
#[derive(Clone, Debug, PartialEq)]
pub struct DefaultConstraint {
    /// How far the fullest domain may be ahead of the emptiest.
    pub max_skew: i32,
    /// The label whose values are the domains.
    pub topology_key: Arc<str>,
    /// Whether it is refused (`DoNotSchedule`) or only disliked (`ScheduleAnyway`).
    pub hard: bool,
    /// Fewer domains than these count as if one were empty.
    pub min_domains: Option<i32>,
    /// Whether only nodes that the pod selects count; they do unless said otherwise.
    pub honor_affinity: bool,
    /// Whether only nodes whose taints the pod tolerates count; all count unless said otherwise.
    pub honor_taints: bool,
    /// Labels whose values the counted pods must share with the pod.
    pub match_label_keys: Vec<Arc<str>>,
}

/// How affinity between pods is weighed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterPodAffinityArgs {
    /// What the required affinity of a pod already placed is worth to one that it matches.
    pub hard_weight: i64,
    /// Preferences of pods already placed count only if the new one has some too.
    pub ignore_preferred_of_existing: bool,
}

/// How many nodes are tried when room must be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionArgs {
    /// In percent of the nodes.
    pub min_candidates_percentage: i64,
    /// At least.
    pub min_candidates_absolute: i64,
}

// === impl Version ===

impl Version {
    /// All, the oldest first.
    const ALL: [Version; 5] =
        [Version::V1_32, Version::V1_33, Version::V1_34, Version::V1_35, Version::V1_36];

    /// Reads `1.34`, or what a server calls itself: `v1.34.2`, `v1.34.1-gke.7`.
    pub fn parse(text: &str) -> Result<Version, BadVersion> {
        let found = Version::ALL.into_iter().find(|version| version::names(text, version.name()));
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
