//! The pods that affinity terms can match: those of the namespaces that they apply to.

use std::ops::Range;

use kubernetes::labels::Labels;
use scheduler::pod::AffinityTerm;
use smallvec::SmallVec;

use crate::cluster::Cluster;
use crate::cluster::ids::PodId;

/// The pods of the namespaces that affinity terms apply to. Pods are sorted by namespace, so that a namespace is a range.
#[derive(Debug)]
pub(super) struct MatchablePods {
    /// `None` for all pods.
    ranges: Option<SmallVec<[Range<usize>; 1]>>,
}

impl MatchablePods {
    pub(super) fn new<'t>(
        cluster: &Cluster,
        terms: impl Iterator<Item = &'t AffinityTerm> + Clone,
    ) -> MatchablePods {
        // Snapshots have no namespaces, so none has labels.
        if terms.clone().any(|term| term.namespace_selector.matches(|key| Labels::none().get(key))) {
            return MatchablePods { ranges: None };
        }
        let mut namespaces: Vec<&str> =
            terms.flat_map(|term| &term.namespaces).map(|namespace| &**namespace).collect();
        namespaces.sort_unstable();
        namespaces.dedup();
        let range = |namespace: &str| {
            let start = cluster.pods.partition_point(|pod| *pod.view.name.namespace < *namespace);
            start..cluster.pods.partition_point(|pod| *pod.view.name.namespace <= *namespace)
        };
        MatchablePods { ranges: Some(namespaces.into_iter().map(range).collect()) }
    }

    /// The pods that the terms can match, of these.
    pub(super) fn of<'p>(&'p self, pods: &'p [PodId]) -> impl Iterator<Item = PodId> + 'p {
        let can_match = |pod: &PodId| match &self.ranges {
            None => true,
            Some(ranges) => ranges.iter().any(|range| range.contains(&pod.index())),
        };
        pods.iter().copied().filter(can_match)
    }
}
