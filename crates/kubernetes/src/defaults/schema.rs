//! The Go types of the built-in kinds, parsed from their one-line descriptions.

use std::sync::LazyLock;

use model::Kind;
use rustc_hash::FxHashMap;

use super::types::TYPES;
use super::{DefaultFn, defaults_of};
use crate::kinds;

/// A struct type.
pub(super) struct StructType {
    pub(super) fields: Vec<SchemaField>,
    /// What sets the defaults of its own fields.
    pub(super) set_defaults: Option<DefaultFn>,
    /// Whether it or a type of its fields has defaults.
    pub(super) has_defaults: bool,
}

/// A field of a struct.
pub(super) struct SchemaField {
    pub(super) name: &'static str,
    pub(super) presence: Presence,
    pub(super) type_: Type,
}

/// When a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// Unless it is empty (`omitempty`). This has no effect on structs.
    OmitEmpty,
    /// Unless it is zero (`omitzero`).
    OmitZero,
    /// Always.
    Always,
}

/// The type of a field or of what it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Type {
    Text,
    Integer,
    Float,
    Bool,
    Quantity,
    /// A quantity of a `ResourceList`, which is rounded up to thousandths.
    ResourceQuantity,
    Time,
    MicroTime,
    IntOrString,
    Bytes,
    /// Any JSON, as a `RawExtension` contains it.
    Any,
    /// A schema or a boolean, as `additionalProperties` of a schema.
    SchemaOrBool(StructId),
    /// A schema, or a list of schemas or strings, as `items` and `dependencies` of a schema.
    SchemaOrArray(StructId),
    Struct(StructId),
    Pointer(Box<Type>),
    List(Box<Type>),
    Map(Box<Type>),
}

/// The index of a struct type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StructId(usize);

/// The type of a kind's objects; `None` if it is not built in, or not stored.
pub(super) fn type_of(kind: &Kind) -> Option<StructId> {
    kinds::of(kind)?;
    let alias = match &*kind.group {
        "" => "core",
        group => group.split('.').next().unwrap_or_default(),
    };
    SCHEMA.ids.get(format!("{alias}.{}", kind.kind).as_str()).copied()
}

/// A struct type by its id.
pub(super) fn get(id: StructId) -> &'static StructType {
    &SCHEMA.types[id.0]
}

struct Schema {
    types: Vec<StructType>,
    ids: FxHashMap<&'static str, StructId>,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let ids: FxHashMap<&'static str, StructId> =
        TYPES.iter().enumerate().map(|(index, (name, _))| (*name, StructId(index))).collect();
    let mut types: Vec<StructType> = TYPES
        .iter()
        .map(|(name, fields)| {
            let fields = fields.split_ascii_whitespace().map(|word| parse_field(word, &ids)).collect();
            let set_defaults = defaults_of(name);
            StructType { fields, set_defaults, has_defaults: set_defaults.is_some() }
        })
        .collect();
    // Each round reaches the types one level further up; types that contain themselves end it all the same.
    loop {
        let reaching: Vec<usize> = (0..types.len())
            .filter(|index| !types[*index].has_defaults)
            .filter(|index| {
                let inner = types[*index].fields.iter().filter_map(|field| field.type_.struct_id());
                inner.into_iter().any(|id| types[id.0].has_defaults)
            })
            .collect();
        if reaching.is_empty() {
            break;
        }
        for index in reaching {
            types[index].has_defaults = true;
        }
    }
    Schema { types, ids }
});

/// Parses a word such as `containers!:[]core.Container`.
fn parse_field(word: &'static str, ids: &FxHashMap<&'static str, StructId>) -> SchemaField {
    let (name, type_) = word.split_once(':').unwrap_or((word, "string"));
    let (name, presence) = if let Some(name) = name.strip_suffix('!') {
        (name, Presence::Always)
    } else if let Some(name) = name.strip_suffix('?') {
        (name, Presence::OmitZero)
    } else {
        (name, Presence::OmitEmpty)
    };
    SchemaField { name, presence, type_: parse_type(type_, ids) }
}

fn parse_type(text: &str, ids: &FxHashMap<&'static str, StructId>) -> Type {
    let boxed = |inner: &str| Box::new(parse_type(inner, ids));
    let schema = || ids.get("apiextensions.JSONSchemaProps").copied();
    if let Some(inner) = text.strip_prefix('*') {
        return Type::Pointer(boxed(inner));
    }
    if let Some(inner) = text.strip_prefix("[]") {
        return Type::List(boxed(inner));
    }
    if let Some(inner) = text.strip_prefix("{}") {
        return Type::Map(boxed(inner));
    }
    match text {
        "string" => Type::Text,
        "int" => Type::Integer,
        "float" => Type::Float,
        "bool" => Type::Bool,
        "quantity" => Type::Quantity,
        "resource" => Type::ResourceQuantity,
        "time" => Type::Time,
        "micro" => Type::MicroTime,
        "intstr" => Type::IntOrString,
        "bytes" => Type::Bytes,
        "schemaOrBool" => schema().map_or(Type::Any, Type::SchemaOrBool),
        "schemaOrArray" | "schemaOrStrings" => schema().map_or(Type::Any, Type::SchemaOrArray),
        name => ids.get(name).map_or(Type::Any, |id| Type::Struct(*id)),
    }
}

// === impl Type ===

impl Type {
    /// The struct that it is or contains.
    pub(super) fn struct_id(&self) -> Option<StructId> {
        match self {
            Type::Struct(id) => Some(*id),
            Type::Pointer(inner) | Type::List(inner) | Type::Map(inner) => inner.struct_id(),
            Type::Text
            | Type::Integer
            | Type::Float
            | Type::Bool
            | Type::Quantity
            | Type::ResourceQuantity
            | Type::Time
            | Type::MicroTime
            | Type::IntOrString
            | Type::Bytes
            | Type::Any
            | Type::SchemaOrBool(_)
            | Type::SchemaOrArray(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_that_can_be_listed_has_a_type() {
        for info in kinds::all().iter().filter(|info| info.kind != "ComponentStatus") {
            assert!(type_of(&Kind::new(info.group, info.kind)).is_some(), "{}", info.kind);
        }
        assert!(type_of(&Kind::new("apps.example.com", "Deployment")).is_none());
        assert!(type_of(&Kind::new("", "ComponentStatus")).is_none());
    }

    #[test]
    fn every_type_of_a_field_is_known() {
        assert!(TYPES.is_sorted_by_key(|(name, _)| *name));
        for (name, fields) in TYPES {
            for word in fields.split_ascii_whitespace() {
                let type_ = word.split_once(':').map_or("string", |(_, type_)| type_);
                let inner = type_.trim_start_matches(['*', '[', ']', '{', '}']);
                let known = TYPES.binary_search_by_key(&inner, |(name, _)| name).is_ok();
                assert!(known || !inner.contains('.'), "{name}: {word}");
            }
        }
    }

    #[test]
    fn types_without_defaults_in_them_are_skipped() {
        let has_defaults =
            |group: &str, kind: &str| type_of(&Kind::new(group, kind)).is_some_and(|id| get(id).has_defaults);
        assert!(has_defaults("batch", "CronJob"));
        assert!(!has_defaults("rbac.authorization.k8s.io", "ClusterRole"));
    }
}
