//! The costs of an evaluation, in the units of kube-apiserver.
//!
//! Selecting a field, reading a variable and most calls cost one; calls that read texts and lists cost by their size.

use super::super::value::{Failure, Outcome, Value};

/// The costs of one evaluation so far.
pub(in super::super) struct Meter {
    cost: u64,
    limit: u64,
    copies: usize,
}

/// The most that one evaluation may cost.
const LIMIT: u64 = 1_000_000;
/// The most items of lists that one evaluation may copy. The sum of two lists costs one, however long they are: cel-go
/// copies nothing, and a list that is doubled forty times takes little memory there.
const MAX_COPIES: usize = 1_000_000;
const TEXT_FACTOR: f64 = 0.1;
const REGEX_FACTOR: f64 = 0.25;
pub(in super::super) const LIST_COST: u64 = 10;
pub(in super::super) const MAP_COST: u64 = 30;

// === impl Meter ===

impl Meter {
    pub(in super::super) fn new() -> Meter {
        Meter { cost: 0, limit: LIMIT, copies: 0 }
    }

    pub(in super::super) fn cost(&self) -> u64 {
        self.cost
    }

    pub(in super::super) fn charge(&mut self, cost: u64) -> Outcome<()> {
        self.cost = self.cost.saturating_add(cost);
        if self.cost > self.limit { Err(Failure::CostLimit) } else { Ok(()) }
    }

    /// Counts items of lists before they are copied.
    pub(in super::super) fn charge_copies(&mut self, items: usize) -> Outcome<()> {
        self.copies = self.copies.saturating_add(items);
        if self.copies > MAX_COPIES { Err(Failure::CostLimit) } else { Ok(()) }
    }

    /// Charges a call before it is made, by its arguments.
    pub(in super::super) fn charge_call(&mut self, name: &str, arguments: &[Value<'_>]) -> Outcome<()> {
        self.charge(call_cost(name, arguments))
    }
}

fn call_cost(name: &str, arguments: &[Value<'_>]) -> u64 {
    let size = |index: usize| arguments.get(index).map_or(1, Value::cost_size);
    let is_text = matches!(arguments.first(), Some(Value::String(_)));
    match name {
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
            if is_text {
                text_cost(size(0))
            } else {
                size(0)
            }
        }
        "url" | "lowerAscii" | "upperAscii" | "substring" | "trim" | "cidr" | "isIP" | "isCIDR"
        | "quantity" | "isQuantity" | "semver" | "isSemver" | "startsWith" | "endsWith" => text_cost(size(0)),
        "ip" if is_text => text_cost(size(0)),
        "format" | "strings.quote" => text_cost(size(0)),
        "string" | "bytes" if matches!(arguments.first(), Some(Value::Bytes(_) | Value::String(_))) => {
            text_cost(size(0))
        }
        "replace" | "split" | "ip.isCanonical" => text_cost(2 * size(0)),
        "find" | "findAll" | "matches" => {
            let text = text_cost(size(0) + 1);
            text * scaled(size(1), REGEX_FACTOR)
        }
        "validate" => {
            let length = match arguments.first() {
                Some(Value::Format(format)) => format.regex_length,
                _ => 1,
            };
            text_cost(size(1) + 1) * scaled(length, REGEX_FACTOR)
        }
        "containsIP" => {
            let parsed =
                if matches!(arguments.get(1), Some(Value::String(_))) { text_cost(size(1)) } else { 0 };
            text_cost(2 * size(0)) + parsed
        }
        "containsCIDR" => {
            let parsed =
                if matches!(arguments.get(1), Some(Value::String(_))) { text_cost(size(1)) } else { 0 };
            text_cost(2 * size(0)) + text_cost(size(0)) + 1 + parsed
        }
        "contains" => text_cost(size(0)) * text_cost(size(1)),
        "@in" => match arguments.get(1) {
            Some(Value::List(list)) => list.len() as u64,
            _ => 1,
        },
        "_==_" | "_!=_" => text_cost(size(0).min(size(1))),
        "_<_" | "_<=_" | "_>_" | "_>=_" if has_length(arguments) => text_cost(size(0).min(size(1))),
        "_+_" if has_length(arguments) => text_cost(size(0) + size(1)),
        "sets.contains" | "sets.intersects" => 1 + size(0) * size(1),
        "sets.equivalent" => 1 + 2 * size(0) * size(1),
        "slice" | "reverse" | "flatten" => LIST_COST + size(0),
        "distinct" => LIST_COST + size(0) * size(0),
        "sort" | "@sortByAssociatedKeys" => LIST_COST + size(0) * size(0),
        _ => 1,
    }
}

fn has_length(arguments: &[Value<'_>]) -> bool {
    matches!(arguments.first(), Some(Value::String(_) | Value::Bytes(_)))
}

fn text_cost(size: u64) -> u64 {
    scaled(size, TEXT_FACTOR)
}

fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor).ceil() as u64
}
