//! Parser for times as users type them: `-2h`, `15:04`, `now`, `start`, `2026-11-01T14:03Z`.

use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, SpanTotal, Unit};

use crate::Moment;

/// Parser for user-supplied times. Relative times count from the history's end, not from the wall clock: in a history
/// that ended last week, `-2h` means two hours before that end.
#[derive(Clone, Debug)]
pub struct TimeParser {
    /// The first moment of the history.
    pub start: Moment,
    /// The last moment of the history.
    pub end: Moment,
    /// The user's time zone, for times without an offset.
    pub zone: TimeZone,
}

/// The error for a text that is not a time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid time \"{text}\": expected 2026-11-01T14:03Z, 2026-11-01 14:03, 2026-11-01, 14:03, -2h30m, start, end or now"
)]
pub struct BadTime {
    /// The rejected text.
    pub text: String,
}

impl TimeParser {
    /// Parses a time.
    ///
    /// A clock time is its last occurrence not after the history's end; a date is its first moment. Both, and
    /// date-times without an offset, are in the user's time zone.
    pub fn parse(&self, text: &str) -> Result<Moment, BadTime> {
        let text = text.trim();
        match text {
            "start" => return Ok(self.start),
            "end" | "now" => return Ok(self.end),
            _ => {}
        }
        let found = if let Some(back) = text.strip_prefix('-') {
            parse_duration_nanos(back).map(|nanos| self.end.plus_nanos(-nanos))
        } else if let Some(onward) = text.strip_prefix("start+") {
            parse_duration_nanos(onward).map(|nanos| self.start.plus_nanos(nanos))
        } else {
            self.with_offset(text).or_else(|| self.local_datetime(text)).or_else(|| self.clock_time(text))
        };
        found.ok_or_else(|| BadTime { text: text.to_owned() })
    }

    /// RFC 3339; seconds may be omitted.
    fn with_offset(&self, text: &str) -> Option<Moment> {
        text.parse().ok()
    }

    fn local_datetime(&self, text: &str) -> Option<Moment> {
        // A date alone also parses as a date and time; `clock_time` handles text without a date.
        let datetime = text.parse::<DateTime>().ok().or_else(|| text.parse::<Date>().ok().map(Date::into))?;
        Some(self.zone.to_timestamp(datetime).ok()?.into())
    }

    fn clock_time(&self, text: &str) -> Option<Moment> {
        let time: Time = text.parse().ok()?;
        let mut date = self.end.timestamp().to_zoned(self.zone.clone()).date();
        // Going back up to two days skips a time that a daylight-saving change omits.
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
fn parse_duration_nanos(text: &str) -> Option<i64> {
    let span: Span = text.parse().ok()?;
    let nanos = span.total(SpanTotal::from(Unit::Nanosecond).days_are_24_hours()).ok()?;
    // A float-to-integer cast saturates; a length beyond 292 years is rejected.
    (0.0..9.2e18).contains(&nanos).then_some(nanos as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::{self, TimeZone};

    #[track_caller]
    fn check(text: &str, expected: Option<&str>) {
        let parser = TimeParser {
            start: "2026-11-01T08:00:00Z".parse().unwrap(),
            end: "2026-11-01T14:30:00Z".parse().unwrap(),
            zone: TimeZone::fixed(tz::offset(2)),
        };
        let found = parser.parse(text).ok().map(|moment| moment.to_string());
        assert_eq!(found.as_deref(), expected, "{text}");
    }

    #[test]
    fn relative_times_count_from_the_ends_of_the_history() {
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
