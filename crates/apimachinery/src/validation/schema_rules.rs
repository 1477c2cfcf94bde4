//! The expressions of the schema of a custom resource (`x-kubernetes-validations`): compiled once, and evaluated on the
//! value of each schema.
//!
//! Map entries are visited in the order of their keys, where a server's order is random.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::field_error::{FieldError, FieldErrors, FieldPath, PrintedValue};
use super::schema_path::{find_field, print_path};
use crate::cel::{
    CelProgram, CelResult, CelSchema, CelScope, CompileError, EvaluationError, ListForm, ResultType,
    SchemaForm,
};
use crate::structural::{AdditionalProperties, Correlation, ListType, Structural, ValidationRule, ValueType};

/// The compiled expressions of a schema and of those in it.
#[derive(Debug, Default)]
pub struct SchemaRules {
    rules: Vec<CompiledRule>,
    /// The schema and the scopes of the rules; `None` if there are none.
    target: Option<RuleTarget>,
    items: Option<Box<SchemaRules>>,
    properties: BTreeMap<String, SchemaRules>,
    additional: Option<Box<SchemaRules>>,
}

/// An expression, and what is said about values that violate it.
#[derive(Debug)]
pub(super) struct CompiledRule {
    source: ValidationRule,
    /// The expression; `None` if there is none.
    pub(super) program: Option<Result<CelProgram, CompileError>>,
    pub(super) message: Option<Result<CelProgram, CompileError>>,
    /// The path of the field that is blamed, from the value; empty if it is the value.
    field_path: String,
}

/// What rules are about.
#[derive(Debug)]
struct RuleTarget {
    schema: Arc<CelSchema>,
    scope: CelScope,
    optional_scope: CelScope,
}

/// The evaluation of the rules on one object.
struct RuleValidator<'e> {
    errors: &'e mut FieldErrors,
    /// Violations that do not count, because the value has not changed.
    warnings: &'e mut Vec<String>,
    /// What the evaluation may still cost.
    budget: u64,
}

/// What is known of the old value when a value is checked.
#[derive(Clone, Copy, Default)]
struct Ratchet<'r, 'v> {
    current: Option<&'r ComparedValue<'v>>,
    /// The nearest value around that has an old one.
    around: Option<&'r ComparedValue<'v>>,
}

struct ComparedValue<'v> {
    correlation: Correlation<'v>,
    is_unchanged: OnceCell<bool>,
}

/// What all evaluations for one object may cost together.
const BUDGET: u64 = 10_000_000;
const MAX_MESSAGE_LENGTH: usize = 5 * 1024;
const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// No further rules are evaluated.
struct Stopped;

// === impl SchemaRules ===

impl SchemaRules {
    /// Compiles the rules of the schema of a resource.
    pub fn compile(schema: &Structural) -> SchemaRules {
        match schema.has_rules() {
            true => SchemaRules::compile_part(schema, true),
            false => SchemaRules::default(),
        }
    }

    fn compile_part(schema: &Structural, is_resource: bool) -> SchemaRules {
        let (rules, target) = compile_rules(schema, is_resource);
        let inner = |schema: &Structural| {
            let compiled = SchemaRules::compile_part(schema, schema.is_embedded_resource());
            Some(compiled).filter(|compiled| !compiled.is_empty())
        };
        let properties =
            schema.properties().filter_map(|(name, schema)| Some((name.to_owned(), inner(schema)?)));
        let additional = match schema.additional_properties() {
            Some(AdditionalProperties::Schema(schema)) => inner(schema),
            Some(AdditionalProperties::Allowed(_)) | None => None,
        };
        SchemaRules {
            rules,
            target,
            items: schema.items().and_then(inner).map(Box::new),
            properties: properties.collect(),
            additional: additional.map(Box::new),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
            && self.items.is_none()
            && self.properties.is_empty()
            && self.additional.is_none()
    }

    /// Checks an object. Violations by values that an update does not change are warnings.
    pub(super) fn check(
        &self,
        errors: &mut FieldErrors,
        warnings: &mut Vec<String>,
        schema: &Structural,
        old: Option<&Value>,
        object: &Value,
    ) {
        let root = old.map(|old| ComparedValue::new(Correlation { schema, old, new: object }));
        let ratchet = Ratchet { current: root.as_ref(), around: None };
        let mut validator = RuleValidator { errors, warnings, budget: BUDGET };
        // Whoever stops has said why.
        _ = validator.check(self, schema, FieldPath::NIL, object, old, ratchet);
    }
}

// === impl RuleValidator ===

impl RuleValidator<'_> {
    fn check<'v>(
        &mut self,
        rules: &SchemaRules,
        schema: &'v Structural,
        path: FieldPath<'_>,
        value: &'v Value,
        old: Option<&'v Value>,
        ratchet: Ratchet<'_, 'v>,
    ) -> Result<(), Stopped> {
        if value.is_null() {
            return Ok(());
        }
        let old = old.filter(|old| !old.is_null());
        self.check_rules(rules, schema, path, value, old, ratchet)?;
        match value {
            Value::Object(fields) => {
                let old = old.and_then(Value::as_object);
                if let (Some(rules), Some(AdditionalProperties::Schema(schema))) =
                    (&rules.additional, schema.additional_properties())
                {
                    for (name, value) in fields {
                        let compared = ratchet.field(name);
                        let inner = ratchet.inner(name, compared.as_ref());
                        let old = old.and_then(|old| old.get(name));
                        self.check(rules, schema, path.key(name), value, old, inner)?;
                    }
                }
                for (name, rules) in &rules.properties {
                    let (Some(value), Some(schema)) = (fields.get(name), schema.property(name)) else {
                        continue;
                    };
                    let compared = ratchet.field(name);
                    let inner = ratchet.inner(name, compared.as_ref());
                    let old = old.and_then(|old| old.get(name));
                    self.check(rules, schema, path.child_of_any(name), value, old, inner)?;
                }
            }
            Value::Array(items) => {
                let (Some(rules), Some(item_schema)) = (&rules.items, schema.items()) else { return Ok(()) };
                // Only the items of maps have old ones.
                let correlated = old.and_then(|old| Correlation { schema, old, new: value }.items());
                let compared = ratchet.current.and_then(|current| current.correlation.items());
                for (index, item) in items.iter().enumerate() {
                    let old = correlated.as_ref().and_then(|items| items.find(item)).map(|found| found.old);
                    let compared =
                        compared.as_ref().and_then(|items| items.find(item)).map(ComparedValue::new);
                    let inner = ratchet.inner("", compared.as_ref());
                    self.check(rules, item_schema, path.index(index), item, old, inner)?;
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        Ok(())
    }

    fn check_rules(
        &mut self,
        rules: &SchemaRules,
        schema: &Structural,
        path: FieldPath<'_>,
        value: &Value,
        old: Option<&Value>,
        ratchet: Ratchet<'_, '_>,
    ) -> Result<(), Stopped> {
        let Some(target) = &rules.target else { return Ok(()) };
        let type_name = schema.value_type().map_or("", ValueType::name);
        if self.budget == 0 {
            self.errors.invalid(path, type_name, OUT_OF_BUDGET);
            return Err(Stopped);
        }
        for rule in &rules.rules {
            // Others were refused, or cannot be evaluated, which was said when the definition was written.
            let Some(Ok(program)) = &rule.program else { continue };
            let is_optional = rule.source.optional_old_self == Some(true);
            if program.uses_old_self() && old.is_none() && !is_optional {
                continue;
            }
            let scope = if is_optional { &target.optional_scope } else { &target.scope };
            let evaluate = |program: &CelProgram| program.evaluate(scope, &target.schema, value, old);
            let (result, cost) = evaluate(program);
            let text = rule.text();
            if !self.pay(cost) {
                self.errors.invalid(path, type_name, OUT_OF_BUDGET);
                return Err(Stopped);
            }
            match result {
                Ok(CelResult::Bool(true)) => continue,
                Ok(_) => {}
                Err(EvaluationError::CostLimit) => {
                    let detail = format!(
                        "'operation cancelled: actual cost limit exceeded': no further validation rules will be run \
                         due to call cost exceeds limit for rule: {text}"
                    );
                    self.errors.invalid(path, type_name, detail);
                    return Err(Stopped);
                }
                Err(EvaluationError::Failed(why)) if why.starts_with("no such overload") => {
                    let detail = format!(
                        "'{why}': call arguments did not match a supported operator, function or macro signature for \
                         rule: {text}"
                    );
                    self.errors.invalid(path, type_name, detail);
                    continue;
                }
                Err(EvaluationError::Failed(why)) => {
                    self.errors.invalid(path, type_name, format!("{why} evaluating rule: {text}"));
                    continue;
                }
            }
            let path = match rule.field_path.as_str() {
                "" => path,
                field => path.child_of_any(field),
            };
            let is_ratcheted = !program.uses_old_self() && ratchet.is_unchanged();
            let mut message = None;
            // A message is about an old value that exists, even if that of the rule need not.
            let usable = |program: &&CelProgram| old.is_some() || !program.uses_old_self();
            let expression = rule.message.as_ref().and_then(|program| program.as_ref().ok());
            if let Some(program) = expression.filter(usable) {
                let (result, cost) = evaluate(program);
                let failure = if !self.pay(cost) {
                    Some(
                        "messageExpression evaluation failed due to running out of cost budget, no further \
                          validation rules will be run"
                            .to_owned(),
                    )
                } else if result == Err(EvaluationError::CostLimit) {
                    let expression = kubernetes::go::text::quote(&rule.source.message_expression);
                    Some(format!(
                        "no further validation rules will be run due to call cost exceeds limit for \
                         messageExpression: {expression}"
                    ))
                } else {
                    None
                };
                if let Some(detail) = failure {
                    self.add(is_ratcheted, |errors| errors.invalid(path, type_name, detail));
                    return Err(Stopped);
                }
                message = result.ok().and_then(usable_message);
            }
            let detail = message.unwrap_or_else(|| rule.message_or_default());
            let printed = || match schema.value_type() {
                Some(ValueType::Object | ValueType::Array) => None,
                _ => Some(printed(value)),
            };
            self.add(is_ratcheted, |errors| match (rule.source.reason.as_str(), printed()) {
                ("FieldValueForbidden", _) => errors.forbidden(path, detail),
                ("FieldValueRequired", _) => errors.required(path, detail),
                ("FieldValueDuplicate", Some(value)) => errors.duplicate(path, value),
                ("FieldValueDuplicate", None) => errors.duplicate_omitted(path),
                (_, Some(value)) => errors.invalid(path, value, detail),
                (_, None) => errors.invalid_omitted(path, detail),
            });
        }
        Ok(())
    }

    /// Adds an error, or a warning of the same text.
    fn add(&mut self, is_ratcheted: bool, add: impl FnOnce(&mut FieldErrors)) {
        if !is_ratcheted {
            return add(self.errors);
        }
        let mut found = FieldErrors::default();
        add(&mut found);
        self.warnings.extend(found.iter().map(FieldError::to_string));
    }

    fn pay(&mut self, cost: u64) -> bool {
        let rest = self.budget.checked_sub(cost);
        self.budget = rest.unwrap_or(0);
        rest.is_some()
    }
}

// === impl CompiledRule ===

impl CompiledRule {
    pub(super) fn compile(source: &ValidationRule, schema: &Structural, target: &CelScope) -> CompiledRule {
        let is_set = |text: &&String| !text.trim().is_empty();
        let compile = |text: &String, expected| CelProgram::compile(text, target, expected);
        let program = Some(&source.rule).filter(is_set).map(|text| compile(text, ResultType::Bool));
        // The message of a rule that is wrong is not looked at.
        let is_right =
            !matches!(&program, Some(Err(error)) if !matches!(error, CompileError::Unsupported(_)));
        let message = Some(&source.message_expression).filter(|text| !text.is_empty() && is_right);
        let message = message.map(|text| compile(text, ResultType::String));
        let field_path = match find_field(&source.field_path, schema, true) {
            Ok((fields, _)) => print_path(&fields),
            Err(_) => String::new(),
        };
        CompiledRule { source: source.clone(), program, message, field_path }
    }

    /// The rule as errors of its evaluation name it.
    fn text(&self) -> &str {
        let text = if self.source.message.is_empty() { &self.source.rule } else { &self.source.message };
        text.trim()
    }

    fn message_or_default(&self) -> String {
        match self.source.message.is_empty() {
            true => format!("failed rule: {}", self.text()),
            false => self.text().to_owned(),
        }
    }
}

// === impl Ratchet ===

impl<'r, 'v> Ratchet<'r, 'v> {
    /// What a field of the value is compared with.
    fn field(&self, name: &str) -> Option<ComparedValue<'v>> {
        // Both objects have been converted to one type.
        let is_type = self.around.is_none() && matches!(name, "apiVersion" | "kind");
        let current = self.current.filter(|_| !is_type)?;
        current.correlation.field(name).map(ComparedValue::new)
    }

    /// The ratchet of a field or an item.
    fn inner<'i>(&self, name: &str, compared: Option<&'i ComparedValue<'v>>) -> Ratchet<'i, 'v>
    where
        'r: 'i,
    {
        match self.current {
            None => Ratchet { current: None, around: self.around },
            Some(_) if self.around.is_none() && matches!(name, "apiVersion" | "kind") => Ratchet::default(),
            current => Ratchet { current: compared, around: current },
        }
    }

    fn is_unchanged(&self) -> bool {
        self.current.or(self.around).is_some_and(ComparedValue::is_unchanged)
    }
}

// === impl ComparedValue ===

impl<'v> ComparedValue<'v> {
    fn new(correlation: Correlation<'v>) -> ComparedValue<'v> {
        ComparedValue { correlation, is_unchanged: OnceCell::new() }
    }

    fn is_unchanged(&self) -> bool {
        *self.is_unchanged.get_or_init(|| self.correlation.is_unchanged())
    }
}

fn compile_rules(schema: &Structural, is_resource: bool) -> (Vec<CompiledRule>, Option<RuleTarget>) {
    if schema.rules().is_empty() {
        return (Vec::new(), None);
    }
    let Some(target) = RuleTarget::new(schema, is_resource) else { return (Vec::new(), None) };
    let compile = |rule: &ValidationRule| CompiledRule::compile(rule, schema, target.scope_of(rule));
    (schema.rules().iter().map(compile).collect(), Some(target))
}

// === impl RuleTarget ===

impl RuleTarget {
    fn new(schema: &Structural, is_resource: bool) -> Option<RuleTarget> {
        let schema = Arc::new(cel_schema(schema, is_resource));
        let (scope, optional_scope) = (CelScope::new(&schema, false)?, CelScope::new(&schema, true)?);
        Some(RuleTarget { schema, scope, optional_scope })
    }

    fn scope_of(&self, rule: &ValidationRule) -> &CelScope {
        if rule.optional_old_self == Some(true) { &self.optional_scope } else { &self.scope }
    }
}

/// The compiled rules of one schema; `None` if expressions cannot be about its values.
pub(super) fn compile_own_rules(schema: &Structural, is_resource: bool) -> Option<Vec<CompiledRule>> {
    let (rules, target) = compile_rules(schema, is_resource);
    target.map(|_| rules)
}

/// A schema as expressions see it.
fn cel_schema(schema: &Structural, is_resource: bool) -> CelSchema {
    let inner = |schema: &Structural| Arc::new(cel_schema(schema, schema.is_embedded_resource()));
    let form = match schema.value_type() {
        _ if schema.is_int_or_string() => SchemaForm::IntOrString,
        None => SchemaForm::Unknown,
        Some(ValueType::Object) => match schema.additional_properties() {
            Some(AdditionalProperties::Schema(values)) if !is_resource => SchemaForm::Map(inner(values)),
            _ => {
                let fields = schema.properties().map(|(name, schema)| (name.to_owned(), inner(schema)));
                let mut fields: BTreeMap<String, Arc<CelSchema>> = fields.collect();
                if is_resource {
                    add_type_and_metadata(&mut fields);
                }
                SchemaForm::Object(fields)
            }
        },
        Some(ValueType::Array) => match schema.items() {
            Some(items) => SchemaForm::List(inner(items), list_form(schema)),
            None => SchemaForm::Unknown,
        },
        Some(ValueType::String) => match schema.format() {
            "byte" => SchemaForm::Bytes,
            "duration" => SchemaForm::Duration,
            "date" => SchemaForm::Date,
            "date-time" => SchemaForm::DateTime,
            _ => SchemaForm::String,
        },
        Some(ValueType::Integer) => SchemaForm::Integer,
        Some(ValueType::Number) => SchemaForm::Number,
        Some(ValueType::Boolean) => SchemaForm::Boolean,
    };
    CelSchema { form, nullable: schema.is_nullable() }
}

/// The fields of every resource that expressions can reach: of its metadata only the names.
fn add_type_and_metadata(fields: &mut BTreeMap<String, Arc<CelSchema>>) {
    let text = || Arc::new(CelSchema { form: SchemaForm::String, nullable: false });
    let is_text = |schema: Option<&Arc<CelSchema>>| {
        schema.is_some_and(|schema| matches!(schema.form, SchemaForm::String))
    };
    let has_names = match fields.get("metadata").map(|metadata| &metadata.form) {
        Some(SchemaForm::Object(names)) => is_text(names.get("name")) && is_text(names.get("generateName")),
        _ => false,
    };
    if has_names && is_text(fields.get("kind")) && is_text(fields.get("apiVersion")) {
        return;
    }
    let names = ["name", "generateName"].map(|name| (name.to_owned(), text()));
    let metadata = CelSchema { form: SchemaForm::Object(names.into()), nullable: false };
    fields.insert("kind".to_owned(), text());
    fields.insert("apiVersion".to_owned(), text());
    fields.insert("metadata".to_owned(), Arc::new(metadata));
}

fn list_form(schema: &Structural) -> ListForm {
    match schema.list_type() {
        Some(ListType::Set) => ListForm::Set,
        Some(ListType::Map) => ListForm::Map(schema.list_map_keys().to_vec()),
        Some(ListType::Atomic) | None => ListForm::Atomic,
    }
}

/// The message that an expression made, if it can be used as one.
fn usable_message(result: CelResult) -> Option<String> {
    let CelResult::String(message) = result else { return None };
    let message = message.trim();
    let is_usable = !message.is_empty() && message.len() <= MAX_MESSAGE_LENGTH && !message.contains('\n');
    is_usable.then(|| message.to_owned())
}

fn printed(value: &Value) -> PrintedValue<'_> {
    match value {
        Value::Number(_) => PrintedValue::Printed(kubernetes::go::text::format_value(value)),
        value => value.into(),
    }
}
