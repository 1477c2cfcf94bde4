//! Kinescope as a library: histories of Kubernetes clusters, queries, explanations and replays of them, and virtual
//! clusters.
//!
//! The data types are in [`model`]; [`history`] reads and writes `.kine` files, [`formats`] the files of other systems.
//! [`query`] selects from histories, [`explain`] explains the decisions of scheduler and autoscaler, and [`replay`]
//! replays histories with the same settings or others. [`virtualcluster`] has clusters in this process.
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
//!
//! A [`VirtualCluster`] has the objects of a Kubernetes cluster, and components that work on them:
//!
//! ```
//! use std::time::Duration;
//!
//! use kinescope::model::NamespacedName;
//! use kinescope::{NodeTemplate, VirtualCluster, VirtualClusterOptions};
//! use serde_json::json;
//!
//! let cluster = VirtualCluster::start(VirtualClusterOptions::default())?;
//! cluster.add_nodes(3, &NodeTemplate::default())?;
//! cluster.set_base();
//!
//! cluster.create(json!({
//!     "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},
//!     "spec": {"containers": [{"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "4"}}}]},
//! }))?;
//! let web = NamespacedName::new("default", "web");
//! let outcome = cluster.wait_until_decided(&[web], Duration::from_secs(10));
//! assert_eq!(outcome.scheduled.len(), 1);
//!
//! // The three nodes without the pod.
//! cluster.reset();
//! cluster.stop()?;
//! # Ok::<(), anyhow::Error>(())
//! ```

pub use explain;
pub use formats;
pub use history;
pub use model;
pub use query;
pub use replay;
pub use virtualcluster;

pub use replay::{ReplayBuilder, ReplayReport, Replayer};
pub use virtualcluster::{
    AdvanceError, AdvanceTarget, AutoscalerSettings, ClusterClock, ComponentSet, ControlPlaneSettings,
    NodeTemplate, RecordingOptions, SchedulingOutcome, VirtualCluster, VirtualClusterOptions,
};
