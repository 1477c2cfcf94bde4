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
        let places = (0..=u8::MAX).zip(profile.filter.iter().copied());
        let (local, beyond) = places.partition(|(_, plugin)| is_local(*plugin));
        Rules {
            version,
            percentage: profile.percentage_of_nodes_to_score.unwrap_or(settings.percentage_of_nodes_to_score),
            fit: Fit::new(&profile.fit, version, scalars),
            balance: Balance::new(&profile.balanced, version, scalars),
            local,
            beyond,
            about_pods: profile.filter.iter().copied().filter(|plugin| is_about_pods(*plugin)).collect(),
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
    let key = format!("PreFilter{plugin}");
    let error = match plugin {
        Plugin::NodePorts | Plugin::PodTopologySpread => {
            format!("reading {key:?} from cycleState: not found")
        }
        Plugin::NodeResourcesFit | Plugin::InterPodAffinity => {
            format!("error reading {key:?} from cycleState: not found")
        }
        Plugin::NodeDeclaredFeatures => format!("error reading {key:?} from cycle-state: not found"),
        Plugin::VolumeRestrictions => format!("cannot read {key:?} from cycleState"),
        Plugin::VolumeBinding | Plugin::DynamicResources => "not found".to_owned(),
        _ => return None,
    };
    Some(format!("running {:?} filter plugin: {error}", plugin.name()))
}

/// Whether a filter's answer can change with the pods on a node.
fn is_about_pods(plugin: Plugin) -> bool {
    matches!(
        plugin,
        Plugin::NodePorts
            | Plugin::NodeResourcesFit
            | Plugin::VolumeRestrictions
            | Plugin::NodeVolumeLimits
            | Plugin::PodTopologySpread
            | Plugin::InterPodAffinity
    )
}

/// Whether a filter asks only the node and what is on it: its answers for one shape of pods can be kept until either
/// changes.
fn is_local(plugin: Plugin) -> bool {
    matches!(
        plugin,
        Plugin::NodeUnschedulable
            | Plugin::NodeName
            | Plugin::TaintToleration
            | Plugin::NodeAffinity
            | Plugin::NodePorts
            | Plugin::NodeResourcesFit
            | Plugin::NodeDeclaredFeatures
    )
}
