//! Moments and spans of time.

use std::time::Duration;

use model::Moment;

/// A duration in nanoseconds; one that is too long is as long as can be told.
pub fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// A moment so much later.
pub fn after(moment: Moment, duration: Duration) -> Moment {
    moment.plus_nanos(nanos(duration))
}

/// The second a moment lies in, as Kubernetes writes times: it keeps no fractions.
pub fn whole_second(moment: Moment) -> Moment {
    Moment::from_nanos(seconds(moment.nanos().div_euclid(1_000_000_000)))
}

/// So many seconds in nanoseconds.
pub const fn seconds(seconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000)
}
