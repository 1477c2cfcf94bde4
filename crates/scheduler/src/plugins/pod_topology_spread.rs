//! PodTopologySpread: topology spread constraints of pods, and the default constraints of a profile.

use std::sync::Arc;

use kubernetes::go;
use kubernetes::labels::Labels;
use kubernetes::selector::Selector;
use kubernetes::well_known::{HOSTNAME, ZONE};

use super::registration::{FilterTraits, Registration};
use crate::cache::{
    ClusterCache, CountQuery, CountedNodes, DomainCounts, DomainCountsId, GroupBy, NodeScope, PodFilter,
    TopologyDomain, TopologyKeyId,
};
use crate::events::{ClusterEvent, EventObjects, HintContext};
use crate::ids::NodeId;
use crate::node::Node;
use crate::plugin::ExtensionPoint;
use crate::pod::{Pod, SpreadConstraint};
use crate::settings::{DefaultSpreadConstraint, SpreadDefaults};
use crate::status::CommonStatus;

pub(crate) const REGISTRATION: Registration = Registration::new("PodTopologySpread", |_| {
    &[ExtensionPoint::PreFilter, ExtensionPoint::Filter, ExtensionPoint::PreScore, ExtensionPoint::Score]
})
.filter(
    FilterTraits::CLUSTER_AND_PODS
        .with_missing_state_error(r#"reading "PreFilterPodTopologySpread" from cycleState: not found"#),
)
.weight(2)
.events(&[
    ClusterEvent::NodeAdd,
    ClusterEvent::NodeDelete,
    ClusterEvent::UpdateNodeLabel,
    ClusterEvent::UpdateNodeTaint,
    ClusterEvent::AssignedPodAdd,
    ClusterEvent::AssignedPodDelete,
    ClusterEvent::UpdatePodLabel,
    ClusterEvent::UpdatePodToleration,
])
.queueing_hint(queueing_hint);

/// The `DoNotSchedule` constraints of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct HardConstraints {
    namespace: Arc<str>,
    constraints: Vec<HardConstraint>,
}

#[derive(Clone, Debug)]
struct HardConstraint {
    key: TopologyKeyId,
    selector: Selector,
    max_skew: i64,
    min_domains: usize,
    /// One if the pod matches the selector itself.
    self_match: i64,
    counts: DomainCountsId,
}

/// The `ScheduleAnyway` constraints of a pod.
#[derive(Clone, Debug, Default)]
pub(crate) struct SoftConstraints {
    constraints: Vec<SoftConstraint>,
    /// Nodes that lack a topology key get no score.
    needs_all_keys: bool,
}

#[derive(Clone, Debug)]
struct SoftConstraint {
    key: TopologyKeyId,
    is_hostname: bool,
    max_skew: i32,
    counts: DomainCountsId,
}

/// Hard constraints, each with the domains of nodes, the counts, and the highest count that still passes.
pub(crate) struct SpreadFilter<'a>(Vec<(&'a [TopologyDomain], &'a DomainCounts, i64)>);

/// Changes of counts by pods added to or removed from a node, by hard constraint.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpreadDelta(Vec<i64>);

// === constraints of a pod ===

/// The hard or soft constraints of a pod: its own, or else the profile's defaults.
pub(crate) fn constraints(
    cache: &ClusterCache,
    defaults: &SpreadDefaults,
    pod: &Pod,
    hard: bool,
) -> Vec<SpreadConstraint> {
    let own_constraints = &pod.spec.spread_constraints;
    let chosen = |constraint: &&SpreadConstraint| constraint.hard == Some(hard);
    if !own_constraints.is_empty() {
        return own_constraints
            .iter()
            .filter(chosen)
            .map(|constraint| with_label_keys(constraint, pod))
            .collect();
    }
    let system;
    let list = match defaults {
        SpreadDefaults::System => {
            system = [default_constraint(HOSTNAME, 3), default_constraint(ZONE, 5)];
            &system[..]
        }
        SpreadDefaults::List(list) => list,
    };
    if !list.iter().any(|constraint| constraint.hard == hard) {
        return Vec::new();
    }
    let selector =
        cache.related_objects.default_selector(&pod.name.namespace, &pod.labels, pod.controller.as_ref());
    if selector.is_everything() {
        return Vec::new();
    }
    let chosen = list.iter().filter(|constraint| constraint.hard == hard);
    chosen
        .map(|constraint| SpreadConstraint {
            max_skew: constraint.max_skew,
            topology_key: constraint.topology_key.clone(),
            hard: Some(hard),
            // This selector replaces the `matchLabelKeys` of a default constraint.
            selector: selector.clone(),
            match_label_keys: Vec::new(),
            min_domains: constraint.min_domains.unwrap_or(1),
            honor_affinity: constraint.honor_affinity,
            honor_taints: constraint.honor_taints,
        })
        .collect()
}

fn default_constraint(key: &str, max_skew: i32) -> DefaultSpreadConstraint {
    DefaultSpreadConstraint {
        max_skew,
        topology_key: key.into(),
        hard: false,
        min_domains: None,
        honor_affinity: true,
        honor_taints: false,
        match_label_keys: Vec::new(),
    }
}

/// Adds the pod's values of `matchLabelKeys` to the selector.
fn with_label_keys(constraint: &SpreadConstraint, pod: &Pod) -> SpreadConstraint {
    let values = constraint.match_label_keys.iter().filter_map(|key| Some((&**key, pod.labels.get(key)?)));
    let mut constraint = constraint.clone();
    let own_labels: Vec<_> = values.collect();
    if !own_labels.is_empty() && !constraint.selector.is_nothing() {
        constraint.selector = Selector::of_labels(own_labels).and(&constraint.selector);
    }
    constraint
}

/// The nodes on which pods are counted for a constraint, by its inclusion policies.
fn counted_nodes(pod: &Pod, constraint: &SpreadConstraint, with_keys: Vec<TopologyKeyId>) -> CountedNodes {
    let selects = !pod.spec.required_node_affinity.is_none();
    CountedNodes {
        with_keys,
        selected_by: (constraint.honor_affinity && selects)
            .then(|| Arc::new(pod.spec.required_node_affinity.clone())),
        tolerated_by: constraint.honor_taints.then(|| pod.spec.tolerations.clone()),
    }
}

// === impl HardConstraints ===

impl HardConstraints {
    pub(crate) fn new(cache: &mut ClusterCache, defaults: &SpreadDefaults, pod: &Pod) -> HardConstraints {
        let constraints = constraints(cache, defaults, pod, true);
        let mut keys: Vec<TopologyKeyId> =
            constraints.iter().map(|constraint| cache.topology_key(&constraint.topology_key)).collect();
        let all_keys = keys.clone();
        keys.sort_unstable();
        keys.dedup();
        let namespace = pod.name.namespace.clone();
        let resolved = constraints.iter().zip(all_keys).map(|(constraint, key)| HardConstraint {
            key,
            max_skew: i64::from(constraint.max_skew),
            min_domains: usize::try_from(constraint.min_domains).unwrap_or(0),
            self_match: i64::from(constraint.selector.matches(|label| pod.labels.get(label))),
            selector: constraint.selector.clone(),
            counts: cache.counts_for(CountQuery {
                pods: PodFilter::Spread(namespace.clone(), constraint.selector.clone()),
                scope: NodeScope {
                    group_by: GroupBy::Domain(key),
                    nodes: counted_nodes(pod, constraint, keys.clone()),
                },
            }),
        });
        let constraints = resolved.collect();
        HardConstraints { namespace, constraints }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// The counts it refers to.
    pub(crate) fn counts(&self) -> impl Iterator<Item = DomainCountsId> {
        self.constraints.iter().map(|constraint| constraint.counts)
    }

    /// Looks up domains and counts, valid until pods change.
    pub(crate) fn prepare_filter<'a>(&self, cache: &'a ClusterCache) -> SpreadFilter<'a> {
        let constraints = self.constraints.iter().map(|constraint| {
            let (domains, counts) = (cache.topology.domains(constraint.key), cache.counts(constraint.counts));
            (domains, counts, constraint.max_existing(cache, None))
        });
        SpreadFilter(constraints.collect())
    }

    /// Filters a node with pods added or removed.
    pub(crate) fn filter_with_delta(
        &self,
        delta: &SpreadDelta,
        cache: &ClusterCache,
        node: NodeId,
    ) -> Result<(), CommonStatus> {
        for (constraint, &shift) in self.constraints.iter().zip(&delta.0) {
            let domain = cache.topology.domain(constraint.key, node);
            if !domain.is_present() {
                return Err(CommonStatus::MissingSpreadLabel);
            }
            let counts = cache.counts(constraint.counts);
            let count = i64::from(counts.at(domain.value_id())) + shift;
            let changed_domain = (shift != 0).then_some((domain.value_id(), count));
            if count > constraint.max_existing(cache, changed_domain) {
                return Err(CommonStatus::MaxSkewExceeded);
            }
        }
        Ok(())
    }

    /// A delta without pods.
    pub(crate) fn no_delta(&self) -> SpreadDelta {
        SpreadDelta(vec![0; self.constraints.len()])
    }

    /// Adds (1) or removes (-1) a pod on a node. As in kube-scheduler terminating pods are not excluded here, and an
    /// empty selector matches all pods.
    pub(crate) fn update_with_pod(
        &self,
        delta: &mut SpreadDelta,
        cache: &ClusterCache,
        pod: &Pod,
        node: NodeId,
        by: i64,
    ) {
        if self.constraints.is_empty() || pod.name.namespace != self.namespace {
            return;
        }
        if self.constraints.iter().any(|constraint| !cache.topology.domain(constraint.key, node).is_present())
        {
            return;
        }
        for (constraint, delta) in self.constraints.iter().zip(&mut delta.0) {
            if constraint.selector.matches(|label| pod.labels.get(label))
                && cache.is_node_counted(constraint.counts, node)
            {
                *delta += by;
            }
        }
    }
}

impl HardConstraint {
    /// The highest count with which a domain passes; `changed_domain` is a domain with another count than the kept one.
    fn max_existing(&self, cache: &ClusterCache, changed_domain: Option<(usize, i64)>) -> i64 {
        let (domains, min_count) = cache.min_match(self.counts, changed_domain.map(|(domain, _)| domain));
        let min_count = min_count.map_or(i64::from(i32::MAX), i64::from);
        let min_count = changed_domain.map_or(min_count, |(_, count)| min_count.min(count));
        let min_count = if domains < self.min_domains { 0 } else { min_count };
        self.max_skew + min_count - self.self_match
    }
}

// === impl SpreadFilter ===

impl SpreadFilter<'_> {
    /// Filters a node.
    #[inline(always)]
    pub(crate) fn filter(&self, node: NodeId) -> Result<(), CommonStatus> {
        for (domains, counts, limit) in &self.0 {
            let domain = domains[node.index()];
            if !domain.is_present() {
                return Err(CommonStatus::MissingSpreadLabel);
            }
            if i64::from(counts.at(domain.value_id())) > *limit {
                return Err(CommonStatus::MaxSkewExceeded);
            }
        }
        Ok(())
    }
}

// === impl SoftConstraints ===

impl SoftConstraints {
    pub(crate) fn new(cache: &mut ClusterCache, defaults: &SpreadDefaults, pod: &Pod) -> SoftConstraints {
        let constraints = constraints(cache, defaults, pod, false);
        let needs_all_keys = !pod.spec.spread_constraints.is_empty() || *defaults != SpreadDefaults::System;
        let mut with_keys: Vec<TopologyKeyId> = Vec::new();
        if needs_all_keys {
            with_keys =
                constraints.iter().map(|constraint| cache.topology_key(&constraint.topology_key)).collect();
            with_keys.sort_unstable();
            with_keys.dedup();
        }
        let resolved = constraints.iter().map(|constraint| {
            let key = cache.topology_key(&constraint.topology_key);
            let is_hostname = *constraint.topology_key == *HOSTNAME;
            let pod_filter = PodFilter::Spread(pod.name.namespace.clone(), constraint.selector.clone());
            let scope = if is_hostname {
                // Counted per node, regardless of the inclusion policies.
                NodeScope { group_by: GroupBy::Node, nodes: CountedNodes::default() }
            } else {
                NodeScope {
                    group_by: GroupBy::DomainOrEmpty(key),
                    nodes: counted_nodes(pod, constraint, with_keys.clone()),
                }
            };
            let counts = cache.counts_for(CountQuery { pods: pod_filter, scope });
            SoftConstraint { key, is_hostname, max_skew: constraint.max_skew, counts }
        });
        SoftConstraints { constraints: resolved.collect(), needs_all_keys }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// The counts it refers to.
    pub(crate) fn counts(&self) -> impl Iterator<Item = DomainCountsId> {
        self.constraints.iter().map(|constraint| constraint.counts)
    }

    /// The raw scores, of which lower is better. `None` for ignored nodes.
    pub(crate) fn score(
        &self,
        cache: &ClusterCache,
        nodes: &[NodeId],
        scratch: &mut ScoreScratch,
        scores: &mut Vec<Option<i64>>,
    ) {
        let is_ignored = |node: NodeId| {
            self.needs_all_keys
                && self
                    .constraints
                    .iter()
                    .any(|constraint| !cache.topology.domain(constraint.key, node).is_present())
        };
        scores.clear();
        scores.extend(nodes.iter().map(|&node| (!is_ignored(node)).then_some(0)));
        let scored_nodes = scores.iter().flatten().count();
        let mut sums = std::mem::take(&mut scratch.sums);
        sums.clear();
        sums.resize(nodes.len(), 0.0);
        for constraint in &self.constraints {
            let domains = cache.topology.domains(constraint.key);
            let domain_count = if constraint.is_hostname {
                scored_nodes
            } else {
                let domains = nodes
                    .iter()
                    .zip(&*scores)
                    .filter(|(_, score)| score.is_some())
                    .map(|(node, _)| domains[node.index()].value_id());
                scratch.count_distinct(domains, cache.topology.value_id_bound(constraint.key))
            };
            let weight = go::ln((domain_count + 2) as f64);
            let skew_offset = f64::from(constraint.max_skew.wrapping_sub(1));
            let counts = cache.counts(constraint.counts);
            for (&node, sum) in nodes.iter().zip(&mut sums) {
                let domain = domains[node.index()];
                if domain.is_present() {
                    let index = if constraint.is_hostname { node.index() } else { domain.value_id() };
                    *sum += f64::from(counts.at(index)) * weight + skew_offset;
                }
            }
        }
        for (score, sum) in scores.iter_mut().zip(&sums) {
            if let Some(score) = score {
                *score = sum.round() as i64;
            }
        }
        scratch.sums = sums;
    }
}

/// Scales scores from 0 to 100, the lowest raw score being the best; ignored nodes get 0.
pub(crate) fn normalize_score(scores: &[Option<i64>], normalized: &mut [i64]) {
    let min_score = scores.iter().flatten().copied().min().unwrap_or(0);
    let max_score = scores.iter().flatten().copied().max().unwrap_or(0).max(0);
    for (score, normalized) in scores.iter().zip(normalized) {
        *normalized = match score {
            None | Some(-1) => 0,
            Some(_) if max_score == 0 => 100,
            Some(score) => 100 * (max_score + min_score - score) / max_score,
        };
    }
}

/// Reused buffers for scoring.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScoreScratch {
    last_round: Vec<u32>,
    round: u32,
    sums: Vec<f64>,
}

impl ScoreScratch {
    fn count_distinct(&mut self, places: impl Iterator<Item = usize>, end: usize) -> usize {
        if self.round == u32::MAX {
            self.last_round.clear();
            self.round = 0;
        }
        self.round += 1;
        if self.last_round.len() < end {
            self.last_round.resize(end, 0);
        }
        let mut distinct = 0;
        for domain in places {
            if self.last_round[domain] != self.round {
                self.last_round[domain] = self.round;
                distinct += 1;
            }
        }
        distinct
    }
}

/// Whether the event may change the domains of the pod's hard constraints or their counts.
fn queueing_hint(hint: &HintContext<'_>) -> bool {
    let constraints = constraints(hint.cache, &hint.profile.spread, hint.pod, true);
    match hint.event.objects {
        EventObjects::Node { old, new } => domains_changed(&constraints, old, new),
        EventObjects::Pod { old, new, .. } => counts_changed(hint, &constraints, old, new),
        EventObjects::Tracked { .. } => true,
    }
}

fn domains_changed(constraints: &[SpreadConstraint], old: Option<&Node>, new: Option<&Node>) -> bool {
    let is_counted = |node: &Node| {
        constraints.iter().all(|constraint| node.labels.get(&constraint.topology_key).is_some())
    };
    // A missing label equals an empty one here.
    let value = |labels: &Labels, key: &str| labels.get(key).unwrap_or_default().to_owned();
    match (old, new) {
        (Some(old), Some(new)) => {
            let is_domain_changed = || {
                constraints.iter().any(|constraint| {
                    value(&old.labels, &constraint.topology_key)
                        != value(&new.labels, &constraint.topology_key)
                })
            };
            is_counted(old) != is_counted(new)
                || (is_counted(new) && (is_domain_changed() || old.taints != new.taints))
        }
        (None, Some(node)) | (Some(node), None) => is_counted(node),
        (None, None) => true,
    }
}

fn counts_changed(
    hint: &HintContext<'_>,
    constraints: &[SpreadConstraint],
    old: Option<&Pod>,
    new: Option<&Pod>,
) -> bool {
    let (pod, is_own_event) = (hint.pod, hint.is_own_pod_event());
    let is_relevant = |other: &Pod| {
        is_own_event || (other.is_assigned_or_nominated() && other.name.namespace == pod.name.namespace)
    };
    if ![old, new].into_iter().flatten().all(is_relevant) {
        return false;
    }
    let matches_pod =
        |constraint: &SpreadConstraint, pod: &Pod| constraint.selector.matches(|key| pod.labels.get(key));
    match (old, new) {
        (Some(old), Some(new)) => {
            let tolerates_more = is_own_event
                && old.spec.tolerations != new.spec.tolerations
                && constraints.iter().any(|constraint| constraint.honor_taints);
            tolerates_more
                || (old.labels != new.labels
                    && constraints
                        .iter()
                        .any(|constraint| matches_pod(constraint, old) != matches_pod(constraint, new)))
        }
        (Some(changed_pod), None) | (None, Some(changed_pod)) => {
            constraints.iter().any(|constraint| matches_pod(constraint, changed_pod))
        }
        (None, None) => true,
    }
}
