//! How a DaemonSet replaces pods of an older template. The original looks at nodes in no certain order; here they are
//! looked at by name.

use std::sync::Arc;

use super::{Memory, Plan, Set};
use crate::Context;
use crate::pod::Pod;

/// The pods of a node by their template, of each no more than one.
struct Sides {
    new: Option<Arc<Pod>>,
    old: Option<Arc<Pod>>,
}

impl Memory {
    /// The next pods to replace.
    pub(super) fn roll(&self, context: &Context<'_>, set: &Set<'_>) -> Plan {
        let spec = &set.held.spec;
        let surge = spec.surge(self.totals.desired);
        let mut unavailable = spec.unavailable(self.totals.desired);
        if surge > 0 {
            return self.roll_with_surge(context, set, surge);
        }
        if self.totals.desired > 0 && unavailable == 0 {
            unavailable = 1;
        }
        let is_available = |pod: &Pod| pod.is_available(spec.min_ready_seconds, context.now);
        let (mut away, mut replaced, mut candidates) = (0, Vec::new(), Vec::new());
        for place in self.places.values() {
            let pods = place.pods(context.world);
            if pods.is_empty() && !place.wants.run {
                continue;
            }
            match sides(set, &pods) {
                Some(Sides { new: Some(new), old: None }) => away += i64::from(!is_available(&new)),
                Some(Sides { new: None, old: Some(old) }) if !is_available(&old) => {
                    replaced.push(old);
                    away += 1;
                }
                Some(Sides { new: None, old: Some(old) }) => candidates.push(old),
                Some(_) | None => away += 1,
            }
        }
        let room = usize::try_from(unavailable.saturating_sub(away)).unwrap_or(0);
        replaced.extend(candidates.into_iter().take(room));
        Plan { create: Vec::new(), delete: replaced }
    }

    /// The same where a new pod is made before the old one goes.
    fn roll_with_surge(&self, context: &Context<'_>, set: &Set<'_>, surge: i64) -> Plan {
        let min_ready = set.held.spec.min_ready_seconds;
        let is_available = |pod: &Pod| pod.is_available(min_ready, context.now);
        let (mut surging, mut available, mut plan) = (0, 0, Plan::default());
        let (mut candidates, mut unwanted) = (Vec::new(), Vec::new());
        for (node, place) in &self.places {
            let pods = place.pods(context.world);
            if pods.is_empty() {
                continue;
            }
            let Some(Sides { new, old }) = sides(set, &pods) else {
                surging += 1;
                continue;
            };
            available += i64::from(old.as_deref().or(new.as_deref()).is_some_and(is_available));
            match (new, old) {
                (_, None) => {}
                (None, Some(old)) => match (is_available(&old), place.wants.run) {
                    (false, false) => plan.delete.push(old),
                    (false, true) => plan.create.push(node.clone()),
                    (true, false) => unwanted.push(old),
                    (true, true) => candidates.push(node.clone()),
                },
                (Some(new), Some(old)) if is_available(&new) => plan.delete.push(old),
                (Some(_), Some(_)) => surging += 1,
            }
        }
        // Pods where none is wanted any more stay until there are enough elsewhere.
        let spare = usize::try_from(available - self.totals.desired).unwrap_or(0);
        plan.delete.extend(unwanted.into_iter().take(spare));
        plan.create.extend(candidates.into_iter().take(usize::try_from(surge - surging).unwrap_or(0)));
        plan
    }
}

/// The pods of a node that stay, by their template; `None` if there are more than one of either.
fn sides(set: &Set<'_>, pods: &[Arc<Pod>]) -> Option<Sides> {
    let live = pods.iter().filter(|pod| !pod.is_deleted()).cloned();
    let (new, old): (Vec<Arc<Pod>>, Vec<Arc<Pod>>) = live.partition(|pod| set.is_updated(pod));
    let is_clear = new.len() <= 1 && old.len() <= 1;
    is_clear.then(|| Sides { new: new.into_iter().next(), old: old.into_iter().next() })
}
