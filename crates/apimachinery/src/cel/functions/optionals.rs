//! Optional values.

use std::sync::Arc;

use super::super::value::{Failure, List, Outcome, Value};
use super::Row;
use super::costs::Meter;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "optional.of",
        overloads: &["(V) -> optional(V)"],
        run: |_, arguments| Ok(Value::some(arguments[0].clone())),
    },
    Row {
        name: "optional.ofNonZeroValue",
        overloads: &["(V) -> optional(V)"],
        run: |_, arguments| {
            let value = &arguments[0];
            Ok(Value::Optional(
                Some(value).filter(|value| !value.is_zero()).map(|value| Arc::new(value.clone())),
            ))
        },
    },
    Row { name: "optional.none", overloads: &["() -> optional(V)"], run: |_, _| Ok(Value::Optional(None)) },
    Row {
        name: "value",
        overloads: &["optional(V).() -> V"],
        run: |_, arguments| match &arguments[0] {
            Value::Optional(Some(value)) => Ok((**value).clone()),
            Value::Optional(None) => Err(Failure::error("optional.none() dereference")),
            _ => Err(Failure::NoOverload),
        },
    },
    Row {
        name: "hasValue",
        overloads: &["optional(V).() -> bool"],
        run: |_, arguments| match &arguments[0] {
            Value::Optional(value) => Ok(Value::Bool(value.is_some())),
            _ => Err(Failure::NoOverload),
        },
    },
    // The evaluator knows these two: it evaluates the argument only if it is needed.
    Row {
        name: "or",
        overloads: &["optional(V).(optional(V)) -> optional(V)"],
        run: |_, _| Err(Failure::NoOverload),
    },
    Row { name: "orValue", overloads: &["optional(V).(V) -> V"], run: |_, _| Err(Failure::NoOverload) },
    Row {
        name: "first",
        overloads: &["list(V).() -> optional(V)"],
        run: |_, arguments| item(arguments, |_| 0),
    },
    Row {
        name: "last",
        overloads: &["list(V).() -> optional(V)"],
        run: |_, arguments| item(arguments, |list| list.len().wrapping_sub(1)),
    },
    Row { name: "optional.unwrap", overloads: &["(list(optional(V))) -> list(V)"], run: unwrap },
    Row { name: "unwrapOpt", overloads: &["list(optional(V)).() -> list(V)"], run: unwrap },
];

fn item<'v>(arguments: &[Value<'v>], index: fn(&List<'v>) -> usize) -> Outcome<Value<'v>> {
    let Value::List(list) = &arguments[0] else { return Err(Failure::NoOverload) };
    Ok(Value::Optional(list.get(index(list)).transpose()?.map(Arc::new)))
}

fn unwrap<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let Value::List(list) = &arguments[0] else { return Err(Failure::NoOverload) };
    let mut values = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(value) => values.extend(value.map(|value| (*value).clone())),
            other => {
                let printed = super::conversions::printed(&other);
                return Err(Failure::Error(format!("value {printed} is not optional")));
            }
        }
    }
    Ok(Value::list(values))
}
