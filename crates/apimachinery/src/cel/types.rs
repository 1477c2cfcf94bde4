//! The types of expressions, and the unification of the types of arguments with those of parameters.
//!
//! Assignability is that of cel-go: `dyn` fits everything, null fits objects, durations and optional values.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The type of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CelType {
    /// Known when it is evaluated.
    Dyn,
    /// That of an expression with an error, which fits everything.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<CelType>),
    Map(Arc<CelType>, Arc<CelType>),
    /// That of types, by the type they are.
    Meta(Option<Arc<CelType>>),
    /// `optional_type(T)`
    Optional(Arc<CelType>),
    Object(Arc<ObjectType>),
    /// A parameter of an overload, or a variable that is not bound yet.
    Variable(u32),
}

/// A type with named fields; two of one name are the same.
#[derive(Debug)]
pub(super) struct ObjectType {
    pub(super) name: String,
    pub(super) fields: BTreeMap<String, CelType>,
}

/// What the variables of types stand for.
#[derive(Clone, Debug, Default)]
pub(super) struct Bindings {
    bound: BTreeMap<u32, CelType>,
}

/// Variables below are parameters of overloads.
pub(super) const FIRST_FREE_VARIABLE: u32 = 32;

// === impl CelType ===

impl CelType {
    pub(super) fn list(item: CelType) -> CelType {
        CelType::List(Arc::new(item))
    }

    pub(super) fn map(key: CelType, value: CelType) -> CelType {
        CelType::Map(Arc::new(key), Arc::new(value))
    }

    pub(super) fn optional(value: CelType) -> CelType {
        CelType::Optional(Arc::new(value))
    }

    /// A type without fields.
    pub(super) fn named(name: &str) -> CelType {
        CelType::Object(Arc::new(ObjectType { name: name.to_owned(), fields: BTreeMap::new() }))
    }

    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, CelType::Dyn | CelType::Error)
    }

    /// The value's type if it is optional, and whether it is.
    pub(super) fn unwrap_optional(&self) -> (&CelType, bool) {
        match self {
            CelType::Optional(inner) => (inner, true),
            other => (other, false),
        }
    }

    fn is_nullable(&self) -> bool {
        matches!(
            self,
            CelType::Null
                | CelType::Optional(_)
                | CelType::Object(_)
                | CelType::Duration
                | CelType::Timestamp
        )
    }

    /// Whether it is equal to the other type, or matches it with `dyn` in some place.
    fn is_equal_or_less_specific(&self, other: &CelType) -> bool {
        match (self, other) {
            (CelType::Dyn | CelType::Variable(_), _) => true,
            (_, CelType::Dyn | CelType::Variable(_)) => false,
            (CelType::Optional(one), CelType::Optional(other))
            | (CelType::List(one), CelType::List(other)) => one.is_equal_or_less_specific(other),
            (CelType::Map(key, value), CelType::Map(other_key, other_value)) => {
                key.is_equal_or_less_specific(other_key) && value.is_equal_or_less_specific(other_value)
            }
            (CelType::Meta(_), CelType::Meta(_)) => true,
            (one, other) => one == other,
        }
    }

    /// Of two types that fit each other, the one that fits more.
    pub(super) fn most_general(self, other: CelType) -> CelType {
        if self.is_equal_or_less_specific(&other) { self } else { other }
    }

    /// The type with its parameters replaced by free variables: that of number `n` by `first + n`.
    pub(super) fn instantiate(&self, first: u32) -> CelType {
        self.replace(&|variable| CelType::Variable(first + variable))
    }

    fn replace(&self, with: &dyn Fn(u32) -> CelType) -> CelType {
        match self {
            CelType::Variable(variable) => with(*variable),
            CelType::List(item) => CelType::list(item.replace(with)),
            CelType::Map(key, value) => CelType::map(key.replace(with), value.replace(with)),
            CelType::Optional(value) => CelType::optional(value.replace(with)),
            CelType::Meta(Some(inner)) => CelType::Meta(Some(Arc::new(inner.replace(with)))),
            other => other.clone(),
        }
    }
}

impl fmt::Display for CelType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CelType::Dyn => "dyn",
            CelType::Error => "!error!",
            CelType::Null => "null",
            CelType::Bool => "bool",
            CelType::Int => "int",
            CelType::Uint => "uint",
            CelType::Double => "double",
            CelType::String => "string",
            CelType::Bytes => "bytes",
            CelType::Duration => "duration",
            CelType::Timestamp => "timestamp",
            CelType::List(item) => return write!(f, "list({item})"),
            CelType::Map(key, value) => return write!(f, "map({key}, {value})"),
            CelType::Meta(Some(inner)) => return write!(f, "type({inner})"),
            CelType::Meta(None) => "type",
            CelType::Optional(value) => return write!(f, "optional_type({value})"),
            CelType::Object(object) => &object.name,
            CelType::Variable(variable) => return write!(f, "_var{}", variable - FIRST_FREE_VARIABLE),
        })
    }
}

// === impl ObjectType ===

impl PartialEq for ObjectType {
    fn eq(&self, other: &ObjectType) -> bool {
        self.name == other.name
    }
}

// === impl Bindings ===

impl Bindings {
    /// Whether a value of the second type fits the first, or the other way round; binds variables if so.
    pub(super) fn unify(&mut self, one: &CelType, other: &CelType) -> bool {
        self.unify_all(&[(one, other)])
    }

    /// Whether all pairs fit; binds variables only if so.
    pub(super) fn unify_all(&mut self, pairs: &[(&CelType, &CelType)]) -> bool {
        let mut bindings = self.clone();
        let fits = pairs.iter().all(|(one, other)| bindings.fits(one, other));
        if fits {
            *self = bindings;
        }
        fits
    }

    fn fits(&mut self, one: &CelType, other: &CelType) -> bool {
        if let CelType::Variable(variable) = other {
            match self.substitute_variable(*variable, one) {
                (true, _) => return true,
                (false, true) => return false,
                (false, false) => {}
            }
        }
        if let CelType::Variable(variable) = one {
            return self.substitute_variable(*variable, other).0;
        }
        if one.is_dyn_or_error() || other.is_dyn_or_error() {
            return true;
        }
        match (one, other) {
            (CelType::Null, found) | (found, CelType::Null) => found.is_nullable(),
            (CelType::Meta(_), CelType::Meta(_)) => true,
            (CelType::List(one), CelType::List(other))
            | (CelType::Optional(one), CelType::Optional(other)) => self.fits(one, other),
            (CelType::Map(key, value), CelType::Map(other_key, other_value)) => {
                self.fits(key, other_key) && self.fits(value, other_value)
            }
            (one, other) => one == other,
        }
    }

    /// Whether the type can stand for the variable, and whether the variable was bound.
    fn substitute_variable(&mut self, variable: u32, found: &CelType) -> (bool, bool) {
        if *found == CelType::Variable(variable) {
            return (true, true);
        }
        if let Some(bound) = self.bound.get(&variable).cloned() {
            if *found == bound {
                return (true, true);
            }
            if self.fits(found, &bound) {
                let general = found.clone().most_general(bound);
                if self.is_free_of(variable, &general) {
                    self.bound.insert(variable, general);
                }
                return (true, true);
            }
            return (false, true);
        }
        if self.is_free_of(variable, found) {
            self.bound.insert(variable, found.clone());
            return (true, false);
        }
        (false, false)
    }

    /// Whether a variable does not occur in a type.
    fn is_free_of(&self, variable: u32, within: &CelType) -> bool {
        match within {
            CelType::Variable(other) if *other == variable => false,
            CelType::Variable(other) => {
                self.bound.get(other).is_none_or(|bound| self.is_free_of(variable, bound))
            }
            CelType::List(inner) | CelType::Optional(inner) | CelType::Meta(Some(inner)) => {
                self.is_free_of(variable, inner)
            }
            CelType::Map(key, value) => self.is_free_of(variable, key) && self.is_free_of(variable, value),
            _ => true,
        }
    }

    /// The type with its bound variables replaced.
    pub(super) fn resolve(&self, unresolved: &CelType) -> CelType {
        unresolved.replace(&|variable| match self.bound.get(&variable) {
            Some(bound) => self.resolve(bound),
            None => CelType::Variable(variable),
        })
    }

    /// The type with its bound variables replaced, and others by `dyn`.
    pub(super) fn resolve_to_dyn(&self, unresolved: &CelType) -> CelType {
        self.resolve(unresolved).replace(&|_| CelType::Dyn)
    }
}
