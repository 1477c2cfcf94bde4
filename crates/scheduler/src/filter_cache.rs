//! The cache of node-local filter verdicts and scores, by scheduling spec and node. A verdict is valid for one
//! generation of the node. Pods whose specs differ only in parts that are not node-local share verdicts.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::ids::NodeId;
use super::pod::SchedulingSpec;
use super::status::{CommonStatus, Status};

/// Cached verdicts of all specs. It also interns statuses: [`Diagnosis`](crate::cycle::Diagnosis) and the
/// dry-run cache hold their identifiers, which are valid until it is cleared.
#[derive(Debug, Default)]
pub(super) struct FilterCache {
    by_spec: FxHashMap<u32, CachedVerdicts>,
    /// Every rejecting status, once.
    statuses: IndexSet<Status, FxBuildHasher>,
    /// The identifiers of the last few: most nodes are rejected with the same status as the node before.
    recent: [u32; 4],
    common: [Option<u32>; CommonStatus::COUNT],
    clock: u64,
    clear_count: u64,
}

/// Cached verdicts of one spec.
#[derive(Debug)]
pub(super) struct CachedVerdicts {
    spec: Arc<SchedulingSpec>,
    by_node: Vec<NodeLocalVerdict>,
    last_used: u64,
}

/// The verdict of the node-local filters and the node-local scores of one node, for pods of one node-local spec. The
/// node's final verdict, by all filters, is [`NodeVerdict`](crate::NodeVerdict).
#[derive(Clone, Copy, Debug)]
pub(super) struct NodeLocalVerdict {
    pub generation: u64,
    /// The index of the first rejecting filter in the profile's order; [`u8::MAX`] if none rejects.
    pub rejected_at: u8,
    pub status_id: u32,
    pub taint_score: i64,
    pub node_affinity_score: i64,
    pub fit_score: i64,
    pub balance_score: i64,
    /// Whether the node has any images at all.
    pub has_images: bool,
}

/// The maximum number of specs. Each takes about 50 bytes per node.
const MAX_SPECS: usize = 512;
const MAX_STATUSES: usize = 1 << 16;

// === impl NodeLocalVerdict ===

impl NodeLocalVerdict {
    /// The identifier of the rejecting status, if any.
    pub(super) fn rejected_status(&self) -> Option<u32> {
        (self.rejected_at != u8::MAX).then_some(self.status_id)
    }
}

// === impl FilterCache ===

impl FilterCache {
    /// Takes the verdicts of a spec out of the cache; the caller puts them back.
    pub(super) fn take_verdicts(&mut self, id: u32, spec: &Arc<SchedulingSpec>) -> CachedVerdicts {
        self.clock += 1;
        let cached = self.by_spec.remove(&id).filter(|cached| Arc::ptr_eq(&cached.spec, spec));
        let mut verdicts = cached.unwrap_or_else(|| CachedVerdicts {
            spec: spec.clone(),
            by_node: Vec::new(),
            last_used: 0,
        });
        verdicts.last_used = self.clock;
        verdicts
    }

    pub(super) fn put_verdicts_back(&mut self, id: u32, verdicts: CachedVerdicts) {
        self.by_spec.insert(id, verdicts);
        if self.by_spec.len() > MAX_SPECS {
            let mut ages: Vec<(u64, u32)> =
                self.by_spec.iter().map(|(id, verdicts)| (verdicts.last_used, *id)).collect();
            ages.sort_unstable();
            for (_, id) in &ages[..MAX_SPECS / 2] {
                self.by_spec.remove(id);
            }
        }
    }

    /// Clears the cache if there are too many statuses: verdicts refer to them by identifier.
    pub(super) fn clear_if_full(&mut self) {
        if self.statuses.len() > MAX_STATUSES {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.clear_count += 1;
        self.by_spec.clear();
        self.statuses.clear();
        self.common = Default::default();
    }

    /// How often it was cleared: identifiers of statuses are valid until then.
    pub(super) fn clear_count(&self) -> u64 {
        self.clear_count
    }

    /// Interns a status.
    pub(super) fn status_id(&mut self, status: Status) -> u32 {
        let is_same =
            |id: &&u32| self.statuses.get_index(**id as usize).is_some_and(|other| *other == status);
        if let Some(id) = self.recent.iter().find(is_same) {
            return *id;
        }
        let index = match self.statuses.get_index_of(&status) {
            Some(index) => index,
            None => self.statuses.insert_full(status).0,
        };
        self.recent.rotate_right(1);
        self.recent[0] = index as u32;
        index as u32
    }

    /// Interns a common status.
    pub(super) fn common_status_id(&mut self, common_status: CommonStatus) -> u32 {
        if let Some(id) = self.common[common_status as usize] {
            return id;
        }
        let id = self.status_id(common_status.into());
        self.common[common_status as usize] = Some(id);
        id
    }

    pub(super) fn status(&self, id: u32) -> &Status {
        &self.statuses[id as usize]
    }

    /// All status identifiers are below this.
    pub(super) fn status_id_bound(&self) -> usize {
        self.statuses.len()
    }
}

// === impl CachedVerdicts ===

impl CachedVerdicts {
    /// Whether the verdict of a node is valid for this generation.
    #[inline]
    pub(super) fn is_current(&self, node: NodeId, generation: u64) -> bool {
        self.by_node.get(node.index()).is_some_and(|verdict| verdict.generation == generation)
    }

    /// The verdict of a node, which must exist.
    #[inline]
    pub(super) fn get(&self, node: NodeId) -> &NodeLocalVerdict {
        &self.by_node[node.index()]
    }

    /// Stores the verdict of one of so many nodes.
    pub(super) fn put(&mut self, node: NodeId, nodes: usize, verdict: NodeLocalVerdict) {
        if self.by_node.len() <= node.index() {
            // No node has generation 0: they begin at 1.
            self.by_node.resize(nodes, NodeLocalVerdict { generation: 0, ..verdict });
        }
        self.by_node[node.index()] = verdict;
    }
}
