//! Translation of recorded changes into API operations on a target cluster.
//!
//! It uses no socket and no clock. Every recorded version of an object passes the rules; an update is the difference
//! between two versions after the rules. So a field that a rule removes, such as the node that a scheduler chose, never
//! reaches the server in an update, and fields written by the target's components stay.

mod builtin;
mod cel_expression;
mod creation_order;
mod description;
mod external;
mod merge;
mod operation;
mod pointer;
mod rule;
mod rule_file;
mod simkube;
mod templates;
#[cfg(test)]
mod tests;
mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Change, Key, Kind, Moment, Object, ObjectRef, What};
use serde_json::{Map, Value};

pub use builtin::AppliedLevel;
pub(crate) use builtin::reset_for_create;
use builtin::{Deletion, TransformedObject};
pub use description::describe;
pub use merge::merge_patch;
pub use operation::{ApiOperation, Verb};
pub use rule::{ExclusionReason, Rule, RuleTrigger};
pub use rule_file::{UserRule, parse_rules};
pub(crate) use simkube::{COMPLETE_LABEL, COMPLETE_TIME_ANNOTATION};
pub use simkube::{OWNER_ANNOTATION, SimkubeMode, StartupDelays};
pub use templates::PodTemplatePaths;
pub(crate) use volumes::BIND_ANNOTATIONS;

/// Options of a translation.
#[derive(Clone, Debug, Default)]
pub struct TranslateOptions {
    /// The objects that are applied.
    pub level: AppliedLevel,
    /// Pods are bound to their recorded nodes, and keep their status.
    pub keep_placement: bool,
    /// Exactly these kinds, instead of the default.
    pub kinds: Option<Vec<Kind>>,
    /// The name of the run, which labels its volumes.
    pub run: String,
    /// Kinds that the target served before the run.
    pub target_kinds: Vec<Kind>,
    /// Volumes keep their recorded storage handles.
    pub keep_volume_handles: bool,
    /// Objects and fields with effects outside the cluster, except volumes, are applied as recorded.
    pub allow_external_effects: bool,
    /// The paths of pod templates by kind.
    pub templates: PodTemplatePaths,
    /// Options of SimKube's mode.
    pub simkube: Option<SimkubeMode>,
    /// User rules, applied in this order after all others.
    pub rules: Vec<Arc<dyn Rule>>,
}

/// Translates a recording, change by change.
#[derive(Debug, Default)]
pub struct Translator {
    options: TranslateOptions,
    /// Every existing object after the rules, as it is expected in the target.
    expected: BTreeMap<ObjectRef, ExpectedObject>,
    /// The number of changes excluded by rules, by reason.
    excluded: BTreeMap<ExclusionReason, u64>,
}

/// An object as it is expected in the target after the operations so far.
#[derive(Debug)]
struct ExpectedObject {
    uid: Box<str>,
    /// The last version, transformed by the update rules.
    object: Value,
    /// Creation and update rules gave different results, and no update was translated yet.
    has_pending_rule_patch: bool,
    /// Its deletion was requested.
    is_deleting: bool,
}

/// A recorded version of an object, with references to it in the recording and in the target.
struct RecordedVersion<'v> {
    recorded: &'v ObjectRef,
    object_ref: &'v ObjectRef,
    state: &'v Object,
}

// === impl Translator ===

impl Translator {
    /// A translator without objects.
    pub fn new(options: TranslateOptions) -> Translator {
        Translator { options, ..Translator::default() }
    }

    /// The operations that create the initial objects, in a valid order.
    pub fn begin(
        &mut self,
        at: Moment,
        objects: impl IntoIterator<Item = (Key, Object)>,
    ) -> Vec<ApiOperation> {
        let objects = creation_order::in_creation_order(objects.into_iter().collect());
        objects.into_iter().flat_map(|(key, object)| self.translate(at, &key, &What::Added(object))).collect()
    }

    /// The operations for a change.
    pub fn translate_change(&mut self, change: &Change) -> Vec<ApiOperation> {
        self.translate(change.at, &change.key, &change.what)
    }

    fn translate(&mut self, at: Moment, key: &Key, what: &What) -> Vec<ApiOperation> {
        let recorded = ObjectRef::from(key);
        let object_ref = self
            .options
            .simkube
            .as_ref()
            .map_or_else(|| recorded.clone(), |simkube| simkube.target_ref(&recorded));
        let operation =
            |uid: &str, verb| ApiOperation { at, object_ref: object_ref.clone(), uid: uid.into(), verb };
        let previous = self.expected.remove(&object_ref);
        // Imported objects may have no uid, and the object of a delete may be a stub.
        let uid: Box<str> = match (&what.object().meta().uid, &previous) {
            (Some(uid), _) => (**uid).into(),
            (None, Some(previous)) => previous.uid.clone(),
            (None, None) => recorded.to_string().into(),
        };
        let mut operations = Vec::new();
        // A new object of the same name: the deletion of the first was missed.
        let previous = match previous {
            Some(previous) if previous.uid != uid => {
                operations.push(operation(
                    &previous.uid,
                    Verb::CompleteDeletion { is_deleting: previous.is_deleting },
                ));
                None
            }
            known => known,
        };
        let Some(state) = what.state() else {
            operations.extend(previous.map(|previous| {
                operation(&previous.uid, Verb::CompleteDeletion { is_deleting: previous.is_deleting })
            }));
            return operations;
        };
        let version = RecordedVersion { recorded: &recorded, object_ref: &object_ref, state };
        let TransformedObject { object, deletion } = match self.apply_rules(&version, previous.is_some()) {
            Ok(transformed) => transformed,
            Err(why) => {
                *self.excluded.entry(why).or_default() += 1;
                // An object that was applied and is now excluded stays unchanged until it is deleted.
                if let Some(previous) = previous {
                    self.expected.insert(object_ref, previous);
                }
                return operations;
            }
        };
        let mut expected = match previous {
            None => {
                operations.push(operation(&uid, Verb::Create { object: object.clone() }));
                self.created_object(&version, uid, object)
            }
            Some(previous) => {
                if let Some(node) = newly_bound(&previous.object, &object) {
                    operations.push(operation(&uid, Verb::Bind { node }));
                }
                let mut patch = merge_patch(&comparable(&previous.object), &comparable(&object));
                if previous.has_pending_rule_patch
                    && let Some(rule_patch_value) = self.rule_patch(&version, &object)
                {
                    merge::combine_patches(
                        patch.get_or_insert_with(|| Value::Object(Map::new())),
                        rule_patch_value,
                    );
                }
                if let Some(patch) = patch {
                    let api_version = object["apiVersion"].as_str().unwrap_or_default().into();
                    operations.push(operation(&uid, Verb::Patch { api_version, patch }));
                }
                ExpectedObject { object, has_pending_rule_patch: false, ..previous }
            }
        };
        if let Some(Deletion { grace_period_seconds }) = deletion.filter(|_| !expected.is_deleting) {
            expected.is_deleting = true;
            operations.push(operation(&expected.uid, Verb::Delete { grace_period_seconds }));
        }
        self.expected.insert(object_ref, expected);
        operations
    }

    /// The state of a new object. Later versions are compared with the result of the rules for updates.
    fn created_object(&self, version: &RecordedVersion<'_>, uid: Box<str>, created: Value) -> ExpectedObject {
        let updated = match self.options.rules.is_empty() {
            true => None,
            false => self.apply_rules(version, true).ok().map(|updated| updated.object),
        };
        let has_pending_rule_patch = updated.as_ref().is_some_and(|updated| *updated != created);
        ExpectedObject { uid, object: updated.unwrap_or(created), has_pending_rule_patch, is_deleting: false }
    }

    /// The object after all rules, or why it is excluded.
    fn apply_rules(
        &self,
        version: &RecordedVersion<'_>,
        is_update: bool,
    ) -> Result<TransformedObject, ExclusionReason> {
        let TransformedObject { mut object, deletion } = self.apply_builtin_rules(version, is_update)?;
        let object_ref = version.object_ref;
        let trigger = if is_update { RuleTrigger::Updated } else { RuleTrigger::Created };
        self.options.rules.iter().try_for_each(|rule| rule.apply(object_ref, trigger, &mut object))?;
        let has_metadata = |field: &str, name: &str| {
            let found = object.pointer("/metadata").and_then(|metadata| metadata.get(field));
            found.map_or(name.is_empty(), |found| *found == name)
        };
        if !has_metadata("name", &object_ref.name) || !has_metadata("namespace", &object_ref.namespace) {
            return Err("a rule changes or removes its name".into());
        }
        Ok(TransformedObject { object, deletion })
    }

    /// The object after the built-in rules and SimKube's mode.
    fn apply_builtin_rules(
        &self,
        version: &RecordedVersion<'_>,
        is_update: bool,
    ) -> Result<TransformedObject, ExclusionReason> {
        let RecordedVersion { recorded, object_ref, state } = version;
        let options = &self.options;
        let mut transformed = builtin::transform(options, &recorded.kind, state, is_update)?;
        if let Some(simkube) = &options.simkube {
            simkube.transform(&options.templates, recorded, object_ref, &mut transformed.object);
        }
        Ok(transformed)
    }

    /// The patch that user rules for updates make to a version.
    fn rule_patch(&self, version: &RecordedVersion<'_>, transformed: &Value) -> Option<Value> {
        let plain = self.apply_builtin_rules(version, true).ok()?.object;
        merge_patch(&comparable(&plain), &comparable(transformed))
    }

    /// The number of changes excluded by rules, by reason.
    pub fn excluded(&self) -> &BTreeMap<ExclusionReason, u64> {
        &self.excluded
    }

    /// All existing objects after the rules: the state of the target if no other component changes it.
    pub fn expected_objects(&self) -> impl Iterator<Item = (&ObjectRef, &Value)> {
        self.expected.iter().map(|(object_ref, expected)| (object_ref, &expected.object))
    }
}

/// The node of a pod that has just been bound: binding is a separate request.
fn newly_bound(before: &Value, after: &Value) -> Option<Box<str>> {
    let node = |object: &Value| object.pointer("/spec/nodeName").and_then(Value::as_str).map(Box::from);
    let is_pod = after["kind"] == "Pod";
    if is_pod && node(before).is_none() { node(after) } else { None }
}

/// An object for comparison with another version: a pod without its node, and always with maps of labels and
/// annotations, since removing a whole map would remove the target's own entries too.
fn comparable(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = map_field(&mut object, "metadata") {
        for field in ["labels", "annotations"] {
            templates::map_entry(metadata, field);
        }
    }
    if object["kind"] == "Pod"
        && let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
    {
        spec.remove("nodeName");
    }
    object
}

/// The map in a field of an object, if there is one.
fn map_field<'v>(object: &'v mut Value, name: &str) -> Option<&'v mut Map<String, Value>> {
    object.get_mut(name)?.as_object_mut()
}
