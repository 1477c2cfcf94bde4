//! Scale-up: which groups could help pending pods, how many nodes of each it would take, which is chosen, and what is
//! done about it.

mod alike;
mod balance;
mod estimate;
mod execute;
mod expand;
mod pods;
mod quota;
mod tell;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use scheduler::ids::{NodeId, PodId};

use super::AutoscalingContext;
use super::cloud::GroupId;
use super::decision::{
    About, Event, Increase, LookedAt, PodList, Remaining, ScaleUp, ScaleUpOption, ScaleUpResult,
};
use super::registry::Safety;
use super::settings::Version;
use super::templates::Template;
use alike::are_alike;
use balance::{Growth, balance};
use estimate::{Limit, Manner, estimate};
use execute::execute;
use expand::{Candidate, choose};
use pods::{PodGroup, Reasons};
use quota::Quotas;

pub(crate) use tell::tell;

/// What one search for new nodes knows.
struct Search {
    pods: Vec<PodGroup>,
    /// How many nodes there are.
    nodes: i64,
    skipped: Arc<Reasons>,
    quotas: Quotas,
    /// By node group, which groups of pods a new node would take; `None` for groups that were skipped.
    takes: Vec<Option<Vec<usize>>>,
}

const NOT_READY: &str = "not ready for scale-up";
const BACKED_OFF: &str = "in backoff after failed scale-up";
const AT_MAX: &str = "max node group size reached";
const TOO_MANY_NODES: &str = "atomic scale-up exceeds cluster node count limit";
const FILTERED_OUT: &str = "expansion options filtered out and no longer considered";
const NOT_EXECUTED: &str = "scale-up execution failed";

/// Looks for nodes that would help the pods, and asks the cloud for some. `nodes` are all that there are, and those that
/// are to come.
pub(crate) fn scale_up(context: &mut AutoscalingContext<'_>, pods: &[PodId], nodes: &[NodeId]) -> ScaleUp {
    let groups = PodGroup::all(&context.cluster.snapshot, pods);
    let failed_early = |error: String| ScaleUp {
        error: Some(error),
        remaining: groups.iter().flat_map(|group| group.remaining(Arc::default())).collect(),
        ..ScaleUp::only(ScaleUpResult::Error)
    };
    let upcoming = context.registry.upcoming(context.clock);
    let unknown = upcoming.iter().filter(|upcoming| upcoming.count > 0);
    if let Some(group) =
        unknown.map(|upcoming| upcoming.group).find(|id| context.templates.get(*id).is_none())
    {
        let name = name(context, group);
        return failed_early(format!(
            "could not get upcoming nodes: failed to find template node for node group {name}"
        ));
    }
    let quotas = match Quotas::new(context, nodes) {
        Ok(quotas) => quotas,
        Err(error) => return failed_early(format!("could not create quotas tracker: {error}")),
    };
    let mut search = Search {
        pods: groups,
        nodes: nodes.len() as i64,
        skipped: Arc::default(),
        quotas,
        takes: vec![None; context.cloud.groups().len()],
    };
    search.ask_groups(context);
    let candidates = search.candidates(context);
    let mut answer = ScaleUp::only(ScaleUpResult::NoOptionsAvailable);
    answer.looked_at = search.looked_at();
    answer.options = candidates.iter().map(|candidate| search.option(context, candidate)).collect();
    answer.skipped = (*search.skipped).clone();
    if candidates.is_empty() {
        answer.remaining = search.remaining(context);
        return answer;
    }
    let (best, choice) = choose(context, &search.pods, &candidates);
    answer.choice = choice;
    let Some(best) = best.map(|place| &candidates[place]).filter(|best| best.nodes > 0) else {
        search.lose(context, |_| true, FILTERED_OUT);
        answer.remaining = search.remaining(context);
        return answer;
    };
    answer.best = Some(best.name.clone());
    answer.triggered = search.list(best).iter().cloned().collect();
    let growths = match search.plan(context, best) {
        Ok(growths) => growths,
        Err(error) => {
            search.lose(context, |_| true, NOT_EXECUTED);
            answer.remaining = search.remaining(context);
            return ScaleUp { result: ScaleUpResult::Error, error: Some(error), ..answer };
        }
    };
    if let Err(failure) = execute(context, &growths) {
        let lost = failure.lost(context, &growths);
        search.lose(context, |group| lost.contains(&group), NOT_EXECUTED);
        answer.remaining = search.remaining(context);
        answer.failed_groups = failure.groups.iter().map(|group| name(context, *group)).collect();
        return ScaleUp { result: ScaleUpResult::Error, error: Some(failure.error), ..answer };
    }
    context.registry.recalculate(&*context.cloud);
    answer.increases = increases(context, &growths);
    answer.remaining = search.remaining(context);
    let awaits = |group: &&PodGroup| group.is_schedulable && group.rejected.contains_key(&best.name);
    answer.awaiting =
        search.pods.iter().filter(awaits).flat_map(|group| group.names.iter().cloned()).collect();
    ScaleUp { result: ScaleUpResult::Successful, ..answer }
}

/// Makes groups that are below their least size larger.
pub(crate) fn to_min_size(context: &mut AutoscalingContext<'_>, nodes: &[NodeId]) -> ScaleUp {
    let mut quotas = match Quotas::new(context, nodes) {
        Ok(quotas) => quotas,
        Err(error) => {
            let error = Some(format!("could not create quotas tracker: {error}"));
            return ScaleUp { error, ..ScaleUp::only(ScaleUpResult::Error) };
        }
    };
    let mut growths = Vec::new();
    for group in all(context) {
        let (min, max) =
            (context.cloud.groups()[group.index()].min, context.cloud.groups()[group.index()].max);
        let from = context.cloud.target(group);
        if from >= min || context.registry.safety(group, context.clock, context.settings) != Safety::Safe {
            continue;
        }
        let Some(template) = context.templates.get(group) else { continue };
        let allowed = |quotas: &mut Quotas, nodes: i64| quotas.check(context, group, &template.node, nodes);
        if !allowed(&mut quotas, 1).is_ok_and(|allowed| allowed.exceeded.is_empty()) {
            continue;
        }
        let Ok(allowed) = allowed(&mut quotas, min.saturating_sub(from)) else { continue };
        // Against the size of the group, not of the cluster: so it is there too.
        let Ok(more) = capped(context, allowed.nodes, from) else { continue };
        growths.push(Growth { group, from, to: from + more, max });
    }
    if growths.is_empty() {
        return ScaleUp::only(ScaleUpResult::NotNeeded);
    }
    if let Err(failure) = execute(context, &growths) {
        return ScaleUp {
            error: Some(failure.error),
            failed_groups: failure.groups.iter().map(|group| name(context, *group)).collect(),
            ..ScaleUp::only(ScaleUpResult::Error)
        };
    }
    context.registry.recalculate(&*context.cloud);
    ScaleUp { increases: increases(context, &growths), ..ScaleUp::only(ScaleUpResult::Successful) }
}

// === impl Search ===

impl Search {
    /// Finds out which groups may grow, and whom their new nodes would take.
    fn ask_groups(&mut self, context: &mut AutoscalingContext<'_>) {
        let mut skipped = Reasons::new();
        for group in all(context) {
            if let Err(reason) = self.may_grow(context, group) {
                skipped.insert(name(context, group), vec![reason]);
                continue;
            }
            self.takes[group.index()] = Some(Vec::new());
        }
        self.skipped = Arc::new(skipped);
        for group in all(context) {
            if self.takes[group.index()].is_some() {
                let everybody: Vec<usize> = (0..self.pods.len()).collect();
                self.takes[group.index()] = Some(self.taken_by(context, group, &everybody));
            }
        }
    }

    /// Whether a group may get a node, or all of its nodes if it has all or none.
    fn may_grow(&mut self, context: &AutoscalingContext<'_>, group: GroupId) -> Result<(), String> {
        match context.registry.safety(group, context.clock, context.settings) {
            Safety::Safe => {}
            Safety::Unhealthy => return Err(NOT_READY.to_owned()),
            Safety::BackedOff => return Err(BACKED_OFF.to_owned()),
        }
        let (target, max) = (context.cloud.target(group), context.cloud.groups()[group.index()].max);
        if target >= max {
            return Err(AT_MAX.to_owned());
        }
        let mut nodes = 1;
        if has_all_or_none(context, group) {
            nodes = max.saturating_sub(target);
            let most = context.settings.max_nodes_total;
            if most != 0 && self.nodes.saturating_add(nodes) > most {
                return Err(TOO_MANY_NODES.to_owned());
            }
        }
        let template = context.templates.get(group).ok_or(NOT_READY)?;
        let allowed = self.quotas.check(context, group, &template.node, nodes).map_err(|_| NOT_READY)?;
        if !allowed.exceeded.is_empty() {
            let resources = allowed.exceeded.join(", ");
            return Err(format!("exceeded quota: \"cluster-wide\", resources: {resources}"));
        }
        Ok(())
    }

    /// Which of the groups of pods a new node of a group would take: the first pod speaks for all.
    fn taken_by(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        group: GroupId,
        which: &[usize],
    ) -> Vec<usize> {
        let Some(template) = context.templates.get(group) else { return Vec::new() };
        let name = name(context, group);
        let snapshot = &mut context.cluster.snapshot;
        let fork = snapshot.fork();
        let node = snapshot.add_node(template.node.clone(), &template.pods);
        let mut taken = Vec::new();
        for &place in which {
            let pods = &mut self.pods[place];
            match snapshot.check(pods.pods[0], node) {
                Ok(()) => {
                    taken.push(place);
                    pods.is_schedulable = true;
                    pods.takers.push(group);
                }
                Err(refused) => pods.reject(&name, refused.reasons),
            }
        }
        snapshot.revert(fork);
        taken
    }

    /// The ways to help, in the cloud's order.
    fn candidates(&self, context: &mut AutoscalingContext<'_>) -> Vec<Candidate> {
        all(context).into_iter().filter_map(|group| self.candidate(context, group)).collect()
    }

    fn candidate(&self, context: &mut AutoscalingContext<'_>, group: GroupId) -> Option<Candidate> {
        let taken = self.takes[group.index()].as_ref().filter(|taken| !taken.is_empty())?;
        let similar = self.similar(context, group);
        let settings = context.settings;
        let room = |group: GroupId| {
            let max = context.cloud.groups()[group.index()].max;
            max.saturating_sub(context.cloud.target(group)).max(0)
        };
        let in_groups = similar.iter().map(|group| room(*group)).fold(room(group), i64::saturating_add);
        let limit = Limit::least(&[
            settings.max_nodes_per_scaleup,
            if in_groups > 0 { in_groups } else { -1 },
            match settings.max_nodes_total {
                0 => 0,
                most if most > self.nodes => most - self.nodes,
                _ => -1,
            },
        ]);
        let manner = Manner { version: settings.version, fastpath: settings.fastpath_binpacking_enabled };
        let template = context.templates.get(group)?;
        let snapshot = &mut context.cluster.snapshot;
        let estimate = estimate(snapshot, template, &self.pods, taken, limit, manner);
        if estimate.nodes == 0 || estimate.helped.is_empty() {
            return None;
        }
        let atomic = has_all_or_none(context, group);
        let nodes = if atomic { context.cloud.groups()[group.index()].max } else { estimate.nodes };
        Some(Candidate { group, name: name(context, group), nodes, helped: estimate.helped, similar })
    }

    /// Groups that would share new nodes with this one: alike, and taking at least the same pods.
    fn similar(&self, context: &AutoscalingContext<'_>, group: GroupId) -> Vec<GroupId> {
        let settings = context.settings;
        if !settings.balance_similar_node_groups || has_all_or_none(context, group) {
            return Vec::new();
        }
        let takes = |group: GroupId| self.takes[group.index()].as_ref();
        let Some(taken) = takes(group).filter(|taken| !taken.is_empty()) else { return Vec::new() };
        let Some(template) = context.templates.get(group) else { return Vec::new() };
        let is_similar = |other: &GroupId| {
            let is_alike = |other: &Arc<Template>| are_alike(template, other, settings);
            *other != group
                && takes(*other)
                    .is_some_and(|others| taken.iter().all(|pods| others.binary_search(pods).is_ok()))
                && context.registry.safety(*other, context.clock, context.settings) == Safety::Safe
                && context.templates.get(*other).is_some_and(is_alike)
        };
        all(context).into_iter().filter(is_similar).collect()
    }

    /// What is asked of the cloud for the best option.
    fn plan(
        &mut self,
        context: &mut AutoscalingContext<'_>,
        best: &Candidate,
    ) -> Result<Vec<Growth>, String> {
        let nodes = capped(context, best.nodes, self.nodes)?;
        let template = context.templates.get(best.group).ok_or("No node info for best expansion option!")?;
        let allowed = self.quotas.check(context, best.group, &template.node, nodes);
        let nodes = allowed.map_err(|error| format!("failed to check resource quotas: {error}"))?.nodes;
        // Before 1.36 limits held for the best group alone.
        let by_group = context.settings.version >= Version::V1_36;
        let mut groups = vec![best.group];
        for group in self.similar(context, best.group) {
            let Some(template) = context.templates.get(group) else { continue };
            let allowed = self.quotas.check(context, group, &template.node, 1);
            if !by_group || allowed.is_ok_and(|allowed| allowed.exceeded.is_empty()) {
                groups.push(group);
            }
        }
        let mut growths = balance(&*context.cloud, &groups, nodes);
        // What one group may not get is not given to another.
        for growth in growths.iter_mut().filter(|_| by_group) {
            let Some(template) = context.templates.get(growth.group) else { continue };
            let more = growth.to - growth.from;
            let Ok(allowed) = self.quotas.check(context, growth.group, &template.node, more) else {
                continue;
            };
            growth.to = growth.from + allowed.nodes;
            if allowed.nodes > 0 {
                // It cannot fail where the check did not.
                let _ = self.quotas.consume(context, growth.group, &template.node, allowed.nodes);
            }
        }
        growths.retain(|growth| growth.to != growth.from);
        Ok(growths)
    }

    /// Groups that would have helped cannot.
    fn lose(&mut self, context: &AutoscalingContext<'_>, lost: impl Fn(GroupId) -> bool, why: &str) {
        if context.settings.version < Version::V1_36 {
            return;
        }
        self.pods.iter_mut().for_each(|pods| pods.lose(&lost, |group| name(context, group), why));
    }

    /// Pods for which nothing can be done.
    fn remaining(&mut self, context: &mut AutoscalingContext<'_>) -> Vec<Remaining> {
        let left: Vec<usize> =
            (0..self.pods.len()).filter(|place| !self.pods[*place].is_schedulable).collect();
        let look_closer = context.settings.scaleup_simulation_for_skipped_node_groups_enabled;
        if look_closer {
            for group in all(context) {
                if self.skipped.contains_key(&name(context, group)) {
                    self.taken_by(context, group, &left);
                }
            }
        }
        let tell = |place: usize| {
            let pods = &self.pods[place];
            let mut skipped = self.skipped.clone();
            if look_closer {
                Arc::make_mut(&mut skipped).retain(|group, _| !pods.rejected.contains_key(group));
            }
            pods.remaining(skipped).collect::<Vec<_>>()
        };
        left.into_iter().flat_map(tell).collect()
    }

    fn looked_at(&self) -> Vec<LookedAt> {
        let told = |pods: &PodGroup| LookedAt {
            pods: PodList(vec![(pods.names.clone(), pods.names.len())]),
            rejected: pods.rejected.clone(),
        };
        self.pods.iter().map(told).collect()
    }

    fn option(&self, context: &AutoscalingContext<'_>, candidate: &Candidate) -> ScaleUpOption {
        ScaleUpOption {
            group: candidate.name.clone(),
            nodes: candidate.nodes,
            pods: self.list(candidate),
            similar: candidate.similar.iter().map(|group| name(context, *group)).collect(),
        }
    }

    fn list(&self, candidate: &Candidate) -> PodList {
        let lists = candidate.helped.iter().map(|&(group, count)| (self.pods[group].names.clone(), count));
        PodList(lists.collect())
    }
}

fn all(context: &AutoscalingContext<'_>) -> Vec<GroupId> {
    (0..context.cloud.groups().len() as u32).map(GroupId).collect()
}

fn name(context: &AutoscalingContext<'_>, group: GroupId) -> Arc<str> {
    context.cloud.groups()[group.index()].name.clone()
}

fn has_all_or_none(context: &AutoscalingContext<'_>, group: GroupId) -> bool {
    let options = &context.cloud.groups()[group.index()].options;
    options.as_ref().is_some_and(|options| options.zero_or_max_node_scaling)
}

/// As many nodes as `--max-nodes-total` allows besides those there are.
fn capped(context: &mut AutoscalingContext<'_>, nodes: i64, there: i64) -> Result<i64, String> {
    let most = context.settings.max_nodes_total;
    if most <= 0 || nodes.saturating_add(there) <= most {
        return Ok(nodes);
    }
    context.events.push(Event {
        about: About::Status,
        warning: true,
        reason: "MaxNodesTotalReached",
        message: format!("Max total nodes in cluster reached: {most}"),
    });
    let nodes = most.saturating_sub(there);
    if nodes < 1 { Err("max node total count already reached".to_owned()) } else { Ok(nodes) }
}

fn increases(context: &AutoscalingContext<'_>, growths: &[Growth]) -> Vec<Increase> {
    let increase = |growth: &Growth| Increase {
        group: name(context, growth.group),
        from: growth.from,
        to: growth.to,
        max: growth.max,
    };
    growths.iter().map(increase).collect()
}
