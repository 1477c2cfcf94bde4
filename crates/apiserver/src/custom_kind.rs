//! Custom kinds: the schemas of their versions, by which their objects are written and read.

use std::sync::OnceLock;

use apimachinery::structural::Structural;
use apimachinery::validation::{ScalePaths, SchemaRules};
use kubernetes::custom_definition::{CustomDefinition, CustomScale, CustomVersion};
use model::Object;
use serde_json::Value;

/// A kind that a CustomResourceDefinition defines.
#[derive(Debug)]
pub struct CustomKind {
    object: Object,
    definition: CustomDefinition,
    schemas: Vec<VersionSchema>,
    /// The resourceVersion since which its objects have been written by these schemas; `None` if they are served as they
    /// are, because they were recorded.
    written_since: Option<u64>,
}

#[derive(Debug)]
struct VersionSchema {
    version: String,
    /// Read when it is first needed: many kinds have no objects.
    schema: OnceLock<Option<CompiledSchema>>,
    scale: Option<ScalePaths>,
}

/// A schema and its expressions, both read once.
#[derive(Debug)]
struct CompiledSchema {
    structural: Structural,
    rules: OnceLock<SchemaRules>,
}

// === impl CustomKind ===

impl CustomKind {
    /// The kind of a definition. `None` if it is invalid.
    pub(crate) fn of_definition(object: &Object, written_since: Option<u64>) -> Option<CustomKind> {
        let definition = CustomDefinition::parse(object)?;
        let schema = |version: &CustomVersion| VersionSchema {
            version: version.name.clone(),
            schema: OnceLock::new(),
            scale: version.scale().map(scale_paths),
        };
        let schemas = definition.versions.iter().map(schema).collect();
        Some(CustomKind { object: object.clone(), definition, schemas, written_since })
    }

    /// The definition.
    pub fn definition(&self) -> &CustomDefinition {
        &self.definition
    }

    /// The schema of a version as it was written; `None` if there is none.
    pub fn schema_json(&self, version: &str) -> Option<Value> {
        let definition = self.object.value().ok()?;
        let versions = definition.pointer("/spec/versions")?.as_array()?;
        let version = versions.iter().find(|one| one["name"] == version)?;
        version.pointer("/schema/openAPIV3Schema").cloned()
    }

    /// The schema of a version; `None` if there is none.
    pub fn schema(&self, version: &str) -> Option<&Structural> {
        Some(&self.compiled(version)?.structural)
    }

    /// The expressions of the schema of a version, compiled when the first object is written.
    pub(crate) fn rules(&self, version: &str) -> Option<&SchemaRules> {
        let compiled = self.compiled(version)?;
        Some(compiled.rules.get_or_init(|| SchemaRules::compile(&compiled.structural)))
    }

    fn compiled(&self, version: &str) -> Option<&CompiledSchema> {
        let found = self.schemas.iter().find(|one| one.version == version)?;
        let parse = || {
            let structural = Structural::parse(&self.schema_json(version)?);
            Some(CompiledSchema { structural, rules: OnceLock::new() })
        };
        found.schema.get_or_init(parse).as_ref()
    }

    /// The fields of the subresource `scale` of a version.
    pub(crate) fn scale(&self, version: &str) -> Option<&ScalePaths> {
        self.schemas.iter().find(|one| one.version == version)?.scale.as_ref()
    }

    /// Whether a stored object is one of this version, as it is.
    pub(crate) fn is_current(&self, object: &Object, api_version: &str) -> bool {
        let meta = object.meta();
        let is_written = self.written_since.is_none_or(|since| {
            let version = meta.resource_version.and_then(|version| version.parse().ok());
            version.is_some_and(|version: u64| version > since)
        });
        is_written && meta.api_version == api_version
    }

    /// An object of a version in the version in which it is stored, with what that has of it.
    pub(crate) fn to_storage(&self, mut object: Value) -> Value {
        if let Some(storage) = self.definition.storage_version() {
            self.convert(&mut object, &storage.name);
            self.add_defaults(&mut object, &storage.name);
        }
        shorten_numbers(&mut object);
        object
    }

    /// A stored object in a version. One that was written by another schema is made to fit.
    pub(crate) fn read_stored(&self, mut object: Value, version: &str) -> Value {
        if self.written_since.is_some() {
            let stored = object["apiVersion"].as_str().and_then(|api_version| api_version.split('/').nth(1));
            if let Some(stored) = stored.map(str::to_owned) {
                self.convert(&mut object, &stored);
                self.add_defaults(&mut object, &stored);
            }
        }
        self.convert(&mut object, version);
        object
    }

    /// Without a webhook only the apiVersion changes, and the fields that the version does not have go.
    fn convert(&self, object: &mut Value, version: &str) {
        object["apiVersion"] = format!("{}/{version}", self.definition.kind.group).into();
        if let Some(schema) = self.schema(version).filter(|_| self.written_since.is_some()) {
            // Metadata of embedded resources that cannot be decoded is kept as it was written.
            let _ = schema.coerce(object);
        }
    }

    fn add_defaults(&self, object: &mut Value, version: &str) {
        if let Some(schema) = self.schema(version) {
            // What would grow too much was refused when it was written, or has the defaults that fit.
            let _ = schema.set_defaults(object);
        }
    }
}

/// Floating point numbers that are whole are stored without a point, and are integers when they are read again.
fn shorten_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole =
                number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 2f64.powi(63));
            if let Some(whole) = whole {
                *value = Value::from(whole as i64);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(shorten_numbers),
        Value::Object(fields) => fields.values_mut().for_each(shorten_numbers),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn scale_paths(scale: &CustomScale) -> ScalePaths {
    let CustomScale { spec_replicas_path, status_replicas_path, label_selector_path } = scale.clone();
    ScalePaths {
        spec_replicas: spec_replicas_path,
        status_replicas: status_replicas_path,
        label_selector: label_selector_path.filter(|path| !path.is_empty()),
    }
}

#[cfg(test)]
mod tests;
