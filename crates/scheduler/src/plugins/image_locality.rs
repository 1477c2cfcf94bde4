//! ImageLocality: prefers nodes that have the pod's images, by size; scaled down if few nodes have them, to avoid hot
//! spots.

use super::registration::Registration;
use crate::cache::ImageStates;
use crate::plugin::ExtensionPoint;
use crate::pod::SchedulingSpec;
use crate::settings::Version;

pub(crate) const REGISTRATION: Registration =
    Registration { weight: 1, ..Registration::new("ImageLocality", |_| &[ExtensionPoint::Score]) };

const MIB: i64 = 1 << 20;
const MIN_THRESHOLD: i64 = 23 * MIB;
const MAX_CONTAINER_THRESHOLD: i64 = 1000 * MIB;

/// From 0 to 100, in a cluster of so many nodes.
pub(crate) fn score(spec: &SchedulingSpec, images: &ImageStates, nodes: usize, version: Version) -> i64 {
    let containers = spec.container_count as i64;
    let names =
        if version >= Version::V1_36 { &spec.images[..] } else { &spec.images[..spec.container_count] };
    let mut sum = 0_i64;
    if !images.is_empty() {
        for (size, node_count) in names.iter().filter_map(|name| images.get(name)) {
            let spread = f64::from(node_count) / nodes as f64;
            sum = sum.wrapping_add((size as f64 * spread) as i64);
        }
    }
    let max_sum = MAX_CONTAINER_THRESHOLD.wrapping_mul(containers);
    let sum = if sum < MIN_THRESHOLD { MIN_THRESHOLD } else { sum.min(max_sum) };
    100_i64.wrapping_mul(sum - MIN_THRESHOLD).checked_div(max_sum - MIN_THRESHOLD).unwrap_or(0)
}
