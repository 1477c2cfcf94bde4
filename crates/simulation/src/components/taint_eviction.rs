//! Evictions by NoExecute taints, as the taint eviction controller does them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kubernetes::objects::NodeView;
use kubernetes::taints::{NO_EXECUTE, Taint, Toleration};
use kubernetes::time::after;
use model::Moment;

/// NoExecute taints by node, and pending evictions. Pods are identified by a `K` of the caller's choice.
#[derive(Debug)]
pub struct TaintEviction<K> {
    /// The NoExecute taints of nodes that have any.
    taints: BTreeMap<Arc<str>, Vec<Taint>>,
    evictions: BTreeMap<K, Eviction>,
}

/// A pending eviction.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Eviction {
    at: Moment,
    /// The taint's key.
    taint: Arc<str>,
}

impl<K: Ord + Clone> TaintEviction<K> {
    /// A node was added or modified. Returns whether its pods are to be [re-evaluated](TaintEviction::pod_changed).
    pub fn node_changed(&mut self, node: &NodeView) -> bool {
        let taints = node.taints.iter().filter(|taint| &*taint.effect == NO_EXECUTE);
        let taints: Vec<Taint> = taints.cloned().collect();
        if taints.is_empty() {
            self.taints.remove(&node.name).is_some()
        } else {
            self.taints.insert(node.name.clone(), taints);
            true
        }
    }

    /// A node was deleted.
    pub fn node_deleted(&mut self, name: &str) {
        self.taints.remove(name);
    }

    /// A pod was bound, or the pod or its node changed. Returns when it is to be evicted, if that is new. A pod's
    /// toleration time restarts only after all its evictions were cancelled.
    pub fn pod_changed(
        &mut self,
        now: Moment,
        pod: &K,
        node: Option<&Arc<str>>,
        tolerations: &[Toleration],
    ) -> Option<Moment> {
        let scheduled_eviction = self.evictions.get(pod);
        let toleration_time = match node.and_then(|node| self.taints.get(node)) {
            None => TolerationTime::Forever,
            Some(taints) => min_toleration_time(taints, tolerations),
        };
        let eviction = match toleration_time {
            TolerationTime::Forever => {
                self.evictions.remove(pod);
                return None;
            }
            TolerationTime::For(time, taint) if time.is_zero() => Eviction { at: now, taint },
            TolerationTime::For(time, taint) => {
                scheduled_eviction.cloned().unwrap_or(Eviction { at: after(now, time), taint })
            }
        };
        if scheduled_eviction == Some(&eviction) {
            return None;
        }
        let at = eviction.at;
        self.evictions.insert(pod.clone(), eviction);
        Some(at)
    }

    /// The taint that evicts a pod at this moment, if that eviction is still pending.
    pub fn evicts(&self, pod: &K, at: Moment) -> Option<Arc<str>> {
        self.evictions.get(pod).filter(|eviction| eviction.at == at).map(|eviction| eviction.taint.clone())
    }

    /// A pod was deleted.
    pub fn pod_deleted(&mut self, pod: &K) {
        self.evictions.remove(pod);
    }
}

impl<K> Default for TaintEviction<K> {
    fn default() -> TaintEviction<K> {
        TaintEviction { taints: BTreeMap::new(), evictions: BTreeMap::new() }
    }
}

/// How long a pod tolerates taints.
enum TolerationTime {
    Forever,
    For(Duration, Arc<str>),
}

/// The shortest time for which a pod tolerates these taints. For each taint the first matching toleration counts.
fn min_toleration_time(taints: &[Taint], tolerations: &[Toleration]) -> TolerationTime {
    let mut shortest = TolerationTime::Forever;
    for taint in taints {
        let seconds = match tolerations.iter().find(|candidate| candidate.tolerates(taint)) {
            None => 0,
            Some(Toleration { toleration_seconds: None, .. }) => continue,
            Some(Toleration { toleration_seconds: Some(seconds), .. }) => (*seconds).max(0).unsigned_abs(),
        };
        let time = Duration::from_secs(seconds);
        if !matches!(&shortest, TolerationTime::For(other, _) if *other <= time) {
            shortest = TolerationTime::For(time, taint.key.clone());
        }
    }
    shortest
}
