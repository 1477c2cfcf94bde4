//! Operators, as functions of their names in CEL.

use std::cmp::Ordering;

use super::super::value::{Failure, Outcome, Value};
use super::conversions::{int, uint};
use super::costs::Meter;
use super::{Row, Run};

pub(super) const ROWS: &[Row] = &[
    // The evaluator knows these: it does not evaluate all of their arguments.
    row("_?_:_", &["(bool, A, A) -> A"], never),
    row("_&&_", &["(bool, bool) -> bool"], never),
    row("_||_", &["(bool, bool) -> bool"], never),
    row("@not_strictly_false", &["(bool) -> bool"], never),
    row("!_", &["(bool) -> bool"], not),
    row("-_", &["(int) -> int", "(double) -> double"], negate),
    row("_==_", &["(A, A) -> bool"], |_, arguments| equal(arguments).map(Value::Bool)),
    row("_!=_", &["(A, A) -> bool"], |_, arguments| equal(arguments).map(|equal| Value::Bool(!equal))),
    row("_<_", COMPARISONS, |_, arguments| compare(arguments, Ordering::is_lt)),
    row("_<=_", COMPARISONS, |_, arguments| compare(arguments, Ordering::is_le)),
    row("_>_", COMPARISONS, |_, arguments| compare(arguments, Ordering::is_gt)),
    row("_>=_", COMPARISONS, |_, arguments| compare(arguments, Ordering::is_ge)),
    row(
        "_+_",
        &[
            "(bytes, bytes) -> bytes",
            "(double, double) -> double",
            "(duration, duration) -> duration",
            "(duration, timestamp) -> timestamp",
            "(timestamp, duration) -> timestamp",
            "(int, int) -> int",
            "(list(A), list(A)) -> list(A)",
            "(string, string) -> string",
            "(uint, uint) -> uint",
        ],
        |meter, arguments| {
            if let [Value::List(one), Value::List(other)] = arguments {
                meter.charge_copies(one.len() + other.len())?;
            }
            add(&arguments[0], &arguments[1])
        },
    ),
    row(
        "_-_",
        &[
            "(double, double) -> double",
            "(duration, duration) -> duration",
            "(int, int) -> int",
            "(timestamp, duration) -> timestamp",
            "(timestamp, timestamp) -> duration",
            "(uint, uint) -> uint",
        ],
        subtract,
    ),
    row("_*_", &["(double, double) -> double", "(int, int) -> int", "(uint, uint) -> uint"], multiply),
    row("_/_", &["(double, double) -> double", "(int, int) -> int", "(uint, uint) -> uint"], divide),
    row("_%_", &["(int, int) -> int", "(uint, uint) -> uint"], remainder),
    row(
        "_[_]",
        &[
            "(list(A), int) -> A",
            "(map(A, B), A) -> B",
            "(optional(list(V)), int) -> optional(V)",
            "(optional(map(K, V)), K) -> optional(V)",
        ],
        |_, arguments| index(&arguments[0], &arguments[1]),
    ),
    row(
        "_[?_]",
        &[
            "(list(V), int) -> optional(V)",
            "(optional(list(V)), int) -> optional(V)",
            "(map(K, V), K) -> optional(V)",
            "(optional(map(K, V)), K) -> optional(V)",
        ],
        |_, arguments| optional_index(&arguments[0], &arguments[1]),
    ),
    row("@in", &["(A, list(A)) -> bool", "(A, map(A, B)) -> bool"], is_in),
    row("cel.@mapInsert", &["(map(K, V), K, V) -> map(K, V)", "(map(K, V), map(K, V)) -> map(K, V)"], insert),
    row(
        "size",
        &[
            "(string) -> int",
            "(bytes) -> int",
            "(list(A)) -> int",
            "(map(A, B)) -> int",
            "string.() -> int",
            "bytes.() -> int",
            "list(A).() -> int",
            "map(A, B).() -> int",
        ],
        size,
    ),
];

const COMPARISONS: &[&str] = &[
    "(bool, bool) -> bool",
    "({number}, {other}) -> bool",
    "(string, string) -> bool",
    "(bytes, bytes) -> bool",
    "(timestamp, timestamp) -> bool",
    "(duration, duration) -> bool",
];

const fn row(name: &'static str, overloads: &'static [&'static str], run: Run) -> Row {
    Row { name, overloads, run }
}

fn never<'v>(_: &mut Meter, _: &[Value<'v>]) -> Outcome<Value<'v>> {
    Err(Failure::NoOverload)
}

fn not<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match arguments {
        [Value::Bool(boolean)] => Ok(Value::Bool(!boolean)),
        _ => Err(Failure::NoOverload),
    }
}

fn negate<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match arguments {
        [Value::Int(number)] => int(number.checked_neg()),
        [Value::Double(number)] => Ok(Value::Double(-number)),
        _ => Err(Failure::NoOverload),
    }
}

fn equal(arguments: &[Value<'_>]) -> Outcome<bool> {
    arguments[0].equals(&arguments[1])
}

fn compare<'v>(arguments: &[Value<'v>], is_wanted: fn(Ordering) -> bool) -> Outcome<Value<'v>> {
    match arguments[0].compare(&arguments[1]) {
        Some(ordering) => Ok(Value::Bool(is_wanted(ordering))),
        None if arguments.iter().any(Value::is_nan) => Err(Failure::error("NaN values cannot be ordered")),
        None => Err(Failure::NoOverload),
    }
}

/// The sum of two values, or one after the other.
pub(super) fn add<'v>(one: &Value<'v>, other: &Value<'v>) -> Outcome<Value<'v>> {
    match (one, other) {
        (Value::Int(one), Value::Int(other)) => int(one.checked_add(*other)),
        (Value::Uint(one), Value::Uint(other)) => uint(one.checked_add(*other)),
        (Value::Double(one), Value::Double(other)) => Ok(Value::Double(one + other)),
        (Value::String(one), Value::String(other)) => Ok(Value::string(format!("{}{}", &**one, &**other))),
        (Value::Bytes(one), Value::Bytes(other)) => Ok(Value::Bytes([&**one, &**other].concat().into())),
        (Value::Duration(one), Value::Duration(other)) => duration(one.checked_add(*other)),
        (Value::Duration(nanos), Value::Timestamp(moment))
        | (Value::Timestamp(moment), Value::Duration(nanos)) => {
            super::times::moment(moment.plus(i128::from(*nanos)))
        }
        (Value::List(one), Value::List(other)) => one.concatenate(other).map(Value::List),
        _ => Err(Failure::NoOverload),
    }
}

fn subtract<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match arguments {
        [Value::Int(one), Value::Int(other)] => int(one.checked_sub(*other)),
        [Value::Uint(one), Value::Uint(other)] => uint(one.checked_sub(*other)),
        [Value::Double(one), Value::Double(other)] => Ok(Value::Double(one - other)),
        [Value::Duration(one), Value::Duration(other)] => duration(one.checked_sub(*other)),
        [Value::Timestamp(moment), Value::Duration(nanos)] => {
            super::times::moment(moment.plus(-i128::from(*nanos)))
        }
        [Value::Timestamp(one), Value::Timestamp(other)] => {
            duration(i64::try_from(one.nanos() - other.nanos()).ok())
        }
        _ => Err(Failure::NoOverload),
    }
}

fn multiply<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match arguments {
        [Value::Int(one), Value::Int(other)] => int(one.checked_mul(*other)),
        [Value::Uint(one), Value::Uint(other)] => uint(one.checked_mul(*other)),
        [Value::Double(one), Value::Double(other)] => Ok(Value::Double(one * other)),
        _ => Err(Failure::NoOverload),
    }
}

fn divide<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(Failure::error("division by zero"))
        }
        [Value::Int(one), Value::Int(other)] => int(one.checked_div(*other)),
        [Value::Uint(one), Value::Uint(other)] => uint(one.checked_div(*other)),
        [Value::Double(one), Value::Double(other)] => Ok(Value::Double(one / other)),
        _ => Err(Failure::NoOverload),
    }
}

fn remainder<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => {
            Err(Failure::error("modulus by zero"))
        }
        [Value::Int(one), Value::Int(other)] => int(one.checked_rem(*other)),
        [Value::Uint(one), Value::Uint(other)] => uint(one.checked_rem(*other)),
        _ => Err(Failure::NoOverload),
    }
}

/// `container[index]`
pub(in super::super) fn index<'v>(container: &Value<'v>, index: &Value<'v>) -> Outcome<Value<'v>> {
    match container {
        Value::Optional(_) => optional_index(container, index),
        Value::List(list) => {
            let position = list_position(index)?;
            let item = position.and_then(|position| list.get(position));
            item.unwrap_or_else(|| {
                Err(Failure::Error(format!("index out of bounds: {}", super::conversions::printed(index))))
            })
        }
        Value::Map(map) => map.find(index)?.ok_or_else(|| no_such_key(index)),
        _ => Err(no_such_key(index)),
    }
}

/// `container[?index]`
fn optional_index<'v>(container: &Value<'v>, index: &Value<'v>) -> Outcome<Value<'v>> {
    let found = match container {
        Value::Optional(Some(inner)) => return optional_index(inner, index),
        Value::Optional(None) => None,
        Value::List(list) => list_position(index)?.and_then(|position| list.get(position)).transpose()?,
        Value::Map(map) => map.find(index)?,
        _ => return Err(Failure::no_such_overload()),
    };
    Ok(Value::Optional(found.map(std::sync::Arc::new)))
}

fn list_position(index: &Value<'_>) -> Outcome<Option<usize>> {
    match index {
        Value::Int(index) => Ok(usize::try_from(*index).ok()),
        Value::Uint(index) => Ok(usize::try_from(*index).ok()),
        Value::Double(index) if index.fract() == 0.0 && *index >= 0.0 => Ok(Some(*index as usize)),
        other => Err(Failure::Error(format!("unsupported index type '{}' in list", other.type_name()))),
    }
}

/// The error for a key that a map does not have.
pub(in super::super) fn no_such_key(key: &Value<'_>) -> Failure {
    Failure::Error(format!("no such key: {}", super::conversions::printed(key)))
}

fn is_in<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    match arguments {
        [value, Value::List(list)] => list.contains(value).map(Value::Bool),
        [key, Value::Map(map)] => Ok(Value::Bool(map.find(key)?.is_some())),
        _ => Err(Failure::NoOverload),
    }
}

fn insert<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let add = |map: &mut super::super::value::Map<'v>, key: &Value<'v>, value: Value<'v>| {
        let inserted = key.to_key().ok_or_else(Failure::no_such_overload)?;
        if map.insert(inserted, value) {
            return Ok(());
        }
        let key = super::conversions::printed(key);
        Err(Failure::Error(format!("insert failed: key {key} already exists")))
    };
    match arguments {
        [Value::Map(map), key, value] => {
            let mut map = map.clone();
            add(&mut map, key, value.clone())?;
            Ok(Value::Map(map))
        }
        [Value::Map(map), Value::Map(added)] => {
            let mut map = map.clone();
            for key in added.keys() {
                let value = added.find(&key)?.ok_or_else(|| no_such_key(&key))?;
                add(&mut map, &key, value)?;
            }
            Ok(Value::Map(map))
        }
        _ => Err(Failure::NoOverload),
    }
}

fn size<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let size = match arguments {
        [Value::String(text)] => text.chars().count(),
        [Value::Bytes(bytes)] => bytes.len(),
        [Value::List(list)] => list.len(),
        [Value::Map(map)] => map.len(),
        _ => return Err(Failure::error("no such overload: size")),
    };
    int(i64::try_from(size).ok())
}

fn duration<'v>(nanos: Option<i64>) -> Outcome<Value<'v>> {
    nanos.map(Value::Duration).ok_or_else(|| Failure::error("integer overflow"))
}
