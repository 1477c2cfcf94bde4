//! The syntax of cron schedules, with the messages of the parser that Kubernetes uses.

use kubernetes::go::duration;

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The allowed numbers of a field and the names for them, the first of which is the lowest number.
struct FieldBounds {
    min: u64,
    max: u64,
    names: &'static [&'static str],
}

const FIELDS: [FieldBounds; 5] = [
    FieldBounds { min: 0, max: 59, names: &[] },
    FieldBounds { min: 0, max: 23, names: &[] },
    FieldBounds { min: 1, max: 31, names: &[] },
    FieldBounds { min: 1, max: 12, names: &MONTHS },
    FieldBounds { min: 0, max: 6, names: &DAYS },
];

/// Checks a schedule such as `*/5 0-8 1,15 jan ?` or `@hourly`. A time zone in front is not checked.
pub(super) fn check_schedule(schedule: &str) -> Result<(), String> {
    let mut schedule = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let Some((_, rest)) = schedule.split_once(' ') else {
            let start = schedule.find('=').map_or(0, |at| at + 1);
            return Err(format!(
                "invalid schedule format: runtime error: slice bounds out of range [{start}:-1]"
            ));
        };
        schedule = rest.trim();
    }
    if schedule.starts_with('@') {
        return check_descriptor(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

fn check_descriptor(descriptor: &str) -> Result<(), String> {
    const KNOWN: [&str; 7] =
        ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
    if KNOWN.contains(&descriptor) {
        return Ok(());
    }
    let Some(interval) = descriptor.strip_prefix("@every ") else {
        return Err(format!("unrecognized descriptor: {descriptor}"));
    };
    if duration::parse(interval).is_some() {
        return Ok(());
    }
    Err(format!("failed to parse duration {descriptor}: time: {}", duration_message(interval)))
}

/// The message of Go's `time.ParseDuration` about a text that is no duration.
fn duration_message(text: &str) -> String {
    const UNITS: [&str; 8] = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"];
    let is_number = |letter: char| letter == '.' || letter.is_ascii_digit();
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    while rest.starts_with(is_number) {
        rest = rest.trim_start_matches(is_number);
        let (unit, after) = rest.split_at(rest.find(is_number).unwrap_or(rest.len()));
        if unit.is_empty() {
            return format!("missing unit in duration {text:?}");
        }
        if !UNITS.contains(&unit) {
            return format!("unknown unit {unit:?} in duration {text:?}");
        }
        rest = after;
    }
    format!("invalid duration {text:?}")
}

fn check_range(range: &str, bounds: &FieldBounds) -> Result<(), String> {
    let mut parts = range.split('/');
    let (limits, step) = (parts.next().unwrap_or_default(), parts.next());
    let ends: Vec<&str> = limits.split('-').collect();
    let (start, mut end) = match ends[..] {
        ["*" | "?", ..] => (bounds.min, bounds.max),
        [only] => {
            let number = number(only, bounds)?;
            (number, number)
        }
        [start, end] => (number(start, bounds)?, number(end, bounds)?),
        _ => {
            number(ends[0], bounds)?;
            return Err(format!("too many hyphens: {range}"));
        }
    };
    let step = match step {
        None => 1,
        Some(step) => {
            if parts.next().is_some() {
                return Err(format!("too many slashes: {range}"));
            }
            if ends.len() == 1 {
                end = bounds.max;
            }
            parse_number(step)?
        }
    };
    let FieldBounds { min, max, .. } = bounds;
    if start < *min {
        return Err(format!("beginning of range ({start}) below minimum ({min}): {range}"));
    }
    if end > *max {
        return Err(format!("end of range ({end}) above maximum ({max}): {range}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn number(text: &str, bounds: &FieldBounds) -> Result<u64, String> {
    let name = bounds.names.iter().position(|name| text.eq_ignore_ascii_case(name));
    name.map_or_else(|| parse_number(text), |index| Ok(bounds.min + index as u64))
}

/// Parses as Go's `strconv.Atoi`.
fn parse_number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let why = match text.parse::<i64>() {
        Ok(number) if is_number && number >= 0 => return Ok(number as u64),
        Ok(number) if is_number => return Err(format!("negative number ({number}) not allowed: {text}")),
        _ if is_number => "value out of range",
        _ => "invalid syntax",
    };
    Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_schedules_are_valid() {
        for schedule in [
            "* * * * *",
            "*/5 0-8 1,15 jan ?",
            "0 0 31 DEC sat",
            "@hourly",
            "@every 1h30m",
            "TZ=UTC 0 0 * * *",
        ] {
            assert_eq!(check_schedule(schedule), Ok(()), "{schedule}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        let message = |schedule| check_schedule(schedule).unwrap_err();
        assert_eq!(message("* * *"), "expected exactly 5 fields, found 3: [* * *]");
        assert_eq!(message("60 * * * *"), "end of range (60) above maximum (59): 60");
        assert_eq!(message("* * 0 * *"), "beginning of range (0) below minimum (1): 0");
        assert_eq!(message("5-3 * * * *"), "beginning of range (5) beyond end of range (3): 5-3");
        assert_eq!(message("*/0 * * * *"), "step of range should be a positive number: */0");
        assert_eq!(message("1-2-3 * * * *"), "too many hyphens: 1-2-3");
        assert_eq!(message("1/2/3 * * * *"), "too many slashes: 1/2/3");
        assert_eq!(
            message("x * * * *"),
            "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"
        );
        assert_eq!(message("@often"), "unrecognized descriptor: @often");
    }
}
