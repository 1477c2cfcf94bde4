//! The effects of a write on the managers of an object: fields that they gain and lose, and conflicts.

use serde_json::Value;

use super::compare::compare;
use super::field_set::FieldSet;
use super::managers::{ManagedSet, ManagerId, Managers};
use super::merge::{merge, remove};
use super::merge_schema::TypeRef;
use super::path_element::are_equal;
use super::reset_fields::ResetFields;
use super::typed::field_set;

/// The rules for objects of one type.
#[derive(Clone, Copy)]
pub(super) struct Updater<'a> {
    pub(super) type_: TypeRef<'a>,
    pub(super) api_version: &'a str,
    /// Whether the kind is built in. The versions of a custom one differ in nothing but their name.
    pub(super) is_built_in: bool,
    pub(super) reset_fields: ResetFields,
}

/// Fields that an applied configuration would change and others manage.
#[derive(Debug)]
pub(super) struct Conflicts(pub(super) Vec<(ManagerId, FieldSet)>);

// === impl Updater ===

impl Updater<'_> {
    /// The fields that an update changes, for its manager. The others lose them.
    pub(super) fn update(&self, live: &Value, new: &Value, managers: &mut Managers) -> FieldSet {
        self.reconcile(managers);
        let mut comparison = compare(self.type_, live, new);
        comparison.filter(self.reset_fields);
        let changed = comparison.modified.union(comparison.added);
        for set in managers.0.values_mut() {
            set.lose(&changed, &comparison.removed);
        }
        managers.0.retain(|_, set| !set.fields.is_empty());
        changed
    }

    /// Merges a configuration into an object for a manager. `None` if that changes nothing.
    pub(super) fn apply(
        &self,
        live: &Value,
        config: &Value,
        managers: &mut Managers,
        manager: &ManagerId,
        force: bool,
    ) -> Result<Option<Value>, Conflicts> {
        self.reconcile(managers);
        let mut new = merge(self.type_, live, config);
        let fields = self.reset_fields.filter(field_set(self.type_, config));
        let time = managers.0.get(manager).and_then(|last| last.time.clone());
        let api_version = self.api_version.to_owned();
        let applied = ManagedSet { fields, api_version, is_applied: true, time };
        let last = managers.0.insert(manager.clone(), applied);
        if let Some(last) = last.filter(|last| !last.fields.is_empty()) {
            new = self.prune(&new, managers, &last.fields);
        }
        let mut comparison = compare(self.type_, live, &new);
        comparison.filter(self.reset_fields);
        let changed = comparison.modified.union(comparison.added);
        let others = || managers.0.iter().filter(|(id, _)| *id != manager);
        let conflicts: Vec<(ManagerId, FieldSet)> = others()
            .map(|(id, set)| (id.clone(), set.fields.intersection(&changed)))
            .filter(|(_, fields)| !fields.is_empty())
            .collect();
        if !force && !conflicts.is_empty() {
            return Err(Conflicts(conflicts));
        }
        for (_, set) in managers.0.iter_mut().filter(|(id, _)| *id != manager) {
            set.lose(&changed, &comparison.removed);
        }
        managers.0.retain(|_, set| !set.fields.is_empty());
        Ok(if are_equal(live, &new) { None } else { Some(new) })
    }

    /// Removes what the manager applied before and no longer does, unless another one has it.
    fn prune(&self, merged: &Value, managers: &Managers, last: &FieldSet) -> Value {
        let named = |set: &FieldSet| set.with_named_fields(Some(self.type_));
        let fields = |value: &Value| named(&field_set(self.type_, value));
        let (merged_fields, last) = (fields(merged), named(last));
        let pruned = remove(self.type_, merged, &last);
        let managed = managers.0.values().fold(FieldSet::default(), |all, set| all.union(set.fields.clone()));
        let kept = fields(&pruned).union(named(&managed));
        let pruned = remove(self.type_, merged, &merged_fields.clone().difference(&kept));
        // What is left below a removed entry, and was never applied, keeps that entry.
        let dangling = merged_fields.difference(&fields(&pruned)).intersection(&last);
        remove(self.type_, merged, &dangling)
    }

    /// Brings the managers' fields into the shape of the type: what is atomic now has no fields of its own. Those of
    /// another version of a built-in kind are forgotten.
    fn reconcile(&self, managers: &mut Managers) {
        managers.0.retain(|_, set| !self.is_built_in || set.api_version == self.api_version);
        for set in managers.0.values_mut() {
            set.fields = reconcile(self.type_, &set.fields);
        }
    }
}

fn reconcile(type_: TypeRef<'_>, fields: &FieldSet) -> FieldSet {
    let atom = type_.resolve();
    let mut reconciled = FieldSet::default();
    for (element, is_member, children) in fields.iter() {
        let inner = match (&atom.map, element) {
            (Some(map), super::path_element::PathElement::Field(name)) => map.entry(name),
            (Some(_), _) => None,
            (None, _) => atom.list.as_ref().map(|list| list.element),
        };
        let inner_atom = inner.filter(|_| !children.is_empty()).map(TypeRef::resolve);
        let (is_deduced, is_atomic) = match &inner_atom {
            Some(inner) => match (&inner.map, inner.scalar, &inner.list) {
                (Some(map), ..) => (map.is_deduced(), map.is_atomic),
                (None, Some(_), _) | (None, None, None) => (true, false),
                (None, None, Some(list)) => (false, list.is_atomic()),
            },
            None => (true, false),
        };
        match inner {
            _ if is_deduced => reconciled.push(element.clone(), is_member, children.clone()),
            _ if is_atomic => reconciled.push(element.clone(), true, FieldSet::default()),
            Some(inner) => reconciled.push(element.clone(), is_member, reconcile(inner, children)),
            None => reconciled.push(element.clone(), is_member, children.clone()),
        }
    }
    reconciled
}
