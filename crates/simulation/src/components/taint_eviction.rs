//! Taints that evict pods from their nodes, as the taint eviction controller has it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::read::nullable;
use kubernetes::taints::{NO_EXECUTE, Taint, Toleration};
use kubernetes::time::after;
use model::{Moment, Object};
use serde::Deserialize;

/// NoExecute taints by node, and the pods they are going to evict. Pods are known by a `K` of the caller's choice.
#[derive(Debug)]
pub struct TaintEviction<K> {
    /// The NoExecute taints of nodes that have any.
    taints: BTreeMap<Arc<str>, Vec<Taint>>,
    evictions: BTreeMap<K, Eviction>,
}

/// A pod is going to be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Eviction {
    at: Moment,
    /// The taint's key.
    taint: Arc<str>,
}

#[derive(Default, Deserialize)]
struct NodeJson {
    #[serde(default, deserialize_with = "nullable")]
    spec: NodeSpecJson,
}

#[derive(Default, Deserialize)]
struct NodeSpecJson {
    #[serde(default, deserialize_with = "nullable")]
    taints: Vec<Taint>,
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

impl<K: Ord + Clone> TaintEviction<K> {
    /// A node is new or changed. Says whether its pods are to be [looked at](TaintEviction::pod_changed): they may have
    /// to go, or may stay after all.
    pub fn node_changed(&mut self, name: &Arc<str>, node: &Object) -> bool {
        let mut taints = taints_of(node);
        taints.retain(|taint| &*taint.effect == NO_EXECUTE);
        if taints.is_empty() {
            self.taints.remove(name).is_some()
        } else {
            self.taints.insert(name.clone(), taints);
            true
        }
    }

    /// A node is gone.
    pub fn node_deleted(&mut self, name: &str) {
        self.taints.remove(name);
    }

    /// A pod was bound to its node, or something about the two changed. Says when it is to be evicted, if that is new. A
    /// pod's time begins anew only after nothing evicted it any more.
    pub fn pod_changed(
        &mut self,
        now: Moment,
        pod: &K,
        node: Option<&Arc<str>>,
        object: impl FnOnce() -> Object,
    ) -> Option<Moment> {
        let known = self.evictions.get(pod);
        let tolerated = match node.and_then(|node| self.taints.get(node)) {
            None => Tolerated::Forever,
            Some(taints) => {
                let json: PodJson = object().view().unwrap_or_default();
                tolerated(taints, &json.spec.tolerations)
            }
        };
        let eviction = match tolerated {
            Tolerated::Forever => {
                self.evictions.remove(pod);
                return None;
            }
            Tolerated::For(time, taint) if time.is_zero() => Eviction { at: now, taint },
            Tolerated::For(time, taint) => known.cloned().unwrap_or(Eviction { at: after(now, time), taint }),
        };
        if known == Some(&eviction) {
            return None;
        }
        let at = eviction.at;
        self.evictions.insert(pod.clone(), eviction);
        Some(at)
    }

    /// The taint that evicts a pod at this moment, if it is still to be evicted then.
    pub fn evicts(&self, pod: &K, at: Moment) -> Option<Arc<str>> {
        self.evictions.get(pod).filter(|eviction| eviction.at == at).map(|eviction| eviction.taint.clone())
    }

    /// A pod is gone.
    pub fn pod_deleted(&mut self, pod: &K) {
        self.evictions.remove(pod);
    }
}

impl<K> Default for TaintEviction<K> {
    fn default() -> TaintEviction<K> {
        TaintEviction { taints: BTreeMap::new(), evictions: BTreeMap::new() }
    }
}

/// The taints of a node; none if they cannot be understood.
pub(crate) fn taints_of(node: &Object) -> Vec<Taint> {
    node.view::<NodeJson>().unwrap_or_default().spec.taints
}

/// How long a pod tolerates taints.
enum Tolerated {
    Forever,
    For(Duration, Arc<str>),
}

/// How long a pod may stay in spite of these taints: of the tolerations for each the first counts.
fn tolerated(taints: &[Taint], tolerations: &[TimedToleration]) -> Tolerated {
    let mut shortest = Tolerated::Forever;
    for taint in taints {
        let seconds = match tolerations.iter().find(|it| it.toleration.tolerates(taint)) {
            None => 0,
            Some(TimedToleration { toleration_seconds: None, .. }) => continue,
            Some(TimedToleration { toleration_seconds: Some(seconds), .. }) => {
                (*seconds).max(0).unsigned_abs()
            }
        };
        let time = Duration::from_secs(seconds);
        if !matches!(&shortest, Tolerated::For(other, _) if *other <= time) {
            shortest = Tolerated::For(time, taint.key.clone());
        }
    }
    shortest
}
