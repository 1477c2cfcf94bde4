//! Likes nodes on which no resource runs out before the others.

use std::sync::Arc;

use kubernetes::amounts::{Resource, ScalarNames};
use smallvec::SmallVec;

use super::registration::Registration;
use crate::node::{Load, NodeSpec};
use crate::plugin::ExtensionPoint;
use crate::pod::Shape;
use crate::settings::Version;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "NodeResourcesBalancedAllocation",
    points: |_| &[ExtensionPoint::PreScore, ExtensionPoint::Score],
    weight: 1,
    ..Registration::EMPTY
};

/// What a profile balances.
#[derive(Clone, Debug)]
pub(crate) struct Balance {
    resources: Vec<Resource>,
    version: Version,
}

const MOST: i64 = 100;

impl Balance {
    pub(crate) fn new(names: &[Arc<str>], version: Version, scalars: &mut ScalarNames) -> Balance {
        Balance { resources: names.iter().map(|name| scalars.resource(name)).collect(), version }
    }

    /// Whether it does not matter to a pod that asks for nothing. Before 1.33 it did.
    pub(crate) fn is_skipped(&self, shape: &Shape) -> bool {
        self.version >= Version::V1_33
            && self.resources.iter().all(|resource| shape.balanced_requests.get(*resource) == 0)
    }

    /// How much more evenly the node would be used with the pod than without; before 1.36, how evenly.
    pub(crate) fn score(&self, shape: &Shape, node: &NodeSpec, load: &Load) -> i64 {
        if self.is_skipped(shape) {
            return 0;
        }
        let (mut before, mut after) = (SmallVec::<[f64; 4]>::new(), SmallVec::<[f64; 4]>::new());
        for &resource in &self.resources {
            let (has, wanted) = (node.allocatable.get(resource), shape.balanced_requests.get(resource));
            if has == 0 || (wanted == 0 && matches!(resource, Resource::Scalar(_))) {
                continue;
            }
            let used = load.requested.get(resource);
            before.push((used as f64 / has as f64).min(1.0));
            after.push((used.wrapping_add(wanted) as f64 / has as f64).min(1.0));
        }
        if self.version < Version::V1_36 {
            return evenness(&after);
        }
        let gain = evenness(&after).wrapping_sub(evenness(&before));
        MOST / 2 + gain.wrapping_add(MOST / 2) / 2
    }
}

/// From 50 to 100: the less the fractions differ, the more. The order of operations is part of the result.
fn evenness(fractions: &[f64]) -> i64 {
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
    ((1.0 - deviation) * MOST as f64) as i64
}
