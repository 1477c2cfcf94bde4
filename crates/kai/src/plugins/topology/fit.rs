//! Whether the pods of a subgroup fit into a domain.

use std::collections::BTreeMap;

use super::PlacedGroup;
use super::domains::{DomainId, TopologyTree};
use super::messages;
use crate::cluster::Cluster;
use crate::cluster::fit_errors::JobFitError;
use crate::cluster::node::Node;
use crate::cluster::resources::{CPU, GPU, MEMORY, PODS, ResourceVector};

/// The pods of a subgroup, as far as their fit depends on them.
#[derive(Debug)]
pub(super) struct GroupFit<'a> {
    pub group: PlacedGroup<'a>,
    /// The subgroup's name.
    pub name: &'a str,
    /// What all pods request together.
    pub requested: ResourceVector,
    /// For each resource the most that a pod requests.
    largest: ResourceVector,
    /// Whether all pods request the same resources, so that they can be counted.
    is_homogeneous: bool,
}

/// The part of its free resources that a domain lacks a resource for.
const MISSING_RESOURCE_RATIO: f64 = 1000.0;

impl<'a> GroupFit<'a> {
    pub(super) fn new(cluster: &Cluster, group: PlacedGroup<'a>, name: &'a str) -> GroupFit<'a> {
        let (mut requested, mut largest) =
            (ResourceVector::zero(&cluster.names), ResourceVector::zero(&cluster.names));
        for (index, pod) in group.pods.iter().map(|info| cluster.pod_of(*info)).enumerate() {
            requested.add(&pod.request);
            if index == 0 {
                largest = pod.request.clone();
            }
            largest.raise_to(&pod.request);
        }
        let is_homogeneous = is_homogeneous(cluster, group);
        GroupFit { group, name, requested, largest, is_homogeneous }
    }

    /// Whether a domain has room, as far as that was computed below the common domain of the nodes.
    pub(super) fn check(
        &self,
        topology: &TopologyTree,
        domain: DomainId,
        cluster: &Cluster,
    ) -> Result<(), JobFitError> {
        let domain = topology.domain(domain);
        let needed = self.group.pods.len();
        match domain.allocatable_pods {
            Some(pods) if pods < needed => Err(messages::too_few_pods(domain, pods, needed)),
            Some(_) => Ok(()),
            None if self.ratio(domain.free.as_ref()) > 1.0 => {
                Err(messages::too_few_resources(domain, &self.requested, cluster))
            }
            None => Ok(()),
        }
    }

    /// The largest part of a free resource that the pods request.
    pub(super) fn ratio(&self, free: Option<&ResourceVector>) -> f64 {
        let mut ratio = 0.0_f64;
        for (index, requested) in self.requested.amounts().iter().enumerate() {
            if *requested <= 0.0 || index == PODS {
                continue;
            }
            let free = free.map_or(0.0, |free| free.get(index));
            ratio = ratio.max(if free <= 0.0 { MISSING_RESOURCE_RATIO } else { requested / free });
        }
        ratio
    }

    /// How many of the pods fit on a node, by the most that one of them requests.
    fn pods_on(&self, node: &Node) -> usize {
        let mut free = node.idle.clone();
        free.add(&node.releasing);
        // Shares are counted together, even if no GPU has enough for a pod: the check on nodes is exact.
        let gpus = self.largest.get(GPU);
        if gpus > 0.0 && gpus < 1.0 {
            free.set(GPU, free.get(GPU) + node.available_shared_fractions());
        }
        let requests_only_a_pod = self
            .largest
            .amounts()
            .iter()
            .enumerate()
            .all(|(index, amount)| *amount <= if index == PODS { 1.0 } else { 0.0 });
        if requests_only_a_pod {
            return self.group.pods.len();
        }
        if !self.largest.is_at_most(&free) {
            return 0;
        }
        let requested = self.largest.amounts().iter().zip(free.amounts());
        let counts =
            requested.filter(|(amount, _)| **amount > 0.0).map(|(amount, free)| (free / amount) as usize);
        counts.min().unwrap_or(self.group.pods.len())
    }
}

impl TopologyTree {
    /// Computes what is free in a domain and those below it, and how many pods fit. Nothing is known of others.
    pub(super) fn start(&mut self, common: DomainId, fit: &GroupFit<'_>, cluster: &Cluster) {
        for domain in self.domains_mut() {
            (domain.allocatable_pods, domain.free) = (None, None);
        }
        self.sum_free(common, cluster);
        if fit.is_homogeneous {
            self.count_pods(common, fit, cluster);
        }
    }

    fn sum_free(&mut self, id: DomainId, cluster: &Cluster) {
        let mut free = ResourceVector::zero(&cluster.names);
        if self.domain(id).children.is_empty() {
            for node in self.domain(id).nodes.iter().map(|node| cluster.node(*node)) {
                free.add(&node.idle);
                free.add(&node.releasing);
            }
        }
        for index in 0..self.domain(id).children.len() {
            let child = self.domain(id).children[index];
            self.sum_free(child, cluster);
            self.domain(child).free.iter().for_each(|of_child| free.add(of_child));
        }
        self.domain_mut(id).free = Some(free);
    }

    fn count_pods(&mut self, id: DomainId, fit: &GroupFit<'_>, cluster: &Cluster) -> usize {
        let mut count = 0_usize;
        if self.domain(id).children.is_empty() {
            for node in self.domain(id).nodes.iter().map(|node| cluster.node(*node)) {
                count = count.saturating_add(fit.pods_on(node));
            }
        }
        for index in 0..self.domain(id).children.len() {
            let child = self.domain(id).children[index];
            count = count.saturating_add(self.count_pods(child, fit, cluster));
        }
        self.domain_mut(id).allocatable_pods = Some(count);
        count
    }
}

fn is_homogeneous(cluster: &Cluster, group: PlacedGroup<'_>) -> bool {
    let (mut with_gpus, mut with_others) = (0, BTreeMap::<usize, usize>::new());
    for pod in group.pods.iter().map(|info| cluster.pod_of(*info)) {
        with_gpus += usize::from(pod.gpu.gpus() > 0.0);
        for (index, amount) in pod.request.amounts().iter().enumerate() {
            if !matches!(index, CPU | MEMORY | GPU) && *amount > 0.0 {
                *with_others.entry(index).or_default() += 1;
            }
        }
    }
    let all = group.pods.len();
    (with_gpus == all || with_gpus == 0) && with_others.values().all(|count| *count == all)
}
