//! Quantities: `quantity('500m')`.

use std::sync::Arc;

use kubernetes::quantity::{BadQuantityReason, Format, Quantity};

use super::super::value::{Failure, Outcome, Value};
use super::{Row, Run};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "quantity",
        overloads: &["(string) -> kubernetes.Quantity"],
        run: |_, arguments| {
            let Value::String(text) = &arguments[0] else { return Err(Failure::NoOverload) };
            match Quantity::parse(text) {
                Ok(quantity) => Ok(Value::Quantity(Arc::new(quantity))),
                Err(error) => Err(Failure::error(match error.why {
                    BadQuantityReason::Format => {
                        "quantities must match the regular expression \
                     '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                    }
                    BadQuantityReason::Digits => "unable to parse numeric part of quantity",
                    BadQuantityReason::Suffix => "unable to parse quantity's suffix",
                })),
            }
        },
    },
    Row {
        name: "isQuantity",
        overloads: &["(string) -> bool"],
        run: |_, arguments| match &arguments[0] {
            Value::String(text) => Ok(Value::Bool(Quantity::parse(text).is_ok())),
            _ => Err(Failure::NoOverload),
        },
    },
    Row {
        name: "sign",
        overloads: &["(kubernetes.Quantity) -> int"],
        run: |_, arguments| Ok(Value::Int(one(arguments)?.sign().into())),
    },
    Row {
        name: "asApproximateFloat",
        overloads: &["kubernetes.Quantity.() -> double"],
        run: |_, arguments| Ok(Value::Double(one(arguments)?.approximate_float())),
    },
    Row {
        name: "asInteger",
        overloads: &["kubernetes.Quantity.() -> int"],
        run: |_, arguments| {
            let value = one(arguments)?.exact_value();
            value.map(Value::Int).ok_or_else(|| Failure::error("cannot convert value to integer"))
        },
    },
    Row {
        name: "isInteger",
        overloads: &["kubernetes.Quantity.() -> bool"],
        run: |_, arguments| Ok(Value::Bool(one(arguments)?.exact_value().is_some())),
    },
    Row { name: "add", overloads: SUM, run: ADD },
    Row { name: "sub", overloads: SUM, run: SUBTRACT },
];

const SUM: &[&str] = &[
    "kubernetes.Quantity.(kubernetes.Quantity) -> kubernetes.Quantity",
    "kubernetes.Quantity.(int) -> kubernetes.Quantity",
];
const ADD: Run = |_, arguments| {
    let mut sum = one(arguments)?.clone();
    sum += &second(arguments)?;
    Ok(Value::Quantity(Arc::new(sum)))
};
const SUBTRACT: Run = |_, arguments| {
    let mut rest = one(arguments)?.clone();
    rest -= &second(arguments)?;
    Ok(Value::Quantity(Arc::new(rest)))
};

fn one<'a>(arguments: &'a [Value<'_>]) -> Outcome<&'a Quantity> {
    match arguments.first() {
        Some(Value::Quantity(quantity)) => Ok(quantity),
        _ => Err(Failure::NoOverload),
    }
}

/// The second argument, which may be an integer.
fn second(arguments: &[Value<'_>]) -> Outcome<Quantity> {
    match arguments.get(1) {
        Some(Value::Quantity(quantity)) => Ok((**quantity).clone()),
        Some(Value::Int(number)) => Ok(Quantity::new(*number, 0, Format::DecimalExponent)),
        _ => Err(Failure::NoOverload),
    }
}
