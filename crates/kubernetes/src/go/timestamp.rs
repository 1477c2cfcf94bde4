//! The errors of Go's `time.Parse` for the two layouts in which Kubernetes writes times.

use std::fmt::Write;

/// The layout of a `Time`, RFC 3339.
pub const TIME_LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
/// The layout of a `MicroTime`.
pub const MICRO_TIME_LAYOUT: &str = "2006-01-02T15:04:05.000000Z07:00";

/// The parts of both layouts.
const PARTS: [&str; 13] =
    ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05", ".000000", "Z07:00"];

/// Checks a time by one of the two layouts; the error is Go's message.
pub fn check(text: &str, layout: &str) -> Result<(), String> {
    let out_of_range = |what: &str| format!("parsing time {}: {what} out of range", quote(text));
    let mut rest = text;
    let (mut year, mut month, mut day) = (0, 0, 0);
    for part in PARTS.into_iter().filter(|part| layout.contains(part)) {
        let wrong = || {
            let (text, layout) = (quote(text), quote(layout));
            format!("parsing time {text} as {layout}: cannot parse {} as {}", quote(rest), quote(part))
        };
        let after = match part {
            "2006" => {
                let (number, after) = digits(rest, 4, 4).ok_or_else(wrong)?;
                year = number;
                after
            }
            "01" => {
                let (number, after) = digits(rest, 2, 2).ok_or_else(wrong)?;
                month = number;
                if !(1..=12).contains(&month) {
                    return Err(out_of_range("month"));
                }
                after
            }
            "02" => {
                let (number, after) = digits(rest, 2, 2).ok_or_else(wrong)?;
                day = number;
                after
            }
            "15" => {
                let (hour, after) = digits(rest, 1, 2).ok_or_else(wrong)?;
                if hour > 23 {
                    return Err(out_of_range("hour"));
                }
                after
            }
            "04" | "05" => {
                let (number, after) = digits(rest, 2, 2).ok_or_else(wrong)?;
                if number > 59 {
                    return Err(out_of_range(if part == "04" { "minute" } else { "second" }));
                }
                // A fraction of a second may follow even if the layout has none.
                if part == "05" && layout == TIME_LAYOUT { without_fraction(after) } else { after }
            }
            ".000000" => {
                let fraction = rest.strip_prefix(['.', ',']).ok_or_else(wrong)?;
                digits(fraction, 6, 6).ok_or_else(wrong)?.1
            }
            "Z07:00" => after_zone(rest).map_err(|range| range.map_or_else(wrong, out_of_range))?,
            literal => rest.strip_prefix(literal).ok_or_else(wrong)?,
        };
        rest = after;
    }
    if !rest.is_empty() {
        return Err(format!("parsing time {}: extra text: {}", quote(text), quote(rest)));
    }
    if day < 1 || day > days_in(year, month) {
        return Err(out_of_range("day"));
    }
    Ok(())
}

/// The number at the beginning of a text, with this many digits, and the text after it.
fn digits(text: &str, least: usize, most: usize) -> Option<(u32, &str)> {
    let count = text.bytes().take(most).take_while(u8::is_ascii_digit).count();
    let number = text[..count].parse().ok().filter(|_| count >= least)?;
    Some((number, &text[count..]))
}

fn without_fraction(text: &str) -> &str {
    match text.strip_prefix(['.', ',']) {
        Some(fraction) if fraction.starts_with(|digit: char| digit.is_ascii_digit()) => {
            fraction.trim_start_matches(|digit: char| digit.is_ascii_digit())
        }
        _ => text,
    }
}

/// The text after a time zone. The error is what is out of range, or none if it is no time zone.
fn after_zone(text: &str) -> Result<&str, Option<&'static str>> {
    if let Some(rest) = text.strip_prefix('Z') {
        return Ok(rest);
    }
    let parse = || {
        let (hours, rest) = digits(text.strip_prefix(['+', '-'])?, 2, 2)?;
        let (minutes, rest) = digits(rest.strip_prefix(':')?, 2, 2)?;
        Some((hours, minutes, rest))
    };
    match parse().ok_or(None)? {
        (25.., _, _) => Err(Some("time zone offset hour")),
        (_, 61.., _) => Err(Some("time zone offset minute")),
        (_, _, rest) => Ok(rest),
    }
}

fn days_in(year: u32, month: u32) -> u32 {
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// A quoted text as the package `time` prints it.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => quoted.extend(['\\', char::from(byte)]),
            b' '..0x80 => quoted.push(char::from(byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(quoted, "\\x{byte:02x}")),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_those_of_go() {
        // Printed by Go 1.26, without the beginning `parsing time "…" as "…": `.
        for (text, expected) in [
            ("x", "cannot parse \"x\" as \"2006\""),
            ("", "cannot parse \"\" as \"2006\""),
            ("2020-01-01T00:00:00Z", ""),
            ("2020-01-01T00:00:00.000000Z", ""),
            ("2020-01-01T00:00:00,5Z", ""),
            ("2020-01-01T00:00:00.1234567Z", ""),
            ("2020-13-01T00:00:00Z", "month out of range"),
            ("2020-00-01T00:00:00Z", "month out of range"),
            ("2020-02-30T00:00:00Z", "day out of range"),
            ("2024-02-29T00:00:00Z", ""),
            ("1900-02-29T00:00:00Z", "day out of range"),
            ("2020-01-00T00:00:00Z", "day out of range"),
            ("2020-1-01T00:00:00Z", "cannot parse \"1-01T00:00:00Z\" as \"01\""),
            ("2020-01-1T00:00:00Z", "cannot parse \"1T00:00:00Z\" as \"02\""),
            ("2020-01-01 00:00:00Z", "cannot parse \" 00:00:00Z\" as \"T\""),
            ("2020-01-01T0:00:00Z", ""),
            ("2020-01-01T24:00:00Z", "hour out of range"),
            ("2020-01-01T00:60:00Z", "minute out of range"),
            ("2020-01-01T00:00:60Z", "second out of range"),
            ("2020-01-01T00:00:00", "cannot parse \"\" as \"Z07:00\""),
            ("2020-01-01T00:00:00+01:00", ""),
            ("2020-01-01T00:00:00+0100", "cannot parse \"+0100\" as \"Z07:00\""),
            ("2020-01-01T00:00:00+25:00", "time zone offset hour out of range"),
            ("2020-01-01T00:00:00+24:61", "time zone offset minute out of range"),
            ("2020-01-01T00:00:00-24:00", ""),
            ("2020-01-01T00:00:00Zx", "extra text: \"x\""),
            ("2020-01-01T00:00:00.Z", "cannot parse \".Z\" as \"Z07:00\""),
            ("2020-01-01T00:00:00.123456+01:00", ""),
            ("é020-01-01T00:00:00Z", "cannot parse \"\\xc3\\xa9020-01-01T00:00:00Z\" as \"2006\""),
            ("20é0-01-01T00:00:00Z", "cannot parse \"20\\xc3\\xa90-01-01T00:00:00Z\" as \"2006\""),
            ("2020-01-01T00:00:00.12é456Z", "cannot parse \"\\xc3\\xa9456Z\" as \"Z07:00\""),
        ] {
            assert_error(text, TIME_LAYOUT, expected);
        }
        for (text, expected) in [
            ("2020-01-01T00:00:00.000000Z", ""),
            ("2020-01-01T00:00:00,5Z", "cannot parse \",5Z\" as \".000000\""),
            ("2020-01-01T00:00:00.1234567Z", "cannot parse \"7Z\" as \"Z07:00\""),
            ("2020-01-01T00:00:00.Z", "cannot parse \".Z\" as \".000000\""),
            ("2020-01-01T00:00:00.123456+01:00", ""),
            ("2020-01-01T00:00:00.12é456Z", "cannot parse \".12\\xc3\\xa9456Z\" as \".000000\""),
        ] {
            assert_error(text, MICRO_TIME_LAYOUT, expected);
        }
    }

    #[track_caller]
    fn assert_error(text: &str, layout: &str, expected: &str) {
        let found = check(text, layout).err().unwrap_or_default();
        let start = format!("parsing time {}", quote(text));
        let found = found.strip_prefix(&start).unwrap_or(&found);
        let found = found.strip_prefix(&format!(" as {}", quote(layout))).unwrap_or(found);
        assert_eq!(found.strip_prefix(": ").unwrap_or(found), expected, "{text}");
    }
}
