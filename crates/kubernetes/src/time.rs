//! Arithmetic on moments and durations.

use std::time::Duration;

use model::Moment;

/// A duration in nanoseconds, saturating.
pub fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// The moment plus a duration.
pub fn after(moment: Moment, duration: Duration) -> Moment {
    moment.plus_nanos(nanos(duration))
}

/// The moment truncated to the second, the resolution in which Kubernetes writes times.
pub fn whole_second(moment: Moment) -> Moment {
    Moment::from_nanos(seconds(moment.nanos().div_euclid(1_000_000_000)))
}

/// Seconds in nanoseconds.
pub const fn seconds(seconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000)
}
