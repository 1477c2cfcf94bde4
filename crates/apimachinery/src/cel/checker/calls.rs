//! The calls of an expression: their overloads, and constants that cannot be arguments.

use std::sync::Arc;

use ::cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, operators};

use super::{Checker, failed, qualified_name};
use crate::cel::functions::costs::Meter;
use crate::cel::functions::{self, Function, Row, times};
use crate::cel::node::{Call, Node};
use crate::cel::types::{CelType, FIRST_FREE_VARIABLE};
use crate::cel::value::{Failure, Value};
use crate::structural::{Pattern, check_pattern};

const CONVERSIONS: [&str; 10] =
    ["bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"];

impl Checker<'_> {
    pub(super) fn call(&mut self, id: u64, call: &CallExpr) -> (Node, CelType) {
        if call.func_name == operators::OPT_SELECT {
            return self.optional_select(id, call);
        }
        let is_exempt = call.func_name == "format";
        self.exempt_depth += usize::from(is_exempt);
        let checked = self.any_call(id, call);
        self.exempt_depth -= usize::from(is_exempt);
        checked
    }

    fn optional_select(&mut self, id: u64, call: &CallExpr) -> (Node, CelType) {
        let [operand, field] = &*call.args else {
            self.error(id, "unsupported optional field selection: incorrect signature.".to_owned());
            return failed();
        };
        let Expr::Literal(LiteralValue::String(name)) = &field.expr else {
            self.error(field.id, "unsupported optional field selection".to_owned());
            return failed();
        };
        let (node, found) = self.select_field(id, operand, name.inner(), true);
        let node = Node::OptionalSelect(Box::new(node), name.inner().into());
        (node, self.bindings.resolve(&found))
    }

    fn any_call(&mut self, id: u64, call: &CallExpr) -> (Node, CelType) {
        let (mut nodes, mut types): (Vec<Node>, Vec<CelType>) =
            call.args.iter().map(|argument| self.expression(argument)).unzip();
        let Some(target) = &call.target else {
            let name = call.func_name.strip_prefix('.').unwrap_or(&call.func_name);
            return match functions::find(name) {
                Some(function) => self.resolve(id, function, false, call, nodes, types),
                None => {
                    self.undeclared(id, name);
                    failed()
                }
            };
        };
        if let Some(prefix) = qualified_name(target)
            && let Some(function) = functions::find(&format!("{prefix}.{}", call.func_name))
        {
            return self.resolve(id, function, false, call, nodes, types);
        }
        let (node, target_type) = self.expression(target);
        nodes.insert(0, node);
        types.insert(0, target_type);
        match functions::find(&call.func_name) {
            Some(function) => self.resolve(id, function, true, call, nodes, types),
            None => {
                self.undeclared(id, &call.func_name);
                failed()
            }
        }
    }

    /// Finds the overloads that accept the arguments.
    fn resolve(
        &mut self,
        id: u64,
        function: &'static Function,
        is_member: bool,
        call: &CallExpr,
        nodes: Vec<Node>,
        types: Vec<CelType>,
    ) -> (Node, CelType) {
        let name = function.name;
        if matches!(name, operators::LOGICAL_AND | operators::LOGICAL_OR) {
            for (argument, found) in call.args.iter().zip(&types) {
                self.expect(argument.id, &CelType::Bool, found, false);
            }
            return (node_of(name, Vec::new(), nodes), CelType::Bool);
        }
        let mut rows: Vec<&'static Row> = Vec::new();
        let mut result: Option<CelType> = None;
        for overload in function.overloads.iter().filter(|overload| overload.is_member == is_member) {
            if overload.parameters.len() != types.len() {
                continue;
            }
            let first = self.next_variable;
            self.next_variable += FIRST_FREE_VARIABLE;
            let parameters: Vec<CelType> =
                overload.parameters.iter().map(|parameter| parameter.instantiate(first)).collect();
            let pairs: Vec<(&CelType, &CelType)> = types.iter().zip(&parameters).collect();
            if !self.bindings.unify_all(&pairs) {
                continue;
            }
            if !rows.iter().any(|row| std::ptr::eq(*row, overload.row)) {
                rows.push(overload.row);
            }
            let found = self.bindings.resolve(&overload.result.instantiate(first));
            result = Some(match result {
                None => found,
                Some(CelType::Dyn) => CelType::Dyn,
                Some(result) if result == found => result,
                Some(_) => CelType::Dyn,
            });
        }
        let Some(result) = result else {
            let mut texts = types.iter().map(|found| self.bindings.resolve_to_dyn(found).to_string());
            let receiver = if is_member { texts.next().map(|receiver| receiver + ".") } else { None };
            let receiver = receiver.unwrap_or_default();
            let arguments: Vec<String> = texts.collect();
            let message = format!(
                "found no matching overload for '{name}' applied to '{receiver}({})'",
                arguments.join(", ")
            );
            self.error(id, message);
            return failed();
        };
        let mut nodes = nodes;
        self.check_literals(id, function, call, &mut nodes);
        let node = node_of(name, rows, nodes);
        match CONVERSIONS.contains(&name) {
            true => (self.converted_constant(node), result),
            false => (node, result),
        }
    }

    /// Checks constants that cannot be arguments of a function.
    fn check_literals(&mut self, call_id: u64, function: &Function, call: &CallExpr, nodes: &mut [Node]) {
        let name = function.name;
        let first = call.args.first();
        if let ("duration" | "timestamp", Some(argument), [Node::Constant(value)]) = (name, first, &*nodes) {
            let run = function.overloads.first().map(|overload| overload.row.run);
            // An integer is no constant for a duration, although it can be converted.
            let is_integer = name == "duration" && matches!(value, Value::Int(_));
            if is_integer
                || run.is_some_and(|run| run(&mut Meter::new(), std::slice::from_ref(value)).is_err())
            {
                let issue = self.parsed.issue(argument.id, format!("invalid {name} argument"));
                self.literal_issues.push(issue);
            }
        }
        // A global call of it has the text first, which is checked nevertheless.
        if let ("matches", Some(argument)) = (name, first)
            && let Expr::Literal(LiteralValue::String(pattern)) = &argument.expr
            && check_pattern(pattern.inner()).is_err()
        {
            let issue = self.parsed.issue(argument.id, "invalid matches argument".to_owned());
            self.literal_issues.push(issue);
        }
        if let ("matches" | "find" | "findAll", [_, pattern, ..]) = (name, &mut *nodes)
            && let Node::Constant(Value::String(text)) = pattern
        {
            if let Err(why) = check_pattern(text) {
                self.bad_constant.get_or_insert(why);
            }
            *pattern = Node::Constant(Value::Pattern(Arc::new(Pattern::new(text))));
        }
        if let ("format", Some(target), Some(IdedExpr { expr: Expr::List(list), .. })) =
            (name, &call.target, first)
            && let Expr::Literal(LiteralValue::String(template)) = &target.expr
        {
            self.formats.push((
                call_id,
                template.inner().to_owned(),
                list.elements.iter().map(|item| item.id).collect(),
            ));
        }
        if let (true, [_, zone]) = (name.starts_with("get") && name != "getQuery", &*nodes) {
            let is_known = matches!(zone, Node::Constant(Value::String(zone)) if times::is_known_zone(zone));
            if !is_known {
                self.unsupported.get_or_insert(format!("{name}() with the name of a time zone"));
            }
        }
    }

    /// Conversions of constants are made once.
    fn converted_constant(&mut self, node: Node) -> Node {
        let Node::Call(call) = &node else { return node };
        let [Node::Constant(value)] = &*call.arguments else { return node };
        let arguments = std::slice::from_ref(value);
        let mut failure = None;
        for row in &call.rows {
            match (row.run)(&mut Meter::new(), arguments) {
                Ok(value) => return Node::Constant(value),
                Err(Failure::NoOverload) => {}
                Err(Failure::Error(why)) => failure = Some(why),
                Err(Failure::CostLimit) => return node,
            }
        }
        let why = failure.unwrap_or_else(|| match Failure::no_overload_for(call.name, arguments) {
            Failure::Error(why) => why,
            Failure::NoOverload | Failure::CostLimit => String::new(),
        });
        self.bad_constant.get_or_insert(why);
        node
    }
}

/// A call, in the form of the evaluator if it evaluates its arguments in another way.
fn node_of(name: &'static str, rows: Vec<&'static Row>, arguments: Vec<Node>) -> Node {
    let pair = |arguments: Vec<Node>| Box::<[Node; 2]>::try_from(arguments.into_boxed_slice());
    let other =
        |arguments: Box<[Node]>| Node::Call(Call { name, rows: Vec::new(), arguments: arguments.into_vec() });
    match name {
        operators::LOGICAL_AND => pair(arguments).map_or_else(other, Node::And),
        operators::LOGICAL_OR => pair(arguments).map_or_else(other, Node::Or),
        "or" => pair(arguments).map_or_else(other, |pair| Node::OptionalOr(pair, false)),
        "orValue" => pair(arguments).map_or_else(other, |pair| Node::OptionalOr(pair, true)),
        operators::CONDITIONAL => {
            Box::<[Node; 3]>::try_from(arguments.into_boxed_slice()).map_or_else(other, Node::Conditional)
        }
        operators::NOT_STRICTLY_FALSE => {
            let argument = arguments.into_iter().next().unwrap_or(Node::Constant(Value::Null));
            Node::NotStrictlyFalse(Box::new(argument))
        }
        _ => Node::Call(Call { name, rows, arguments }),
    }
}
