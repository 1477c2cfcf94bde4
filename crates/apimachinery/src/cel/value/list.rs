//! Lists of values: items of JSON, which are read when they are used, or values of an expression.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value as Json;

use super::map::Key;
use super::{Outcome, Value};
use crate::cel::escaping::escape;
use crate::cel::schema::{CelSchema, ListForm};

/// A list. Its form decides when it equals another one.
#[derive(Clone, Debug)]
pub(in crate::cel) struct List<'v> {
    items: Items<'v>,
    form: &'v ListForm,
}

#[derive(Clone, Debug)]
enum Items<'v> {
    Json(&'v [Json], &'v CelSchema),
    Owned(Arc<Vec<Value<'v>>>),
}

/// The keys of an item of a list, as far as it has them.
type Identity = Vec<Option<Key>>;

static ATOMIC: ListForm = ListForm::Atomic;

// === impl List ===

impl<'v> List<'v> {
    pub(in crate::cel) fn new(items: Vec<Value<'v>>) -> List<'v> {
        List { items: Items::Owned(Arc::new(items)), form: &ATOMIC }
    }

    pub(super) fn of_json(items: &'v [Json], schema: &'v CelSchema, form: &'v ListForm) -> List<'v> {
        List { items: Items::Json(items, schema), form }
    }

    pub(super) fn is_json(&self) -> bool {
        matches!(self.items, Items::Json(..))
    }

    pub(in crate::cel) fn len(&self) -> usize {
        match &self.items {
            Items::Json(items, _) => items.len(),
            Items::Owned(items) => items.len(),
        }
    }

    /// An item; `None` if there are not as many.
    pub(in crate::cel) fn get(&self, index: usize) -> Option<Outcome<Value<'v>>> {
        match &self.items {
            Items::Json(items, schema) => items.get(index).map(|item| Value::read(item, schema)),
            Items::Owned(items) => items.get(index).cloned().map(Ok),
        }
    }

    pub(in crate::cel) fn iter(&self) -> impl Iterator<Item = Outcome<Value<'v>>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }

    pub(in crate::cel) fn to_vec(&self) -> Outcome<Vec<Value<'v>>> {
        self.iter().collect()
    }

    pub(in crate::cel) fn contains(&self, wanted: &Value<'v>) -> Outcome<bool> {
        let mut failure = None;
        for item in self.iter() {
            match item.and_then(|item| item.equals(wanted)) {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(found) => failure = failure.or(Some(found)),
            }
        }
        failure.map_or(Ok(false), Err)
    }

    /// Adds an item at the end, in place if nothing else refers to the list.
    pub(in crate::cel) fn push(&mut self, item: Value<'v>) -> Outcome<()> {
        if self.is_json() {
            self.items = Items::Owned(Arc::new(self.to_vec()?));
        }
        if let Items::Owned(items) = &mut self.items {
            Arc::make_mut(items).push(item);
        }
        Ok(())
    }

    /// Both lists after each other; sets and maps keep the place of equal items.
    pub(in crate::cel) fn concatenate(&self, other: &List<'v>) -> Outcome<List<'v>> {
        let mut items = self.to_vec()?;
        let added = other.to_vec()?;
        match self.form {
            ListForm::Atomic => items.extend(added),
            ListForm::Set | ListForm::Map(_) => {
                let mut index = self.index(&items)?;
                for item in added {
                    let key = self.identity(&item)?;
                    match index.get(&key) {
                        Some(position) if matches!(self.form, ListForm::Map(_)) => items[*position] = item,
                        Some(_) => {}
                        None => {
                            index.insert(key, items.len());
                            items.push(item);
                        }
                    }
                }
            }
        }
        Ok(List { items: Items::Owned(Arc::new(items)), form: self.form })
    }

    pub(super) fn equals(&self, other: &List<'v>) -> Outcome<bool> {
        if self.len() != other.len() {
            return Ok(false);
        }
        match self.form {
            ListForm::Atomic => {
                for (one, other) in self.iter().zip(other.iter()) {
                    if !one?.equals(&other?)? {
                        return Ok(false);
                    }
                }
            }
            ListForm::Set | ListForm::Map(_) => {
                let items = self.to_vec()?;
                let index = self.index(&items)?;
                for item in other.iter() {
                    let item = item?;
                    match index.get(&self.identity(&item)?) {
                        Some(position) if items[*position].equals(&item)? => {}
                        _ => return Ok(false),
                    }
                }
            }
        }
        Ok(true)
    }

    /// The positions of items by what identifies them.
    fn index(&self, items: &[Value<'v>]) -> Outcome<BTreeMap<Identity, usize>> {
        let entries = items.iter().enumerate();
        entries.map(|(position, item)| Ok((self.identity(item)?, position))).collect()
    }

    /// What identifies an item of a set or a map.
    fn identity(&self, item: &Value<'v>) -> Outcome<Identity> {
        let ListForm::Map(keys) = self.form else { return Ok(vec![Some(item.to_identity())]) };
        let Value::Map(fields) = item else { return Ok(Vec::new()) };
        let field = |key: &String| fields.field(&escape(key).unwrap_or_else(|| key.clone()));
        keys.iter().map(|key| Ok(field(key)?.map(|value| value.to_identity()))).collect()
    }
}
