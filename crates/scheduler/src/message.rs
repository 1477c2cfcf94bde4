//! The messages of kube-scheduler for unschedulable pods.

use std::collections::BTreeMap;

use super::status::Status;

/// The message for a cluster without nodes.
pub(super) const NO_NODES: &str = "no nodes available to schedule pods";

/// `0/5 nodes are available: 2 Insufficient cpu, 3 node(s) had untolerated taint(s).`, from statuses and their numbers
/// of nodes.
pub(super) fn fit_error<'a>(nodes: usize, statuses: impl IntoIterator<Item = (&'a Status, usize)>) -> String {
    let mut histogram: BTreeMap<&str, usize> = BTreeMap::new();
    for (status, count) in statuses {
        for reason in status.reasons.iter().filter(|_| count > 0) {
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

/// The same if PreFilter rejected the pod.
pub(super) fn pre_filter_error(nodes: usize, status: &Status) -> String {
    format!("0/{nodes} nodes are available: {}.", status.message())
}

#[cfg(test)]
mod tests {
    use super::super::plugin::Plugin;
    use super::*;

    #[test]
    fn reasons_are_counted_and_sorted_as_texts() {
        let few = Status::unschedulable(Plugin::NodeResourcesFit, "Insufficient cpu");
        let many = Status::unresolvable(Plugin::TaintToleration, "node(s) had untolerated taint(s)");
        assert_eq!(
            fit_error(13, [(&few, 2), (&many, 11)]),
            "0/13 nodes are available: 11 node(s) had untolerated taint(s), 2 Insufficient cpu."
        );
        assert_eq!(fit_error(0, []), "0/0 nodes are available:");
    }
}
