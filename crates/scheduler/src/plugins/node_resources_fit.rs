//! NodeResourcesFit: requests against a node's free resources, and scores by its utilization.

use kubernetes::amounts::{Resource, ResourceAmounts, ScalarResourceNames, is_extended_resource_name};

use super::registration::{FilterTraits, Registration};
use crate::cache::RelatedObjects;
use crate::events::{
    ClusterEvent, EventObjects, HintContext, TrackedDetails, TrackedObject, TrackedObjectKind,
};
use crate::node::{Node, NodeUsage};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::{Pod, SchedulingSpec};
use crate::settings::{NodeResourcesFitArgs, ScoringStrategy, Version};
use crate::status::{Code, Reasons, Status};

pub(crate) const REGISTRATION: Registration = Registration::new("NodeResourcesFit", |_| {
    &[
        ExtensionPoint::PreFilter,
        ExtensionPoint::Filter,
        ExtensionPoint::PreScore,
        ExtensionPoint::Score,
        ExtensionPoint::PlacementScore,
    ]
})
.filter(
    FilterTraits::NODE_WITH_PODS
        .with_missing_state_error(r#"error reading "PreFilterNodeResourcesFit" from cycleState: not found"#),
)
.weight(1)
.events(&[
    ClusterEvent::NodeAdd,
    ClusterEvent::UpdateNodeAllocatable,
    ClusterEvent::AssignedPodDelete,
    ClusterEvent::UpdatePodScaleDown,
    ClusterEvent::Add(TrackedObjectKind::DeviceClass),
    ClusterEvent::Update(TrackedObjectKind::DeviceClass),
])
.queueing_hint(queueing_hint);

/// The plugin with a profile's arguments.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    args: NodeResourcesFitArgs,
    resources: Vec<(Resource, i64)>,
    version: Version,
}

const MAX_NODE_SCORE: i64 = 100;

impl Fit {
    pub(crate) fn new(
        args: &NodeResourcesFitArgs,
        version: Version,
        scalars: &mut ScalarResourceNames,
    ) -> Fit {
        let resources =
            args.resources.iter().map(|(name, weight)| (scalars.resource(name), *weight)).collect();
        Fit { args: args.clone(), resources, version }
    }

    /// Rejects a node without enough free resources, if it has `pod_count` pods that request `used` in total.
    pub(crate) fn filter(
        &self,
        spec: &SchedulingSpec,
        node: &Node,
        (pod_count, used): (usize, &ResourceAmounts),
        scalars: &ScalarResourceNames,
        related_objects: &RelatedObjects,
    ) -> Result<(), Status> {
        let mut reasons = Reasons::new();
        let mut exceeds_allocatable = false;
        if pod_count as i64 + 1 > node.allowed_pods {
            reasons.push("Too many pods".into());
        }
        let requests = &spec.requests;
        if !requests.is_empty() {
            let allocatable = &node.allocatable;
            let mut check = |requested: i64, allocatable: i64, used: i64, reason: &'static str| {
                if requested > 0 && requested > allocatable.wrapping_sub(used) {
                    reasons.push(reason.into());
                    exceeds_allocatable |= requested > allocatable;
                }
            };
            check(requests.cpu, allocatable.cpu, used.cpu, "Insufficient cpu");
            check(requests.memory, allocatable.memory, used.memory, "Insufficient memory");
            check(
                requests.ephemeral_storage,
                allocatable.ephemeral_storage,
                used.ephemeral_storage,
                "Insufficient ephemeral-storage",
            );
            let scalars_start = reasons.len();
            for &(id, requested) in &requests.scalars {
                let (allocatable, used) = (allocatable.scalar(id), used.scalar(id));
                if requested == 0 || requested <= allocatable.wrapping_sub(used) {
                    continue;
                }
                let name = scalars.name(id);
                if self.ignores(name)
                    || (allocatable == 0
                        && self.version >= Version::V1_36
                        && related_objects.is_device_class_resource(name))
                {
                    continue;
                }
                reasons.push(format!("Insufficient {name}").into());
                exceeds_allocatable |= requested > allocatable;
            }
            // kube-scheduler's order is that of a Go map here; ours must not depend on the order in which resource
            // names were interned.
            reasons[scalars_start..].sort_unstable();
        }
        if reasons.is_empty() {
            return Ok(());
        }
        let unresolvable = exceeds_allocatable && self.version >= Version::V1_34;
        let code = if unresolvable { Code::UnschedulableAndUnresolvable } else { Code::Unschedulable };
        Err(Status { plugin: Plugin::NodeResourcesFit, code, reasons })
    }

    /// The score of a node by the profile's scoring strategy.
    pub(crate) fn score(&self, spec: &SchedulingSpec, node: &Node, usage: &NodeUsage) -> i64 {
        let (mut sum, mut weight_sum) = (0_i64, 0_i64);
        for &(resource, weight) in &self.resources {
            let requested = spec.non_zero_requests.get(resource);
            let allocatable = node.allocatable.get(resource);
            if allocatable == 0 || (requested == 0 && matches!(resource, Resource::Scalar(_))) {
                continue;
            }
            let used = match resource {
                Resource::Cpu => usage.non_zero_cpu,
                Resource::Memory => usage.non_zero_memory,
                other => usage.requested.get(other),
            };
            let used = used.wrapping_add(requested);
            let score = match &self.args.strategy {
                ScoringStrategy::LeastAllocated => {
                    if used > allocatable {
                        0
                    } else {
                        allocatable.wrapping_sub(used).wrapping_mul(MAX_NODE_SCORE).wrapping_div(allocatable)
                    }
                }
                ScoringStrategy::MostAllocated => {
                    used.min(allocatable).wrapping_mul(MAX_NODE_SCORE).wrapping_div(allocatable)
                }
                ScoringStrategy::RequestedToCapacityRatio(curve) => {
                    score_at_utilization(curve, used, allocatable)
                }
            };
            if score > 0 || !matches!(self.args.strategy, ScoringStrategy::RequestedToCapacityRatio(_)) {
                sum = sum.wrapping_add(score.wrapping_mul(weight));
                weight_sum = weight_sum.wrapping_add(weight);
            }
        }
        match (weight_sum, &self.args.strategy) {
            (0, _) => 0,
            (_, ScoringStrategy::RequestedToCapacityRatio(_)) => {
                (sum as f64 / weight_sum as f64).round() as i64
            }
            _ => sum.wrapping_div(weight_sum),
        }
    }

    /// Whether a resource is an ignored extended resource.
    pub(crate) fn ignores(&self, name: &str) -> bool {
        let group = name.split('/').next().unwrap_or(name);
        is_extended_resource_name(name)
            && (self.args.ignored_resources.iter().any(|other| **other == *name)
                || self.args.ignored_groups.iter().any(|other| **other == *group))
    }
}

/// The score at a utilization from 0 to 100, interpolated between the points of the shape.
fn score_at_utilization(curve: &[(i64, i64)], used: i64, allocatable: i64) -> i64 {
    let utilization = if used > allocatable { 100 } else { used.wrapping_mul(100).wrapping_div(allocatable) };
    let mut previous_point: Option<(i64, i64)> = None;
    for &(x, y) in curve {
        let y = y * 10;
        if utilization <= x {
            return match previous_point {
                None => y,
                Some((x0, y0)) => y0 + (y - y0) * (utilization - x0) / (x - x0),
            };
        }
        previous_point = Some((x, y));
    }
    previous_point.map_or(0, |(_, y)| y)
}

/// A node on which the pod would fit, a pod that was deleted or scaled down, or a device class that backs a requested
/// resource.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    match hint.event.objects {
        EventObjects::Node { old, new: Some(new) } => schedulable_after_node_change(hint, old, new),
        EventObjects::Node { new: None, .. } => true,
        EventObjects::Pod { old: Some(deleted_pod), new: None, .. } => deleted_pod.is_assigned_or_nominated(),
        EventObjects::Pod { old: Some(old), new: Some(new), .. } => {
            hint.is_own_pod_event()
                || (new.node_name.is_some() && frees_requested_resource(hint.pod, old, new))
        }
        EventObjects::Pod { old: None, .. } => true,
        EventObjects::Tracked { old, new } => {
            new.or(old).is_none_or(|class| schedulable_after_device_class_change(hint, old, class))
        }
    }
}

/// Whether the pod would fit on the empty node, and a resource that it requests grew.
fn schedulable_after_node_change(hint: &HintContext<'_>, old: Option<&Node>, new: &Node) -> bool {
    let (requests, cache) = (&hint.pod.spec.requests, hint.cache);
    let is_device_backed =
        |id, has: i64| has == 0 && cache.related_objects.is_device_class_resource(cache.scalars.name(id));
    let allocatable = &new.allocatable;
    let fits = new.allowed_pods >= 1
        && (requests.is_empty()
            || (requests.cpu <= allocatable.cpu.max(0)
                && requests.memory <= allocatable.memory.max(0)
                && requests.ephemeral_storage <= allocatable.ephemeral_storage.max(0)
                && requests.scalars.iter().all(|&(id, requested)| {
                    let allocatable = allocatable.scalar(id);
                    requested == 0 || requested <= allocatable || is_device_backed(id, allocatable)
                })));
    let Some(old) = old.filter(|_| fits) else { return fits };
    let old_allocatable = &old.allocatable;
    new.allowed_pods > old.allowed_pods
        || (requests.cpu > 0 && allocatable.cpu > old_allocatable.cpu)
        || (requests.memory > 0 && allocatable.memory > old_allocatable.memory)
        || (requests.ephemeral_storage > 0
            && allocatable.ephemeral_storage > old_allocatable.ephemeral_storage)
        || requests.scalars.iter().any(|&(id, requested)| {
            let new_amount = allocatable.scalar(id);
            requested != 0 && (new_amount > old_allocatable.scalar(id) || is_device_backed(id, new_amount))
        })
}

/// Whether another pod's request of a resource that the pod requests was reduced.
fn frees_requested_resource(pod: &Pod, old: &Pod, new: &Pod) -> bool {
    let (requests, old, new) = (&pod.usage.requested, &old.usage.requested, &new.usage.requested);
    (requests.cpu != 0 && old.cpu > new.cpu)
        || (requests.memory != 0 && old.memory > new.memory)
        || (requests.ephemeral_storage != 0 && old.ephemeral_storage > new.ephemeral_storage)
        || requests.scalars.iter().any(|&(id, requested)| requested != 0 && old.scalar(id) > new.scalar(id))
}

/// Whether a device class backs a resource that the pod requests, and did not before.
fn schedulable_after_device_class_change(
    hint: &HintContext<'_>,
    old: Option<&TrackedObject>,
    class: &TrackedObject,
) -> bool {
    let is_requested = |name: &str| {
        let mut scalars = hint.pod.spec.requests.scalars.iter();
        scalars.any(|(id, _)| **hint.cache.scalars.name(*id) == *name)
    };
    let resource_name = |class: &TrackedObject| match &class.details {
        TrackedDetails::DeviceClass { extended_resource_name: resource } => resource.clone(),
        _ => None,
    };
    let resource = resource_name(class);
    match old {
        Some(old) if resource_name(old).unwrap_or_default() == resource.clone().unwrap_or_default() => false,
        None if is_requested(&format!("deviceclass.resource.kubernetes.io/{}", class.name)) => true,
        _ => resource.is_some_and(|resource| is_requested(&resource)),
    }
}
