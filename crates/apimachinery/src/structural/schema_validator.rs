//! Validation of a custom resource by its schema, as kube-openapi does it.
//!
//! An update may keep what it does not change, even if it is not valid (`CRDValidationRatcheting`).

use serde_json::{Map, Value};

use super::correlation::Correlation;
use super::numbers::{GoNumber, is_json_integer};
use super::validation_result::{SchemaViolation, ValidationResult};
use super::{AdditionalProperties, Structural, ValueType, formats};

/// A validation of one object.
pub struct SchemaValidator {
    /// The path of the current value.
    path: String,
    /// The work that remains: a large object and a schema with many alternatives would take hours.
    steps: usize,
    /// The length of the texts that violations may still have.
    length: usize,
}

const MAX_STEPS: usize = 50_000_000;
const MAX_LENGTH: usize = 32 << 20;
/// A text of this length is a step.
const BYTES_PER_STEP: usize = 64;

// === impl SchemaValidator ===

impl SchemaValidator {
    /// The violations of a schema by a new value.
    pub fn validate(schema: &Structural, value: &Value) -> Vec<SchemaViolation> {
        SchemaValidator::run(|validator| validator.check(schema, value, None))
    }

    /// The violations of a schema by a value that replaces another one.
    pub fn validate_update(schema: &Structural, old: &Value, new: &Value) -> Vec<SchemaViolation> {
        let correlation = Correlation { schema, old, new };
        SchemaValidator::run(|validator| validator.check_correlated(schema, new, correlation))
    }

    fn run(check: impl FnOnce(&mut SchemaValidator) -> ValidationResult) -> Vec<SchemaViolation> {
        let mut validator = SchemaValidator { path: String::new(), steps: MAX_STEPS, length: MAX_LENGTH };
        let mut result = check(&mut validator);
        if validator.steps == 0 || validator.length == 0 {
            let why = "the object is too large to be validated by its schema";
            result.add(SchemaViolation::without_path(why.to_owned()));
        }
        result.into_violations()
    }

    /// Checks a value whose violations do not count if it has not changed.
    fn check_correlated(
        &mut self,
        schema: &Structural,
        value: &Value,
        correlation: Correlation<'_>,
    ) -> ValidationResult {
        let mut result = self.check(schema, value, Some(correlation));
        if !result.is_valid() && correlation.is_unchanged() {
            result.clear();
        }
        result
    }

    fn check(
        &mut self,
        schema: &Structural,
        value: &Value,
        correlation: Option<Correlation<'_>>,
    ) -> ValidationResult {
        let mut result = ValidationResult::default();
        if !self.step(1 + schema.validation.allowed.len() + schema.validation.required.len()) {
            return result;
        }
        if value.is_null() {
            self.check_type(&mut result, schema, value);
            self.check_allowed(&mut result, schema, value);
            return result;
        }
        // Each check that applies counts, whatever it finds.
        if schema.is_typed() {
            self.check_type(&mut result, schema, value);
            result.match_count += 1;
        }
        self.check_alternatives(&mut result, schema, value, correlation);
        result.match_count += 2;
        match value {
            Value::String(text) => {
                self.check_text(&mut result, schema, text);
                result.match_count += 1;
                if formats::is_validated(&schema.validation.format) {
                    self.check_format(&mut result, schema, text);
                    result.match_count += 1;
                }
            }
            Value::Number(number) => {
                self.check_number(&mut result, schema, value, GoNumber::of(number));
                result.match_count += 2;
            }
            Value::Array(items) => {
                self.check_items(&mut result, schema, items, correlation);
                result.match_count += 2;
            }
            Value::Null | Value::Bool(_) | Value::Object(_) => {}
        }
        self.check_allowed(&mut result, schema, value);
        result.match_count += 1;
        if let Value::Object(fields) = value {
            self.check_fields(&mut result, schema, fields, correlation);
            result.match_count += 1;
        }
        result.match_count += 1;
        result
    }

    fn check_type(&mut self, result: &mut ValidationResult, schema: &Structural, value: &Value) {
        let format = &*schema.validation.format;
        let expects = |value_type| schema.has_type(value_type);
        let (found, is_right) = match value {
            Value::Null if !schema.is_any_type() && !schema.nullable => ("null", false),
            Value::Null => ("null", true),
            Value::Bool(_) => ("boolean", expects(ValueType::Boolean)),
            Value::String(_) => ("string", expects(ValueType::String)),
            Value::Array(_) => ("array", expects(ValueType::Array)),
            Value::Object(_) => ("object", expects(ValueType::Object)),
            Value::Number(number) => match GoNumber::of(number) {
                GoNumber::Integer(_) => {
                    ("integer", expects(ValueType::Integer) || expects(ValueType::Number))
                }
                GoNumber::Float(float) => {
                    let is_integer = expects(ValueType::Integer) && is_json_integer(float);
                    ("number", expects(ValueType::Number) || is_integer)
                }
            },
        };
        let is_text_or_list = value.is_string() || value.is_array();
        let expects_number = expects(ValueType::Number) || expects(ValueType::Integer);
        if !value.is_null() && !format.is_empty() {
            let number_format = match found {
                "integer" => "int64",
                "number" => "float64",
                _ => "",
            };
            if !is_text_or_list && !is_right && number_format != format {
                return self.add(result, |path| SchemaViolation::wrong_type(path, format, number_format));
            }
            if !expects_number && is_text_or_list {
                result.match_count += 1;
                return;
            }
        }
        if is_right {
            result.match_count += 1;
        } else {
            let expected = schema.type_text();
            self.add(result, |path| SchemaViolation::wrong_type(path, expected, found));
        }
    }

    fn check_alternatives(
        &mut self,
        result: &mut ValidationResult,
        schema: &Structural,
        value: &Value,
        correlation: Option<Correlation<'_>>,
    ) {
        let validation = &schema.validation;
        if !validation.any_of.is_empty() {
            let mut best: Option<ValidationResult> = None;
            let mut is_valid = false;
            for schema in &validation.any_of {
                let checked = self.check(schema, value, correlation);
                is_valid = checked.is_valid();
                if is_valid || best.as_ref().is_none_or(|best| checked.match_count > best.match_count) {
                    best = Some(checked);
                }
                if is_valid {
                    break;
                }
            }
            if !is_valid {
                self.add_rule(result, "must validate at least one schema (anyOf)");
            }
            best.into_iter().for_each(|best| result.merge(best));
        }
        if !validation.one_of.is_empty() {
            self.check_one_of(result, &validation.one_of, value, correlation);
        }
        if !validation.all_of.is_empty() {
            let mut valid = 0;
            for schema in &validation.all_of {
                let checked = self.check(schema, value, correlation);
                valid += usize::from(checked.is_valid());
                result.merge(checked);
            }
            if valid < validation.all_of.len() {
                let rest = if valid == 0 { ". None validated" } else { "" };
                self.add_rule(result, &format!("must validate all the schemas (allOf){rest}"));
            }
        }
        if let Some(schema) = &validation.not
            && self.check(schema, value, correlation).is_valid()
        {
            self.add_rule(result, "must not validate the schema (not)");
        }
    }

    fn check_one_of(
        &mut self,
        result: &mut ValidationResult,
        alternatives: &[Structural],
        value: &Value,
        correlation: Option<Correlation<'_>>,
    ) {
        let mut first: Option<ValidationResult> = None;
        let mut best: Option<ValidationResult> = None;
        let mut valid = 0;
        for schema in alternatives {
            let checked = self.check(schema, value, correlation);
            if checked.is_valid() {
                valid += 1;
                first.get_or_insert(checked);
            } else if valid == 0 && best.as_ref().is_none_or(|best| checked.match_count > best.match_count) {
                best = Some(checked);
            }
        }
        match valid {
            1 => first.into_iter().for_each(|first| result.merge(first)),
            0 => {
                let rule = "must validate one and only one schema (oneOf). Found none valid";
                self.add_rule(result, rule);
                best.into_iter().for_each(|best| result.merge(best));
            }
            _ => {
                let rule = "must validate one and only one schema (oneOf). Found";
                self.add_rule(result, &format!("{rule} {valid} valid alternatives"));
            }
        }
    }

    fn check_text(&mut self, result: &mut ValidationResult, schema: &Structural, text: &str) {
        let validation = &schema.validation;
        let count = || i64::try_from(text.chars().count()).unwrap_or(i64::MAX);
        self.step(text.len() / BYTES_PER_STEP);
        if let Some(limit) = validation.max_length.filter(|limit| count() > *limit) {
            return self.add(result, |path| SchemaViolation::too_long(path, text, limit));
        }
        if let Some(limit) = validation.min_length.filter(|limit| count() < *limit) {
            return self.add(result, |path| SchemaViolation::too_short(path, text, limit));
        }
        if let Some(pattern) = &validation.pattern {
            match pattern.is_match(text) {
                Ok(true) => {}
                Ok(false) => {
                    self.add(result, |path| SchemaViolation::no_match(path, text, pattern.as_str()));
                }
                Err(why) => {
                    let pattern = format!("{}, but pattern is invalid: {why}", pattern.as_str());
                    self.add(result, |path| SchemaViolation::no_match(path, text, &pattern));
                }
            }
        }
    }

    fn check_format(&mut self, result: &mut ValidationResult, schema: &Structural, text: &str) {
        let format = &*schema.validation.format;
        if !formats::matches(format, text) {
            self.add(result, |path| SchemaViolation::wrong_type(path, format, text));
        }
    }

    fn check_number(
        &mut self,
        result: &mut ValidationResult,
        schema: &Structural,
        value: &Value,
        number: GoNumber,
    ) {
        let validation = &schema.validation;
        let (value_type, format) = schema.number_type();
        self.check_range(result, schema, number, "Checked");
        let limit =
            |validator: &mut SchemaValidator, result: &mut ValidationResult, limit: f64, name: &str| {
                let is_native = GoNumber::Float(limit).is_in_range(value_type, format);
                validator.check_range(result, schema, GoNumber::Float(limit), name);
                number.limit(limit, is_native)
            };
        if let Some(factor) = validation.multiple_of {
            let factor = limit(self, result, factor, "MultipleOf");
            match number.is_multiple_of(factor) {
                Some(true) => {}
                Some(false) => self
                    .add(result, |path| SchemaViolation::wrong_number(path, value, "a multiple of", factor)),
                None => self.add(result, |path| SchemaViolation::bad_factor(path, factor)),
            }
        }
        // The minimum is reported before the maximum.
        if let Some(minimum) = validation.minimum {
            let minimum = limit(self, result, minimum, "Minimum boundary");
            let exclusive = validation.exclusive_minimum;
            if !number.is_at_least(minimum, exclusive) {
                let relation = if exclusive { "greater than" } else { "greater than or equal to" };
                self.add(result, |path| SchemaViolation::wrong_number(path, value, relation, minimum));
            }
        }
        if let Some(maximum) = validation.maximum {
            let maximum = limit(self, result, maximum, "Maximum boundary");
            let exclusive = validation.exclusive_maximum;
            if !number.is_at_most(maximum, exclusive) {
                let relation = if exclusive { "less than" } else { "less than or equal to" };
                self.add(result, |path| SchemaViolation::wrong_number(path, value, relation, maximum));
            }
        }
    }

    /// Checks that a number, or a limit of one, is in the range of its type.
    fn check_range(
        &mut self,
        result: &mut ValidationResult,
        schema: &Structural,
        number: GoNumber,
        name: &str,
    ) {
        let (value_type, format) = schema.number_type();
        if number.is_in_range(value_type, format) {
            return;
        }
        let type_name = value_type.map_or("", ValueType::name);
        let format =
            if format.is_empty() { "(default format)".to_owned() } else { format!("with format {format}") };
        let message = format!("{name} value must be of type {type_name} {format} in {}", self.path);
        self.add(result, |_| SchemaViolation::without_path(message));
    }

    fn check_items(
        &mut self,
        result: &mut ValidationResult,
        schema: &Structural,
        items: &[Value],
        correlation: Option<Correlation<'_>>,
    ) {
        if let Some(item_schema) = schema.items() {
            let correlated = correlation.and_then(|correlation| correlation.items());
            for (index, item) in items.iter().enumerate() {
                let old = correlated.as_ref().and_then(|correlated| correlated.find(item));
                let enter = |path: &mut String| path.push_str(&format!("[{index}]"));
                let checked = self.within(enter, |validator| match old {
                    Some(correlation) => validator.check_correlated(item_schema, item, correlation),
                    None => validator.check(item_schema, item, None),
                });
                result.merge(checked);
            }
        }
        self.check_count(
            result,
            "items",
            items.len(),
            schema.validation.min_items,
            schema.validation.max_items,
        );
    }

    fn check_fields(
        &mut self,
        result: &mut ValidationResult,
        schema: &Structural,
        fields: &Map<String, Value>,
        correlation: Option<Correlation<'_>>,
    ) {
        let validation = &schema.validation;
        let (min, max) = (validation.min_properties, validation.max_properties);
        self.check_count(result, "properties", fields.len(), min, max);
        for (name, value) in fields {
            if schema.property(name).is_some() {
                continue;
            }
            match &schema.additional_properties {
                Some(AdditionalProperties::Allowed(false)) => {
                    self.add(result, |path| SchemaViolation::forbidden_property(path, name));
                }
                Some(AdditionalProperties::Schema(schema)) => {
                    let enter = |path: &mut String| {
                        path.push('.');
                        path.push_str(name);
                    };
                    let checked = self.check_field(enter, name, schema, value, correlation);
                    result.merge(checked);
                }
                Some(AdditionalProperties::Allowed(true)) | None => {}
            }
        }
        for (name, value) in fields {
            let Some(schema) = schema.property(name) else { continue };
            let enter = |path: &mut String| super::coercion::push_field(path, name);
            let checked = self.check_field(enter, name, schema, value, correlation);
            result.merge(checked);
        }
        for name in validation.required.iter().filter(|name| !fields.contains_key(*name)) {
            self.add(result, |path| SchemaViolation::required(path, name));
        }
    }

    fn check_field(
        &mut self,
        enter: impl FnOnce(&mut String),
        name: &str,
        schema: &Structural,
        value: &Value,
        correlation: Option<Correlation<'_>>,
    ) -> ValidationResult {
        let is_type = self.path.is_empty() && matches!(name, "apiVersion" | "kind");
        let correlation = correlation.filter(|_| !is_type).and_then(|correlation| correlation.field(name));
        self.within(enter, |validator| match correlation {
            Some(correlation) => validator.check_correlated(schema, value, correlation),
            None => validator.check(schema, value, None),
        })
    }

    fn check_count(
        &mut self,
        result: &mut ValidationResult,
        things: &str,
        count: usize,
        min: Option<i64>,
        max: Option<i64>,
    ) {
        let number = i64::try_from(count).unwrap_or(i64::MAX);
        for (limit, is_too_many) in
            [(min.filter(|min| number < *min), false), (max.filter(|max| number > *max), true)]
        {
            if let Some(limit) = limit {
                self.add(result, |path| {
                    SchemaViolation::wrong_count(path, things, count, limit, is_too_many)
                });
            }
        }
    }

    fn check_allowed(&mut self, result: &mut ValidationResult, schema: &Structural, value: &Value) {
        let allowed = &schema.validation.allowed;
        // A null is never equal, not even to a null.
        let is_equal = |one: &Value| match (one, value) {
            (Value::Null, _) => false,
            (Value::Number(one), Value::Number(value)) => match (GoNumber::of(one), GoNumber::of(value)) {
                // Go converts the value to the type of the allowed one, which truncates.
                (GoNumber::Integer(one), GoNumber::Float(value)) => one == value as i64,
                (GoNumber::Float(one), GoNumber::Integer(value)) => one == value as f64,
                (one, value) => one == value,
            },
            (one, value) => one == value,
        };
        if !allowed.is_empty() && !allowed.iter().any(is_equal) {
            self.add(result, |path| SchemaViolation::not_allowed(path, value, allowed));
        }
    }

    /// Adds a violation that is reported without a path, except in its text.
    fn add_rule(&mut self, result: &mut ValidationResult, rule: &str) {
        self.add(result, |path| {
            SchemaViolation::without_path(format!("{} {rule}", kubernetes::go::text::quote(path)))
        });
    }

    fn add(&mut self, result: &mut ValidationResult, violation: impl FnOnce(&str) -> SchemaViolation) {
        let violation = violation(&self.path);
        self.length = self.length.saturating_sub(violation.size());
        result.add(violation);
    }

    /// Counts work. Returns whether there is more to be done.
    fn step(&mut self, count: usize) -> bool {
        self.steps = self.steps.saturating_sub(count);
        self.steps > 0 && self.length > 0
    }

    fn within<T>(
        &mut self,
        enter: impl FnOnce(&mut String),
        check: impl FnOnce(&mut SchemaValidator) -> T,
    ) -> T {
        let length = self.path.len();
        enter(&mut self.path);
        let checked = check(self);
        self.path.truncate(length);
        checked
    }
}

// === impl Structural ===

impl Structural {
    fn is_any_type(&self) -> bool {
        self.value_type.is_none() && !self.is_int_or_string
    }

    /// Whether values have a type or a format to check.
    fn is_typed(&self) -> bool {
        !self.is_any_type() || !self.validation.format.is_empty()
    }

    fn has_type(&self, value_type: ValueType) -> bool {
        if self.is_int_or_string {
            return matches!(value_type, ValueType::Integer | ValueType::String);
        }
        self.value_type == Some(value_type)
    }

    fn type_text(&self) -> &'static str {
        if self.is_int_or_string { "integer,string" } else { self.value_type.map_or("", ValueType::name) }
    }

    /// The type and format of a number; `None` if there are several.
    fn number_type(&self) -> (Option<ValueType>, &str) {
        let types = [ValueType::Integer, ValueType::Number];
        match self.value_type.filter(|value_type| types.contains(value_type) && !self.is_int_or_string) {
            Some(value_type) => (Some(value_type), &self.validation.format),
            None => (None, ""),
        }
    }
}
