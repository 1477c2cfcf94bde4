//! The revision history of a set: creation of the current ControllerRevision, and truncation.

use std::sync::Arc;

use model::{NamespacedName, Object};
use serde_json::{Map, Value, json};

use super::SyncContext;
use super::controller_revision::ControllerRevision;
use super::informer_cache::OwnershipKind;
use super::object_table::{CachedObject, ObjectSpec, creation_timestamp};
use super::pod_template::{CONTROLLER_REVISION_HASH_LABEL, PodTemplate};

/// Returns the ControllerRevision of a set's template, which is created if missing, and the others by number.
/// `recorded_hash` is the hash that the set's pods have, where their revision is not in the cache.
pub(super) fn get_or_create_current<S: ObjectSpec>(
    context: &mut SyncContext<'_>,
    set: &CachedObject<S>,
    template: &PodTemplate,
    recorded_hash: Option<String>,
) -> (Arc<ControllerRevision>, Vec<Arc<ControllerRevision>>) {
    let mut old_revisions = context.cache.revisions_of(&set.uid);
    let matching_revision =
        old_revisions.iter().rposition(|revision| revision.template.normalized == template.normalized);
    let matching_revision = matching_revision.map(|index| old_revisions.remove(index));
    let next_revision = old_revisions.last().map_or(0, |last| last.revision).saturating_add(1);
    if let Some(matching_revision) = matching_revision {
        if matching_revision.revision < next_revision {
            context.update(matching_revision.with_revision(next_revision));
        }
        return (matching_revision, old_revisions);
    }
    let mut data = template.value.clone();
    data["$patch"] = "replace".into();
    let data = json!({"spec": {"template": data}});
    let is_daemon_set = S::KIND == "DaemonSet";
    let hash_with =
        |collisions: u32| context.name_generator.revision_hash(template, &data, collisions, is_daemon_set);
    let hash = recorded_hash.unwrap_or_else(|| {
        let is_free = |collisions: &u32| {
            let name = format!("{}-{}", set.name.name, hash_with(*collisions));
            let name = NamespacedName { namespace: set.name.namespace.clone(), name: name.into() };
            context.cache.controller_revisions.get(&name).is_none()
        };
        hash_with((0..100).find(is_free).unwrap_or_default())
    });
    let mut labels = template.labels();
    let key = if is_daemon_set { CONTROLLER_REVISION_HASH_LABEL } else { "controller.kubernetes.io/hash" };
    labels.insert(key.to_owned(), (*hash).into());
    let annotations: Map<String, Value> =
        set.meta.annotations.iter().map(|(key, value)| (key.to_string(), (**value).into())).collect();
    let mut metadata = json!({
        "name": format!("{}-{hash}", set.name.name), "namespace": *set.name.namespace,
        "uid": context.name_generator.uid(context.now), "creationTimestamp": creation_timestamp(context.now), "labels": labels,
        "ownerReferences": [set.controller_reference()],
    });
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    let object = Object::from_trusted(
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata,
            "data": data, "revision": next_revision,
        })
        .to_string(),
    );
    context.create(object.clone());
    let revision = ControllerRevision::parse(&object).expect("a ControllerRevision built here is valid");
    (Arc::new(revision), old_revisions)
}

/// Deletes the oldest revisions without live pods, beyond the history limit.
pub(super) fn truncate_history(
    context: &mut SyncContext<'_>,
    old: &[Arc<ControllerRevision>],
    limit: i64,
    is_live: impl Fn(&ControllerRevision) -> bool,
) {
    let unused_revisions: Vec<_> = old.iter().filter(|revision| !is_live(revision)).collect();
    let surplus = usize::try_from((unused_revisions.len() as i64).saturating_sub(limit.max(0))).unwrap_or(0);
    for revision in &unused_revisions[..surplus.min(unused_revisions.len())] {
        context.delete(OwnershipKind::ControllerRevision, &revision.name, &revision.uid);
    }
}
