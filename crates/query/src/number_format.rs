//! Human-readable numbers, sizes and durations.

/// 1,234,567
pub fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// 1 gap, 1,234 gaps
pub fn count_noun(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", group_digits(number), if number == 1 { "" } else { "s" })
}

/// 12.3 MB
pub fn format_bytes(number: u64) -> String {
    let mut size = number as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if size < 999.5 {
            return if unit == "B" { format!("{number} B") } else { format!("{size:.1} {unit}") };
        }
        size /= 1000.0;
    }
    format!("{size:.1} TB")
}

/// 2h5m, 3.2s: the time between two moments, to about three digits.
pub fn format_duration(nanos: i64) -> String {
    match nanos {
        ..1_000_000_000 => format!("{}ms", nanos / 1_000_000),
        1_000_000_000..10_000_000_000 => format!("{}s", (nanos / 100_000_000) as f64 / 10.0),
        _ => kubernetes::table::human_duration(nanos),
    }
}
