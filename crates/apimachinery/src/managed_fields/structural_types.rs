//! Structural schemas as types of merged values, as an API server converts the schemas of custom resources.

use std::borrow::Cow;

use serde_json::Value;

use super::merge_schema::{CustomType, ListAtom, ListRelationship, Scalar, TypeRef};
use crate::structural::{AdditionalProperties, ListType, MapType, Structural, ValueType};

impl CustomType for Structural {
    fn scalar(&self) -> Option<Scalar> {
        match self.value_type() {
            // It may be anything.
            None => Some(Scalar::Untyped),
            Some(ValueType::String) => match self.format() {
                "" | "byte" => Some(Scalar::String),
                _ => Some(Scalar::Untyped),
            },
            Some(ValueType::Integer | ValueType::Number) => Some(Scalar::Numeric),
            Some(ValueType::Boolean) => Some(Scalar::Boolean),
            Some(ValueType::Object | ValueType::Array) => None,
        }
    }

    fn list(&self) -> Option<ListAtom<'_>> {
        if !matches!(self.value_type(), None | Some(ValueType::Array)) {
            return None;
        }
        let relationship = match self.list_type() {
            None | Some(ListType::Atomic) => ListRelationship::Atomic,
            Some(ListType::Set) => ListRelationship::Set,
            Some(ListType::Map) => {
                let keys: Vec<&str> = self.list_map_keys().iter().map(String::as_str).collect();
                ListRelationship::Keys(Cow::Owned(keys))
            }
        };
        let element = self.items().map_or_else(TypeRef::untyped, |items| TypeRef::custom(items));
        Some(ListAtom { relationship, element })
    }

    fn map(&self) -> Option<(bool, Option<TypeRef<'_>>)> {
        if !matches!(self.value_type(), None | Some(ValueType::Object)) {
            return None;
        }
        let element = match self.additional_properties() {
            Some(AdditionalProperties::Schema(schema)) => Some(TypeRef::custom(&**schema)),
            Some(AdditionalProperties::Allowed(is_allowed)) => is_allowed.then(TypeRef::deduced),
            // Without fields a map may have any; embedded resources have fields.
            None => {
                let has_fields = self.is_embedded_resource() || self.properties().next().is_some();
                (!has_fields || self.is_in_unknown_fields()).then(TypeRef::deduced)
            }
        };
        Some((self.map_type() == Some(MapType::Atomic), element))
    }

    fn field(&self, name: &str) -> Option<TypeRef<'_>> {
        if self.is_embedded_resource()
            && let Some(of_every_resource) = TypeRef::of_resource_field(name)
        {
            return Some(of_every_resource);
        }
        self.property(name).map(|property| TypeRef::custom(property))
    }

    fn default(&self, name: &str) -> Option<Value> {
        self.property(name)?.default_value().cloned()
    }
}
