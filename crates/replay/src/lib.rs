//! Replays of recorded clusters, in virtual time or in a live API server, and reports on them.
//!
//! A [`Replayer`] opens a history, shows the cluster at any moment of it, and replays a part of it in virtual time:
//! with the default scheduler and the recorded autoscaler or with chosen ones, in batches, each run until the cluster
//! has settled.
//!
//! ```
//! use std::time::Duration;
//!
//! use replay::Replayer;
//! # use model::{Moment, Object, IncomingChange, What};
//! # use serde_json::{Value, json};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("shop.kine");
//! # let at = |second: i64| Moment::from_nanos((1_790_000_000 + second) * 1_000_000_000);
//! # let mut bulk = history::BulkWriter::open(&path)?;
//! # let mut see = |second: i64, object: Value| {
//! #     let object = What::Added(Object::parse(&object.to_string()).expect("an object"));
//! #     bulk.push(&IncomingChange::received(at(second), &"shop".into(), object))
//! # };
//! # let room = json!({"cpu": "2", "memory": "8Gi", "pods": "110"});
//! # let pool = json!({"worker.gardener.cloud/pool": "web", "topology.kubernetes.io/zone": "a"});
//! # let old = at(-9).to_string();
//! # see(0, json!({"apiVersion": "v1", "kind": "Node",
//! #     "metadata": {"name": "web-1", "labels": pool, "creationTimestamp": old},
//! #     "status": {"capacity": room, "allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]}}))?;
//! # see(0, json!({"apiVersion": "machine.sapcloud.io/v1alpha1", "kind": "MachineDeployment",
//! #     "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": old},
//! #     "spec": {"replicas": 1, "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
//! #         "template": {"spec": {"class": {"name": "web"}, "nodeTemplate": {"metadata": {"labels": pool}}}}}}))?;
//! # see(0, json!({"apiVersion": "apps/v1", "kind": "Deployment",
//! #     "metadata": {"name": "cluster-autoscaler", "namespace": "shop", "creationTimestamp": old},
//! #     "spec": {"template": {"spec": {"containers": [{"name": "cluster-autoscaler", "image": "cluster-autoscaler:v1.36.1",
//! #         "command": ["./cluster-autoscaler", "--nodes=1:5:shop.web", "--scan-interval=10s"]}]}}}}))?;
//! # for number in 1..=3 {
//! #     see(5 + number, json!({"apiVersion": "v1", "kind": "Pod",
//! #         "metadata": {"name": format!("cart-{number}"), "namespace": "default", "uid": format!("{number}"),
//! #             "creationTimestamp": at(5 + number).to_string()},
//! #         "spec": {"schedulerName": "default-scheduler", "containers": [
//! #             {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m"}}}]},
//! #         "status": {"phase": "Pending"}}))?;
//! # }
//! # see(600, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "late"}}))?;
//! # bulk.finish()?;
//!
//! // A shop with one node of two cores, in which three pods are created that request one and a half cores each.
//! let replayer = Replayer::open(&path)?;
//! let before = replayer.cluster_at(replayer.record_start())?;
//! assert_eq!((before.nodes.len(), before.node_groups[0].max), (1, 5));
//!
//! let report = replayer.replay(Duration::from_secs(600), Duration::from_secs(10))?;
//! assert_eq!(report.deployed_pods[0].pods.len(), 3);
//! assert_eq!(report.scaled_up_groups["shop.web"], 2);
//! assert_eq!(report.end.scheduled_pods.len(), 3);
//!
//! // The same without an autoscaler.
//! let report = replayer.prepare().without_autoscaler().run()?;
//! assert_eq!(report.end.unscheduled_pods.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod compare;
pub mod compare_histories;
pub mod decisions;
mod demand_cache;
pub mod demands;
mod error;
pub mod history_part;
pub mod input_stream;
pub mod level;
#[cfg(feature = "live")]
pub mod live_target;
pub mod metrics;
pub mod node_classes;
pub mod plan;
pub mod play;
pub mod recording_metrics;
pub mod replay_recording;
pub mod replayer;
pub mod report;
pub mod snapshot;
mod speed;

pub use error::Error;
/// Error of a [`Replayer`].
pub use replayer::ReplayerError;
pub use replayer::{ReplayBuilder, ReplayReport, Replayer};
pub use speed::Speed;
