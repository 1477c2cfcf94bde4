//! Kubernetes' strategic merge patch: a merge patch that merges some lists entry by entry, matched by a merge key.
//!
//! Only built-in kinds define merge keys (in `schema`); like here, an API server rejects such patches of custom
//! resources. Clients that compute and apply patches themselves know only the metadata of custom resources.

mod diff;
mod lists;
#[cfg(test)]
mod tests;

use kubernetes::fields::Fields;
use model::Kind;
use serde_json::Value;

use crate::schema::{self, PatchStrategy, SchemaField, StructId, Type};
use diff::diff_or_replace;
use lists::{merge_list, set_element_order};

/// The reason why a patch cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadPatch {
    /// Only built-in kinds define how their lists are merged.
    #[error("strategic merge patch is not supported for this kind: {0}")]
    Unsupported(Kind),
    /// The object or the patch is not a JSON object.
    #[error("a strategic merge patch and its target must be JSON objects")]
    NotAnObject,
    /// An unknown directive, or one in the wrong place or with an invalid value.
    #[error("invalid directive {0} in a strategic merge patch")]
    Directive(String),
    /// A field that the kind does not have, or that has another type.
    #[error("strategic merge patch: field {0:?} cannot be merged")]
    Field(String),
    /// A field of the patch that is missing in the `$retainKeys` beside it.
    #[error("strategic merge patch: {0:?} is not in the $retainKeys of its object")]
    NotRetained(String),
    /// A list whose entries are not all of one comparable type.
    #[error("strategic merge patch: entries of a merged list must be of one type, and not lists")]
    Entries,
    /// An entry of a merged list lacks its merge key.
    #[error("strategic merge patch: an entry of a merged list has no merge key {0:?}")]
    NoKey(String),
    /// The entries of a list are not in the order of the `$setElementOrder` beside it.
    #[error("strategic merge patch: the entries of {0:?} are not in the order of $setElementOrder")]
    Order(String),
}

/// Applies `patch` to `original` as an API server does.
///
/// Recursion follows the nesting of the two values, which JSON parsers bound. Where Go's result depends on the order
/// of its hash maps (one finalizer both added and deleted), deletion comes first here.
pub fn merge(kind: &Kind, original: &Value, patch: &Value) -> Result<Value, BadPatch> {
    let schema = Schema::of(kind).ok_or_else(|| BadPatch::Unsupported(kind.clone()))?;
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(BadPatch::NotAnObject);
    };
    merge_map(original.clone(), patch.clone(), schema).map(Value::Object)
}

/// Applies `patch` to a custom resource, as clients do: maps are merged, lists outside its metadata replaced.
pub fn merge_custom(original: &Value, patch: &Value) -> Result<Value, BadPatch> {
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(BadPatch::NotAnObject);
    };
    merge_map(original.clone(), patch.clone(), Schema::Custom).map(Value::Object)
}

/// The patch with which [`merge`] turns `from` into `to`, or [`merge_custom`] if the kind is not built in. It is `{}`
/// if the two are equal. Mostly it equals the patch that Go's code computes, which loses nulls and duplicate entries
/// where this one replaces; it has no `$retainKeys`, which add nothing to the nulls beside them.
///
/// Recursion follows the nesting of the two values. If one is not a JSON object, or has a field `$patch` of its own,
/// no patch exists: then the result is `to` itself.
pub fn diff(kind: &Kind, from: &Value, to: &Value) -> Value {
    let schema = Schema::of(kind).unwrap_or(Schema::Custom);
    let patch = match (from, to) {
        (Value::Object(from), Value::Object(to)) => diff_or_replace(from, to, schema),
        _ => None,
    };
    patch.map_or_else(|| to.clone(), Value::Object)
}

/// The schema of a value's fields.
#[derive(Clone, Copy)]
enum Schema {
    Struct(StructId),
    /// A custom resource: metadata, and any other fields.
    Custom,
    /// Any fields: maps are merged, lists replaced.
    Any,
    /// The entries of a map: none is a struct or list that can be merged.
    Scalars,
}

/// A field that is a struct or map.
struct StructField {
    replaced: bool,
    schema: Schema,
}

/// A field that is a list.
struct ListField {
    merged: bool,
    /// The merge key; `None` if the entries are scalars.
    key: Option<&'static str>,
    schema: Schema,
}

// === impl Schema ===

impl Schema {
    fn of(kind: &Kind) -> Option<Schema> {
        schema::type_of(kind).map(Schema::Struct)
    }

    /// The schema of a value of this type.
    fn of_type(type_: &Type) -> Schema {
        if let Type::Struct(id) = type_.pointee() { Schema::Struct(*id) } else { Schema::Scalars }
    }

    fn single(self, name: &str) -> Result<StructField, BadPatch> {
        let Some(field) = self.field(name)? else {
            return Ok(StructField { replaced: false, schema: Schema::Any });
        };
        let is_struct = matches!(
            field.type_.pointee(),
            Type::Struct(_)
                | Type::Map(..)
                | Type::Any
                | Type::SchemaOrBool(_)
                | Type::SchemaOrArray(_)
                | Type::SchemaOrStrings(_)
        );
        if !is_struct {
            return Err(BadPatch::Field(name.to_owned()));
        }
        let replaced = field.patch_strategy == PatchStrategy::Replace;
        Ok(StructField { replaced, schema: Schema::of_type(&field.type_) })
    }

    fn list(self, name: &str) -> Result<ListField, BadPatch> {
        let Some(field) = self.field(name)? else {
            return Ok(ListField { merged: false, key: None, schema: Schema::Any });
        };
        let Type::List(entry) = field.type_.pointee() else { return Err(BadPatch::Field(name.to_owned())) };
        let (merged, key) = match field.patch_strategy {
            PatchStrategy::Default | PatchStrategy::Replace => (false, None),
            PatchStrategy::Merge => (true, None),
            PatchStrategy::MergeBy(key) => (true, Some(key)),
        };
        Ok(ListField { merged, key, schema: Schema::of_type(entry) })
    }

    /// A field; `None` if any is allowed.
    fn field(self, name: &str) -> Result<Option<&'static SchemaField>, BadPatch> {
        let id = match self {
            Schema::Struct(id) => Some(id),
            Schema::Custom if name == "metadata" => return Ok(custom_metadata()),
            Schema::Custom | Schema::Any => return Ok(None),
            Schema::Scalars => None,
        };
        let field = id.and_then(|id| schema::get(id).field_of_any_version(name));
        field.map(Some).ok_or_else(|| BadPatch::Field(name.to_owned()))
    }
}

/// The metadata of a custom resource, which is that of every kind.
fn custom_metadata() -> Option<&'static SchemaField> {
    schema::get(schema::named("core.ConfigMap")?).field("metadata")
}

fn merge_map(mut original: Fields, mut patch: Fields, schema: Schema) -> Result<Fields, BadPatch> {
    if let Some(directive) = patch.remove("$patch") {
        // A replacement is taken as it is, including directives and nulls inside it.
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Fields::new()),
            _ => Err(BadPatch::Directive(format!("$patch: {directive}"))),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    set_element_orders(&mut original, &mut patch, schema)?;
    for (patch_key, value) in patch {
        let field = directive_field("$deleteFromPrimitiveList", &patch_key)?;
        let deletes = field.is_some();
        let name = field.filter(|field| !field.is_empty()).unwrap_or(&patch_key);
        let old = original.remove(name);
        let new = match (old, value) {
            (_, Value::Null) => None,
            (Some(Value::Object(old)), Value::Object(value)) => {
                let field = schema.single(name)?;
                Some(if field.replaced { value } else { merge_map(old, value, field.schema)? }.into())
            }
            (Some(Value::Array(old)), Value::Array(value)) => {
                let list = schema.list(name)?;
                let merges = list.merged || deletes;
                Some(if merges { merge_list(old, value, &list, deletes)? } else { value }.into())
            }
            (Some(old), value) if JsonType::of(&old) == JsonType::of(&value) => Some(value),
            (old, _) if deletes => old,
            (_, value) => without_directives(without_nulls(value)),
        };
        if let Some(new) = new {
            original.insert(name.to_owned(), new);
        }
    }
    Ok(original)
}

/// Removes fields from `original` that the patch's `$retainKeys` does not list.
fn retain_keys(original: &mut Fields, patch: &mut Fields) -> Result<(), BadPatch> {
    let Some(directive) = patch.remove("$retainKeys") else { return Ok(()) };
    let Value::Array(names) = directive else { return Err(BadPatch::Directive("$retainKeys".to_owned())) };
    if names.iter().any(|name| name.is_array() || name.is_object()) {
        return Err(BadPatch::Directive("$retainKeys".to_owned()));
    }
    let retained = |name: &str| names.iter().any(|other| other == name);
    let directive =
        |name: &str| name.starts_with("$deleteFromPrimitiveList") || name.starts_with("$setElementOrder");
    for (name, value) in &*patch {
        if !value.is_null() && !directive(name) && !retained(name) {
            return Err(BadPatch::NotRetained(name.clone()));
        }
    }
    original.retain(|name, _| retained(name));
    Ok(())
}

/// Merges each list that has a `$setElementOrder`, and removes both from the patch.
fn set_element_orders(original: &mut Fields, patch: &mut Fields, schema: Schema) -> Result<(), BadPatch> {
    let patch_keys: Vec<String> =
        patch.keys().filter(|patch_key| patch_key.starts_with("$setElementOrder")).cloned().collect();
    for patch_key in patch_keys {
        let Some(name) = directive_field("$setElementOrder", &patch_key)? else { continue };
        let Some(Value::Array(order)) = patch.remove(&patch_key) else {
            return Err(BadPatch::Directive(patch_key));
        };
        let list = schema.list(name)?;
        let take = |fields: &mut Fields| match fields.remove(name) {
            Some(Value::Array(entries)) => Ok(Some(entries)),
            Some(_) => Err(BadPatch::Field(name.to_owned())),
            None => Ok(None),
        };
        let (old, new) = (take(original)?, take(patch)?);
        if let Some(merged) = set_element_order(name, old, new, &order, &list)? {
            original.insert(name.to_owned(), merged.into());
        }
    }
    Ok(())
}

/// The field of a directive such as `$setElementOrder/containers`.
fn directive_field<'a>(directive: &str, patch_key: &'a str) -> Result<Option<&'a str>, BadPatch> {
    let Some(rest) = patch_key.strip_prefix(directive) else { return Ok(None) };
    rest.strip_prefix('/').map(Some).ok_or_else(|| BadPatch::Directive(patch_key.to_owned()))
}

/// A value without null fields in maps at any depth; nulls in lists are kept.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let non_null = fields.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(non_null.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(entries) => Value::Array(entries.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    }
}

/// A value without the maps in it that contain a `$patch`; `None` if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(fields) if fields.contains_key("$patch") => None,
        Value::Object(fields) => {
            let plain_fields =
                fields.into_iter().filter_map(|(name, value)| Some((name, without_directives(value)?)));
            Some(Value::Object(plain_fields.collect()))
        }
        Value::Array(entries) => {
            Some(Value::Array(entries.into_iter().filter_map(without_directives).collect()))
        }
        scalar => Some(scalar),
    }
}

/// The types that Go distinguishes in JSON: numbers have two.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonType {
    Null,
    Bool,
    Integer,
    Float,
    String,
    List,
    Map,
}

impl JsonType {
    fn of(value: &Value) -> JsonType {
        match value {
            Value::Null => JsonType::Null,
            Value::Bool(_) => JsonType::Bool,
            Value::Number(number) if number.is_i64() => JsonType::Integer,
            Value::Number(_) => JsonType::Float,
            Value::String(_) => JsonType::String,
            Value::Array(_) => JsonType::List,
            Value::Object(_) => JsonType::Map,
        }
    }
}
