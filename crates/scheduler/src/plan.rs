//! What a decision about a pod needs to know of the rest of the cluster, found once and kept: the same for all pods of
//! one shape with the same labels.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::ids::PodId;
use super::plugin::Plugin;
use super::plugins::{inter_pod_affinity, pod_topology_spread};
use super::pod::Controller;
use super::rules::Rules;
use super::world::World;

/// What a decision about a pod needs to know.
#[derive(Clone, Debug, Default)]
pub(super) struct Plan {
    pub hard: pod_topology_spread::Hard,
    pub soft: pod_topology_spread::Soft,
    pub affinity: inter_pod_affinity::Plan,
}

/// Plans made before.
#[derive(Debug, Default)]
pub(super) struct Plans {
    kept: FxHashMap<Wanted, Arc<Plan>>,
    generation: (u64, u64),
}

/// For whom a plan is: a shape and an identity, and the controller whose selector counts.
type Wanted = ((u64, u64), Option<Controller>);

/// More plans than this are not kept.
const PLANS_KEPT: usize = 4096;

impl Plans {
    pub(super) fn plan(&mut self, world: &mut World, rules: &Rules, pod: PodId) -> Arc<Plan> {
        world.tidy();
        if self.generation != world.plan_generation() || self.kept.len() >= PLANS_KEPT {
            self.forget();
            self.generation = world.plan_generation();
        }
        let key = (world.kind_of(pod), world.pod(pod).controller.clone());
        if let Some(plan) = self.kept.get(&key) {
            return plan.clone();
        }
        let plan = Arc::new(make(world, rules, pod));
        self.kept.insert(key, plan.clone());
        plan
    }

    pub(super) fn forget(&mut self) {
        self.kept.clear();
    }
}

fn make(world: &mut World, rules: &Rules, id: PodId) -> Plan {
    let pod = world.pod(id).clone();
    let profile = &rules.profile;
    let mut plan = Plan::default();
    if profile.filter.contains(&Plugin::PodTopologySpread) {
        plan.hard = pod_topology_spread::Hard::plan(world, &profile.spread, &pod);
    }
    let scores = |plugin: Plugin| profile.score.iter().any(|(other, _)| *other == plugin);
    if scores(Plugin::PodTopologySpread) {
        plan.soft = pod_topology_spread::Soft::plan(world, &profile.spread, &pod);
    }
    plan.affinity = inter_pod_affinity::Plan::new(world, profile.inter_pod_affinity, rules.version, &pod);
    plan
}
