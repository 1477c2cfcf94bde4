//! The revision history of a set: creation of the current ControllerRevision, and truncation.

use std::sync::Arc;

use model::{NamespacedName, Object};
use serde_json::{Map, Value, json};

use super::SyncContext;
use super::controller_revision::ControllerRevision;
use super::informer_cache::OwnershipKind;
use super::object_table::{CachedObject, ObjectSpec, creation_timestamp};
use super::pod_template::{CONTROLLER_REVISION_HASH_LABEL, PodTemplate};

/// Returns the ControllerRevision of a set's template, which is created if missing, and the others by number. `known`
/// is the hash that the set's pods have, where their revision is not in the cache.
pub(super) fn get_or_create_current<S: ObjectSpec>(
    context: &mut SyncContext<'_>,
    set: &CachedObject<S>,
    template: &PodTemplate,
    known: Option<String>,
) -> (Arc<ControllerRevision>, Vec<Arc<ControllerRevision>>) {
    let mut others = context.cache.revisions_of(&set.uid);
    let own = others.iter().rposition(|revision| revision.template.normalized == template.normalized);
    let own = own.map(|index| others.remove(index));
    let number = others.last().map_or(0, |last| last.revision).saturating_add(1);
    if let Some(own) = own {
        if own.revision < number {
            context.update(own.with_revision(number));
        }
        return (own, others);
    }
    let hash = known.unwrap_or_else(|| {
        let free = |collisions: &i64| {
            let name = format!("{}-{}", set.name.name, template.hash(*collisions));
            let name = NamespacedName { namespace: set.name.namespace.clone(), name: name.into() };
            context.cache.controller_revisions.get(&name).is_none()
        };
        template.hash((0..100).find(free).unwrap_or_default())
    });
    let mut labels = template.labels();
    let key =
        if S::KIND == "DaemonSet" { CONTROLLER_REVISION_HASH_LABEL } else { "controller.kubernetes.io/hash" };
    labels.insert(key.to_owned(), (*hash).into());
    let mut data = template.value.clone();
    data["$patch"] = "replace".into();
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
            "data": {"spec": {"template": data}}, "revision": number,
        })
        .to_string(),
    );
    context.create(object.clone());
    let revision = ControllerRevision::parse(&object).expect("it was made right here");
    (Arc::new(revision), others)
}

/// Deletes the oldest revisions without live pods, beyond the history limit.
pub(super) fn truncate_history(
    context: &mut SyncContext<'_>,
    old: &[Arc<ControllerRevision>],
    limit: i64,
    is_live: impl Fn(&ControllerRevision) -> bool,
) {
    let dead: Vec<_> = old.iter().filter(|revision| !is_live(revision)).collect();
    let surplus = usize::try_from((dead.len() as i64).saturating_sub(limit.max(0))).unwrap_or(0);
    for revision in &dead[..surplus.min(dead.len())] {
        context.delete(OwnershipKind::ControllerRevision, &revision.name, &revision.uid);
    }
}
