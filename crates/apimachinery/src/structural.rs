//! Structural schemas: the schemas of custom resources, and what an API server of Kubernetes 1.36 does by them.
//!
//! A version of a CustomResourceDefinition has one, which is parsed once. An object passes [`Structural::coerce`], which
//! removes unknown fields, then [`Structural::set_defaults`], then [`SchemaValidator`] and
//! [`Structural::check_list_types`]. Map entries are visited in the order of their keys, where a server's order is random.
//!
//! Expressions (`x-kubernetes-validations`) are only read here: `validation` evaluates them.

mod coercion;
mod correlation;
mod defaulting;
mod formats;
mod list_types;
mod numbers;
mod pattern;
mod schema_validator;
#[cfg(test)]
mod tests;
mod validation_result;

use std::collections::BTreeMap;

use serde_json::Value;

pub use coercion::CoercionError;
pub(crate) use correlation::Correlation;
pub use defaulting::TooManyDefaults;
pub(crate) use formats::{is_request_uri, parse_duration};
pub use list_types::ListTypeViolation;
pub use pattern::{Pattern, check_pattern};
pub use schema_validator::SchemaValidator;
pub use validation_result::{SchemaViolation, ViolatedRule};

/// The schema of a value. Every field of an object that the server keeps has one.
#[derive(Debug, Default)]
pub struct Structural {
    value_type: Option<ValueType>,
    nullable: bool,
    default: Option<Value>,
    items: Option<Box<Structural>>,
    properties: BTreeMap<String, Structural>,
    additional_properties: Option<AdditionalProperties>,
    preserves_unknown_fields: bool,
    is_embedded_resource: bool,
    is_int_or_string: bool,
    list_type: Option<ListType>,
    list_map_keys: Vec<String>,
    map_type: Option<MapType>,
    rules: Vec<ValidationRule>,
    /// Whether it or a schema around it keeps unknown fields.
    is_in_unknown_fields: bool,
    validation: ValueValidation,
}

/// An expression that values must satisfy, with what is said about those that do not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ValidationRule {
    pub(crate) rule: String,
    /// Empty if there is none, as the others.
    pub(crate) message: String,
    pub(crate) message_expression: String,
    pub(crate) reason: String,
    pub(crate) field_path: String,
    /// `None` if it is not said.
    pub(crate) optional_old_self: Option<bool>,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueType {
    /// A JSON object.
    Object,
    /// A list.
    Array,
    /// A text.
    String,
    /// A number without a fraction.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

/// The schema of the values of a map, or of the fields that are not named.
#[derive(Debug)]
pub enum AdditionalProperties {
    /// Whether there may be any.
    Allowed(bool),
    /// Their schema.
    Schema(Box<Structural>),
}

/// `x-kubernetes-list-type`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListType {
    /// The list is one value.
    Atomic,
    /// Its items differ.
    Set,
    /// Its items differ in their keys.
    Map,
}

/// `x-kubernetes-map-type`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapType {
    /// The map is one value.
    Atomic,
    /// Each entry is a value of its own.
    Granular,
}

/// What a schema requires of a value besides its structure.
#[derive(Debug, Default)]
struct ValueValidation {
    /// Empty if there is none, or none that is known for the type.
    format: String,
    maximum: Option<f64>,
    exclusive_maximum: bool,
    minimum: Option<f64>,
    exclusive_minimum: bool,
    max_length: Option<i64>,
    min_length: Option<i64>,
    pattern: Option<Pattern>,
    max_items: Option<i64>,
    min_items: Option<i64>,
    multiple_of: Option<f64>,
    allowed: Vec<Value>,
    max_properties: Option<i64>,
    min_properties: Option<i64>,
    required: Vec<String>,
    all_of: Vec<Structural>,
    one_of: Vec<Structural>,
    any_of: Vec<Structural>,
    not: Option<Box<Structural>>,
}

// === impl Structural ===

impl Structural {
    /// The schema that this JSON describes: the `openAPIV3Schema` of a version, or a part of it. It has been decoded by its
    /// Go type, and validated if it matters; what is not understood is ignored.
    pub fn parse(schema: &Value) -> Structural {
        Structural::parse_within(schema, false)
    }

    fn parse_within(schema: &Value, is_in_unknown_fields: bool) -> Structural {
        let flag = |name: &str| schema[name] == true;
        let is_in_unknown_fields = is_in_unknown_fields || flag("x-kubernetes-preserve-unknown-fields");
        let parse = |schema: &Value| Structural::parse_within(schema, is_in_unknown_fields);
        let boxed = |schema: &Value| Box::new(parse(schema));
        let value_type = schema["type"].as_str().and_then(ValueType::from_name);
        let is_int_or_string = flag("x-kubernetes-int-or-string");
        let properties = schema["properties"].as_object().into_iter().flatten();
        let additional_properties = match &schema["additionalProperties"] {
            Value::Null => None,
            Value::Bool(allowed) => Some(AdditionalProperties::Allowed(*allowed)),
            schema => Some(AdditionalProperties::Schema(boxed(schema))),
        };
        Structural {
            value_type,
            nullable: flag("nullable"),
            default: schema.get("default").filter(|default| !default.is_null()).cloned(),
            items: Some(&schema["items"]).filter(|items| items.is_object()).map(boxed),
            properties: properties.map(|(name, schema)| (name.clone(), parse(schema))).collect(),
            additional_properties,
            preserves_unknown_fields: flag("x-kubernetes-preserve-unknown-fields"),
            is_embedded_resource: flag("x-kubernetes-embedded-resource"),
            is_int_or_string,
            list_type: schema["x-kubernetes-list-type"].as_str().and_then(ListType::from_name),
            list_map_keys: texts(&schema["x-kubernetes-list-map-keys"]),
            map_type: schema["x-kubernetes-map-type"].as_str().and_then(MapType::from_name),
            rules: schema["x-kubernetes-validations"]
                .as_array()
                .into_iter()
                .flatten()
                .map(ValidationRule::parse)
                .collect(),
            is_in_unknown_fields,
            validation: ValueValidation::parse(schema, value_type, is_int_or_string),
        }
    }

    /// The type of the value; `None` if it has any, or is an integer or a text.
    pub fn value_type(&self) -> Option<ValueType> {
        self.value_type
    }

    /// Whether it may be null.
    pub fn is_nullable(&self) -> bool {
        self.nullable
    }

    /// The value of a field that is missing.
    pub fn default_value(&self) -> Option<&Value> {
        self.default.as_ref()
    }

    /// The schema of the items of a list.
    pub fn items(&self) -> Option<&Structural> {
        self.items.as_deref()
    }

    /// The fields of an object, sorted by name.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &Structural)> {
        self.properties.iter().map(|(name, schema)| (name.as_str(), schema))
    }

    /// A named field of an object.
    pub fn property(&self, name: &str) -> Option<&Structural> {
        self.properties.get(name)
    }

    /// What is said of the fields that are not named.
    pub fn additional_properties(&self) -> Option<&AdditionalProperties> {
        self.additional_properties.as_ref()
    }

    /// The schema of a field, named or not.
    pub fn field(&self, name: &str) -> Option<&Structural> {
        self.property(name).or(match &self.additional_properties {
            Some(AdditionalProperties::Schema(schema)) => Some(schema),
            Some(AdditionalProperties::Allowed(_)) | None => None,
        })
    }

    /// Whether fields without a schema are kept.
    pub fn preserves_unknown_fields(&self) -> bool {
        self.preserves_unknown_fields
    }

    /// Whether it is an object with an apiVersion, a kind and metadata.
    pub fn is_embedded_resource(&self) -> bool {
        self.is_embedded_resource
    }

    /// Whether it is an integer or a text.
    pub fn is_int_or_string(&self) -> bool {
        self.is_int_or_string
    }

    /// What distinguishes the items of a list; `None` if the list is atomic by default.
    pub fn list_type(&self) -> Option<ListType> {
        self.list_type
    }

    /// The fields that distinguish the items of a list of type `map`.
    pub fn list_map_keys(&self) -> &[String] {
        &self.list_map_keys
    }

    /// Whether a map is one value; `None` if it is granular by default.
    pub fn map_type(&self) -> Option<MapType> {
        self.map_type
    }

    /// Whether this schema or one around it keeps fields without a schema.
    pub(crate) fn is_in_unknown_fields(&self) -> bool {
        self.is_in_unknown_fields
    }

    /// The format of a text; empty if it has none that is known.
    pub(crate) fn format(&self) -> &str {
        &self.validation.format
    }

    /// Whether this schema or one in it has expressions (`x-kubernetes-validations`).
    pub fn has_rules(&self) -> bool {
        let additional = match &self.additional_properties {
            Some(AdditionalProperties::Schema(schema)) => Some(&**schema),
            Some(AdditionalProperties::Allowed(_)) | None => None,
        };
        let mut inner = self.properties.values().chain(self.items()).chain(additional);
        !self.rules.is_empty() || inner.any(Structural::has_rules)
    }

    /// Its own expressions.
    pub(crate) fn rules(&self) -> &[ValidationRule] {
        &self.rules
    }
}

// === impl ValidationRule ===

impl ValidationRule {
    fn parse(rule: &Value) -> ValidationRule {
        let text = |name: &str| rule[name].as_str().unwrap_or_default().to_owned();
        ValidationRule {
            rule: text("rule"),
            message: text("message"),
            message_expression: text("messageExpression"),
            reason: text("reason"),
            field_path: text("fieldPath"),
            optional_old_self: rule["optionalOldSelf"].as_bool(),
        }
    }
}

// === impl ValueType ===

impl ValueType {
    fn from_name(name: &str) -> Option<ValueType> {
        Some(match name {
            "object" => ValueType::Object,
            "array" => ValueType::Array,
            "string" => ValueType::String,
            "integer" => ValueType::Integer,
            "number" => ValueType::Number,
            "boolean" => ValueType::Boolean,
            _ => return None,
        })
    }

    /// `object`
    pub fn name(self) -> &'static str {
        match self {
            ValueType::Object => "object",
            ValueType::Array => "array",
            ValueType::String => "string",
            ValueType::Integer => "integer",
            ValueType::Number => "number",
            ValueType::Boolean => "boolean",
        }
    }
}

// === impl ListType ===

impl ListType {
    fn from_name(name: &str) -> Option<ListType> {
        match name {
            "atomic" => Some(ListType::Atomic),
            "set" => Some(ListType::Set),
            "map" => Some(ListType::Map),
            _ => None,
        }
    }
}

// === impl MapType ===

impl MapType {
    fn from_name(name: &str) -> Option<MapType> {
        match name {
            "atomic" => Some(MapType::Atomic),
            "granular" => Some(MapType::Granular),
            _ => None,
        }
    }
}

// === impl ValueValidation ===

impl ValueValidation {
    fn parse(schema: &Value, value_type: Option<ValueType>, is_int_or_string: bool) -> ValueValidation {
        let flag = |name: &str| schema[name] == true;
        let schemas = |name: &str| -> Vec<Structural> {
            schema[name].as_array().into_iter().flatten().map(Structural::parse).collect()
        };
        let format = schema["format"].as_str().unwrap_or_default();
        let is_known = formats::is_known(value_type.filter(|_| !is_int_or_string), format);
        ValueValidation {
            format: if is_known { format.to_owned() } else { String::new() },
            maximum: schema["maximum"].as_f64(),
            exclusive_maximum: flag("exclusiveMaximum"),
            minimum: schema["minimum"].as_f64(),
            exclusive_minimum: flag("exclusiveMinimum"),
            max_length: schema["maxLength"].as_i64(),
            min_length: schema["minLength"].as_i64(),
            pattern: schema["pattern"].as_str().filter(|text| !text.is_empty()).map(Pattern::new),
            max_items: schema["maxItems"].as_i64(),
            min_items: schema["minItems"].as_i64(),
            multiple_of: schema["multipleOf"].as_f64(),
            allowed: schema["enum"].as_array().cloned().unwrap_or_default(),
            max_properties: schema["maxProperties"].as_i64(),
            min_properties: schema["minProperties"].as_i64(),
            required: texts(&schema["required"]),
            all_of: schemas("allOf"),
            one_of: schemas("oneOf"),
            any_of: schemas("anyOf"),
            not: Some(&schema["not"])
                .filter(|not| not.is_object())
                .map(|not| Box::new(Structural::parse(not))),
        }
    }
}

/// Whether values of a type, by its name, are checked against a format.
pub fn is_known_format(value_type: &str, format: &str) -> bool {
    let found = ValueType::from_name(value_type);
    (found.is_some() || value_type.is_empty()) && formats::is_known(found, format)
}

/// Whether a text has a format that is known.
pub(crate) fn matches_format(format: &str, text: &str) -> bool {
    formats::matches(format, text)
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
