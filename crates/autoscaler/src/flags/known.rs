//! Every flag that cluster-autoscaler 1.32 to 1.37 takes, and what becomes of it here.

mod table;

use std::sync::Arc;
use std::time::Duration;

use super::super::settings::{Settings, Version};
use super::values;

pub(super) use table::FLAGS;

/// What becomes of a flag.
pub(super) enum Flag {
    Switch(fn(&mut Settings) -> &mut bool),
    Count(fn(&mut Settings) -> &mut i64),
    Share(fn(&mut Settings) -> &mut f64),
    Span(fn(&mut Settings) -> &mut Duration),
    Text(fn(&mut Settings) -> &mut Arc<str>),
    /// Given once for each entry of a list.
    Each(fn(&mut Settings) -> &mut Vec<Arc<str>>),
    /// Entries of a list between commas; once more for more.
    Names(fn(&mut Settings) -> &mut Vec<Arc<str>>),
    /// A text of its own form.
    Own(Shape, fn(&mut Settings, &str) -> Result<(), String>),
    /// It changes no decision.
    Idle(Shape),
    /// It would change something, unless it has its usual value.
    LeftOut {
        shape: Shape,
        usual: &'static str,
        why: &'static str,
    },
}

/// What a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Switch,
    Count,
    Share,
    Span,
    Text,
    Each,
    Names,
}

/// Whether a version has a flag.
pub(super) enum Life {
    Now,
    /// Not yet: it came with that version.
    Later(Version),
    /// Not any more: it went with that version.
    Before(Version),
}

/// A flag by its name.
pub(super) fn find(name: &str) -> Option<(&'static str, &'static Flag)> {
    FLAGS.iter().find(|(other, _)| *other == name).map(|(name, flag)| (*name, flag))
}

/// Whether a version has a flag.
pub(super) fn life(name: &str, version: Version) -> Life {
    let since = SINCE.iter().find(|(_, names)| names.contains(&name)).map(|(since, _)| *since);
    match since {
        Some(since) if version < since => Life::Later(since),
        _ if GONE_WITH_1_33.contains(&name) && version >= Version::V1_33 => Life::Before(Version::V1_33),
        _ => Life::Now,
    }
}

/// By the tips of the release branches; what is not here is older than 1.32.
const SINCE: [(Version, &[&str]); 5] = [
    (
        Version::V1_33,
        &[
            "blocking-system-pod-distruption-timeout",
            "check-capacity-processor-instance",
            "cluster-snapshot-parallelism",
        ],
    ),
    (
        Version::V1_34,
        &[
            "capacity-buffer-controller-enabled",
            "capacity-buffer-pod-injection-enabled",
            "node-deletion-candidate-ttl",
        ],
    ),
    (
        Version::V1_35,
        &[
            "allowed-scheduler-names",
            "enable-csi-node-aware-scheduling",
            "max-node-skip-eval-time-tracker-enabled",
            "max-node-startup-time",
            "node-removal-latency-tracking-enabled",
            "predicate-parallelism",
            "scale-from-unschedulable",
        ],
    ),
    (
        Version::V1_36,
        &[
            "capacity-buffer-pod-dry-run-enabled",
            "capacity-quotas-enabled",
            "fastpath-binpacking-enabled",
            "max-startup-time",
            "salvo-scale-up",
            "salvo-scale-up-budget",
            "scaleup-simulation-for-skipped-node-groups-enabled",
            "startup-taint-prefix",
        ],
    ),
    (
        Version::V1_37,
        &["enable-graceful-degradation", "pending-pods-batching-timeout", "scheduler-verbosity"],
    ),
];

const GONE_WITH_1_33: [&str; 4] = [
    "gce-expander-ephemeral-storage-support",
    "max-autoprovisioned-node-group-count",
    "max-empty-bulk-delete",
    "node-autoprovisioning-enabled",
];

// === impl Flag ===

impl Flag {
    pub(super) fn shape(&self) -> Shape {
        match self {
            Flag::Switch(_) => Shape::Switch,
            Flag::Count(_) => Shape::Count,
            Flag::Share(_) => Shape::Share,
            Flag::Span(_) => Shape::Span,
            Flag::Text(_) => Shape::Text,
            Flag::Each(_) => Shape::Each,
            Flag::Names(_) => Shape::Names,
            Flag::Own(shape, _) | Flag::Idle(shape) | Flag::LeftOut { shape, .. } => *shape,
        }
    }
}

// === impl Shape ===

impl Shape {
    /// Whether a value is one of this shape.
    pub(super) fn check(self, text: &str) -> Result<(), String> {
        match self {
            Shape::Switch => values::switch(text).map(drop),
            Shape::Count => values::count(text).map(drop),
            Shape::Share => values::share(text).map(drop),
            Shape::Span => values::span(text).map(drop),
            Shape::Names => values::names(text).map(drop),
            Shape::Text | Shape::Each => Ok(()),
        }
    }

    /// Whether two texts mean the same.
    pub(super) fn is_same(self, one: &str, other: &str) -> bool {
        match self {
            Shape::Switch => values::switch(one) == values::switch(other),
            Shape::Count => values::count(one) == values::count(other),
            Shape::Share => values::share(one) == values::share(other),
            Shape::Span => values::span(one) == values::span(other),
            Shape::Names | Shape::Text | Shape::Each => one == other,
        }
    }
}
