//! Snapshots of a cluster at one moment, in Gardener's types whatever the cluster runs on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use autoscaler::{Membership, NodeGroup, Settings};
use kubernetes::objects::NodeView;
use model::{Moment, Object};

pub use formats::scaling_history::{
    MachineDeploymentInfo, NodeInfo, PodInfo, PriorityClassInfo, ScheduleStatus, SettingsInfo, WorkerPoolInfo,
};
pub use formats::scaling_scenario::{ClusterSnapshot, NodeGroupInfo, NodeTemplate};

/// Node groups and their autoscaler, in addition to the objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScalingContext<'a> {
    pub(crate) groups: &'a [NodeGroup],
    /// Target sizes of groups, where they are known better than from the existing nodes.
    pub(crate) targets: &'a BTreeMap<Arc<str>, i64>,
    /// The autoscaler at work, whether or not an object describes it.
    pub(crate) autoscaler: Option<&'a Settings>,
}

/// Returns the snapshot of a cluster with these objects.
pub(crate) fn snapshot<'a>(
    at: Moment,
    objects: impl Iterator<Item = &'a Object> + Clone,
    scaling: ScalingContext<'_>,
) -> ClusterSnapshot {
    let mut cluster = ClusterSnapshot::of(at, objects.clone());
    let mut node_counts: BTreeMap<Arc<str>, i64> = BTreeMap::new();
    for node in objects.filter_map(NodeView::of) {
        if let Some(group) = group_of(scaling.groups, &node) {
            *node_counts.entry(group).or_default() += 1;
        }
    }
    for group in scaling.groups {
        let target = scaling.targets.get(&group.name).or(node_counts.get(&group.name)).copied().unwrap_or(0);
        let machine_deployment = cluster.machine_deployments.iter_mut().find(|deployment| {
            format!("{}.{}", deployment.meta.namespace, deployment.meta.name) == *group.name
        });
        let template = NodeTemplate::of(&group.name, &group.template).unwrap_or_default();
        let (pool, zone) = match machine_deployment {
            Some(machine_deployment) => {
                // In Gardener the autoscaler scales a group by setting the replicas.
                machine_deployment.replicas =
                    scaling.targets.get(&group.name).copied().unwrap_or(machine_deployment.replicas);
                (machine_deployment.pool.clone(), machine_deployment.zone.clone())
            }
            None => (pool_of(&group.members), template.zone.clone()),
        };
        cluster.node_groups.push(NodeGroupInfo {
            name: group.name.to_string(),
            pool,
            zone,
            target,
            min: group.min,
            max: group.max,
        });
        cluster.node_templates.push(NodeTemplate { name: group.name.to_string(), ..template });
    }
    cluster.node_groups.sort_by(|a, b| a.name.cmp(&b.name));
    cluster.node_templates.sort_by(|a, b| a.name.cmp(&b.name));
    let priorities = cluster.autoscaler.take().unwrap_or_default().priorities;
    cluster.autoscaler = scaling
        .autoscaler
        .map(|settings| SettingsInfo { priorities, ..settings_info(settings, scaling.groups) });
    cluster
}

/// The group a node belongs to.
pub(crate) fn group_of(groups: &[NodeGroup], node: &NodeView) -> Option<Arc<str>> {
    groups.iter().find(|group| group.members.matches(node)).map(|group| group.name.clone())
}

/// The value that the nodes of a group share as a label or annotation, if there is one.
fn pool_of(members: &Membership) -> String {
    match members {
        Membership::Label { value, .. } | Membership::Annotation { value, .. } => value.to_string(),
        Membership::ProviderIdPrefix(_) | Membership::Named(_) => String::new(),
    }
}

/// Settings in the types of Gardener's recorder.
fn settings_info(settings: &Settings, groups: &[NodeGroup]) -> SettingsInfo {
    let millis = |span: Duration| i64::try_from(span.as_millis()).unwrap_or(i64::MAX);
    let expander: Vec<String> = settings.expander.iter().map(ToString::to_string).collect();
    SettingsInfo {
        expander: expander.join(","),
        groups: groups.iter().map(|group| (group.name.to_string(), (group.min, group.max))).collect(),
        max_node_provision_millis: millis(settings.group_defaults.max_node_provision_time),
        scan_interval_millis: millis(settings.scan_interval),
        max_graceful_termination_seconds: settings.max_graceful_termination_sec,
        new_pod_scale_up_delay_millis: millis(settings.new_pod_scale_up_delay),
        max_empty_bulk_delete: settings.max_empty_bulk_delete,
        ignore_daemon_sets: settings.group_defaults.ignore_daemonsets_utilization,
        max_nodes_total: settings.max_nodes_total,
        priorities: String::new(),
    }
}
