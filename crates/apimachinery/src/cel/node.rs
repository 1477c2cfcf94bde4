//! The parts of a checked expression.

use super::functions::Row;
use super::value::Value;

/// A part of an expression. Variables are numbered from the outside.
#[derive(Debug)]
pub(super) enum Node {
    Constant(Value<'static>),
    Variable(usize),
    Select(Box<Node>, Box<str>),
    Has(Box<Node>, Box<str>),
    OptionalSelect(Box<Node>, Box<str>),
    And(Box<[Node; 2]>),
    Or(Box<[Node; 2]>),
    NotStrictlyFalse(Box<Node>),
    Conditional(Box<[Node; 3]>),
    /// An optional value or another value; whether that is not optional.
    OptionalOr(Box<[Node; 2]>, bool),
    Call(Call),
    /// Items, and whether each is added only if it has a value.
    List(Vec<(Node, bool)>),
    /// Keys, values, and whether each is added only if it has a value.
    Map(Vec<(Node, Node, bool)>),
    Fold(Box<Fold>),
}

#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: &'static str,
    /// The functions of the overloads that the types allow.
    pub(super) rows: Vec<&'static Row>,
    pub(super) arguments: Vec<Node>,
}

/// A loop. Its variables are the accumulated value, then those of the range.
#[derive(Debug)]
pub(super) struct Fold {
    pub(super) range: Node,
    pub(super) has_two_variables: bool,
    pub(super) init: Node,
    pub(super) condition: Node,
    pub(super) step: Node,
    pub(super) result: Node,
}

// === impl Node ===

impl Node {
    pub(super) fn is_deeper_than(&self, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return true };
        let any = |nodes: &[Node]| nodes.iter().any(|node| node.is_deeper_than(depth));
        match self {
            Node::Constant(_) | Node::Variable(_) => false,
            Node::Select(operand, _) | Node::Has(operand, _) | Node::OptionalSelect(operand, _) => {
                operand.is_deeper_than(depth)
            }
            Node::NotStrictlyFalse(operand) => operand.is_deeper_than(depth),
            Node::And(operands) | Node::Or(operands) | Node::OptionalOr(operands, _) => any(&**operands),
            Node::Conditional(operands) => any(&**operands),
            Node::Call(call) => any(&call.arguments),
            Node::List(items) => items.iter().any(|(item, _)| item.is_deeper_than(depth)),
            Node::Map(entries) => {
                entries.iter().any(|(key, value, _)| key.is_deeper_than(depth) || value.is_deeper_than(depth))
            }
            Node::Fold(fold) => [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result]
                .into_iter()
                .any(|node| node.is_deeper_than(depth)),
        }
    }
}
