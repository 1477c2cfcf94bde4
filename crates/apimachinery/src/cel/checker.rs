//! The types of an expression, checked as cel-go does, and the expression made ready for evaluation.

mod calls;

use std::collections::HashMap;
use std::sync::Arc;

use ::cel::common::ast::{
    ComprehensionExpr, EntryExpr, Expr, IdedEntryExpr, IdedExpr, ListExpr, LiteralValue, SelectExpr,
    StructExpr,
};

use super::functions::format_string::check_format;
use super::node::{Fold, Node};
use super::schema::CelScope;
use super::syntax::{Issue, Parsed};
use super::types::{Bindings, CelType, FIRST_FREE_VARIABLE};
use super::value::{Text, Value};

/// A check of one expression.
pub(super) struct Checker<'c> {
    parsed: &'c Parsed,
    bindings: Bindings,
    next_variable: u32,
    /// The variables in scope, from the outside: name, type.
    variables: Vec<(String, CelType)>,
    issues: Vec<Issue>,
    /// The parts of each literal list and map, which must have one type.
    aggregates: Vec<Vec<(u64, CelType)>>,
    /// How many calls are around that allow items of several types.
    exempt_depth: usize,
    literal_issues: Vec<Issue>,
    /// The calls of `format` on a constant: the call, the text, and the values.
    formats: Vec<(u64, String, Vec<u64>)>,
    /// The types of the items of literal lists.
    item_types: HashMap<u64, CelType>,
    uses_old_self: bool,
    bad_constant: Option<String>,
    unsupported: Option<String>,
}

/// A checked expression.
pub(super) struct Checked {
    pub(super) root: Node,
    pub(super) result: CelType,
    pub(super) issues: Vec<Issue>,
    pub(super) uses_old_self: bool,
    pub(super) bad_constant: Option<String>,
    /// What cannot be evaluated.
    pub(super) unsupported: Option<String>,
}

const SELF: &str = "self";
const OLD_SELF: &str = "oldSelf";

// === impl Checker ===

impl<'c> Checker<'c> {
    pub(super) fn check(parsed: &Parsed, scope: &CelScope) -> Checked {
        let old = match scope.is_old_optional {
            true => CelType::optional(scope.self_type.clone()),
            false => scope.self_type.clone(),
        };
        let mut checker = Checker {
            parsed,
            bindings: Bindings::default(),
            next_variable: FIRST_FREE_VARIABLE,
            variables: vec![(SELF.to_owned(), scope.self_type.clone()), (OLD_SELF.to_owned(), old)],
            issues: Vec::new(),
            aggregates: Vec::new(),
            exempt_depth: 0,
            literal_issues: Vec::new(),
            formats: Vec::new(),
            item_types: HashMap::new(),
            uses_old_self: false,
            bad_constant: None,
            unsupported: None,
        };
        let (root, result) = checker.expression(&parsed.root);
        let result = checker.bindings.resolve_to_dyn(&result);
        if checker.issues.is_empty() {
            checker.check_aggregates();
            checker.check_formats();
            checker.issues.append(&mut checker.literal_issues);
        }
        Checked {
            root,
            result,
            issues: checker.issues,
            uses_old_self: checker.uses_old_self,
            bad_constant: checker.bad_constant,
            unsupported: checker.unsupported,
        }
    }

    fn expression(&mut self, expression: &IdedExpr) -> (Node, CelType) {
        match &expression.expr {
            Expr::Literal(literal) => literal_value(literal),
            Expr::Ident(name) => self.ident(expression.id, name),
            Expr::Select(select) => self.select(expression, select),
            Expr::Call(call) => self.call(expression.id, call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(&map.entries),
            Expr::Struct(created) => self.created(expression.id, created),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Unspecified => {
                self.error(expression.id, "unexpected unspecified type: ".to_owned());
                failed()
            }
        }
    }

    fn ident(&mut self, id: u64, name: &str) -> (Node, CelType) {
        match self.find_ident(name) {
            Some(found) => found,
            None => {
                self.undeclared(id, name);
                failed()
            }
        }
    }

    /// A variable or a type.
    fn find_ident(&mut self, name: &str) -> Option<(Node, CelType)> {
        let (name, is_global) = match name.strip_prefix('.') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let searched = if is_global { &self.variables[..2] } else { &self.variables[..] };
        if let Some(slot) = searched.iter().rposition(|(variable, _)| variable == name) {
            self.uses_old_self |= slot == 1;
            return Some((Node::Variable(slot), self.variables[slot].1.clone()));
        }
        let named = named_type(name)?;
        let name = match &named {
            CelType::Duration => "google.protobuf.Duration",
            CelType::Timestamp => "google.protobuf.Timestamp",
            _ => name,
        };
        Some((Node::Constant(Value::CelType(Arc::from(name))), CelType::Meta(Some(Arc::new(named)))))
    }

    fn select(&mut self, expression: &IdedExpr, select: &SelectExpr) -> (Node, CelType) {
        if !select.test
            && let Some(name) = qualified_name(expression)
            && let Some(found) = self.find_ident(&name)
        {
            return found;
        }
        let (operand, field_type) = self.select_field(expression.id, &select.operand, &select.field, false);
        let field: Box<str> = select.field.as_str().into();
        match select.test {
            true => (Node::Has(Box::new(operand), field), CelType::Bool),
            false => (Node::Select(Box::new(operand), field), self.bindings.resolve(&field_type)),
        }
    }

    fn select_field(
        &mut self,
        id: u64,
        operand: &IdedExpr,
        field: &str,
        is_optional: bool,
    ) -> (Node, CelType) {
        let (node, operand_type) = self.expression(operand);
        let operand_type = self.bindings.resolve(&operand_type);
        let (target, was_optional) = operand_type.unwrap_optional();
        let found = match target {
            CelType::Map(_, value) => (**value).clone(),
            CelType::Object(object) => match object.fields.get(field) {
                Some(found) => found.clone(),
                None => {
                    self.error(id, format!("undefined field '{field}'"));
                    CelType::Error
                }
            },
            CelType::Variable(_) => {
                self.bindings.unify(&CelType::Dyn, target);
                CelType::Dyn
            }
            CelType::Dyn | CelType::Error => CelType::Dyn,
            other => {
                let message = format!("type '{other}' does not support field selection");
                self.error(id, message);
                CelType::Dyn
            }
        };
        (node, if was_optional || is_optional { CelType::optional(found) } else { found })
    }

    fn list(&mut self, list: &ListExpr) -> (Node, CelType) {
        let mut items = Vec::with_capacity(list.elements.len());
        let mut item_type: Option<CelType> = None;
        let mut found = Vec::new();
        for (index, item) in list.elements.iter().enumerate() {
            let is_optional = list.optional_indices.contains(&index);
            let (node, one) = self.expression(item);
            let one = self.value_of_optional(item.id, one, is_optional);
            found.push((item.id, one.clone()));
            self.item_types.insert(item.id, one.clone());
            item_type = Some(self.join(item.id, item_type, one));
            items.push((node, is_optional));
        }
        self.add_aggregate(found);
        let item_type = item_type.unwrap_or_else(|| self.free_variable());
        (constant_list(items), CelType::list(item_type))
    }

    fn map(&mut self, entries: &[IdedEntryExpr]) -> (Node, CelType) {
        let mut nodes = Vec::with_capacity(entries.len());
        let (mut key_type, mut value_type): (Option<CelType>, Option<CelType>) = (None, None);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for entry in entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let (key, one) = self.expression(&entry.key);
            keys.push((entry.key.id, one.clone()));
            key_type = Some(self.join(entry.key.id, key_type, one));
            let (value, one) = self.expression(&entry.value);
            let one = self.value_of_optional(entry.value.id, one, entry.optional);
            values.push((entry.value.id, one.clone()));
            value_type = Some(self.join(entry.value.id, value_type, one));
            nodes.push((key, value, entry.optional));
        }
        self.add_aggregate(keys);
        self.add_aggregate(values);
        let key_type = key_type.unwrap_or_else(|| self.free_variable());
        let value_type = value_type.unwrap_or_else(|| self.free_variable());
        (Node::Map(nodes), CelType::map(key_type, value_type))
    }

    /// Objects can only be made of types that expressions do not know here.
    fn created(&mut self, id: u64, created: &StructExpr) -> (Node, CelType) {
        let name = created.type_name.strip_prefix('.').unwrap_or(&created.type_name);
        match named_type(name) {
            None => self.undeclared(id, name),
            Some(CelType::Duration | CelType::Timestamp) => {
                self.unsupported.get_or_insert(format!("{name}{{}}"));
            }
            Some(_) => self.error(id, format!("'{name}' is not a message type")),
        }
        failed()
    }

    fn comprehension(&mut self, comprehension: &ComprehensionExpr) -> (Node, CelType) {
        let (range, range_type) = self.expression(&comprehension.iter_range);
        let (init, init_type) = self.expression(&comprehension.accu_init);
        let range_type = self.bindings.resolve(&range_type);
        let has_two_variables = comprehension.iter_var2.is_some();
        let (first, second) = match &range_type {
            CelType::List(item) if has_two_variables => (CelType::Int, (**item).clone()),
            CelType::List(item) => ((**item).clone(), CelType::Dyn),
            CelType::Map(key, value) => ((**key).clone(), (**value).clone()),
            CelType::Dyn | CelType::Error | CelType::Variable(_) => {
                self.bindings.unify(&CelType::Dyn, &range_type);
                (CelType::Dyn, CelType::Dyn)
            }
            other => {
                let message = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.error(comprehension.iter_range.id, message);
                (CelType::Error, CelType::Error)
            }
        };
        let outside = self.variables.len();
        self.variables.push((comprehension.accu_var.clone(), init_type.clone()));
        self.variables.push((comprehension.iter_var.clone(), first));
        if let Some(name) = &comprehension.iter_var2 {
            self.variables.push((name.clone(), second));
        }
        let (condition, found) = self.expression(&comprehension.loop_cond);
        self.expect(comprehension.loop_cond.id, &CelType::Bool, &found, true);
        let (step, found) = self.expression(&comprehension.loop_step);
        self.expect(comprehension.loop_step.id, &init_type, &found, true);
        self.variables.truncate(outside + 1);
        let (result, result_type) = self.expression(&comprehension.result);
        self.variables.truncate(outside);
        let fold = Fold { range, has_two_variables, init, condition, step, result };
        (Node::Fold(Box::new(fold)), self.bindings.resolve(&result_type))
    }

    /// Reports a type that does not fit the expected one.
    fn expect(&mut self, id: u64, expected: &CelType, found: &CelType, expected_first: bool) {
        let (one, other) = if expected_first { (expected, found) } else { (found, expected) };
        if !self.bindings.unify(one, other) {
            self.error(id, format!("expected type '{expected}' but found '{found}'"));
        }
    }

    /// The type of the value of an optional item.
    fn value_of_optional(&mut self, id: u64, found: CelType, is_optional: bool) -> CelType {
        if !is_optional {
            return found;
        }
        let (value, was_optional) = found.unwrap_optional();
        if !was_optional && *value != CelType::Dyn {
            let expected = CelType::optional(value.clone());
            self.error(id, format!("expected type '{expected}' but found '{value}'"));
        }
        value.clone()
    }

    fn join(&mut self, id: u64, previous: Option<CelType>, current: CelType) -> CelType {
        let Some(previous) = previous else { return current };
        if self.bindings.unify(&previous, &current) {
            return previous.most_general(current);
        }
        self.error(id, format!("expected type '{previous}' but found '{current}'"));
        CelType::Error
    }

    fn add_aggregate(&mut self, found: Vec<(u64, CelType)>) {
        if self.exempt_depth == 0 {
            self.aggregates.push(found);
        }
    }

    /// Checks that the items of each list have one type, not only types that fit.
    fn check_aggregates(&mut self) {
        for items in std::mem::take(&mut self.aggregates) {
            let mut types = items.iter().map(|(id, found)| (*id, self.bindings.resolve_to_dyn(found)));
            let Some((_, first)) = types.next() else { continue };
            if let Some((id, other)) = types.find(|(_, found)| *found != first) {
                self.error(id, format!("expected type '{first}' but found '{other}'"));
            }
        }
    }

    /// Checks that constant texts of `format` and the types of their values fit.
    fn check_formats(&mut self) {
        for (call, template, values) in std::mem::take(&mut self.formats) {
            let types = values.iter().map(|id| {
                let found = self.item_types.get(id).unwrap_or(&CelType::Dyn);
                self.bindings.resolve_to_dyn(found)
            });
            let types: Vec<CelType> = types.collect();
            if let Err((value, why)) = check_format(&template, &types) {
                let id = value.and_then(|index| values.get(index)).unwrap_or(&call);
                self.error(*id, why);
            }
        }
    }

    fn free_variable(&mut self) -> CelType {
        self.next_variable += 1;
        CelType::Variable(self.next_variable - 1)
    }

    fn undeclared(&mut self, id: u64, name: &str) {
        self.error(id, format!("undeclared reference to '{name}' (in container '')"));
    }

    fn error(&mut self, id: u64, message: String) {
        let issue = self.parsed.issue(id, message);
        self.issues.push(issue);
    }
}

/// What stands for an expression with an error.
fn failed() -> (Node, CelType) {
    (Node::Constant(Value::Null), CelType::Error)
}

fn literal_value(literal: &LiteralValue) -> (Node, CelType) {
    let (value, found) = match literal {
        LiteralValue::Boolean(boolean) => (Value::Bool(*boolean.inner()), CelType::Bool),
        LiteralValue::Int(number) => (Value::Int(*number.inner()), CelType::Int),
        LiteralValue::UInt(number) => (Value::Uint(*number.inner()), CelType::Uint),
        LiteralValue::Double(number) => (Value::Double(*number.inner()), CelType::Double),
        LiteralValue::String(text) => (Value::String(Text::Shared(Arc::from(text.inner()))), CelType::String),
        LiteralValue::Bytes(bytes) => (Value::Bytes(Arc::from(bytes.inner())), CelType::Bytes),
        LiteralValue::Null => (Value::Null, CelType::Null),
    };
    (Node::Constant(value), found)
}

/// The type of a name.
fn named_type(name: &str) -> Option<CelType> {
    Some(match name {
        "bool" => CelType::Bool,
        "bytes" => CelType::Bytes,
        "double" => CelType::Double,
        "google.protobuf.Duration" => CelType::Duration,
        "google.protobuf.Timestamp" => CelType::Timestamp,
        "int" => CelType::Int,
        "uint" => CelType::Uint,
        "string" => CelType::String,
        "list" => CelType::list(CelType::Dyn),
        "map" => CelType::map(CelType::Dyn, CelType::Dyn),
        "null_type" => CelType::Null,
        "type" => CelType::Meta(None),
        "optional_type" => CelType::optional(CelType::Dyn),
        "net.IP" | "net.CIDR" => CelType::named(name),
        _ => return None,
    })
}

/// The name that selections of fields spell: `a.b.c`.
fn qualified_name(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        Expr::Select(select) if !select.test => {
            Some(format!("{}.{}", qualified_name(&select.operand)?, select.field))
        }
        _ => None,
    }
}

/// A list, which is made once if its items are constants.
fn constant_list(items: Vec<(Node, bool)>) -> Node {
    let values: Option<Vec<Value<'static>>> = items
        .iter()
        .map(|(item, is_optional)| match item {
            Node::Constant(value) if !is_optional => Some(value.clone()),
            _ => None,
        })
        .collect();
    match values.filter(|values| !values.is_empty()) {
        Some(values) => Node::Constant(Value::list(values)),
        None => Node::List(items),
    }
}
