//! Go's `time.Duration` text format: `1h30m`, `-1.5s`, `10ms`.

const LARGEST: u64 = 1 << 63;

/// The nanoseconds that Go's `time.ParseDuration` returns; `None` where it returns an error.
pub fn parse(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0u64;
    while !rest.is_empty() {
        let (nanos, after) = term(rest)?;
        // Go's sum wraps here as well, so two halves of the whole range add up to zero.
        total = total.wrapping_add(nanos);
        if total > LARGEST {
            return None;
        }
        rest = after;
    }
    if negative { Some((total as i64).wrapping_neg()) } else { i64::try_from(total).ok() }
}

/// A number with its unit, in nanoseconds, and what follows.
fn term(text: &str) -> Option<(u64, &str)> {
    let (digits, mut rest) = split_digits(text);
    let mut fraction = "";
    if let Some(after) = rest.strip_prefix('.') {
        (fraction, rest) = split_digits(after);
    }
    if digits.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    let unit = nanos_of(unit)?;

    let mut whole = 0u64;
    for digit in digits.bytes() {
        whole = whole.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        if whole > LARGEST {
            return None;
        }
    }
    let mut nanos = whole.checked_mul(unit).filter(|nanos| *nanos <= LARGEST)?;
    let (value, scale) = fraction_of(fraction);
    if value > 0 {
        nanos += (value as f64 * (unit as f64 / scale)) as u64;
        if nanos > LARGEST {
            return None;
        }
    }
    Some((nanos, rest))
}

/// The digits after the point as a number, and its divisor. Digits that would overflow are ignored.
fn fraction_of(digits: &str) -> (u64, f64) {
    let (mut value, mut scale) = (0u64, 1.0);
    for digit in digits.bytes() {
        if value > (LARGEST - 1) / 10 {
            break;
        }
        let next = value * 10 + u64::from(digit - b'0');
        if next > LARGEST {
            break;
        }
        (value, scale) = (next, scale * 10.0);
    }
    (value, scale)
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn nanos_of(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        // The micro sign, and the Greek letter mu.
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// A duration as Go prints it: `15m0s`, `1h0m0.5s`, `20ms`.
pub fn format(nanos: i64) -> String {
    let sign = if nanos < 0 { "-" } else { "" };
    let all = nanos.unsigned_abs();
    let (unit, name) = match all {
        0 => return "0s".to_owned(),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "µs"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    if name != "s" {
        return std::format!("{sign}{}{name}", decimal(all, unit));
    }
    let (hours, minutes) = (all / unit / 3600, all / unit / 60 % 60);
    let seconds = decimal(all % (60 * unit), unit);
    match (hours, minutes) {
        (0, 0) => std::format!("{sign}{seconds}s"),
        (0, _) => std::format!("{sign}{minutes}m{seconds}s"),
        _ => std::format!("{sign}{hours}h{minutes}m{seconds}s"),
    }
}

/// A number of units, with as many digits after the point as it takes.
fn decimal(all: u64, unit: u64) -> String {
    if all.is_multiple_of(unit) {
        return (all / unit).to_string();
    }
    let digits = unit.ilog10() as usize;
    let fraction = std::format!("{:0digits$}", all % unit);
    std::format!("{}.{}", all / unit, fraction.trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Results of Go.
    #[test]
    fn texts_mean_what_they_mean_to_go() {
        for (text, nanos) in [
            ("0", Some(0)),
            ("", None),
            ("-", None),
            ("+", None),
            ("1h30m", Some(5_400_000_000_000)),
            ("-1.5s", Some(-1_500_000_000)),
            ("+5s", Some(5_000_000_000)),
            (".5s", Some(500_000_000)),
            ("1.s", Some(1_000_000_000)),
            (".s", None),
            ("1", None),
            ("1s1", None),
            ("1x", None),
            ("1m.5s", Some(60_500_000_000)),
            ("10ms", Some(10_000_000)),
            ("1us", Some(1_000)),
            ("1\u{b5}s", Some(1_000)),
            ("1\u{3bc}s", Some(1_000)),
            ("1ns", Some(1)),
            ("1.9ns", Some(1)),
            ("0.3333333333333333333h", Some(1_200_000_000_000)),
            ("9223372036854775807ns", Some(i64::MAX)),
            ("9223372036854775808ns", None),
            ("-9223372036854775808ns", Some(i64::MIN)),
            ("9223372036854775809ns", None),
            ("2562047h47m16.854775807s", Some(i64::MAX)),
            ("2562047h47m16.854775808s", None),
            ("-2562047h47m16.854775808s", Some(i64::MIN)),
            ("9223372036854775808ns9223372036854775808ns", Some(0)),
            ("0.9223372036854775807h", Some(3_320_413_933_267)),
            ("0.100000000000000000000h", Some(360_000_000_000)),
            ("3000000h", None),
            ("1e3s", None),
            (" 1s", None),
            ("1s ", None),
            ("1h-1m", None),
            ("0.0000000000000000000000000001h", Some(0)),
            ("1d", None),
        ] {
            assert_eq!(parse(text), nanos, "{text:?}");
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        let cases = [
            (0, "0s"),
            (1, "1ns"),
            (1_100, "1.1µs"),
            (2_200_000, "2.2ms"),
            (3_300_000_000, "3.3s"),
            (300_000_000_000, "5m0s"),
            (245_001_000_000, "4m5.001s"),
            (18_367_001_000_000, "5h6m7.001s"),
            (480_000_000_001, "8m0.000000001s"),
            (i64::MAX, "2562047h47m16.854775807s"),
            (i64::MIN, "-2562047h47m16.854775808s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(format(nanos), text);
        }
    }
}
