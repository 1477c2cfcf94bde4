//! The status of a pod in a cycle.

/// The status of a pod in a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodStatus {
    /// It waits for a node.
    Pending,
    /// It has scheduling gates.
    Gated,
    /// It was given a node in this cycle, not committed yet.
    Allocated,
    /// It was given a node whose resources are still being released.
    Pipelined,
    /// It has a bind request.
    Binding,
    /// It has a node and does not run yet.
    Bound,
    /// It runs.
    Running,
    /// It is being deleted, or was evicted in this cycle.
    Releasing,
    /// Its containers have succeeded.
    Succeeded,
    /// A container of it has failed.
    Failed,
    /// Its status is unknown.
    Unknown,
    /// It is being deleted for so long that nothing waits for its resources.
    StuckInReleasing,
}

impl PodStatus {
    /// The number of statuses.
    pub(crate) const COUNT: usize = PodStatus::StuckInReleasing as usize + 1;

    /// Whether it occupies resources of a node.
    pub fn is_active_used(self) -> bool {
        self.is_active_allocated() || matches!(self, PodStatus::Releasing | PodStatus::StuckInReleasing)
    }

    /// Whether it occupies resources of a node and is not being deleted.
    pub fn is_active_allocated(self) -> bool {
        self.is_allocated() || self == PodStatus::Pipelined
    }

    /// Whether it has a node or may get one.
    pub fn is_alive(self) -> bool {
        self.is_active_allocated() || matches!(self, PodStatus::Pending | PodStatus::Gated)
    }

    /// Whether its queue is charged for it at the start of a cycle.
    pub fn is_allocated(self) -> bool {
        matches!(self, PodStatus::Allocated | PodStatus::Bound | PodStatus::Binding | PodStatus::Running)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            PodStatus::Pending => "Pending",
            PodStatus::Gated => "Gated",
            PodStatus::Allocated => "Allocated",
            PodStatus::Pipelined => "Pipelined",
            PodStatus::Binding => "Binding",
            PodStatus::Bound => "Bound",
            PodStatus::Running => "Running",
            PodStatus::Releasing => "Releasing",
            PodStatus::Succeeded => "Succeeded",
            PodStatus::Failed => "Failed",
            PodStatus::Unknown => "Unknown",
            PodStatus::StuckInReleasing => "StuckInReleasing",
        }
    }
}
