//! How many visitors the shop has by the time of day, and how many pods that takes.

use super::inventory::{FRONT, SERVICES, Service};
use crate::objects::SECOND;

/// Hours of the day, and how many times as many visitors as by night.
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

/// Services that grow with the number of visitors, and how much of a sale they feel.
const FOLLOWERS: [(&str, f64); 6] = [
    (FRONT, 1.0),
    ("checkout", 1.3),
    ("payments", 0.6),
    ("catalog", 0.4),
    ("search", 0.3),
    ("notifications", 0.2),
];

/// Those that follow the visitors.
pub(super) fn followers() -> impl Iterator<Item = (&'static Service, f64)> {
    FOLLOWERS
        .iter()
        .filter_map(|(name, feels)| Some((SERVICES.iter().find(|service| service.name == *name)?, *feels)))
}

/// How many pods a service takes at a time of day, in nanoseconds since midnight. `sale` is how far a sale has come, from
/// nothing to all of it, and `luck` how the visitors of the day differ from those of others.
pub(super) fn replicas(service: &Service, feels: f64, since_midnight: i64, sale: f64, luck: f64) -> i64 {
    let hour = since_midnight as f64 / (3_600 * SECOND) as f64;
    let visitors = visitors(hour) * luck + 1.9 * sale * feels;
    (service.replicas as f64 * visitors).round() as i64
}

fn visitors(hour: f64) -> f64 {
    let pairs = VISITORS.iter().zip(&VISITORS[1..]);
    let found = pairs.into_iter().find(|((from, _), (to, _))| (*from..*to).contains(&hour));
    found.map_or(1.0, |((from, few), (to, many))| few + (many - few) * (hour - from) / (to - from))
}
