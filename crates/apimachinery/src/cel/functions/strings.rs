//! Functions of texts. Positions count characters.

use super::super::value::{Failure, Outcome, Value};
use super::costs::Meter;
use super::{Row, format_string};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "contains",
        overloads: &["string.(string) -> bool"],
        run: |_, arguments| test(arguments, |text, part| text.contains(part)),
    },
    Row {
        name: "startsWith",
        overloads: &["string.(string) -> bool"],
        run: |_, arguments| test(arguments, |text, part| text.starts_with(part)),
    },
    Row {
        name: "endsWith",
        overloads: &["string.(string) -> bool"],
        run: |_, arguments| test(arguments, |text, part| text.ends_with(part)),
    },
    Row { name: "charAt", overloads: &["string.(int) -> string"], run: char_at },
    Row {
        name: "indexOf",
        overloads: &["string.(string) -> int", "string.(string, int) -> int"],
        run: index_of,
    },
    Row {
        name: "lastIndexOf",
        overloads: &["string.(string) -> int", "string.(string, int) -> int"],
        run: last_index_of,
    },
    Row {
        name: "lowerAscii",
        overloads: &["string.() -> string"],
        run: |_, arguments| map(arguments, str::to_ascii_lowercase),
    },
    Row {
        name: "upperAscii",
        overloads: &["string.() -> string"],
        run: |_, arguments| map(arguments, str::to_ascii_uppercase),
    },
    Row {
        name: "trim",
        overloads: &["string.() -> string"],
        run: |_, arguments| map(arguments, |text| text.trim().to_owned()),
    },
    Row {
        name: "replace",
        overloads: &["string.(string, string) -> string", "string.(string, string, int) -> string"],
        run: replace,
    },
    Row {
        name: "split",
        overloads: &["string.(string) -> list(string)", "string.(string, int) -> list(string)"],
        run: split,
    },
    Row {
        name: "substring",
        overloads: &["string.(int) -> string", "string.(int, int) -> string"],
        run: substring,
    },
    Row {
        name: "join",
        overloads: &["list(string).() -> string", "list(string).(string) -> string"],
        run: join,
    },
    Row {
        name: "strings.quote",
        overloads: &["(string) -> string"],
        run: |_, arguments| map(arguments, quote),
    },
    Row { name: "format", overloads: &["string.(list(dyn)) -> string"], run: format_string::format },
];

fn test<'v>(arguments: &[Value<'v>], is_true: fn(&str, &str) -> bool) -> Outcome<Value<'v>> {
    match arguments {
        [Value::String(text), Value::String(part)] => Ok(Value::Bool(is_true(text, part))),
        _ => Err(Failure::NoOverload),
    }
}

fn map<'v>(arguments: &[Value<'v>], function: fn(&str) -> String) -> Outcome<Value<'v>> {
    match arguments {
        [Value::String(text)] => Ok(Value::string(function(text))),
        _ => Err(Failure::NoOverload),
    }
}

fn char_at<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let [Value::String(text), Value::Int(index)] = arguments else { return Err(Failure::NoOverload) };
    let position = usize::try_from(*index).map_err(|_| out_of_range(*index))?;
    match text.chars().nth(position) {
        Some(letter) => Ok(Value::string(letter.to_string())),
        None if position == text.chars().count() => Ok(Value::from("")),
        None => Err(out_of_range(*index)),
    }
}

fn index_of<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let (text, part, offset) = match arguments {
        [Value::String(text), Value::String(part)] => (text, part, 0),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, *offset),
        _ => return Err(Failure::NoOverload),
    };
    if part.is_empty() {
        return Ok(Value::Int(offset));
    }
    let start = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
    let Some(start) = byte_at(text, start) else { return Ok(Value::Int(-1)) };
    Ok(Value::Int(match text[start..].find(&**part) {
        Some(found) => text[..start + found].chars().count() as i64,
        None => -1,
    }))
}

fn last_index_of<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let (text, part, offset) = match arguments {
        [Value::String(text), Value::String(part)] => (text, part, None),
        [Value::String(text), Value::String(part), Value::Int(offset)] => (text, part, Some(*offset)),
        _ => return Err(Failure::NoOverload),
    };
    let length = text.chars().count();
    if part.is_empty() {
        return Ok(Value::Int(offset.unwrap_or(length as i64)));
    }
    let searched = match offset {
        None => &**text,
        Some(offset) => {
            let offset = usize::try_from(offset).map_err(|_| out_of_range(offset))?;
            let Some(last) = byte_at(text, offset) else { return Ok(Value::Int(-1)) };
            // A part that begins at the offset ends after it.
            let end = last
                + text[last..]
                    .char_indices()
                    .nth(part.chars().count())
                    .map_or(text.len() - last, |(at, _)| at);
            &text[..end]
        }
    };
    Ok(Value::Int(searched.rfind(&**part).map_or(-1, |found| text[..found].chars().count() as i64)))
}

fn replace<'v>(meter: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let (text, old, new, limit) = match arguments {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => {
            (text, old, new, *limit)
        }
        _ => return Err(Failure::NoOverload),
    };
    let found = if old.is_empty() { text.chars().count() + 1 } else { text.matches(&**old).count() };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    // The result may be much longer than the arguments.
    meter.charge((found.min(limit) as u64).saturating_mul(new.len() as u64) / 10)?;
    Ok(Value::string(text.replacen(&**old, new, limit)))
}

fn split<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let (text, separator, limit) = match arguments {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return Err(Failure::NoOverload),
    };
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let parts: Vec<String> = if separator.is_empty() {
        // One part for each character, and the rest.
        let mut letters = text.chars();
        let mut parts: Vec<String> =
            letters.by_ref().take(limit.saturating_sub(1)).map(String::from).collect();
        parts.extend(Some(letters.as_str()).filter(|rest| !rest.is_empty()).map(str::to_owned));
        parts
    } else {
        text.splitn(limit, &**separator).map(str::to_owned).collect()
    };
    Ok(Value::list(parts.into_iter().map(Value::string).collect()))
}

fn substring<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let (text, start, end) = match arguments {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(Failure::NoOverload),
    };
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Failure::Error(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let byte = |index: i64| {
        let position = usize::try_from(index).ok();
        let at_end = |position: &usize| *position == text.chars().count();
        let found = position
            .and_then(|position| byte_at(text, position).or(Some(text.len()).filter(|_| at_end(&position))));
        found.ok_or_else(|| out_of_range(index))
    };
    let start = byte(start)?;
    let end = end.map_or(Ok(text.len()), byte)?;
    Ok(Value::string(&text[start..end]))
}

fn join<'v>(meter: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let (list, separator) = match arguments {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(Failure::NoOverload),
    };
    let mut joined = String::new();
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            joined.push_str(separator);
        }
        match item? {
            Value::String(text) => joined.push_str(&text),
            other => {
                let printed = super::conversions::printed(&other);
                return Err(Failure::Error(format!("join: invalid input: {printed}")));
            }
        }
        if joined.len() > MAX_TEXT {
            return Err(Failure::CostLimit);
        }
    }
    meter.charge((joined.chars().count() as u64).div_ceil(5))?;
    Ok(Value::string(joined))
}

/// The longest text that is made, which costs more than an evaluation may.
const MAX_TEXT: usize = 64 << 20;

/// A quoted text. Unlike Go's `%q`, CEL's `strings.quote` leaves characters as they are that cannot be printed.
fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for letter in text.chars() {
        match letter {
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            '\\' => quoted.push_str("\\\\"),
            '"' => quoted.push_str("\\\""),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

/// Where the character of a position begins; `None` if there are not as many.
fn byte_at(text: &str, position: usize) -> Option<usize> {
    text.char_indices().nth(position).map(|(at, _)| at)
}

fn out_of_range(index: i64) -> Failure {
    Failure::Error(format!("index out of range: {index}"))
}
