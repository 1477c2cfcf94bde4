//! Execution of a scale-up: requests to the cloud provider, with registration of successes and failures.

use std::collections::BTreeSet;

use super::super::AutoscalingContext;
use super::super::cloud::GroupId;
use super::super::decision::{Event, InvolvedObject};
use super::balance::PlannedIncrease;

/// Failed increases.
#[derive(Debug)]
pub(super) struct ScaleUpFailure {
    pub error: String,
    pub groups: Vec<GroupId>,
}

/// Increases each group: until the first failure, or with `--parallel-scale-up` all of them.
pub(super) fn execute_scale_ups(
    context: &mut AutoscalingContext<'_>,
    planned_increases: &[PlannedIncrease],
) -> Result<(), ScaleUpFailure> {
    let mut failed: Vec<(GroupId, String)> = Vec::new();
    for planned_increase in planned_increases {
        if context.templates.get(planned_increase.group).is_none() {
            continue;
        }
        if let Err(error) = execute_scale_up(context, planned_increase) {
            failed.push((planned_increase.group, error));
            if !context.settings.parallel_scale_up {
                break;
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let groups = failed.iter().map(|(group, _)| *group).collect();
    Err(ScaleUpFailure {
        error: combine_errors(failed.into_iter().map(|(_, error)| error).collect()),
        groups,
    })
}

fn execute_scale_up(
    context: &mut AutoscalingContext<'_>,
    planned_increase: &PlannedIncrease,
) -> Result<(), String> {
    let PlannedIncrease { group, from, to, max } = *planned_increase;
    let node_group = &context.cloud.groups()[group.index()];
    let name = node_group.name.clone();
    let expected_within = context.settings.group_options(node_group.options.as_ref()).max_node_provision_time;
    let mut emit = |warning: bool, reason: &'static str, message: String| {
        context.events.push(Event {
            involved_object: InvolvedObject::StatusConfigMap,
            is_warning: warning,
            reason,
            message,
        });
    };
    let message = format!("Scale-up: setting group {name} size to {to} instead of {from} (max: {max})");
    emit(false, "ScaledUpGroup", message);
    context.clock.prevent_repeat();
    if let Err(error) = context.cloud.increase_size(context.clock.now(), group, to - from) {
        emit(true, "FailedToScaleUpGroup", format!("Scale-up failed for group {name}: {error}"));
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
    emit(false, "ScaledUpGroup", message);
    Ok(())
}

/// Combines several errors into one message.
fn combine_errors(mut errors: Vec<String>) -> String {
    errors.sort();
    let all_equal = errors.iter().all(|error| *error == errors[0]);
    let first = errors.remove(0);
    if all_equal {
        return first;
    }
    let others: Vec<String> = errors.iter().map(|error| format!("{error:?}")).collect();
    format!("{first} ...and other errors: [{}]", others.join(", "))
}

// === impl ScaleUpFailure ===

impl ScaleUpFailure {
    /// The groups that were not increased: without `--parallel-scale-up`, also those after the first failure.
    pub(super) fn groups_not_increased(
        &self,
        context: &AutoscalingContext<'_>,
        planned_increases: &[PlannedIncrease],
    ) -> BTreeSet<GroupId> {
        let mut not_increased: BTreeSet<GroupId> = self.groups.iter().copied().collect();
        if let (false, [failed]) = (context.settings.parallel_scale_up, &*self.groups) {
            let after = planned_increases
                .iter()
                .map(|planned_increase| planned_increase.group)
                .skip_while(|group| group != failed);
            not_increased.extend(after);
        }
        not_increased
    }
}
