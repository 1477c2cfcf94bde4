//! A profile's framework: its plugins and their precomputed arguments, the same for every pod.

use kubernetes::amounts::ScalarResourceNames;

use super::plugin::Plugin;
use super::plugins::node_resources_balanced_allocation::BalancedAllocation;
use super::plugins::node_resources_fit::Fit;
use super::settings::{Profile, Settings, Version};

/// A profile with what is precomputed from it: plugin arguments, and filters by what they depend on. It runs no plugin:
/// [`CycleState`](super::cycle_state::CycleState) does.
#[derive(Clone, Debug)]
pub(super) struct Framework {
    pub profile: Profile,
    pub version: Version,
    /// Zero lets the size of the cluster decide.
    pub percentage_of_nodes_to_score: i32,
    pub fit: Fit,
    pub balanced_allocation: BalancedAllocation,
    /// Filters that depend only on the node and its pods, each with its index in the profile's order.
    pub node_local_filters: Vec<(u8, Plugin)>,
    /// Filters that depend on more than that.
    pub cluster_filters: Vec<(u8, Plugin)>,
    /// Filters that depend on the pods of a node, in the profile's order.
    pub pod_dependent_filters: Vec<Plugin>,
    /// Filters that are enabled without their PreFilter, with the error they return because their cycle state is
    /// missing.
    pub missing_state_errors: Vec<(Plugin, String)>,
}

impl Framework {
    pub(super) fn new(
        settings: &Settings,
        profile: &Profile,
        scalars: &mut ScalarResourceNames,
    ) -> Framework {
        let version = settings.version;
        let filter = |plugin: &Plugin| plugin.registration().filter;
        let positions = (0..=u8::MAX).zip(profile.filter.iter().copied());
        let (node_local_filters, cluster_filters) =
            positions.partition(|(_, plugin)| filter(plugin).is_some_and(|filter| filter.is_node_local));
        Framework {
            version,
            percentage_of_nodes_to_score: profile
                .percentage_of_nodes_to_score
                .unwrap_or(settings.percentage_of_nodes_to_score),
            fit: Fit::new(&profile.fit, version, scalars),
            balanced_allocation: BalancedAllocation::new(&profile.balanced_resources, version, scalars),
            node_local_filters,
            cluster_filters,
            pod_dependent_filters: profile
                .filter
                .iter()
                .copied()
                .filter(|plugin| filter(plugin).is_some_and(|filter| filter.depends_on_pods))
                .collect(),
            missing_state_errors: profile
                .filter
                .iter()
                .filter_map(|plugin| Some((*plugin, missing_state_error(profile, *plugin)?)))
                .collect(),
            profile: profile.clone(),
        }
    }
}

/// Returns the error of a filter that the profile enables without its PreFilter.
fn missing_state_error(profile: &Profile, plugin: Plugin) -> Option<String> {
    if profile.pre_filter.contains(&plugin) {
        return None;
    }
    let error = plugin.registration().filter?.missing_state_error?;
    Some(format!("running {:?} filter plugin: {error}", plugin.name()))
}
