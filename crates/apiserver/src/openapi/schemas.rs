//! The schemas of documents: those of built-in types, those of custom resources, and which of them a document needs.

use std::collections::BTreeMap;

use apimachinery::openapi::{self, SCHEMA_PREFIX, group_version_kind, list_schema, object_properties};
use model::Kind;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::resource::Resource;
use crate::store::ObjectList;

/// Schemas by their names, as documents of OpenAPI v3 have them.
pub(super) struct Schemas {
    built_in: BTreeMap<String, Value>,
    custom: BTreeMap<String, Value>,
}

/// The name of the schema of a kind in a version. That of a custom resource begins with its group, reversed.
pub(super) fn schema_name(kind: &Kind, version: &str) -> String {
    openapi::schema_name(kind).unwrap_or_else(|| {
        let group: Vec<&str> = kind.group.rsplit('.').collect();
        format!("{}.{version}.{}", group.join("."), kind.kind)
    })
}

// === impl Schemas ===

impl Schemas {
    /// The schemas of built-in types, and of these custom resources with the schemas of their definitions.
    pub(super) fn new<'a>(
        resources: impl Iterator<Item = &'a Resource>,
        definitions: Option<&ObjectList>,
    ) -> Schemas {
        let mut custom = BTreeMap::new();
        let mut declared = definitions.map(declared_schemas).unwrap_or_default();
        for resource in resources.filter(|resource| resource.is_custom()) {
            let (group, version, kind) = (&*resource.kind.group, &*resource.version, &*resource.kind.kind);
            let name = schema_name(&resource.kind, version);
            let declared = declared.remove(&(resource.kind.clone(), resource.version.clone()));
            let mut schema = declared.map_or_else(|| json!({"type": "object"}), custom_schema);
            schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(group, version, kind)]);
            custom.insert(format!("{name}List"), list_schema(&name, group, version, kind));
            custom.insert(name, schema);
        }
        Schemas { built_in: openapi::schemas(), custom }
    }

    fn get(&self, name: &str) -> Option<(&String, &Value)> {
        self.custom.get_key_value(name).or_else(|| self.built_in.get_key_value(name))
    }

    /// The schemas of these names, and those that they refer to.
    pub(super) fn closure(&self, mut names: Vec<String>) -> BTreeMap<&str, &Value> {
        let mut found = BTreeMap::new();
        while let Some(name) = names.pop() {
            if let Some((name, schema)) = self.get(&name)
                && found.insert(&**name, schema).is_none()
            {
                add_references(schema, &mut names);
            }
        }
        found
    }
}

/// Adds the names of the schemas that a schema refers to.
fn add_references(schema: &Value, names: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            let name = members.get("$ref").and_then(Value::as_str);
            names.extend(name.and_then(|name| name.strip_prefix(SCHEMA_PREFIX)).map(str::to_owned));
            members.values().for_each(|member| add_references(member, names));
        }
        Value::Array(entries) => entries.iter().for_each(|entry| add_references(entry, names)),
        _ => {}
    }
}

/// The schema of each served version of each kind that is defined.
fn declared_schemas(definitions: &ObjectList) -> BTreeMap<(Kind, String), Value> {
    let mut schemas = BTreeMap::new();
    for definition in definitions.objects.iter() {
        let Ok(DefinitionJson { spec }) = definition.view::<DefinitionJson>() else { continue };
        let kind = Kind::new(&spec.group, &spec.names.kind);
        for version in spec.versions {
            if let Some(schema) = version.schema.and_then(|schema| schema.open_api_v3_schema) {
                schemas.insert((kind.clone(), version.name), schema);
            }
        }
    }
    schemas
}

/// The schema of a custom resource, from that of its definition.
fn custom_schema(mut schema: Value) -> Value {
    if !schema.is_object() {
        return json!({"type": "object"});
    }
    add_embedded_properties(&mut schema);
    add_object_properties(&mut schema);
    schema
}

/// Completes the schemas of objects within objects, and of fields that may be a number or a text. The depth is that of
/// parsed JSON.
fn add_embedded_properties(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(add_embedded_properties);
    }
    for nested in ["items", "additionalProperties"] {
        members.get_mut(nested).into_iter().for_each(add_embedded_properties);
    }
    if is_set(members, "x-kubernetes-int-or-string") && !members.contains_key("anyOf") {
        members.insert("anyOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
    }
    if is_set(members, "x-kubernetes-embedded-resource") {
        let required = members.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(required) = required {
            for name in ["kind", "apiVersion"] {
                if !required.iter().any(|field| field == name) {
                    required.push(name.into());
                }
            }
        }
        add_object_properties(schema);
    }
}

fn is_set(members: &Map<String, Value>, extension: &str) -> bool {
    members.get(extension) == Some(&Value::Bool(true))
}

/// Sets the properties that every object has.
fn add_object_properties(schema: &mut Value) {
    if !schema["properties"].is_object() {
        schema["properties"] = json!({});
    }
    for (name, property) in object_properties() {
        schema["properties"][name] = property;
    }
}

#[derive(Deserialize)]
struct DefinitionJson {
    spec: SpecJson,
}

#[derive(Deserialize)]
struct SpecJson {
    group: String,
    names: NamesJson,
    versions: Vec<VersionJson>,
}

#[derive(Deserialize)]
struct NamesJson {
    kind: String,
}

#[derive(Deserialize)]
struct VersionJson {
    name: String,
    schema: Option<SchemaJson>,
}

#[derive(Deserialize)]
struct SchemaJson {
    #[serde(rename = "openAPIV3Schema")]
    open_api_v3_schema: Option<Value>,
}
