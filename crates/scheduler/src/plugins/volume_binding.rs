//! VolumeBinding: bound claims and the nodes of their volumes, and volumes for unbound claims.

#[cfg(test)]
mod tests;

use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::selector::Selector;
use smallvec::{SmallVec, smallvec};

use super::registration::{FilterTraits, Registration};
use super::volume_context::{VolumeNode, VolumePod, unreadable_status};
use crate::events::{ClusterEvent, EventObjects, HintContext, TrackedDetails, TrackedObjectKind};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::status::{Code, Status};
use crate::storage::{
    InTreeVolume, NodeVolumes, PersistentVolume, PersistentVolumeClaim, PodVolume, StorageCache,
    StorageClass, UnreadableObject, VolumeBindingMode, VolumeError, VolumeReservation,
};

pub(crate) const REGISTRATION: Registration = Registration::new("VolumeBinding", |_| {
    &[
        ExtensionPoint::PreFilter,
        ExtensionPoint::Filter,
        ExtensionPoint::PreScore,
        ExtensionPoint::Score,
        ExtensionPoint::Reserve,
        ExtensionPoint::PreBind,
    ]
})
.filter(FilterTraits::CLUSTER.with_missing_state_error("not found"))
.events(&[
    ClusterEvent::NodeAdd,
    ClusterEvent::UpdateNodeLabel,
    ClusterEvent::Add(TrackedObjectKind::PersistentVolumeClaim),
    ClusterEvent::Add(TrackedObjectKind::PersistentVolume),
    ClusterEvent::Add(TrackedObjectKind::StorageClass),
    ClusterEvent::Add(TrackedObjectKind::CsiNode),
    ClusterEvent::Add(TrackedObjectKind::CsiStorageCapacity),
    ClusterEvent::Update(TrackedObjectKind::PersistentVolumeClaim),
    ClusterEvent::Update(TrackedObjectKind::PersistentVolume),
    ClusterEvent::Update(TrackedObjectKind::StorageClass),
    ClusterEvent::Update(TrackedObjectKind::CsiNode),
    ClusterEvent::Update(TrackedObjectKind::CsiDriver),
    ClusterEvent::Update(TrackedObjectKind::CsiStorageCapacity),
])
.queueing_hint(queueing_hint);

const PLUGIN: Plugin = Plugin::VolumeBinding;

/// The claims of a pod, bound and unbound.
#[derive(Clone, Debug)]
pub(crate) struct VolumeBindingState {
    bound: Vec<BoundVolume>,
    /// Claims with a selected node, which are to be provisioned there, in the pod's order.
    claims_to_provision: Vec<UnboundClaim>,
    /// All other unbound claims, by request, the smallest first.
    claims_to_find: Vec<UnboundClaim>,
}

/// The volume of a bound claim.
#[derive(Clone, Debug)]
enum BoundVolume {
    Missing,
    Unreadable(Arc<UnreadableObject>),
    Volume(Arc<PersistentVolume>),
}

/// An unbound claim.
#[derive(Clone, Debug)]
struct UnboundClaim {
    claim: Arc<PersistentVolumeClaim>,
    class: Arc<StorageClass>,
    candidates: Result<CandidateVolumes, Status>,
    capacity: ProvisioningCapacity,
}

/// The volumes that a claim can be bound to.
#[derive(Clone, Debug, Default)]
struct CandidateVolumes {
    /// Pre-bound to this claim, by name.
    pre_bound: Vec<Arc<PersistentVolume>>,
    /// Available volumes by capacity, then by name.
    free: Vec<Arc<PersistentVolume>>,
}

/// The storage capacity for provisioning a volume.
#[derive(Clone, Debug)]
enum ProvisioningCapacity {
    /// The driver does not track capacity.
    Unchecked,
    /// Enough on the nodes that one of these selects. With an unreadable object it is unknown for other nodes.
    OnNodes(Vec<Selector>, Option<Arc<UnreadableObject>>),
}

/// The bindings and provisionings of a pod's claims on one node.
#[derive(Debug, Default)]
struct FoundVolumes<'a> {
    binds: SmallVec<[(&'a PersistentVolumeClaim, &'a Arc<PersistentVolume>); 2]>,
    provisions: SmallVec<[&'a UnboundClaim; 2]>,
}

pub(crate) fn pre_filter(
    pod: VolumePod<'_>,
    storage: &StorageCache,
) -> Result<Option<VolumeBindingState>, Status> {
    if !check_claims(pod, storage)? {
        return Ok(None);
    }
    let mut state =
        VolumeBindingState { bound: Vec::new(), claims_to_provision: Vec::new(), claims_to_find: Vec::new() };
    let mut waits_for_volume = false;
    for name in pod.volumes.claims() {
        let Some(claim) = storage.latest_claim(pod.namespace, name) else { continue };
        let claim = claim.map_err(|error| unreadable_status(PLUGIN, error))?;
        if claim.is_bound {
            state.bound.push(match storage.latest_volume(&claim.volume) {
                None => BoundVolume::Missing,
                Some(Ok(volume)) => BoundVolume::Volume(volume.clone()),
                Some(Err(error)) => BoundVolume::Unreadable(error.clone()),
            });
            continue;
        }
        match delay_binding_class(claim, storage)? {
            Some(class) if claim.volume.is_empty() => {
                let unbound = UnboundClaim::new(claim, class, storage);
                match claim.selected_node {
                    Some(_) => state.claims_to_provision.push(unbound),
                    None => state.claims_to_find.push(unbound),
                }
            }
            _ => waits_for_volume = true,
        }
    }
    if waits_for_volume {
        return Err(Status::unresolvable(PLUGIN, "pod has unbound immediate PersistentVolumeClaims"));
    }
    state.claims_to_find.sort_by_cached_key(|unbound| unbound.claim.requested());
    Ok(Some(state))
}

pub(crate) fn filter(state: &VolumeBindingState, node: &VolumeNode<'_>) -> Result<(), Status> {
    find_pod_volumes(state, node).map(drop)
}

/// Reserves volumes for the pod's claims on the node.
pub(crate) fn reserve(
    state: &VolumeBindingState,
    node: &VolumeNode<'_>,
) -> Result<VolumeReservation, Status> {
    let found = find_pod_volumes(state, node)?;
    let mut reservation = VolumeReservation::default();
    found.binds.iter().for_each(|(claim, volume)| reservation.bind(claim, volume));
    found.provisions.iter().for_each(|unbound| reservation.provision(&unbound.claim, node.name));
    Ok(reservation)
}

/// Returns whether the pod has claims. Fails if one is missing, lost or being deleted.
fn check_claims(pod: VolumePod<'_>, storage: &StorageCache) -> Result<bool, Status> {
    let reject = |error: String| Err(Status::unresolvable(PLUGIN, error));
    let mut has_claims = false;
    for volume in &pod.volumes.volumes {
        let (name, is_ephemeral) = match volume {
            PodVolume::Claim(name) => (name, false),
            PodVolume::Ephemeral(name) => (name, true),
            PodVolume::Inline { .. } => continue,
        };
        has_claims = true;
        let Some(claim) = storage.claim(pod.namespace, name) else {
            return reject(match is_ephemeral {
                true => format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
                ),
                false => VolumeError::claim_not_found(name),
            });
        };
        let claim = claim.as_ref().map_err(|error| unreadable_status(PLUGIN, error))?;
        if claim.is_lost {
            let volume = &claim.volume;
            return reject(format!(
                "persistentvolumeclaim {name:?} bound to non-existent persistentvolume {volume:?}"
            ));
        }
        if claim.is_deleting {
            return reject(format!("persistentvolumeclaim {name:?} is being deleted"));
        }
        if is_ephemeral && let Err(error) = pod.volumes.check_owner(claim) {
            return reject(error);
        }
    }
    Ok(has_claims)
}

/// The class of a claim, if its binding mode is `WaitForFirstConsumer`.
fn delay_binding_class<'s>(
    claim: &PersistentVolumeClaim,
    storage: &'s StorageCache,
) -> Result<Option<&'s Arc<StorageClass>>, Status> {
    let Some(class) = storage.class(&claim.class) else { return Ok(None) };
    let class = class.as_ref().map_err(|error| unreadable_status(PLUGIN, error))?;
    match class.binding_mode {
        Some(VolumeBindingMode::WaitForFirstConsumer) => Ok(Some(class)),
        Some(VolumeBindingMode::Immediate) => Ok(None),
        None => Err(error_status(format!("VolumeBindingMode not set for StorageClass {:?}", claim.class))),
    }
}

fn find_pod_volumes<'a>(
    state: &'a VolumeBindingState,
    node: &VolumeNode<'_>,
) -> Result<FoundVolumes<'a>, Status> {
    let mut reasons: SmallVec<[&'static str; 2]> = SmallVec::new();
    let mut is_volume_missing = false;
    for bound in &state.bound {
        match bound {
            BoundVolume::Volume(volume) if is_reachable(volume, node)? => continue,
            BoundVolume::Volume(_) => reasons.push("node(s) didn't match PersistentVolume's node affinity"),
            BoundVolume::Unreadable(error) => return Err(unreadable_status(PLUGIN, error)),
            BoundVolume::Missing => is_volume_missing = true,
        }
        break;
    }
    let mut found = FoundVolumes::default();
    match check_unbound_claims(state, node, &mut found)? {
        UnmetClaims::Nothing => {}
        UnmetClaims::Volume => reasons.push("node(s) didn't find available persistent volumes to bind"),
        UnmetClaims::Capacity => reasons.push("node(s) did not have enough free storage"),
    }
    if is_volume_missing {
        reasons.push("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)");
    }
    if reasons.is_empty() {
        return Ok(found);
    }
    let reasons = reasons.into_iter().map(Into::into).collect();
    Err(Status { plugin: PLUGIN, code: Code::UnschedulableAndUnresolvable, reasons })
}

/// What unbound claims lack on a node.
enum UnmetClaims {
    Nothing,
    Volume,
    Capacity,
}

fn check_unbound_claims<'a>(
    state: &'a VolumeBindingState,
    node: &VolumeNode<'_>,
    found: &mut FoundVolumes<'a>,
) -> Result<UnmetClaims, Status> {
    let is_elsewhere = |unbound: &UnboundClaim| unbound.claim.selected_node.as_ref() != Some(node.name);
    if state.claims_to_provision.iter().any(is_elsewhere) {
        return Ok(UnmetClaims::Volume);
    }
    found.provisions.extend(&state.claims_to_provision);
    let mut taken_volumes: SmallVec<[&Arc<str>; 2]> = SmallVec::new();
    for unbound in &state.claims_to_find {
        let candidates = unbound.candidates.as_ref().map_err(Status::clone)?;
        match candidates.find(node.labels, |volume| !taken_volumes.contains(&&volume.name)) {
            Some(volume) => {
                taken_volumes.push(&volume.name);
                found.binds.push((&unbound.claim, volume));
            }
            None => found.provisions.push(unbound),
        }
    }
    for unbound in &found.provisions {
        if !unbound.class.can_provision() || !unbound.class.allows_topology(node.labels) {
            return Ok(UnmetClaims::Volume);
        }
        if !unbound.has_capacity(node.labels)? {
            return Ok(UnmetClaims::Capacity);
        }
    }
    Ok(UnmetClaims::Nothing)
}

/// Whether the volume of a bound claim is reachable from a node.
fn is_reachable(volume: &PersistentVolume, node: &VolumeNode<'_>) -> Result<bool, Status> {
    let mut affinity = &volume.affinity;
    if let Some(InTreeVolume { plugin, migrated }) = &volume.in_tree
        && let Some(migrated_plugins) = node.volumes.and_then(NodeVolumes::migrated_plugins)
        && migrated_plugins.map_err(|error| unreadable_status(PLUGIN, error))?.contains(*plugin)
    {
        let translation_error = |error: &String| error_status(format!("could not translate pv: {error}"));
        affinity = &migrated.as_ref().map_err(translation_error)?.affinity;
    }
    Ok(affinity.as_ref().is_none_or(|affinity| selects(affinity, node.labels)))
}

/// Volumes select nodes by labels only; an invalid selector matches none.
fn selects(affinity: &kubernetes::selector::NodeSelector, labels: &Labels) -> bool {
    affinity.matches("", |key| labels.get(key)).unwrap_or(false)
}

fn error_status(error: String) -> Status {
    Status { plugin: PLUGIN, code: Code::Error, reasons: smallvec![error.into()] }
}

// === impl VolumeBindingState ===

impl VolumeBindingState {
    /// Whether the pod has only bound claims, and a node reaches their volumes. If so, the filter passes.
    #[inline]
    pub(crate) fn passes(&self, node: &VolumeNode<'_>) -> bool {
        self.claims_to_provision.is_empty()
            && self.claims_to_find.is_empty()
            && self.bound.iter().all(|bound| bound.is_reachable(node))
    }
}

// === impl BoundVolume ===

impl BoundVolume {
    fn is_reachable(&self, node: &VolumeNode<'_>) -> bool {
        match self {
            BoundVolume::Volume(volume) => matches!(is_reachable(volume, node), Ok(true)),
            BoundVolume::Missing | BoundVolume::Unreadable(_) => false,
        }
    }
}

// === impl UnboundClaim ===

impl UnboundClaim {
    fn new(
        claim: &Arc<PersistentVolumeClaim>,
        class: &Arc<StorageClass>,
        storage: &StorageCache,
    ) -> UnboundClaim {
        // A claim with a selected node is provisioned, regardless of existing volumes.
        let candidates = match claim.selected_node {
            Some(_) => Ok(CandidateVolumes::default()),
            None => CandidateVolumes::new(claim, storage),
        };
        let capacity = match class.can_provision() {
            true => ProvisioningCapacity::new(claim, class, storage),
            false => ProvisioningCapacity::Unchecked,
        };
        UnboundClaim { claim: claim.clone(), class: class.clone(), candidates, capacity }
    }

    fn has_capacity(&self, labels: &Labels) -> Result<bool, Status> {
        match &self.capacity {
            ProvisioningCapacity::Unchecked => Ok(true),
            ProvisioningCapacity::OnNodes(nodes, _)
                if nodes.iter().any(|nodes| nodes.matches(|key| labels.get(key))) =>
            {
                Ok(true)
            }
            ProvisioningCapacity::OnNodes(_, None) => Ok(false),
            ProvisioningCapacity::OnNodes(_, Some(error)) => Err(unreadable_status(PLUGIN, error)),
        }
    }
}

// === impl CandidateVolumes ===

impl CandidateVolumes {
    fn new(claim: &PersistentVolumeClaim, storage: &StorageCache) -> Result<CandidateVolumes, Status> {
        let selector = claim.selector.as_ref().map(Result::as_ref).transpose().map_err(|error| {
            let key = &claim.key;
            error_status(format!(
                "error creating internal label selector for claim: {}/{}: {error}",
                key.namespace, key.name
            ))
        })?;
        let request = claim.requested();
        let mut candidates = CandidateVolumes::default();
        for volume in storage.candidate_volumes(claim) {
            let volume = volume.map_err(|error| unreadable_status(PLUGIN, error))?;
            let is_own = volume.is_bound_to(claim);
            if volume.claim.is_some() && !is_own
                || volume.capacity < request
                || volume.mode != claim.mode
                || volume.attributes_class != claim.attributes_class
                || volume.is_deleting
            {
                continue;
            }
            if is_own {
                candidates.pre_bound.push(volume.clone());
            } else if volume.is_available
                && selector.is_none_or(|selector| selector.matches(|key| volume.labels.get(key)))
                && claim.access_modes.iter().all(|mode| volume.access_modes.contains(mode))
            {
                candidates.free.push(volume.clone());
            }
        }
        candidates.pre_bound.sort_by(|a, b| a.name.cmp(&b.name));
        candidates.free.sort_by(|a, b| a.capacity.cmp(&b.capacity).then_with(|| a.name.cmp(&b.name)));
        Ok(candidates)
    }

    /// The volume for the claim on a node. A pre-bound volume is used, or none.
    fn find(
        &self,
        labels: &Labels,
        is_free: impl Fn(&PersistentVolume) -> bool,
    ) -> Option<&Arc<PersistentVolume>> {
        let matches_node = |volume: &PersistentVolume| {
            volume.affinity.as_ref().is_none_or(|affinity| selects(affinity, labels))
        };
        match self.pre_bound.iter().find(|volume| is_free(volume)) {
            Some(pre_bound) => matches_node(pre_bound).then_some(pre_bound),
            None => self.free.iter().find(|volume| is_free(volume) && matches_node(volume)),
        }
    }
}

// === impl ProvisioningCapacity ===

impl ProvisioningCapacity {
    fn new(
        claim: &PersistentVolumeClaim,
        class: &StorageClass,
        storage: &StorageCache,
    ) -> ProvisioningCapacity {
        let Some(request) = &claim.request else { return ProvisioningCapacity::Unchecked };
        match storage.driver(&class.provisioner) {
            None => return ProvisioningCapacity::Unchecked,
            Some(Ok(driver)) if !driver.tracks_capacity => return ProvisioningCapacity::Unchecked,
            Some(Ok(_)) => {}
            Some(Err(error)) => return ProvisioningCapacity::OnNodes(Vec::new(), Some(error.clone())),
        }
        let (mut nodes, mut first_error, bytes) = (Vec::new(), None, request.value());
        for capacity in storage.capacities(&claim.class) {
            match capacity {
                Ok(capacity) if capacity.max_volume_size.is_some_and(|max_size| max_size >= bytes) => {
                    nodes.extend(capacity.nodes.clone());
                }
                Ok(_) => {}
                Err(error) => first_error = first_error.or(Some(error.clone())),
            }
        }
        ProvisioningCapacity::OnNodes(nodes, first_error)
    }
}

/// A claim of the pod was added or updated, or other volumes or capacity may be available.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    let EventObjects::Tracked { old, new } = hint.event.objects else { return true };
    let (Some(own_volumes), Some(object)) = (hint.volumes, new.or(old)) else { return true };
    match (&object.details, old.map(|old| &old.details)) {
        // Of the registered kinds only a claim has no details.
        (TrackedDetails::None, _) => hint.uses_claim(own_volumes, object),
        (
            TrackedDetails::StorageClass { allowed_topologies, .. },
            Some(TrackedDetails::StorageClass { allowed_topologies: old_value, .. }),
        ) => allowed_topologies != old_value,
        (
            TrackedDetails::CsiNode { migrated_plugins, .. },
            Some(TrackedDetails::CsiNode { migrated_plugins: old_value, .. }),
        ) => migrated_plugins != old_value,
        (
            TrackedDetails::CsiDriver { tracks_capacity },
            Some(TrackedDetails::CsiDriver { tracks_capacity: old_value }),
        ) => *old_value && !tracks_capacity && own_volumes.has_inline_csi_driver(&object.name),
        (
            TrackedDetails::CsiStorageCapacity { max_volume_size: max_size },
            Some(TrackedDetails::CsiStorageCapacity { max_volume_size: old_value }),
        ) => max_size.is_some() && max_size > old_value,
        _ => true,
    }
}
