//! Provisioning times of nodes, measured from a history.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::{Delay, NodeGroup, Provisioning, loop_start_from_config_map};
use kubernetes::objects::{EventView, NodeView};
use model::{Moment, Object, What};

use crate::observed::ObservedChange;

/// Measures provisioning times, change by change.
///
/// A request begins with the autoscaler's first `TriggeredScaleUp` Event; the nodes that the group then gets, or got
/// shortly before, are taken for the requested ones, in order. A node that was added during a loop, according to the
/// autoscaler's status, was requested when that loop began.
#[derive(Debug)]
pub struct ProvisioningMeter<'a> {
    groups: &'a [NodeGroup],
    /// By group: when each node that has not registered yet was requested.
    requested: Vec<VecDeque<Moment>>,
    /// By group: when nodes registered before their request was observed.
    unrequested: Vec<VecDeque<Moment>>,
    /// When the last loops began, and when they wrote their status.
    loops: VecDeque<(Moment, Moment)>,
    /// By group: the sizes of its last request, and when it was observed.
    last_request: Vec<Option<(i64, i64, Moment)>>,
    /// Nodes by name: their group and registration time, if they are new and not ready yet.
    nodes: BTreeMap<Arc<str>, Option<(usize, Moment)>>,
    registered: Vec<Vec<Duration>>,
    ready: Vec<Vec<Duration>>,
}

/// Fast clouds register nodes before the Event is observed, at most this long. Nodes and Events that are
/// older when they are first observed do not count as new, older loops are forgotten, and an equal Event
/// after this time is another request.
const MAX_REGISTRATION_LEAD: Duration = Duration::from_secs(10);

/// The maximum number of requested nodes per group.
const MAX_REQUESTED: i64 = 10_000;

// === impl ProvisioningMeter ===

impl<'a> ProvisioningMeter<'a> {
    /// Creates a meter for these groups.
    pub fn new(groups: &'a [NodeGroup]) -> ProvisioningMeter<'a> {
        let count = groups.len();
        ProvisioningMeter {
            groups,
            requested: vec![VecDeque::new(); count],
            unrequested: vec![VecDeque::new(); count],
            loops: VecDeque::new(),
            last_request: vec![None; count],
            nodes: BTreeMap::new(),
            registered: vec![Vec::new(); count],
            ready: vec![Vec::new(); count],
        }
    }

    /// Takes a change; those of Nodes, Events and the autoscaler's ConfigMap matter. Changes must come in order.
    pub fn observe(&mut self, at: Moment, change: &ObservedChange) {
        let ObservedChange { key, what, node, event, .. } = change;
        match (&*key.kind.kind, what) {
            ("Event", What::Added(_)) => event.iter().for_each(|event| self.observe_event(at, event)),
            ("ConfigMap", _) => self.loop_ended(at, what.object()),
            ("Node", What::Deleted(_)) => drop(self.nodes.remove(&key.name)),
            ("Node", _) => node.iter().for_each(|node| self.observe_node(at, node)),
            _ => {}
        }
    }

    /// Returns the provisioning times of each group; `None` for a group without new nodes.
    pub fn finish(self) -> Vec<Option<Provisioning>> {
        let of_group = |(registered, ready): (Vec<Duration>, Vec<Duration>)| {
            let default_provisioning = Provisioning::default();
            if registered.is_empty() && ready.is_empty() {
                return None;
            }
            Some(Provisioning {
                registers_after: sorted_delay(registered, default_provisioning.registers_after),
                ready_after: sorted_delay(ready, default_provisioning.ready_after),
            })
        };
        self.registered.into_iter().zip(self.ready).map(of_group).collect()
    }

    fn observe_event(&mut self, at: Moment, event: &EventView) {
        // An initial list holds the Events of an hour, whose nodes have registered.
        let is_old = event
            .metadata
            .creation_timestamp
            .is_some_and(|created| between(created, at) > MAX_REGISTRATION_LEAD);
        if *event.reason != *"TriggeredScaleUp" || is_old {
            return;
        }
        for (name, from, to) in increases(&event.message) {
            let Some(index) = self.groups.iter().position(|group| &*group.name == name) else { continue };
            // Every triggering pod gets an equal Event, and so does a later request if a node was removed meanwhile.
            let last = self.last_request[index].replace((from, to, at));
            let is_same = |last: (i64, i64, Moment)| {
                (last.0, last.1) == (from, to) && between(last.2, at) <= MAX_REGISTRATION_LEAD
            };
            if !last.is_some_and(is_same) {
                self.unrequested[index]
                    .retain(|registered_at| between(*registered_at, at) <= MAX_REGISTRATION_LEAD);
                for _ in 0..to.saturating_sub(from).clamp(0, MAX_REQUESTED) {
                    match self.unrequested[index].pop_front() {
                        Some(registered_at) => {
                            let requested_at = self.loop_at(registered_at).unwrap_or(registered_at);
                            self.registered[index].push(between(requested_at, registered_at));
                        }
                        None => self.requested[index].push_back(at),
                    }
                }
                self.requested[index].truncate(MAX_REQUESTED as usize);
            }
        }
    }

    fn loop_ended(&mut self, at: Moment, map: &Object) {
        if let Some(began) = loop_start_from_config_map(map) {
            self.loops.retain(|(_, written_at)| between(*written_at, at) <= MAX_REGISTRATION_LEAD);
            self.loops.push_back((began, at));
        }
    }

    /// Returns the start of the loop that ran at a moment.
    fn loop_at(&self, moment: Moment) -> Option<Moment> {
        let matching_loop =
            self.loops.iter().find(|(began, written_at)| *began <= moment && moment <= *written_at);
        matching_loop.map(|(began, _)| *began)
    }

    fn observe_node(&mut self, at: Moment, node: &NodeView) {
        let is_ready = node
            .conditions
            .iter()
            .any(|condition| (&*condition.kind, &*condition.status) == ("Ready", "True"));
        if !self.nodes.contains_key(&node.name) {
            let is_new =
                node.creation_timestamp.is_some_and(|created| between(created, at) <= MAX_REGISTRATION_LEAD);
            let group = self.groups.iter().position(|group| group.members.matches(node)).filter(|_| is_new);
            if let Some(group) = group {
                match self.requested[group].pop_front() {
                    Some(requested_at) => self.registered[group].push(between(requested_at, at)),
                    None => {
                        self.unrequested[group]
                            .retain(|registered_at| between(*registered_at, at) <= MAX_REGISTRATION_LEAD);
                        self.unrequested[group].push_back(at);
                    }
                }
            }
            self.nodes.insert(node.name.clone(), group.map(|group| (group, at)));
        }
        let provisioning_node = self.nodes.get_mut(&node.name);
        if is_ready && let Some((group, since)) = provisioning_node.and_then(Option::take) {
            self.ready[group].push(between(since, at));
        }
    }
}

/// Parses a message `pod triggered scale-up: [{workers 1->3 (max: 8)}]` into groups, and their sizes before and after.
fn increases(message: &str) -> impl Iterator<Item = (&str, i64, i64)> {
    message.split('{').skip(1).filter_map(|part| {
        let (part, _) = part.split_once(" (max: ")?;
        let (name, sizes) = part.rsplit_once(' ')?;
        let (from, to) = sizes.split_once("->")?;
        Some((name, from.parse().ok()?, to.parse().ok()?))
    })
}

fn between(from: Moment, to: Moment) -> Duration {
    Duration::from_nanos(u64::try_from(to.nanos_since(from)).unwrap_or(0))
}

/// Sorted, so that the result is deterministic.
fn sorted_delay(mut spans: Vec<Duration>, default_delay: Delay) -> Delay {
    spans.sort();
    if spans.is_empty() { default_delay } else { Delay::Samples(spans) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use autoscaler::Membership;
    use serde_json::json;
    use testobjects::{ObjectBuilder, resource};

    use super::*;

    fn group(name: &str) -> NodeGroup {
        NodeGroup {
            name: name.into(),
            min: 0,
            max: 10,
            target: None,
            members: Membership::Label { key: "pool".into(), value: name.into() },
            template: testobjects::node("t").object(),
            pods: Vec::new(),
            template_pods: Vec::new(),
            price: None,
            options: None,
            provisioning: Provisioning::default(),
            failures: Vec::new(),
        }
    }

    fn at(second: i64) -> Moment {
        Moment::from_nanos(second * 1_000_000_000)
    }

    fn node(name: &str, pool: &str, created: i64, ready: &str) -> ObservedChange {
        let node = testobjects::node(name).label("pool", pool).created(at(created));
        node.set("status.conditions", json!([{"type": "Ready", "status": ready}])).added().into()
    }

    fn triggered(name: &str, text: &str) -> ObservedChange {
        event(name, text).added().into()
    }

    fn event(name: &str, text: &str) -> ObjectBuilder {
        resource("events.k8s.io/v1", "Event", name)
            .namespace("a")
            .set("reason", "TriggeredScaleUp")
            .set("note", format!("pod triggered scale-up: {text}"))
    }

    fn seconds(seconds: &[u64]) -> Delay {
        Delay::Samples(seconds.iter().map(|second| Duration::from_secs(*second)).collect())
    }

    #[test]
    fn nodes_match_requests_in_order() {
        let groups = [group("a"), group("b"), group("c")];
        let mut meter = ProvisioningMeter::new(&groups);
        meter.observe(at(0), &node("old", "a", -500, "True"));
        meter.observe(at(10), &triggered("e1", "[{a 1->3 (max: 8)} {b 0->1 (max: 2)}]"));
        meter.observe(at(10), &triggered("e2", "[{a 1->3 (max: 8)} {b 0->1 (max: 2)}]"));
        meter.observe(at(40), &node("a1", "a", 40, "False"));
        meter.observe(at(70), &node("a2", "a", 70, "True"));
        meter.observe(at(75), &node("a1", "a", 40, "True"));
        meter.observe(at(90), &node("a3", "a", 90, "False"));
        let found = meter.finish();
        let of_a = Provisioning { registers_after: seconds(&[30, 60]), ready_after: seconds(&[0, 35]) };
        assert_eq!(found, [Some(of_a), None, None]);
    }

    #[test]
    fn old_requests_are_ignored_and_repeated_ones_count_again() {
        let groups = [group("a")];
        let mut meter = ProvisioningMeter::new(&groups);
        let listed = event("e0", "[{a 0->1 (max: 8)}]").created(at(0));
        meter.observe(at(900), &listed.added().into());
        for (requested_at, name) in [(1_000, "a1"), (2_000, "a2")] {
            meter.observe(at(requested_at), &triggered("e1", "[{a 1->2 (max: 8)}]"));
            meter.observe(at(requested_at + 3), &triggered("e2", "[{a 1->2 (max: 8)}]"));
            meter.observe(at(requested_at + 40), &node(name, "a", requested_at + 40, "True"));
        }
        assert_eq!(meter.finish()[0].as_ref().unwrap().registers_after, seconds(&[40, 40]));
    }

    #[test]
    fn a_node_that_is_added_during_a_loop_was_requested_by_it() {
        let groups = [group("a")];
        let mut meter = ProvisioningMeter::new(&groups);
        let status = "autoscalerStatus: Running\ntime: 1970-01-01 00:00:08.5 +0000 UTC\n";
        let status = resource("v1", "ConfigMap", "cluster-autoscaler-status").set("data.status", status);
        meter.observe(at(7), &node("a1", "a", 7, "True"));
        meter.observe(at(9), &node("a2", "a", 9, "True"));
        meter.observe(at(10), &status.added().into());
        meter.observe(at(11), &triggered("e1", "[{a 0->3 (max: 8)}]"));
        meter.observe(at(14), &node("a3", "a", 14, "True"));
        let delays = [0, 500, 3_000].map(Duration::from_millis).to_vec();
        assert_eq!(meter.finish()[0].as_ref().unwrap().registers_after, Delay::Samples(delays));
    }

    #[test]
    fn a_node_may_register_before_its_scale_up_event() {
        let groups = [NodeGroup { members: Membership::Named(BTreeSet::from(["x".into()])), ..group("a") }];
        let mut meter = ProvisioningMeter::new(&groups);
        meter.observe(at(9), &node("x", "z", 9, "False"));
        meter.observe(at(10), &triggered("e1", "[{a 0->1 (max: 8)}]"));
        meter.observe(at(12), &node("x", "z", 9, "True"));
        let measured = Provisioning { registers_after: seconds(&[0]), ready_after: seconds(&[3]) };
        assert_eq!(meter.finish(), [Some(measured)]);
    }
}
