//! The field managers of objects (`metadata.managedFields`) and server-side apply, as in an API server of Kubernetes 1.36.
//!
//! Of several versions of a built-in kind only the one that is served is known: the fields of managers that used another
//! one are forgotten.

mod compare;
mod field_set;
mod managers;
mod merge;
mod merge_schema;
mod path_element;
mod reset_fields;
mod scale;
mod structural_types;
#[cfg(test)]
mod tests;
mod typed;
mod updater;

use std::sync::LazyLock;

use kubernetes::go::json::json_text;
use kubernetes::time::whole_second;
use model::{Kind, Moment};
use serde_json::{Map, Value};

pub use merge_schema::TypeRef;
pub use scale::{scale_to_parent, scale_to_subresource};

use compare::compare;
use field_set::FieldSet;
use managers::{ManagedSet, ManagerId, Managers};
use merge_schema::empty_object;
use reset_fields::ResetFields;
use typed::{field_set, validate};
use updater::{Conflicts, Updater};

/// The managers of the objects of one kind, for writes of the objects or of one of their subresources.
pub struct FieldManager<'a> {
    /// The kind.
    pub kind: &'a Kind,
    /// The version in which it is written: `apps/v1`.
    pub api_version: &'a str,
    /// The type of the objects.
    pub object_type: TypeRef<'a>,
    /// The subresource that is written; empty for the objects themselves.
    pub subresource: &'a str,
    /// Whether the status is a subresource.
    pub has_status: bool,
}

/// The reason why a configuration cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The request is wrong.
    #[error("{0}")]
    BadRequest(String),
    /// The configuration does not have the type of the object.
    #[error("{0}")]
    Untyped(String),
    /// The managers of the object would have too many fields.
    #[error("the managed fields of the object are too large")]
    TooLarge,
    /// Other managers have fields that would change.
    #[error("{message}")]
    Conflict {
        /// What is in conflict with whom.
        message: String,
        /// Each field with the manager that has it.
        causes: Vec<FieldConflict>,
    },
}

/// A field that another manager has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldConflict {
    /// Its path: `.spec.replicas`.
    pub field: String,
    /// `conflict with "kubectl" using apps/v1`
    pub message: String,
}

/// The annotation in which client-side apply keeps what was applied.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager that takes over what client-side apply did.
const KUBECTL: &str = "kubectl";
/// The manager of what was there before a first apply.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
/// The most bytes of all annotations.
const MAX_ANNOTATION_BYTES: usize = 256 << 10;
/// The most bytes of the managed fields of an object with several managers, and the longest path in them: an object has
/// to remain one that can be parsed.
const MAX_MANAGED_BYTES: usize = 3 << 20;
const MAX_PATH_LENGTH: usize = 100;
/// The length from which on conflicts are counted, but not listed.
const MAX_CONFLICT_BYTES: usize = 1 << 20;

/// Fields that have no manager.
const STRIPPED_FIELDS: [&[&str]; 12] = [
    &["apiVersion"],
    &["kind"],
    &["metadata"],
    &["metadata", "name"],
    &["metadata", "namespace"],
    &["metadata", "creationTimestamp"],
    &["metadata", "selfLink"],
    &["metadata", "uid"],
    &["metadata", "clusterName"],
    &["metadata", "generation"],
    &["metadata", "managedFields"],
    &["metadata", "resourceVersion"],
];

/// Whether `metadata.managedFields` of a request asks for their removal: an empty list, or one of an empty entry.
fn is_reset(entries: Option<&Value>) -> bool {
    match entries.and_then(Value::as_array).map(Vec::as_slice) {
        Some([]) => true,
        Some([entry]) => entry.as_object().is_some_and(Map::is_empty),
        _ => false,
    }
}

/// Restores the times of the managers of an updated object if nothing else has changed, so that it is the old one.
pub fn restore_times(old: &Value, new: &mut Value) {
    let entries = |object: &Value| object["metadata"]["managedFields"].as_array().map_or(0, Vec::len);
    if entries(old) != entries(new) || entries(new) == 0 {
        return;
    }
    let are_equal = |old: &Value, new: &Value, ignored: &str| {
        let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old == new };
        let relevant =
            |fields: &'_ Map<String, Value>| fields.len() - usize::from(fields.contains_key(ignored));
        relevant(old) == relevant(new)
            && old
                .iter()
                .filter(|(name, _)| *name != ignored)
                .all(|(name, value)| new.get(name) == Some(value))
    };
    let (old_entries, new_entries) = (&old["metadata"]["managedFields"], &new["metadata"]["managedFields"]);
    let same_entries = old_entries
        .as_array()
        .into_iter()
        .flatten()
        .zip(new_entries.as_array().into_iter().flatten())
        .all(|(old, new)| are_equal(old, new, "time"));
    if same_entries
        && are_equal(&old["metadata"], &new["metadata"], "managedFields")
        && are_equal(old, new, "metadata")
    {
        new["metadata"]["managedFields"] = old_entries.clone();
    }
}

// === impl FieldManager ===

impl<'a> FieldManager<'a> {
    /// Sets the managers of an object that is created, or updated in another way than by applying. Its
    /// `metadata.managedFields` are still those of the request.
    pub fn update(&self, live: Option<&Value>, new: &mut Value, manager: &str, now: Moment) {
        let empty;
        let live_or_empty = match live {
            Some(live) => live,
            None => {
                empty = self.empty_object();
                &empty
            }
        };
        let requested = new["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
        let live_managers =
            || Managers::decode(&live_or_empty["metadata"]["managedFields"]).unwrap_or_default();
        let mut managers = match requested {
            _ if !self.subresource.is_empty() => live_managers(),
            requested if is_reset(requested.as_ref()) => Managers::default(),
            requested => match Managers::decode(&requested.unwrap_or_default()) {
                Ok(managers) if !managers.0.is_empty() => managers,
                _ => live_managers(),
            },
        };
        // An object without managers has none until something is applied to it.
        if !(managers.0.is_empty() && live.is_some()) {
            self.track_update(live_or_empty, new, &mut managers, manager, now);
        }
        // As in the original, an object that would become too large is written without managers.
        set_managed_fields(new, encoded(&managers).unwrap_or_default());
    }

    /// Applies a configuration for a manager. Returns the object with its managers, not yet in its canonical form.
    pub fn apply(
        &self,
        live: Option<&Value>,
        config: &Value,
        manager: &str,
        force: bool,
        now: Moment,
    ) -> Result<Value, ApplyError> {
        let empty;
        let live = match live {
            Some(live) => live,
            None => {
                empty = self.empty_object();
                &empty
            }
        };
        let managers = Managers::decode(&live["metadata"]["managedFields"])
            .map_err(|why| ApplyError::Untyped(format!("failed to decode managed fields: {why}")))?;
        let kind = group_version_kind(config);
        let expected = gvk_text(self.api_version, &self.kind.kind);
        if kind != expected {
            return Err(ApplyError::BadRequest(format!("invalid object type: {kind}")));
        }
        let (mut object, managers) = self.apply_or_take_over(live, config, managers, manager, force, now)?;
        if manager == KUBECTL && last_applied(&object).is_some() {
            update_last_applied(&mut object, config);
        }
        set_managed_fields(&mut object, encoded(&managers)?);
        Ok(object)
    }

    /// Applies a configuration, with force if all conflicts are with what client-side apply did.
    fn apply_or_take_over(
        &self,
        live: &Value,
        config: &Value,
        managers: Managers,
        manager: &str,
        force: bool,
        now: Moment,
    ) -> Result<(Value, Managers), ApplyError> {
        let mut applied = managers.clone();
        let conflicts = match self.apply_config(live, config, &mut applied, manager, force, now)? {
            Ok(object) => return Ok((object, applied)),
            Err(conflicts) => conflicts,
        };
        let allowed = if manager == KUBECTL { self.last_applied_fields(live) } else { None };
        let Some(allowed) = allowed else { return Err(conflict_error(&conflicts)) };
        let left: Vec<(ManagerId, FieldSet)> = conflicts
            .0
            .into_iter()
            .map(|(id, fields)| (id, fields.difference(&allowed)))
            .filter(|(_, fields)| !fields.is_empty())
            .collect();
        if !left.is_empty() {
            return Err(conflict_error(&Conflicts(left)));
        }
        let mut applied = managers;
        let object = self.apply_config(live, config, &mut applied, manager, true, now)?;
        object.map(|object| (object, applied)).map_err(|conflicts| conflict_error(&conflicts))
    }

    fn apply_config(
        &self,
        live: &Value,
        config: &Value,
        managers: &mut Managers,
        manager: &str,
        force: bool,
        now: Moment,
    ) -> Result<Result<Value, Conflicts>, ApplyError> {
        if managers.0.is_empty() {
            self.track_update(&self.empty_object(), live, managers, BEFORE_FIRST_APPLY, now);
        }
        if config["metadata"]["managedFields"].is_array() {
            return Err(ApplyError::BadRequest("metadata.managedFields must be nil".to_owned()));
        }
        validate(self.object_type, config, false).map_err(|errors| {
            let text = |field: &str| config["metadata"][field].as_str().unwrap_or_default();
            let kind = group_version_kind(config);
            ApplyError::Untyped(format!(
                "failed to create typed patch object ({}/{}; {kind}): {errors}",
                text("namespace"),
                text("name"),
            ))
        })?;
        let id = ManagerId::new(manager, true, self.api_version, self.subresource);
        let changed = match self.updater().apply(live, config, managers, &id, force) {
            Ok(changed) => changed,
            Err(conflicts) => return Ok(Err(conflicts)),
        };
        if let Some(applied) = managers.0.get_mut(&id) {
            applied.fields = without_stripped(std::mem::take(&mut applied.fields));
            if changed.is_some() {
                applied.time = Some(time_text(now));
            }
        }
        managers.0.retain(|_, set| !set.fields.is_empty());
        Ok(Ok(changed.unwrap_or_else(|| live.clone())))
    }

    /// Adds the fields that an update changes to those of its manager.
    fn track_update(&self, live: &Value, new: &Value, managers: &mut Managers, manager: &str, now: Moment) {
        let changed = without_stripped(self.updater().update(live, new, managers));
        if !changed.is_empty() {
            let manager = if manager.is_empty() { "unknown" } else { manager };
            let id = ManagerId::new(manager, false, self.api_version, self.subresource);
            let fields = match managers.0.remove(&id) {
                Some(previous) => changed.union(previous.fields),
                None => changed,
            };
            let api_version = self.api_version.to_owned();
            let set = ManagedSet { fields, api_version, is_applied: false, time: Some(time_text(now)) };
            managers.0.insert(id, set);
        }
        managers.cap_update_managers();
    }

    /// The fields that client-side apply set and that still have the values that it gave them.
    fn last_applied_fields(&self, live: &Value) -> Option<FieldSet> {
        let config: Value = serde_json::from_str(last_applied(live)?).ok()?;
        if config["apiVersion"] != *self.api_version
            || validate(self.object_type, live, false).is_err()
            || validate(self.object_type, &config, false).is_err()
        {
            return None;
        }
        let comparison = compare(self.object_type, &config, live);
        let fields = field_set(self.object_type, &config);
        let unchanged = fields.difference(&comparison.modified);
        Some(unchanged.difference(&comparison.added).difference(&comparison.removed))
    }

    fn updater(&self) -> Updater<'a> {
        Updater {
            type_: self.object_type,
            api_version: self.api_version,
            is_built_in: self.object_type.is_built_in(),
            reset_fields: ResetFields::of(self.kind, self.subresource, self.has_status),
        }
    }

    /// The object to which the first one is compared: a custom resource begins with its type.
    fn empty_object(&self) -> Value {
        let mut empty = empty_object(self.kind);
        empty["apiVersion"] = self.api_version.into();
        empty["kind"] = self.kind.kind.as_ref().into();
        empty
    }
}

fn without_stripped(fields: FieldSet) -> FieldSet {
    static STRIPPED: LazyLock<FieldSet> = LazyLock::new(|| {
        let mut stripped = FieldSet::default();
        STRIPPED_FIELDS.iter().for_each(|path| stripped.insert(path));
        stripped
    });
    fields.difference(&STRIPPED)
}

/// The form of `metadata.managedFields`.
fn encoded(managers: &Managers) -> Result<Option<Value>, ApplyError> {
    if managers.0.values().any(|set| set.fields.depth() > MAX_PATH_LENGTH) {
        return Err(ApplyError::TooLarge);
    }
    let entries = managers.encode();
    let has_several = managers.0.len() > 1;
    match entries {
        Some(entries) if has_several && entries.to_string().len() > MAX_MANAGED_BYTES => {
            Err(ApplyError::TooLarge)
        }
        entries => Ok(entries),
    }
}

fn set_managed_fields(object: &mut Value, entries: Option<Value>) {
    match entries {
        Some(entries) => object["metadata"]["managedFields"] = entries,
        None => {
            if let Some(metadata) = object["metadata"].as_object_mut() {
                metadata.remove("managedFields");
            }
        }
    }
}

/// Managed fields have times of whole seconds.
fn time_text(now: Moment) -> String {
    whole_second(now).to_string()
}

fn last_applied(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][LAST_APPLIED].as_str().filter(|text| !text.is_empty())
}

/// Sets the annotation of client-side apply to a configuration that was applied by the server, unless it is too large.
fn update_last_applied(object: &mut Value, config: &Value) {
    let mut config = config.clone();
    if let Some(annotations) = config["metadata"].get_mut("annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else { return };
    annotations.insert(LAST_APPLIED.to_owned(), format!("{}\n", json_text(&config)).into());
    let size: usize =
        annotations.iter().map(|(name, text)| name.len() + text.as_str().map_or(0, str::len)).sum();
    if size > MAX_ANNOTATION_BYTES {
        annotations.remove(LAST_APPLIED);
    }
}

/// The kind of an object as messages show it: `apps/v1, Kind=Deployment`.
fn group_version_kind(object: &Value) -> String {
    gvk_text(object["apiVersion"].as_str().unwrap_or_default(), object["kind"].as_str().unwrap_or_default())
}

fn gvk_text(api_version: &str, kind: &str) -> String {
    let slash = if api_version.contains('/') { "" } else { "/" };
    format!("{slash}{api_version}, Kind={kind}")
}

fn conflict_error(conflicts: &Conflicts) -> ApplyError {
    let (mut causes, mut lines) = (Vec::new(), Vec::new());
    let (mut count, mut bytes) = (0, 0);
    for (id, fields) in &conflicts.0 {
        let manager = id.describe();
        lines.push(format!("conflicts with {manager}:"));
        fields.each_path(&mut String::new(), &mut |path| {
            count += 1;
            if bytes < MAX_CONFLICT_BYTES {
                bytes += path.len() + manager.len();
                lines.push(format!("- {path}"));
                let message = format!("conflict with {manager}");
                causes.push(FieldConflict { field: path.to_owned(), message });
            }
        });
    }
    let message = match causes.as_slice() {
        [cause] if count == 1 => {
            format!("Apply failed with 1 conflict: {}: {}", cause.message, cause.field)
        }
        _ => format!("Apply failed with {count} conflicts: {}", lines.join("\n")),
    };
    ApplyError::Conflict { message, causes }
}
