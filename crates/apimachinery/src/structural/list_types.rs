//! The lists of a custom resource that may not have equal items (`x-kubernetes-list-type`).

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::coercion::{push_field, push_index, push_key};
use super::{AdditionalProperties, ListType, Structural};

/// An item of a list that its type does not allow.
#[derive(Debug, PartialEq)]
pub struct ListTypeViolation {
    /// The path of the item.
    pub path: String,
    /// The item, or its keys.
    pub value: Value,
    /// Whether there is an equal one; otherwise it is not an object.
    pub is_duplicate: bool,
}

/// The most violations that are reported, and the size of their values: a list may have a million equal items.
const MAX_VIOLATIONS: usize = 10_000;
const MAX_SIZE: usize = 16 << 20;

struct ListTypeChecker {
    path: String,
    found: Vec<ListTypeViolation>,
    size: usize,
}

// === impl Structural ===

impl Structural {
    /// The items that lists of types `set` and `map` do not allow.
    pub fn check_list_types(&self, value: &Value) -> Vec<ListTypeViolation> {
        let mut checker = ListTypeChecker { path: String::new(), found: Vec::new(), size: 0 };
        checker.check(self, value);
        checker.found
    }
}

// === impl ListTypeChecker ===

impl ListTypeChecker {
    fn check(&mut self, schema: &Structural, value: &Value) {
        match value {
            Value::Object(fields) => {
                for (name, value) in fields {
                    if let Some(AdditionalProperties::Schema(schema)) = &schema.additional_properties {
                        self.within(|path| push_key(path, name), |checker| checker.check(schema, value));
                    }
                    if let Some(schema) = schema.property(name) {
                        self.within(|path| push_field(path, name), |checker| checker.check(schema, value));
                    }
                }
            }
            Value::Array(items) => {
                match schema.list_type {
                    Some(ListType::Set) => self.check_set(items),
                    Some(ListType::Map) => self.check_map(schema, items),
                    Some(ListType::Atomic) | None => {}
                }
                let Some(schema) = schema.items() else { return };
                for (index, item) in items.iter().enumerate() {
                    self.within(|path| push_index(path, index), |checker| checker.check(schema, item));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn check_set(&mut self, items: &[Value]) {
        for index in second_occurrences(items.iter().map(Value::to_string)) {
            self.add(index, items[index].clone(), true);
        }
    }

    fn check_map(&mut self, schema: &Structural, items: &[Value]) {
        if let Some(index) = items.iter().position(|item| !item.is_object() && !item.is_null()) {
            return self.add(index, items[index].clone(), false);
        }
        let keys = |item: &Value| -> Map<String, Value> {
            let names = schema.list_map_keys.iter();
            names.filter_map(|name| Some((name.clone(), item.get(name)?.clone()))).collect()
        };
        for index in second_occurrences(items.iter().map(|item| Value::from(keys(item)).to_string())) {
            self.add(index, keys(&items[index]).into(), true);
        }
    }

    fn add(&mut self, index: usize, value: Value, is_duplicate: bool) {
        if self.found.len() >= MAX_VIOLATIONS || self.size >= MAX_SIZE {
            return;
        }
        let mut path = self.path.clone();
        push_index(&mut path, index);
        self.size += path.len() + value.to_string().len();
        self.found.push(ListTypeViolation { path, value, is_duplicate });
    }

    fn within(&mut self, enter: impl FnOnce(&mut String), check: impl FnOnce(&mut ListTypeChecker)) {
        let length = self.path.len();
        enter(&mut self.path);
        check(self);
        self.path.truncate(length);
    }
}

/// The indexes at which texts occur for the second time. Further occurrences are not reported.
fn second_occurrences(texts: impl Iterator<Item = String>) -> Vec<usize> {
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, text) in texts.enumerate() {
        let count = counts.entry(text).or_default();
        *count += 1;
        if *count == 2 {
            found.push(index);
        }
    }
    found
}
