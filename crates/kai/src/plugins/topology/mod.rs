//! Plugin topology: places the pods of a job, or of a subgroup, within domains of a topology.

mod domains;
mod fit;
mod messages;
mod order;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use domains::{DomainId, ROOT_LEVEL, TopologyTree};

use super::scores::TOPOLOGY;
use crate::cluster::Cluster;
use crate::cluster::fit_errors::{JobFitError, POD_SCHEDULING_ERRORS};
use crate::cluster::ids::{JobId, NodeId, PodInfoId};
use crate::cluster::node_set::NodeSet;
use crate::cluster::sub_group::{Member, TopologyConstraint};

/// The topology trees, and the scores of the job that is being placed.
#[derive(Debug, Default)]
pub(crate) struct TopologyDomains {
    trees: BTreeMap<Arc<str>, TopologyTree>,
    /// The scores of nodes, by the subgroup whose constraint prefers a level.
    node_scores: BTreeMap<Arc<str>, FxHashMap<NodeId, f64>>,
}

/// The subgroup whose pods are placed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedGroup<'a> {
    pub job: JobId,
    pub member: Member,
    /// The pod sets that have pods to place.
    pub pod_sets: &'a [usize],
    pub pods: &'a [PodInfoId],
}

/// The sets of nodes that are tried one after the other; none if the constraint names an unknown level.
pub(crate) type NodeSets = Option<Vec<Vec<NodeId>>>;

impl TopologyDomains {
    pub(crate) fn new(cluster: &Cluster) -> TopologyDomains {
        let trees = cluster
            .topologies
            .iter()
            .map(|topology| (topology.name.clone(), TopologyTree::new(topology, &cluster.nodes)));
        TopologyDomains { trees: trees.collect(), node_scores: BTreeMap::new() }
    }

    /// Forgets the scores of the job before.
    pub(crate) fn start_job(&mut self) {
        self.node_scores.clear();
    }

    /// Whether the job that is being placed prefers a level somewhere.
    pub(crate) fn has_scores(&self) -> bool {
        !self.node_scores.is_empty()
    }

    /// The score of a node for a pod set; `None` if the node is in no domain, so that it is not tried.
    pub(crate) fn score(&self, cluster: &Cluster, job: JobId, pod_set: usize, node: NodeId) -> Option<f64> {
        if self.node_scores.is_empty() {
            return Some(0.0);
        }
        let tree = &cluster.job(job).tree;
        let pod_set = &tree.pod_sets[pod_set];
        let above = std::iter::successors(Some(pod_set.parent), |set| tree.sets[*set].parent);
        let names = std::iter::once(&pod_set.name).chain(above.map(|set| &tree.sets[set].name));
        match names.filter_map(|name| self.node_scores.get(name)).next() {
            Some(scores) => scores.get(&node).copied(),
            None => Some(0.0),
        }
    }

    /// Splits a set of nodes by the constraint of a subgroup, in the order in which the parts are tried.
    pub(crate) fn subset_nodes(
        &mut self,
        cluster: &Cluster,
        group: PlacedGroup<'_>,
        nodes: Vec<NodeId>,
        errors: &mut Vec<JobFitError>,
    ) -> NodeSets {
        let tree = &cluster.job(group.job).tree;
        let Some(constraint) = tree.constraint(group.member).cloned() else { return Some(vec![nodes]) };
        if constraint.topology.is_empty() {
            return Some(vec![nodes]);
        }
        let Some(topology) = self.trees.get_mut(&constraint.topology) else {
            let message = format!("Requested topology {} does not exist", constraint.topology);
            JobFitError::new(POD_SCHEDULING_ERRORS, message).add_to(errors);
            return Some(Vec::new());
        };
        if group.pods.is_empty() {
            return Some(vec![nodes]);
        }
        let name = tree.name(group.member).clone();
        let fit = fit::GroupFit::new(cluster, group, &name);
        let valid: NodeSet = nodes.into_iter().filter(|node| topology.contains(*node)).collect();
        let common = topology.lowest_common_domain(&valid, &constraint.preferred_level);
        topology.start(common, &fit, cluster);
        if fit.check(topology, common, cluster).is_err() {
            let place = if common == topology.root() {
                "the cluster".to_owned()
            } else {
                topology.domain(common).id.to_string()
            };
            let reason = format!("not enough resources in {place} to allocate the job");
            let message = messages::no_match(cluster, (group.job, &name), &constraint, Some(&reason));
            JobFitError::new(POD_SCHEDULING_ERRORS, message).add_to(errors);
            return Some(Vec::new());
        }
        let (preferred, required) = (&constraint.preferred_level, &constraint.required_level);
        let deepest = if preferred.is_empty() { required } else { preferred };
        topology.sort(common, deepest, &fit);
        if !preferred.is_empty() {
            self.node_scores.insert(name.clone(), node_scores(topology, common, preferred));
        }
        let allocatable = allocatable_domains(topology, cluster, group, &constraint, &fit, errors)?;
        let ordered = topology.in_search_order(&allocatable);
        let node_sets = ordered.into_iter().map(|domain| {
            let nodes = topology.domain(domain).nodes.iter();
            nodes.copied().filter(|node| valid.contains(*node)).collect()
        });
        Some(node_sets.collect())
    }
}

/// The domains that have room, of the levels that the constraint allows; `None` if it names an unknown level.
fn allocatable_domains(
    topology: &TopologyTree,
    cluster: &Cluster,
    group: PlacedGroup<'_>,
    constraint: &TopologyConstraint,
    fit: &fit::GroupFit<'_>,
    errors: &mut Vec<JobFitError>,
) -> Option<BTreeSet<DomainId>> {
    let levels = relevant_levels(topology, constraint)?;
    let tree = &cluster.job(group.job).tree;
    let has_active_pods = group.pod_sets.iter().any(|pod_set| tree.pod_sets[*pod_set].active_allocated() > 0);
    let relevant = (has_active_pods && !constraint.required_level.is_empty())
        .then(|| domains_with_pods(topology, cluster, group, &constraint.required_level));
    let is_relevant = |domain: &DomainId| relevant.as_ref().is_none_or(|relevant| relevant.contains(domain));
    let (mut domains, mut top_errors) = (BTreeSet::new(), Vec::new());
    for (index, level) in levels.iter().enumerate() {
        for domain in topology.of_level(level).filter(is_relevant) {
            match fit.check(topology, domain, cluster) {
                Ok(()) => drop(domains.insert(domain)),
                Err(error) if index + 1 == levels.len() => top_errors.push(error),
                Err(_) => {}
            }
        }
    }
    if domains.is_empty() {
        top_errors.into_iter().for_each(|error| error.add_to(errors));
        let message = messages::no_match(cluster, (fit.group.job, fit.name), constraint, None);
        JobFitError::new(POD_SCHEDULING_ERRORS, message).add_to(errors);
    }
    Some(domains)
}

/// The levels from the preferred one, or else the required one, up to the required one, or else the root.
fn relevant_levels(topology: &TopologyTree, constraint: &TopologyConstraint) -> Option<Vec<Arc<str>>> {
    let (preferred, required) = (&constraint.preferred_level, &constraint.required_level);
    let (mut is_preferred_found, mut is_required_found) = (false, false);
    let mut relevant = Vec::new();
    let root: Arc<str> = ROOT_LEVEL.into();
    for level in topology.levels.iter().rev().chain([&root]) {
        is_preferred_found |= level == preferred;
        is_required_found |= level == required;
        if is_preferred_found || is_required_found {
            relevant.push(level.clone());
        }
        if is_required_found {
            break;
        }
    }
    let is_valid = (!preferred.is_empty() || !required.is_empty())
        && (required.is_empty() || is_required_found)
        && (preferred.is_empty() || is_preferred_found);
    is_valid.then_some(relevant)
}

/// The domains of the required level that have pods of these pod sets, and all below them.
fn domains_with_pods(
    topology: &TopologyTree,
    cluster: &Cluster,
    group: PlacedGroup<'_>,
    required_level: &str,
) -> BTreeSet<DomainId> {
    let tree = &cluster.job(group.job).tree;
    let infos = group.pod_sets.iter().flat_map(|pod_set| tree.pod_sets[*pod_set].infos());
    let active = infos.map(|info| cluster.info(info)).filter(|info| info.status.is_active_allocated());
    let nodes: BTreeSet<NodeId> = active.filter_map(|info| info.node.known()).collect();
    let mut relevant = BTreeSet::new();
    for domain in topology.of_level(required_level) {
        if topology.domain(domain).nodes.iter().any(|node| nodes.contains(node)) {
            topology.add_subtree(domain, &mut relevant);
        }
    }
    relevant
}

/// Scores nodes by the order of their domains on the preferred level: the last one is the best.
fn node_scores(topology: &TopologyTree, root: DomainId, preferred: &str) -> FxHashMap<NodeId, f64> {
    let domains = topology.descendants_of_level(root, preferred);
    let mut scores = FxHashMap::default();
    for (index, domain) in domains.iter().enumerate() {
        let score = ((index + 1) as f64 / domains.len() as f64 * 10.0).floor() * TOPOLOGY;
        scores.extend(topology.domain(*domain).nodes.iter().map(|node| (*node, score)));
    }
    scores
}
