//! `decisions.jsonl`: what was decided, when and why, and beside it what was recorded.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use autoscaler::{RemovedNode, ScaleUp};
use model::{Moment, NamespacedName, What};
use scheduler::{Inclined, Placement};
use serde::Serialize;
use simulation::{Audience, Decided, Demand, LostTo, PodId};

use crate::causes::Causes;
use crate::play::Follower;
use crate::record::Record;
use crate::recorded::{Curve, Sizes};

/// Writes a line a decision. A refusal in the same words as the last of that pod is only counted.
pub struct Decisions<'a, W> {
    record: Record<'a>,
    /// How large groups were.
    sizes: Sizes<'a>,
    out: W,
    /// Pods that wait: how often they were refused, and in which words last.
    waiting: BTreeMap<NamespacedName, Refused>,
    lines: u64,
    trouble: Option<io::Error>,
}

struct Refused {
    id: PodId,
    times: u64,
    why: String,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    at: String,
    what: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    group: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<Size>,
    /// How many nodes its group had then in the record.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_nodes: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    why: String,
    /// How long the pod had waited, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    waited: Option<f64>,
    /// How often it had been refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    refusals: Option<u64>,
    /// What the record has for the same pod; null if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<Option<Recorded>>,
    /// What became of the node that was recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded_node: Option<String>,
}

#[derive(Serialize)]
struct Size {
    from: i64,
    to: i64,
    max: i64,
}

/// What was recorded of the same life of the same demand.
#[derive(Serialize)]
struct Recorded {
    pod: Arc<str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<Arc<str>>,
    /// When it was bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    bound: Option<String>,
    /// How it lost its place, and when.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<String>,
}

impl<'a, W: Write> Decisions<'a, W> {
    /// Beside these causes, and nodes that came and went so.
    pub fn new(causes: &'a Causes, nodes: &'a Curve, out: W) -> Decisions<'a, W> {
        Decisions {
            record: Record::of(causes),
            sizes: nodes.sizes(),
            out,
            waiting: BTreeMap::new(),
            lines: 0,
            trouble: None,
        }
    }

    /// Says who still waits, and gives back where it wrote to, with the number of lines.
    pub fn finish(mut self, end: Moment) -> io::Result<(W, u64)> {
        for (pod, refused) in std::mem::take(&mut self.waiting) {
            let recorded = Some(self.recorded(refused.id));
            self.write(&Line {
                at: end.to_string(),
                what: "stillWaits",
                pod: Some(shown(&pod)),
                why: refused.why,
                refusals: Some(refused.times),
                recorded,
                ..Line::default()
            });
        }
        self.record.finish()?;
        match self.trouble {
            Some(trouble) => Err(trouble),
            None => Ok((self.out, self.lines)),
        }
    }

    fn write(&mut self, line: &Line<'_>) {
        if self.trouble.is_some() {
            return;
        }
        let written = serde_json::to_writer(&mut self.out, line)
            .map_err(io::Error::from)
            .and_then(|()| self.out.write_all(b"\n"));
        self.lines += 1;
        self.trouble = written.err();
    }

    fn recorded(&mut self, id: PodId) -> Option<Recorded> {
        let (life, seen) = self.record.find(id)?;
        Some(Recorded {
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
        self.write(&Line {
            at: at.to_string(),
            what: "bound",
            pod: Some(shown(pod)),
            node: Some(&placement.node),
            why: how_placed(placement),
            waited: Some(at.nanos_since(came).max(0) as f64 / 1e9),
            refusals: Some(refusals),
            recorded: Some(recorded),
            recorded_node: placement.inclined.filter(|_| is_elsewhere).map(not_taken),
            ..Line::default()
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
        self.write(&Line {
            at: at.to_string(),
            what: "refused",
            pod: Some(shown(pod)),
            why,
            refusals: Some(times),
            recorded,
            ..Line::default()
        });
    }

    fn lost(&mut self, at: Moment, id: PodId, pod: &NamespacedName, node: Option<&Arc<str>>, to: &LostTo) {
        self.waiting.remove(pod);
        let (what, why) = match to {
            LostTo::Preemption(by) => ("preempted", format!("makes room for {}", shown(by))),
            LostTo::ScaleDown => ("evicted", "the autoscaler drains its node".to_owned()),
            LostTo::Taint(key) => ("evicted", format!("does not tolerate the taint {key}")),
            LostTo::NodeGone => ("evicted", "its node is gone".to_owned()),
        };
        let recorded = Some(self.recorded(id));
        self.write(&Line {
            at: at.to_string(),
            what,
            pod: Some(shown(pod)),
            node: node.map(|node| &**node),
            why,
            recorded,
            ..Line::default()
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
            self.write(&Line {
                at: at.to_string(),
                what: "scaledUp",
                group: Some(&increase.group),
                size: Some(Size { from: increase.from, to: increase.to, max: increase.max }),
                recorded_nodes,
                why: why.clone(),
                ..Line::default()
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
        self.write(&Line {
            at: at.to_string(),
            what: "scaledDown",
            node: Some(&removed.node),
            group: group.map(|group| &**group),
            recorded_nodes,
            why,
            ..Line::default()
        });
    }

    fn node(&mut self, at: Moment, what: &'static str, node: &str, group: Option<&Arc<str>>) {
        self.write(&Line {
            at: at.to_string(),
            what,
            node: Some(node),
            group: group.map(|group| &**group),
            ..Line::default()
        });
    }
}

impl<W: Write> Audience for Decisions<'_, W> {
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
            Decided::NodeCame { node, group, .. } => self.node(at, "nodeCame", node, *group),
            Decided::NodeWent { node, .. } => self.node(at, "nodeWent", node, None),
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

impl<W: Write> Follower for Decisions<'_, W> {
    fn asked(&mut self, _: Moment, _: &Demand) {}

    fn goes_on(&self) -> bool {
        self.trouble.is_none() && self.record.is_well()
    }
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
