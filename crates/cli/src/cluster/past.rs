//! Moments of a history, served as they were.

use std::sync::Arc;

use apiserver::Registry;
use virtualcluster::{ClusterClock, PastOptions, PastStore, read_only_control_routes};

use super::Cluster;
use super::serving::ServedCluster;
use crate::output::Printer;
use crate::{Outcome, history_arg};

/// Serves each moment that was named, until the program is asked to stop.
pub(super) fn serve(options: &Cluster, out: &mut Printer) -> anyhow::Result<Outcome> {
    let path = history_arg::resolve(options.history()?.as_deref())?;
    let open_history = history_arg::open(Some(&path))?;
    let source = open_history.source(options.source.as_deref(), "--source")?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let kubeconfig = options.serving.kubeconfig_target(&name)?;
    let mut clusters: Vec<ServedCluster> = Vec::new();
    for moment in options.moments(&open_history, out)? {
        let shift_to = options.shift_times.then(|| ClusterClock::Real.now());
        let past = PastOptions { speed: options.speed, shift_to };
        let store = PastStore::open(&path, source.clone(), moment, past)?;
        // Nothing is written, so no name is generated.
        let registry = Arc::new(Registry::new(Arc::new(store), 0));
        let description = format!("{} at {moment}", path.display());
        let context = format!("{name}@{moment}");
        clusters.push(options.serving.listen(
            clusters.is_empty(),
            options.serving.credentials()?,
            context,
            description,
            registry,
            read_only_control_routes(moment),
        )?);
    }
    options.serving.serve(out, clusters, kubeconfig, "get pods -A -o wide")
}
