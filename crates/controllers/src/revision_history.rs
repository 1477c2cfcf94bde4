//! The revisions of a set: the current one is made where there is none, and old ones are deleted.

use std::sync::Arc;

use model::{NamespacedName, Object};
use serde_json::{Map, Value, json};

use super::Context;
use super::revision::Revision;
use super::table::{Held, Spec, created_now};
use super::template::{REVISION_HASH, Template};
use super::world::Thing;

/// The revision of a set's template, made if there is none, and the others, by number. `known` is the word that its pods
/// are known to have, where the revision itself was never seen.
pub(super) fn current<S: Spec>(
    context: &mut Context<'_>,
    set: &Held<S>,
    template: &Template,
    known: Option<String>,
) -> (Arc<Revision>, Vec<Arc<Revision>>) {
    let mut others = context.world.revisions_of(&set.uid);
    let own = others.iter().rposition(|revision| revision.template.text == template.text);
    let own = own.map(|index| others.remove(index));
    let number = others.last().map_or(0, |last| last.number).saturating_add(1);
    if let Some(own) = own {
        if own.number < number {
            context.update(own.numbered(number));
        }
        return (own, others);
    }
    let hash = known.unwrap_or_else(|| {
        let free = |collisions: &i64| {
            let name = format!("{}-{}", set.name.name, template.hash(*collisions));
            let name = NamespacedName { namespace: set.name.namespace.clone(), name: name.into() };
            context.world.revisions.get(&name).is_none()
        };
        template.hash((0..100).find(free).unwrap_or_default())
    });
    let mut labels = template.labels();
    let key = if S::KIND == "DaemonSet" { REVISION_HASH } else { "controller.kubernetes.io/hash" };
    labels.insert(key.to_owned(), (*hash).into());
    let mut data = template.value.clone();
    data["$patch"] = "replace".into();
    let annotations: Map<String, Value> =
        set.meta.annotations.iter().map(|(key, value)| (key.to_string(), (**value).into())).collect();
    let mut metadata = json!({
        "name": format!("{}-{hash}", set.name.name), "namespace": *set.name.namespace,
        "uid": context.names.uid(context.now), "creationTimestamp": created_now(context.now), "labels": labels,
        "ownerReferences": [set.reference()],
    });
    if !annotations.is_empty() {
        metadata["annotations"] = annotations.into();
    }
    let object = Object::trusted(
        json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata,
            "data": {"spec": {"template": data}}, "revision": number,
        })
        .to_string(),
    );
    context.create(object.clone());
    let revision = Revision::read(&object).expect("it was made right here");
    (Arc::new(revision), others)
}

/// Deletes revisions that no pod has any more, beyond the number that a set keeps: the oldest first.
pub(super) fn forget(
    context: &mut Context<'_>,
    old: &[Arc<Revision>],
    limit: i64,
    is_live: impl Fn(&Revision) -> bool,
) {
    let dead: Vec<_> = old.iter().filter(|revision| !is_live(revision)).collect();
    let surplus = usize::try_from((dead.len() as i64).saturating_sub(limit.max(0))).unwrap_or(0);
    for revision in &dead[..surplus.min(dead.len())] {
        context.delete(Thing::Revision, &revision.name, &revision.uid);
    }
}
