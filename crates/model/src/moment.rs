//! Points in time and the spans between them.

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;

/// A point in time: nanoseconds since 1970, negative before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(i64);

/// The error for a text that is not a time with an offset, or lies outside the years 1677 to 2262, the range of `i64`
/// nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid time \"{text}\": expected a time such as 2026-11-01T14:03:00Z between the years 1677 and 2262"
)]
pub struct BadMoment {
    /// The rejected text.
    pub text: String,
}

/// A time range: `from` is inclusive, `to` exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The first moment inside.
    pub from: Moment,
    /// The first moment after.
    pub to: Moment,
}

// === impl Moment ===

impl Moment {
    /// The earliest moment.
    pub const MIN: Moment = Moment(i64::MIN);
    /// The latest moment.
    pub const MAX: Moment = Moment(i64::MAX);

    /// From nanoseconds since 1970.
    pub const fn from_nanos(nanos: i64) -> Moment {
        Moment(nanos)
    }

    /// From microseconds since 1970; `None` outside the years 1677 to 2262.
    pub fn from_micros(micros: i64) -> Option<Moment> {
        micros.checked_mul(1_000).map(Moment)
    }

    /// Nanoseconds since 1970.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Nanoseconds from `earlier` to this moment; negative if `earlier` is later.
    pub const fn nanos_since(self, earlier: Moment) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// This moment shifted by `nanos` nanoseconds, saturating at [`MIN`](Moment::MIN) and [`MAX`](Moment::MAX).
    #[must_use]
    pub const fn plus_nanos(self, nanos: i64) -> Moment {
        Moment(self.0.saturating_add(nanos))
    }

    /// The moment as a [`Timestamp`], for calendar arithmetic.
    pub fn timestamp(self) -> Timestamp {
        Timestamp::from_nanosecond(i128::from(self.0)).expect("every i64 of nanoseconds is a timestamp")
    }
}

impl From<Timestamp> for Moment {
    /// Timestamps outside the range of `i64` nanoseconds saturate.
    fn from(timestamp: Timestamp) -> Moment {
        let nanos = timestamp.as_nanosecond();
        Moment(i64::try_from(nanos).unwrap_or(if nanos < 0 { i64::MIN } else { i64::MAX }))
    }
}

impl FromStr for Moment {
    type Err = BadMoment;

    fn from_str(text: &str) -> Result<Moment, BadMoment> {
        let bad = || BadMoment { text: text.to_owned() };
        let nanos = text.parse::<Timestamp>().map_err(|_| bad())?.as_nanosecond();
        i64::try_from(nanos).map(Moment).map_err(|_| bad())
    }
}

impl fmt::Display for Moment {
    /// RFC 3339 in UTC, with as many fractional digits as needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timestamp().fmt(f)
    }
}

// === impl Window ===

impl Window {
    /// All of time except its last nanosecond.
    pub const ALL: Window = Window { from: Moment::MIN, to: Moment::MAX };

    /// Whether the moment lies inside.
    pub fn contains(&self, moment: Moment) -> bool {
        self.from <= moment && moment < self.to
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_moment_reads_any_offset_and_prints_utc() {
        let moment: Moment = "2026-11-01T15:03:00.5+01:00".parse().unwrap();
        assert_eq!(moment.to_string(), "2026-11-01T14:03:00.5Z");
        assert_eq!(moment.nanos(), 1_793_541_780_500_000_000);
    }

    #[test]
    fn a_time_without_offset_or_beyond_nanoseconds_is_refused() {
        for text in ["2026-11-01T15:03:00", "yesterday", "", "9999-01-01T00:00:00Z", "1500-01-01T00:00:00Z"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn printing_and_reading_is_the_identity(nanos: i64) {
            let moment = Moment::from_nanos(nanos);
            prop_assert_eq!(moment.to_string().parse::<Moment>().unwrap(), moment);
        }
    }
}
