//! Requests against what a node has left, and how much would be left as a score.

use kubernetes::amounts::{Resource, ScalarNames, is_extended};

use super::super::node::{Load, NodeSpec};
use super::super::plugin::Plugin;
use super::super::pod::Shape;
use super::super::settings::{FitArgs, Strategy, Version};
use super::super::verdict::{Code, Reasons, Refusal};
use super::super::world::Relations;

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
