//! Kinescope as a library: histories of Kubernetes clusters, what they hold, and what would have happened if.
//!
//! The nouns are those of [`model`]; [`history`] has the `.kine` files and [`formats`] the files of other systems.
//! [`query`] finds what is asked for, [`explain`] says why something was decided, and [`replay`] plays it again.
//!
//! ```
//! use kinescope::history::{Bulk, History};
//! use kinescope::model::{Moment, Object, Observed, What};
//!
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("shop.kine");
//! let node = Object::parse(r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"}}"#)?;
//! let at: Moment = "2026-11-01T14:00:00Z".parse()?;
//! let mut bulk = Bulk::into(&path)?;
//! bulk.push(&Observed::received(at, &"shop".into(), What::Added(node)))?;
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

pub use replay::{Replay, ReplayReport, Replayer};
