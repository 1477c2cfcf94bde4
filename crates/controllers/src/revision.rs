//! Revisions of StatefulSets and DaemonSets: the templates they had.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::read::view;
use model::{NamespacedName, Object, What};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::Context;
use super::table::{Held, Metadata, Owner, Spec, Turn, created_now, name_of, turn};
use super::template::{REVISION_HASH, Template};
use super::world::Thing;

/// All revisions, by name.
#[derive(Debug, Default)]
pub(super) struct Revisions {
    all: BTreeMap<NamespacedName, Arc<Revision>>,
}

/// A template that a set had.
#[derive(Debug)]
pub(super) struct Revision {
    pub(super) name: NamespacedName,
    pub(super) uid: Arc<str>,
    pub(super) owners: Vec<Owner>,
    /// The newest has the highest.
    pub(super) number: i64,
    /// The word that its pods have on them, if the owner is a DaemonSet.
    pub(super) hash: Arc<str>,
    pub(super) template: Template,
    object: Object,
}

#[derive(Deserialize)]
struct RevisionJson {
    metadata: Metadata,
    #[serde(default)]
    revision: i64,
    data: DataJson,
}

#[derive(Deserialize)]
struct DataJson {
    spec: DataSpecJson,
}

#[derive(Deserialize)]
struct DataSpecJson {
    template: Value,
}

// === impl Revisions ===

impl Revisions {
    pub(super) fn get(&self, name: &NamespacedName) -> Option<&Arc<Revision>> {
        self.all.get(name)
    }

    /// Takes note of a change.
    pub(super) fn apply(&mut self, what: &What) -> Turn<Revision> {
        turn(&mut self.all, &name_of(what.object()), what, |_, object| Revision::read(object))
    }
}

// === impl Revision ===

impl Revision {
    fn read(object: &Object) -> Result<Revision, String> {
        let json: RevisionJson = view(object)?;
        let mut template = json.data.spec.template;
        if let Some(template) = template.as_object_mut() {
            template.remove("$patch");
        }
        let name = name_of(object);
        Ok(Revision {
            hash: json.metadata.labels.get(REVISION_HASH).unwrap_or(&name.name).into(),
            name,
            uid: object.meta().uid.as_deref().unwrap_or_default().into(),
            owners: json.metadata.owner_references,
            number: json.revision,
            template: template.into(),
            object: object.clone(),
        })
    }

    /// The same with another number.
    fn numbered(&self, number: i64) -> Object {
        let mut value = self.object.value().unwrap_or_default();
        value["revision"] = number.into();
        Object::trusted(value.to_string())
    }
}

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
