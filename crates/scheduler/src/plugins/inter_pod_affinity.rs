//! Affinity and anti-affinity between pods.

use kubernetes::labels::Labels;
use smallvec::SmallVec;

use super::registration::{Filter, Registration};
use crate::events::{About, Hint, Sort};
use crate::ids::NodeId;
use crate::node::NodeSpec;
use crate::plugin::ExtensionPoint;
use crate::pod::{Pod, Term};
use crate::settings::{InterPodAffinityArgs, Version};
use crate::verdict::Usual;
use crate::world::{
    By, CountedNodes, How, KeyId, Meaning, Place, Question, Tally, TallyId, Where, Who, WishId, Wishers,
    World,
};

/// What it says of itself.
pub(crate) const REGISTRATION: Registration = Registration {
    name: "InterPodAffinity",
    points: |_| {
        &[ExtensionPoint::PreFilter, ExtensionPoint::Filter, ExtensionPoint::PreScore, ExtensionPoint::Score]
    },
    filter: Some(
        Filter::BEYOND_AND_PODS
            .unprepared(r#"error reading "PreFilterInterPodAffinity" from cycleState: not found"#),
    ),
    weight: 2,
    events: &[Sort::NodeAdded, Sort::NodeLabels, Sort::PodAdded, Sort::PodDeleted, Sort::PodLabels],
    queueing_hint,
    ..Registration::EMPTY
};

/// What a pod asks of those already placed, and they of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Plan {
    /// Pods that mean all of its required terms, by the places of each term.
    affinity: Vec<(TallyId, KeyId)>,
    affinity_meanings: Vec<Meaning>,
    /// Whether it means itself by all of them.
    means_itself: bool,
    /// Pods that it must not be near.
    anti: Vec<(TallyId, KeyId)>,
    anti_meanings: Vec<Meaning>,
    /// Required wishes of others not to have it near.
    unwanted: Vec<(WishId, KeyId)>,
    /// Pods that it likes, by weight.
    likes: Vec<(TallyId, KeyId, i64)>,
    /// Wishes of others about it, by weight.
    liked: Vec<(WishId, KeyId, i64)>,
    /// Its preferences, and those of others if need be, are not looked at.
    is_indifferent: bool,
}

/// A plan with where nodes are and who is there.
pub(crate) struct Ready<'a> {
    affinity: SmallVec<[(&'a [Place], &'a Tally); 2]>,
    /// Nobody it wants to be near is anywhere, and it is one of those itself.
    is_first: bool,
    anti: SmallVec<[(&'a [Place], &'a Tally); 2]>,
    unwanted: SmallVec<[(&'a [Place], &'a Wishers); 2]>,
}

/// Pods added to or taken from a node, as seen by a plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shift {
    affinity: i64,
    anti: Vec<i64>,
    /// By key: how many more or fewer there have such a wish.
    unwanted: Vec<(KeyId, i64)>,
}

impl Plan {
    pub(crate) fn new(world: &mut World, args: InterPodAffinityArgs, version: Version, pod: &Pod) -> Plan {
        let shape = &pod.shape;
        let means = |world: &World, terms: &[Term]| -> Vec<Meaning> {
            terms.iter().map(|term| meaning(world, term, version)).collect()
        };
        let affinity_meanings = means(world, &shape.required_affinity);
        let anti_meanings = means(world, &shape.required_anti_affinity);
        let tally = |world: &mut World, who: Vec<Meaning>, term: &Term| {
            let key = world.key(&term.key);
            let ground = Where { by: By::Value(key), nodes: CountedNodes::default() };
            (world.tally(Question { who: Who::Meant(who), ground }), key)
        };
        let affinity = shape
            .required_affinity
            .iter()
            .map(|term| tally(world, affinity_meanings.clone(), term))
            .collect();
        let anti = shape.required_anti_affinity.iter().zip(&anti_meanings);
        let anti = anti.map(|(term, meaning)| tally(world, vec![meaning.clone()], term)).collect();
        let likes = shape.preferred_affinity.iter().map(|(weight, term)| {
            let who = vec![meaning(world, term, version)];
            let (tally, key) = tally(world, who, term);
            (tally, key, *weight)
        });
        let likes: Vec<_> = likes.collect();
        let means_itself = !affinity_meanings.is_empty()
            && affinity_meanings.iter().all(|meaning| meaning.means(&pod.name.namespace, &pod.labels));
        let (mut unwanted, mut liked) = (Vec::new(), Vec::new());
        for wish in world.wishes_about(pod) {
            let key = world.wishers(wish).key;
            match world.how(wish) {
                How::MustNot => unwanted.push((wish, key)),
                How::Must if args.hard_weight > 0 => liked.push((wish, key, args.hard_weight)),
                How::Must => {}
                How::Likes(weight) => liked.push((wish, key, weight)),
            }
        }
        let is_indifferent = args.ignore_preferred_of_existing && likes.is_empty();
        Plan {
            affinity,
            affinity_meanings,
            means_itself,
            anti,
            anti_meanings,
            unwanted,
            likes,
            liked,
            is_indifferent,
        }
    }

    /// Whether `Filter` has anything to say.
    pub(crate) fn is_skipped(&self, world: &World) -> bool {
        self.affinity.is_empty()
            && self.anti.is_empty()
            && self.unwanted.iter().all(|(wish, _)| world.wishers(*wish).total() == 0)
    }

    /// Looked up, for as long as nobody comes or goes. `None` if there is nothing to say.
    pub(crate) fn ready<'a>(&self, world: &'a World) -> Option<Ready<'a>> {
        let counted = |&(tally, key): &(TallyId, KeyId)| (world.topology.places(key), world.count(tally));
        let wished =
            self.unwanted.iter().map(|&(wish, key)| (world.topology.places(key), world.wishers(wish)));
        let nobody = self.affinity.iter().all(|(tally, _)| world.count(*tally).total() == 0);
        let ready = Ready {
            affinity: self.affinity.iter().map(counted).collect(),
            is_first: nobody && self.means_itself,
            anti: self.anti.iter().map(counted).filter(|(_, tally)| tally.total() > 0).collect(),
            unwanted: wished.filter(|(_, wishers)| wishers.total() > 0).collect(),
        };
        let silent = self.affinity.is_empty() && ready.anti.is_empty() && ready.unwanted.is_empty();
        (!silent).then_some(ready)
    }

    /// Whether a node takes the pod if pods came to the node and went from it.
    pub(crate) fn filter_shifted(&self, shift: &Shift, world: &World, node: NodeId) -> Result<(), Usual> {
        let mut found = true;
        let mut nobody = true;
        for &(tally, key) in &self.affinity {
            let place = world.topology.place(key, node);
            if !place.is_present() {
                return Err(Usual::NobodyNear);
            }
            let tally = world.count(tally);
            found &= i64::from(tally.at(place.value())) + shift.affinity > 0;
            nobody &= tally.total() as i64 + shift.affinity == 0;
        }
        if !(found || self.means_itself && nobody) {
            return Err(Usual::NobodyNear);
        }
        for (index, &(tally, key)) in self.anti.iter().enumerate() {
            let place = world.topology.place(key, node);
            if place.is_present() && i64::from(world.count(tally).at(place.value())) + shift.anti[index] > 0 {
                return Err(Usual::SomebodyNear);
            }
        }
        // The original counts by place, not by term: what one loses another may not hide.
        let mut keys: Vec<(KeyId, i64)> = shift.unwanted.clone();
        for &(wish, key) in &self.unwanted {
            let place = world.topology.place(key, node);
            if place.is_present() {
                keys.push((key, i64::from(world.wishers(wish).at(place.value()))));
            }
        }
        keys.sort_unstable();
        let mut rest = &keys[..];
        while let Some(&(key, _)) = rest.first() {
            let same = rest.partition_point(|(other, _)| *other == key);
            if rest[..same].iter().map(|(_, count)| count).sum::<i64>() > 0 {
                return Err(Usual::Unwanted);
            }
            rest = &rest[same..];
        }
        Ok(())
    }

    /// No pods come or go.
    pub(crate) fn still(&self) -> Shift {
        Shift { affinity: 0, anti: vec![0; self.anti.len()], unwanted: Vec::new() }
    }

    /// A pod comes to a node (1) or goes from it (-1). It is about `pod`, the one to be placed.
    pub(crate) fn shift(
        &self,
        shift: &mut Shift,
        world: &World,
        pod: &Pod,
        other: &Pod,
        node: NodeId,
        by: i64,
    ) {
        let (namespace, labels) = (&other.name.namespace, &other.labels);
        if !self.affinity_meanings.is_empty()
            && self.affinity_meanings.iter().all(|meaning| meaning.means(namespace, labels))
        {
            shift.affinity += by;
        }
        for (shift, meaning) in shift.anti.iter_mut().zip(&self.anti_meanings) {
            if meaning.means(namespace, labels) {
                *shift += by;
            }
        }
        if other.shape.required_anti_affinity.is_empty() {
            return;
        }
        let namespace_labels = world.relations.namespace_labels(&pod.name.namespace);
        for term in &other.shape.required_anti_affinity {
            if term.matches(&pod.name.namespace, &pod.labels, namespace_labels)
                && let Some(key) = world.topology.find(&term.key)
                && world.topology.place(key, node).is_present()
            {
                shift.unwanted.push((key, by));
            }
        }
    }

    /// Whether nobody likes or dislikes anybody here.
    pub(crate) fn is_indifferent(&self, world: &World) -> bool {
        self.is_indifferent
            || (self.likes.iter().all(|(tally, ..)| world.count(*tally).total() == 0)
                && self.liked.iter().all(|(wish, ..)| world.wishers(*wish).total() == 0))
    }

    /// How much the pod is liked on each node, and likes it.
    pub(crate) fn score(&self, world: &World, nodes: &[NodeId], scores: &mut [i64]) {
        scores.fill(0);
        for &(tally, key, weight) in &self.likes {
            let (tally, places) = (world.count(tally), world.topology.places(key));
            for (node, score) in nodes.iter().zip(&mut *scores) {
                let place = places[node.index()];
                if place.is_present() {
                    *score += weight * i64::from(tally.at(place.value()));
                }
            }
        }
        for &(wish, key, weight) in &self.liked {
            let (wishers, places) = (world.wishers(wish), world.topology.places(key));
            for (node, score) in nodes.iter().zip(&mut *scores) {
                let place = places[node.index()];
                if place.is_present() {
                    *score += weight * i64::from(wishers.at(place.value()));
                }
            }
        }
    }
}

// === impl Ready ===

impl Ready<'_> {
    /// Whether a node takes the pod.
    pub(crate) fn filter(&self, node: NodeId) -> Result<(), Usual> {
        let mut found = true;
        for (places, tally) in &self.affinity {
            let place = places[node.index()];
            if !place.is_present() {
                return Err(Usual::NobodyNear);
            }
            found &= tally.at(place.value()) > 0;
        }
        if !found && !self.is_first {
            return Err(Usual::NobodyNear);
        }
        for (places, tally) in &self.anti {
            let place = places[node.index()];
            if place.is_present() && tally.at(place.value()) > 0 {
                return Err(Usual::SomebodyNear);
            }
        }
        for (places, wishers) in &self.unwanted {
            let place = places[node.index()];
            if place.is_present() && wishers.at(place.value()) > 0 {
                return Err(Usual::Unwanted);
            }
        }
        Ok(())
    }
}

/// From 0 to 100, between the least and the most.
pub(crate) fn normalise(scores: &[i64], normalised: &mut [i64]) {
    let least = scores.iter().copied().min().unwrap_or(0);
    let difference = scores.iter().copied().max().unwrap_or(0) - least;
    for (score, normalised) in scores.iter().zip(normalised) {
        *normalised =
            if difference > 0 { (100.0 * ((score - least) as f64 / difference as f64)) as i64 } else { 0 };
    }
}

/// Whom a term of a pod to be placed means. Namespaces are looked up by their labels first; then the selector is asked
/// once more, of no labels at all. From 1.34 to 1.36 that is an oversight of kube-scheduler, and so part of its decisions.
fn meaning(world: &World, term: &Term, version: Version) -> Meaning {
    let by_labels = &term.namespace_selector;
    let anything_goes =
        by_labels.matches(|_| None) && (by_labels.is_everything() || version >= Version::V1_34);
    if anything_goes {
        return Meaning { namespaces: None, selector: term.selector.clone() };
    }
    let mut namespaces = term.namespaces.clone();
    if !by_labels.is_nothing() {
        let found =
            world.relations.namespaces.iter().filter(|(_, labels)| by_labels.matches(|key| labels.get(key)));
        namespaces.extend(found.map(|(name, _)| name.clone()));
        namespaces.sort_unstable();
        namespaces.dedup();
    }
    Meaning { namespaces: Some(namespaces), selector: term.selector.clone() }
}

/// Whether a pod that it wants near may be near now, or one that it must be far from is not.
fn queueing_hint(hint: &Hint<'_>) -> bool {
    match hint.event.about {
        About::Node { old, new } => new.is_none_or(|new| domain_changed(hint.pod, old, new)),
        About::Pod { old, new, .. } => company_changed(hint, old, new),
        About::Thing { .. } => true,
    }
}

/// Whether the node came into a domain that the pod wants to be in, or out of one that it must not be in.
fn domain_changed(pod: &Pod, old: Option<&NodeSpec>, new: &NodeSpec) -> bool {
    let value = |node: &NodeSpec, key: &str| node.labels.get_shared(key).cloned();
    let near = pod.shape.required_affinity.iter().any(|term| match old {
        None => value(new, &term.key).is_some(),
        Some(old) => value(new, &term.key).is_some() && value(old, &term.key) != value(new, &term.key),
    });
    near || pod.shape.required_anti_affinity.iter().any(|term| match old {
        None => true,
        Some(old) => value(old, &term.key).is_some() && value(old, &term.key) != value(new, &term.key),
    })
}

fn company_changed(hint: &Hint<'_>, old: Option<&Pod>, new: Option<&Pod>) -> bool {
    let (near, far) = (&hint.pod.shape.required_affinity, &hint.pod.shape.required_anti_affinity);
    if old.is_some() && new.is_some() && hint.is_about_itself() {
        return true;
    }
    if ![old, new].into_iter().flatten().all(Pod::is_held) {
        return false;
    }
    match (old, new) {
        (Some(old), Some(new)) => {
            (!all_mean(near, old) && all_mean(near, new)) || (all_mean(far, old) && !all_mean(far, new))
        }
        (None, Some(new)) => all_mean(near, new),
        (Some(gone), None) => all_mean(far, gone) || all_mean(&gone.shape.required_anti_affinity, hint.pod),
        (None, None) => true,
    }
}

/// Whether there are terms and all of them mean a pod. Labels of namespaces are not looked up here.
fn all_mean(terms: &[Term], pod: &Pod) -> bool {
    let means = |term: &Term| term.matches(&pod.name.namespace, &pod.labels, &Labels::NONE);
    !terms.is_empty() && terms.iter().all(means)
}
