//! Comparison of two versions of an object: the fields that were added, modified and removed.

use serde_json::Value;

use super::field_set::FieldSet;
use super::merge_schema::{Atom, ListAtom, MapAtom, Shape, TypeRef};
use super::path_element::{PathElement, are_equal};
use super::reset_fields::ResetFields;
use super::typed::indexed;

/// The differences of two versions of a value.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) removed: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) added: FieldSet,
}

/// What happened to a value itself, besides what happened to its parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    None,
    Added,
    Modified,
    Removed,
}

/// Compares two versions of an object.
pub(super) fn compare(type_: TypeRef<'_>, old: &Value, new: &Value) -> Comparison {
    let mut comparison = Comparison::default();
    comparison.compare(type_, Some(old), Some(new));
    comparison
}

// === impl Comparison ===

impl Comparison {
    pub(super) fn filter(&mut self, reset_fields: ResetFields) {
        for set in [&mut self.removed, &mut self.modified, &mut self.added] {
            *set = reset_fields.filter(std::mem::take(set));
        }
    }

    /// Adds the parts of a value that differ, and returns what happened to the value itself. Recursion follows the
    /// nesting, which the JSON parser bounds.
    fn compare(&mut self, type_: TypeRef<'_>, old: Option<&Value>, new: Option<&Value>) -> Change {
        let atom = type_.resolve();
        let (old_shape, new_shape) = (atom.shape_of(old), atom.shape_of(new));
        match (old, new) {
            (_, None) => self.compare_as(&atom, old_shape, old, new),
            (Some(_), Some(_)) if old_shape != new_shape => {
                let first = self.compare_as(&atom, old_shape, old, new);
                match self.compare_as(&atom, new_shape, old, new) {
                    Change::None => first,
                    second => second,
                }
            }
            (_, Some(_)) => self.compare_as(&atom, new_shape, old, new),
        }
    }

    fn compare_as(
        &mut self,
        atom: &Atom<'_>,
        shape: Shape,
        old: Option<&Value>,
        new: Option<&Value>,
    ) -> Change {
        match (shape, atom) {
            (Shape::Map, Atom { map: Some(map), .. }) => {
                let is_empty = |value: Option<&Value>| {
                    value.and_then(Value::as_object).is_none_or(serde_json::Map::is_empty)
                };
                if map.is_atomic || is_empty(old) && is_empty(new) {
                    return compare_leaf(old, new);
                }
                self.compare_maps(map, old, new);
            }
            (Shape::List, Atom { list: Some(list), .. }) => {
                let entries =
                    |value: Option<&'_ Value>| value.and_then(Value::as_array).is_none_or(Vec::is_empty);
                if list.is_atomic() || entries(old) && entries(new) {
                    return compare_leaf(old, new);
                }
                self.compare_lists(list, old, new);
            }
            _ => return compare_leaf(old, new),
        }
        match (old, new) {
            (None, _) => Change::Added,
            (_, None) => Change::Removed,
            _ => Change::None,
        }
    }

    fn compare_maps(&mut self, map: &MapAtom<'_>, old: Option<&Value>, new: Option<&Value>) {
        let mut old = old.and_then(Value::as_object).into_iter().flatten().peekable();
        let mut new = new.and_then(Value::as_object).into_iter().flatten().peekable();
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            let old = if order.is_le() { old.next() } else { None };
            let new = if order.is_ge() { new.next() } else { None };
            let Some((name, _)) = old.or(new) else { return };
            let type_ = map.entry(name).unwrap_or(TypeRef::untyped());
            let mut inner = Comparison::default();
            let change = inner.compare(type_, old.map(|(_, value)| value), new.map(|(_, value)| value));
            self.push(&[change], inner, || PathElement::field(name));
        }
    }

    fn compare_lists(&mut self, list: &ListAtom<'_>, old: Option<&Value>, new: Option<&Value>) {
        let old = indexed(list, old.and_then(Value::as_array).map_or(&[], Vec::as_slice));
        let new = indexed(list, new.and_then(Value::as_array).map_or(&[], Vec::as_slice));
        let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.cmp(new),
            };
            let old = if order.is_le() { old.next() } else { None };
            let new = if order.is_ge() { new.next() } else { None };
            let Some(element) = old.as_ref().or(new.as_ref()).map(|(element, _)| element.clone()) else {
                return;
            };
            let old = old.map(|(_, entries)| entries).unwrap_or_default();
            let new = new.map(|(_, entries)| entries).unwrap_or_default();
            let mut inner = Comparison::default();
            let changes = match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => {
                    vec![inner.compare(list.element, old.first().copied(), new.first().copied())]
                }
                // Duplicates are compared as a whole.
                ([_, _, ..], [_, _, ..]) => {
                    let is_equal =
                        old.len() == new.len() && old.iter().zip(&new).all(|(old, new)| are_equal(old, new));
                    vec![if is_equal { Change::None } else { Change::Modified }]
                }
                ([_, _, ..], [new]) => vec![Change::Removed, inner.compare(list.element, None, Some(new))],
                ([_, _, ..], []) => vec![Change::Removed],
                ([old], [_, _, ..]) => vec![Change::Added, inner.compare(list.element, Some(old), None)],
                ([], [_, _, ..]) => vec![Change::Added],
            };
            self.push(&changes, inner, || element.clone());
        }
    }

    /// Adds what happened to a part, whose path element is only made if it differs.
    fn push(&mut self, changes: &[Change], inner: Comparison, element: impl Fn() -> PathElement) {
        for (set, kind, children) in [
            (&mut self.removed, Change::Removed, inner.removed),
            (&mut self.modified, Change::Modified, inner.modified),
            (&mut self.added, Change::Added, inner.added),
        ] {
            let is_member = changes.contains(&kind);
            if is_member || !children.is_empty() {
                set.push(element(), is_member, children);
            }
        }
    }
}

fn compare_leaf(old: Option<&Value>, new: Option<&Value>) -> Change {
    match (old, new) {
        (None, _) => Change::Added,
        (_, None) => Change::Removed,
        (Some(old), Some(new)) if are_equal(old, new) => Change::None,
        _ => Change::Modified,
    }
}
