//! Semantic versions: `semver('1.2.3-rc.1')`.

use std::sync::Arc;

use super::super::semver::Semver;
use super::super::value::{Failure, Outcome, Value};
use super::Row;
use super::costs::Meter;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "semver",
        overloads: &["(string) -> kubernetes.Semver", "(string, bool) -> kubernetes.Semver"],
        run: |_, arguments| match parsed(arguments)? {
            Ok(version) => Ok(Value::Semver(Arc::new(version))),
            Err(why) => Err(Failure::Error(why)),
        },
    },
    Row {
        name: "isSemver",
        overloads: &["(string) -> bool", "(string, bool) -> bool"],
        run: |_, arguments| Ok(Value::Bool(parsed(arguments)?.is_ok())),
    },
    Row { name: "major", overloads: PART, run: |meter, arguments| part(meter, arguments, 0) },
    Row { name: "minor", overloads: PART, run: |meter, arguments| part(meter, arguments, 1) },
    Row { name: "patch", overloads: PART, run: |meter, arguments| part(meter, arguments, 2) },
];

const PART: &[&str] = &["kubernetes.Semver.() -> int"];

/// The version of the first argument; the second one says whether it may lack parts, begin with `v`, or have leading
/// zeros.
fn parsed(arguments: &[Value<'_>]) -> Outcome<Result<Semver, String>> {
    match arguments {
        [Value::String(text)] | [Value::String(text), Value::Bool(false)] => Ok(Semver::parse(text)),
        [Value::String(text), Value::Bool(true)] => {
            Ok(normalized(text).and_then(|text| Semver::parse(&text)))
        }
        _ => Err(Failure::NoOverload),
    }
}

fn normalized(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let without_zeros = |part: &str| {
        if part.len() < 2 {
            return part.to_owned();
        }
        let trimmed = part.trim_start_matches('0');
        match trimmed.starts_with(|first: char| first.is_ascii_digit()) {
            true => trimmed.to_owned(),
            false => format!("0{trimmed}"),
        }
    };
    let mut parts: Vec<String> = text.splitn(3, '.').map(without_zeros).collect();
    if parts.len() < 3 && parts.last().is_some_and(|last| last.contains(['+', '-'])) {
        return Err("short version cannot contain PreRelease/Build meta data".to_owned());
    }
    parts.resize(3, "0".to_owned());
    Ok(parts.join("."))
}

fn part<'v>(_: &mut Meter, arguments: &[Value<'v>], index: usize) -> Outcome<Value<'v>> {
    match arguments {
        [Value::Semver(version)] => Ok(Value::Int(version.numbers[index] as i64)),
        _ => Err(Failure::NoOverload),
    }
}
