//! The registration of a plugin: its name, extension points, events and queueing hint.

use crate::events::{ClusterEvent, HintContext};
use crate::plugin::ExtensionPoint;
use crate::settings::Version;

/// A plugin's registration.
#[derive(Debug)]
pub(crate) struct Registration {
    /// Its name in configurations and statuses.
    pub name: &'static str,
    /// Its extension points.
    pub extension_points: fn(Version) -> &'static [ExtensionPoint],
    /// The traits of its filter, if it has one.
    pub filter: Option<FilterTraits>,
    /// Its weight in the default profile; zero if it does not score there.
    pub weight: i32,
    /// The first version that has it.
    pub since: Version,
    /// The first version whose default profile has it.
    pub default_since: Version,
    /// The events that may help a pod that it rejected.
    pub events: &'static [ClusterEvent],
    /// Whether such an event may help. A plugin that is registered for `NodeAdd` but not for `UpdateNodeTaint` also
    /// receives taint updates, as in kube-scheduler, and they always requeue its pods.
    pub queueing_hint: fn(&HintContext<'_>) -> bool,
}

/// Properties of a filter that caching and preemption depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FilterTraits {
    /// Whether it depends only on the node, its pods, and the fields of the pod that
    /// [`SchedulingSpec::node_local`](crate::pod::SchedulingSpec::node_local) keeps: then its verdict is cached until the
    /// node or its pods change. A filter that reads anything else of the pod must not be node-local.
    pub is_node_local: bool,
    /// Whether its verdict depends on the pods of a node.
    pub depends_on_pods: bool,
    /// The error it returns in a profile without its PreFilter, if it needs that.
    pub missing_state_error: Option<&'static str>,
}

// === impl Registration ===

impl Registration {
    /// A plugin without a filter, score or events, in all versions.
    pub(crate) const fn new(
        name: &'static str,
        points: fn(Version) -> &'static [ExtensionPoint],
    ) -> Registration {
        Registration {
            name,
            extension_points: points,
            filter: None,
            weight: 0,
            since: Version::V1_32,
            default_since: Version::V1_32,
            events: &[],
            queueing_hint: |_| true,
        }
    }

    pub(crate) const fn filter(self, filter: FilterTraits) -> Registration {
        Registration { filter: Some(filter), ..self }
    }

    pub(crate) const fn weight(self, weight: i32) -> Registration {
        Registration { weight, ..self }
    }

    pub(crate) const fn since(self, since: Version) -> Registration {
        Registration { since, ..self }
    }

    pub(crate) const fn default_since(self, default_since: Version) -> Registration {
        Registration { default_since, ..self }
    }

    pub(crate) const fn events(self, events: &'static [ClusterEvent]) -> Registration {
        Registration { events, ..self }
    }

    pub(crate) const fn queueing_hint(self, queueing_hint: fn(&HintContext<'_>) -> bool) -> Registration {
        Registration { queueing_hint, ..self }
    }
}

// === impl FilterTraits ===

impl FilterTraits {
    /// Depends on the node and on the node-local part of the pod's spec.
    pub(crate) const NODE_ONLY: FilterTraits =
        FilterTraits { is_node_local: true, depends_on_pods: false, missing_state_error: None };
    /// The same, and on the pods of the node.
    pub(crate) const NODE_WITH_PODS: FilterTraits =
        FilterTraits { depends_on_pods: true, ..FilterTraits::NODE_ONLY };
    /// Depends on other parts of the pod or on other nodes, but not on other pods.
    pub(crate) const CLUSTER: FilterTraits =
        FilterTraits { is_node_local: false, depends_on_pods: false, missing_state_error: None };
    /// Depends on other parts of the pod or on other nodes, and on other pods.
    pub(crate) const CLUSTER_AND_PODS: FilterTraits =
        FilterTraits { depends_on_pods: true, ..FilterTraits::CLUSTER };

    /// The same, with an error for a missing PreFilter state.
    pub(crate) const fn with_missing_state_error(self, error: &'static str) -> FilterTraits {
        FilterTraits { missing_state_error: Some(error), ..self }
    }
}
