//! Requests against what a node has left, and how much would be left as a score.

use kubernetes::amounts::{Resource, ScalarNames, is_extended};

use super::registration::{Filter, Registration};
use crate::events::{About, Details, Hint, Sort, Thing, ThingKind};
use crate::node::{Load, NodeSpec};
use crate::plugin::{ExtensionPoint, Plugin};
use crate::pod::{Pod, Shape};
use crate::settings::{FitArgs, Strategy, Version};
use crate::verdict::{Code, Reasons, Refusal};
use crate::world::Relations;

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "NodeResourcesFit",
    points: |_| {
        &[
            ExtensionPoint::PreFilter,
            ExtensionPoint::Filter,
            ExtensionPoint::PreScore,
            ExtensionPoint::Score,
            ExtensionPoint::PlacementScore,
        ]
    },
    filter: Some(
        Filter::OF_NODE_AND_PODS
            .unprepared(r#"error reading "PreFilterNodeResourcesFit" from cycleState: not found"#),
    ),
    weight: 1,
    events: &[
        Sort::NodeAdded,
        Sort::NodeAllocatable,
        Sort::PodDeleted,
        Sort::PodScaledDown,
        Sort::Added(ThingKind::DeviceClass),
        Sort::Changed(ThingKind::DeviceClass),
    ],
    queueing_hint,
    ..Registration::EMPTY
};

/// How a profile compares requests with what nodes have.
#[derive(Clone, Debug)]
pub(crate) struct Fit {
    args: FitArgs,
    resources: Vec<(Resource, i64)>,
    version: Version,
}

const MOST: i64 = 100;

impl Fit {
    pub(crate) fn new(args: &FitArgs, version: Version, scalars: &mut ScalarNames) -> Fit {
        let resources =
            args.resources.iter().map(|(name, weight)| (scalars.resource(name), *weight)).collect();
        Fit { args: args.clone(), resources, version }
    }

    /// Whether the node has enough left of everything.
    pub(crate) fn filter(
        &self,
        shape: &Shape,
        node: &NodeSpec,
        load: &Load,
        scalars: &ScalarNames,
        relations: &Relations,
    ) -> Result<(), Refusal> {
        let mut reasons = Reasons::new();
        let mut hopeless = false;
        if load.pods.len() as i64 + 1 > node.pods {
            reasons.push("Too many pods".into());
        }
        let asked = &shape.requests;
        if !asked.is_nothing() {
            let (has, used) = (&node.allocatable, &load.requested);
            let mut check = |wanted: i64, has: i64, used: i64, reason: &'static str| {
                if wanted > 0 && wanted > has.wrapping_sub(used) {
                    reasons.push(reason.into());
                    hopeless |= wanted > has;
                }
            };
            check(asked.cpu, has.cpu, used.cpu, "Insufficient cpu");
            check(asked.memory, has.memory, used.memory, "Insufficient memory");
            check(
                asked.ephemeral_storage,
                has.ephemeral_storage,
                used.ephemeral_storage,
                "Insufficient ephemeral-storage",
            );
            let named = reasons.len();
            for &(id, wanted) in &asked.scalars {
                let (has, used) = (has.scalar(id), used.scalar(id));
                if wanted == 0 || wanted <= has.wrapping_sub(used) {
                    continue;
                }
                let name = scalars.name(id);
                if self.ignores(name)
                    || (has == 0 && self.version >= Version::V1_36 && relations.is_device(name))
                {
                    continue;
                }
                reasons.push(format!("Insufficient {name}").into());
                hopeless |= wanted > has;
            }
            // The original has no order here, and ours must not depend on who was the first to name a resource.
            reasons[named..].sort_unstable();
        }
        if reasons.is_empty() {
            return Ok(());
        }
        let unresolvable = hopeless && self.version >= Version::V1_34;
        let code = if unresolvable { Code::UnschedulableAndUnresolvable } else { Code::Unschedulable };
        Err(Refusal { plugin: Plugin::NodeResourcesFit, code, reasons })
    }

    /// How well the node would be filled.
    pub(crate) fn score(&self, shape: &Shape, node: &NodeSpec, load: &Load) -> i64 {
        let (mut sum, mut weights) = (0_i64, 0_i64);
        for &(resource, weight) in &self.resources {
            let wanted = shape.scored_requests.get(resource);
            let has = node.allocatable.get(resource);
            if has == 0 || (wanted == 0 && matches!(resource, Resource::Scalar(_))) {
                continue;
            }
            let used = match resource {
                Resource::Cpu => load.scored_cpu,
                Resource::Memory => load.scored_memory,
                other => load.requested.get(other),
            };
            let used = used.wrapping_add(wanted);
            let score = match &self.args.strategy {
                Strategy::LeastAllocated => {
                    if used > has {
                        0
                    } else {
                        has.wrapping_sub(used).wrapping_mul(MOST).wrapping_div(has)
                    }
                }
                Strategy::MostAllocated => used.min(has).wrapping_mul(MOST).wrapping_div(has),
                Strategy::RequestedToCapacityRatio(curve) => on_curve(curve, used, has),
            };
            if score > 0 || !matches!(self.args.strategy, Strategy::RequestedToCapacityRatio(_)) {
                sum = sum.wrapping_add(score.wrapping_mul(weight));
                weights = weights.wrapping_add(weight);
            }
        }
        match (weights, &self.args.strategy) {
            (0, _) => 0,
            (_, Strategy::RequestedToCapacityRatio(_)) => (sum as f64 / weights as f64).round() as i64,
            _ => sum.wrapping_div(weights),
        }
    }

    /// Extended resources that do not count.
    /// Whether a resource of that name is somebody else's business.
    pub(crate) fn ignores(&self, name: &str) -> bool {
        let group = name.split('/').next().unwrap_or(name);
        is_extended(name)
            && (self.args.ignored_resources.iter().any(|other| **other == *name)
                || self.args.ignored_groups.iter().any(|other| **other == *group))
    }
}

/// The score at a utilization, from 0 to 100, between the points of the curve.
fn on_curve(curve: &[(i64, i64)], used: i64, has: i64) -> i64 {
    let utilization = if used > has { 100 } else { used.wrapping_mul(100).wrapping_div(has) };
    let mut before: Option<(i64, i64)> = None;
    for &(x, y) in curve {
        let y = y * 10;
        if utilization <= x {
            return match before {
                None => y,
                Some((x0, y0)) => y0 + (y - y0) * (utilization - x0) / (x - x0),
            };
        }
        before = Some((x, y));
    }
    before.map_or(0, |(_, y)| y)
}

/// A node on which the pod would fit, a pod that left or takes less, a class of devices that stands for what it asks for.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    match hint.event.about {
        About::Node { old, new: Some(new) } => fits_now(hint, old, new),
        About::Node { new: None, .. } => true,
        About::Pod { old: Some(gone), new: None, .. } => gone.is_held(),
        About::Pod { old: Some(old), new: Some(new), .. } => {
            hint.is_about_itself() || (new.node_name.is_some() && frees(hint.pod, old, new))
        }
        About::Pod { old: None, .. } => true,
        About::Thing { old, new } => new.or(old).is_none_or(|class| is_device_wanted(hint, old, class)),
    }
}

/// Whether the pod would fit on the node if nobody else were there, and something that it needs grew.
fn fits_now(hint: &Hint<'_>, old: Option<&NodeSpec>, new: &NodeSpec) -> bool {
    let (asked, world) = (&hint.pod.shape.requests, hint.world);
    let by_device = |id, has: i64| has == 0 && world.relations.is_device(world.scalars.name(id));
    let has = &new.allocatable;
    let fits = new.pods >= 1
        && (asked.is_nothing()
            || (asked.cpu <= has.cpu.max(0)
                && asked.memory <= has.memory.max(0)
                && asked.ephemeral_storage <= has.ephemeral_storage.max(0)
                && asked.scalars.iter().all(|&(id, wanted)| {
                    let has = has.scalar(id);
                    wanted == 0 || wanted <= has || by_device(id, has)
                })));
    let Some(old) = old.filter(|_| fits) else { return fits };
    let had = &old.allocatable;
    new.pods > old.pods
        || (asked.cpu > 0 && has.cpu > had.cpu)
        || (asked.memory > 0 && has.memory > had.memory)
        || (asked.ephemeral_storage > 0 && has.ephemeral_storage > had.ephemeral_storage)
        || asked.scalars.iter().any(|&(id, wanted)| {
            let now = has.scalar(id);
            wanted != 0 && (now > had.scalar(id) || by_device(id, now))
        })
}

/// Whether another pod takes less of something that the pod asks for.
fn frees(pod: &Pod, old: &Pod, new: &Pod) -> bool {
    let (asked, old, new) = (&pod.usage.requested, &old.usage.requested, &new.usage.requested);
    (asked.cpu != 0 && old.cpu > new.cpu)
        || (asked.memory != 0 && old.memory > new.memory)
        || (asked.ephemeral_storage != 0 && old.ephemeral_storage > new.ephemeral_storage)
        || asked.scalars.iter().any(|&(id, wanted)| wanted != 0 && old.scalar(id) > new.scalar(id))
}

/// Whether a class of devices stands for a resource that the pod asks for, and did not before.
fn is_device_wanted(hint: &Hint<'_>, old: Option<&Thing>, class: &Thing) -> bool {
    let asked = |name: &str| {
        let mut scalars = hint.pod.shape.requests.scalars.iter();
        scalars.any(|(id, _)| **hint.world.scalars.name(*id) == *name)
    };
    let name_of = |class: &Thing| match &class.details {
        Details::DeviceClass { resource } => resource.clone(),
        _ => None,
    };
    let resource = name_of(class);
    match old {
        Some(old) if name_of(old).unwrap_or_default() == resource.clone().unwrap_or_default() => false,
        None if asked(&format!("deviceclass.resource.kubernetes.io/{}", class.name)) => true,
        _ => resource.is_some_and(|resource| asked(&resource)),
    }
}
