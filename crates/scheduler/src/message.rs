//! The sentences kube-scheduler writes.

use std::collections::BTreeMap;

use super::verdict::Refusal;

/// What is written if there is no node at all.
pub(super) const NO_NODES: &str = "no nodes available to schedule pods";

/// `0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).`, from how many nodes each
/// refusal is for.
pub(super) fn unavailable<'a>(
    nodes: usize,
    refusals: impl IntoIterator<Item = (&'a Refusal, usize)>,
) -> String {
    let mut histogram: BTreeMap<&str, usize> = BTreeMap::new();
    for (refusal, count) in refusals {
        for reason in refusal.reasons.iter().filter(|_| count > 0) {
            *histogram.entry(reason).or_default() += count;
        }
    }
    let mut reasons: Vec<String> =
        histogram.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    reasons.sort_unstable();
    let mut message = format!("0/{nodes} nodes are available:");
    if !reasons.is_empty() {
        message.push(' ');
        message.push_str(&reasons.join(", "));
        message.push('.');
    }
    message
}

/// The same if the pod was refused before any node was looked at.
pub(super) fn refused_at_once(nodes: usize, refusal: &Refusal) -> String {
    format!("0/{nodes} nodes are available: {}.", refusal.message())
}

#[cfg(test)]
mod tests {
    use super::super::plugin::Plugin;
    use super::*;

    #[test]
    fn reasons_are_counted_and_sorted_as_texts() {
        let few = Refusal::unschedulable(Plugin::NodeResourcesFit, "Insufficient cpu");
        let many = Refusal::unresolvable(Plugin::TaintToleration, "node(s) had untolerated taint(s)");
        assert_eq!(
            unavailable(13, [(&few, 2), (&many, 11)]),
            "0/13 nodes are available: 11 node(s) had untolerated taint(s), 2 Insufficient cpu."
        );
        assert_eq!(unavailable(0, []), "0/0 nodes are available:");
    }
}
