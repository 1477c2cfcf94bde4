//! CustomResourceDefinitions, as the API server's own controllers treat them: their names are accepted unless another
//! definition has them, and with them go their resources.

use kubernetes::kinds;
use kubernetes::time::whole_second;
use model::{Kind, NamespacedName, Object};
use serde_json::{Value, json};

use super::delete::{DeleteOptions, Deletion};
use super::field_managers::FieldWriter;
use super::metadata::{has_finalizers, is_terminating, metadata_mut, metadata_text};
use super::update::{UpdatedPart, parsed};
use super::{CommitError, MAX_ATTEMPTS, Registry, WriteOptions};
use crate::object_map::name_of;
use crate::resource::Resource;
use crate::status::ApiError;

/// The finalizer of a definition whose resources are deleted first.
const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

const COMPONENT: WriteOptions = WriteOptions {
    dry_run: false,
    is_component: true,
    keeps_uid: false,
    writer: FieldWriter::Component,
    warnings: None,
};

/// The names that the definitions of a group have.
struct UsedNames {
    resources: Vec<Value>,
    kinds: Vec<Value>,
}

impl Registry {
    /// Decides on the names that a definition asks for. Names that another definition of the group has are not accepted.
    pub(super) fn accept_names(&self, definition: &mut Value) -> Result<(), ApiError> {
        let used = self.used_names(definition)?;
        let now = whole_second(self.now()).to_string();
        let wanted = definition["spec"]["names"].clone();
        let status = status_mut(definition);
        if status["acceptedNames"] == wanted {
            return Ok(());
        }
        let (accepted, conflict) = used.accept(&wanted, &status["acceptedNames"]);
        status["acceptedNames"] = accepted;
        let is_accepted = conflict.is_none();
        let (reason, message) = conflict.unwrap_or(("NoConflicts", "no conflicts found".to_owned()));
        set_condition(status, "NamesAccepted", is_accepted, reason, &message, &now);
        if is_true(status, "Established") {
            return Ok(());
        }
        let (reason, message) = match is_accepted {
            true => ("InitialNamesAccepted", "the initial names have been accepted"),
            false => ("NotAccepted", "not all names are accepted"),
        };
        set_condition(status, "Established", is_accepted, reason, message, &now);
        Ok(())
    }

    /// Decides again on the names of the other definitions of a group, after one of them was written or deleted.
    pub(super) fn settle_names(&self, written: &Object) -> Result<(), ApiError> {
        let written = parsed(written)?;
        let kind = kinds::definition_kind();
        for definition in self.definitions_of_group(&written["spec"]["group"])? {
            let waits = definition["spec"]["names"] != definition["status"]["acceptedNames"];
            if !waits || definition["metadata"]["name"] == written["metadata"]["name"] {
                continue;
            }
            let name = NamespacedName::new("", metadata_text(&definition, "name"));
            self.update_object(&kind, &name, UpdatedPart::Status, |definition| {
                self.accept_names(definition).is_ok()
            })?;
        }
        Ok(())
    }

    /// Begins the deletion of a definition. Its resources are deleted at once, but for those that have finalizers.
    pub(super) fn delete_definition(
        &self,
        resource: &Resource,
        name: &NamespacedName,
        options: &DeleteOptions,
        write: WriteOptions,
    ) -> Result<Deletion, ApiError> {
        for _ in 0..MAX_ATTEMPTS {
            let old = self.current(resource, name)?;
            let mut new = parsed(&old)?;
            options.check_preconditions(resource, name, &new)?;
            if is_terminating(&new) {
                return Ok(Deletion::Terminating(old));
            }
            let now = whole_second(self.now()).to_string();
            let metadata = metadata_mut(&mut new);
            metadata.insert("deletionTimestamp".to_owned(), now.clone().into());
            let finalizers = metadata.entry("finalizers").or_insert_with(|| json!([]));
            if let Value::Array(finalizers) = finalizers
                && !finalizers.iter().any(|finalizer| finalizer == CLEANUP_FINALIZER)
            {
                finalizers.push(CLEANUP_FINALIZER.into());
            }
            let message =
                "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
            let status = status_mut(&mut new);
            set_condition(status, "Terminating", true, "InstanceDeletionPending", message, &now);
            match self.commit(resource, name, Some(&old), new, false, write) {
                Ok(terminating) => {
                    if !write.dry_run {
                        self.clean_up_definition(name)?;
                    }
                    return Ok(Deletion::Terminating(terminating));
                }
                Err(CommitError::Overtaken) => {}
                Err(CommitError::Refused(error)) => return Err(error),
            }
        }
        Err(ApiError::modified(resource, &name.name))
    }

    /// Ends the deletion of the definition of a kind if its last object has gone.
    pub(super) fn finish_definition(&self, kind: &Kind) -> Result<(), ApiError> {
        let table = self.table();
        let Some(resource) = table.of_kind(kind).filter(|resource| resource.is_terminating()) else {
            return Ok(());
        };
        if self.store.list(resource)?.objects.is_empty() {
            self.remove_definition(&NamespacedName::new("", &*resource.qualified_name()))?;
        }
        Ok(())
    }

    /// Deletes the resources of a definition, and the definition if none is left.
    fn clean_up_definition(&self, name: &NamespacedName) -> Result<(), ApiError> {
        let kind = kinds::definition_kind();
        let message = "CustomResource deletion is in progress";
        let definition = self.update_object(&kind, name, UpdatedPart::Status, |definition| {
            let now = whole_second(self.now()).to_string();
            let status = status_mut(definition);
            set_condition(status, "Terminating", true, "InstanceDeletionInProgress", message, &now);
            true
        })?;
        let spec = &parsed(&definition)?["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = Kind::new(&text(&spec["group"]), &text(&spec["names"]["kind"]));
        let table = self.table();
        let resource = table.of_kind(&kind).filter(|resource| resource.qualified_name() == *name.name);
        if let Some(resource) = resource {
            for object in self.store.list(resource)?.objects.iter() {
                match self.delete(resource, &name_of(object), &DeleteOptions::default(), COMPONENT) {
                    Err(error) if !error.is_not_found() => return Err(error),
                    Ok(_) | Err(_) => {}
                }
            }
            if !self.store.list(resource)?.objects.is_empty() {
                return Ok(());
            }
        }
        self.remove_definition(name)
    }

    /// Removes the finalizer of a definition without resources.
    fn remove_definition(&self, name: &NamespacedName) -> Result<(), ApiError> {
        let kind = kinds::definition_kind();
        let removed = self.update_object(&kind, name, UpdatedPart::Everything, |definition| {
            let now = whole_second(self.now()).to_string();
            let status = status_mut(definition);
            let (reason, message) = match is_true(status, "Established") {
                true => ("InstanceDeletionCompleted", "removed all instances"),
                false => ("NeverEstablished", "resource was never established"),
            };
            set_condition(status, "Terminating", false, reason, message, &now);
            if let Some(finalizers) = definition["metadata"]["finalizers"].as_array_mut() {
                finalizers.retain(|finalizer| finalizer != CLEANUP_FINALIZER);
            }
            true
        });
        match removed {
            Ok(definition) if has_finalizers(&parsed(&definition)?) => Ok(()),
            Ok(definition) => self.settle_names(&definition),
            // The last object had gone before.
            Err(error) if error.is_not_found() => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn used_names(&self, definition: &Value) -> Result<UsedNames, ApiError> {
        let mut used = UsedNames { resources: Vec::new(), kinds: Vec::new() };
        for other in self.definitions_of_group(&definition["spec"]["group"])? {
            let names = &other["status"]["acceptedNames"];
            used.resources.extend(["plural", "singular"].map(|field| names[field].clone()));
            used.resources.extend(names["shortNames"].as_array().into_iter().flatten().cloned());
            used.kinds.extend(["kind", "listKind"].map(|field| names[field].clone()));
        }
        Ok(used)
    }

    fn definitions_of_group(&self, group: &Value) -> Result<Vec<Value>, ApiError> {
        let table = self.table();
        let resource = table.of_kind(&kinds::definition_kind()).ok_or_else(ApiError::unknown_path)?;
        let suffix = format!(".{}", group.as_str().unwrap_or_default());
        let definitions = self.store.list(resource)?.objects;
        let of_group = definitions.iter().filter(|definition| definition.meta().name.ends_with(&suffix));
        let parsed: Result<Vec<Value>, ApiError> = of_group.map(parsed).collect();
        Ok(parsed?.into_iter().filter(|definition| definition["spec"]["group"] == *group).collect())
    }
}

// === impl UsedNames ===

impl UsedNames {
    /// The names that are accepted of those that are wanted, and the last conflict: its reason and message.
    fn accept(&self, wanted: &Value, accepted: &Value) -> (Value, Option<(&'static str, String)>) {
        let mut names = if accepted.is_object() { accepted.clone() } else { json!({}) };
        let mut conflict = None;
        let in_use = |name: &Value| format!("{name} is already in use");
        for (field, reason, used) in [
            ("plural", "PluralConflict", &self.resources),
            ("singular", "SingularConflict", &self.resources),
            ("shortNames", "ShortNamesConflict", &self.resources),
            ("kind", "KindConflict", &self.kinds),
            ("listKind", "ListKindConflict", &self.kinds),
        ] {
            let (name, earlier) = (&wanted[field], &accepted[field]);
            let message = match (name.as_array(), earlier.as_array()) {
                (Some(short_names), earlier) => {
                    let is_new = |name: &&Value| !earlier.is_some_and(|earlier| earlier.contains(name));
                    let taken = short_names.iter().filter(is_new).filter(|name| used.contains(name));
                    aggregate(taken.map(in_use).collect())
                }
                (None, _) => (name != earlier && used.contains(name)).then(|| in_use(name)),
            };
            match message {
                Some(message) => conflict = Some((reason, message)),
                None if name.is_null() => {
                    if let Some(names) = names.as_object_mut() {
                        names.remove(field);
                    }
                }
                None => names[field] = name.clone(),
            }
        }
        match wanted.get("categories") {
            Some(categories) => names["categories"] = categories.clone(),
            None => {
                if let Some(names) = names.as_object_mut() {
                    names.remove("categories");
                }
            }
        }
        for field in ["plural", "kind"] {
            if names[field].is_null() {
                names[field] = "".into();
            }
        }
        (names, conflict)
    }
}

/// Several messages in one, each once.
fn aggregate(mut messages: Vec<String>) -> Option<String> {
    messages.dedup();
    match &messages[..] {
        [] => None,
        [only] => Some(only.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

fn status_mut(definition: &mut Value) -> &mut Value {
    if !definition["status"].is_object() {
        definition["status"] = json!({});
    }
    &mut definition["status"]
}

fn is_true(status: &Value, condition_type: &str) -> bool {
    let conditions = status["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == condition_type && condition["status"] == "True")
}

/// Sets a condition. Its time is that of the last change of its status.
fn set_condition(
    status: &mut Value,
    condition_type: &str,
    is_true: bool,
    reason: &str,
    message: &str,
    now: &str,
) {
    let mut condition = json!({
        "type": condition_type, "status": if is_true { "True" } else { "False" }, "lastTransitionTime": now,
        "reason": reason, "message": message,
    });
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else { return };
    match conditions.iter_mut().find(|earlier| earlier["type"] == condition_type) {
        Some(earlier) => {
            if earlier["status"] == condition["status"] {
                condition["lastTransitionTime"] = earlier["lastTransitionTime"].clone();
            }
            *earlier = condition;
        }
        None => conditions.push(condition),
    }
}
