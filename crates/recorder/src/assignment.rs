//! What is to be recorded, and into which history.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use history::Retention;
use kubernetes::rules::Rules;
use live::{KindChoice, Wanted};
use model::{Kind, Object};

/// A cluster, what of it is recorded, and where.
#[derive(Clone, PartialEq)]
pub struct Assignment {
    /// Of the recording in its history.
    pub name: Arc<str>,
    /// The history.
    pub into: PathBuf,
    /// Where the cluster is.
    pub cluster: Plane,
    /// Where the machines of the cluster are looked after, if that is another cluster.
    pub control_plane: Option<Plane>,
    /// What of it is kept.
    pub keep: Keep,
    /// For how long.
    pub retention: Retention,
    /// What no API server knows and is recorded all the same: how a scheduler or a tracer is configured.
    pub settings: Vec<Object>,
}

/// An API server, and what is wanted of it.
#[derive(Clone, Default, PartialEq)]
pub struct Plane {
    /// The kubeconfig; `None` for that of the user or of the pod.
    pub kubeconfig: Option<PathBuf>,
    /// A hash of what the kubeconfig says of the context: with other words in it, it is another server.
    pub seen: Option<u64>,
    /// The context; `None` for the current one.
    pub context: Option<String>,
    /// Which kinds are watched.
    pub wanted: Wanted,
}

/// What is kept of what is seen.
#[derive(Clone, PartialEq)]
pub enum Keep {
    /// Every byte of every version.
    Everything,
    /// What matters to scheduling.
    Significant(Rules),
}

// === impl Assignment ===

impl Assignment {
    /// Whether it is the same as another one. A kubeconfig that cannot be read, as while it is written, is as it was.
    pub(super) fn is_as(&self, before: &Assignment) -> bool {
        let mut now = self.clone();
        now.cluster.seen = now.cluster.seen.or(before.cluster.seen);
        if let (Some(plane), Some(before)) = (&mut now.control_plane, &before.control_plane) {
            plane.seen = plane.seen.or(before.seen);
        }
        now == *before
    }
}

/// What of a control plane belongs to the one cluster that is looked after in this namespace.
pub(super) fn of_control_plane(namespace: String) -> Wanted {
    let if_there = [
        Kind::new("machine.sapcloud.io", "MachineDeployment"),
        Kind::new("machine.sapcloud.io", "MachineClass"),
        Kind::new("extensions.gardener.cloud", "Worker"),
        Kind::new("apps", "Deployment"),
        Kind::new("events.k8s.io", "Event"),
    ];
    let kinds = KindChoice { only: Some(Vec::new()), if_there: if_there.into(), ..KindChoice::default() };
    Wanted { kinds, namespaces: vec![namespace], ..Wanted::default() }
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
