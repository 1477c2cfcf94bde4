//! Whether an event may help a pod that was refused: the plugins that refused it are asked.

use super::{Entry, Known};
use crate::events::{Event, Hint};
use crate::ids::PodId;
use crate::plugin::Plugin;

/// Whether an event may help a pod against any of those that refused it.
pub(super) fn is_helped_at_all(known: Known<'_>, id: PodId, entry: &Entry, event: &Event<'_>) -> bool {
    let is_helped = |plugin: &Plugin| plugin.asks(event.sort) && is_helped(*plugin, known, id, entry, event);
    entry.rejectors.iter().any(is_helped)
}

/// Whether an event that a plugin asks for may help a pod that it refused.
pub(super) fn is_helped(
    plugin: Plugin,
    known: Known<'_>,
    id: PodId,
    entry: &Entry,
    event: &Event<'_>,
) -> bool {
    let (world, pod) = (known.world, known.world.pod(id));
    let Some(rules) = known.rules(pod) else { return true };
    plugin.is_helped(&Hint {
        world,
        profile: &rules.profile,
        pod,
        volumes: entry.extras.volumes.as_deref(),
        event,
    })
}
