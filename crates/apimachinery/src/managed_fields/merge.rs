//! The merge of an applied configuration into an object, and the removal of fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::field_set::FieldSet;
use super::merge_schema::{Atom, ListAtom, MapAtom, Shape, TypeRef};
use super::path_element::PathElement;

/// An object with the fields of a configuration of the same type. Both must have been validated.
pub(super) fn merge(type_: TypeRef<'_>, object: &Value, config: &Value) -> Value {
    merge_values(type_, Some(object), Some(config)).unwrap_or_default()
}

/// A value without these fields and list entries; null if nothing is left.
pub(super) fn remove(type_: TypeRef<'_>, value: &Value, removed: &FieldSet) -> Value {
    let atom = type_.resolve();
    match (atom.shape_of(Some(value)), &atom) {
        (Shape::Map, Atom { map: Some(map), .. }) => remove_fields(map, value, removed),
        (Shape::List, Atom { list: Some(list), .. }) => remove_entries(list, value, removed),
        _ => value.clone(),
    }
}

/// `None` if nothing is left of a map or list. Recursion follows the nesting, which the JSON parser bounds.
fn merge_values(type_: TypeRef<'_>, old: Option<&Value>, new: Option<&Value>) -> Option<Value> {
    let atom = type_.resolve();
    let shape = match new {
        Some(_) => atom.shape_of(new),
        None => atom.shape_of(old),
    };
    match (shape, &atom) {
        (Shape::Map, Atom { map: Some(map), .. }) if !map.is_atomic => {
            let (old, new) = (non_empty_fields(old), non_empty_fields(new));
            if old.is_some() || new.is_some() {
                return merge_maps(map, old, new);
            }
        }
        (Shape::List, Atom { list: Some(list), .. }) if !list.is_atomic() => {
            let (old, new) = (entries(old), entries(new));
            if !(old.is_empty() && new.is_empty()) {
                return merge_lists(list, old, new);
            }
        }
        _ => {}
    }
    new.or(old).cloned()
}

fn non_empty_fields(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object).filter(|fields| !fields.is_empty())
}

fn entries(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn merge_maps(
    map: &MapAtom<'_>,
    old: Option<&Map<String, Value>>,
    new: Option<&Map<String, Value>>,
) -> Option<Value> {
    let mut names: Vec<&String> = old.into_iter().chain(new).flat_map(Map::keys).collect();
    names.sort_unstable();
    names.dedup();
    let fields = names.into_iter().filter_map(|name| {
        let (old, new) = (old.and_then(|old| old.get(name)), new.and_then(|new| new.get(name)));
        let type_ = map.entry(name).unwrap_or(TypeRef::untyped());
        Some((name.clone(), merge_values(type_, old, new)?))
    });
    let fields: Map<String, Value> = fields.collect();
    (!fields.is_empty()).then_some(Value::Object(fields))
}

/// The merge of two lists. The entries of the new one are in their order; an entry that only the old one has stays
/// behind its old predecessor.
fn merge_lists(list: &ListAtom<'_>, old: &[Value], new: &[Value]) -> Option<Value> {
    let old = ListIndex::new(list, old);
    let new = ListIndex::new(list, new);
    // The entries of both lists, in the order of the new one.
    let mut shared = new.elements.iter().filter(|element| old.entries.contains_key(element)).peekable();
    let mut is_merged = vec![false; new.elements.len()];
    let (mut old_index, mut new_index) = (0, 0);
    let mut merged = Vec::with_capacity(old.elements.len().max(new.elements.len()));
    while old_index < old.elements.len() || new_index < new.elements.len() {
        if let Some(element) = old.elements.get(old_index) {
            let next = new.elements.get(new_index);
            if next == Some(element) {
                is_merged[new_index] = true;
                merged.extend(merge_values(list.element, old.get(element), new.get(element)));
                (old_index, new_index) = (old_index + 1, new_index + 1);
                shared.next();
                continue;
            }
            match new.positions.get(element) {
                // It is elsewhere in the new order.
                Some(_) if next.is_some() && shared.peek().is_some_and(|shared| *shared != element) => {
                    old_index += 1;
                    continue;
                }
                Some(position) if is_merged[*position] => old_index += 1,
                Some(_) => {}
                None => {
                    merged.extend(merge_values(list.element, Some(&old.list[old_index]), None));
                    old_index += 1;
                    continue;
                }
            }
        }
        if let Some(element) = new.elements.get(new_index) {
            is_merged[new_index] = true;
            merged.extend(merge_values(list.element, old.get(element), new.get(element)));
            new_index += 1;
            if shared.peek().is_some_and(|shared| *shared == element) {
                shared.next();
            }
        }
    }
    (!merged.is_empty()).then_some(Value::Array(merged))
}

/// A list with the path elements of its entries.
struct ListIndex<'v> {
    list: &'v [Value],
    elements: Vec<PathElement>,
    positions: BTreeMap<PathElement, usize>,
    /// Null for duplicates.
    entries: BTreeMap<PathElement, &'v Value>,
}

impl<'v> ListIndex<'v> {
    fn new(list: &ListAtom<'_>, entries: &'v [Value]) -> ListIndex<'v> {
        let mut index = ListIndex {
            list: entries,
            elements: Vec::with_capacity(entries.len()),
            positions: BTreeMap::new(),
            entries: BTreeMap::new(),
        };
        for (position, entry) in entries.iter().enumerate() {
            // Entries without a path element do not pass validation.
            let element = list.path_element(entry).unwrap_or(PathElement::Index(-1));
            index.positions.entry(element.clone()).or_insert(position);
            index.entries.entry(element.clone()).and_modify(|entry| *entry = &Value::Null).or_insert(entry);
            index.elements.push(element);
        }
        index
    }

    fn get(&self, element: &PathElement) -> Option<&'v Value> {
        self.entries.get(element).copied()
    }
}

fn remove_fields(map: &MapAtom<'_>, value: &Value, removed: &FieldSet) -> Value {
    let Some(fields) = value.as_object().filter(|fields| !map.is_atomic && !fields.is_empty()) else {
        return Value::Null;
    };
    let left = fields.iter().filter_map(|(name, value)| {
        let left = match removed.get(&PathElement::field(name)) {
            Some((true, _)) => return None,
            Some((false, children)) => remove(map.entry(name).unwrap_or(TypeRef::untyped()), value, children),
            None => value.clone(),
        };
        Some((name.clone(), left))
    });
    let left: Map<String, Value> = left.collect();
    if left.is_empty() { Value::Null } else { Value::Object(left) }
}

fn remove_entries(list: &ListAtom<'_>, value: &Value, removed: &FieldSet) -> Value {
    let Some(entries) = value.as_array().filter(|entries| !list.is_atomic() && !entries.is_empty()) else {
        return Value::Null;
    };
    let left = entries.iter().filter_map(|entry| {
        let found = list.path_element(entry).ok().and_then(|element| removed.get(&element));
        match found {
            Some((true, _)) => None,
            Some((false, children)) => Some(remove(list.element, entry, children)),
            None => Some(entry.clone()),
        }
    });
    let left: Vec<Value> = left.collect();
    if left.is_empty() { Value::Null } else { Value::Array(left) }
}
