//! The times a user types: `-2h`, `15:04`, `now`, `start`, `2026-11-01T14:03Z`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, SpanTotal, Unit};

use crate::Moment;

/// What the words are relative to. They count from the history's end, not from the clock on the wall: a history
/// that ended last week is still looked at by `-2h`.
#[derive(Clone, Debug)]
pub struct TimeWords {
    /// The first moment of the history.
    pub start: Moment,
    /// The last moment of the history.
    pub end: Moment,
    /// The user's time zone, for times without an offset.
    pub zone: TimeZone,
}

/// A text that names no time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{text}\" is not a time: give 2026-11-01T14:03Z, 2026-11-01 14:03, 2026-11-01, 14:03, -2h30m, start, end or now"
)]
pub struct BadTime {
    /// What was given.
    pub text: String,
}

impl TimeWords {
    /// The moment a user means.
    ///
    /// A clock time is the last such time not after the history's end; a date is its first moment; both, and dates
    /// with a time but no offset, are in the user's zone.
    pub fn read(&self, text: &str) -> Result<Moment, BadTime> {
        let text = text.trim();
        match text {
            "start" => return Ok(self.start),
            "end" | "now" => return Ok(self.end),
            _ => {}
        }
        let found = if let Some(back) = text.strip_prefix('-') {
            length(back).map(|nanos| self.end.plus_nanos(-nanos))
        } else if let Some(onward) = text.strip_prefix("start+") {
            length(onward).map(|nanos| self.start.plus_nanos(nanos))
        } else {
            self.with_offset(text).or_else(|| self.local(text)).or_else(|| self.clock(text))
        };
        found.ok_or_else(|| BadTime { text: text.to_owned() })
    }

    /// RFC 3339, also with the seconds left out.
    fn with_offset(&self, text: &str) -> Option<Moment> {
        text.parse().ok()
    }

    fn local(&self, text: &str) -> Option<Moment> {
        // A date alone also parses as a date and time; `clock` handles what has no date.
        let datetime = text.parse::<DateTime>().ok().or_else(|| text.parse::<Date>().ok().map(Date::into))?;
        Some(self.zone.to_timestamp(datetime).ok()?.into())
    }

    fn clock(&self, text: &str) -> Option<Moment> {
        let time: Time = text.parse().ok()?;
        let mut date = self.end.timestamp().to_zoned(self.zone.clone()).date();
        // Two days back reach over a time that a daylight-saving change left out.
        for _ in 0..3 {
            let moment = Moment::from(self.zone.to_timestamp(date.to_datetime(time)).ok()?);
            if moment <= self.end {
                return Some(moment);
            }
            date = date.yesterday().ok()?;
        }
        None
    }
}

/// `2h`, `1d12h`, `90s`: nanoseconds. A day is 24 hours.
fn length(text: &str) -> Option<i64> {
    let span: Span = text.parse().ok()?;
    let nanos = span.total(SpanTotal::from(Unit::Nanosecond).days_are_24_hours()).ok()?;
    // Float to integer saturates; a length beyond 292 years is no length.
    (0.0..9.2e18).contains(&nanos).then_some(nanos as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::{self, TimeZone};

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let words = TimeWords {
            start: "2026-11-01T08:00:00Z".parse().unwrap(),
            end: "2026-11-01T14:30:00Z".parse().unwrap(),
            zone: TimeZone::fixed(tz::offset(2)),
        };
        let found = words.read(text).ok().map(|moment| moment.to_string());
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    #[test]
    fn words_count_from_the_ends_of_the_history() {
        check("start", Some("2026-11-01T08:00:00Z"));
        check("end", Some("2026-11-01T14:30:00Z"));
        check(" now ", Some("2026-11-01T14:30:00Z"));
        check("-2h", Some("2026-11-01T12:30:00Z"));
        check("-1d2h", Some("2026-10-31T12:30:00Z"));
        check("-1w", Some("2026-10-25T14:30:00Z"));
        check("-90s", Some("2026-11-01T14:28:30Z"));
        check("-500ms", Some("2026-11-01T14:29:59.5Z"));
        check("start+1h30m", Some("2026-11-01T09:30:00Z"));
    }

    #[test]
    fn a_clock_time_is_the_last_such_time_in_the_users_zone() {
        check("16:30", Some("2026-11-01T14:30:00Z"));
        check("16:31", Some("2026-10-31T14:31:00Z"));
        check("09:15:30", Some("2026-11-01T07:15:30Z"));
    }

    #[test]
    fn dates_and_full_times() {
        check("2026-11-01T14:03:00Z", Some("2026-11-01T14:03:00Z"));
        check("2026-11-01T14:03Z", Some("2026-11-01T14:03:00Z"));
        check("2026-11-01T14:03:00.123456789+01:00", Some("2026-11-01T13:03:00.123456789Z"));
        check("2026-11-01 14:03", Some("2026-11-01T12:03:00Z"));
        check("2026-11-01T14:03:05", Some("2026-11-01T12:03:05Z"));
        check("2026-11-01", Some("2026-10-31T22:00:00Z"));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "-",
            "--2h",
            "-2",
            "tomorrow",
            "25:00",
            "2026-13-01",
            "-99999999999h",
            "1e9",
            "-P9999999999Y",
        ] {
            check(text, None);
        }
    }
}
