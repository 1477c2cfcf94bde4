//! Assignments of clusters to histories.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use model::Object;

use crate::policy::RecordingPolicy;

/// A cluster to record, the policy, and the history to write.
#[derive(Clone, PartialEq)]
pub struct Assignment {
    /// The name of the recording in its history.
    pub name: Arc<str>,
    /// The path of the history.
    pub history_path: PathBuf,
    /// The API server of the cluster.
    pub cluster: ApiServerConfig,
    /// The control plane that manages the cluster's machines, if it is in another cluster.
    pub control_plane: Option<ControlPlaneConfig>,
    /// The recording policy.
    pub policy: RecordingPolicy,
    /// Configurations of a scheduler or a tracer, recorded as objects although no API server has them.
    pub settings: Vec<Object>,
}

/// The configuration of a connection to an API server.
#[derive(Clone, Default, PartialEq)]
pub struct ApiServerConfig {
    /// The kubeconfig; `None`: the user's, or the in-cluster configuration.
    pub kubeconfig: Option<PathBuf>,
    /// A hash of the context's content in the kubeconfig: if it changes, the connection is reopened.
    pub context_hash: Option<u64>,
    /// The context; `None`: the current one.
    pub context: Option<String>,
}

/// The configuration of a cluster's control plane.
#[derive(Clone, PartialEq)]
pub struct ControlPlaneConfig {
    /// The cluster that runs it.
    pub server: ApiServerConfig,
    /// Its namespace there.
    pub namespace: String,
}

// === impl Assignment ===

impl Assignment {
    /// Whether it equals an earlier one. A kubeconfig that cannot be read, as while it is being written, counts as
    /// unchanged.
    pub(super) fn is_unchanged_from(&self, previous: &Assignment) -> bool {
        let mut current = self.clone();
        current.cluster.context_hash = current.cluster.context_hash.or(previous.cluster.context_hash);
        if let (Some(control_plane), Some(previous)) = (&mut current.control_plane, &previous.control_plane) {
            control_plane.server.context_hash =
                control_plane.server.context_hash.or(previous.server.context_hash);
        }
        current == *previous
    }
}

/// Reads a KubeSchedulerConfiguration as an object.
pub fn read_scheduler_config(path: &Path) -> anyhow::Result<Object> {
    let invalid = || format!("{} is not a scheduler configuration", path.display());
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut value = formats::manifests::parse_yaml(&path.display().to_string(), &text)?;
    if value["kind"] != "KubeSchedulerConfiguration" {
        bail!("{}: kind must be KubeSchedulerConfiguration", invalid());
    }
    value["metadata"]["name"] = "kube-scheduler".into();
    Object::parse(&value.to_string()).with_context(invalid)
}
