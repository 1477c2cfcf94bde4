//! The Go types of the built-in kinds, parsed from their one-line descriptions in `types`, with the marks of their OpenAPI
//! schemas from `merge_types`.

pub(crate) mod field_numbers;
pub(crate) mod markers;
mod merge_types;
mod types;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use model::Kind;
use rustc_hash::FxHashMap;
use serde_json::Value;

use merge_types::MERGE_TYPES;
use types::{GROUPS, TYPES};

/// A struct type.
pub(crate) struct StructType {
    /// Its name in the table: `core.PodSpec`.
    pub(crate) name: &'static str,
    /// Its Go package: `v1`.
    pub(crate) package: &'static str,
    pub(crate) fields: Vec<SchemaField>,
    /// Fields that only older versions of the kind have.
    older_fields: Vec<SchemaField>,
    /// Whether server-side apply replaces it as a whole (`x-kubernetes-map-type`).
    pub(crate) is_atomic: bool,
}

/// A field of a struct.
pub(crate) struct SchemaField {
    pub(crate) name: &'static str,
    pub(crate) presence: Presence,
    pub(crate) type_: Type,
    pub(crate) patch_strategy: PatchStrategy,
    pub(crate) merge_type: MergeType,
    /// A default that does not follow from the type. [`SchemaField::default`] has all.
    own_default: Option<Value>,
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

/// How server-side apply merges a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MergeType {
    /// As its type says. Lists are atomic.
    Default,
    /// The field is replaced as a whole (`x-kubernetes-list-type` or `x-kubernetes-map-type`).
    Atomic,
    /// The fields of the struct or map are merged (`x-kubernetes-map-type`).
    Granular,
    /// A list of distinct scalars (`x-kubernetes-list-type`).
    Set,
    /// A list whose entries are matched by these fields (`x-kubernetes-list-map-keys`).
    Map(Vec<&'static str>),
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
    static BY_KIND: LazyLock<FxHashMap<(&str, &str), StructId>> =
        LazyLock::new(|| kinds().map(|(group, kind, id)| ((group, kind), id)).collect());
    BY_KIND.get(&(&*kind.group, &*kind.kind)).copied()
}

/// The group, the name and the type of each kind that has a type.
pub(crate) fn kinds() -> impl Iterator<Item = (&'static str, &'static str, StructId)> {
    GROUPS.iter().flat_map(|(group, alias, kinds)| {
        let of_kind = move |kind| Some((*group, kind, named(&format!("{alias}.{kind}"))?));
        kinds.split(' ').filter_map(of_kind)
    })
}

/// The versions of the groups in which there are types, sorted.
pub(crate) fn group_versions() -> BTreeSet<(&'static str, &'static str)> {
    kinds().map(|(group, _, id)| (group, get(id).package)).collect()
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

/// Types of responses, which no object contains.
#[cfg(test)]
pub(crate) const RESPONSE_TYPES: [&str; 6] = [
    "meta.ListMeta",
    "meta.ShardInfo",
    "meta.Status",
    "meta.StatusCause",
    "meta.StatusDetails",
    "meta.WatchEvent",
];

static SCHEMA: LazyLock<Vec<StructType>> = LazyLock::new(|| {
    let ids = TYPES.iter().enumerate().map(|(index, (name, _))| (*name, StructId(index))).collect();
    let mut structs: Vec<StructType> =
        TYPES.iter().map(|(name, words)| parse_struct(name, words, &ids)).collect();
    for (name, words) in MERGE_TYPES {
        if let Some(StructId(index)) = ids.get(name) {
            parse_marks(&mut structs[*index], words);
        }
    }
    structs
});

type StructIds = FxHashMap<&'static str, StructId>;

/// Parses a line of the table.
fn parse_struct(name: &'static str, words: &'static str, ids: &StructIds) -> StructType {
    let mut parsed =
        StructType { name, package: "v1", fields: Vec::new(), older_fields: Vec::new(), is_atomic: false };
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
    SchemaField {
        name,
        presence,
        type_: parse_type(type_, ids),
        patch_strategy,
        merge_type: MergeType::Default,
        own_default: None,
        embedded: embedded.to_vec(),
    }
}

/// Parses words such as `:atomic` and `ports:map(containerPort,protocol)`.
fn parse_marks(parsed: &mut StructType, words: &'static str) {
    for word in words.split_ascii_whitespace() {
        let (word, mark) = word.split_once(':').unwrap_or((word, ""));
        let (name, default) = match word.split_once('=') {
            Some((name, default)) => (name, Some(default)),
            None => (word, None),
        };
        if name.is_empty() {
            parsed.is_atomic = true;
        }
        for field in parsed.fields.iter_mut().filter(|field| field.name == name) {
            field.merge_type = match mark {
                "" => MergeType::Default,
                "atomic" => MergeType::Atomic,
                "granular" => MergeType::Granular,
                "set" => MergeType::Set,
                keys => {
                    let keys = keys.trim_start_matches("map(").trim_end_matches(')');
                    MergeType::Map(keys.split(',').collect())
                }
            };
            field.own_default = default.map(|text| match field.type_.pointee() {
                Type::Text(_) => text.into(),
                _ => serde_json::from_str(text).unwrap_or_default(),
            });
        }
    }
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

// === impl SchemaField ===

impl SchemaField {
    /// The default in its OpenAPI schema.
    pub(crate) fn default(&self) -> Option<Value> {
        let is_always_written = self.presence == Presence::Always;
        self.own_default.clone().or_else(|| match &self.type_ {
            Type::Struct(_) => Some(Value::Object(serde_json::Map::new())),
            Type::Text(_) if is_always_written => Some("".into()),
            Type::Int32 | Type::Int64 | Type::Float if is_always_written => Some(0.into()),
            Type::Bool if is_always_written => Some(false.into()),
            _ => None,
        })
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
    use std::path::Path;
    use std::process::Command;

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
        assert!(MERGE_TYPES.is_sorted_by(|a, b| a.0 < b.0));
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

    /// The marks of a struct type as the Go program prints them.
    fn marks(parsed: &StructType) -> String {
        let mut fields: Vec<&SchemaField> = parsed.fields.iter().collect();
        fields.sort_unstable_by_key(|field| field.name);
        let mut line = parsed.name.to_owned();
        line.push_str(if parsed.is_atomic { " :atomic" } else { "" });
        for field in fields {
            let default = field.default().map_or_else(String::new, |default| format!("={default}"));
            let mark = match &field.merge_type {
                MergeType::Default if matches!(field.type_, Type::List(_)) => ":atomic".to_owned(),
                MergeType::Default => String::new(),
                MergeType::Atomic => ":atomic".to_owned(),
                MergeType::Granular => ":granular".to_owned(),
                MergeType::Set => ":set".to_owned(),
                MergeType::Map(keys) => format!(":map({})", keys.join(",")),
            };
            if !(default.is_empty() && mark.is_empty()) {
                line.extend([" ", field.name, &default, &mark]);
            }
        }
        line
    }

    #[test]
    fn the_merge_types_and_defaults_are_those_of_the_openapi_schemas() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fieldmanager"));
        let Some(program) = testcluster::build_module("fieldmanager", folder).unwrap() else {
            println!("skipped: no go");
            return;
        };
        let printed = Command::new(program).arg("types").output().unwrap();
        let printed = String::from_utf8(printed.stdout).unwrap();
        // Some types that are not structs are definitions too.
        let printed = printed.lines().filter(|line| named(line.split(' ').next().unwrap()).is_some());
        // These are in no OpenAPI document.
        let is_local = |name: &str| {
            matches!(name, "handlers.jsonPatchOp" | "node.RuntimeClassSpec" | "resource.BasicDevice")
                || RESPONSE_TYPES.contains(&name)
        };
        let ours = all().iter().filter(|parsed| !is_local(parsed.name)).map(marks);
        for (ours, printed) in ours.zip(printed.clone()) {
            assert_eq!(ours, printed);
        }
        assert_eq!(printed.count(), all().iter().filter(|parsed| !is_local(parsed.name)).count());
    }
}
