//! Descriptions of the built-in types and of their fields, as Kubernetes publishes them.

/// The descriptions of a type.
pub(super) struct TypeDescriptions {
    /// Empty if it has none.
    pub(super) text: &'static str,
    fields: FieldDescriptions,
}

/// The name and the description of each field, sorted by name.
type FieldDescriptions = &'static [(&'static str, &'static str)];

/// Each schema by its name with its description and those of its fields, sorted by name. The build script collects them.
static DESCRIPTIONS: &[(&str, &str, FieldDescriptions)] =
    include!(concat!(env!("OUT_DIR"), "/descriptions.rs"));

/// The descriptions of a schema, empty if it is unknown.
pub(super) fn of(schema_name: &str) -> TypeDescriptions {
    let index = DESCRIPTIONS.binary_search_by(|(name, ..)| (*name).cmp(schema_name));
    let (text, fields): (_, FieldDescriptions) =
        index.map_or(("", &[]), |index| (DESCRIPTIONS[index].1, DESCRIPTIONS[index].2));
    TypeDescriptions { text, fields }
}

// === impl TypeDescriptions ===

impl TypeDescriptions {
    /// The description of a field, empty if it has none.
    pub(super) fn field(&self, name: &str) -> &'static str {
        let index = self.fields.binary_search_by(|(field, _)| (*field).cmp(name));
        index.map_or("", |index| self.fields[index].1)
    }

    /// The names of the fields.
    #[cfg(test)]
    pub(super) fn field_names(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().map(|(name, _)| *name)
    }
}
