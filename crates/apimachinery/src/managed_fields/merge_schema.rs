//! The types of an object's parts, as far as they are merged: scalars, lists with keys, sets, and maps.

use std::borrow::Cow;

use kubernetes::go::text::quote;
use model::Kind;
use serde_json::{Map, Value};

use super::path_element::PathElement;
use crate::schema::{self, MergeType, Presence, StructId, Type};
use crate::structural::Structural;

/// The type of a value.
#[derive(Clone, Copy)]
pub struct TypeRef<'s>(Reference<'s>);

#[derive(Clone, Copy)]
enum Reference<'s> {
    /// A built-in type, and how the field of that type is merged.
    BuiltIn(&'static Type, &'static MergeType),
    Struct(StructId, &'static MergeType),
    Custom(&'s dyn CustomType),
    /// A custom resource. Its metadata has the built-in type; other fields without a schema are deduced.
    CustomObject(Option<&'s dyn CustomType>),
    /// Anything. Maps are merged.
    Deduced,
    /// Anything. Lists and maps are replaced as a whole.
    Untyped,
}

/// A part of the schema of a custom resource.
pub(super) trait CustomType: Sync {
    /// The type of a scalar; `None` if there cannot be one.
    fn scalar(&self) -> Option<Scalar>;
    /// The type of a list; `None` if there cannot be one.
    fn list(&self) -> Option<ListAtom<'_>>;
    /// Whether a map is replaced as a whole, and the type of its entries that are no fields, if there may be any; `None`
    /// if there cannot be a map.
    fn map(&self) -> Option<(bool, Option<TypeRef<'_>>)>;
    /// The type of a field of a map.
    fn field(&self, name: &str) -> Option<TypeRef<'_>>;
    /// The default of a field of a map.
    fn default(&self, name: &str) -> Option<Value>;
}

/// The types that a value may have.
pub(super) struct Atom<'s> {
    pub(super) map: Option<MapAtom<'s>>,
    pub(super) scalar: Option<Scalar>,
    pub(super) list: Option<ListAtom<'s>>,
}

/// The type of a scalar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scalar {
    /// An integer or a float.
    Numeric,
    /// A text.
    String,
    /// A boolean.
    Boolean,
    /// Any of them.
    Untyped,
}

/// The type of a list.
pub(super) struct ListAtom<'s> {
    /// How its entries are found.
    pub(super) relationship: ListRelationship<'s>,
    /// The type of the entries.
    pub(super) element: TypeRef<'s>,
}

/// How the entries of a list are found.
pub(super) enum ListRelationship<'s> {
    /// Not at all: the list is replaced as a whole.
    Atomic,
    /// By their value.
    Set,
    /// By the values of these fields.
    Keys(Cow<'s, [&'s str]>),
}

/// The type of a map or struct.
pub(super) struct MapAtom<'s> {
    /// Whether it is replaced as a whole.
    pub(super) is_atomic: bool,
    /// The type of entries that are not declared; `None` if there may be none.
    pub(super) element: Option<TypeRef<'s>>,
    fields: Fields<'s>,
}

/// The declared fields of a map.
#[derive(Clone, Copy)]
enum Fields<'s> {
    None,
    Struct(StructId),
    Custom(&'s dyn CustomType),
    CustomObject(Option<&'s dyn CustomType>),
}

/// What a value is merged as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Map,
    Scalar,
    List,
}

static DEFAULT: MergeType = MergeType::Default;
static TEXT: Type = Type::Text("string");

/// The object of a built-in kind as Go creates it, before any field is set.
pub(super) fn empty_object(kind: &Kind) -> Value {
    schema::type_of(kind).map_or_else(|| Map::new().into(), empty_struct)
}

fn empty_struct(id: StructId) -> Value {
    let fields = schema::get(id).fields.iter().filter_map(|field| {
        let value = match &field.type_ {
            Type::Struct(_) if field.presence == Presence::OmitZero => return None,
            Type::Struct(id) => empty_struct(*id),
            _ if field.presence != Presence::Always => return None,
            Type::Text(_) => "".into(),
            Type::Int32 | Type::Int64 | Type::Float | Type::IntOrString => 0.into(),
            Type::Bool => false.into(),
            Type::Quantity | Type::ResourceQuantity => "0".into(),
            Type::Time
            | Type::MicroTime
            | Type::Bytes
            | Type::Any
            | Type::Interface
            | Type::SchemaOrBool(_)
            | Type::SchemaOrArray(_)
            | Type::SchemaOrStrings(_)
            | Type::Pointer(_)
            | Type::List(_)
            | Type::Map(..) => Value::Null,
        };
        Some((field.name.to_owned(), value))
    });
    Value::Object(fields.collect())
}

// === impl TypeRef ===

impl<'s> TypeRef<'s> {
    /// The type of a kind's objects: of a built-in kind, or of a custom one with this schema.
    pub fn of_kind(kind: &Kind, custom: Option<&'s Structural>) -> TypeRef<'s> {
        let built_in = schema::type_of(kind).map(|id| Reference::Struct(id, &DEFAULT));
        let custom = custom.map(|schema| -> &dyn CustomType { schema });
        TypeRef(built_in.unwrap_or(Reference::CustomObject(custom)))
    }

    /// The type of a field that every resource has.
    pub(super) fn of_resource_field(name: &str) -> Option<TypeRef<'s>> {
        match name {
            "metadata" => schema::named("meta.ObjectMeta").map(|id| TypeRef(Reference::Struct(id, &DEFAULT))),
            "apiVersion" | "kind" => Some(TypeRef(Reference::BuiltIn(&TEXT, &DEFAULT))),
            _ => None,
        }
    }

    /// A type of a custom resource.
    pub(super) fn custom(custom: &'s dyn CustomType) -> TypeRef<'s> {
        TypeRef(Reference::Custom(custom))
    }

    /// The type of values of which nothing is known. Maps are merged, everything else is replaced as a whole.
    pub(super) fn deduced() -> TypeRef<'s> {
        TypeRef(Reference::Deduced)
    }

    /// The type of values of which nothing is known, and which are replaced as a whole.
    pub(super) fn untyped() -> TypeRef<'s> {
        TypeRef(Reference::Untyped)
    }

    /// Whether it is that of a built-in kind.
    pub(super) fn is_built_in(self) -> bool {
        matches!(self.0, Reference::Struct(..))
    }

    /// Whether it is that of [`TypeRef::deduced`].
    pub(super) fn is_deduced(self) -> bool {
        matches!(self.0, Reference::Deduced)
    }

    pub(super) fn resolve(self) -> Atom<'s> {
        match self.0 {
            Reference::BuiltIn(type_, merge_type) => resolve_built_in(type_, merge_type),
            Reference::Struct(id, merge_type) => Atom::map(struct_type(id, merge_type)),
            Reference::Custom(custom) => Atom {
                map: custom.map().map(|(is_atomic, element)| MapAtom {
                    is_atomic,
                    element,
                    fields: Fields::Custom(custom),
                }),
                scalar: custom.scalar(),
                list: custom.list(),
            },
            Reference::CustomObject(custom) => {
                let (is_atomic, element) =
                    custom.and_then(CustomType::map).unwrap_or((false, Some(TypeRef::deduced())));
                Atom::map(MapAtom { is_atomic, element, fields: Fields::CustomObject(custom) })
            }
            Reference::Deduced => Atom::any(TypeRef::deduced(), false),
            Reference::Untyped => Atom::any(TypeRef::untyped(), true),
        }
    }
}

fn struct_type<'s>(id: StructId, merge_type: &MergeType) -> MapAtom<'s> {
    let parsed = schema::get(id);
    let is_atomic = match merge_type {
        MergeType::Atomic => true,
        MergeType::Granular => false,
        MergeType::Default | MergeType::Set | MergeType::Map(_) => parsed.is_atomic,
    };
    let element = parsed.fields.is_empty().then(TypeRef::deduced);
    MapAtom { is_atomic, element, fields: Fields::Struct(id) }
}

fn resolve_built_in<'s>(type_: &'static Type, merge_type: &'static MergeType) -> Atom<'s> {
    match type_ {
        Type::Pointer(inner) => resolve_built_in(inner, merge_type),
        Type::Struct(id) => Atom::map(struct_type(*id, merge_type)),
        Type::List(element) => {
            let relationship = match merge_type {
                MergeType::Set => ListRelationship::Set,
                MergeType::Map(keys) => ListRelationship::Keys(Cow::Borrowed(keys)),
                MergeType::Default | MergeType::Atomic | MergeType::Granular => ListRelationship::Atomic,
            };
            let element = TypeRef(Reference::BuiltIn(element, &DEFAULT));
            Atom { map: None, scalar: None, list: Some(ListAtom { relationship, element }) }
        }
        Type::Map(_, element) => Atom::map(MapAtom {
            is_atomic: *merge_type == MergeType::Atomic,
            element: Some(TypeRef(Reference::BuiltIn(element, &DEFAULT))),
            fields: Fields::None,
        }),
        Type::Text(_) | Type::Bytes => Atom::scalar(Scalar::String),
        Type::Int32 | Type::Int64 | Type::Float => Atom::scalar(Scalar::Numeric),
        Type::Bool => Atom::scalar(Scalar::Boolean),
        Type::Quantity | Type::ResourceQuantity | Type::Time | Type::MicroTime => {
            Atom::scalar(Scalar::Untyped)
        }
        // Its schema has alternatives and no type of its own.
        Type::IntOrString => Atom::any(TypeRef::deduced(), false),
        Type::Any
        | Type::Interface
        | Type::SchemaOrBool(_)
        | Type::SchemaOrArray(_)
        | Type::SchemaOrStrings(_) => Atom::any(TypeRef::untyped(), true),
    }
}

// === impl Atom ===

impl<'s> Atom<'s> {
    fn map(map: MapAtom<'s>) -> Atom<'s> {
        Atom { map: Some(map), scalar: None, list: None }
    }

    fn scalar(scalar: Scalar) -> Atom<'s> {
        Atom { map: None, scalar: Some(scalar), list: None }
    }

    fn any(map_element: TypeRef<'s>, is_atomic: bool) -> Atom<'s> {
        Atom {
            map: Some(MapAtom { is_atomic, element: Some(map_element), fields: Fields::None }),
            scalar: Some(Scalar::Untyped),
            list: Some(ListAtom { relationship: ListRelationship::Atomic, element: TypeRef::untyped() }),
        }
    }

    /// What a value is merged as: by its own type if that is allowed, otherwise by the first one that is.
    pub(super) fn shape_of(&self, value: Option<&Value>) -> Shape {
        match value {
            Some(Value::Object(_)) if self.map.is_some() => Shape::Map,
            Some(Value::Array(_)) if self.list.is_some() => Shape::List,
            Some(Value::String(_) | Value::Number(_) | Value::Bool(_)) if self.scalar.is_some() => {
                Shape::Scalar
            }
            _ if self.map.is_some() => Shape::Map,
            _ if self.scalar.is_some() => Shape::Scalar,
            _ => Shape::List,
        }
    }
}

// === impl MapAtom ===

impl<'s> MapAtom<'s> {
    /// The type of a declared field.
    pub(super) fn field(&self, name: &str) -> Option<TypeRef<'s>> {
        match self.fields {
            Fields::None => None,
            Fields::Struct(id) => {
                let field = schema::get(id).field(name)?;
                Some(TypeRef(Reference::BuiltIn(&field.type_, &field.merge_type)))
            }
            Fields::Custom(custom) => custom.field(name),
            Fields::CustomObject(custom) => TypeRef::of_resource_field(name).or_else(|| custom?.field(name)),
        }
    }

    /// The type of an entry, declared or not.
    pub(super) fn entry(&self, name: &str) -> Option<TypeRef<'s>> {
        self.field(name).or(self.element)
    }

    /// The default of a declared field.
    fn default(&self, name: &str) -> Option<Value> {
        match self.fields {
            Fields::None => None,
            Fields::Struct(id) => schema::get(id).field(name)?.default(),
            Fields::Custom(custom) => custom.default(name),
            Fields::CustomObject(custom) => custom?.default(name),
        }
    }

    /// Whether it has no declared fields, and entries of any type.
    pub(super) fn is_deduced(&self) -> bool {
        let has_fields = match self.fields {
            Fields::None => false,
            Fields::Struct(id) => !schema::get(id).fields.is_empty(),
            Fields::Custom(_) | Fields::CustomObject(_) => true,
        };
        !has_fields && self.element.is_some_and(TypeRef::is_deduced)
    }
}

// === impl ListAtom ===

impl ListAtom<'_> {
    pub(super) fn is_atomic(&self) -> bool {
        matches!(self.relationship, ListRelationship::Atomic)
    }

    /// The path element of an entry, or why it has none.
    pub(super) fn path_element(&self, entry: &Value) -> Result<PathElement, String> {
        match &self.relationship {
            ListRelationship::Atomic => Err("invalid indexing of non-associative list".to_owned()),
            ListRelationship::Set => set_path_element(entry),
            ListRelationship::Keys(keys) => self.keyed_path_element(keys, entry),
        }
    }

    fn keyed_path_element(&self, keys: &[&str], entry: &Value) -> Result<PathElement, String> {
        let fields = match entry {
            Value::Object(fields) => fields,
            Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let element = self.element.resolve();
        let default = |key: &str| element.map.as_ref()?.default(key);
        let mut found: Vec<(Box<str>, Value)> = keys
            .iter()
            .filter_map(|key| Some(((*key).into(), fields.get(*key).cloned().or_else(|| default(key))?)))
            .collect();
        if found.is_empty() {
            let keys: Vec<String> = keys.iter().map(|key| quote(key)).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                 values for any key fields)",
                keys.join(" ")
            ));
        }
        found.sort_unstable_by(|left, right| left.0.cmp(&right.0));
        Ok(PathElement::Key(found))
    }
}

fn set_path_element(entry: &Value) -> Result<PathElement, String> {
    match entry {
        Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
        Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
        Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
        scalar => Ok(PathElement::Value(scalar.clone())),
    }
}
