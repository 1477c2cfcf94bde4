//! The decisions of a replay, as a report lists them and as lines of `decisions.jsonl`.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use autoscaler::{RemovedNode, ScaleUp};
use model::{Moment, NamespacedName, What};
use scheduler::{Inclined, Placement};
use serde::{Serialize, Serializer};
use simulation::{Decided, Demand, LostTo, Observer, PodId};

use crate::causes::Causes;
use crate::play::Follower;
use crate::record::Record;
use crate::recorded::{Curve, Sizes};

/// Something that was decided: when and why, and beside it what was recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When.
    #[serde(serialize_with = "as_text")]
    pub at: Moment,
    /// What.
    pub what: DecisionKind,
    /// The pod it is about: `namespace/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// The node group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Arc<str>>,
    /// The sizes of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<GroupSize>,
    /// How many nodes its group had then in the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_nodes: Option<i64>,
    /// Why, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Why a pod was evicted.
    #[serde(skip)]
    pub lost_to: Option<LostTo>,
    /// How long the pod had waited, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waited: Option<f64>,
    /// How often it had been refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusals: Option<u64>,
    /// What the record has for the same pod; `Some(None)`, or null, if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded: Option<Option<RecordedPod>>,
    /// What became of the node that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_node: Option<String>,
}

/// What was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DecisionKind {
    /// A pod was bound to a node.
    Bound,
    /// No node takes a pod. It is told again only in other words.
    Refused,
    /// A pod makes room for another.
    Preempted,
    /// A pod was evicted.
    Evicted,
    /// A node group was made larger.
    ScaledUp,
    /// The removal of a node began.
    ScaledDown,
    /// A node came.
    NodeCame,
    /// A node went.
    NodeWent,
    /// A pod still waits at the end.
    StillWaits,
}

/// How large a node group was, is to be, and may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct GroupSize {
    pub from: i64,
    pub to: i64,
    pub max: i64,
}

/// What was recorded of the same pod of the same demand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordedPod {
    /// Its name.
    pub pod: Arc<str>,
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Arc<str>>,
    /// When it was bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// How it lost its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost: Option<&'static str>,
    /// When it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// Takes decisions one after the other.
pub trait DecisionSink {
    /// Takes one.
    fn take(&mut self, decision: Decision) -> io::Result<()>;
}

/// Hands every decision of a run to a sink. A refusal in the same words as the last of that pod is only counted.
pub struct DecisionLog<'a, S> {
    record: Record<'a>,
    /// How large groups were.
    sizes: Sizes<'a>,
    sink: S,
    /// Pods that wait: how often they were refused, and in which words last.
    waiting: BTreeMap<NamespacedName, Refused>,
    trouble: Option<io::Error>,
}

struct Refused {
    id: PodId,
    times: u64,
    why: String,
}

/// Writes decisions as lines of JSON.
pub struct JsonLines<W>(pub W);

impl<W: Write> DecisionSink for JsonLines<W> {
    fn take(&mut self, decision: Decision) -> io::Result<()> {
        serde_json::to_writer(&mut self.0, &decision)?;
        self.0.write_all(b"\n")
    }
}

impl DecisionSink for Vec<Decision> {
    fn take(&mut self, decision: Decision) -> io::Result<()> {
        self.push(decision);
        Ok(())
    }
}

// === impl Decision ===

impl Decision {
    fn new(at: Moment, what: DecisionKind) -> Decision {
        Decision {
            at,
            what,
            pod: None,
            node: None,
            group: None,
            size: None,
            recorded_nodes: None,
            why: String::new(),
            lost_to: None,
            waited: None,
            refusals: None,
            recorded: None,
            recorded_node: None,
        }
    }
}

// === impl DecisionLog ===

impl<'a, S: DecisionSink> DecisionLog<'a, S> {
    /// Beside these causes, and nodes that came and went so.
    pub fn new(causes: &'a Causes, nodes: &'a Curve, sink: S) -> DecisionLog<'a, S> {
        DecisionLog {
            record: Record::of(causes),
            sizes: nodes.sizes(),
            sink,
            waiting: BTreeMap::new(),
            trouble: None,
        }
    }

    /// Says who still waits, and gives back the sink.
    pub fn finish(mut self, end: Moment) -> io::Result<S> {
        for (pod, refused) in std::mem::take(&mut self.waiting) {
            let recorded = Some(self.recorded(refused.id));
            self.write(Decision {
                pod: Some(shown(&pod)),
                why: refused.why,
                refusals: Some(refused.times),
                recorded,
                ..Decision::new(end, DecisionKind::StillWaits)
            });
        }
        self.record.finish()?;
        match self.trouble {
            Some(trouble) => Err(trouble),
            None => Ok(self.sink),
        }
    }

    fn write(&mut self, decision: Decision) {
        if self.trouble.is_none() {
            self.trouble = self.sink.take(decision).err();
        }
    }

    fn recorded(&mut self, id: PodId) -> Option<RecordedPod> {
        let (life, seen) = self.record.find(id)?;
        Some(RecordedPod {
            pod: life.name.clone(),
            node: life.node.clone(),
            bound: seen.bound.map(|bound| bound.to_string()),
            lost: seen.lost.map(|lost| lost.word()),
            left: seen.lost.and(seen.leaving).map(|left| left.to_string()),
        })
    }

    fn bound(&mut self, at: Moment, id: PodId, pod: &NamespacedName, came: Moment, placement: &Placement) {
        let refusals = self.waiting.remove(pod).map_or(0, |refused| refused.times);
        let recorded = self.recorded(id);
        let is_elsewhere =
            recorded.as_ref().and_then(|it| it.node.as_ref()).is_some_and(|node| *node != placement.node);
        self.write(Decision {
            pod: Some(shown(pod)),
            node: Some(placement.node.clone()),
            why: how_placed(placement),
            waited: Some(at.nanos_since(came).max(0) as f64 / 1e9),
            refusals: Some(refusals),
            recorded: Some(recorded),
            recorded_node: placement.inclined.filter(|_| is_elsewhere).map(not_taken),
            ..Decision::new(at, DecisionKind::Bound)
        });
    }

    fn refused(&mut self, at: Moment, id: PodId, pod: &NamespacedName, why: String) {
        let times = match self.waiting.get_mut(pod) {
            Some(refused) if refused.why == why => {
                refused.times += 1;
                return;
            }
            Some(refused) => {
                refused.times += 1;
                refused.why.clone_from(&why);
                refused.times
            }
            None => {
                self.waiting.insert(pod.clone(), Refused { id, times: 1, why: why.clone() });
                1
            }
        };
        let recorded = Some(self.recorded(id));
        self.write(Decision {
            pod: Some(shown(pod)),
            why,
            refusals: Some(times),
            recorded,
            ..Decision::new(at, DecisionKind::Refused)
        });
    }

    fn lost(&mut self, at: Moment, id: PodId, pod: &NamespacedName, node: Option<&Arc<str>>, to: &LostTo) {
        self.waiting.remove(pod);
        let (what, why) = match to {
            LostTo::Preemption(by) => (DecisionKind::Preempted, format!("makes room for {}", shown(by))),
            LostTo::ScaleDown => (DecisionKind::Evicted, "the autoscaler drains its node".to_owned()),
            LostTo::Taint(key) => (DecisionKind::Evicted, format!("does not tolerate the taint {key}")),
            LostTo::NodeGone => (DecisionKind::Evicted, "its node is gone".to_owned()),
        };
        let recorded = Some(self.recorded(id));
        self.write(Decision {
            pod: Some(shown(pod)),
            node: node.cloned(),
            lost_to: Some(to.clone()),
            why,
            recorded,
            ..Decision::new(at, what)
        });
    }

    fn scaled_up(&mut self, at: Moment, scale_up: &ScaleUp) {
        let why = match &scale_up.triggered[..] {
            [] => "its size is below what it may have".to_owned(),
            [pod] => format!("{} waits", shown(pod)),
            [pod, others @ ..] => format!("{} and {} others wait", shown(pod), others.len()),
        };
        for increase in &scale_up.increases {
            let recorded_nodes = Some(self.sizes.at(at, &increase.group));
            self.write(Decision {
                group: Some(increase.group.clone()),
                size: Some(GroupSize { from: increase.from, to: increase.to, max: increase.max }),
                recorded_nodes,
                why: why.clone(),
                ..Decision::new(at, DecisionKind::ScaledUp)
            });
        }
    }

    fn scaled_down(&mut self, at: Moment, removed: &RemovedNode, group: Option<&Arc<str>>) {
        let used = (removed.utilization * 100.0).round();
        let why = match removed.drain.len() {
            0 => format!("{used} % used, no pods to move"),
            1 => format!("{used} % used, one pod to move"),
            pods => format!("{used} % used, {pods} pods to move"),
        };
        let recorded_nodes = group.map(|group| self.sizes.at(at, group));
        self.write(Decision {
            node: Some(removed.node.clone()),
            group: group.cloned(),
            recorded_nodes,
            why,
            ..Decision::new(at, DecisionKind::ScaledDown)
        });
    }

    fn node(&mut self, at: Moment, what: DecisionKind, node: &Arc<str>, group: Option<&Arc<str>>) {
        self.write(Decision { node: Some(node.clone()), group: group.cloned(), ..Decision::new(at, what) });
    }
}

impl<S: DecisionSink> Observer for DecisionLog<'_, S> {
    fn wants_changes(&self) -> bool {
        false
    }

    fn changed(&mut self, _: Moment, _: What) {}

    fn decided(&mut self, at: Moment, decided: &Decided<'_>) {
        match decided {
            Decided::Bound { id, pod, came, placement, .. } => self.bound(at, *id, pod, *came, placement),
            Decided::Refused { id, pod, rejection } => self.refused(at, *id, pod, rejection.full_message()),
            Decided::NotTried { id, pod, why } => self.refused(at, *id, pod, (*why).to_owned()),
            Decided::Lost { id, pod, node, to } => self.lost(at, *id, pod, *node, to),
            Decided::ScaledUp(scale_up) => self.scaled_up(at, scale_up),
            Decided::ScaledDown { removed, group } => self.scaled_down(at, removed, *group),
            Decided::NodeCame { node, group, .. } => self.node(at, DecisionKind::NodeCame, node, *group),
            Decided::NodeWent { node, .. } => self.node(at, DecisionKind::NodeWent, node, None),
            Decided::Over(demand) => self.record.forget(*demand),
            // Who is not wanted any more does not wait either; nobody decides that.
            Decided::Went { pod, waited: true, .. } => drop(self.waiting.remove(*pod)),
            Decided::Came { .. }
            | Decided::Went { .. }
            | Decided::Sits { .. }
            | Decided::Rises { .. }
            | Decided::NodeChanged { .. }
            | Decided::Looped { .. } => {}
        }
    }
}

impl<S: DecisionSink> Follower for DecisionLog<'_, S> {
    fn asked(&mut self, _: Moment, _: &Demand) {}

    fn goes_on(&self) -> bool {
        self.trouble.is_none() && self.record.is_well()
    }
}

fn as_text<S: Serializer>(at: &Moment, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(at)
}

fn shown(pod: &NamespacedName) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

fn how_placed(placement: &Placement) -> String {
    let Placement { looked_at, fitting, equals, .. } = placement;
    match (*looked_at, *fitting, *equals) {
        (0, 0, _) => "another scheduler chose it".to_owned(),
        (0, ..) => "it was promised this node".to_owned(),
        (looked_at, 1, _) => format!("the only one that fits of {looked_at} looked at"),
        (looked_at, fitting, 0 | 1) => format!("the best of {fitting} that fit, of {looked_at} looked at"),
        (looked_at, fitting, equals) => {
            format!("one of {equals} equally good, of {fitting} that fit, of {looked_at} looked at")
        }
    }
}

fn not_taken(inclined: Inclined) -> String {
    match inclined {
        Inclined::Taken => "taken".to_owned(),
        Inclined::Worse(0) => "equally good".to_owned(),
        Inclined::Worse(by) => format!("its score was lower by {by}"),
        Inclined::Refused(plugin) => format!("{} refused it", plugin.name()),
        Inclined::NotLookedAt => "not looked at".to_owned(),
        Inclined::NotThere => "not there".to_owned(),
    }
}
