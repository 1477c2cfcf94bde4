//! Likes nodes that have the images, the larger the more; less if only few nodes have them, lest all pods go there.

use super::registration::Registration;
use crate::plugin::ExtensionPoint;
use crate::pod::Shape;
use crate::settings::Version;
use crate::world::ImageView;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "ImageLocality",
    points: |_| &[ExtensionPoint::Score],
    weight: 1,
    ..Registration::EMPTY
};

const MIB: i64 = 1 << 20;
const LEAST: i64 = 23 * MIB;
const MOST_EACH: i64 = 1000 * MIB;

/// From 0 to 100, in a cluster of so many nodes.
pub(crate) fn score(shape: &Shape, images: &ImageView, nodes: usize, version: Version) -> i64 {
    let containers = shape.containers as i64;
    let names = if version >= Version::V1_36 { &shape.images[..] } else { &shape.images[..shape.containers] };
    let mut sum = 0_i64;
    if !images.is_empty() {
        for (size, on) in names.iter().filter_map(|name| images.get(name)) {
            let spread = f64::from(on) / nodes as f64;
            sum = sum.wrapping_add((size as f64 * spread) as i64);
        }
    }
    let most = MOST_EACH.wrapping_mul(containers);
    let sum = if sum < LEAST { LEAST } else { sum.min(most) };
    100_i64.wrapping_mul(sum - LEAST).checked_div(most - LEAST).unwrap_or(0)
}
