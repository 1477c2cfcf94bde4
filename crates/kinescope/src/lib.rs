//! Kinescope as a library: histories of Kubernetes clusters, and queries, explanations and replays of them.
//!
//! The data types are in [`model`]; [`history`] reads and writes `.kine` files, [`formats`] the files of other systems.
//! [`query`] selects from histories, [`explain`] explains the decisions of scheduler and autoscaler, and [`replay`]
//! replays histories with the same settings or others.
//!
//! ```
//! use kinescope::history::{BulkWriter, History};
//! use kinescope::model::{Moment, Object, IncomingChange, What};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("shop.kine");
//! let node = Object::parse(r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}"#)?;
//! let at: Moment = "2026-11-01T14:00:00Z".parse()?;
//! let mut bulk = BulkWriter::open(&path)?;
//! bulk.push(&IncomingChange::received(at, &"shop".into(), What::Added(node)))?;
//! bulk.finish()?;
//!
//! let history = History::open(&path)?;
//! assert_eq!(history.span()?, Some((at, at)));
//! # Ok::<(), anyhow::Error>(())
//! ```

pub use explain;
pub use formats;
pub use history;
pub use model;
pub use query;
pub use replay;

pub use replay::{ReplayBuilder, ReplayReport, Replayer};
