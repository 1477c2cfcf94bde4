//! Parsers of flag values, as in Go's flag packages, and of values with a format of their own.

use std::sync::Arc;
use std::time::Duration;

use kubernetes::go::duration;

use super::super::settings::{Expander, MinMax, Settings};
use super::GroupSize;

/// `true`, `F`, `1`.
pub(super) fn parse_bool(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// `10`, `-3`, and Go's integer literals: `0x1F`, `0o17`, `017`, `0b11`, `1_000`.
pub(super) fn parse_int(text: &str) -> Result<i64, String> {
    let invalid = || "must be an integer".to_owned();
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, unprefixed) = match lower.as_bytes() {
        [b'0', b'x', ..] => (16, &lower[2..]),
        [b'0', b'o', ..] => (8, &lower[2..]),
        [b'0', b'b', ..] => (2, &lower[2..]),
        [b'0', _, ..] => (8, &lower[1..]),
        _ => (10, &lower[..]),
    };
    // An underscore must be between digits; the prefix counts as one.
    let is_joined = |text: &str| !text.contains("__") && !text.ends_with('_');
    let has_prefix = unprefixed.len() < lower.len();
    if !is_joined(unprefixed)
        || (unprefixed.starts_with('_') && !has_prefix)
        || unprefixed.starts_with(['+', '-'])
    {
        return Err(invalid());
    }
    let amount = i128::from_str_radix(&unprefixed.replace('_', ""), radix).map_err(|_| invalid())?;
    let amount = if negative { -amount } else { amount };
    i64::try_from(amount).map_err(|_| "the number is too large".to_owned())
}

/// `0.5`, `.5`, `1e-3`, `inf`.
pub(super) fn parse_float(text: &str) -> Result<f64, String> {
    let invalid = || "must be a number".to_owned();
    let bytes = text.as_bytes();
    let is_digit =
        |index: Option<usize>| index.and_then(|index| bytes.get(index)).is_some_and(u8::is_ascii_digit);
    let is_separator =
        |(index, _): (usize, &str)| is_digit(index.checked_sub(1)) && is_digit(Some(index + 1));
    if !text.match_indices('_').all(is_separator) {
        return Err(invalid());
    }
    let number: f64 = text.replace('_', "").parse().map_err(|_| invalid())?;
    let is_named = text.to_ascii_lowercase().contains("inf");
    match number {
        number if number.is_nan() => Err(invalid()),
        number if number.is_infinite() && !is_named => Err("the number is too large".to_owned()),
        number => Ok(number),
    }
}

/// `1h30m`; not negative.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let nanos = duration::parse(text).ok_or("must be a duration such as 10s or 1h30m")?;
    let nanos = u64::try_from(nanos).map_err(|_| "the duration must not be negative")?;
    Ok(Duration::from_nanos(nanos))
}

/// `a,b,"c,d"`: one CSV record.
pub(super) fn parse_string_slice(text: &str) -> Result<Vec<Arc<str>>, String> {
    let invalid = || "unbalanced quotes".to_owned();
    let mut names: Vec<Arc<str>> = Vec::new();
    if text.is_empty() {
        return Ok(names);
    }
    let mut remaining = text;
    loop {
        let Some(quoted) = remaining.strip_prefix('"') else {
            let (name, after) =
                remaining.split_once(',').map_or((remaining, None), |(name, after)| (name, Some(after)));
            if name.contains('"') {
                return Err(invalid());
            }
            names.push(name.into());
            match after {
                Some(after) => remaining = after,
                None => return Ok(names),
            }
            continue;
        };
        let mut name = String::new();
        let mut quoted_text = quoted;
        let after = loop {
            let (piece, after) = quoted_text.split_once('"').ok_or_else(invalid)?;
            name.push_str(piece);
            match after.strip_prefix('"') {
                Some(more) => {
                    name.push('"');
                    quoted_text = more;
                }
                None => break after,
            }
        };
        names.push(name.into());
        if after.is_empty() {
            return Ok(names);
        }
        remaining = after.strip_prefix(',').ok_or_else(invalid)?;
    }
}

/// `8:64`.
pub(super) fn parse_min_max(text: &str) -> Result<MinMax, String> {
    let (min, max) = text.split_once(':').ok_or("expected min:max, such as 8:64")?;
    min_max(min, max)
}

/// `nvidia-tesla-k80:0:16`.
pub(super) fn parse_gpu_limits(text: &str) -> Result<(Arc<str>, MinMax), String> {
    match text.split(':').collect::<Vec<_>>()[..] {
        [kind, min, max] => Ok((kind.into(), min_max(min, max)?)),
        _ => Err("expected gpu_type:min:max, such as nvidia-tesla-k80:0:16".to_owned()),
    }
}

/// `1:10:workers`; names may contain colons.
pub(super) fn parse_group_size(text: &str) -> Result<GroupSize, String> {
    let mut parts = text.splitn(3, ':');
    let (Some(min), Some(max), Some(name)) = (parts.next(), parts.next(), parts.next()) else {
        return Err("expected min:max:name, such as 1:10:workers".to_owned());
    };
    if name.is_empty() {
        return Err("the name of the group is empty".to_owned());
    }
    let MinMax { min, max } = min_max(min, max)?;
    Ok(GroupSize { name: name.into(), min, max })
}

fn min_max(min: &str, max: &str) -> Result<MinMax, String> {
    let whole = |text: &str| text.parse::<i64>().map_err(|_| format!("{text:?} is not an integer"));
    let range = MinMax { min: whole(min)?, max: whole(max)? };
    if range.min < 0 {
        return Err(format!("min {min} must not be negative"));
    }
    if range.max < range.min {
        return Err(format!("max {max} is less than min {min}"));
    }
    Ok(range)
}

/// `priority,least-waste`.
pub(super) fn set_expanders(settings: &mut Settings, text: &str) -> Result<(), String> {
    let names: Vec<&str> = text.split(',').collect();
    let mut chain = Vec::new();
    settings.unsupported.retain(|told| !told.starts_with("--expander="));
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            return Err(format!("duplicate expander {name}"));
        }
        if index > 0 && names[index - 1] == "random" {
            return Err(format!("{name} is never used: random chooses a single option"));
        }
        chain.push(match *name {
            "random" => Expander::Random,
            "most-pods" => Expander::MostPods,
            "least-waste" => Expander::LeastWaste,
            "least-nodes" => Expander::LeastNodes,
            "price" => Expander::Price,
            "priority" => Expander::Priority,
            "grpc" => {
                let told = "the grpc expander is not called: it keeps all options";
                settings.unsupported.push(format!("--expander={text}: {told}"));
                continue;
            }
            _ => {
                return Err(format!(
                    "unknown expander {name:?}: expected random, most-pods, least-waste, least-nodes, price or priority"
                ));
            }
        });
    }
    // Of the remaining options one is chosen at random.
    settings.expander = if chain.is_empty() { vec![Expander::Random] } else { chain };
    Ok(())
}

/// `10000:20,1000:100,0:60`.
pub(super) fn set_drain_priorities(settings: &mut Settings, text: &str) -> Result<(), String> {
    let mut groups = Vec::new();
    for entry in text.split(',') {
        let wrong = || format!("{entry:?} is not priority:seconds, such as 1000:60");
        let (priority, seconds) = entry.split_once(':').ok_or_else(wrong)?;
        let priority: i64 = priority.parse().map_err(|_| wrong())?;
        let priority =
            i32::try_from(priority).map_err(|_| format!("the priority {priority} is out of range"))?;
        let seconds: i64 = seconds.parse().map_err(|_| wrong())?;
        groups.push((priority, seconds));
    }
    groups.sort_by_key(|(priority, _)| *priority);
    settings.drain_priority_config = groups;
    Ok(())
}
