//! Texts of JSON whose schema has a format that is a type of its own: durations, dates, moments, bytes. The errors are those
//! of Kubernetes.

use jiff::civil::Date;
use kubernetes::go::{base64, timestamp};

use super::zoned_moment::ZonedMoment;
use crate::structural::parse_duration;

/// A duration in nanoseconds.
pub(super) fn duration(text: &str) -> Result<i64, String> {
    parse_duration(text).ok_or_else(|| format!("Invalid duration {text}"))
}

/// The beginning of a date.
pub(super) fn date(text: &str) -> Result<ZonedMoment, String> {
    let date = text.parse::<Date>().ok().and_then(ZonedMoment::of_date);
    date.ok_or_else(|| format!("Invalid date formatted string {text}"))
}

/// A moment in RFC 3339; the empty text is the beginning of 1970.
pub(super) fn date_time(text: &str) -> Result<ZonedMoment, String> {
    let moment = if text.is_empty() { ZonedMoment::new(0, 0) } else { ZonedMoment::parse(text) };
    moment.ok_or_else(|| {
        // The last of the layouts that are tried is the one that is reported.
        let why = timestamp::check(text, "2006-01-02T15:04:05").err().unwrap_or_default();
        format!("Invalid date-time formatted string {text}: {why}")
    })
}

/// The bytes of base64.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, String> {
    base64::decode(text).ok_or_else(|| format!("Invalid byte formatted string {text}"))
}
