//! The evaluation of an expression.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::cel::common::ast::operators;

use super::functions::costs::{LIST_COST, MAP_COST, Meter};
use super::functions::operators::no_such_key;
use super::node::{Call, Fold, Node};
use super::value::{Failure, Map, Outcome, Value};

/// An evaluation with its variables.
pub(super) struct Evaluation<'v> {
    /// A loop may have accumulated an error, which a later turn may make irrelevant.
    variables: Vec<Outcome<Value<'v>>>,
    meter: Meter,
}

// === impl Evaluation ===

impl<'v> Evaluation<'v> {
    pub(super) fn new() -> Evaluation<'v> {
        Evaluation { variables: Vec::new(), meter: Meter::new() }
    }

    pub(super) fn cost(&self) -> u64 {
        self.meter.cost()
    }

    /// Adds a variable. One that cannot be read matters only if it is used.
    pub(super) fn push(&mut self, value: Outcome<Value<'v>>) {
        self.variables.push(value);
    }

    /// Each form has a function of its own, so that nested ones need little of the stack.
    pub(super) fn evaluate(&mut self, node: &'v Node) -> Outcome<Value<'v>> {
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Variable(slot) => self.variable(*slot),
            Node::Select(operand, field) => self.select(operand, field),
            Node::Has(operand, field) => self.has(operand, field),
            Node::OptionalSelect(operand, field) => self.optional_select(operand, field),
            Node::And(operands) => self.logic(operands, false),
            Node::Or(operands) => self.logic(operands, true),
            Node::NotStrictlyFalse(operand) => self.not_strictly_false(operand),
            Node::Conditional(operands) => self.conditional(operands),
            Node::OptionalOr(operands, is_value) => self.optional_or(operands, *is_value),
            Node::Call(call) => self.call(call),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Fold(fold) => self.fold(fold),
        }
    }

    fn variable(&mut self, slot: usize) -> Outcome<Value<'v>> {
        self.meter.charge(1)?;
        self.variables[slot].clone()
    }

    fn select(&mut self, operand: &'v Node, field: &'v str) -> Outcome<Value<'v>> {
        let operand = self.evaluate(operand)?;
        self.meter.charge(1)?;
        match &operand {
            Value::Optional(_) => Ok(Value::Optional(find_field(&operand, field)?.map(Arc::new))),
            _ => find_field(&operand, field)?.ok_or_else(|| no_such_key(&Value::from(field))),
        }
    }

    fn has(&mut self, operand: &'v Node, field: &'v str) -> Outcome<Value<'v>> {
        let operand = self.evaluate(operand)?;
        Ok(Value::Bool(find_field(&operand, field)?.is_some()))
    }

    fn optional_select(&mut self, operand: &'v Node, field: &'v str) -> Outcome<Value<'v>> {
        let operand = self.evaluate(operand)?;
        self.meter.charge(1)?;
        Ok(Value::Optional(find_field(&operand, field)?.map(Arc::new)))
    }

    fn not_strictly_false(&mut self, operand: &'v Node) -> Outcome<Value<'v>> {
        let outcome = self.evaluate(operand);
        self.meter.charge(1)?;
        match outcome {
            Ok(Value::Bool(boolean)) => Ok(Value::Bool(boolean)),
            Err(Failure::CostLimit) => Err(Failure::CostLimit),
            Ok(_) | Err(_) => Ok(Value::Bool(true)),
        }
    }

    fn conditional(&mut self, operands: &'v [Node; 3]) -> Outcome<Value<'v>> {
        let [condition, yes, no] = operands;
        match self.evaluate(condition)? {
            Value::Bool(true) => self.evaluate(yes),
            Value::Bool(false) => self.evaluate(no),
            _ => Err(Failure::no_such_overload()),
        }
    }

    fn optional_or(&mut self, operands: &'v [Node; 2], is_value: bool) -> Outcome<Value<'v>> {
        let [optional, other] = operands;
        let optional = self.evaluate(optional)?;
        self.meter.charge(1)?;
        match (optional, is_value) {
            (Value::Optional(Some(value)), true) => Ok((*value).clone()),
            (Value::Optional(Some(value)), false) => Ok(Value::Optional(Some(value))),
            (Value::Optional(None), _) => self.evaluate(other),
            _ => Err(Failure::no_such_overload()),
        }
    }

    /// `&&` or `||`: one operand that decides suffices, even if the other has an error.
    fn logic(&mut self, operands: &'v [Node; 2], decisive: bool) -> Outcome<Value<'v>> {
        let mut failure = None;
        for operand in operands {
            match self.evaluate(operand) {
                Ok(Value::Bool(boolean)) if boolean == decisive => return Ok(Value::Bool(decisive)),
                Ok(Value::Bool(_)) => {}
                Ok(_) => failure = failure.or(Some(Failure::no_such_overload())),
                Err(Failure::CostLimit) => return Err(Failure::CostLimit),
                Err(found) => failure = failure.or(Some(found)),
            }
        }
        failure.map_or(Ok(Value::Bool(!decisive)), Err)
    }

    fn call(&mut self, call: &'v Call) -> Outcome<Value<'v>> {
        let mut arguments = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            arguments.push(self.evaluate(argument)?);
        }
        self.apply(call, &arguments)
    }

    fn apply(&mut self, call: &'v Call, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
        self.meter.charge_call(call.name, arguments)?;
        for row in &call.rows {
            match (row.run)(&mut self.meter, arguments) {
                Err(Failure::NoOverload) => {}
                outcome => return outcome,
            }
        }
        Err(Failure::no_such_overload())
    }

    fn list(&mut self, items: &'v [(Node, bool)]) -> Outcome<Value<'v>> {
        let mut values = Vec::with_capacity(items.len());
        for (item, is_optional) in items {
            match self.evaluate(item)? {
                Value::Optional(value) if *is_optional => {
                    values.extend(value.map(|value| (*value).clone()));
                }
                value if !is_optional => values.push(value),
                other => {
                    return Err(Failure::Error(format!(
                        "cannot initialize optional list element from non-optional value {}",
                        other.type_name()
                    )));
                }
            }
        }
        self.meter.charge(LIST_COST)?;
        Ok(Value::list(values))
    }

    fn map(&mut self, entries: &'v [(Node, Node, bool)]) -> Outcome<Value<'v>> {
        let mut values = BTreeMap::new();
        for (key, value, is_optional) in entries {
            let key = self.evaluate(key)?;
            let value = match self.evaluate(value)? {
                Value::Optional(None) if *is_optional => continue,
                Value::Optional(Some(value)) if *is_optional => (*value).clone(),
                value => value,
            };
            let key = key
                .to_key()
                .ok_or_else(|| Failure::Error(format!("unsupported key type: {}", key.type_name())))?;
            values.insert(key, value);
        }
        self.meter.charge(MAP_COST)?;
        Ok(Value::Map(Map::new(values)))
    }

    fn fold(&mut self, fold: &'v Fold) -> Outcome<Value<'v>> {
        let range = self.evaluate(&fold.range)?;
        let init = self.evaluate(&fold.init)?;
        let slot = self.variables.len();
        self.variables.push(Ok(init));
        let outcome = self.run_loop(fold, &range, slot);
        self.variables.truncate(slot + 1);
        let outcome = outcome.and_then(|()| self.evaluate(&fold.result));
        self.variables.truncate(slot);
        outcome
    }

    fn run_loop(&mut self, fold: &'v Fold, range: &Value<'v>, slot: usize) -> Outcome<()> {
        match range {
            Value::List(list) => {
                for (index, item) in list.iter().enumerate() {
                    let index = Value::Int(i64::try_from(index).unwrap_or(i64::MAX));
                    if !self.turn(fold, slot, index, item?)? {
                        break;
                    }
                }
            }
            Value::Map(map) => {
                for key in map.keys() {
                    let (first, second) = match fold.has_two_variables {
                        true => {
                            let value = map.find(&key)?.ok_or_else(|| no_such_key(&key))?;
                            (key, value)
                        }
                        false => (Value::Null, key),
                    };
                    if !self.turn(fold, slot, first, second)? {
                        break;
                    }
                }
            }
            other => {
                let name = other.type_name();
                let capital = name[..1].to_uppercase() + &name[1..];
                return Err(Failure::Error(format!("got 'types.{capital}', expected iterable type")));
            }
        }
        Ok(())
    }

    /// One turn of a loop, about an item with an index or a key. Returns whether there may be another one.
    fn turn(&mut self, fold: &'v Fold, slot: usize, key: Value<'v>, item: Value<'v>) -> Outcome<bool> {
        self.variables.truncate(slot + 1);
        if fold.has_two_variables {
            self.variables.push(Ok(key));
        }
        self.variables.push(Ok(item));
        match self.evaluate(&fold.condition)? {
            Value::Bool(true) => {}
            _ => return Ok(false),
        }
        self.variables[slot] = match self.step(&fold.step, slot) {
            Err(Failure::CostLimit) => return Err(Failure::CostLimit),
            accumulated => accumulated,
        };
        Ok(true)
    }

    /// The next accumulated value. Lists and maps that grow are changed in place.
    fn step(&mut self, step: &'v Node, slot: usize) -> Outcome<Value<'v>> {
        match step {
            Node::Conditional(operands) => {
                let [condition, yes, no] = &**operands;
                match self.evaluate(condition)? {
                    Value::Bool(true) => self.step(yes, slot),
                    Value::Bool(false) => self.step(no, slot),
                    _ => Err(Failure::no_such_overload()),
                }
            }
            Node::Variable(variable) if *variable == slot => {
                self.meter.charge(1)?;
                self.take(slot)
            }
            Node::Call(call) => self.growing_call(call, slot),
            step => self.evaluate(step),
        }
    }

    fn growing_call(&mut self, call: &'v Call, slot: usize) -> Outcome<Value<'v>> {
        let is_growing = matches!(call.name, operators::ADD | "cel.@mapInsert")
            && matches!(call.arguments.first(), Some(Node::Variable(variable)) if *variable == slot);
        if !is_growing {
            return self.call(call);
        }
        self.meter.charge(1)?;
        let rest: Vec<Value<'v>> =
            call.arguments[1..].iter().map(|argument| self.evaluate(argument)).collect::<Outcome<_>>()?;
        match (self.take(slot)?, &*rest) {
            (Value::List(mut list), [Value::List(added)]) => {
                self.meter.charge(1)?;
                self.meter.charge_copies(added.len())?;
                for item in added.iter() {
                    list.push(item?)?;
                }
                Ok(Value::List(list))
            }
            (Value::Map(mut map), [key, value]) if key.to_key().is_some() => {
                self.meter.charge(1)?;
                if key.to_key().is_some_and(|key| map.insert(key, value.clone())) {
                    return Ok(Value::Map(map));
                }
                let arguments = [Value::Map(map), key.clone(), value.clone()];
                (call.rows[0].run)(&mut self.meter, &arguments)
            }
            (accumulated, rest) => {
                let arguments: Vec<Value<'v>> =
                    std::iter::once(accumulated).chain(rest.iter().cloned()).collect();
                self.apply(call, &arguments)
            }
        }
    }

    fn take(&mut self, slot: usize) -> Outcome<Value<'v>> {
        std::mem::replace(&mut self.variables[slot], Ok(Value::Null))
    }
}

/// A field of an object, or of an optional one.
fn find_field<'v>(operand: &Value<'v>, field: &str) -> Outcome<Option<Value<'v>>> {
    match operand {
        Value::Map(map) => map.field(field),
        Value::Optional(None) => Ok(None),
        Value::Optional(Some(value)) => find_field(value, field),
        _ => Err(no_such_key(&Value::string(field))),
    }
}
