//! Evaluation of the queueing hints of the plugins that rejected a pod.

use super::{QueueContext, QueueEntry};
use crate::events::{HintContext, ObservedEvent};
use crate::ids::PodId;
use crate::plugin::Plugin;

/// Whether the hint of any rejecting plugin says that the event may help.
pub(super) fn is_worth_requeueing(
    context: QueueContext<'_>,
    id: PodId,
    entry: &QueueEntry,
    event: &ObservedEvent<'_>,
) -> bool {
    let is_helped = |plugin: &Plugin| {
        plugin.is_registered_for(event.cluster_event) && evaluate_hint(*plugin, context, id, entry, event)
    };
    entry.unschedulable_plugins.iter().any(is_helped)
}

/// Evaluates a plugin's hint for an event that it is registered for.
pub(super) fn evaluate_hint(
    plugin: Plugin,
    context: QueueContext<'_>,
    id: PodId,
    entry: &QueueEntry,
    event: &ObservedEvent<'_>,
) -> bool {
    let (cache, pod) = (context.cache, context.cache.pod(id));
    let Some(framework) = context.framework(pod) else { return true };
    plugin.evaluate_hint(&HintContext {
        cache,
        profile: &framework.profile,
        pod,
        volumes: entry.hint_inputs.volumes.as_deref(),
        event,
    })
}
