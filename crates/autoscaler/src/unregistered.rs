//! Removal of unregistered nodes and of instances with creation errors, and correction of group sizes.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::time::after;
use model::Moment;

use super::AutoscalingContext;
use super::cloud::GroupId;
use super::cluster_state::{group_ids, max_node_provision_time, warning_event};
use super::decision::{Event, InvolvedObject};

/// Deletes instances that have not registered within `max-node-provision-time`.
pub(crate) fn remove_old_unregistered_nodes(context: &mut AutoscalingContext<'_>) {
    for (group, mut instances) in long_unregistered_nodes(context) {
        let node_group = &context.cloud.groups()[group.index()];
        if !context.settings.force_delete_unregistered_nodes {
            let deletable = context.cloud.target_size(group) - node_group.min;
            if deletable <= 0 {
                continue;
            }
            instances.truncate(deletable as usize);
        }
        let instances = apply_zero_or_max(context, group, instances);
        if instances.is_empty() {
            continue;
        }
        context.clock.prevent_repeat();
        let deleted = context.cloud.delete_nodes(context.clock.now(), group, &instances);
        context.registry.invalidate_instances(group);
        for id in &instances {
            context.events.push(match &deleted {
                Ok(()) => normal_event("DeleteUnregistered", format!("Removed unregistered node {id}")),
                Err(error) => {
                    warning_event("DeleteUnregisteredFailed", format!("Failed to remove node {id}: {error}"))
                }
            });
        }
        if deleted.is_err() {
            return;
        }
    }
}

/// Deletes instances with creation errors.
pub(crate) fn delete_created_nodes_with_errors(context: &mut AutoscalingContext<'_>) {
    let mut any_deleted = false;
    for group in group_ids(context.cloud) {
        let failed = context.registry.instances_with_errors(group);
        if failed.is_empty() {
            continue;
        }
        let instances = apply_zero_or_max(context, group, failed);
        if !instances.is_empty() && context.cloud.delete_nodes(context.clock.now(), group, &instances).is_ok()
        {
            context.clock.prevent_repeat();
            any_deleted = true;
            context.registry.invalidate_instances(group);
        }
    }
    if any_deleted {
        context.registry.recalculate(context.cloud);
    }
}

/// Decreases the target size of groups that have lacked nodes for longer than `max-node-provision-time`. Returns
/// whether any was decreased.
pub(crate) fn fix_node_group_sizes(context: &mut AutoscalingContext<'_>) -> Result<bool, String> {
    let mut fixed = false;
    for group in group_ids(context.cloud) {
        let Some(incorrect_size) = context.registry.incorrect_size(group) else { continue };
        let missing = incorrect_size.expected - incorrect_size.current;
        let max_provision_time = max_node_provision_time(context.cloud, group, context.settings);
        if !context.clock.is_past(after(incorrect_size.since, max_provision_time)) || missing <= 0 {
            continue;
        }
        if let Err(error) = context.cloud.decrease_target_size(context.clock.now(), group, missing) {
            let name = &context.cloud.groups()[group.index()].name;
            return Err(format!("failed to decrease {name}: {error}"));
        }
        context.clock.prevent_repeat();
        fixed = true;
    }
    Ok(fixed)
}

fn long_unregistered_nodes(context: &AutoscalingContext<'_>) -> BTreeMap<GroupId, Vec<Arc<str>>> {
    let mut nodes_by_group: BTreeMap<GroupId, Vec<Arc<str>>> = BTreeMap::new();
    let is_late = |group: GroupId, since: Moment| {
        context.clock.is_past(after(since, max_node_provision_time(context.cloud, group, context.settings)))
    };
    for (id, unregistered_node) in context.registry.unregistered_nodes() {
        if is_late(unregistered_node.group, unregistered_node.since) {
            nodes_by_group.entry(unregistered_node.group).or_default().push(id.clone());
        }
    }
    nodes_by_group
}

/// The instances to delete: of zero-or-max groups all instances or none.
fn apply_zero_or_max(
    context: &AutoscalingContext<'_>,
    group: GroupId,
    instances: Vec<Arc<str>>,
) -> Vec<Arc<str>> {
    match &context.cloud.groups()[group.index()].options {
        Some(options) if options.zero_or_max_node_scaling => {
            let all = context.cloud.instances(group);
            if all.len() == instances.len() || !options.allow_non_atomic_scale_up_to_max {
                return all.iter().map(|instance| instance.id.clone()).collect();
            }
            Vec::new()
        }
        _ => instances,
    }
}

fn normal_event(reason: &'static str, message: String) -> Event {
    Event { involved_object: InvolvedObject::StatusConfigMap, is_warning: false, reason, message }
}
