//! What is to be recorded, and into which history.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use model::Object;

use crate::policy::RecordingPolicy;

/// A cluster, what of it is recorded, and where.
#[derive(Clone, PartialEq)]
pub struct Assignment {
    /// Of the recording in its history.
    pub name: Arc<str>,
    /// The history.
    pub into: PathBuf,
    /// Where the cluster is.
    pub cluster: ApiServerConfig,
    /// Where the machines of the cluster are looked after, if that is another cluster.
    pub control_plane: Option<ControlPlaneConfig>,
    /// What of it is recorded.
    pub policy: RecordingPolicy,
    /// What no API server knows and is recorded all the same: how a scheduler or a tracer is configured.
    pub settings: Vec<Object>,
}

/// How an API server is found.
#[derive(Clone, Default, PartialEq)]
pub struct ApiServerConfig {
    /// The kubeconfig; `None` for that of the user or of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// A hash of what the kubeconfig says of the context: with other words in it, it is another server.
    pub seen: Option<u64>,
    /// The context; `None` for the current one.
    pub context: Option<String>,
}

/// How the control plane of a cluster is found.
#[derive(Clone, PartialEq)]
pub struct ControlPlaneConfig {
    /// The cluster that it is in.
    pub server: ApiServerConfig,
    /// Its namespace there.
    pub namespace: String,
}

// === impl Assignment ===

impl Assignment {
    /// Whether it is the same as another one. A kubeconfig that cannot be read, as while it is written, is as it was.
    pub(super) fn is_as(&self, before: &Assignment) -> bool {
        let mut now = self.clone();
        now.cluster.seen = now.cluster.seen.or(before.cluster.seen);
        if let (Some(control), Some(before)) = (&mut now.control_plane, &before.control_plane) {
            control.server.seen = control.server.seen.or(before.server.seen);
        }
        now == *before
    }
}

/// A scheduler's configuration as an object of its own kind.
pub fn scheduler_config(path: &Path) -> anyhow::Result<Object> {
    let wrong = || format!("{} is no scheduler configuration", path.display());
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut value = formats::manifests::of_yaml(&path.display().to_string(), &text)?;
    if value["kind"] != "KubeSchedulerConfiguration" {
        bail!("{}: its kind is not KubeSchedulerConfiguration", wrong());
    }
    value["metadata"]["name"] = "kube-scheduler".into();
    Object::parse(&value.to_string()).with_context(wrong)
}
