//! The patch that leads from one version of an object to another.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};

use super::{Fields, JsonType, ListField, Schema};

/// The patch with which [`merge_map`](super::merge_map) turns `from` into `to`. `None` if no patch of fields does:
/// then the parent must replace this map.
pub(super) fn diff_map(from: &Fields, to: &Fields, schema: Schema) -> Option<Fields> {
    let mut patch = Fields::new();
    for (name, new) in to {
        let old = from.get(name);
        if old == Some(new) {
            continue;
        }
        if name.starts_with('$') {
            return None;
        }
        match (old, new) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let field = schema.single(name).ok()?;
                let value =
                    if field.replaced { new.clone() } else { diff_or_replace(old, new, field.schema)? };
                patch.insert(name.clone(), value.into());
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                diff_list(name, old, new, &schema.list(name).ok()?, &mut patch)?;
            }
            _ if can_be_added(new) => drop(patch.insert(name.clone(), new.clone())),
            _ => return None,
        }
    }
    for name in from.keys().filter(|name| !to.contains_key(*name)) {
        if name.starts_with('$') {
            return None;
        }
        patch.insert(name.clone(), Value::Null);
    }
    Some(patch)
}

/// The patch of an existing map; one that replaces it if there is no other.
pub(super) fn diff_or_replace(from: &Fields, to: &Fields, schema: Schema) -> Option<Fields> {
    diff_map(from, to, schema).or_else(|| {
        let mut patch = to.clone();
        let unheard_of = patch.insert("$patch".to_owned(), "replace".into()).is_none();
        unheard_of.then_some(patch)
    })
}

/// Adds the patch of a list to `patch`, with its directives.
fn diff_list(name: &str, from: &[Value], to: &[Value], list: &ListField, patch: &mut Fields) -> Option<()> {
    if !list.merged {
        patch.insert(name.to_owned(), to.into());
        return Some(());
    }
    let Some(key) = list.key else { return diff_scalars(name, from, to, patch) };
    let changed = match diff_entries(from, to, key, list.schema) {
        Some(changed) => changed,
        // Duplicate or inexpressible entries: the whole list is replaced.
        None => {
            let plain =
                |entry: &Value| entry.get(key).is_some_and(is_scalar) && entry.get("$patch").is_none();
            if !from.iter().all(Value::is_object) || !to.iter().all(plain) || !has_adjacent_keys(to, key) {
                return None;
            }
            let replacing = std::iter::once(json!({"$patch": "replace"})).chain(to.iter().cloned());
            patch.insert(name.to_owned(), replacing.collect());
            return Some(());
        }
    };
    if !from.is_empty() && !to.is_empty() {
        let order = to.iter().map(|entry| json!({ key: entry[key] })).collect();
        patch.insert(format!("$setElementOrder/{name}"), order);
    }
    if !changed.is_empty() {
        patch.insert(name.to_owned(), changed.into());
    }
    Some(())
}

/// Whether entries with equal keys are adjacent: Go's code moves them together when a list is replaced.
fn has_adjacent_keys(list: &[Value], key: &str) -> bool {
    let mut runs: Vec<&Value> = list.iter().map(|entry| &entry[key]).collect();
    runs.dedup();
    let mut seen = HashSet::with_capacity(runs.len());
    runs.into_iter().all(|name| seen.insert(name.to_string()))
}

/// The new or changed entries, in the new order, then those to delete. `None` if the key does not identify all
/// entries of a list, or one of them cannot be patched.
fn diff_entries(from: &[Value], to: &[Value], key: &str, schema: Schema) -> Option<Vec<Value>> {
    let (old, new) = (index_by_key(from, Some(key))?, index_by_key(to, Some(key))?);
    let mut changed = Vec::new();
    for entry in to {
        let Some(index) = old.get(&entry[key].to_string()) else {
            if entry.get("$patch").is_some() {
                return None;
            }
            changed.push(entry.clone());
            continue;
        };
        let (Value::Object(before), Value::Object(after)) = (&from[*index], entry) else { return None };
        let mut patch = diff_map(before, after, schema)?;
        if !patch.is_empty() {
            patch.insert(key.to_owned(), entry[key].clone());
            changed.push(patch.into());
        }
    }
    let removed = from.iter().filter(|entry| !new.contains_key(&entry[key].to_string()));
    changed.extend(removed.map(|entry| json!({ key: entry[key], "$patch": "delete" })));
    Some(changed)
}

fn diff_scalars(name: &str, from: &[Value], to: &[Value], patch: &mut Fields) -> Option<()> {
    let (old, new) = (index_by_key(from, None)?, index_by_key(to, None)?);
    let mut types = from.iter().chain(to).map(JsonType::of);
    let first = types.next()?;
    if !types.all(|other| other == first) {
        return None;
    }
    let missing = |list: &[Value], present: &HashMap<String, usize>| -> Vec<Value> {
        list.iter().filter(|scalar| !present.contains_key(&scalar.to_string())).cloned().collect()
    };
    let (added, removed) = (missing(to, &old), missing(from, &new));
    if !added.is_empty() {
        patch.insert(name.to_owned(), added.into());
    }
    if !removed.is_empty() {
        patch.insert(format!("$deleteFromPrimitiveList/{name}"), removed.into());
    }
    if !from.is_empty() && !to.is_empty() {
        patch.insert(format!("$setElementOrder/{name}"), to.into());
    }
    Some(())
}

/// The index of each entry of a list, by its key or by itself. `None` unless scalars identify all of them.
fn index_by_key(list: &[Value], key: Option<&str>) -> Option<HashMap<String, usize>> {
    let mut indexes = HashMap::with_capacity(list.len());
    for (index, entry) in list.iter().enumerate() {
        let name = match key {
            Some(key) => entry.get(key)?,
            None => entry,
        };
        if !is_scalar(name) || indexes.insert(name.to_string(), index).is_some() {
            return None;
        }
    }
    Some(indexes)
}

fn is_scalar(value: &Value) -> bool {
    !value.is_null() && !value.is_array() && !value.is_object()
}

/// Whether a new value is merged unchanged: a merge drops nulls in maps, and maps with a `$patch`.
fn can_be_added(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => !fields.contains_key("$patch") && fields.values().all(can_be_added),
        Value::Array(entries) => entries.iter().all(|entry| entry.is_null() || can_be_added(entry)),
        _ => true,
    }
}
