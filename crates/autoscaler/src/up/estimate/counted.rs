//! New nodes as what is left of them. It comes to what trying each pod comes to, when nothing matters to the pods but a
//! node's own words, which are the same for every copy of a template, and how much it has left.

use kubernetes::amounts::{Amounts, ScalarId};

use super::super::super::snapshot::Snapshot;
use super::super::super::templates::Template;
use super::super::pods::PodGroup;
use super::NewNodes;

/// New nodes as what is left of them.
pub(super) struct Counted {
    /// By group of pods; `None` for those that take no part.
    kinds: Vec<Option<Kind>>,
    /// What a node without pods of ours has left: room for pods, then amounts.
    fresh: Vec<i64>,
    /// The same for each node, one after the other.
    left: Vec<i64>,
    used: Vec<bool>,
    /// Nodes before the first of these, in the order in which nodes are searched.
    before: usize,
    last_match: usize,
    /// Whether searches pass over the nodes.
    is_closed: bool,
}

/// What pods of one group mean to a node.
#[derive(Debug)]
struct Kind {
    count: usize,
    /// Whether a node that has nothing on it takes one.
    fits: bool,
    /// What must be left for one; zero for what does not matter.
    needs: Vec<i64>,
    /// What one takes.
    takes: Vec<i64>,
}

/// Amounts beyond these are left to those who know how Go's integers overflow.
const SANE: std::ops::Range<i64> = 0..1 << 60;

impl Counted {
    /// `None` if there is more to it than amounts.
    pub(super) fn new(
        snapshot: &mut Snapshot,
        template: &Template,
        groups: &[PodGroup],
        which: &[usize],
    ) -> Option<Counted> {
        if !which.iter().all(|group| groups[*group].is_uniform) {
            return None;
        }
        let before = snapshot.order().len();
        let fork = snapshot.fork();
        let copy = template.copy("e-0");
        let node = snapshot.add_node(copy.node, &copy.pods);
        let mut scalars: Vec<ScalarId> = Vec::new();
        let mut kinds: Vec<Option<(bool, Amounts, Amounts)>> = groups.iter().map(|_| None).collect();
        let mut is_local = true;
        for &group in which {
            let first = groups[group].pods[0];
            is_local = is_local && snapshot.trial.is_local(first);
            if !is_local {
                break;
            }
            let fits = snapshot.check(first, node).is_ok();
            let pod = snapshot.trial.pod(first);
            scalars.extend(pod.shape.requests.scalars.iter().map(|(id, _)| *id));
            scalars.extend(pod.usage.requested.scalars.iter().map(|(id, _)| *id));
            kinds[group] = Some((fits, pod.shape.requests.clone(), pod.usage.requested.clone()));
        }
        scalars.sort_unstable();
        scalars.dedup();
        let list = |room: i64, amounts: &Amounts| {
            let mut list = vec![room, amounts.cpu, amounts.memory, amounts.ephemeral_storage];
            list.extend(scalars.iter().map(|id| amounts.scalar(*id)));
            list
        };
        let spec = snapshot.trial.spec(node);
        let has = list(spec.pods, &spec.allocatable);
        let taken = list(snapshot.trial.load(node).pods.len() as i64, snapshot.requested(node));
        let is_closed = spec.unschedulable;
        snapshot.revert(fork);
        let are_sane = |list: &[i64]| list.iter().all(|amount| SANE.contains(amount));
        if !is_local || !are_sane(&has) || !are_sane(&taken) {
            return None;
        }
        let kinds = kinds.into_iter().zip(groups).map(|(kind, group)| {
            kind.map(|(fits, needs, takes)| Kind {
                count: group.pods.len(),
                fits,
                needs: list(1, &needs),
                takes: list(1, &takes),
            })
        });
        let kinds: Vec<Option<Kind>> = kinds.collect();
        if !kinds.iter().flatten().all(|kind| are_sane(&kind.needs) && are_sane(&kind.takes)) {
            return None;
        }
        Some(Counted {
            kinds,
            fresh: has.iter().zip(&taken).map(|(has, taken)| has - taken).collect(),
            left: Vec::new(),
            used: Vec::new(),
            before,
            last_match: snapshot.last_match(),
            is_closed,
        })
    }

    /// Where the last search ended.
    pub(super) fn last_match(&self) -> usize {
        self.last_match
    }

    fn kind(&self, group: usize) -> &Kind {
        self.kinds[group].as_ref().expect("only groups that take part are packed")
    }

    fn left(&self, node: usize) -> &[i64] {
        let width = self.fresh.len();
        &self.left[node * width..(node + 1) * width]
    }

    fn put(&mut self, group: usize, node: usize, count: usize) {
        let width = self.fresh.len();
        let kind = self.kinds[group].as_ref().expect("only groups that take part are packed");
        let left = &mut self.left[node * width..(node + 1) * width];
        left.iter_mut()
            .zip(&kind.takes)
            .for_each(|(left, takes)| *left = left.saturating_sub(takes.saturating_mul(count as i64)));
        self.used[node] |= count > 0;
    }
}

impl NewNodes for Counted {
    fn fill(&mut self, group: usize) -> usize {
        let (kind, nodes) = (self.kind(group), self.used.len());
        if nodes == 0 || self.is_closed || !kind.fits {
            return 0;
        }
        let wanted = kind.count;
        // A search begins after the last match, whoever's that was.
        let start = ((self.last_match + 1) % (self.before + nodes)).saturating_sub(self.before);
        let by_turns = (start..nodes).chain(0..start);
        let mut takers: Vec<(usize, usize)> =
            by_turns.map(|node| (node, kind.room(self.left(node)))).filter(|(_, room)| *room > 0).collect();
        let mut put = 0;
        let mut last = None;
        while put < wanted && !takers.is_empty() {
            let rounds = (wanted - put) / takers.len();
            if rounds == 0 {
                // Not all of them get one more.
                takers.truncate(wanted - put);
            }
            let least = takers.iter().map(|(_, room)| *room).min().unwrap_or(1);
            let rounds = rounds.clamp(1, least);
            for (node, room) in &mut takers {
                self.put(group, *node, rounds);
                *room -= rounds;
            }
            put += rounds * takers.len();
            last = takers.last().map(|(node, _)| *node);
            takers.retain(|(_, room)| *room > 0);
        }
        if let Some(node) = last {
            self.last_match = self.before + node;
        }
        put
    }

    fn add(&mut self) {
        self.left.extend_from_slice(&self.fresh);
        self.used.push(false);
    }

    fn last_is_used(&self) -> Option<bool> {
        self.used.last().copied()
    }

    fn put_on_last(&mut self, group: usize, from: usize) -> usize {
        let Some(last) = self.used.len().checked_sub(1) else { return 0 };
        let kind = self.kind(group);
        if !kind.fits {
            return 0;
        }
        let count = kind.room(self.left(last)).min(kind.count - from);
        self.put(group, last, count);
        count
    }

    fn put_elsewhere(&mut self, _group: usize, _pod: usize) -> bool {
        false
    }

    fn used(&self) -> i64 {
        self.used.iter().filter(|used| **used).count() as i64
    }
}

// === impl Kind ===

impl Kind {
    /// How many fit, one after the other.
    fn room(&self, left: &[i64]) -> usize {
        let amounts = || self.needs.iter().zip(&self.takes).zip(left);
        if amounts().any(|((needs, _), left)| *needs > 0 && needs > left) {
            return 0;
        }
        let rooms = amounts().filter(|((needs, takes), _)| **needs > 0 && **takes > 0);
        let least = rooms.map(|((needs, takes), left)| (left - needs) / takes + 1).min();
        least.unwrap_or(0) as usize
    }
}
