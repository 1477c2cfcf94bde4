//! NodeResourcesBalancedAllocation: prefers nodes whose resources are used evenly.

use std::sync::Arc;

use kubernetes::amounts::{Resource, ScalarResourceNames};
use smallvec::SmallVec;

use super::registration::Registration;
use crate::node::{Node, NodeUsage};
use crate::plugin::ExtensionPoint;
use crate::pod::SchedulingSpec;
use crate::settings::Version;

pub(crate) const REGISTRATION: Registration = Registration::new("NodeResourcesBalancedAllocation", |_| {
    &[ExtensionPoint::PreScore, ExtensionPoint::Score]
})
.weight(1);

/// The resources that a profile balances.
#[derive(Clone, Debug)]
pub(crate) struct BalancedAllocation {
    resources: Vec<Resource>,
    version: Version,
}

const MAX_NODE_SCORE: i64 = 100;

impl BalancedAllocation {
    pub(crate) fn new(
        names: &[Arc<str>],
        version: Version,
        scalars: &mut ScalarResourceNames,
    ) -> BalancedAllocation {
        BalancedAllocation { resources: names.iter().map(|name| scalars.resource(name)).collect(), version }
    }

    /// Whether a pod without requests is skipped. Before 1.33 it was not.
    pub(crate) fn is_skipped(&self, spec: &SchedulingSpec) -> bool {
        self.version >= Version::V1_33
            && self.resources.iter().all(|resource| spec.balanced_requests.get(*resource) == 0)
    }

    /// How much the balance of the node improves with the pod; before 1.36, the balance with the pod.
    pub(crate) fn score(&self, spec: &SchedulingSpec, node: &Node, usage: &NodeUsage) -> i64 {
        if self.is_skipped(spec) {
            return 0;
        }
        let (mut before, mut after) = (SmallVec::<[f64; 4]>::new(), SmallVec::<[f64; 4]>::new());
        for &resource in &self.resources {
            let (allocatable, requested) =
                (node.allocatable.get(resource), spec.balanced_requests.get(resource));
            if allocatable == 0 || (requested == 0 && matches!(resource, Resource::Scalar(_))) {
                continue;
            }
            let used = usage.requested.get(resource);
            before.push((used as f64 / allocatable as f64).min(1.0));
            after.push((used.wrapping_add(requested) as f64 / allocatable as f64).min(1.0));
        }
        if self.version < Version::V1_36 {
            return balanced_resource_score(&after);
        }
        let gain = balanced_resource_score(&after).wrapping_sub(balanced_resource_score(&before));
        MAX_NODE_SCORE / 2 + gain.wrapping_add(MAX_NODE_SCORE / 2) / 2
    }
}

/// From 50 to 100: the less the fractions differ, the more. The order of floating-point operations is part of the
/// result.
fn balanced_resource_score(fractions: &[f64]) -> i64 {
    let deviation = match fractions {
        [] | [_] => 0.0,
        [a, b] => ((a - b) / 2.0).abs(),
        _ => {
            let count = fractions.len() as f64;
            let mean = fractions.iter().fold(0.0, |sum, fraction| sum + fraction) / count;
            let squares =
                fractions.iter().fold(0.0, |sum, fraction| sum + (fraction - mean) * (fraction - mean));
            (squares / count).sqrt()
        }
    };
    ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
}
