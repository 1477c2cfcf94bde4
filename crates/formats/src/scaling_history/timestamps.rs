//! The times of a scaling history: numbers, whose unit changed once, and texts in Go's formats.

use model::Moment;

/// Go's zero time, which stands for no time, in seconds.
const GO_ZERO: i64 = -62_135_596_800;

/// Numbers from here on are microseconds: as milliseconds they would be after the year 5000. Files up to 2024-10-09
/// have milliseconds.
const FIRST_MICROS: i64 = 100_000_000_000_000;

/// Microseconds since 1970.
pub(crate) fn go_micros(at: Option<Moment>) -> i64 {
    at.map_or(GO_ZERO * 1_000_000, |at| at.nanos().div_euclid(1_000))
}

/// Milliseconds since 1970.
pub(crate) fn go_millis(at: Option<Moment>) -> i64 {
    at.map_or(GO_ZERO * 1_000, |at| at.nanos().div_euclid(1_000_000))
}

/// The time that a number stands for; `None` for Go's zero time, an error if it is out of range.
pub(crate) fn parse_number(number: i64) -> Result<Option<Moment>, String> {
    if number == GO_ZERO * 1_000_000 || number == GO_ZERO * 1_000 {
        return Ok(None);
    }
    let micros = if number >= FIRST_MICROS { Some(number) } else { number.checked_mul(1_000) };
    let at = micros.and_then(Moment::from_micros);
    at.map(Some)
        .ok_or_else(|| format!("invalid time {number}: expected a time between the years 1677 and 2262"))
}

/// A time as Go's SQLite driver writes it.
pub(crate) fn to_text(at: Moment) -> String {
    at.to_string().replace('T', " ").replace('Z', "+00:00")
}

/// Parses a time as Go's SQLite driver does: `2024-05-21 14:13:40.5+00:00`, also with a `T`, without seconds, time or
/// zone (then UTC), and Go's default format, `2024-05-21 14:13:40.5 +0000 UTC m=+0.1`.
pub(crate) fn parse_text(text: &str) -> Result<Moment, String> {
    let invalid = || {
        let text: String = text.chars().take(80).collect();
        format!(
            "invalid time {text:?}: expected a time such as \"2024-05-21 14:13:40+00:00\" between the years 1677 and 2262"
        )
    };
    let text = text.split(" m=").next().unwrap_or_default();
    let (date, rest) = text.split_at_checked(10).ok_or_else(invalid)?;
    let rest = rest.strip_prefix([' ', 'T']).unwrap_or(rest);
    let end = rest.find(|c: char| !(c.is_ascii_digit() || c == ':' || c == '.')).unwrap_or(rest.len());
    let (time, zone) = rest.split_at(end);
    let seconds = match time.len() {
        0 => "00:00:00",
        5 => ":00",
        _ => "",
    };
    // The zone's name after its offset is redundant.
    let zone = zone.trim_start().split(' ').next().unwrap_or_default();
    let zone = if zone.is_empty() || zone == "UTC" { "Z" } else { zone };
    format!("{date}T{time}{seconds}{zone}").parse().map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_micros_or_millis_by_their_size() {
        let at = |number| parse_number(number).unwrap().map(|at| at.to_string());
        assert_eq!(at(1_728_600_000_000_001).as_deref(), Some("2024-10-10T22:40:00.000001Z"));
        assert_eq!(at(1_728_600_000_001).as_deref(), Some("2024-10-10T22:40:00.001Z"));
        assert_eq!(at(-62_135_596_800_000_000), None);
        assert_eq!(at(go_millis(None)), None);
        assert!(parse_number(i64::MAX).is_err());
        assert!(parse_number(i64::MIN).is_err());
    }

    #[test]
    fn texts_are_read_in_all_forms_that_go_prints() {
        let read = |text: &str| parse_text(text).unwrap().to_string();
        assert_eq!(read("2024-05-21 14:13:40+00:00"), "2024-05-21T14:13:40Z");
        assert_eq!(read("2024-05-21T14:13:40.123456+05:30"), "2024-05-21T08:43:40.123456Z");
        assert_eq!(read("2024-05-21 14:13:40.5"), "2024-05-21T14:13:40.5Z");
        assert_eq!(read("2024-05-21T14:13:40Z"), "2024-05-21T14:13:40Z");
        assert_eq!(read("2024-05-21 14:13"), "2024-05-21T14:13:00Z");
        assert_eq!(read("2024-05-21"), "2024-05-21T00:00:00Z");
        assert_eq!(read("2024-05-21 19:43:40.5 +0530 IST m=+0.001"), "2024-05-21T14:13:40.5Z");
        assert_eq!(read("2024-05-21 14:13:40 +0000 UTC"), "2024-05-21T14:13:40Z");
        for bad in
            ["", "soon", "2024-05-21 25:00:00", "2024-13-01", "9999-01-01 00:00:00", "2024-05-2é 14:13"]
        {
            assert!(parse_text(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_text_is_written_as_the_driver_writes_it() {
        let written = |text: &str| to_text(text.parse().unwrap());
        assert_eq!(written("2024-05-21T14:13:40.123456000Z"), "2024-05-21 14:13:40.123456+00:00");
        assert_eq!(written("2024-05-21T14:13:40Z"), "2024-05-21 14:13:40+00:00");
    }
}
