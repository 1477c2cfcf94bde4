//! Instances that do not become nodes, and groups whose size is wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::time::after;
use model::Moment;

use super::AutoscalingContext;
use super::cloud::GroupId;
use super::decision::{About, Event};
use super::registry::{ids, provision_time, warning};

/// Deletes instances that have not become nodes in time.
pub(crate) fn remove_unregistered(context: &mut AutoscalingContext<'_>) {
    for (group, mut instances) in long_unregistered(context) {
        let of = &context.cloud.groups()[group.index()];
        if !context.settings.force_delete_unregistered_nodes {
            let possible = context.cloud.target(group) - of.min;
            if possible <= 0 {
                continue;
            }
            instances.truncate(possible as usize);
        }
        let instances = all_or_none(context, group, instances);
        if instances.is_empty() {
            continue;
        }
        context.clock.disturb();
        let deleted = context.cloud.delete(context.clock.now(), group, &instances);
        context.registry.forget_instances(group);
        for id in &instances {
            context.events.push(match &deleted {
                Ok(()) => told("DeleteUnregistered", format!("Removed unregistered node {id}")),
                Err(error) => {
                    warning("DeleteUnregisteredFailed", format!("Failed to remove node {id}: {error}"))
                }
            });
        }
        if deleted.is_err() {
            return;
        }
    }
}

/// Deletes instances that could not be made.
pub(crate) fn remove_failed(context: &mut AutoscalingContext<'_>) {
    let mut any = false;
    for group in ids(context.cloud) {
        let failed = context.registry.failed_instances(group);
        if failed.is_empty() {
            continue;
        }
        let instances = all_or_none(context, group, failed);
        if !instances.is_empty() && context.cloud.delete(context.clock.now(), group, &instances).is_ok() {
            context.clock.disturb();
            any = true;
            context.registry.forget_instances(group);
        }
    }
    if any {
        context.registry.recalculate(context.cloud);
    }
}

/// Makes groups smaller that have waited too long for nodes that do not come. Says whether any was.
pub(crate) fn fix_sizes(context: &mut AutoscalingContext<'_>) -> Result<bool, String> {
    let mut fixed = false;
    for group in ids(context.cloud) {
        let Some(wrong) = context.registry.wrong_size(group) else { continue };
        let missing = wrong.expected - wrong.current;
        let patience = provision_time(context.cloud, group, context.settings);
        if !context.clock.is_past(after(wrong.since, patience)) || missing <= 0 {
            continue;
        }
        if let Err(error) = context.cloud.decrease(context.clock.now(), group, missing) {
            let name = &context.cloud.groups()[group.index()].name;
            return Err(format!("failed to decrease {name}: {error}"));
        }
        context.clock.disturb();
        fixed = true;
    }
    Ok(fixed)
}

fn long_unregistered(context: &AutoscalingContext<'_>) -> BTreeMap<GroupId, Vec<Arc<str>>> {
    let mut found: BTreeMap<GroupId, Vec<Arc<str>>> = BTreeMap::new();
    let is_late = |group: GroupId, since: Moment| {
        context.clock.is_past(after(since, provision_time(context.cloud, group, context.settings)))
    };
    for (id, one) in context.registry.unregistered() {
        if is_late(one.group, one.since) {
            found.entry(one.group).or_default().push(id.clone());
        }
    }
    found
}

/// Of a group that has all of its nodes or none, all instances go, or none.
fn all_or_none(context: &AutoscalingContext<'_>, group: GroupId, instances: Vec<Arc<str>>) -> Vec<Arc<str>> {
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

fn told(reason: &'static str, message: String) -> Event {
    Event { about: About::Status, warning: false, reason, message }
}
