//! Other people's files, read and written as changes.
//!
//! An [`Input`] knows by its content what it is, and [`read`] gives what it says as [`Item`]s. Whatever is written, a
//! [`Writer`] takes the changes. Readers take one value at a time and never hold more than [`MAX_VALUE`] bytes of
//! input where the format allows; errors name the file and the place.

pub mod audit;
pub mod dlrm;
mod error;
mod go_json;
mod input;
mod item;
pub mod jsonl;
pub mod kai_snapshot;
pub mod kss_snapshot;
pub mod kwok;
pub mod manifests;
mod pull;
mod recognise;
pub mod scaling_history;
pub mod scaling_scenario;
pub mod sched_record;
pub mod sktrace;
pub mod snapshotz;
mod times;
mod values;
mod writer;

pub use error::{Error, Result};
pub use input::{Compression, Input};
pub use item::{Given, Item, Items};
pub use times::newest_time;
pub use values::MAX_VALUE;
pub use writer::{LeftOut, Writer, Written};

/// A format that is read or written here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A watch event a line.
    Jsonl,
    /// Objects as kubectl takes them, YAML or JSON.
    Manifests,
    /// kube-scheduler-simulator's recording.
    SchedRecord,
    /// kube-scheduler-simulator's export of a moment.
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

/// What a file says.
pub fn read(input: Input, format: Format, given: Given) -> Result<Items> {
    Ok(match format {
        Format::Jsonl => Box::new(jsonl::Reader::new(input, given)),
        // A recording of KWOK begins as manifests do.
        Format::Manifests | Format::Kwok => Box::new(kwok::Reader::new(input, given)?),
        Format::SchedRecord => Box::new(sched_record::Reader::new(input, given)),
        Format::KssSnapshot => kss_snapshot::read(input)?,
        Format::Sktrace => sktrace::read(input, given)?,
        Format::ScalingHistory => scaling_history::read(input, given)?,
        Format::ScalingScenario => scaling_scenario::read(input, given)?,
        Format::KaiSnapshot => kai_snapshot::read(input)?,
        Format::Snapshotz => snapshotz::read(input, given)?,
        Format::Dlrm => dlrm::read(input, given)?,
        Format::Audit => audit::read(input, given),
    })
}

// === impl Format ===

impl Format {
    /// All of them.
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

    /// What a user calls it.
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
