//! The names of GPU groups. A new group has no name until a binder gives it one.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::ids::GpuGroupId;

/// The GPU groups of the snapshot, sorted by name, and those that the cycle adds.
#[derive(Clone, Debug, Default)]
pub(crate) struct GpuGroupNames {
    names: Vec<Arc<str>>,
    ids: FxHashMap<Arc<str>, GpuGroupId>,
    /// Groups that the cycle added.
    new_count: usize,
}

impl GpuGroupNames {
    /// The groups of the snapshot.
    pub(crate) fn new(mut names: Vec<Arc<str>>) -> GpuGroupNames {
        names.sort_unstable();
        names.dedup();
        let ids = names.iter().enumerate().map(|(index, name)| (name.clone(), GpuGroupId::of(index)));
        GpuGroupNames { ids: ids.collect(), names, new_count: 0 }
    }

    /// The group of that name in the snapshot.
    pub(crate) fn find(&self, name: &str) -> Option<GpuGroupId> {
        self.ids.get(name).copied()
    }

    /// The number of groups of the snapshot.
    pub(crate) fn known_count(&self) -> usize {
        self.names.len()
    }

    /// Adds a group.
    pub(crate) fn add(&mut self) -> GpuGroupId {
        self.new_count += 1;
        GpuGroupId::of(self.names.len() + self.new_count - 1)
    }

    /// The name of a group; `None` for one that the cycle added.
    pub(crate) fn name(&self, group: GpuGroupId) -> Option<&Arc<str>> {
        self.names.get(group.index())
    }

    /// Whether a group needs a reservation pod of its own. The original takes every group for a new one whose name is
    /// not a number.
    pub(crate) fn looks_new(&self, group: GpuGroupId) -> bool {
        self.name(group).is_none_or(|name| name.parse::<i64>().is_err())
    }
}
