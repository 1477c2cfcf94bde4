//! InterPodAffinity: required and preferred affinity and anti-affinity between pods.

use kubernetes::labels::Labels;

use super::registration::{FilterTraits, Registration};
use crate::cache::{
    ClusterCache, CountQuery, CountedNodes, DomainCounts, DomainCountsId, GroupBy, NodeScope, PodFilter,
    ResolvedTerm, TermCounts, TermId, TermKind, TopologyDomain, TopologyKeyId,
};
use crate::events::{ClusterEvent, EventObjects, HintContext};
use crate::ids::NodeId;
use crate::node::Node;
use crate::plugin::ExtensionPoint;
use crate::pod::{AffinityTerm, Pod};
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
    /// For each required term: counts, by its domains, of the pods that match all required terms.
    affinity: Vec<(DomainCountsId, TopologyKeyId)>,
    affinity_terms: Vec<ResolvedTerm>,
    /// Whether the pod matches all of its own required affinity terms.
    matches_itself: bool,
    /// The pods that match each required anti-affinity term.
    anti_affinity: Vec<(DomainCountsId, TopologyKeyId)>,
    anti_affinity_terms: Vec<ResolvedTerm>,
    /// Required anti-affinity terms of existing pods that match the pod.
    existing_anti_affinity: Vec<(TermId, TopologyKeyId)>,
    /// The pods that match each preferred term, with its weight.
    preferred: Vec<(DomainCountsId, TopologyKeyId, i64)>,
    /// Terms of existing pods that match the pod and count for the score, with weights.
    preferred_by_existing: Vec<(TermId, TopologyKeyId, i64)>,
    /// Set by `ignorePreferredTermsOfExistingPods` for a pod without preferred terms.
    ignores_preferences: bool,
}

/// The required terms with the domains of nodes and the counts looked up.
pub(crate) struct AffinityFilter<'a> {
    affinity: Vec<(&'a [TopologyDomain], &'a DomainCounts)>,
    /// No pod in the cluster matches the required affinity, and the pod matches it itself.
    is_first_in_series: bool,
    anti_affinity: Vec<(&'a [TopologyDomain], &'a DomainCounts)>,
    existing_anti_affinity: Vec<(&'a [TopologyDomain], &'a TermCounts)>,
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
        let pod_spec = &pod.spec;
        let resolve_terms = |cluster: &ClusterCache, terms: &[AffinityTerm]| -> Vec<ResolvedTerm> {
            terms.iter().map(|term| resolve_term(cluster, term, version)).collect()
        };
        let resolved_affinity = resolve_terms(cache, &pod_spec.required_affinity);
        let resolved_anti_affinity = resolve_terms(cache, &pod_spec.required_anti_affinity);
        let counts = |cluster: &mut ClusterCache, resolved_terms: Vec<ResolvedTerm>, term: &AffinityTerm| {
            let key = cluster.topology_key(&term.topology_key);
            let scope = NodeScope { group_by: GroupBy::Domain(key), nodes: CountedNodes::default() };
            (cluster.counts_for(CountQuery { pods: PodFilter::AllTerms(resolved_terms), scope }), key)
        };
        let affinity = pod_spec
            .required_affinity
            .iter()
            .map(|term| counts(cache, resolved_affinity.clone(), term))
            .collect();
        let anti_affinity = pod_spec.required_anti_affinity.iter().zip(&resolved_anti_affinity);
        let anti_affinity = anti_affinity
            .map(|(term, resolved_term)| counts(cache, vec![resolved_term.clone()], term))
            .collect();
        let preferred = pod_spec.preferred_affinity.iter().map(|(weight, term)| {
            let resolved_terms = vec![resolve_term(cache, term, version)];
            let (counts, key) = counts(cache, resolved_terms, term);
            (counts, key, *weight)
        });
        let preferred: Vec<_> = preferred.collect();
        let matches_itself = !resolved_affinity.is_empty()
            && resolved_affinity
                .iter()
                .all(|resolved_term| resolved_term.matches(&pod.name.namespace, &pod.labels));
        let (mut existing_anti_affinity, mut preferred_by_existing) = (Vec::new(), Vec::new());
        for term_id in cache.terms_matching(pod) {
            let key = cache.term_counts(term_id).key;
            match cache.term_kind(term_id) {
                TermKind::RequiredAnti => existing_anti_affinity.push((term_id, key)),
                TermKind::Required if args.hard_pod_affinity_weight > 0 => {
                    preferred_by_existing.push((term_id, key, args.hard_pod_affinity_weight))
                }
                TermKind::Required => {}
                TermKind::Preferred(weight) => preferred_by_existing.push((term_id, key, weight)),
            }
        }
        let ignores_preferences = args.ignore_preferred_terms_of_existing_pods && preferred.is_empty();
        AffinityState {
            affinity,
            affinity_terms: resolved_affinity,
            matches_itself,
            anti_affinity,
            anti_affinity_terms: resolved_anti_affinity,
            existing_anti_affinity,
            preferred,
            preferred_by_existing,
            ignores_preferences,
        }
    }

    /// The counts it refers to.
    pub(crate) fn counts(&self) -> impl Iterator<Item = DomainCountsId> {
        let required = self.affinity.iter().chain(&self.anti_affinity).map(|(counts, _)| *counts);
        required.chain(self.preferred.iter().map(|(counts, ..)| *counts))
    }

    /// Whether `Filter` is skipped.
    pub(crate) fn is_skipped(&self, cache: &ClusterCache) -> bool {
        self.affinity.is_empty()
            && self.anti_affinity.is_empty()
            && self.existing_anti_affinity.iter().all(|(term_id, _)| cache.term_counts(*term_id).total() == 0)
    }

    /// Whether a required anti-affinity term of any other pod matches the pod.
    pub(crate) fn has_existing_anti_affinity(&self) -> bool {
        !self.existing_anti_affinity.is_empty()
    }

    /// Looks up domains and counts, valid until pods change. `None` if every node passes.
    pub(crate) fn prepare_filter<'a>(&self, cache: &'a ClusterCache) -> Option<AffinityFilter<'a>> {
        let with_domains = |&(counts, key): &(DomainCountsId, TopologyKeyId)| {
            (cache.topology.domains(key), cache.counts(counts))
        };
        let existing_terms = self
            .existing_anti_affinity
            .iter()
            .map(|&(term_id, key)| (cache.topology.domains(key), cache.term_counts(term_id)));
        let no_matches = self.affinity.iter().all(|(counts, _)| cache.counts(*counts).total() == 0);
        let affinity_filter = AffinityFilter {
            affinity: self.affinity.iter().map(with_domains).collect(),
            is_first_in_series: no_matches && self.matches_itself,
            anti_affinity: self
                .anti_affinity
                .iter()
                .map(with_domains)
                .filter(|(_, counts)| counts.total() > 0)
                .collect(),
            existing_anti_affinity: existing_terms
                .filter(|(_, term_counts)| term_counts.total() > 0)
                .collect(),
        };
        let is_empty = self.affinity.is_empty()
            && affinity_filter.anti_affinity.is_empty()
            && affinity_filter.existing_anti_affinity.is_empty();
        (!is_empty).then_some(affinity_filter)
    }

    /// Filters a node with pods added or removed.
    pub(crate) fn filter_with_delta(
        &self,
        delta: &AffinityDelta,
        cache: &ClusterCache,
        node: NodeId,
    ) -> Result<(), CommonStatus> {
        let mut is_matched = true;
        let mut no_matches = true;
        for &(counts, key) in &self.affinity {
            let domain = cache.topology.domain(key, node);
            if !domain.is_present() {
                return Err(CommonStatus::AffinityUnmatched);
            }
            let counts = cache.counts(counts);
            is_matched &= i64::from(counts.at(domain.value_id())) + delta.affinity > 0;
            no_matches &= counts.total() as i64 + delta.affinity == 0;
        }
        if !(is_matched || self.matches_itself && no_matches) {
            return Err(CommonStatus::AffinityUnmatched);
        }
        for (index, &(counts, key)) in self.anti_affinity.iter().enumerate() {
            let domain = cache.topology.domain(key, node);
            if domain.is_present()
                && i64::from(cache.counts(counts).at(domain.value_id())) + delta.anti_affinity[index] > 0
            {
                return Err(CommonStatus::AntiAffinityViolated);
            }
        }
        // kube-scheduler counts by domain, not by term: a decrease of one term may hide an increase of another.
        let mut keys: Vec<(TopologyKeyId, i64)> = delta.existing_anti_affinity.clone();
        for &(term_id, key) in &self.existing_anti_affinity {
            let domain = cache.topology.domain(key, node);
            if domain.is_present() {
                keys.push((key, i64::from(cache.term_counts(term_id).at(domain.value_id()))));
            }
        }
        keys.sort_unstable();
        let mut remaining = &keys[..];
        while let Some(&(key, _)) = remaining.first() {
            let group_len = remaining.partition_point(|(other, _)| *other == key);
            if remaining[..group_len].iter().map(|(_, count)| count).sum::<i64>() > 0 {
                return Err(CommonStatus::ExistingAntiAffinityViolated);
            }
            remaining = &remaining[group_len..];
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
            && self.affinity_terms.iter().all(|resolved_term| resolved_term.matches(namespace, labels))
        {
            delta.affinity += by;
        }
        for (count, resolved_term) in delta.anti_affinity.iter_mut().zip(&self.anti_affinity_terms) {
            if resolved_term.matches(namespace, labels) {
                *count += by;
            }
        }
        if other.spec.required_anti_affinity.is_empty() {
            return;
        }
        let namespace_labels = cache.related_objects.namespace_labels(&pod.name.namespace);
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
            || (self.preferred.iter().all(|(counts, ..)| cache.counts(*counts).total() == 0)
                && self
                    .preferred_by_existing
                    .iter()
                    .all(|(term_id, ..)| cache.term_counts(*term_id).total() == 0))
    }

    /// Sums the weights of matching preferred terms, in both directions.
    pub(crate) fn score(&self, cache: &ClusterCache, nodes: &[NodeId], scores: &mut [i64]) {
        scores.fill(0);
        for &(counts, key, weight) in &self.preferred {
            let (counts, domains) = (cache.counts(counts), cache.topology.domains(key));
            for (node, score) in nodes.iter().zip(&mut *scores) {
                let domain = domains[node.index()];
                if domain.is_present() {
                    *score += weight * i64::from(counts.at(domain.value_id()));
                }
            }
        }
        for &(term_id, key, weight) in &self.preferred_by_existing {
            let (term_counts, domains) = (cache.term_counts(term_id), cache.topology.domains(key));
            for (node, score) in nodes.iter().zip(&mut *scores) {
                let domain = domains[node.index()];
                if domain.is_present() {
                    *score += weight * i64::from(term_counts.at(domain.value_id()));
                }
            }
        }
    }
}

// === impl AffinityFilter ===

impl AffinityFilter<'_> {
    /// Filters a node.
    #[inline(always)]
    pub(crate) fn filter(&self, node: NodeId) -> Result<(), CommonStatus> {
        let mut is_matched = true;
        for (domains, counts) in &self.affinity {
            let domain = domains[node.index()];
            if !domain.is_present() {
                return Err(CommonStatus::AffinityUnmatched);
            }
            is_matched &= counts.at(domain.value_id()) > 0;
        }
        if !is_matched && !self.is_first_in_series {
            return Err(CommonStatus::AffinityUnmatched);
        }
        for (domains, counts) in &self.anti_affinity {
            let domain = domains[node.index()];
            if domain.is_present() && counts.at(domain.value_id()) > 0 {
                return Err(CommonStatus::AntiAffinityViolated);
            }
        }
        for (domains, term_counts) in &self.existing_anti_affinity {
            let domain = domains[node.index()];
            if domain.is_present() && term_counts.at(domain.value_id()) > 0 {
                return Err(CommonStatus::ExistingAntiAffinityViolated);
            }
        }
        Ok(())
    }
}

/// Scales scores from 0 to 100 between minimum and maximum.
pub(crate) fn normalize_score(scores: &[i64], normalized: &mut [i64]) {
    let min_score = scores.iter().copied().min().unwrap_or(0);
    let score_range = scores.iter().copied().max().unwrap_or(0) - min_score;
    if score_range <= 0 {
        normalized.fill(0);
        return;
    }
    for (score, normalized) in scores.iter().zip(normalized) {
        *normalized = (100.0 * ((score - min_score) as f64 / score_range as f64)) as i64;
    }
}

/// Resolves a term of the incoming pod: its namespace selector is matched against namespaces first, and then once more
/// against no labels at all. From 1.34 to 1.36 the latter is a bug of kube-scheduler, and so part of its decisions.
fn resolve_term(cache: &ClusterCache, term: &AffinityTerm, version: Version) -> ResolvedTerm {
    let namespace_selector = &term.namespace_selector;
    let selects_all = namespace_selector.matches(|_| None)
        && (namespace_selector.is_everything() || version >= Version::V1_34);
    if selects_all {
        return ResolvedTerm { namespaces: None, selector: term.selector.clone() };
    }
    let mut namespaces = term.namespaces.clone();
    if !namespace_selector.is_nothing() {
        let matching_namespaces = cache
            .related_objects
            .namespaces
            .iter()
            .filter(|(_, labels)| namespace_selector.matches(|key| labels.get(key)));
        namespaces.extend(matching_namespaces.map(|(name, _)| name.clone()));
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
fn domain_changed(pod: &Pod, old: Option<&Node>, new: &Node) -> bool {
    let value = |node: &Node, key: &str| node.labels.get_shared(key).cloned();
    let affinity_changed = pod.spec.required_affinity.iter().any(|term| match old {
        None => value(new, &term.topology_key).is_some(),
        Some(old) => {
            value(new, &term.topology_key).is_some()
                && value(old, &term.topology_key) != value(new, &term.topology_key)
        }
    });
    affinity_changed
        || pod.spec.required_anti_affinity.iter().any(|term| match old {
            None => true,
            Some(old) => {
                value(old, &term.topology_key).is_some()
                    && value(old, &term.topology_key) != value(new, &term.topology_key)
            }
        })
}

fn matching_pods_changed(hint: &HintContext<'_>, old: Option<&Pod>, new: Option<&Pod>) -> bool {
    let (affinity_terms, anti_affinity_terms) =
        (&hint.pod.spec.required_affinity, &hint.pod.spec.required_anti_affinity);
    if old.is_some() && new.is_some() && hint.is_own_pod_event() {
        return true;
    }
    if ![old, new].into_iter().flatten().all(Pod::is_assigned_or_nominated) {
        return false;
    }
    match (old, new) {
        (Some(old), Some(new)) => {
            (!pod_matches_all_terms(affinity_terms, old) && pod_matches_all_terms(affinity_terms, new))
                || (pod_matches_all_terms(anti_affinity_terms, old)
                    && !pod_matches_all_terms(anti_affinity_terms, new))
        }
        (None, Some(new)) => pod_matches_all_terms(affinity_terms, new),
        (Some(deleted), None) => {
            pod_matches_all_terms(anti_affinity_terms, deleted)
                || pod_matches_all_terms(&deleted.spec.required_anti_affinity, hint.pod)
        }
        (None, None) => true,
    }
}

/// Whether there are terms and all of them match a pod. Namespace labels are not looked up here, as in kube-scheduler.
fn pod_matches_all_terms(terms: &[AffinityTerm], pod: &Pod) -> bool {
    let matches_pod = |term: &AffinityTerm| term.matches(&pod.name.namespace, &pod.labels, Labels::none());
    !terms.is_empty() && terms.iter().all(matches_pod)
}
