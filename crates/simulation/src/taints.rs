//! Taints that drive pods out of their nodes, as the taint eviction controller has it.

use std::sync::Arc;
use std::time::Duration;

use kubernetes::read::nullable;
use kubernetes::taints::{NO_EXECUTE, Taint, Toleration};
use model::Moment;
use serde::Deserialize;

use super::agenda::Due;
use super::nodes::NodeJson;
use super::pods::Stage;
use super::told::{Audience, LostTo, PodId};
use super::{Run, after};

/// A pod is to be driven out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Eviction {
    /// When its time is over.
    at: Moment,
    /// By this taint.
    taint: Arc<str>,
}

#[derive(Default, Deserialize)]
struct PodJson {
    #[serde(default, deserialize_with = "nullable")]
    spec: PodSpecJson,
}

#[derive(Default, Deserialize)]
struct PodSpecJson {
    #[serde(default, deserialize_with = "nullable")]
    tolerations: Vec<TimedToleration>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TimedToleration {
    #[serde(flatten)]
    toleration: Toleration,
    toleration_seconds: Option<i64>,
}

impl Run<'_> {
    /// A node is new or otherwise: its pods may have to go, or may stay after all.
    pub(super) fn mind_node(&mut self, name: &Arc<str>) {
        let Some(node) = self.nodes.get(name) else { return };
        let mut taints = node.view::<NodeJson>().unwrap_or_default().spec.taints;
        taints.retain(|taint| &*taint.effect == NO_EXECUTE);
        let known = if taints.is_empty() {
            self.driving.remove(name)
        } else {
            self.driving.insert(name.clone(), taints)
        };
        if known.is_none() && !self.driving.contains_key(name) {
            return;
        }
        for id in self.on_node.get(name).into_iter().flatten().copied().collect::<Vec<_>>() {
            self.mind_taints(id);
        }
    }

    /// A pod came to its node, or something about the two changed. While it is to go at some moment, that stays: only
    /// where nothing drives it out any more its time begins anew.
    pub(super) fn mind_taints(&mut self, id: PodId) {
        let Some(pod) = self.pods.get(&id).filter(|pod| pod.stage == Stage::Bound) else { return };
        let taints = pod.node.as_ref().and_then(|node| self.driving.get(node));
        let stays = taints.map_or(Stays::Forever, |taints| {
            let json: PodJson = pod.object().view().unwrap_or_default();
            stays(taints, &json.spec.tolerations)
        });
        let eviction = match stays {
            Stays::Forever => None,
            Stays::For(time, taint) if time.is_zero() => Some(Eviction { at: self.now, taint }),
            Stays::For(time, taint) => {
                Some(pod.eviction.clone().unwrap_or(Eviction { at: after(self.now, time), taint }))
            }
        };
        let Some(pod) = self.pods.get_mut(&id) else { return };
        if let Some(Eviction { at, .. }) = &eviction
            && eviction != pod.eviction
        {
            self.agenda.put(*at, Due::LoseToTaint(id, *at));
        }
        pod.eviction = eviction;
    }

    /// The time that a taint gave a pod is over, if it is still to go at that moment.
    pub(super) fn lose_to_taint(&mut self, id: PodId, at: Moment, audience: &mut dyn Audience) {
        let eviction = self.pods.get(&id).and_then(|pod| pod.eviction.clone());
        if let Some(Eviction { taint, .. }) = eviction.filter(|eviction| eviction.at == at) {
            self.lose(id, LostTo::Taint(taint), audience);
        }
    }
}

/// How long a pod may stay.
enum Stays {
    Forever,
    For(Duration, Arc<str>),
}

/// How long a pod may stay in spite of these taints: of the tolerations for each the first counts.
fn stays(taints: &[Taint], tolerations: &[TimedToleration]) -> Stays {
    let mut shortest = Stays::Forever;
    for taint in taints {
        let seconds = match tolerations.iter().find(|it| it.toleration.tolerates(taint)) {
            None => 0,
            Some(TimedToleration { toleration_seconds: None, .. }) => continue,
            Some(TimedToleration { toleration_seconds: Some(seconds), .. }) => {
                (*seconds).max(0).unsigned_abs()
            }
        };
        let time = Duration::from_secs(seconds);
        if !matches!(&shortest, Stays::For(other, _) if *other <= time) {
            shortest = Stays::For(time, taint.key.clone());
        }
    }
    shortest
}
