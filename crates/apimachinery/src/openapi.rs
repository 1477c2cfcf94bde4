//! The OpenAPI schemas of the built-in kinds and of the types that they contain, as documents of OpenAPI v3 have them.
//!
//! They follow from the Go types in `schema`; descriptions are collected by the build script. Those of the values of enums
//! are missing.

mod descriptions;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use kubernetes::kinds;
use model::Kind;
use serde_json::{Map, Value, json};

use crate::schema::markers::{self, FieldMarkers, Union};
use crate::schema::{self, MergeType, PatchStrategy, SchemaField, StructType, Type};

/// The beginning of references to schemas.
pub const SCHEMA_PREFIX: &str = "#/components/schemas/";
/// The schema of the options of deletions.
pub const DELETE_OPTIONS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions";
/// The schema of the metadata of lists.
pub const LIST_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta";
/// The schema of the metadata of objects.
pub const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
/// The schema of the bodies of PATCH requests.
pub const PATCH: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch";
/// The schema of errors, and of the results of deletions.
pub const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

const FIELDS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const JSON: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
const SCHEMA_OR_ARRAY: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray";
const SCHEMA_OR_BOOL: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool";
const SCHEMA_OR_STRINGS: &str =
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray";
const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";

/// All schemas by their names.
pub fn schemas() -> BTreeMap<String, Value> {
    let mut schemas = special_schemas();
    for type_ in schema::all() {
        schemas.insert(name_of(type_), struct_schema(type_));
    }
    for (group, kind, id) in schema::kinds() {
        let (type_, name) = (schema::get(id), name_of(schema::get(id)));
        add_kind(&mut schemas, &name, group_version_kind(group, type_.package, kind));
        if kinds::of(&Kind::new(group, kind)).is_some() {
            let list = list_schema(&name, group, type_.package, kind);
            schemas.insert(format!("{name}List"), list);
        }
    }
    add_kind(&mut schemas, STATUS, group_version_kind("", "v1", "Status"));
    // Every version of every group has these.
    for kind in ["DeleteOptions", "WatchEvent"] {
        let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}");
        for (group, version) in schema::group_versions() {
            add_kind(&mut schemas, &name, group_version_kind(group, version, kind));
        }
    }
    schemas
}

/// The name of the schema of a kind: `io.k8s.api.core.v1.Pod`. `None` if the kind is not built in.
pub fn schema_name(kind: &Kind) -> Option<String> {
    Some(name_of(schema::get(schema::type_of(kind)?)))
}

/// The schema of the lists of a kind whose objects have this schema.
pub fn list_schema(item_schema: &str, group: &str, version: &str, kind: &str) -> Value {
    let pod = descriptions::of("io.k8s.api.core.v1.Pod");
    json!({
        "description": format!("{kind}List is a list of objects of the kind {kind}."),
        "type": "object",
        "required": ["items"],
        "properties": {
            "apiVersion": {"description": pod.field("apiVersion"), "type": "string"},
            "items": {
                "description": "The objects of the list.",
                "type": "array",
                "items": {"default": {}, "allOf": [reference(item_schema)]},
            },
            "kind": {"description": pod.field("kind"), "type": "string"},
            "metadata": {
                "description": "The metadata of the list.", "default": {}, "allOf": [reference(LIST_META)],
            },
        },
        "x-kubernetes-group-version-kind": [group_version_kind(group, version, &format!("{kind}List"))],
    })
}

/// The schemas of the fields that every object has: `apiVersion`, `kind`, `metadata`.
pub fn object_properties() -> [(&'static str, Value); 3] {
    let pod = descriptions::of("io.k8s.api.core.v1.Pod");
    let text = |name| json!({"description": pod.field(name), "type": "string"});
    let metadata = json!({"description": pod.field("metadata"), "allOf": [reference(OBJECT_META)]});
    [("apiVersion", text("apiVersion")), ("kind", text("kind")), ("metadata", metadata)]
}

/// A group, a version and a kind as `x-kubernetes-group-version-kind` lists them.
pub fn group_version_kind(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// A reference to a schema.
pub fn reference(name: &str) -> Value {
    json!({"$ref": format!("{SCHEMA_PREFIX}{name}")})
}

fn add_kind(schemas: &mut BTreeMap<String, Value>, name: &str, kind: Value) {
    let schema = schemas.get_mut(name).expect("the type of a kind has a schema");
    let kinds = &mut schema["x-kubernetes-group-version-kind"];
    match kinds {
        Value::Array(kinds) => kinds.push(kind),
        _ => *kinds = json!([kind]),
    }
}

/// The name of the schema of a type.
fn name_of(type_: &StructType) -> String {
    let (group, name) = type_.name.split_once('.').unwrap_or(("", type_.name));
    let package = match group {
        "apiextensions" => "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
        "apiregistration" => "io.k8s.kube-aggregator.pkg.apis.apiregistration",
        "meta" => "io.k8s.apimachinery.pkg.apis.meta",
        _ => return format!("io.k8s.api.{group}.{}.{name}", type_.package),
    };
    format!("{package}.{}.{name}", type_.package)
}

/// The schemas of types that are no structs in JSON.
fn special_schemas() -> BTreeMap<String, Value> {
    let with_description = |(name, mut schema): (&str, Value)| {
        schema["description"] = descriptions::of(name).text.into();
        (name.to_owned(), schema)
    };
    let mut schemas: BTreeMap<String, Value> = [
        (FIELDS, json!({"type": "object"})),
        (
            INT_OR_STRING,
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]}),
        ),
        (JSON, json!({})),
        (MICRO_TIME, json!({"type": "string", "format": "date-time"})),
        (QUANTITY, json!({"oneOf": [{"type": "string"}, {"type": "number"}]})),
        (RAW_EXTENSION, json!({"type": "object"})),
        (SCHEMA_OR_ARRAY, json!({})),
        (SCHEMA_OR_BOOL, json!({})),
        (SCHEMA_OR_STRINGS, json!({})),
        (TIME, json!({"type": "string", "format": "date-time"})),
    ]
    .into_iter()
    .map(with_description)
    .collect();
    let description = "The body of a PATCH request, in the format of its content type.";
    schemas.insert(PATCH.to_owned(), json!({"description": description, "type": "object"}));
    schemas
}

fn struct_schema(type_: &StructType) -> Value {
    let name = name_of(type_);
    let (descriptions, markers) = (descriptions::of(&name), markers::of(type_.name));
    let no_markers = FieldMarkers::default();
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for field in &type_.fields {
        let markers = markers.field(field.name).unwrap_or(&no_markers);
        if markers.is_required {
            required.push(field.name);
        }
        let property = property(type_, field, markers, descriptions.field(field.name));
        properties.insert(field.name.to_owned(), property);
    }
    let mut schema = json!({"type": "object"});
    if !descriptions.text.is_empty() {
        schema["description"] = descriptions.text.into();
    }
    if !properties.is_empty() {
        schema["properties"] = properties.into();
    }
    if !required.is_empty() {
        schema["required"] = required.into();
    }
    if type_.is_atomic {
        schema["x-kubernetes-map-type"] = "atomic".into();
    }
    if let Some(union) = &markers.union {
        schema["x-kubernetes-unions"] = json!([union_schema(union)]);
    }
    schema
}

fn union_schema(union: &Union) -> Value {
    let value = |field: &str| field[..1].to_uppercase() + &field[1..];
    let fields: Map<String, Value> =
        union.fields.iter().map(|field| ((*field).to_owned(), value(field).into())).collect();
    match union.discriminator {
        Some(discriminator) => json!({"discriminator": discriminator, "fields-to-discriminateBy": fields}),
        None => json!({"fields-to-discriminateBy": fields}),
    }
}

/// The schema of a field of a type.
fn property(type_: &StructType, field: &SchemaField, markers: &FieldMarkers, description: &str) -> Value {
    let field_type = field.type_.pointee();
    let mut schema = type_schema(type_, field_type);
    if !markers.entry_values.is_empty() {
        let entries = if matches!(field_type, Type::List(_)) { "items" } else { "additionalProperties" };
        schema[entries]["enum"] = markers.entry_values.as_slice().into();
    }
    let mut additions = Map::new();
    let mut add = |name: &str, value: Value| additions.insert(name.to_owned(), value);
    if !description.is_empty() {
        add("description", description.into());
    }
    if let Some(default) = field.default() {
        add("default", default);
    }
    if !markers.values.is_empty() {
        add("enum", markers.values.as_slice().into());
    }
    match (&field.merge_type, field_type) {
        // A text of bytes is a list in Go.
        (MergeType::Default, Type::List(_)) | (MergeType::Atomic, Type::List(_) | Type::Bytes) => {
            add("x-kubernetes-list-type", "atomic".into());
        }
        (MergeType::Default, _) => {}
        (MergeType::Atomic, _) => {
            add("x-kubernetes-map-type", "atomic".into());
        }
        (MergeType::Granular, _) => {
            add("x-kubernetes-map-type", "granular".into());
        }
        (MergeType::Set, _) => {
            add("x-kubernetes-list-type", "set".into());
        }
        (MergeType::Map(keys), _) => {
            add("x-kubernetes-list-type", "map".into());
            add("x-kubernetes-list-map-keys", keys.as_slice().into());
        }
    }
    let strategy = match (field.patch_strategy, markers.retains_keys) {
        (PatchStrategy::Default, false) => None,
        (PatchStrategy::Default, true) => Some("retainKeys"),
        (PatchStrategy::Replace, _) => Some("replace"),
        (PatchStrategy::Merge | PatchStrategy::MergeBy(_), false) => Some("merge"),
        (PatchStrategy::Merge | PatchStrategy::MergeBy(_), true) => Some("merge,retainKeys"),
    };
    if let Some(strategy) = strategy {
        add("x-kubernetes-patch-strategy", strategy.into());
    }
    if let PatchStrategy::MergeBy(key) = field.patch_strategy {
        add("x-kubernetes-patch-merge-key", key.into());
    }
    with_additions(schema, additions)
}

/// A schema with further members. Members beside a reference would be ignored.
fn with_additions(schema: Value, additions: Map<String, Value>) -> Value {
    if additions.is_empty() {
        return schema;
    }
    let mut members = match schema {
        Value::Object(members) if !members.contains_key("$ref") => members,
        reference => Map::from_iter([("allOf".to_owned(), json!([reference]))]),
    };
    members.extend(additions);
    Value::Object(members)
}

/// The schema of the type of a field of `owner`.
fn type_schema(owner: &StructType, type_: &Type) -> Value {
    match type_ {
        Type::Text(_) => json!({"type": "string"}),
        Type::Int32 => json!({"type": "integer", "format": "int32"}),
        Type::Int64 => json!({"type": "integer", "format": "int64"}),
        Type::Float => json!({"type": "number", "format": "double"}),
        Type::Bool => json!({"type": "boolean"}),
        Type::Bytes => json!({"type": "string", "format": "byte"}),
        Type::Quantity | Type::ResourceQuantity => reference(QUANTITY),
        Type::Time => reference(TIME),
        Type::MicroTime => reference(MICRO_TIME),
        Type::IntOrString => reference(INT_OR_STRING),
        Type::Any => reference(match owner.name {
            "apiextensions.JSONSchemaProps" => JSON,
            "meta.ManagedFieldsEntry" => FIELDS,
            _ => RAW_EXTENSION,
        }),
        Type::Interface => json!({}),
        Type::SchemaOrBool(_) => reference(SCHEMA_OR_BOOL),
        Type::SchemaOrArray(_) => reference(SCHEMA_OR_ARRAY),
        Type::SchemaOrStrings(_) => reference(SCHEMA_OR_STRINGS),
        Type::Struct(id) => reference(&name_of(schema::get(*id))),
        Type::Pointer(inner) => type_schema(owner, inner),
        Type::List(inner) => json!({"type": "array", "items": entry_schema(owner, inner)}),
        Type::Map(_, inner) => {
            json!({"type": "object", "additionalProperties": entry_schema(owner, inner)})
        }
    }
}

/// The schema of the entries of a list or map. Those that are no pointers have a default.
fn entry_schema(owner: &StructType, type_: &Type) -> Value {
    let default = match type_ {
        Type::Struct(_) => Some(json!({})),
        Type::Text(_) => Some(json!("")),
        Type::Int32 | Type::Int64 | Type::Float => Some(json!(0)),
        Type::Bool => Some(json!(false)),
        Type::Pointer(_)
        | Type::List(_)
        | Type::Map(..)
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
    };
    let additions = default.map(|default| ("default".to_owned(), default)).into_iter().collect();
    with_additions(type_schema(owner, type_), additions)
}
