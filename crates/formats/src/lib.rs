//! Readers and writers of other systems' files.
//!
//! An [`Input`] recognizes its format by its content, and [`read`] returns its content as [`ImportItem`]s. A [`Writer`]
//! writes changes in a format. Readers hold one value of at most [`MAX_VALUE_BYTES`] at a time where the format allows;
//! errors name the file and the position.

pub mod audit;
pub mod dlrm;
mod error;
mod go_json;
mod input;
mod item;
mod json_pull;
mod json_values;
pub mod jsonl;
pub mod kai_snapshot;
pub mod kss_snapshot;
pub mod kwok;
pub mod manifests;
mod object_times;
mod recognize;
pub mod scaling_history;
pub mod scaling_scenario;
pub mod sched_record;
pub mod sktrace;
pub mod snapshotz;
mod writer;

pub use error::{Error, Result};
pub use input::{Compression, Input};
pub use item::{ImportItem, ImportItems, ReadOptions};
pub use json_values::MAX_VALUE_BYTES;
pub use object_times::newest_time;
pub use writer::{LeftOutCounts, WriteSummary, Writer};

/// A format that is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One watch event per line.
    Jsonl,
    /// Objects as `kubectl apply` takes them, YAML or JSON.
    Manifests,
    /// kube-scheduler-simulator's recording.
    SchedRecord,
    /// kube-scheduler-simulator's snapshot (export).
    KssSnapshot,
    /// SimKube's trace.
    Sktrace,
    /// The database of Gardener's scaling history.
    ScalingHistory,
    /// A report of Gardener's replayer.
    ScalingScenario,
    /// The snapshot of the KAI scheduler.
    KaiSnapshot,
    /// KWOK's snapshot and recording.
    Kwok,
    /// The cluster autoscaler's debugging snapshot.
    Snapshotz,
    /// Alibaba's trace of recommendation services.
    Dlrm,
    /// The audit log of a Kubernetes API server.
    Audit,
}

/// Reads the items of a file.
pub fn read(input: Input, format: Format, options: ReadOptions) -> Result<ImportItems> {
    Ok(match format {
        Format::Jsonl => Box::new(jsonl::JsonlReader::new(input, options)),
        // A recording of KWOK begins with manifests.
        Format::Manifests | Format::Kwok => Box::new(kwok::KwokReader::new(input, options)?),
        Format::SchedRecord => Box::new(sched_record::SchedRecordReader::new(input, options)),
        Format::KssSnapshot => kss_snapshot::read(input)?,
        Format::Sktrace => sktrace::read(input, options)?,
        Format::ScalingHistory => scaling_history::read(input, options)?,
        Format::ScalingScenario => scaling_scenario::read(input, options)?,
        Format::KaiSnapshot => kai_snapshot::read(input)?,
        Format::Snapshotz => snapshotz::read(input, options)?,
        Format::Dlrm => dlrm::read(input, options)?,
        Format::Audit => audit::read(input, options),
    })
}

// === impl Format ===

impl Format {
    /// All formats.
    pub const ALL: [Format; 12] = [
        Format::Jsonl,
        Format::Manifests,
        Format::SchedRecord,
        Format::KssSnapshot,
        Format::Sktrace,
        Format::ScalingHistory,
        Format::ScalingScenario,
        Format::KaiSnapshot,
        Format::Kwok,
        Format::Snapshotz,
        Format::Dlrm,
        Format::Audit,
    ];

    /// The name that users type.
    pub fn name(self) -> &'static str {
        match self {
            Format::Jsonl => "jsonl",
            Format::Manifests => "manifests",
            Format::SchedRecord => "sched-record",
            Format::KssSnapshot => "kss-snapshot",
            Format::Sktrace => "sktrace",
            Format::ScalingHistory => "scaling-history",
            Format::ScalingScenario => "scaling-scenario",
            Format::KaiSnapshot => "kai-snapshot",
            Format::Kwok => "kwok",
            Format::Snapshotz => "snapshotz",
            Format::Dlrm => "dlrm",
            Format::Audit => "audit",
        }
    }
}
