//! All flags of cluster-autoscaler 1.32 to 1.37, and how they are handled here.

mod table;

use std::sync::Arc;
use std::time::Duration;

use super::super::settings::{Settings, Version};
use super::values;

pub(super) use table::FLAGS;

/// The handling of a flag.
pub(super) enum Flag {
    Bool(fn(&mut Settings) -> &mut bool),
    Int(fn(&mut Settings) -> &mut i64),
    Float(fn(&mut Settings) -> &mut f64),
    Duration(fn(&mut Settings) -> &mut Duration),
    String(fn(&mut Settings) -> &mut Arc<str>),
    /// A list, given once per entry.
    StringArray(fn(&mut Settings) -> &mut Vec<Arc<str>>),
    /// A list, comma-separated; may be repeated.
    StringSlice(fn(&mut Settings) -> &mut Vec<Arc<str>>),
    /// A value with a format of its own.
    Custom(FlagType, fn(&mut Settings, &str) -> Result<(), String>),
    /// It affects no decision.
    NoEffect(FlagType),
    /// Not simulated: values other than the default are reported.
    Unsupported {
        flag_type: FlagType,
        default: &'static str,
        why: &'static str,
    },
}

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlagType {
    Bool,
    Int,
    Float,
    Duration,
    String,
    StringArray,
    StringSlice,
}

/// Whether a version has a flag.
pub(super) enum FlagAvailability {
    Available,
    /// Not yet: it was added in that version.
    AddedIn(Version),
    /// Not any more: it was removed in that version.
    RemovedIn(Version),
}

/// A flag by its name.
pub(super) fn find(name: &str) -> Option<(&'static str, &'static Flag)> {
    FLAGS.iter().find(|(right, _)| *right == name).map(|(name, flag)| (*name, flag))
}

/// Whether a version has a flag.
pub(super) fn availability(name: &str, version: Version) -> FlagAvailability {
    let since = ADDED_IN.iter().find(|(_, names)| names.contains(&name)).map(|(since, _)| *since);
    match since {
        Some(since) if version < since => FlagAvailability::AddedIn(since),
        _ if REMOVED_IN_1_33.contains(&name) && version >= Version::V1_33 => {
            FlagAvailability::RemovedIn(Version::V1_33)
        }
        _ => FlagAvailability::Available,
    }
}

/// The flags by the version that added them, as of the tips of the release branches; others are older than 1.32.
const ADDED_IN: [(Version, &[&str]); 5] = [
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

const REMOVED_IN_1_33: [&str; 4] = [
    "gce-expander-ephemeral-storage-support",
    "max-autoprovisioned-node-group-count",
    "max-empty-bulk-delete",
    "node-autoprovisioning-enabled",
];

// === impl Flag ===

impl Flag {
    pub(super) fn flag_type(&self) -> FlagType {
        match self {
            Flag::Bool(_) => FlagType::Bool,
            Flag::Int(_) => FlagType::Int,
            Flag::Float(_) => FlagType::Float,
            Flag::Duration(_) => FlagType::Duration,
            Flag::String(_) => FlagType::String,
            Flag::StringArray(_) => FlagType::StringArray,
            Flag::StringSlice(_) => FlagType::StringSlice,
            Flag::Custom(shape, _) | Flag::NoEffect(shape) | Flag::Unsupported { flag_type: shape, .. } => {
                *shape
            }
        }
    }
}

// === impl FlagType ===

impl FlagType {
    /// Checks whether a value has this type.
    pub(super) fn check(self, text: &str) -> Result<(), String> {
        match self {
            FlagType::Bool => values::parse_bool(text).map(drop),
            FlagType::Int => values::parse_int(text).map(drop),
            FlagType::Float => values::parse_float(text).map(drop),
            FlagType::Duration => values::parse_duration(text).map(drop),
            FlagType::StringSlice => values::parse_string_slice(text).map(drop),
            FlagType::String | FlagType::StringArray => Ok(()),
        }
    }

    /// Whether two texts have the same value.
    pub(super) fn is_same(self, left: &str, right: &str) -> bool {
        match self {
            FlagType::Bool => values::parse_bool(left) == values::parse_bool(right),
            FlagType::Int => values::parse_int(left) == values::parse_int(right),
            FlagType::Float => values::parse_float(left) == values::parse_float(right),
            FlagType::Duration => values::parse_duration(left) == values::parse_duration(right),
            FlagType::StringSlice | FlagType::String | FlagType::StringArray => left == right,
        }
    }
}
