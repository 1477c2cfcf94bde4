//! Sizes and options of the groups during one scale-down.

use super::super::cloud::{CloudProvider, GroupId};
use super::super::settings::NodeGroupAutoscalingOptions;
use super::super::snapshot::ClusterSnapshot;
use super::super::{AutoscalingContext, UPCOMING_NODE_ANNOTATION};
use super::utilization::IgnoredPods;

/// The groups as of the beginning of the scale-down.
#[derive(Debug)]
pub(super) struct ScaleDownGroups(Vec<ScaleDownGroup>);

/// A group.
#[derive(Debug)]
pub(super) struct ScaleDownGroup {
    pub min: i64,
    pub target: i64,
    /// Whether it is a zero-or-max group: all of its nodes are removed or none.
    pub atomic: bool,
    pub options: NodeGroupAutoscalingOptions,
    /// The pods that its nodes' utilization ignores.
    pub ignored_pods: IgnoredPods,
}

// === impl ScaleDownGroups ===

impl ScaleDownGroups {
    pub(super) fn of(context: &AutoscalingContext<'_>) -> ScaleDownGroups {
        let settings = context.settings;
        let group = |(index, group): (usize, &super::super::groups::NodeGroup)| {
            let options = settings.group_options(group.options.as_ref());
            ScaleDownGroup {
                min: group.min,
                target: context.cloud.target_size(GroupId(index as u32)),
                atomic: group.options.as_ref().is_some_and(|options| options.zero_or_max_node_scaling),
                ignored_pods: IgnoredPods {
                    daemon_set_pods: options.ignore_daemonsets_utilization,
                    mirror_pods: settings.ignore_mirror_pods_utilization,
                },
                options,
            }
        };
        ScaleDownGroups(context.cloud.groups().iter().enumerate().map(group).collect())
    }

    pub(super) fn get(&self, id: GroupId) -> &ScaleDownGroup {
        &self.0[id.index()]
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = GroupId> + use<> {
        (0..self.0.len() as u32).map(GroupId)
    }
}

/// The number of nodes in the snapshot that are instances of a group, without upcoming nodes.
pub(super) fn registered_count(
    snapshot: &ClusterSnapshot,
    cloud: &dyn CloudProvider,
    group: GroupId,
) -> usize {
    let mut instances: Vec<_> = cloud.instances(group).iter().map(|instance| instance.id.clone()).collect();
    instances.sort_unstable();
    let nodes = snapshot.order().iter().map(|id| snapshot.node(*id));
    let is_upcoming = |value: &str| matches!(value, "1" | "t" | "T" | "TRUE" | "true" | "True");
    let registered =
        nodes.filter(|node| !node.annotations.get(UPCOMING_NODE_ANNOTATION).is_some_and(is_upcoming));
    registered.filter(|node| instances.binary_search(&node.provider_id).is_ok()).count()
}
