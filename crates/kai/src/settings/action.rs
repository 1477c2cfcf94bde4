//! The actions of a cycle.

/// An action of a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// Places pending pods on free resources.
    Allocate,
    /// Moves pods to make room.
    Consolidation,
    /// Evicts pods of queues above their share for queues below theirs.
    Reclaim,
    /// Evicts pods of lower priority in the same queue.
    Preempt,
    /// Evicts the pods of jobs that run with fewer pods than they need.
    StaleGangEviction,
}

impl Action {
    /// All actions, in their default order.
    pub const ALL: [Action; 5] = [
        Action::Allocate,
        Action::Consolidation,
        Action::Reclaim,
        Action::Preempt,
        Action::StaleGangEviction,
    ];

    /// Its name in configurations.
    pub fn name(self) -> &'static str {
        match self {
            Action::Allocate => "allocate",
            Action::Consolidation => "consolidation",
            Action::Reclaim => "reclaim",
            Action::Preempt => "preempt",
            Action::StaleGangEviction => "stalegangeviction",
        }
    }

    /// The action of that name.
    pub(super) fn of(name: &str) -> Option<Action> {
        Action::ALL.into_iter().find(|action| action.name() == name)
    }
}
