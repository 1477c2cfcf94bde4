//! The shared GPUs of a node: how much of each group's GPU is used, allocated and being released.

use std::collections::BTreeMap;

use super::ids::GpuGroupId;

/// The shared GPUs of a node, by group.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedGpus {
    groups: BTreeMap<GpuGroupId, GroupMemory>,
}

/// The memory of a group's GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupMemory {
    pub used: i64,
    pub releasing: i64,
    pub allocated: i64,
    /// Whether anything was ever allocated; if not, the group is only waited for.
    pub was_allocated: bool,
    /// Whether the whole GPU counts as being released.
    pub is_marked_releasing: bool,
}

impl SharedGpus {
    /// The memory of a group.
    pub(crate) fn get(&self, group: GpuGroupId) -> GroupMemory {
        self.groups.get(&group).copied().unwrap_or_default()
    }

    /// Sets the memory of a group. One that is not used at all is forgotten if it is new in this cycle.
    pub(crate) fn set(&mut self, group: GpuGroupId, memory: GroupMemory, is_new_group: bool) {
        let is_unused =
            memory.used == 0 && memory.releasing == 0 && memory.allocated == 0 && !memory.is_marked_releasing;
        if is_unused && is_new_group {
            self.groups.remove(&group);
        } else {
            self.groups.insert(group, memory);
        }
    }

    /// All groups, by identifier.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (GpuGroupId, &GroupMemory)> {
        self.groups.iter().map(|(group, memory)| (*group, memory))
    }

    /// The number of groups in use.
    pub(crate) fn used_count(&self) -> i64 {
        self.groups.values().filter(|memory| memory.used > 0).count() as i64
    }
}

impl GroupMemory {
    /// Whether all that is used is being released.
    pub(crate) fn is_all_releasing(&self) -> bool {
        self.used != 0 && self.releasing == self.used
    }
}
