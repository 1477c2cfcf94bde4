//! The Go types of the built-in kinds, parsed from their one-line descriptions in `types`.

pub(crate) mod field_numbers;
mod types;

use std::sync::LazyLock;

use model::Kind;
use rustc_hash::FxHashMap;

use types::{GROUPS, TYPES};

/// A struct type.
pub(crate) struct StructType {
    /// Its name in the table: `core.PodSpec`.
    pub(crate) name: &'static str,
    /// Its Go package: `v1`.
    package: &'static str,
    pub(crate) fields: Vec<SchemaField>,
    /// Fields that only older versions of the kind have.
    older_fields: Vec<SchemaField>,
}

/// A field of a struct.
pub(crate) struct SchemaField {
    pub(crate) name: &'static str,
    pub(crate) presence: Presence,
    pub(crate) type_: Type,
    pub(crate) patch_strategy: PatchStrategy,
    /// The embedded structs that it is a field of, the outer one first.
    pub(crate) embedded: Vec<&'static str>,
}

/// When a field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Presence {
    /// Unless it is empty (`omitempty`). This has no effect on structs.
    OmitEmpty,
    /// Unless it is zero (`omitzero`).
    OmitZero,
    /// Always.
    Always,
}

/// How a strategic merge patch changes a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchStrategy {
    /// Structs and maps are merged, lists are replaced.
    Default,
    /// The field is replaced as a whole.
    Replace,
    /// The entries of a list of scalars are added.
    Merge,
    /// The entries of a list are matched by this field and merged.
    MergeBy(&'static str),
}

/// The type of a field or of what it contains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// A string, with the name of its Go type.
    Text(&'static str),
    Int32,
    Int64,
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
    /// Any JSON, whose parts Go decodes one by one (`interface{}`).
    Interface,
    /// A schema or a boolean, as `additionalProperties` of a schema.
    SchemaOrBool(StructId),
    /// A schema or a list of schemas, as `items` of a schema.
    SchemaOrArray(StructId),
    /// A schema or a list of strings, as `dependencies` of a schema.
    SchemaOrStrings(StructId),
    Struct(StructId),
    Pointer(Box<Type>),
    List(Box<Type>),
    /// A map, with the Go type of its keys.
    Map(&'static str, Box<Type>),
}

/// The index of a struct type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StructId(usize);

/// The type of a kind's objects in its preferred version; `None` if it is not built in. Kinds that an API server serves
/// only on request have a type, and those that are only sent to it: Binding, Eviction, Scale.
pub(crate) fn type_of(kind: &Kind) -> Option<StructId> {
    static BY_KIND: LazyLock<FxHashMap<(&str, &str), StructId>> = LazyLock::new(|| {
        let in_group = |(group, alias, kinds): &(&'static str, &str, &'static str)| {
            let (group, alias) = (*group, alias.to_string());
            let id = move |kind| Some(((group, kind), named(&format!("{alias}.{kind}"))?));
            kinds.split(' ').filter_map(id)
        };
        GROUPS.iter().flat_map(in_group).collect()
    });
    BY_KIND.get(&(&*kind.group, &*kind.kind)).copied()
}

/// The type of this name in the table.
pub(crate) fn named(name: &str) -> Option<StructId> {
    TYPES.binary_search_by(|(type_name, _)| (*type_name).cmp(name)).ok().map(StructId)
}

/// A struct type by its id.
pub(crate) fn get(id: StructId) -> &'static StructType {
    &SCHEMA[id.0]
}

/// All struct types, in the order of their ids.
pub(crate) fn all() -> &'static [StructType] {
    &SCHEMA
}

static SCHEMA: LazyLock<Vec<StructType>> = LazyLock::new(|| {
    let ids = TYPES.iter().enumerate().map(|(index, (name, _))| (*name, StructId(index))).collect();
    TYPES.iter().map(|(name, words)| parse_struct(name, words, &ids)).collect()
});

type StructIds = FxHashMap<&'static str, StructId>;

/// Parses a line of the table.
fn parse_struct(name: &'static str, words: &'static str, ids: &StructIds) -> StructType {
    let mut parsed = StructType { name, package: "v1", fields: Vec::new(), older_fields: Vec::new() };
    let mut embedded = Vec::new();
    for word in words.split_ascii_whitespace() {
        if let Some(package) = word.strip_prefix('@') {
            parsed.package = package;
        } else if let Some(name) = word.strip_prefix('(') {
            embedded.push(name);
        } else if word == ")" {
            embedded.pop();
        } else if let Some(word) = word.strip_prefix('-') {
            parsed.older_fields.push(parse_field(word, &embedded, ids));
        } else {
            parsed.fields.push(parse_field(word, &embedded, ids));
        }
    }
    parsed
}

/// Parses a word such as `containers!:[]core.Container/name`.
fn parse_field(word: &'static str, embedded: &[&'static str], ids: &StructIds) -> SchemaField {
    let (word, patch_strategy) = match word.split_once('/') {
        None => (word, PatchStrategy::Default),
        Some((word, "=")) => (word, PatchStrategy::Replace),
        Some((word, "*")) => (word, PatchStrategy::Merge),
        Some((word, key)) => (word, PatchStrategy::MergeBy(key)),
    };
    let (name, type_) = word.split_once(':').unwrap_or((word, "string"));
    let (name, presence) = if let Some(name) = name.strip_suffix('!') {
        (name, Presence::Always)
    } else if let Some(name) = name.strip_suffix('?') {
        (name, Presence::OmitZero)
    } else {
        (name, Presence::OmitEmpty)
    };
    SchemaField { name, presence, type_: parse_type(type_, ids), patch_strategy, embedded: embedded.to_vec() }
}

fn parse_type(text: &'static str, ids: &StructIds) -> Type {
    let boxed = |inner: &'static str| Box::new(parse_type(inner, ids));
    let schema = || ids.get("apiextensions.JSONSchemaProps").copied();
    if let Some(inner) = text.strip_prefix('*') {
        return Type::Pointer(boxed(inner));
    }
    if let Some(inner) = text.strip_prefix("[]") {
        return Type::List(boxed(inner));
    }
    if let Some((key, inner)) = text.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        return Type::Map(if key.is_empty() { "string" } else { key }, boxed(inner));
    }
    match text {
        "int32" => Type::Int32,
        "int64" => Type::Int64,
        "float64" => Type::Float,
        "bool" => Type::Bool,
        "quantity" => Type::Quantity,
        "resource" => Type::ResourceQuantity,
        "time" => Type::Time,
        "micro" => Type::MicroTime,
        "intstr" => Type::IntOrString,
        "bytes" => Type::Bytes,
        "any" => Type::Any,
        "interface" => Type::Interface,
        "schemaOrBool" => schema().map_or(Type::Any, Type::SchemaOrBool),
        "schemaOrArray" => schema().map_or(Type::Any, Type::SchemaOrArray),
        "schemaOrStrings" => schema().map_or(Type::Any, Type::SchemaOrStrings),
        name => ids.get(name).map_or(Type::Text(name), |id| Type::Struct(*id)),
    }
}

// === impl StructId ===

impl StructId {
    /// Its place in [`all`].
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

// === impl StructType ===

impl StructType {
    /// A field of the preferred version.
    pub(crate) fn field(&self, name: &str) -> Option<&SchemaField> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// A field of any version.
    pub(crate) fn field_of_any_version(&self, name: &str) -> Option<&SchemaField> {
        self.field(name).or_else(|| self.older_fields.iter().find(|field| field.name == name))
    }

    /// Its name in Go, without the package: `PodSpec`.
    pub(crate) fn go_name(&self) -> &'static str {
        self.name.split_once('.').map_or(self.name, |(_, name)| name)
    }
}

// === impl Type ===

impl Type {
    /// The struct that it is or contains.
    pub(crate) fn struct_id(&self) -> Option<StructId> {
        match self {
            Type::Struct(id) => Some(*id),
            Type::Pointer(inner) | Type::List(inner) | Type::Map(_, inner) => inner.struct_id(),
            Type::Text(_)
            | Type::Int32
            | Type::Int64
            | Type::Float
            | Type::Bool
            | Type::Quantity
            | Type::ResourceQuantity
            | Type::Time
            | Type::MicroTime
            | Type::IntOrString
            | Type::Bytes
            | Type::Any
            | Type::Interface
            | Type::SchemaOrBool(_)
            | Type::SchemaOrArray(_)
            | Type::SchemaOrStrings(_) => None,
        }
    }

    /// The type that a pointer points to, or the type itself.
    pub(crate) fn pointee(&self) -> &Type {
        match self {
            Type::Pointer(inner) => inner.pointee(),
            other => other,
        }
    }

    /// The type as Go prints it.
    pub(crate) fn go_type(&self) -> String {
        match self {
            Type::Text(name) => (*name).to_owned(),
            Type::Int32 => "int32".to_owned(),
            Type::Int64 => "int64".to_owned(),
            Type::Float => "float64".to_owned(),
            Type::Bool => "bool".to_owned(),
            Type::Quantity | Type::ResourceQuantity => "resource.Quantity".to_owned(),
            Type::Time => "v1.Time".to_owned(),
            Type::MicroTime => "v1.MicroTime".to_owned(),
            Type::IntOrString => "intstr.IntOrString".to_owned(),
            Type::Bytes => "[]uint8".to_owned(),
            Type::Any => "runtime.RawExtension".to_owned(),
            Type::Interface => "interface {}".to_owned(),
            Type::SchemaOrBool(_) => "v1.JSONSchemaPropsOrBool".to_owned(),
            Type::SchemaOrArray(_) => "v1.JSONSchemaPropsOrArray".to_owned(),
            Type::SchemaOrStrings(_) => "v1.JSONSchemaPropsOrStringArray".to_owned(),
            Type::Struct(id) => format!("{}.{}", get(*id).package, get(*id).go_name()),
            Type::Pointer(inner) => format!("*{}", inner.go_type()),
            Type::List(inner) => format!("[]{}", inner.go_type()),
            Type::Map(_, inner) if **inner == Type::ResourceQuantity => "v1.ResourceList".to_owned(),
            Type::Map(key, inner) => format!("map[{key}]{}", inner.go_type()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kubernetes::kinds;

    #[test]
    fn every_kind_that_can_be_listed_has_a_type() {
        for info in kinds::all().iter().filter(|info| info.kind != "ComponentStatus") {
            assert!(type_of(&Kind::new(info.group, info.kind)).is_some(), "{}", info.kind);
        }
        assert!(type_of(&Kind::new("apps.example.com", "Deployment")).is_none());
        assert!(type_of(&Kind::new("", "ComponentStatus")).is_none());
        assert!(type_of(&Kind::new("", "PodSpec")).is_none());
    }

    #[test]
    fn tables_are_sorted_and_every_type_of_a_field_is_known() {
        assert!(GROUPS.is_sorted_by(|a, b| a.0 < b.0));
        assert!(TYPES.is_sorted_by(|a, b| a.0 < b.0));
        for (group, _, kinds) in GROUPS {
            for kind in kinds.split(' ') {
                let id = type_of(&Kind::new(group, kind)).unwrap();
                assert!(get(id).field("metadata").is_some(), "{kind}");
            }
        }
        for struct_type in all() {
            for field in struct_type.fields.iter().chain(&struct_type.older_fields) {
                let mut inner = &field.type_;
                while let Type::Pointer(of) | Type::List(of) | Type::Map(_, of) = inner {
                    inner = of;
                }
                // Text types that Go's packages declare; any other name would be a struct that is missing.
                let packages =
                    ["v1", "v2", "v1alpha1", "v1alpha2", "v1alpha3", "v1beta1", "v1beta2", "types"];
                let is_known = match inner {
                    Type::Text("string") => true,
                    Type::Text(name) => {
                        name.split_once('.').is_some_and(|(package, _)| packages.contains(&package))
                    }
                    _ => true,
                };
                assert!(is_known, "{}: {} {inner:?}", struct_type.name, field.name);
            }
        }
    }

    #[test]
    fn types_are_printed_as_go_prints_them() {
        let go_type = |type_name: &str, field: &str| {
            get(named(type_name).unwrap()).field(field).unwrap().type_.pointee().go_type()
        };
        assert_eq!(go_type("core.PodSpec", "containers"), "[]v1.Container");
        assert_eq!(go_type("core.PodSpec", "overhead"), "v1.ResourceList");
        assert_eq!(go_type("core.PodSpec", "restartPolicy"), "v1.RestartPolicy");
        assert_eq!(go_type("core.PodSpec", "affinity"), "v1.Affinity");
        assert_eq!(go_type("autoscaling.HorizontalPodAutoscalerSpec", "metrics"), "[]v2.MetricSpec");
        assert_eq!(go_type("resource.Device", "attributes"), "map[v1.QualifiedName]v1.DeviceAttribute");
        assert_eq!(go_type("core.Secret", "data"), "map[string][]uint8");
    }
}
