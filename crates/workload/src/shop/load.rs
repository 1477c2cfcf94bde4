//! The shop's number of visitors by time of day, and the replicas that serve them.

use super::inventory::{SERVICES, STOREFRONT, ServiceSpec};
use crate::objects::SECOND;

/// Hours of the day, each with the number of visitors relative to the night's.
const VISITORS: [(f64, f64); 10] = [
    (0.0, 1.0),
    (6.0, 1.0),
    (8.0, 1.6),
    (10.0, 2.2),
    (12.0, 2.6),
    (13.0, 2.5),
    (15.0, 2.2),
    (17.5, 2.6),
    (19.0, 2.0),
    (24.0, 1.0),
];

/// Services that scale with the number of visitors, each with its share of a sale's additional load.
const SCALED_SERVICES: [(&str, f64); 6] = [
    (STOREFRONT, 1.0),
    ("checkout", 1.3),
    ("payments", 0.6),
    ("catalog", 0.4),
    ("search", 0.3),
    ("notifications", 0.2),
];

/// The services that scale with the number of visitors.
pub(super) fn scaled_services() -> impl Iterator<Item = (&'static ServiceSpec, f64)> {
    SCALED_SERVICES
        .iter()
        .filter_map(|(name, feels)| Some((SERVICES.iter().find(|service| service.name == *name)?, *feels)))
}

/// The replicas a service needs at a time of day, in nanoseconds since midnight. `sale` is the progress of the sale
/// from 0 to 1, and `daily_factor` the number of visitors today relative to the usual number.
pub(super) fn needed_replicas(
    service: &ServiceSpec,
    sale_share: f64,
    since_midnight: i64,
    sale: f64,
    daily_factor: f64,
) -> i64 {
    let hour = since_midnight as f64 / (3_600 * SECOND) as f64;
    let visitors = visitors(hour) * daily_factor + 1.9 * sale * sale_share;
    (service.replicas as f64 * visitors).round() as i64
}

fn visitors(hour: f64) -> f64 {
    let pairs = VISITORS.iter().zip(&VISITORS[1..]);
    let found = pairs.into_iter().find(|((from, _), (to, _))| (*from..*to).contains(&hour));
    found.map_or(1.0, |((from, few), (to, many))| few + (many - few) * (hour - from) / (to - from))
}
