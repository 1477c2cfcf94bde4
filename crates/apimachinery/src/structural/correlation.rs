//! The values of an update and the values of the old object that correspond to them.

use std::collections::HashMap;

use serde_json::Value;

use super::{ListType, Structural};

/// A value in an update that corresponds to one in the old object.
#[derive(Clone, Copy)]
pub(crate) struct Correlation<'v> {
    pub(crate) schema: &'v Structural,
    pub(crate) old: &'v Value,
    pub(crate) new: &'v Value,
}

/// The items of an old list by their keys, for the items of the new list.
pub(crate) struct CorrelatedItems<'v> {
    schema: &'v Structural,
    old: HashMap<String, &'v Value>,
}

// === impl Correlation ===

impl<'v> Correlation<'v> {
    /// The field of both objects.
    pub(crate) fn field(self, name: &str) -> Option<Correlation<'v>> {
        let schema = self.schema.field(name)?;
        Some(Correlation {
            schema,
            old: self.old.as_object()?.get(name)?,
            new: self.new.as_object()?.get(name)?,
        })
    }

    /// The items that correspond to each other: those of a list of type `map`.
    pub(crate) fn items(self) -> Option<CorrelatedItems<'v>> {
        if self.schema.list_type != Some(ListType::Map) {
            return None;
        }
        let old = self.old.as_array()?.iter();
        let old = old.map(|item| (key_of(self.schema, item), item)).collect();
        Some(CorrelatedItems { schema: self.schema, old })
    }

    /// Whether the value is the old one.
    pub(crate) fn is_unchanged(self) -> bool {
        match (self.old, self.new) {
            (Value::Array(old), Value::Array(new)) => {
                if old.len() != new.len() {
                    return false;
                }
                let Some(items) = self.items() else { return old == new };
                new.iter().all(|item| items.find(item).is_some_and(Correlation::is_unchanged))
            }
            (Value::Object(old), Value::Object(new)) => {
                // Fields without a schema count as changed.
                old.len() == new.len()
                    && new.keys().all(|name| self.field(name).is_some_and(Correlation::is_unchanged))
            }
            (old, new) => old == new,
        }
    }
}

// === impl CorrelatedItems ===

impl<'v> CorrelatedItems<'v> {
    pub(crate) fn find(&self, new: &'v Value) -> Option<Correlation<'v>> {
        let old = self.old.get(&key_of(self.schema, new))?;
        Some(Correlation { schema: self.schema.items()?, old, new })
    }
}

/// The keys of an item, as text.
fn key_of(schema: &Structural, item: &Value) -> String {
    schema.list_map_keys.iter().map(|key| format!("{}\n", item[key])).collect()
}
