//! What a plugin says of itself.

use crate::events::{Hint, Sort};
use crate::plugin::ExtensionPoint;
use crate::settings::Version;

/// What a plugin says of itself, each in its own file.
#[derive(Debug)]
pub(crate) struct Registration {
    /// Its name in configurations and verdicts.
    pub name: &'static str,
    /// Where it takes part.
    pub points: fn(Version) -> &'static [ExtensionPoint],
    /// Its filter, if it has one.
    pub filter: Option<Filter>,
    /// Its weight in the default profile; zero if it does not score there.
    pub weight: i32,
    /// The first version that has it.
    pub since: Version,
    /// The first version whose default profile has it.
    pub default_since: Version,
    /// The events that may help a pod that it refused.
    pub events: &'static [Sort],
    /// Whether one of these events does. Taints of nodes are told to whoever asks for new nodes, and help those who do
    /// not ask for them.
    pub queueing_hint: fn(&Hint<'_>) -> bool,
}

/// What is to be known of a filter besides its answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filter {
    /// Whether it asks only the node and what is on it: its answers for one shape of pods can be kept until either
    /// changes.
    pub is_local: bool,
    /// Whether its answer can change with the pods on a node.
    pub is_about_pods: bool,
    /// What it says where a profile lets it decide but not prepare, if it cannot do without.
    pub unprepared: Option<&'static str>,
}

// === impl Registration ===

impl Registration {
    /// What a plugin has that says nothing else of itself.
    pub(crate) const EMPTY: Registration = Registration {
        name: "",
        points: |_| &[],
        filter: None,
        weight: 0,
        since: Version::V1_32,
        default_since: Version::V1_32,
        events: &[],
        queueing_hint: |_| true,
    };
}

// === impl Filter ===

impl Filter {
    /// One that asks the node alone.
    pub(crate) const OF_NODE: Filter = Filter { is_local: true, is_about_pods: false, unprepared: None };
    /// One that asks the node and the pods on it.
    pub(crate) const OF_NODE_AND_PODS: Filter = Filter { is_about_pods: true, ..Filter::OF_NODE };
    /// One that asks more than the node, but no pods.
    pub(crate) const BEYOND: Filter = Filter { is_local: false, is_about_pods: false, unprepared: None };
    /// One that asks more than the node, pods among it.
    pub(crate) const BEYOND_AND_PODS: Filter = Filter { is_about_pods: true, ..Filter::BEYOND };

    /// The same, which says this where it could not prepare.
    pub(crate) const fn unprepared(self, error: &'static str) -> Filter {
        Filter { unprepared: Some(error), ..self }
    }
}
