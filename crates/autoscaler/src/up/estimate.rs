//! How many new nodes of a group pods need: first-fit packing, the largest first.

mod counted;
mod fastpath;
mod placed;
#[cfg(test)]
mod tests;

use super::super::node::Node;
use super::super::settings::Version;
use super::super::snapshot::Snapshot;
use super::super::templates::Template;
use super::pods::PodGroup;
use counted::Counted;
use placed::Placed;

/// How many new nodes are needed, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Estimate {
    /// Those that got a pod.
    pub nodes: i64,
    /// Groups of pods, and how many of each are helped: the first ones, always.
    pub helped: Vec<(usize, usize)>,
}

/// How many nodes may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// Zero for as many as are wanted; negative for none.
    most: i64,
    added: i64,
}

/// What cluster-autoscaler is told about packing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner {
    pub version: Version,
    /// The last group of pods fills one node, and the rest is arithmetic.
    pub fastpath: bool,
}

/// New nodes that pods are put on. There are two ways that come to the same: to try each pod in the snapshot, or to
/// count, where nothing but amounts matters.
trait NewNodes {
    /// Puts pods of a group on the new nodes by turns, until one fits nowhere. Tells how many it put.
    fn fill(&mut self, group: usize) -> usize;

    /// Adds a node. It is the last from now on.
    fn add(&mut self);

    /// Whether the last node has got a pod; `None` if there is no node yet.
    fn last_is_used(&self) -> Option<bool>;

    /// Puts pods of a group, from that one on, on the last node until one does not fit. Tells how many it put.
    fn put_on_last(&mut self, group: usize, from: usize) -> usize;

    /// Puts one pod that the last node has just refused on any other, if it was refused for being too many of a kind.
    fn put_elsewhere(&mut self, group: usize, pod: usize) -> bool;

    /// How many nodes have got a pod.
    fn used(&self) -> i64;
}

/// What the groups of pods named by `which` need.
pub(super) fn estimate(
    snapshot: &mut Snapshot,
    template: &Template,
    groups: &[PodGroup],
    which: &[usize],
    limit: Limit,
    manner: Manner,
) -> Estimate {
    let (order, fast) = order(snapshot, &template.node, groups, which, manner);
    match Counted::new(snapshot, template, groups, &order) {
        Some(mut nodes) => {
            let estimate = pack(&mut nodes, groups, &order, limit, fast);
            snapshot.set_last_match(nodes.last_match());
            estimate
        }
        None => by_trying(snapshot, template, groups, (&order, fast), limit, manner),
    }
}

/// The same by trying each pod, which is the rule.
fn by_trying(
    snapshot: &mut Snapshot,
    template: &Template,
    groups: &[PodGroup],
    (order, fast): (&[usize], bool),
    limit: Limit,
    manner: Manner,
) -> Estimate {
    let fork = snapshot.fork();
    let mut nodes = Placed::new(snapshot, template, groups, manner.version);
    let estimate = pack(&mut nodes, groups, order, limit, fast);
    snapshot.revert(fork);
    estimate
}

/// The groups of pods in the order in which they are packed, and whether the last is packed by arithmetic.
fn order(
    snapshot: &Snapshot,
    node: &Node,
    groups: &[PodGroup],
    which: &[usize],
    manner: Manner,
) -> (Vec<usize>, bool) {
    let (cpu, memory) = (node.allocatable.milli("cpu"), node.allocatable.value("memory"));
    let score = |group: &usize| {
        let asked = &snapshot.trial.pod(groups[*group].pods[0]).shape.requests;
        let share = |asked: i64, has: i64| if has > 0 { asked as f64 / has as f64 } else { 0.0 };
        share(asked.cpu, cpu) + share(asked.memory, memory)
    };
    let mut scored: Vec<(f64, usize)> = which.iter().map(|group| (score(group), *group)).collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut order: Vec<usize> = scored.into_iter().map(|(_, group)| group).collect();
    let fast = (manner.fastpath && manner.version >= Version::V1_36)
        .then(|| fastpath::best(snapshot, node, groups, &order))
        .flatten();
    if let Some(place) = fast {
        order[place..].rotate_left(1);
    }
    (order, fast.is_some())
}

fn pack(
    nodes: &mut dyn NewNodes,
    groups: &[PodGroup],
    order: &[usize],
    mut limit: Limit,
    fast: bool,
) -> Estimate {
    let mut estimate = Estimate::default();
    let mut more = true;
    // Nodes that are counted without being there.
    let mut imagined = 0;
    for (place, &group) in order.iter().enumerate() {
        let count = groups[group].pods.len();
        let mut helped = nodes.fill(group);
        if more && fast && place + 1 == order.len() {
            imagined = fill_one(nodes, group, count, &mut helped, &mut limit);
        } else if more {
            more = fill_many(nodes, group, count, &mut helped, &mut limit);
        }
        if helped > 0 {
            estimate.helped.push((group, helped));
        }
    }
    estimate.nodes = nodes.used() + imagined;
    estimate
}

/// Packs the pods from `helped` on on new nodes. Tells whether there may be more nodes.
fn fill_many(
    nodes: &mut dyn NewNodes,
    group: usize,
    count: usize,
    helped: &mut usize,
    limit: &mut Limit,
) -> bool {
    while *helped < count {
        if let Some(last_is_used) = nodes.last_is_used() {
            let put = nodes.put_on_last(group, *helped);
            *helped += put;
            if *helped == count {
                break;
            }
            if nodes.put_elsewhere(group, *helped) {
                *helped += 1;
                continue;
            }
            // What an empty node does not take, another one would not take either.
            if !last_is_used && put == 0 {
                return true;
            }
        }
        if !limit.allows_one_more() {
            return false;
        }
        nodes.add();
        let put = nodes.put_on_last(group, *helped);
        if put == 0 {
            return true;
        }
        *helped += put;
    }
    true
}

/// Packs the pods from `helped` on on one new node, and imagines as many others as the rest would fill. Tells how many
/// it imagined.
fn fill_one(
    nodes: &mut dyn NewNodes,
    group: usize,
    count: usize,
    helped: &mut usize,
    limit: &mut Limit,
) -> i64 {
    if *helped == count || !limit.allows_one_more() {
        return 0;
    }
    nodes.add();
    let per_node = nodes.put_on_last(group, *helped);
    let mut imagined = 0;
    *helped += per_node;
    while per_node > 0 && *helped < count && limit.allows_one_more() {
        *helped += per_node.min(count - *helped);
        imagined += 1;
    }
    imagined
}

// === impl Limit ===

impl Limit {
    /// The least of several; zero is none, and a negative one means no nodes at all.
    pub(super) fn least(limits: &[i64]) -> Limit {
        let most = limits.iter().fold(0, |least: i64, &limit| {
            if least < 0 || limit < 0 {
                -1
            } else if limit > 0 && (least == 0 || least > limit) {
                limit
            } else {
                least
            }
        });
        Limit { most, added: 0 }
    }

    fn allows_one_more(&mut self) -> bool {
        if self.most < 0 || (self.most > 0 && self.added >= self.most) {
            return false;
        }
        self.added += 1;
        true
    }
}
