//! Keeps pods back until their gates are gone.

use super::registration::Registration;
use crate::events::{Hint, Sort};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::Pod;
use crate::verdict::Refusal;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "SchedulingGates",
    points: |_| &[ExtensionPoint::PreEnqueue],
    events: &[Sort::PodGatesGone],
    queueing_hint,
    ..Registration::EMPTY
};

pub(crate) fn pre_enqueue(pod: &Pod) -> Result<(), Refusal> {
    if pod.gates.is_empty() {
        return Ok(());
    }
    let reason = format!("waiting for scheduling gates: [{}]", pod.gates.join(" "));
    Err(Refusal::unresolvable(Plugin::SchedulingGates, reason))
}

/// Once its gates are gone.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    hint.is_about_itself()
}
