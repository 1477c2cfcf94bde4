//! How long nodes took to come, as a history shows it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use autoscaler::{Delay, Membership, NodeGroup, Provisioning, loop_told};
use kubernetes::labels::Labels;
use kubernetes::read::{moment, nullable};
use model::{Moment, Object, What};
use serde::Deserialize;

use crate::seen::Seen;

/// Nodes on their way, followed change by change.
///
/// A request begins when the autoscaler first says that pods triggered it; the nodes that the group then gets, or got
/// a moment before, are taken for those it asked for, in order. One that came while a loop ran, as the autoscaler's
/// status tells, was asked for when that loop began.
#[derive(Debug)]
pub struct Measure<'a> {
    groups: &'a [NodeGroup],
    /// By group: when each node that has not come yet was asked for.
    asked: Vec<VecDeque<Moment>>,
    /// By group: when nodes came that nobody had asked for.
    early: Vec<VecDeque<Moment>>,
    /// When the last loops began, and when they had told their status.
    loops: VecDeque<(Moment, Moment)>,
    /// By group: the sizes of its last request, and when it was told of.
    last: Vec<Option<(i64, i64, Moment)>>,
    /// Nodes by name: their group and since when they are there, if they are new and not ready yet.
    coming: BTreeMap<String, Option<(usize, Moment)>>,
    registered: Vec<Vec<Duration>>,
    ready: Vec<Vec<Duration>>,
}

/// Clouds that make nodes at once do so before the autoscaler tells; and a node is new for so long.
const A_MOMENT: Duration = Duration::from_secs(10);

/// More nodes than a group may ask for at once are not waited for.
const MOST: i64 = 10_000;

#[derive(Deserialize)]
struct NodeJson {
    metadata: MetadataJson,
    #[serde(default, deserialize_with = "nullable")]
    spec: SpecJson,
    #[serde(default, deserialize_with = "nullable")]
    status: StatusJson,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MetadataJson {
    name: String,
    #[serde(default, deserialize_with = "moment")]
    creation_timestamp: Option<Moment>,
    #[serde(default)]
    labels: Labels,
    #[serde(default)]
    annotations: Labels,
}

#[derive(Default, Deserialize)]
struct SpecJson {
    #[serde(rename = "providerID", default, deserialize_with = "nullable")]
    provider_id: String,
}

#[derive(Default, Deserialize)]
struct StatusJson {
    #[serde(default, deserialize_with = "nullable")]
    conditions: Vec<ConditionJson>,
}

#[derive(Deserialize)]
struct ConditionJson {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    status: String,
}

#[derive(Deserialize)]
struct EventJson {
    #[serde(default, deserialize_with = "nullable")]
    metadata: EventMetadataJson,
    #[serde(default, deserialize_with = "nullable")]
    reason: String,
    /// As `events.k8s.io` calls it.
    #[serde(default, deserialize_with = "nullable")]
    note: String,
    #[serde(default, deserialize_with = "nullable")]
    message: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct EventMetadataJson {
    #[serde(default, deserialize_with = "moment")]
    creation_timestamp: Option<Moment>,
}

// === impl Measure ===

impl<'a> Measure<'a> {
    /// Nothing seen yet of these groups.
    pub fn new(groups: &'a [NodeGroup]) -> Measure<'a> {
        let count = groups.len();
        Measure {
            groups,
            asked: vec![VecDeque::new(); count],
            early: vec![VecDeque::new(); count],
            loops: VecDeque::new(),
            last: vec![None; count],
            coming: BTreeMap::new(),
            registered: vec![Vec::new(); count],
            ready: vec![Vec::new(); count],
        }
    }

    /// A change of a Node, an Event or the autoscaler's ConfigMap; others tell nothing. Changes come in order.
    pub fn see(&mut self, at: Moment, seen: &Seen) {
        let Seen { key, what, .. } = seen;
        let object = what.object();
        match &*key.kind.kind {
            "Event" if matches!(what, What::Added(_)) => self.event(at, object),
            "ConfigMap" => self.loop_ended(at, object),
            "Node" => match what {
                What::Added(_) | What::Modified(_) => self.node(at, object),
                What::Deleted(_) => drop(self.coming.remove(&*key.name)),
            },
            _ => {}
        }
    }

    /// How long the nodes of each group took; `None` for a group that got none.
    pub fn finish(self) -> Vec<Option<Provisioning>> {
        let of_group = |(registered, ready): (Vec<Duration>, Vec<Duration>)| {
            let usual = Provisioning::default();
            if registered.is_empty() && ready.is_empty() {
                return None;
            }
            Some(Provisioning {
                registers_after: measured(registered, usual.registers_after),
                ready_after: measured(ready, usual.ready_after),
            })
        };
        self.registered.into_iter().zip(self.ready).map(of_group).collect()
    }

    fn event(&mut self, at: Moment, object: &Object) {
        let Ok(event) = object.view::<EventJson>() else { return };
        // A list holds Events of an hour, whose nodes have come.
        let is_old = event.metadata.creation_timestamp.is_some_and(|made| between(made, at) > A_MOMENT);
        if event.reason != "TriggeredScaleUp" || is_old {
            return;
        }
        let message = if event.note.is_empty() { &event.message } else { &event.note };
        for (name, from, to) in increases(message) {
            let Some(index) = self.groups.iter().position(|group| &*group.name == name) else { continue };
            // Each pod that triggered it says the same, and so does a later request if a node went meanwhile.
            let last = self.last[index].replace((from, to, at));
            let is_same =
                |last: (i64, i64, Moment)| (last.0, last.1) == (from, to) && between(last.2, at) <= A_MOMENT;
            if !last.is_some_and(is_same) {
                self.early[index].retain(|came| between(*came, at) <= A_MOMENT);
                for _ in 0..to.saturating_sub(from).clamp(0, MOST) {
                    match self.early[index].pop_front() {
                        Some(came) => {
                            let asked = self.loop_at(came).unwrap_or(came);
                            self.registered[index].push(between(asked, came));
                        }
                        None => self.asked[index].push_back(at),
                    }
                }
                self.asked[index].truncate(MOST as usize);
            }
        }
    }

    fn loop_ended(&mut self, at: Moment, map: &Object) {
        if let Some(began) = loop_told(map) {
            self.loops.retain(|(_, told)| between(*told, at) <= A_MOMENT);
            self.loops.push_back((began, at));
        }
    }

    /// When the loop began that ran at a moment.
    fn loop_at(&self, moment: Moment) -> Option<Moment> {
        let ran = self.loops.iter().find(|(began, told)| *began <= moment && moment <= *told);
        ran.map(|(began, _)| *began)
    }

    fn node(&mut self, at: Moment, object: &Object) {
        let Ok(node) = object.view::<NodeJson>() else { return };
        let is_ready = node
            .status
            .conditions
            .iter()
            .any(|condition| condition.kind == "Ready" && condition.status == "True");
        if !self.coming.contains_key(&node.metadata.name) {
            let is_new = node.metadata.creation_timestamp.is_some_and(|made| between(made, at) <= A_MOMENT);
            let group = self.groups.iter().position(|group| node.is_of(&group.members)).filter(|_| is_new);
            if let Some(group) = group {
                match self.asked[group].pop_front() {
                    Some(asked) => self.registered[group].push(between(asked, at)),
                    None => {
                        self.early[group].retain(|came| between(*came, at) <= A_MOMENT);
                        self.early[group].push_back(at);
                    }
                }
            }
            self.coming.insert(node.metadata.name.clone(), group.map(|group| (group, at)));
        }
        let coming = self.coming.get_mut(&node.metadata.name);
        if is_ready && let Some((group, since)) = coming.and_then(Option::take) {
            self.ready[group].push(between(since, at));
        }
    }
}

/// What a message `pod triggered scale-up: [{workers 1->3 (max: 8)}]` asks for: groups, and their sizes before and
/// after.
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

/// In order, so that the same history gives the same.
fn measured(mut spans: Vec<Duration>, usual: Delay) -> Delay {
    spans.sort();
    if spans.is_empty() { usual } else { Delay::Measured(spans) }
}

// === impl NodeJson ===

impl NodeJson {
    fn is_of(&self, members: &Membership) -> bool {
        let NodeJson { metadata, spec, .. } = self;
        let MetadataJson { name, labels, annotations, .. } = metadata;
        members.has(name, &spec.provider_id, |key| labels.get(key), |key| annotations.get(key))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

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
            believed: Vec::new(),
            price: None,
            options: None,
            provisioning: Provisioning::default(),
            failures: Vec::new(),
        }
    }

    fn at(second: i64) -> Moment {
        Moment::from_nanos(second * 1_000_000_000)
    }

    fn node(name: &str, pool: &str, created: i64, ready: &str) -> Seen {
        let node = testobjects::node(name).label("pool", pool).created(at(created));
        node.set("status.conditions", json!([{"type": "Ready", "status": ready}])).added().into()
    }

    fn triggered(name: &str, text: &str) -> Seen {
        event(name, text).added().into()
    }

    fn event(name: &str, text: &str) -> ObjectBuilder {
        resource("events.k8s.io/v1", "Event", name)
            .namespace("a")
            .set("reason", "TriggeredScaleUp")
            .set("note", format!("pod triggered scale-up: {text}"))
    }

    fn seconds(seconds: &[u64]) -> Delay {
        Delay::Measured(seconds.iter().map(|second| Duration::from_secs(*second)).collect())
    }

    #[test]
    fn nodes_are_taken_for_those_asked_for_in_order() {
        let groups = [group("a"), group("b"), group("c")];
        let mut measure = Measure::new(&groups);
        measure.see(at(0), &node("old", "a", -500, "True"));
        measure.see(at(10), &triggered("e1", "[{a 1->3 (max: 8)} {b 0->1 (max: 2)}]"));
        measure.see(at(10), &triggered("e2", "[{a 1->3 (max: 8)} {b 0->1 (max: 2)}]"));
        measure.see(at(40), &node("a1", "a", 40, "False"));
        measure.see(at(70), &node("a2", "a", 70, "True"));
        measure.see(at(75), &node("a1", "a", 40, "True"));
        measure.see(at(90), &node("a3", "a", 90, "False"));
        let found = measure.finish();
        let of_a = Provisioning { registers_after: seconds(&[30, 60]), ready_after: seconds(&[0, 35]) };
        assert_eq!(found, [Some(of_a), None, None]);
    }

    #[test]
    fn a_request_of_before_is_none_and_the_same_again_is_another() {
        let groups = [group("a")];
        let mut measure = Measure::new(&groups);
        let listed = event("e0", "[{a 0->1 (max: 8)}]").created(at(0));
        measure.see(at(900), &listed.added().into());
        for (asked, name) in [(1_000, "a1"), (2_000, "a2")] {
            measure.see(at(asked), &triggered("e1", "[{a 1->2 (max: 8)}]"));
            measure.see(at(asked + 3), &triggered("e2", "[{a 1->2 (max: 8)}]"));
            measure.see(at(asked + 40), &node(name, "a", asked + 40, "True"));
        }
        assert_eq!(measure.finish()[0].as_ref().unwrap().registers_after, seconds(&[40, 40]));
    }

    #[test]
    fn a_node_that_comes_while_a_loop_runs_was_asked_for_by_it() {
        let groups = [group("a")];
        let mut measure = Measure::new(&groups);
        let status = "autoscalerStatus: Running\ntime: 1970-01-01 00:00:08.5 +0000 UTC\n";
        let status = resource("v1", "ConfigMap", "cluster-autoscaler-status").set("data.status", status);
        measure.see(at(7), &node("a1", "a", 7, "True"));
        measure.see(at(9), &node("a2", "a", 9, "True"));
        measure.see(at(10), &status.added().into());
        measure.see(at(11), &triggered("e1", "[{a 0->3 (max: 8)}]"));
        measure.see(at(14), &node("a3", "a", 14, "True"));
        let delays = [0, 500, 3_000].map(Duration::from_millis).to_vec();
        assert_eq!(measure.finish()[0].as_ref().unwrap().registers_after, Delay::Measured(delays));
    }

    #[test]
    fn a_node_may_be_there_before_the_autoscaler_tells() {
        let groups = [NodeGroup { members: Membership::Named(BTreeSet::from(["x".into()])), ..group("a") }];
        let mut measure = Measure::new(&groups);
        measure.see(at(9), &node("x", "z", 9, "False"));
        measure.see(at(10), &triggered("e1", "[{a 0->1 (max: 8)}]"));
        measure.see(at(12), &node("x", "z", 9, "True"));
        let measured = Provisioning { registers_after: seconds(&[0]), ready_after: seconds(&[3]) };
        assert_eq!(measure.finish(), [Some(measured)]);
    }
}
