//! List merging: matching of entries, and their order afterwards.

use serde_json::Value;

use super::{BadPatch, JsonType, ListField, merge_map, without_directives};

/// Merges two lists entry by entry, or deletes the patch's scalars from the original.
pub(super) fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    list: &ListField,
    deletes: bool,
) -> Result<Vec<Value>, BadPatch> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if entry_type(&original, &patch)? == JsonType::Map {
        let key = list.key.ok_or(BadPatch::Entries)?;
        return merge_entries(original, patch, key, list);
    }
    if deletes {
        return Ok(original.into_iter().filter(|scalar| !patch.contains(scalar)).collect());
    }
    if let Some(key) = list.key {
        return Err(BadPatch::NoKey(key.to_owned()));
    }
    let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
    for scalar in original.iter().chain(&patch) {
        if !merged.contains(scalar) {
            merged.push(scalar.clone());
        }
    }
    normalize_element_order(merged, &names(&patch, None)?, &names(&original, None)?, None)
}

/// Merges a list that has a `$setElementOrder`. `None` if neither side has the list.
pub(super) fn set_element_order(
    name: &str,
    original: Option<Vec<Value>>,
    patch: Option<Vec<Value>>,
    order: &[Value],
    list: &ListField,
) -> Result<Option<Vec<Value>>, BadPatch> {
    check_order(name, patch.as_deref().unwrap_or_default(), order, list.key)?;
    let old = original.clone().unwrap_or_default();
    let new = patch.clone().unwrap_or_default();
    let merged = match (original, patch) {
        (None, None) => return Ok(None),
        (Some(original), None) => original,
        (None, Some(patch)) => patch.into_iter().filter_map(without_directives).collect(),
        (Some(original), Some(patch)) if list.merged => merge_list(original, patch, list, false)?,
        (Some(_), Some(patch)) => patch,
    };
    let entries = entry_type(&old, &new)?;
    if merged.is_empty() && old.is_empty() && order.is_empty() {
        return Ok(Some(merged));
    }
    if (entries == JsonType::Map) != list.key.is_some() {
        return Err(BadPatch::Entries);
    }
    let live = match list.key {
        Some(key) => live_order(&old, &new, key)?,
        None => names(&old, None)?,
    };
    normalize_element_order(merged, &names(order, list.key)?, &live, list.key).map(Some)
}

/// Merges lists of maps whose entries are matched by `key`.
fn merge_entries(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    list: &ListField,
) -> Result<Vec<Value>, BadPatch> {
    let mut entries = Vec::with_capacity(patch.len());
    let mut replace = false;
    for entry in patch {
        match entry.get("$patch") {
            None => entries.push(entry),
            Some(directive) if directive == "delete" => {
                let deleted_name = name_of(&entry, Some(key))?;
                while let Some(index) = find(&original, deleted_name, key)? {
                    original.remove(index);
                }
            }
            Some(directive) if directive == "replace" => replace = true,
            Some(directive) => return Err(BadPatch::Directive(format!("$patch: {directive}"))),
        }
    }
    if replace {
        names(&entries, Some(key))?;
        return Ok(entries);
    }
    let mut merged = original.clone();
    for entry in &entries {
        match find(&merged, name_of(entry, Some(key))?, key)? {
            Some(index) => {
                let (Value::Object(old), Value::Object(new)) = (merged[index].take(), entry.clone()) else {
                    return Err(BadPatch::Entries);
                };
                merged[index] = merge_map(old, new, list.schema)?.into();
            }
            None => merged.push(entry.clone()),
        }
    }
    normalize_element_order(merged, &names(&entries, Some(key))?, &names(&original, Some(key))?, Some(key))
}

/// Checks that the patch's entries are in the requested order: each is listed there, in the same sequence.
///
/// Entries to delete need not be listed. One with `$patch: replace` need not either, but must not come after the last
/// listed one: Go's code ends its search there.
fn check_order(name: &str, patch: &[Value], order: &[Value], key: Option<&str>) -> Result<(), BadPatch> {
    if patch.is_empty() || order.is_empty() {
        return Ok(());
    }
    if key.is_some() && !patch.iter().all(Value::is_object) {
        return Err(BadPatch::Entries);
    }
    let mut entries =
        patch.iter().filter(|entry| key.is_none() || !has_directive(entry, "delete")).peekable();
    for next in order {
        while entries.next_if(|entry| entry.get("$patch").is_some()).is_some() {}
        let Some(entry) = entries.peek() else { return Ok(()) };
        if scalars_equal(name_of(entry, key)?, name_of(next, key)?)? {
            entries.next();
        }
    }
    if entries.peek().is_some() { Err(BadPatch::Order(name.to_owned())) } else { Ok(()) }
}

/// The order of the live list as Go's code sees it after the merge, on which its result depends.
///
/// Its slice of the live list keeps its length, but deleting an entry has moved the following ones forward, and new
/// entries have taken the freed space at its end.
fn live_order<'a>(original: &'a [Value], patch: &'a [Value], key: &str) -> Result<Vec<&'a Value>, BadPatch> {
    let mut slots = names(original, Some(key))?;
    let mut used = slots.len();
    let position = |slots: &[&Value], name: &Value| slots.iter().position(|other| *other == name);
    for entry in patch.iter().filter(|entry| has_directive(entry, "delete")) {
        let deleted_name = name_of(entry, Some(key))?;
        while let Some(index) = position(&slots[..used], deleted_name) {
            slots.copy_within(index + 1..used, index);
            used -= 1;
        }
    }
    let replaced = patch.iter().any(|entry| has_directive(entry, "replace"));
    for entry in patch.iter().filter(|entry| !replaced && entry.get("$patch").is_none()) {
        let name = name_of(entry, Some(key))?;
        if position(&slots[..used], name).is_none() {
            match slots.get_mut(used) {
                Some(slot) => *slot = name,
                None => slots.push(name),
            }
            used += 1;
        }
    }
    slots.truncate(original.len());
    Ok(slots)
}

/// Orders a merged list: entries listed in `element_order` are in its order, the others in that of the live list, each
/// before the first wanted entry that follows it there.
fn normalize_element_order(
    merged: Vec<Value>,
    element_order: &[&Value],
    live: &[&Value],
    key: Option<&str>,
) -> Result<Vec<Value>, BadPatch> {
    let (mut ordered_entries, mut others) = (Vec::new(), Vec::new());
    for entry in merged {
        let name = name_of(&entry, key)?;
        let in_live = position(live, name)?;
        match position(element_order, name)? {
            Some(order_index) => ordered_entries.push((Some(order_index), in_live, entry)),
            None => others.push((in_live, in_live, entry)),
        }
    }
    let (ordered_entries, mut others) =
        (sort_by_index(ordered_entries), sort_by_index(others).into_iter().peekable());
    let mut ordered = Vec::with_capacity(ordered_entries.len() + others.len());
    for (order_index, entry) in ordered_entries {
        let before = |other: &Option<usize>| matches!((other, order_index), (Some(other), Some(order_index)) if *other < order_index);
        while let Some((_, other)) = others.next_if(|(other, _)| before(other)) {
            ordered.push(other);
        }
        ordered.push(entry);
    }
    ordered.extend(others.map(|(_, entry)| entry));
    Ok(ordered)
}

/// Sorts by the first of the two indexes, keeping the second and the entry.
///
/// Entries without an index occur only with an empty `$setElementOrder` beside new entries. Go's comparison then
/// always returns "before", and its insertion sort moves such an entry to the front (lists of more than twenty are
/// sorted in blocks, which is not reproduced here).
fn sort_by_index(mut entries: Vec<(Option<usize>, Option<usize>, Value)>) -> Vec<(Option<usize>, Value)> {
    if entries.iter().all(|(index, _, _)| index.is_some()) {
        entries.sort_by_key(|(index, _, _)| *index);
    } else {
        for last in 1..entries.len() {
            let mut at = last;
            while at > 0 && entries[at].0.zip(entries[at - 1].0).is_none_or(|(this, before)| this < before) {
                entries.swap(at, at - 1);
                at -= 1;
            }
        }
    }
    entries.into_iter().map(|(_, live, entry)| (live, entry)).collect()
}

/// The common type of all entries.
fn entry_type(original: &[Value], patch: &[Value]) -> Result<JsonType, BadPatch> {
    let mut types = original.iter().chain(patch).map(JsonType::of);
    let first = types.next().ok_or(BadPatch::Entries)?;
    let is_uniform = !matches!(first, JsonType::Null | JsonType::List) && types.all(|other| other == first);
    if is_uniform { Ok(first) } else { Err(BadPatch::Entries) }
}

fn find(entries: &[Value], name: &Value, key: &str) -> Result<Option<usize>, BadPatch> {
    for (index, entry) in entries.iter().enumerate() {
        if let Some(other) = entry.get(key)
            && scalars_equal(other, name)?
        {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

fn position(names: &[&Value], name: &Value) -> Result<Option<usize>, BadPatch> {
    for (index, other) in names.iter().enumerate() {
        if scalars_equal(other, name)? {
            return Ok(Some(index));
        }
    }
    Ok(None)
}

fn names<'a>(entries: &'a [Value], key: Option<&str>) -> Result<Vec<&'a Value>, BadPatch> {
    entries.iter().map(|entry| name_of(entry, key)).collect()
}

/// The value by which an entry is matched: its merge key's value, or a scalar itself.
fn name_of<'a>(entry: &'a Value, key: Option<&str>) -> Result<&'a Value, BadPatch> {
    match key {
        Some(key) => entry.get(key).ok_or_else(|| BadPatch::NoKey(key.to_owned())),
        None if entry.is_array() || entry.is_object() => Err(BadPatch::Entries),
        None => Ok(entry),
    }
}

fn has_directive(entry: &Value, directive: &str) -> bool {
    entry.get("$patch").is_some_and(|value| value == directive)
}

/// Equality of scalars. Go cannot compare maps with maps or lists with lists.
fn scalars_equal(a: &Value, b: &Value) -> Result<bool, BadPatch> {
    match (a, b) {
        (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => Err(BadPatch::Entries),
        _ => Ok(a == b),
    }
}
