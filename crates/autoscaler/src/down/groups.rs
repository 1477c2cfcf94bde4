//! What one loop needs to know of each group.

use super::super::cloud::{Cloud, GroupId};
use super::super::settings::GroupDefaults;
use super::super::snapshot::Snapshot;
use super::super::{AutoscalingContext, UPCOMING};
use super::utilization::Ignored;

/// The groups as they are at the beginning.
#[derive(Debug)]
pub(super) struct Groups(Vec<Group>);

/// A group.
#[derive(Debug)]
pub(super) struct Group {
    pub min: i64,
    pub target: i64,
    /// All of its nodes go, or none.
    pub atomic: bool,
    pub options: GroupDefaults,
    /// Which pods its nodes' utilisation leaves out.
    pub ignored: Ignored,
}

// === impl Groups ===

impl Groups {
    pub(super) fn of(context: &AutoscalingContext<'_>) -> Groups {
        let settings = context.settings;
        let group = |(place, group): (usize, &super::super::groups::NodeGroup)| {
            let options = settings.of_group(group.options.as_ref());
            Group {
                min: group.min,
                target: context.cloud.target(GroupId(place as u32)),
                atomic: group.options.as_ref().is_some_and(|options| options.zero_or_max_node_scaling),
                ignored: Ignored {
                    daemon_sets: options.ignore_daemonsets_utilization,
                    mirrors: settings.ignore_mirror_pods_utilization,
                },
                options,
            }
        };
        Groups(context.cloud.groups().iter().enumerate().map(group).collect())
    }

    pub(super) fn get(&self, id: GroupId) -> &Group {
        &self.0[id.index()]
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.0.len() as u32).map(GroupId)
    }
}

/// How many nodes of the snapshot are instances of a group, without those that are still to come.
pub(super) fn registered(snapshot: &Snapshot, cloud: &dyn Cloud, group: GroupId) -> usize {
    let mut instances: Vec<_> = cloud.instances(group).iter().map(|instance| instance.id.clone()).collect();
    instances.sort_unstable();
    let nodes = snapshot.order().iter().map(|id| snapshot.node(*id));
    let is_upcoming = |value: &str| matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True");
    let there = nodes.filter(|node| !node.annotations.get(UPCOMING).is_some_and(is_upcoming));
    there.filter(|node| instances.binary_search(&node.provider_id).is_ok()).count()
}
