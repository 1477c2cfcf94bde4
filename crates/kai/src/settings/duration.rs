//! Durations with days and weeks, as plugin arguments may have.

use kubernetes::go::duration;

const HOURS: [(char, f64); 2] = [('d', 24.0), ('w', 168.0)];

/// The nanoseconds of a duration such as `1w2d3h`; `None` if it is malformed.
pub(crate) fn parse_long_duration(text: &str) -> Option<i64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut total = 0_i64;
    let mut has_long_unit = false;
    while let Some(end) = rest.find(|c: char| c != '.' && !c.is_ascii_digit()) {
        let unit = rest[end..].chars().next()?;
        let Some((_, hours)) = HOURS.into_iter().find(|(name, _)| *name == unit) else { break };
        let number: f64 = rest[..end].parse().ok()?;
        let nanos = number * hours * 3600e9;
        if !(0.0..9.2e18).contains(&nanos) {
            return None;
        }
        total = total.checked_add(nanos as i64)?;
        has_long_unit = true;
        rest = &rest[end + 1..];
    }
    if !has_long_unit {
        return duration::parse(text);
    }
    let short = if rest.is_empty() { 0 } else { duration::parse(rest).filter(|nanos| *nanos >= 0)? };
    total.checked_add(short).map(|nanos| sign * nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_weeks_precede_hours() {
        let hour = 3_600_000_000_000;
        assert_eq!(parse_long_duration("1d"), Some(24 * hour));
        assert_eq!(parse_long_duration("1w1.5d2h"), Some((168 + 36 + 2) * hour));
        assert_eq!(parse_long_duration("-1d1h"), Some(-25 * hour));
        assert_eq!(parse_long_duration("20m"), Some(hour / 3));
        for text in ["", "d", "1x", "1d-1h", "99999999999w", "1dd"] {
            assert_eq!(parse_long_duration(text), None, "{text}");
        }
    }
}
