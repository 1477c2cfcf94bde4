//! What is to be done to a server so that it lives through a recording: each recorded change becomes deeds.
//!
//! It knows no socket and no clock. An object goes through the rules as it was recorded, each version of it; what is
//! done about a change is the difference of what the rules left of both versions. So nothing that a rule takes away,
//! such as the node that a scheduler chose, reaches the server in an update, and what others wrote there stays.

mod builtin;
mod deed;
mod description;
mod expression;
mod external;
mod file;
mod merge;
mod pointer;
mod rule;
mod simkube;
mod sorting;
mod templates;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Change, Key, Kind, Moment, Object, What};
use serde_json::{Map, Value};

pub use builtin::Level;
use builtin::Shaped;
pub(crate) use builtin::as_new;
pub use deed::{Address, Deed, Doing};
pub use description::describe;
pub use file::{FileRule, read_rules};
pub use merge::merge_patch;
pub use rule::{LeftOut, Rule, When};
pub(crate) use simkube::{COMPLETE, COMPLETE_TIME};
pub use simkube::{Delays, OWNER, Simkube};
pub use templates::Templates;
pub(crate) use volumes::BOUND;

/// How a recording is carried over.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// What is given.
    pub level: Level,
    /// Pods go to the nodes that were recorded, and their status with them.
    pub keep_placement: bool,
    /// Only these kinds, all of them.
    pub kinds: Option<Vec<Kind>>,
    /// The name of the run, by which its volumes are told from others.
    pub run: String,
    /// Kinds that the target had before the run.
    pub target_kinds: Vec<Kind>,
    /// Volumes name the storage that was recorded.
    pub keep_volume_handles: bool,
    /// What acts outside a cluster, but for volumes, is given as it was recorded.
    pub allow_external_effects: bool,
    /// Where kinds describe pods.
    pub templates: Templates,
    /// As SimKube does it.
    pub simkube: Option<Simkube>,
    /// What users add, in this order, after all the others.
    pub rules: Vec<Arc<dyn Rule>>,
}

/// Carries a recording over, change by change.
#[derive(Debug, Default)]
pub struct Transplant {
    manner: Manner,
    /// What the rules left of every object that is there.
    there: BTreeMap<Address, Standing>,
    /// Changes that rules left out, by why.
    left_out: BTreeMap<LeftOut, u64>,
}

/// An object that is there, as it is in the target's eyes.
#[derive(Debug)]
struct Standing {
    uid: Box<str>,
    /// Its last version as the rules for updates leave it.
    object: Value,
    /// It was created and not changed yet, and rules for updates make something else of it.
    awaits_rules: bool,
    /// Its deletion has begun.
    goes: bool,
}

/// A version of an object, where it was recorded and where it is put.
struct Version<'v> {
    recorded: &'v Address,
    address: &'v Address,
    state: &'v Object,
}

// === impl Transplant ===

impl Transplant {
    /// Nothing is there yet.
    pub fn new(manner: Manner) -> Transplant {
        Transplant { manner, ..Transplant::default() }
    }

    /// All that is there at the beginning, in an order in which it can be created.
    pub fn begin(&mut self, at: Moment, objects: impl IntoIterator<Item = (Key, Object)>) -> Vec<Deed> {
        let objects = sorting::sorted(objects.into_iter().collect());
        objects.into_iter().flat_map(|(key, object)| self.see(at, &key, &What::Added(object))).collect()
    }

    /// What is to be done about a change.
    pub fn change(&mut self, change: &Change) -> Vec<Deed> {
        self.see(change.at, &change.key, &change.what)
    }

    fn see(&mut self, at: Moment, key: &Key, what: &What) -> Vec<Deed> {
        let recorded = Address::of(key);
        let address = self.manner.simkube.as_ref().map_or_else(|| recorded.clone(), |it| it.place(&recorded));
        let deed = |uid: &str, doing| Deed { at, address: address.clone(), uid: uid.into(), doing };
        let known = self.there.remove(&address);
        // What others recorded may have no uid, and what comes with a delete may be a stub.
        let uid: Box<str> = match (&what.object().meta().uid, &known) {
            (Some(uid), _) => (**uid).into(),
            (None, Some(known)) => known.uid.clone(),
            (None, None) => recorded.to_string().into(),
        };
        let mut deeds = Vec::new();
        // Another life of the name: the end of the first was missed.
        let known = match known {
            Some(known) if known.uid != uid => {
                deeds.push(deed(&known.uid, Doing::Remove { begun: known.goes }));
                None
            }
            known => known,
        };
        let Some(state) = what.state() else {
            deeds.extend(known.map(|known| deed(&known.uid, Doing::Remove { begun: known.goes })));
            return deeds;
        };
        let version = Version { recorded: &recorded, address: &address, state };
        let (object, leaving) = match self.shape(&version, known.is_some()) {
            Ok(shaped) => shaped,
            Err(why) => {
                *self.left_out.entry(why).or_default() += 1;
                // What was applied so far and is not any more stays as it is until it is gone.
                if let Some(known) = known {
                    self.there.insert(address, known);
                }
                return deeds;
            }
        };
        let mut standing = match known {
            None => {
                deeds.push(deed(&uid, Doing::Create { object: object.clone() }));
                self.standing(&version, uid, object)
            }
            Some(known) => {
                if let Some(node) = newly_bound(&known.object, &object) {
                    deeds.push(deed(&uid, Doing::Bind { node }));
                }
                let mut patch = merge_patch(&comparable(&known.object), &comparable(&object));
                if known.awaits_rules
                    && let Some(of_rules) = self.of_rules(&version, &object)
                {
                    json_patch::merge(patch.get_or_insert_with(|| Value::Object(Map::new())), &of_rules);
                }
                if let Some(patch) = patch {
                    let api_version = object["apiVersion"].as_str().unwrap_or_default().into();
                    deeds.push(deed(&uid, Doing::Change { api_version, patch }));
                }
                Standing { object, awaits_rules: false, ..known }
            }
        };
        if let Some(grace) = leaving.filter(|_| !standing.goes) {
            standing.goes = true;
            deeds.push(deed(&standing.uid, Doing::Delete { grace }));
        }
        self.there.insert(address, standing);
        deeds
    }

    /// A new object. Further versions are held against what the rules for updates make of this one.
    fn standing(&self, version: &Version<'_>, uid: Box<str>, created: Value) -> Standing {
        let updated = match self.manner.rules.is_empty() {
            true => None,
            false => self.shape(version, true).ok().map(|(updated, _)| updated),
        };
        let awaits_rules = updated.as_ref().is_some_and(|updated| *updated != created);
        Standing { uid, object: updated.unwrap_or(created), awaits_rules, goes: false }
    }

    /// What all rules leave of an object, or why it is left out.
    fn shape(&self, version: &Version<'_>, is_known: bool) -> Result<Shaped, LeftOut> {
        let (mut object, leaving) = self.without_rules(version, is_known)?;
        let address = version.address;
        let when = if is_known { When::Updated } else { When::Created };
        self.manner.rules.iter().try_for_each(|rule| rule.apply(address, when, &mut object))?;
        let is_called = |field: &str, name: &str| {
            let found = object.pointer("/metadata").and_then(|metadata| metadata.get(field));
            found.map_or(name.is_empty(), |found| *found == name)
        };
        if !is_called("name", &address.name) || !is_called("namespace", &address.namespace) {
            return Err("a rule gives it another name, or none".into());
        }
        Ok((object, leaving))
    }

    /// What the built-in rules and SimKube's way leave of it.
    fn without_rules(&self, version: &Version<'_>, is_known: bool) -> Result<Shaped, LeftOut> {
        let Version { recorded, address, state } = version;
        let manner = &self.manner;
        let (mut object, leaving) = builtin::shape(manner, &recorded.kind, state, is_known)?;
        if let Some(simkube) = &manner.simkube {
            simkube.shape(&manner.templates, recorded, address, &mut object);
        }
        Ok((object, leaving))
    }

    /// What users' rules for updates change of a version.
    fn of_rules(&self, version: &Version<'_>, ruled: &Value) -> Option<Value> {
        let (plain, _) = self.without_rules(version, true).ok()?;
        merge_patch(&comparable(&plain), &comparable(ruled))
    }

    /// Changes that rules left out, by why.
    pub fn left_out(&self) -> &BTreeMap<LeftOut, u64> {
        &self.left_out
    }

    /// What the rules left of all that is there now: what the target comes to if nobody else changes it.
    pub fn expected(&self) -> impl Iterator<Item = (&Address, &Value)> {
        self.there.iter().map(|(address, standing)| (address, &standing.object))
    }
}

/// A pod is bound by a request of its own.
fn newly_bound(before: &Value, after: &Value) -> Option<Box<str>> {
    let node = |object: &Value| object.pointer("/spec/nodeName").and_then(Value::as_str).map(Box::from);
    let is_pod = after["kind"] == "Pod";
    if is_pod && node(before).is_none() { node(after) } else { None }
}

/// An object to be held against another version: a pod without its node, and no object without labels and annotations,
/// since to take all of them away would take those that the target has of its own.
fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = fields(&mut object, "metadata") {
        for field in ["labels", "annotations"] {
            templates::map_in(metadata, field);
        }
    }
    if object["kind"] == "Pod"
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("nodeName");
    }
    object
}

/// The fields of an object in it, if it has them.
fn fields<'v>(object: &'v mut Value, name: &str) -> Option<&'v mut Map<String, Value>> {
    object.get_mut(name)?.as_object_mut()
}
