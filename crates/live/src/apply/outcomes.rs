//! Outcomes of API operations, counted.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::list_watch::RequestFailure;
use crate::translate::ApiOperation;

/// The outcome of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OperationOutcome {
    /// It was applied.
    Applied(AppliedEffect),
    /// It completed an operation that was counted before.
    Finished,
    /// It was skipped.
    Skipped(SkipReason),
    /// It failed: the server rejected it, or transient failures lasted for too long.
    Failed(RequestFailure),
}

/// The effect of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it")]
pub enum AppliedEffect {
    Created,
    Patched,
    Bound,
    Deleted,
}

/// Why an operation was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// An object of that name existed before, and is left unchanged.
    AlreadyExisted,
    /// The object was not created by this run.
    NotCreatedByRun,
    /// A namespace or CustomResourceDefinition whose deletion would delete foreign objects.
    ContainsForeignObjects,
    /// It no longer exists in the target.
    AlreadyGone,
    /// It was never created.
    NeverCreated,
    /// The server does not have the kind.
    KindNotServed,
    /// The target's scheduler has bound the pod to another node.
    BoundElsewhere,
}

/// A number of occurrences, with the first as an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedExample {
    /// The number of occurrences.
    pub count: u64,
    /// The first one, in full.
    pub first: String,
}

/// The outcomes of all operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts {
    /// Applied operations by effect.
    pub applied: BTreeMap<AppliedEffect, u64>,
    /// Skipped operations by reason.
    pub skipped: BTreeMap<SkipReason, CountedExample>,
    /// Failed operations by verb, kind and HTTP status.
    pub failed: BTreeMap<String, CountedExample>,
    /// A histogram of how late operations were started, in milliseconds.
    lateness_millis: BTreeMap<u64, u64>,
}

// === impl AppliedEffect ===

impl AppliedEffect {
    /// The lower-case name.
    pub fn as_str(self) -> &'static str {
        match self {
            AppliedEffect::Created => "created",
            AppliedEffect::Patched => "changed",
            AppliedEffect::Bound => "bound",
            AppliedEffect::Deleted => "deleted",
        }
    }
}

// === impl OutcomeCounts ===

impl OutcomeCounts {
    pub(super) fn add(
        &mut self,
        operation: &ApiOperation,
        outcome: &OperationOutcome,
        lateness: Option<Duration>,
    ) {
        if let Some(lateness) = lateness {
            *self.lateness_millis.entry(lateness.as_millis().try_into().unwrap_or(u64::MAX)).or_default() +=
                1;
        }
        let (object_ref, verb) = (&operation.object_ref, operation.verb.as_str());
        match outcome {
            OperationOutcome::Applied(effect) => *self.applied.entry(*effect).or_default() += 1,
            OperationOutcome::Finished => {}
            OperationOutcome::Skipped(reason) => {
                let first = || format!("{verb} {object_ref}");
                self.skipped
                    .entry(*reason)
                    .and_modify(|example| example.count += 1)
                    .or_insert_with(|| CountedExample::once(first()));
            }
            OperationOutcome::Failed(failure) => {
                let status = failure.status.map_or("no response".to_owned(), |status| status.to_string());
                let first = || format!("{object_ref}: {failure}");
                let key = format!("{verb} {}: {status}", object_ref.kind);
                self.failed
                    .entry(key)
                    .and_modify(|example| example.count += 1)
                    .or_insert_with(|| CountedExample::once(first()));
            }
        }
    }

    /// The number of operations.
    pub fn count(&self) -> u64 {
        self.applied.values().sum::<u64>()
            + self.skipped.values().chain(self.failed.values()).map(|example| example.count).sum::<u64>()
    }

    /// A quantile of how late operations were started: the median for 0.5. `None` if none had a due time.
    pub fn lateness_quantile(&self, share: f64) -> Option<Duration> {
        let count: u64 = self.lateness_millis.values().sum();
        let rank = (count as f64 * share).ceil() as u64;
        let mut cumulative = 0;
        let mut cumulative_counts = self.lateness_millis.iter().map(|(millis, count)| {
            cumulative += count;
            (*millis, cumulative)
        });
        cumulative_counts
            .find(|(_, cumulative)| *cumulative >= rank && *cumulative > 0)
            .map(|(millis, _)| Duration::from_millis(millis))
    }
}

// === impl CountedExample ===

impl CountedExample {
    fn once(first: String) -> CountedExample {
        CountedExample { count: 1, first }
    }
}

// === impl SkipReason ===

impl SkipReason {
    /// The reason as a text for users.
    pub fn describe(self) -> &'static str {
        match self {
            SkipReason::AlreadyExisted => "already existed, unchanged",
            SkipReason::NotCreatedByRun => "not created by this replay",
            SkipReason::ContainsForeignObjects => {
                "not deleted: contains objects that the replay did not create"
            }
            SkipReason::AlreadyGone => "already deleted in the target",
            SkipReason::NeverCreated => "could not be created",
            SkipReason::KindNotServed => "kind not served by the target",
            SkipReason::BoundElsewhere => "bound to another node by the target's scheduler",
        }
    }
}
