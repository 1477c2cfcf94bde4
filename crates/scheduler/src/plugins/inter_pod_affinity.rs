//! InterPodAffinity: required and preferred affinity and anti-affinity between pods.

use kubernetes::labels::Labels;
use smallvec::SmallVec;

use super::registration::{FilterTraits, Registration};
use crate::cache::{
    ClusterCache, CountQuery, CountedNodes, CountsId, DomainCounts, GroupBy, NodeScope, PodFilter,
    ResolvedTerm, TermCounts, TermId, TermKind, TopologyDomain, TopologyKeyId,
};
use crate::events::{ClusterEvent, EventObjects, HintContext};
use crate::ids::NodeId;
use crate::node::NodeSpec;
use crate::plugin::ExtensionPoint;
use crate::pod::{Pod, PodAffinityTerm};
use crate::settings::{InterPodAffinityArgs, Version};
use crate::status::CommonStatus;

pub(crate) const REGISTRATION: Registration = Registration::new("InterPodAffinity", |_| {
    &[ExtensionPoint::PreFilter, ExtensionPoint::Filter, ExtensionPoint::PreScore, ExtensionPoint::Score]
})
.filter(
    FilterTraits::CLUSTER_AND_PODS
        .with_missing_state_error(r#"error reading "PreFilterInterPodAffinity" from cycleState: not found"#),
)
.weight(2)
.events(&[
    ClusterEvent::NodeAdd,
    ClusterEvent::UpdateNodeLabel,
    ClusterEvent::AssignedPodAdd,
    ClusterEvent::AssignedPodDelete,
    ClusterEvent::UpdatePodLabel,
])
.queueing_hint(queueing_hint);

/// The affinity terms of a pod, and those of existing pods that match it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AffinityState {
    /// For each required term, the pods that match all of them by the term's domains.
    affinity: Vec<(CountsId, TopologyKeyId)>,
    affinity_terms: Vec<ResolvedTerm>,
    /// Whether the pod matches all of its own required affinity terms.
    matches_itself: bool,
    /// The pods that match each required anti-affinity term.
    anti_affinity: Vec<(CountsId, TopologyKeyId)>,
    anti_affinity_terms: Vec<ResolvedTerm>,
    /// Required anti-affinity terms of existing pods that match the pod.
    existing_anti_affinity: Vec<(TermId, TopologyKeyId)>,
    /// The pods that match each preferred term, with its weight.
    preferred: Vec<(CountsId, TopologyKeyId, i64)>,
    /// Terms of existing pods that match the pod and count for the score, with weights.
    preferred_by_existing: Vec<(TermId, TopologyKeyId, i64)>,
    /// Set by `ignorePreferredTermsOfExistingPods` for a pod without preferred terms.
    ignores_preferences: bool,
}

/// The required terms with the domains of nodes and the counts looked up.
pub(crate) struct AffinityFilter<'a> {
    affinity: SmallVec<[(&'a [TopologyDomain], &'a DomainCounts); 2]>,
    /// No pod in the cluster matches the required affinity, and the pod matches it itself.
    is_first_in_series: bool,
    anti_affinity: SmallVec<[(&'a [TopologyDomain], &'a DomainCounts); 2]>,
    existing_anti_affinity: SmallVec<[(&'a [TopologyDomain], &'a TermCounts); 2]>,
}

/// Changes of counts by pods added to or removed from a node.
#[derive(Clone, Debug, Default)]
pub(crate) struct AffinityDelta {
    affinity: i64,
    anti_affinity: Vec<i64>,
    /// By topology key: the change in the number of matching anti-affinity terms.
    existing_anti_affinity: Vec<(TopologyKeyId, i64)>,
}

impl AffinityState {
    pub(crate) fn new(
        cache: &mut ClusterCache,
        args: InterPodAffinityArgs,
        version: Version,
        pod: &Pod,
    ) -> AffinityState {
        let shape = &pod.spec;
        let means = |world: &ClusterCache, terms: &[PodAffinityTerm]| -> Vec<ResolvedTerm> {
            terms.iter().map(|term| resolve_term(world, term, version)).collect()
        };
        let affinity_meanings = means(cache, &shape.required_affinity);
        let anti_meanings = means(cache, &shape.required_anti_affinity);
        let tally = |world: &mut ClusterCache, who: Vec<ResolvedTerm>, term: &PodAffinityTerm| {
            let key = world.topology_key(&term.topology_key);
            let ground = NodeScope { group_by: GroupBy::Domain(key), nodes: CountedNodes::default() };
            (world.counts_for(CountQuery { pods: PodFilter::AllTerms(who), scope: ground }), key)
        };
        let affinity = shape
            .required_affinity
            .iter()
            .map(|term| tally(cache, affinity_meanings.clone(), term))
            .collect();
        let anti = shape.required_anti_affinity.iter().zip(&anti_meanings);
        let anti = anti.map(|(term, meaning)| tally(cache, vec![meaning.clone()], term)).collect();
        let likes = shape.preferred_affinity.iter().map(|(weight, term)| {
            let who = vec![resolve_term(cache, term, version)];
            let (tally, key) = tally(cache, who, term);
            (tally, key, *weight)
        });
        let likes: Vec<_> = likes.collect();
        let means_itself = !affinity_meanings.is_empty()
            && affinity_meanings.iter().all(|meaning| meaning.matches(&pod.name.namespace, &pod.labels));
        let (mut unwanted, mut liked) = (Vec::new(), Vec::new());
        for wish in cache.terms_matching(pod) {
            let key = cache.term_counts(wish).key;
            match cache.term_kind(wish) {
                TermKind::RequiredAnti => unwanted.push((wish, key)),
                TermKind::Required if args.hard_pod_affinity_weight > 0 => {
                    liked.push((wish, key, args.hard_pod_affinity_weight))
                }
                TermKind::Required => {}
                TermKind::Preferred(weight) => liked.push((wish, key, weight)),
            }
        }
        let is_indifferent = args.ignore_preferred_terms_of_existing_pods && likes.is_empty();
        AffinityState {
            affinity,
            affinity_terms: affinity_meanings,
            matches_itself: means_itself,
            anti_affinity: anti,
            anti_affinity_terms: anti_meanings,
            existing_anti_affinity: unwanted,
            preferred: likes,
            preferred_by_existing: liked,
            ignores_preferences: is_indifferent,
        }
    }

    /// Whether `Filter` is skipped.
    pub(crate) fn is_skipped(&self, cache: &ClusterCache) -> bool {
        self.affinity.is_empty()
            && self.anti_affinity.is_empty()
            && self.existing_anti_affinity.iter().all(|(wish, _)| cache.term_counts(*wish).total() == 0)
    }

    /// Looks up domains and counts, valid until pods change. `None` if every node passes.
    pub(crate) fn prepare_filter<'a>(&self, cache: &'a ClusterCache) -> Option<AffinityFilter<'a>> {
        let counted =
            |&(tally, key): &(CountsId, TopologyKeyId)| (cache.topology.domains(key), cache.counts(tally));
        let wished = self
            .existing_anti_affinity
            .iter()
            .map(|&(wish, key)| (cache.topology.domains(key), cache.term_counts(wish)));
        let nobody = self.affinity.iter().all(|(tally, _)| cache.counts(*tally).total() == 0);
        let ready = AffinityFilter {
            affinity: self.affinity.iter().map(counted).collect(),
            is_first_in_series: nobody && self.matches_itself,
            anti_affinity: self
                .anti_affinity
                .iter()
                .map(counted)
                .filter(|(_, tally)| tally.total() > 0)
                .collect(),
            existing_anti_affinity: wished.filter(|(_, wishers)| wishers.total() > 0).collect(),
        };
        let silent = self.affinity.is_empty()
            && ready.anti_affinity.is_empty()
            && ready.existing_anti_affinity.is_empty();
        (!silent).then_some(ready)
    }

    /// Filters a node with pods added or removed.
    pub(crate) fn filter_with_delta(
        &self,
        delta: &AffinityDelta,
        cache: &ClusterCache,
        node: NodeId,
    ) -> Result<(), CommonStatus> {
        let mut found = true;
        let mut nobody = true;
        for &(tally, key) in &self.affinity {
            let place = cache.topology.domain(key, node);
            if !place.is_present() {
                return Err(CommonStatus::AffinityUnmatched);
            }
            let tally = cache.counts(tally);
            found &= i64::from(tally.at(place.value_id())) + delta.affinity > 0;
            nobody &= tally.total() as i64 + delta.affinity == 0;
        }
        if !(found || self.matches_itself && nobody) {
            return Err(CommonStatus::AffinityUnmatched);
        }
        for (index, &(tally, key)) in self.anti_affinity.iter().enumerate() {
            let place = cache.topology.domain(key, node);
            if place.is_present()
                && i64::from(cache.counts(tally).at(place.value_id())) + delta.anti_affinity[index] > 0
            {
                return Err(CommonStatus::AntiAffinityViolated);
            }
        }
        // kube-scheduler counts by domain, not by term: a decrease of one term may hide an increase of another.
        let mut keys: Vec<(TopologyKeyId, i64)> = delta.existing_anti_affinity.clone();
        for &(wish, key) in &self.existing_anti_affinity {
            let place = cache.topology.domain(key, node);
            if place.is_present() {
                keys.push((key, i64::from(cache.term_counts(wish).at(place.value_id()))));
            }
        }
        keys.sort_unstable();
        let mut rest = &keys[..];
        while let Some(&(key, _)) = rest.first() {
            let same = rest.partition_point(|(other, _)| *other == key);
            if rest[..same].iter().map(|(_, count)| count).sum::<i64>() > 0 {
                return Err(CommonStatus::ExistingAntiAffinityViolated);
            }
            rest = &rest[same..];
        }
        Ok(())
    }

    /// A delta without pods.
    pub(crate) fn no_delta(&self) -> AffinityDelta {
        AffinityDelta {
            affinity: 0,
            anti_affinity: vec![0; self.anti_affinity.len()],
            existing_anti_affinity: Vec::new(),
        }
    }

    /// Adds (1) or removes (-1) the pod `other` on a node; `pod` is the incoming one.
    pub(crate) fn update_with_pod(
        &self,
        delta: &mut AffinityDelta,
        cache: &ClusterCache,
        pod: &Pod,
        other: &Pod,
        node: NodeId,
        by: i64,
    ) {
        let (namespace, labels) = (&other.name.namespace, &other.labels);
        if !self.affinity_terms.is_empty()
            && self.affinity_terms.iter().all(|meaning| meaning.matches(namespace, labels))
        {
            delta.affinity += by;
        }
        for (shift, meaning) in delta.anti_affinity.iter_mut().zip(&self.anti_affinity_terms) {
            if meaning.matches(namespace, labels) {
                *shift += by;
            }
        }
        if other.spec.required_anti_affinity.is_empty() {
            return;
        }
        let namespace_labels = cache.selector_objects.namespace_labels(&pod.name.namespace);
        for term in &other.spec.required_anti_affinity {
            if term.matches(&pod.name.namespace, &pod.labels, namespace_labels)
                && let Some(key) = cache.topology.find_key(&term.topology_key)
                && cache.topology.domain(key, node).is_present()
            {
                delta.existing_anti_affinity.push((key, by));
            }
        }
    }

    /// Whether no preferred term matches any pod, so that scoring is skipped.
    pub(crate) fn is_score_skipped(&self, cache: &ClusterCache) -> bool {
        self.ignores_preferences
            || (self.preferred.iter().all(|(tally, ..)| cache.counts(*tally).total() == 0)
                && self.preferred_by_existing.iter().all(|(wish, ..)| cache.term_counts(*wish).total() == 0))
    }

    /// Sums the weights of matching preferred terms, in both directions.
    pub(crate) fn score(&self, cache: &ClusterCache, nodes: &[NodeId], scores: &mut [i64]) {
        scores.fill(0);
        for &(tally, key, weight) in &self.preferred {
            let (tally, places) = (cache.counts(tally), cache.topology.domains(key));
            for (node, score) in nodes.iter().zip(&mut *scores) {
                let place = places[node.index()];
                if place.is_present() {
                    *score += weight * i64::from(tally.at(place.value_id()));
                }
            }
        }
        for &(wish, key, weight) in &self.preferred_by_existing {
            let (wishers, places) = (cache.term_counts(wish), cache.topology.domains(key));
            for (node, score) in nodes.iter().zip(&mut *scores) {
                let place = places[node.index()];
                if place.is_present() {
                    *score += weight * i64::from(wishers.at(place.value_id()));
                }
            }
        }
    }
}

// === impl AffinityFilter ===

impl AffinityFilter<'_> {
    /// Filters a node.
    pub(crate) fn filter(&self, node: NodeId) -> Result<(), CommonStatus> {
        let mut found = true;
        for (places, tally) in &self.affinity {
            let place = places[node.index()];
            if !place.is_present() {
                return Err(CommonStatus::AffinityUnmatched);
            }
            found &= tally.at(place.value_id()) > 0;
        }
        if !found && !self.is_first_in_series {
            return Err(CommonStatus::AffinityUnmatched);
        }
        for (places, tally) in &self.anti_affinity {
            let place = places[node.index()];
            if place.is_present() && tally.at(place.value_id()) > 0 {
                return Err(CommonStatus::AntiAffinityViolated);
            }
        }
        for (places, wishers) in &self.existing_anti_affinity {
            let place = places[node.index()];
            if place.is_present() && wishers.at(place.value_id()) > 0 {
                return Err(CommonStatus::ExistingAntiAffinityViolated);
            }
        }
        Ok(())
    }
}

/// Scales scores from 0 to 100 between minimum and maximum.
pub(crate) fn normalise(scores: &[i64], normalised: &mut [i64]) {
    let least = scores.iter().copied().min().unwrap_or(0);
    let difference = scores.iter().copied().max().unwrap_or(0) - least;
    for (score, normalised) in scores.iter().zip(normalised) {
        *normalised =
            if difference > 0 { (100.0 * ((score - least) as f64 / difference as f64)) as i64 } else { 0 };
    }
}

/// Resolves a term of the incoming pod: its namespace selector is matched against namespaces first, and then once more
/// against no labels at all. From 1.34 to 1.36 the latter is a bug of kube-scheduler, and so part of its decisions.
fn resolve_term(cache: &ClusterCache, term: &PodAffinityTerm, version: Version) -> ResolvedTerm {
    let by_labels = &term.namespace_selector;
    let anything_goes =
        by_labels.matches(|_| None) && (by_labels.is_everything() || version >= Version::V1_34);
    if anything_goes {
        return ResolvedTerm { namespaces: None, selector: term.selector.clone() };
    }
    let mut namespaces = term.namespaces.clone();
    if !by_labels.is_nothing() {
        let found = cache
            .selector_objects
            .namespaces
            .iter()
            .filter(|(_, labels)| by_labels.matches(|key| labels.get(key)));
        namespaces.extend(found.map(|(name, _)| name.clone()));
        namespaces.sort_unstable();
        namespaces.dedup();
    }
    ResolvedTerm { namespaces: Some(namespaces), selector: term.selector.clone() }
}

/// Whether the event may satisfy a required affinity or anti-affinity term.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    match hint.event.objects {
        EventObjects::Node { old, new } => new.is_none_or(|new| domain_changed(hint.pod, old, new)),
        EventObjects::Pod { old, new, .. } => matching_pods_changed(hint, old, new),
        EventObjects::Tracked { .. } => true,
    }
}

/// Whether the node joined a domain of a required affinity term, or left one of an anti-affinity term.
fn domain_changed(pod: &Pod, old: Option<&NodeSpec>, new: &NodeSpec) -> bool {
    let value = |node: &NodeSpec, key: &str| node.labels.get_shared(key).cloned();
    let near = pod.spec.required_affinity.iter().any(|term| match old {
        None => value(new, &term.topology_key).is_some(),
        Some(old) => {
            value(new, &term.topology_key).is_some()
                && value(old, &term.topology_key) != value(new, &term.topology_key)
        }
    });
    near || pod.spec.required_anti_affinity.iter().any(|term| match old {
        None => true,
        Some(old) => {
            value(old, &term.topology_key).is_some()
                && value(old, &term.topology_key) != value(new, &term.topology_key)
        }
    })
}

fn matching_pods_changed(hint: &HintContext<'_>, old: Option<&Pod>, new: Option<&Pod>) -> bool {
    let (near, far) = (&hint.pod.spec.required_affinity, &hint.pod.spec.required_anti_affinity);
    if old.is_some() && new.is_some() && hint.is_own_pod_event() {
        return true;
    }
    if ![old, new].into_iter().flatten().all(Pod::is_assigned_or_nominated) {
        return false;
    }
    match (old, new) {
        (Some(old), Some(new)) => {
            (!pod_matches_all_terms(near, old) && pod_matches_all_terms(near, new))
                || (pod_matches_all_terms(far, old) && !pod_matches_all_terms(far, new))
        }
        (None, Some(new)) => pod_matches_all_terms(near, new),
        (Some(gone), None) => {
            pod_matches_all_terms(far, gone)
                || pod_matches_all_terms(&gone.spec.required_anti_affinity, hint.pod)
        }
        (None, None) => true,
    }
}

/// Whether there are terms and all of them match a pod. Namespace labels are not looked up here, as in kube-scheduler.
fn pod_matches_all_terms(terms: &[PodAffinityTerm], pod: &Pod) -> bool {
    let means = |term: &PodAffinityTerm| term.matches(&pod.name.namespace, &pod.labels, &Labels::NONE);
    !terms.is_empty() && terms.iter().all(means)
}
