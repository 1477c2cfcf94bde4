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

/// A moment as a `MicroTime`, such as the `eventTime` of Events: always with six digits of a second, because Go parses no
/// other number of them.
pub fn micro_time(moment: Moment) -> String {
    let micros = moment.nanos().rem_euclid(1_000_000_000) / 1_000;
    format!("{}.{micros:06}Z", whole_second(moment).to_string().trim_end_matches('Z'))
}

/// Seconds in nanoseconds.
pub const fn seconds(seconds: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_micro_time_has_six_digits() {
        let text = |nanos| micro_time(Moment::from_nanos(nanos));
        assert_eq!(text(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(1_284_000_999), "1970-01-01T00:00:01.284000Z");
        assert_eq!(text(-1), "1969-12-31T23:59:59.999999Z");
    }
}
