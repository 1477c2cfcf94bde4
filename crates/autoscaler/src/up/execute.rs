//! Groups are told to grow.

use std::collections::BTreeSet;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::super::decision::{About, Event};
use super::balance::Growth;

/// Groups that could not grow.
#[derive(Debug)]
pub(super) struct Failure {
    pub error: String,
    pub groups: Vec<GroupId>,
}

/// Tells each group to grow: until one refuses, or with `--parallel-scale-up` all of them.
pub(super) fn execute(context: &mut AutoscalingContext<'_>, growths: &[Growth]) -> Result<(), Failure> {
    let mut refused: Vec<(GroupId, String)> = Vec::new();
    for growth in growths {
        if context.templates.get(growth.group).is_none() {
            continue;
        }
        if let Err(error) = grow(context, growth) {
            refused.push((growth.group, error));
            if !context.settings.parallel_scale_up {
                break;
            }
        }
    }
    if refused.is_empty() {
        return Ok(());
    }
    let groups = refused.iter().map(|(group, _)| *group).collect();
    Err(Failure { error: combined(refused.into_iter().map(|(_, error)| error).collect()), groups })
}

fn grow(context: &mut AutoscalingContext<'_>, growth: &Growth) -> Result<(), String> {
    let Growth { group, from, to, max } = *growth;
    let told = &context.cloud.groups()[group.index()];
    let name = told.name.clone();
    let expected_within = context.settings.of_group(told.options.as_ref()).max_node_provision_time;
    let mut say = |warning: bool, reason: &'static str, message: String| {
        context.events.push(Event { about: About::Status, warning, reason, message });
    };
    let message = format!("Scale-up: setting group {name} size to {to} instead of {from} (max: {max})");
    say(false, "ScaledUpGroup", message);
    context.clock.disturb();
    if let Err(error) = context.cloud.increase(context.clock.now(), group, to - from) {
        say(true, "FailedToScaleUpGroup", format!("Scale-up failed for group {name}: {error}"));
        let error = format!("failed to increase node group size: {error}");
        context.registry.register_failed_scale_up(
            group,
            "cloudProviderError",
            &error,
            context.clock.now(),
            context.settings,
        );
        return Err(error);
    }
    context.registry.register_scale_up(group, to - from, context.clock.now(), expected_within);
    let message = format!("Scale-up: group {name} size set to {to} instead of {from} (max: {max})");
    say(false, "ScaledUpGroup", message);
    Ok(())
}

/// Several errors in one.
fn combined(mut errors: Vec<String>) -> String {
    errors.sort();
    let are_one = errors.iter().all(|error| *error == errors[0]);
    let first = errors.remove(0);
    if are_one {
        return first;
    }
    let others: Vec<String> = errors.iter().map(|error| format!("{error:?}")).collect();
    format!("{first} ...and other errors: [{}]", others.join(", "))
}

// === impl Failure ===

impl Failure {
    /// The groups that did not grow: where one is told after the other, those after the first refusal too.
    pub(super) fn lost(&self, context: &AutoscalingContext<'_>, growths: &[Growth]) -> BTreeSet<GroupId> {
        let mut lost: BTreeSet<GroupId> = self.groups.iter().copied().collect();
        if let (false, [failed]) = (context.settings.parallel_scale_up, &*self.groups) {
            let after = growths.iter().map(|growth| growth.group).skip_while(|group| group != failed);
            lost.extend(after);
        }
        lost
    }
}
