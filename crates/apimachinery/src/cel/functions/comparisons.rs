//! Comparisons of quantities and of semantic versions: `quantity('1Gi').isGreaterThan(quantity('1G'))`.

use std::cmp::Ordering;

use super::super::value::{Failure, Outcome, Value};
use super::Row;

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "isGreaterThan",
        overloads: COMPARISON,
        run: |_, arguments| Ok(Value::Bool(compare(arguments)?.is_gt())),
    },
    Row {
        name: "isLessThan",
        overloads: COMPARISON,
        run: |_, arguments| Ok(Value::Bool(compare(arguments)?.is_lt())),
    },
    Row {
        name: "compareTo",
        overloads: &[
            "kubernetes.Quantity.(kubernetes.Quantity) -> int",
            "kubernetes.Semver.(kubernetes.Semver) -> int",
        ],
        run: |_, arguments| Ok(Value::Int(compare(arguments)? as i64)),
    },
];

const COMPARISON: &[&str] =
    &["kubernetes.Quantity.(kubernetes.Quantity) -> bool", "kubernetes.Semver.(kubernetes.Semver) -> bool"];

fn compare(arguments: &[Value<'_>]) -> Outcome<Ordering> {
    match arguments {
        [Value::Quantity(one), Value::Quantity(other)] => Ok(one.cmp(other)),
        [Value::Semver(one), Value::Semver(other)] => Ok(one.compare(other)),
        _ => Err(Failure::NoOverload),
    }
}
