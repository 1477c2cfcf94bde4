//! VolumeBinding: claims that have volumes, and volumes that claims could have.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::selector::Selector;
use smallvec::{SmallVec, smallvec};

use super::registration::{Filter, Registration};
use super::volume_view::{VolumeNode, VolumePod, unreadable};
use crate::events::{About, Details, Hint, Sort, ThingKind};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::storage::{
    Binding, Claim, Class, InTreeDisk, PodVolume, Reservation, Storage, Trouble, Unreadable, Volume,
};
use crate::verdict::{Code, Refusal};

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "VolumeBinding",
    points: |_| {
        &[
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PreScore,
            ExtensionPoint::Score,
            ExtensionPoint::Reserve,
            ExtensionPoint::PreBind,
        ]
    },
    filter: Some(Filter::BEYOND.unprepared("not found")),
    events: &[
        Sort::NodeAdded,
        Sort::NodeLabels,
        Sort::Added(ThingKind::Claim),
        Sort::Added(ThingKind::Volume),
        Sort::Added(ThingKind::StorageClass),
        Sort::Added(ThingKind::CsiNode),
        Sort::Added(ThingKind::CsiStorageCapacity),
        Sort::Changed(ThingKind::Claim),
        Sort::Changed(ThingKind::Volume),
        Sort::Changed(ThingKind::StorageClass),
        Sort::Changed(ThingKind::CsiNode),
        Sort::Changed(ThingKind::CsiDriver),
        Sort::Changed(ThingKind::CsiStorageCapacity),
    ],
    queueing_hint,
    ..Registration::EMPTY
};

const PLUGIN: Plugin = Plugin::VolumeBinding;

/// The claims of a pod.
#[derive(Clone, Debug)]
pub(crate) struct State {
    bound: Vec<Bound>,
    /// Claims whose node is chosen already, in the pod's order.
    promised: Vec<Unbound>,
    /// All other claims without a volume, those that ask for least first.
    searching: Vec<Unbound>,
}

/// The volume of a claim that has one.
#[derive(Clone, Debug)]
enum Bound {
    Missing,
    Unreadable(Arc<Unreadable>),
    Volume(Arc<Volume>),
}

/// A claim without a volume.
#[derive(Clone, Debug)]
struct Unbound {
    claim: Arc<Claim>,
    class: Arc<Class>,
    candidates: Result<Candidates, Refusal>,
    room: Room,
}

/// The volumes that a claim could have.
#[derive(Clone, Debug, Default)]
struct Candidates {
    /// Made for this claim, by name.
    own: Vec<Arc<Volume>>,
    /// Free, the smallest first, those of one size by name.
    free: Vec<Arc<Volume>>,
}

/// Whether there is room to make a volume.
#[derive(Clone, Debug)]
enum Room {
    /// Nobody says.
    Unknown,
    /// On the nodes that one of these selects; whether on others cannot be told if a reason is given.
    On(Vec<Selector>, Option<Arc<Unreadable>>),
}

/// What a pod's claims come to on one node.
#[derive(Debug, Default)]
struct Found<'a> {
    binds: SmallVec<[(&'a Claim, &'a Arc<Volume>); 2]>,
    provisions: SmallVec<[&'a Unbound; 2]>,
}

/// Looks at the pod.
pub(crate) fn pre_filter(pod: VolumePod<'_>, storage: &Storage) -> Result<Option<State>, Refusal> {
    if !check_claims(pod, storage)? {
        return Ok(None);
    }
    let mut state = State { bound: Vec::new(), promised: Vec::new(), searching: Vec::new() };
    let mut waits_for_volume = false;
    for name in pod.volumes.claims() {
        let Some(claim) = storage.latest_claim(pod.namespace, name) else { continue };
        let claim = claim.map_err(|why| unreadable(PLUGIN, why))?;
        if claim.is_bound {
            state.bound.push(match storage.latest_volume(&claim.volume) {
                None => Bound::Missing,
                Some(Ok(volume)) => Bound::Volume(volume.clone()),
                Some(Err(why)) => Bound::Unreadable(why.clone()),
            });
            continue;
        }
        match delaying_class(claim, storage)? {
            Some(class) if claim.volume.is_empty() => {
                let unbound = Unbound::new(claim, class, storage);
                match claim.selected_node {
                    Some(_) => state.promised.push(unbound),
                    None => state.searching.push(unbound),
                }
            }
            _ => waits_for_volume = true,
        }
    }
    if waits_for_volume {
        return Err(Refusal::unresolvable(PLUGIN, "pod has unbound immediate PersistentVolumeClaims"));
    }
    state.searching.sort_by_cached_key(|unbound| unbound.claim.requested());
    Ok(Some(state))
}

/// Looks at a node.
pub(crate) fn filter(state: &State, node: &VolumeNode<'_>, storage: &Storage) -> Result<(), Refusal> {
    find(state, node, storage).map(drop)
}

/// What placing the pod on the node means for its claims.
pub(crate) fn reserve(
    state: &State,
    node: &VolumeNode<'_>,
    storage: &Storage,
) -> Result<Reservation, Refusal> {
    let found = find(state, node, storage)?;
    let mut reservation = Reservation::default();
    found.binds.iter().for_each(|(claim, volume)| reservation.bind(claim, volume));
    found.provisions.iter().for_each(|unbound| reservation.provision(&unbound.claim, node.name));
    Ok(reservation)
}

/// Whether the pod has claims, all of which are there and fit to be used.
fn check_claims(pod: VolumePod<'_>, storage: &Storage) -> Result<bool, Refusal> {
    let refuse = |why: String| Err(Refusal::unresolvable(PLUGIN, why));
    let mut has_claims = false;
    for volume in &pod.volumes.volumes {
        let (name, is_ephemeral) = match volume {
            PodVolume::Claim(name) => (name, false),
            PodVolume::Ephemeral(name) => (name, true),
            PodVolume::Inline { .. } => continue,
        };
        has_claims = true;
        let Some(claim) = storage.claim(pod.namespace, name) else {
            return refuse(match is_ephemeral {
                true => format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
                ),
                false => Trouble::no_claim(name),
            });
        };
        let claim = claim.as_ref().map_err(|why| unreadable(PLUGIN, why))?;
        if claim.is_lost {
            let volume = &claim.volume;
            return refuse(format!(
                "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
            ));
        }
        if claim.is_deleting {
            return refuse(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        if is_ephemeral && let Err(why) = pod.volumes.check_owns(claim) {
            return refuse(why);
        }
    }
    Ok(has_claims)
}

/// The class of a claim, if it lets claims wait for a pod.
fn delaying_class<'s>(claim: &Claim, storage: &'s Storage) -> Result<Option<&'s Arc<Class>>, Refusal> {
    let Some(class) = storage.class(&claim.class) else { return Ok(None) };
    let class = class.as_ref().map_err(|why| unreadable(PLUGIN, why))?;
    match class.binding {
        Some(Binding::Delayed) => Ok(Some(class)),
        Some(Binding::Immediate) => Ok(None),
        None => Err(failed(format!("VolumeBindingMode not set for StorageClass {:?}", claim.class))),
    }
}

fn find<'a>(state: &'a State, node: &VolumeNode<'_>, storage: &Storage) -> Result<Found<'a>, Refusal> {
    let mut reasons: SmallVec<[&'static str; 2]> = SmallVec::new();
    let mut is_volume_missing = false;
    for bound in &state.bound {
        match bound {
            Bound::Volume(volume) if reaches(volume, node, storage)? => continue,
            Bound::Volume(_) => reasons.push("node(s) didn't match PersistentVolume's node affinity"),
            Bound::Unreadable(why) => return Err(unreadable(PLUGIN, why)),
            Bound::Missing => is_volume_missing = true,
        }
        break;
    }
    let mut found = Found::default();
    match find_unbound(state, node, &mut found)? {
        Unmet::Nothing => {}
        Unmet::Volume => reasons.push("node(s) didn't find available persistent volumes to bind"),
        Unmet::Room => reasons.push("node(s) did not have enough free storage"),
    }
    if is_volume_missing {
        reasons.push("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)");
    }
    if reasons.is_empty() {
        return Ok(found);
    }
    let reasons = reasons.into_iter().map(Into::into).collect();
    Err(Refusal { plugin: PLUGIN, code: Code::UnschedulableAndUnresolvable, reasons })
}

/// What is missing for the claims without volumes.
enum Unmet {
    Nothing,
    Volume,
    Room,
}

fn find_unbound<'a>(
    state: &'a State,
    node: &VolumeNode<'_>,
    found: &mut Found<'a>,
) -> Result<Unmet, Refusal> {
    let is_elsewhere = |unbound: &Unbound| unbound.claim.selected_node.as_ref() != Some(node.name);
    if state.promised.iter().any(is_elsewhere) {
        return Ok(Unmet::Volume);
    }
    found.provisions.extend(&state.promised);
    let mut taken = BTreeSet::new();
    for unbound in &state.searching {
        let candidates = unbound.candidates.as_ref().map_err(Refusal::clone)?;
        match candidates.find(node.labels, |volume| !taken.contains(&volume.name)) {
            Some(volume) => {
                taken.insert(&volume.name);
                found.binds.push((&unbound.claim, volume));
            }
            None => found.provisions.push(unbound),
        }
    }
    for unbound in &found.provisions {
        if !unbound.class.provisions() || !unbound.class.allows(node.labels) {
            return Ok(Unmet::Volume);
        }
        if !unbound.has_room(node.labels)? {
            return Ok(Unmet::Room);
        }
    }
    Ok(Unmet::Nothing)
}

/// Whether a volume that a claim has can be reached from a node.
fn reaches(volume: &Volume, node: &VolumeNode<'_>, storage: &Storage) -> Result<bool, Refusal> {
    let mut affinity = &volume.affinity;
    if let Some(InTreeDisk { plugin, migrated }) = &volume.in_tree
        && let Some(csi_node) = storage.node(node.name).and_then(|known| known.csi_node.as_ref())
        && csi_node.as_ref().map_err(|why| unreadable(PLUGIN, why))?.has_migrated(*plugin)
    {
        let could_not = |why: &String| failed(format!("could not translate pv: {why}"));
        affinity = &migrated.as_ref().map_err(could_not)?.affinity;
    }
    Ok(affinity.as_ref().is_none_or(|affinity| selects(affinity, node.labels)))
}

/// A volume selects nodes by labels alone, and by what cannot be used none.
fn selects(affinity: &kubernetes::selector::NodeSelector, labels: &Labels) -> bool {
    affinity.matches("", |key| labels.get(key)).unwrap_or(false)
}

fn failed(why: String) -> Refusal {
    Refusal { plugin: PLUGIN, code: Code::Error, reasons: smallvec![why.into()] }
}

// === impl Unbound ===

impl Unbound {
    fn new(claim: &Arc<Claim>, class: &Arc<Class>, storage: &Storage) -> Unbound {
        // A claim whose node is chosen gets a volume made, whatever volumes there are.
        let candidates = match claim.selected_node {
            Some(_) => Ok(Candidates::default()),
            None => Candidates::new(claim, storage),
        };
        let room = match class.provisions() {
            true => Room::new(claim, class, storage),
            false => Room::Unknown,
        };
        Unbound { claim: claim.clone(), class: class.clone(), candidates, room }
    }

    fn has_room(&self, labels: &Labels) -> Result<bool, Refusal> {
        match &self.room {
            Room::Unknown => Ok(true),
            Room::On(nodes, _) if nodes.iter().any(|nodes| nodes.matches(|key| labels.get(key))) => Ok(true),
            Room::On(_, None) => Ok(false),
            Room::On(_, Some(why)) => Err(unreadable(PLUGIN, why)),
        }
    }
}

// === impl Candidates ===

impl Candidates {
    fn new(claim: &Claim, storage: &Storage) -> Result<Candidates, Refusal> {
        let selector = claim.selector.as_ref().map(Result::as_ref).transpose().map_err(|why| {
            let key = &claim.key;
            failed(format!(
                "error creating internal label selector for claim: {}/{}: {why}",
                key.namespace, key.name
            ))
        })?;
        let request = claim.requested();
        let mut candidates = Candidates::default();
        for volume in storage.offers(claim) {
            let volume = volume.map_err(|why| unreadable(PLUGIN, why))?;
            let is_own = volume.is_for(claim);
            if volume.claim.is_some() && !is_own
                || volume.capacity < request
                || volume.mode != claim.mode
                || volume.attributes_class != claim.attributes_class
                || volume.is_deleting
            {
                continue;
            }
            if is_own {
                candidates.own.push(volume.clone());
            } else if volume.is_available
                && selector.is_none_or(|selector| selector.matches(|key| volume.labels.get(key)))
                && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
            {
                candidates.free.push(volume.clone());
            }
        }
        candidates.own.sort_by(|a, b| a.name.cmp(&b.name));
        candidates.free.sort_by(|a, b| a.capacity.cmp(&b.capacity).then_with(|| a.name.cmp(&b.name)));
        Ok(candidates)
    }

    /// The volume that the claim gets on a node. If one is made for it, that one or none.
    fn find(&self, labels: &Labels, is_free: impl Fn(&Volume) -> bool) -> Option<&Arc<Volume>> {
        let reaches =
            |volume: &Volume| volume.affinity.as_ref().is_none_or(|affinity| selects(affinity, labels));
        match self.own.iter().find(|volume| is_free(volume)) {
            Some(own) => reaches(own).then_some(own),
            None => self.free.iter().find(|volume| is_free(volume) && reaches(volume)),
        }
    }
}

// === impl Room ===

impl Room {
    fn new(claim: &Claim, class: &Class, storage: &Storage) -> Room {
        let Some(request) = &claim.request else { return Room::Unknown };
        match storage.driver(&class.provisioner) {
            None => return Room::Unknown,
            Some(Ok(driver)) if !driver.tracks_capacity => return Room::Unknown,
            Some(Ok(_)) => {}
            Some(Err(why)) => return Room::On(Vec::new(), Some(why.clone())),
        }
        let (mut nodes, mut lost, bytes) = (Vec::new(), None, request.value());
        for capacity in storage.capacities(&claim.class) {
            match capacity {
                Ok(capacity) if capacity.largest.is_some_and(|largest| largest >= bytes) => {
                    nodes.extend(capacity.nodes.clone());
                }
                Ok(_) => {}
                Err(why) => lost = lost.or(Some(why.clone())),
            }
        }
        Room::On(nodes, lost)
    }
}

/// A claim of the pod came or changed, or there are other volumes to be had.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    let About::Thing { old, new } = hint.event.about else { return true };
    let (Some(own), Some(thing)) = (hint.volumes, new.or(old)) else { return true };
    match (&thing.details, old.map(|old| &old.details)) {
        // Of the details only a claim has none.
        (Details::None, _) => hint.has_claim(own, thing),
        (
            Details::StorageClass { topologies, .. },
            Some(Details::StorageClass { topologies: before, .. }),
        ) => topologies != before,
        (Details::CsiNode { migrated, .. }, Some(Details::CsiNode { migrated: before, .. })) => {
            migrated != before
        }
        (Details::CsiDriver { tracks_capacity }, Some(Details::CsiDriver { tracks_capacity: before })) => {
            *before && !tracks_capacity && own.is_of_driver(&thing.name)
        }
        (Details::CsiStorageCapacity { most }, Some(Details::CsiStorageCapacity { most: before })) => {
            most.is_some() && most > before
        }
        _ => true,
    }
}
