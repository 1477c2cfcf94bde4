//! Spreads pods over domains: hosts, zones, or whatever labels of nodes say.

use std::sync::Arc;

use kubernetes::go;
use kubernetes::labels::Labels;
use kubernetes::selector::Selector;
use smallvec::SmallVec;

use super::registration::{Filter, Registration};
use crate::events::{About, Hint, Sort};
use crate::ids::NodeId;
use crate::node::NodeSpec;
use crate::plugin::ExtensionPoint;
use crate::pod::{Pod, SpreadConstraint};
use crate::settings::{DefaultConstraint, SpreadDefaults};
use crate::verdict::Usual;
use crate::world::{By, CountedNodes, KeyId, Place, Question, Tally, TallyId, Where, Who, World};

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "PodTopologySpread",
    points: |_| {
        &[ExtensionPoint::PreFilter, ExtensionPoint::Filter, ExtensionPoint::PreScore, ExtensionPoint::Score]
    },
    filter: Some(
        Filter::BEYOND_AND_PODS
            .unprepared(r#"reading "PreFilterPodTopologySpread" from cycleState: not found"#),
    ),
    weight: 2,
    events: &[
        Sort::NodeAdded,
        Sort::NodeDeleted,
        Sort::NodeLabels,
        Sort::NodeTaints,
        Sort::PodAdded,
        Sort::PodDeleted,
        Sort::PodLabels,
        Sort::PodTolerations,
    ],
    queueing_hint,
    ..Registration::EMPTY
};

const HOSTNAME: &str = "kubernetes.io/hostname";
const ZONE: &str = "topology.kubernetes.io/zone";

/// The constraints that must hold for a pod. Without any, every node is right.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hard {
    namespace: Arc<str>,
    constraints: Vec<HardConstraint>,
}

#[derive(Clone, Debug)]
struct HardConstraint {
    key: KeyId,
    selector: Selector,
    max_skew: i64,
    min_domains: usize,
    /// One if the pod itself is counted, once it is there.
    own: i64,
    tally: TallyId,
}

/// The constraints that had better hold for a pod. Without any, no node is better than another.
#[derive(Clone, Debug, Default)]
pub(crate) struct Soft {
    constraints: Vec<SoftConstraint>,
    /// Nodes that lack one of the labels are not compared with the others.
    needs_all_keys: bool,
}

#[derive(Clone, Debug)]
struct SoftConstraint {
    key: KeyId,
    is_hostname: bool,
    max_skew: i32,
    tally: TallyId,
}

/// Hard constraints, each with where nodes are, how many pods are there, and the most there may be already.
pub(crate) struct Ready<'a>(SmallVec<[(&'a [Place], &'a Tally, i64); 2]>);

/// Pods added to or taken from a node, as seen by the hard constraints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shift(Vec<i64>);

// === constraints of a pod ===

/// The constraints of a pod, its own or else the profile's, that are hard or not.
pub(crate) fn constraints(
    world: &World,
    defaults: &SpreadDefaults,
    pod: &Pod,
    hard: bool,
) -> Vec<SpreadConstraint> {
    let own = &pod.shape.spread;
    let chosen = |constraint: &&SpreadConstraint| constraint.hard == Some(hard);
    if !own.is_empty() {
        return own.iter().filter(chosen).map(|constraint| with_label_keys(constraint, pod)).collect();
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
        world.relations.default_selector(&pod.name.namespace, &pod.labels, pod.controller.as_ref());
    if selector.is_everything() {
        return Vec::new();
    }
    let chosen = list.iter().filter(|constraint| constraint.hard == hard);
    chosen
        .map(|constraint| SpreadConstraint {
            max_skew: constraint.max_skew,
            key: constraint.topology_key.clone(),
            hard: Some(hard),
            // Whatever label keys a default has, this selector takes the place of all.
            selector: selector.clone(),
            match_label_keys: Vec::new(),
            min_domains: constraint.min_domains.unwrap_or(1),
            honor_affinity: constraint.honor_affinity,
            honor_taints: constraint.honor_taints,
        })
        .collect()
}

fn default_constraint(key: &str, max_skew: i32) -> DefaultConstraint {
    DefaultConstraint {
        max_skew,
        topology_key: key.into(),
        hard: false,
        min_domains: None,
        honor_affinity: true,
        honor_taints: false,
        match_label_keys: Vec::new(),
    }
}

/// The selector also asks for the pod's own values of some labels.
fn with_label_keys(constraint: &SpreadConstraint, pod: &Pod) -> SpreadConstraint {
    let values = constraint.match_label_keys.iter().filter_map(|key| Some((&**key, pod.labels.get(key)?)));
    let mut constraint = constraint.clone();
    let own: Vec<_> = values.collect();
    if !own.is_empty() && !constraint.selector.is_nothing() {
        constraint.selector = Selector::of_labels(own).and(&constraint.selector);
    }
    constraint
}

/// The nodes on which pods count for a constraint.
fn counted_nodes(pod: &Pod, constraint: &SpreadConstraint, with_keys: Vec<KeyId>) -> CountedNodes {
    let selects = !pod.shape.required_nodes.is_none();
    CountedNodes {
        with_keys,
        selected_by: (constraint.honor_affinity && selects)
            .then(|| Arc::new(pod.shape.required_nodes.clone())),
        tolerated_by: constraint.honor_taints.then(|| pod.shape.tolerations.clone()),
    }
}

// === impl Hard ===

impl Hard {
    pub(crate) fn plan(world: &mut World, defaults: &SpreadDefaults, pod: &Pod) -> Hard {
        let constraints = constraints(world, defaults, pod, true);
        let mut keys: Vec<KeyId> = constraints.iter().map(|constraint| world.key(&constraint.key)).collect();
        let all_keys = keys.clone();
        keys.sort_unstable();
        keys.dedup();
        let namespace = pod.name.namespace.clone();
        let planned = constraints.iter().zip(all_keys).map(|(constraint, key)| HardConstraint {
            key,
            max_skew: i64::from(constraint.max_skew),
            min_domains: usize::try_from(constraint.min_domains).unwrap_or(0),
            own: i64::from(constraint.selector.matches(|label| pod.labels.get(label))),
            selector: constraint.selector.clone(),
            tally: world.tally(Question {
                who: Who::Spread(namespace.clone(), constraint.selector.clone()),
                ground: Where { by: By::Value(key), nodes: counted_nodes(pod, constraint, keys.clone()) },
            }),
        });
        let constraints = planned.collect();
        Hard { namespace, constraints }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// Looked up, for as long as nobody comes or goes.
    pub(crate) fn ready<'a>(&self, world: &'a World) -> Ready<'a> {
        let constraints = self.constraints.iter().map(|constraint| {
            let (places, tally) = (world.topology.places(constraint.key), world.count(constraint.tally));
            (places, tally, constraint.limit(world, None))
        });
        Ready(constraints.collect())
    }

    /// Whether a node would be right if pods came to it and went from it.
    pub(crate) fn filter_shifted(&self, shift: &Shift, world: &World, node: NodeId) -> Result<(), Usual> {
        for (constraint, &shift) in self.constraints.iter().zip(&shift.0) {
            let place = world.topology.place(constraint.key, node);
            if !place.is_present() {
                return Err(Usual::NoSpreadLabel);
            }
            let tally = world.count(constraint.tally);
            let count = i64::from(tally.at(place.value())) + shift;
            let shifted = (shift != 0).then_some((place.value(), count));
            if count > constraint.limit(world, shifted) {
                return Err(Usual::TooManyInDomain);
            }
        }
        Ok(())
    }

    /// No pods come or go.
    pub(crate) fn still(&self) -> Shift {
        Shift(vec![0; self.constraints.len()])
    }

    /// A pod comes to a node (1) or goes from it (-1). Whether it is being deleted is not asked here, and a selector of
    /// everybody does count everybody: so the original does.
    pub(crate) fn shift(&self, shift: &mut Shift, world: &World, pod: &Pod, node: NodeId, by: i64) {
        if self.constraints.is_empty() || pod.name.namespace != self.namespace {
            return;
        }
        if self.constraints.iter().any(|constraint| !world.topology.place(constraint.key, node).is_present())
        {
            return;
        }
        for (constraint, shift) in self.constraints.iter().zip(&mut shift.0) {
            if constraint.selector.matches(|label| pod.labels.get(label))
                && world.counts_on(constraint.tally, node)
            {
                *shift += by;
            }
        }
    }
}

impl HardConstraint {
    /// The most pods a domain may have already; `shifted` is a domain with another count than the tally's.
    fn limit(&self, world: &World, shifted: Option<(usize, i64)>) -> i64 {
        let (domains, fewest) = world.fewest(self.tally, shifted.map(|(place, _)| place));
        let fewest = fewest.map_or(i64::from(i32::MAX), i64::from);
        let fewest = shifted.map_or(fewest, |(_, count)| fewest.min(count));
        let fewest = if domains < self.min_domains { 0 } else { fewest };
        self.max_skew + fewest - self.own
    }
}

// === impl Ready ===

impl Ready<'_> {
    /// Whether a node is right.
    pub(crate) fn filter(&self, node: NodeId) -> Result<(), Usual> {
        for (places, tally, limit) in &self.0 {
            let place = places[node.index()];
            if !place.is_present() {
                return Err(Usual::NoSpreadLabel);
            }
            if i64::from(tally.at(place.value())) > *limit {
                return Err(Usual::TooManyInDomain);
            }
        }
        Ok(())
    }
}

// === impl Soft ===

impl Soft {
    pub(crate) fn plan(world: &mut World, defaults: &SpreadDefaults, pod: &Pod) -> Soft {
        let constraints = constraints(world, defaults, pod, false);
        let needs_all_keys = !pod.shape.spread.is_empty() || *defaults != SpreadDefaults::System;
        let mut with_keys: Vec<KeyId> = Vec::new();
        if needs_all_keys {
            with_keys = constraints.iter().map(|constraint| world.key(&constraint.key)).collect();
            with_keys.sort_unstable();
            with_keys.dedup();
        }
        let planned = constraints.iter().map(|constraint| {
            let key = world.key(&constraint.key);
            let is_hostname = *constraint.key == *HOSTNAME;
            let who = Who::Spread(pod.name.namespace.clone(), constraint.selector.clone());
            let ground = if is_hostname {
                // Counted on each node by itself, whatever the policies say.
                Where { by: By::Node, nodes: CountedNodes::default() }
            } else {
                Where { by: By::ValueOrNone(key), nodes: counted_nodes(pod, constraint, with_keys.clone()) }
            };
            let tally = world.tally(Question { who, ground });
            SoftConstraint { key, is_hostname, max_skew: constraint.max_skew, tally }
        });
        Soft { constraints: planned.collect(), needs_all_keys }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.constraints.is_empty()
    }

    /// How crowded each node's domains are: the more, the worse. `None` for nodes that are not compared.
    pub(crate) fn score(
        &self,
        world: &World,
        nodes: &[NodeId],
        marks: &mut Marks,
        scores: &mut Vec<Option<i64>>,
    ) {
        let is_ignored = |node: NodeId| {
            self.needs_all_keys
                && self
                    .constraints
                    .iter()
                    .any(|constraint| !world.topology.place(constraint.key, node).is_present())
        };
        scores.clear();
        scores.extend(nodes.iter().map(|&node| (!is_ignored(node)).then_some(0)));
        let compared = scores.iter().flatten().count();
        let mut sums = std::mem::take(&mut marks.sums);
        sums.clear();
        sums.resize(nodes.len(), 0.0);
        for constraint in &self.constraints {
            let places = world.topology.places(constraint.key);
            let size = if constraint.is_hostname {
                compared
            } else {
                let places = nodes
                    .iter()
                    .zip(&*scores)
                    .filter(|(_, score)| score.is_some())
                    .map(|(node, _)| places[node.index()].value());
                marks.distinct(places, world.topology.values(constraint.key))
            };
            let weight = go::ln((size + 2) as f64);
            let more = f64::from(constraint.max_skew.wrapping_sub(1));
            let tally = world.count(constraint.tally);
            for (&node, sum) in nodes.iter().zip(&mut sums) {
                let place = places[node.index()];
                if place.is_present() {
                    let at = if constraint.is_hostname { node.index() } else { place.value() };
                    *sum += f64::from(tally.at(at)) * weight + more;
                }
            }
        }
        for (score, sum) in scores.iter_mut().zip(&sums) {
            if let Some(score) = score {
                *score = sum.round() as i64;
            }
        }
        marks.sums = sums;
    }
}

/// From 0 to 100, the least crowded the best; nodes that are not compared get nothing.
pub(crate) fn normalise(scores: &[Option<i64>], normalised: &mut [i64]) {
    let least = scores.iter().flatten().copied().min().unwrap_or(0);
    let most = scores.iter().flatten().copied().max().unwrap_or(0).max(0);
    for (score, normalised) in scores.iter().zip(normalised) {
        *normalised = match score {
            None | Some(-1) => 0,
            Some(_) if most == 0 => 100,
            Some(score) => 100 * (most + least - score) / most,
        };
    }
}

/// Room to count distinct places in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    seen: Vec<u32>,
    round: u32,
    sums: Vec<f64>,
}

impl Marks {
    fn distinct(&mut self, places: impl Iterator<Item = usize>, end: usize) -> usize {
        if self.round == u32::MAX {
            self.seen.clear();
            self.round = 0;
        }
        self.round += 1;
        if self.seen.len() < end {
            self.seen.resize(end, 0);
        }
        let mut distinct = 0;
        for place in places {
            if self.seen[place] != self.round {
                self.seen[place] = self.round;
                distinct += 1;
            }
        }
        distinct
    }
}

/// Whether the domains over which the pod is spread changed, or how many pods they have that count.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    let constraints = constraints(hint.world, &hint.profile.spread, hint.pod, true);
    match hint.event.about {
        About::Node { old, new } => domains_changed(&constraints, old, new),
        About::Pod { old, new, .. } => counts_changed(hint, &constraints, old, new),
        About::Thing { .. } => true,
    }
}

fn domains_changed(constraints: &[SpreadConstraint], old: Option<&NodeSpec>, new: Option<&NodeSpec>) -> bool {
    let counts = |node: &NodeSpec| constraints.iter().all(|one| node.labels.get(&one.key).is_some());
    // A label that is missing is as one that is empty here.
    let value = |labels: &Labels, key: &str| labels.get(key).unwrap_or_default().to_owned();
    match (old, new) {
        (Some(old), Some(new)) => {
            let moved =
                || constraints.iter().any(|one| value(&old.labels, &one.key) != value(&new.labels, &one.key));
            counts(old) != counts(new) || (counts(new) && (moved() || old.taints != new.taints))
        }
        (None, Some(node)) | (Some(node), None) => counts(node),
        (None, None) => true,
    }
}

fn counts_changed(
    hint: &Hint<'_>,
    constraints: &[SpreadConstraint],
    old: Option<&Pod>,
    new: Option<&Pod>,
) -> bool {
    let (pod, itself) = (hint.pod, hint.is_about_itself());
    let involved = |other: &Pod| itself || (other.is_held() && other.name.namespace == pod.name.namespace);
    if ![old, new].into_iter().flatten().all(involved) {
        return false;
    }
    let means =
        |constraint: &SpreadConstraint, pod: &Pod| constraint.selector.matches(|key| pod.labels.get(key));
    match (old, new) {
        (Some(old), Some(new)) => {
            let tolerates_more = itself
                && old.shape.tolerations != new.shape.tolerations
                && constraints.iter().any(|constraint| constraint.honor_taints);
            tolerates_more
                || (old.labels != new.labels
                    && constraints.iter().any(|constraint| means(constraint, old) != means(constraint, new)))
        }
        (Some(one), None) | (None, Some(one)) => constraints.iter().any(|constraint| means(constraint, one)),
        (None, None) => true,
    }
}
