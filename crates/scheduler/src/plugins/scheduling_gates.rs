//! Keeps pods back until their gates are gone.

use super::super::plugin::Plugin;
use super::super::pod::Pod;
use super::super::verdict::Refusal;

pub(crate) fn pre_enqueue(pod: &Pod) -> Result<(), Refusal> {
    if pod.gates.is_empty() {
        return Ok(());
    }
    let reason = format!("waiting for scheduling gates: [{}]", pod.gates.join(" "));
    Err(Refusal::unresolvable(Plugin::SchedulingGates, reason))
}
