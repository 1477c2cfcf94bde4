//! Regular expressions, which are those of Go.

use super::super::value::{Failure, Outcome, Value};
use super::Row;
use super::costs::Meter;
use crate::structural::Pattern;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "matches",
        overloads: &["(string, string) -> bool", "string.(string) -> bool"],
        run: matches,
    },
    Row { name: "find", overloads: &["string.(string) -> string"], run: find },
    Row {
        name: "findAll",
        overloads: &["string.(string) -> list(string)", "string.(string, int) -> list(string)"],
        run: find_all,
    },
];

/// Calls with the compiled pattern, which is compiled once if it is a constant.
fn with_pattern<'v>(
    pattern: &Value<'v>,
    call: impl FnOnce(&Pattern) -> Result<Value<'v>, String>,
) -> Result<Outcome<Value<'v>>, String> {
    match pattern {
        Value::Pattern(pattern) => call(pattern).map(Ok),
        Value::String(text) => call(&Pattern::new(text)).map(Ok),
        _ => Ok(Err(Failure::NoOverload)),
    }
}

fn matches<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let [Value::String(text), pattern] = arguments else { return Err(Failure::NoOverload) };
    with_pattern(pattern, |pattern| pattern.is_match(text).map(Value::Bool).map_err(str::to_owned))
        .unwrap_or_else(|why| Err(Failure::Error(why)))
}

fn find<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let [Value::String(text), pattern] = arguments else { return Err(Failure::NoOverload) };
    with_pattern(pattern, |pattern| {
        let found = pattern.find(text).map_err(str::to_owned)?;
        Ok(Value::string(found.unwrap_or_default()))
    })
    .unwrap_or_else(|why| Err(Failure::Error(format!("Illegal regex: {why}"))))
}

fn find_all<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let (text, pattern, limit) = match arguments {
        [Value::String(text), pattern] => (text, pattern, -1),
        [Value::String(text), pattern, Value::Int(limit)] => (text, pattern, *limit),
        _ => return Err(Failure::NoOverload),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    with_pattern(pattern, |pattern| {
        let found = pattern.find_all(text, limit).map_err(str::to_owned)?;
        Ok(Value::list(found.into_iter().map(Value::string).collect()))
    })
    .unwrap_or_else(|why| Err(Failure::Error(format!("Illegal regex: {why}"))))
}
