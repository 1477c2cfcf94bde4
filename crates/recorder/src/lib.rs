//! Recording of clusters into histories: one cluster given by the user, or all clusters of a configuration file.
//!
//! Each cluster has its own task, from the connection to the history: a failure of one does not affect the others.

mod assignment;
mod clock;
mod cluster;
mod config;
mod damage;
mod fleet;
mod metrics;
mod notices;
pub mod policy;
mod recording;
pub mod sched_record;
pub mod secret_key;

pub use self::assignment::{ApiServerConfig, Assignment, ControlPlaneConfig, read_scheduler_config};
pub use self::clock::RecordingClock;
pub use self::cluster::{connect, record};
pub use self::config::{Config, ConfigOverrides, file_name, parse_duration, parse_size};
pub use self::fleet::follow_config;
pub use self::metrics::{KindMetrics, RecorderMetrics, RecordingMetrics, RecordingState, lock};
pub use self::notices::{Notice, NoticeReader, NoticeSender, notice_channel};

use anyhow::Context;

/// The tokio runtime of recorders. Two worker threads suffice for many clusters; blocking disk access gets its own
/// thread.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().context("cannot start the recorder's threads")
}
