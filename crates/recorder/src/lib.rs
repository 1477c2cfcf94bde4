//! Recording clusters into histories: one that a user names, or many that a file names.
//!
//! Each cluster has a task of its own, from its connection to its history: what goes wrong with one touches no other.

mod assignment;
mod clock;
mod cluster;
mod config;
mod damage;
mod figures;
mod film;
mod fleet;
mod notices;
pub mod policy;
pub mod sched_record;
pub mod secret_key;

pub use self::assignment::{ApiServerConfig, Assignment, ControlPlaneConfig, scheduler_config};
pub use self::clock::RecordingClock;
pub use self::cluster::{connect, record};
pub use self::config::{Beside, Config, duration, file_name, size};
pub use self::figures::{Board, Figures, KindFigures, State, lock};
pub use self::fleet::follow;
pub use self::notices::{Notice, NoticeReader, Notices, notices};

use anyhow::Context;

/// Threads for recorders. Two do the work of many clusters; what waits for a disk gets another.
pub fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().context("cannot start the recorder's threads")
}
