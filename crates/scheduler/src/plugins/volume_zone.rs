//! VolumeZone: a volume that is in a zone can be used from nodes of that zone.

use std::sync::Arc;

use kubernetes::labels::Labels;

use super::registration::{Filter, Registration};
use super::volume_view::{VolumeNode, VolumePod, unreadable};
use crate::events::{About, Details, Hint, Sort, ThingKind};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::storage::{Binding, OLD_REGION, OLD_ZONE, REGION, Storage, Trouble, Volume, ZONE};
use crate::verdict::Refusal;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "VolumeZone",
    points: |_| &[ExtensionPoint::PreFilter, ExtensionPoint::Filter],
    filter: Some(Filter::BEYOND),
    events: &[
        Sort::NodeAdded,
        Sort::NodeLabels,
        Sort::Added(ThingKind::Claim),
        Sort::Added(ThingKind::Volume),
        Sort::Added(ThingKind::StorageClass),
        Sort::Changed(ThingKind::Claim),
        Sort::Changed(ThingKind::Volume),
    ],
    queueing_hint,
    ..Registration::EMPTY
};

const PLUGIN: Plugin = Plugin::VolumeZone;

/// The volumes of a pod that say where they are.
#[derive(Clone, Debug)]
pub(crate) struct State {
    volumes: Vec<Arc<Volume>>,
}

/// Looks at the pod.
pub(crate) fn pre_filter(pod: VolumePod<'_>, storage: &Storage) -> Result<Option<State>, Refusal> {
    let refuse = |why: String| Refusal::unresolvable(PLUGIN, why);
    let mut volumes = Vec::new();
    for name in pod.volumes.named_claims() {
        if name.is_empty() {
            return Err(refuse("PersistentVolumeClaim had no name".to_owned()));
        }
        let claim = storage.claim(pod.namespace, name).ok_or_else(|| refuse(Trouble::no_claim(name)))?;
        let claim = claim.as_ref().map_err(|why| unreadable(PLUGIN, why))?;
        if claim.volume.is_empty() {
            if claim.class.is_empty() {
                return Err(refuse("PersistentVolumeClaim had no pv name and storageClass name".to_owned()));
            }
            let missing = || refuse(format!("storageclass.storage.k8s.io {:?} not found", claim.class));
            let class = storage.class(&claim.class).ok_or_else(missing)?;
            match class.as_ref().map_err(|why| unreadable(PLUGIN, why))?.binding {
                Some(Binding::Delayed) => continue,
                Some(Binding::Immediate) => return Err(refuse("PersistentVolume had no name".to_owned())),
                None => {
                    let class = &claim.class;
                    return Err(refuse(format!("VolumeBindingMode not set for StorageClass {class:?}")));
                }
            }
        }
        let missing = || refuse(format!("persistentvolume {:?} not found", claim.volume));
        let volume = storage.volume(&claim.volume).ok_or_else(missing)?;
        let volume = volume.as_ref().map_err(|why| unreadable(PLUGIN, why))?;
        if !volume.zones.is_empty() {
            volumes.push(volume.clone());
        }
    }
    Ok((!volumes.is_empty()).then_some(State { volumes }))
}

/// Looks at a node.
pub(crate) fn filter(state: &State, node: &VolumeNode<'_>) -> Result<(), Refusal> {
    let labels = node.labels;
    // A node that says nothing of zones is in a cluster of one zone.
    let says_nothing = || [OLD_ZONE, OLD_REGION, ZONE, REGION].iter().all(|key| labels.get(key).is_none());
    if state.volumes.iter().all(|volume| is_reachable(volume, labels)) || says_nothing() {
        return Ok(());
    }
    Err(Refusal::unresolvable(PLUGIN, "node(s) had no available volume zone"))
}

fn is_reachable(volume: &Volume, labels: &Labels) -> bool {
    volume.zones.iter().all(|(key, zones)| {
        let place = labels.get(key).or_else(|| match *key {
            OLD_ZONE => labels.get(ZONE),
            OLD_REGION => labels.get(REGION),
            _ => None,
        });
        place.is_some_and(|place| zones.iter().any(|zone| &**zone == place))
    })
}

/// A claim of the pod came or changed, a volume is elsewhere, or a class waits for its pods.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    let About::Thing { old, new } = hint.event.about else { return true };
    let (Some(own), Some(thing)) = (hint.volumes, new.or(old)) else { return true };
    match (&thing.details, old.map(|old| &old.details)) {
        (Details::None, _) => hint.names_claim(own, thing),
        (Details::Volume { places }, Some(Details::Volume { places: before })) => places != before,
        (Details::StorageClass { waits_for_consumer, .. }, _) => *waits_for_consumer,
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::volume_view::said;
    use crate::storage::PodVolumes;
    use serde_json::{Value, json};

    const CONFLICT: &str = "VolumeZone UnschedulableAndUnresolvable: node(s) had no available volume zone";

    /// Asks for a pod with the claim `a/c` on a node with these labels.
    #[track_caller]
    fn check(objects: &[Value], labels: Value, expected: &str) {
        let storage = Storage::of(objects);
        let volumes = PodVolumes::of(json!([{"persistentVolumeClaim": {"claimName": "c"}}]));
        let labels: Labels = serde_json::from_value(labels).unwrap();
        let found = match pre_filter(VolumePod { namespace: &"a".into(), volumes: &volumes }, &storage) {
            Ok(None) => "skipped".to_owned(),
            Ok(Some(state)) => match filter(&state, &VolumeNode { name: &"n".into(), labels: &labels }) {
                Ok(()) => "fits".to_owned(),
                Err(refusal) => said(&refusal),
            },
            Err(refusal) => said(&refusal),
        };
        assert_eq!(found, expected);
    }

    fn claim(volume: &str, class: &str) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "a", "name": "c"},
            "spec": {"volumeName": volume, "storageClassName": class}})
    }

    fn volume(labels: Value) -> Value {
        json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v", "labels": labels}})
    }

    fn class(mode: Value) -> Value {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "s"},
            "volumeBindingMode": mode})
    }

    #[test]
    fn a_node_must_be_in_one_of_the_zones() {
        let objects = [claim("v", ""), volume(json!({ZONE: "z1__z2"}))];
        check(&objects, json!({ZONE: "z2"}), "fits");
        check(&objects, json!({ZONE: "z3"}), CONFLICT);
        check(&objects, json!({REGION: "r"}), CONFLICT);
        check(&objects, json!({"disk": "ssd"}), "fits");
        check(&objects, json!({OLD_ZONE: "z1"}), CONFLICT);
    }

    #[test]
    fn the_old_label_of_a_volume_is_met_by_the_new_one_of_a_node() {
        let objects = [claim("v", ""), volume(json!({OLD_ZONE: "z1"}))];
        check(&objects, json!({ZONE: "z1"}), "fits");
        check(&objects, json!({ZONE: "z1", OLD_ZONE: "z2"}), CONFLICT);
    }

    #[test]
    fn a_list_with_an_empty_place_says_nothing() {
        check(&[claim("v", ""), volume(json!({ZONE: "z1__"}))], json!({ZONE: "z2"}), "skipped");
    }

    #[test]
    fn what_is_missing_is_said() {
        let refused = |objects: &[Value], why: &str| {
            check(objects, json!({}), &format!("VolumeZone UnschedulableAndUnresolvable: {why}"));
        };
        refused(&[], "persistentvolumeclaim \"c\" not found");
        refused(&[claim("v", "")], "persistentvolume \"v\" not found");
        refused(&[claim("", "")], "PersistentVolumeClaim had no pv name and storageClass name");
        refused(&[claim("", "s")], "storageclass.storage.k8s.io \"s\" not found");
        refused(&[claim("", "s"), class(json!(null))], "VolumeBindingMode not set for StorageClass \"s\"");
        refused(&[claim("", "s"), class(json!("Immediate"))], "PersistentVolume had no name");
        check(&[claim("", "s"), class(json!("WaitForFirstConsumer"))], json!({}), "skipped");
        let bad = "PersistentVolume v: metadata.labels: invalid type: integer `3`, expected a map";
        refused(&[claim("v", ""), volume(json!(3))], bad);
    }
}
