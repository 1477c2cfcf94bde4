//! Who is on the nodes: pods by what selectors see of them, and counts of those that a selector means, kept up to date
//! pod by pod. So what a decision costs does not grow with the pods already placed.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::selector::{RequiredNodeAffinity, Selector};
use kubernetes::taints::{Toleration, first_untolerated};

use super::super::ids::NodeId;
use super::super::node::NodeSpec;
use super::registry::Registry;
use super::tally::{Ground, Tally};
use super::topology::{KeyId, Topology};

/// What selectors see of a pod.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Identity {
    pub namespace: Arc<str>,
    pub labels: Labels,
}

/// Pods of one identity.
#[derive(Debug, Default)]
pub(super) struct Residents {
    /// How many are on each node, and how many of them are not being deleted.
    nodes: BTreeMap<NodeId, Heads>,
    /// The tallies that count them, as of a generation of tallies.
    counted_in: (u64, Vec<TallyId>),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Heads {
    all: u32,
    living: u32,
}

/// A count of pods by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TallyId(u32);

/// What a tally counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    /// Which pods.
    pub who: Who,
    /// On which nodes, by which places.
    pub ground: Where,
}

/// Where pods are counted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Where {
    /// By which places.
    pub by: By,
    /// On which nodes.
    pub nodes: Nodes,
}

/// Which pods count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    /// Those of a namespace that a selector means and that are not being deleted.
    Spread(Arc<str>, Selector),
    /// Those that all terms mean. There is at least one.
    Meant(Vec<Meaning>),
}

/// Which pods a term of a pod to be placed means, once namespaces have been looked up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Meaning {
    /// `None` for every namespace. Sorted.
    pub namespaces: Option<Vec<Arc<str>>>,
    pub selector: Selector,
}

/// By which places pods are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum By {
    /// Each node by itself.
    Node,
    /// The values of a label; nodes without it do not count.
    Value(KeyId),
    /// The values of a label; nodes without it are where its value is empty.
    ValueOrNone(KeyId),
}

/// On which nodes pods are counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Nodes {
    /// Only nodes with all of these labels.
    pub with_keys: Vec<KeyId>,
    /// Only nodes that this shape selects, which says nothing else.
    pub selected_by: Option<Arc<RequiredNodeAffinity>>,
    /// Only nodes with no taint but those tolerated.
    pub tolerated_by: Option<Vec<Toleration>>,
}

/// All identities and tallies.
#[derive(Debug, Default)]
pub(super) struct People {
    identities: Registry<Arc<Identity>, Residents>,
    tallies: Registry<Arc<Question>, Kept>,
    /// What tallies count on. Most share it with others.
    grounds: Registry<Where, Ground>,
    /// Tallies by a label, and its value, that all whom they count have; and those for which there is none.
    by_label: BTreeMap<Arc<str>, BTreeMap<Arc<str>, Vec<TallyId>>>,
    anybody: Vec<TallyId>,
    /// Changes with the tallies there are.
    generation: u64,
    clock: u64,
}

#[derive(Debug)]
struct Kept {
    tally: Tally,
    ground: u32,
    last_used: u64,
}

/// More tallies than this are not kept: those not used for longest go. Each takes some bytes a node.
const TALLIES_KEPT: usize = 1024;

/// The nodes as tallies need them.
pub(super) trait Places {
    /// Every node that is there.
    fn nodes(&self) -> impl Iterator<Item = (NodeId, &NodeSpec)>;
    fn topology(&self) -> &Topology;
}

// === impl Who ===

impl Who {
    fn means(&self, identity: &Identity) -> bool {
        let label = |key: &str| identity.labels.get(key);
        match self {
            // Whoever asks for everybody gets nobody.
            Who::Spread(namespace, selector) => {
                *namespace == identity.namespace && !selector.is_everything() && selector.matches(label)
            }
            Who::Meant(terms) => terms.iter().all(|term| term.means(&identity.namespace, &identity.labels)),
        }
    }

    fn heads(&self, heads: Heads) -> u32 {
        match self {
            Who::Spread(..) => heads.living,
            Who::Meant(_) => heads.all,
        }
    }

    /// The labels, with their values, that all have who count.
    fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        let selector = match self {
            Who::Spread(_, selector) => selector,
            Who::Meant(terms) => &terms[0].selector,
        };
        selector.labels()
    }
}

// === impl Meaning ===

impl Meaning {
    pub(crate) fn means(&self, namespace: &Arc<str>, labels: &Labels) -> bool {
        self.namespaces.as_ref().is_none_or(|namespaces| namespaces.binary_search(namespace).is_ok())
            && self.selector.matches(|key| labels.get(key))
    }
}

// === impl Where ===

impl Where {
    /// The place where pods on a node count; `None` if they do not.
    fn place(&self, node: NodeId, spec: &NodeSpec, topology: &Topology) -> Option<usize> {
        let nodes = &self.nodes;
        let counts = nodes.with_keys.iter().all(|&key| topology.place(key, node).is_present())
            && nodes.selected_by.as_ref().is_none_or(|required| required.selects(&spec.name, &spec.labels))
            && nodes.tolerated_by.as_ref().is_none_or(|list| first_untolerated(&spec.taints, list).is_none());
        if counts { self.by.number(node, topology) } else { None }
    }

    /// All nodes that count, each at its place.
    fn survey(&self, places: &impl Places) -> Ground {
        let mut ground = Ground::default();
        for (node, spec) in places.nodes() {
            ground.node_came(node, self.place(node, spec, places.topology()));
        }
        ground
    }
}

impl By {
    /// The number of a node's place; `None` if it has none.
    pub(crate) fn number(self, node: NodeId, topology: &Topology) -> Option<usize> {
        match self {
            By::Node => Some(node.index()),
            By::Value(key) => {
                Some(topology.place(key, node)).filter(|place| place.is_present()).map(|place| place.value())
            }
            By::ValueOrNone(key) => Some(topology.place(key, node).value()),
        }
    }
}

// === impl People ===

impl People {
    /// The number of an identity, which one more pod has.
    pub(super) fn identify(&mut self, identity: &Arc<Identity>) -> u32 {
        self.identities.take(identity.clone(), |_| Residents::default()).0
    }

    /// A number that no other identity ever has, unlike its own.
    pub(super) fn serial(&self, identity: u32) -> u64 {
        self.identities.serial(identity)
    }

    /// One pod less has it.
    pub(super) fn forget(&mut self, identity: u32) {
        self.identities.give_back(identity);
    }

    /// A pod is on a node from now on. `attached` says whether the node itself is there.
    pub(super) fn arrive(&mut self, identity: u32, node: NodeId, living: bool, attached: bool) {
        let heads = self.identities.value_mut(identity).nodes.entry(node).or_default();
        heads.all += 1;
        heads.living += u32::from(living);
        if attached {
            self.update(identity, node, Heads { all: 1, living: u32::from(living) }, Tally::add);
        }
    }

    /// It is no longer.
    pub(super) fn depart(&mut self, identity: u32, node: NodeId, living: bool, attached: bool) {
        let residents = self.identities.value_mut(identity);
        let heads = residents.nodes.get_mut(&node).expect("who departs was there");
        heads.all -= 1;
        heads.living -= u32::from(living);
        if heads.all == 0 {
            residents.nodes.remove(&node);
        }
        if attached {
            self.update(identity, node, Heads { all: 1, living: u32::from(living) }, Tally::subtract);
        }
    }

    /// A node came, with the identities of the pods on it.
    pub(super) fn node_came(&mut self, node: NodeId, spec: &NodeSpec, on_it: &[u32], topology: &Topology) {
        for (key, ground) in self.grounds.values_mut() {
            ground.node_came(node, key.place(node, spec, topology));
        }
        self.node_people(node, on_it, Tally::add);
    }

    /// A node goes, and everybody on it.
    pub(super) fn node_goes(&mut self, node: NodeId, on_it: &[u32]) {
        self.node_people(node, on_it, Tally::subtract);
        for (_, ground) in self.grounds.values_mut() {
            ground.node_goes(node);
        }
    }

    fn node_people(&mut self, node: NodeId, on_it: &[u32], change: Change) {
        let mut identities = on_it.to_vec();
        identities.sort_unstable();
        identities.dedup();
        for identity in identities {
            if let Some(&heads) = self.identities.value(identity).nodes.get(&node) {
                self.update(identity, node, heads, change);
            }
        }
    }

    /// The tally that answers a question: kept from now on, or from before.
    pub(super) fn tally(&mut self, question: Question, places: &impl Places) -> TallyId {
        let question = Arc::new(question);
        self.clock += 1;
        let clock = self.clock;
        let People { identities, grounds, .. } = self;
        let (id, new) = self.tallies.take(question, |question| {
            let (ground, _) = grounds.take(question.ground.clone(), |key| key.survey(places));
            let mut tally = Tally::default();
            for (node, heads) in people(identities, question) {
                if let Some(place) = grounds.value(ground).place(node).filter(|_| heads > 0) {
                    tally.add(place, heads);
                }
            }
            Kept { tally, ground, last_used: clock }
        });
        if !new {
            // Nobody is counted as its user: it goes when it was not used for long.
            self.tallies.give_back(id);
            self.tallies.value_mut(id).last_used = clock;
            return TallyId(id);
        }
        self.generation += 1;
        let who = &self.tallies.key(id).who;
        let by_label = &mut self.by_label;
        let known = |key: &str, value: &str| by_label.get(key)?.get(value).map(Vec::len);
        // Where it is met least often for nothing.
        match who.labels().min_by_key(|(key, value)| known(key, value)) {
            Some((key, value)) => {
                by_label.entry(key.into()).or_default().entry(value.into()).or_default().push(TallyId(id));
            }
            None => self.anybody.push(TallyId(id)),
        }
        TallyId(id)
    }

    /// Drops tallies that were not used for long, if there are too many. What was learned before of their numbers is
    /// void; says whether any was dropped.
    pub(super) fn drop_unused(&mut self) -> bool {
        if self.tallies.len() <= TALLIES_KEPT {
            return false;
        }
        let mut all: Vec<(u64, u32)> =
            self.tallies.iter().map(|(id, _, kept)| (kept.last_used, id)).collect();
        all.sort_unstable();
        for &(_, id) in &all[..TALLIES_KEPT / 2] {
            if let Some((_, kept)) = self.tallies.give_back(id) {
                self.grounds.give_back(kept.ground);
            }
            let labelled = self.by_label.values_mut().flat_map(BTreeMap::values_mut);
            for list in labelled.chain([&mut self.anybody]) {
                list.retain(|other| other.0 != id);
            }
        }
        self.by_label.retain(|_, values| {
            values.retain(|_, list| !list.is_empty());
            !values.is_empty()
        });
        self.generation += 1;
        true
    }

    /// Drops all tallies.
    pub(super) fn drop_tallies(&mut self) {
        self.tallies = Registry::default();
        self.grounds = Registry::default();
        self.by_label.clear();
        self.anybody.clear();
        self.generation += 1;
    }

    /// What is counted.
    pub(super) fn count(&self, id: TallyId) -> &Tally {
        &self.tallies.value(id.0).tally
    }

    /// Whether pods on a node are counted.
    pub(super) fn counts_on(&self, id: TallyId, node: NodeId) -> bool {
        self.grounds.value(self.tallies.value(id.0).ground).place(node).is_some()
    }

    /// Of the places with a node that counts: how many there are, and the fewest pods at one of them, `but` one apart.
    pub(super) fn fewest(&self, id: TallyId, but: Option<usize>) -> (usize, Option<u32>) {
        let kept = self.tallies.value(id.0);
        kept.tally.fewest(self.grounds.value(kept.ground), but)
    }

    fn update(&mut self, identity: u32, node: NodeId, heads: Heads, change: Change) {
        if self.identities.value(identity).counted_in.0 != self.generation {
            self.find_tallies(identity);
        }
        for &TallyId(id) in &self.identities.value(identity).counted_in.1 {
            let heads = self.tallies.key(id).who.heads(heads);
            let kept = self.tallies.value_mut(id);
            if let Some(place) = self.grounds.value(kept.ground).place(node).filter(|_| heads > 0) {
                change(&mut kept.tally, place, heads);
            }
        }
    }

    fn find_tallies(&mut self, identity: u32) {
        let who = self.identities.key(identity);
        let labelled = |(key, value)| self.by_label.get(key)?.get(value);
        let met = who.labels.iter().filter_map(labelled).flatten().chain(&self.anybody);
        let found = met.copied().filter(|id| self.tallies.key(id.0).who.means(who)).collect();
        self.identities.value_mut(identity).counted_in = (self.generation, found);
    }
}

/// What is done with so many pods at a place.
type Change = fn(&mut Tally, usize, u32);

/// Everybody a question means, by node.
fn people<'a>(
    identities: &'a Registry<Arc<Identity>, Residents>,
    question: &'a Question,
) -> impl Iterator<Item = (NodeId, u32)> + 'a {
    let meant = identities.iter().filter(|(_, identity, _)| question.who.means(identity));
    meant.flat_map(|(_, _, residents)| {
        residents.nodes.iter().map(|(&node, &heads)| (node, question.who.heads(heads)))
    })
}
