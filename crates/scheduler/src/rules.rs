//! A profile with everything looked up that does not change from pod to pod.

use kubernetes::amounts::ScalarNames;

use super::plugin::Plugin;
use super::plugins::node_resources_balanced_allocation::Balance;
use super::plugins::node_resources_fit::Fit;
use super::settings::{Profile, Settings, Version};

/// A profile, ready for use.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub profile: Profile,
    pub version: Version,
    /// How many of the nodes are looked at until enough fit; zero lets the size of the cluster decide.
    pub percentage: i32,
    pub fit: Fit,
    pub balance: Balance,
    /// Filters that ask only the node and what is on it, by their place in the profile's order.
    pub local: Vec<(u8, Plugin)>,
    /// Filters that ask more than that.
    pub beyond: Vec<(u8, Plugin)>,
    /// Filters that look at the pods of a node, in the profile's order.
    pub about_pods: Vec<Plugin>,
    /// Filters that may decide but not prepare: they fail, with these words.
    pub unprepared: Vec<(Plugin, String)>,
}

impl Rules {
    pub(super) fn new(settings: &Settings, profile: &Profile, scalars: &mut ScalarNames) -> Rules {
        let version = settings.version;
        let filter = |plugin: &Plugin| plugin.registration().filter;
        let places = (0..=u8::MAX).zip(profile.filter.iter().copied());
        let (local, beyond) =
            places.partition(|(_, plugin)| filter(plugin).is_some_and(|filter| filter.is_local));
        Rules {
            version,
            percentage: profile.percentage_of_nodes_to_score.unwrap_or(settings.percentage_of_nodes_to_score),
            fit: Fit::new(&profile.fit, version, scalars),
            balance: Balance::new(&profile.balanced, version, scalars),
            local,
            beyond,
            about_pods: profile
                .filter
                .iter()
                .copied()
                .filter(|plugin| filter(plugin).is_some_and(|filter| filter.is_about_pods))
                .collect(),
            unprepared: profile
                .filter
                .iter()
                .filter_map(|plugin| Some((*plugin, unprepared(profile, *plugin)?)))
                .collect(),
            profile: profile.clone(),
        }
    }
}

/// What a filter says that the profile lets decide, but not prepare.
fn unprepared(profile: &Profile, plugin: Plugin) -> Option<String> {
    if profile.pre_filter.contains(&plugin) {
        return None;
    }
    let error = plugin.registration().filter?.unprepared?;
    Some(format!("running {:?} filter plugin: {error}", plugin.name()))
}
