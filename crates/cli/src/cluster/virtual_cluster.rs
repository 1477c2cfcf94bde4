//! A virtual cluster: new, or continued from a moment of a history.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use formats::Input;
use history::Selection;
use kubernetes::kinds;
use model::Object;
use query::autoscaler_choice::{AutoscalerChoice, AutoscalerOptions};
use recorder::secret_key;
use serde_json::json;
use virtualcluster::{
    AutoscalerSettings, ClusterClock, ControlPlaneSettings, NodeTemplate, PreparedCluster, RecordingOptions,
    VirtualCluster, VirtualClusterOptions, control_routes, default_scheduler_configuration,
};

use super::{ClockKind, Cluster};
use crate::output::Printer;
use crate::{Outcome, history_arg};

/// Serves a cluster until the program is asked to stop.
pub(super) fn serve(options: &Cluster, out: &mut Printer) -> anyhow::Result<Outcome> {
    let template = options.node_template.as_deref().map(read_node_template).transpose()?.unwrap_or_default();
    let control_plane = ControlPlaneSettings {
        components: options.controllers.clone(),
        scheduler: match &options.scheduler_config {
            Some(path) => read_scheduler_settings(path)?,
            None => ControlPlaneSettings::default().scheduler,
        },
        scheduling_annotations: options.scheduling_annotations,
        autoscaler: autoscaler_settings(options, out)?,
        seed: options.seed.map_or_else(random_seed, Ok)?,
    };
    let history = options.history()?;
    let name = history.as_deref().and_then(Path::file_stem);
    let name = name.map_or("kinescope".into(), |name| name.to_string_lossy());
    let clock = match options.clock {
        ClockKind::Real => ClusterClock::Real,
        ClockKind::Virtual => ClusterClock::starting_at(match &history {
            Some(path) => history_arg::open(Some(path))?.moment(options.at.first().map(String::as_str))?,
            None => ClusterClock::Real.now(),
        }),
    };
    let cluster = VirtualCluster::prepare(VirtualClusterOptions {
        clock,
        control_plane,
        recording: recording_options(options, &name)?,
        ..VirtualClusterOptions::default()
    })?;
    if let Some(path) = &history {
        load_history(&cluster, path, options)?;
    }
    for path in &options.load {
        load_manifests(&cluster, path)?;
    }
    cluster.add_nodes(options.nodes, &template).context("--nodes")?;
    let cluster = Arc::new(cluster.start()?);
    let registry = Arc::clone(cluster.registry());
    let served = options.serving.listen(
        true,
        name.to_string(),
        match &options.record {
            Some(path) => format!("virtual cluster, recorded into {},", path.display()),
            None => "virtual cluster".to_owned(),
        },
        registry,
        control_routes(cluster.clone()),
    )?;
    let outcome = options.serving.serve(out, vec![served], &name, "get nodes");
    cluster.stop().context("the recording is not complete")?;
    outcome
}

/// The history that the cluster is recorded into.
fn recording_options(options: &Cluster, name: &str) -> anyhow::Result<Option<RecordingOptions>> {
    let Some(path) = &options.record else { return Ok(None) };
    if path.exists() {
        bail!("{} exists: a new cluster needs a history of its own, so name another file", path.display());
    }
    let scheduler_config = match &options.scheduler_config {
        Some(path) => recorder::read_scheduler_config(path)?,
        None => {
            let mut configuration = default_scheduler_configuration();
            configuration["metadata"] = json!({"name": "kube-scheduler"});
            Object::parse(&configuration.to_string())?
        }
    };
    Ok(Some(RecordingOptions {
        path: path.clone(),
        source: name.into(),
        redaction: Some(secret_key::read_redact_key(&secret_key::default_path()?)?),
        settings: vec![scheduler_config],
    }))
}

/// A seed of its own for each cluster: programs recognize a cluster by its uids.
fn random_seed() -> anyhow::Result<u64> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).context("cannot generate a seed")?;
    Ok(u64::from_le_bytes(bytes))
}

fn read_node_template(path: &Path) -> anyhow::Result<NodeTemplate> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let manifest = formats::manifests::parse_yaml(&name, &text)?;
    NodeTemplate::new(manifest).with_context(|| name)
}

fn read_scheduler_settings(path: &Path) -> anyhow::Result<scheduler::Settings> {
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let configuration = formats::manifests::parse_yaml(&name, &text)?;
    scheduler::Settings::read(&configuration).with_context(|| name)
}

/// The settings of the autoscaler, if it runs.
fn autoscaler_settings(options: &Cluster, out: &mut Printer) -> anyhow::Result<Option<AutoscalerSettings>> {
    let path = match (&options.node_groups, options.controllers.autoscaler) {
        (Some(path), true) => path,
        (None, false) => return Ok(None),
        (None, true) => bail!(
            "the component autoscaler has no node groups to scale: name a file of them with --node-groups, \
            see docs/node-groups.md"
        ),
        (Some(_), false) => {
            bail!("--node-groups is for the autoscaler, which does not run: add it to --controllers")
        }
    };
    let autoscaler_options = AutoscalerOptions {
        node_groups: Some(path),
        flags: options.autoscaler_flags.as_deref(),
        version: None,
        edits: &[],
        names: crate::explain::FLAGS,
    };
    let choice = AutoscalerChoice::from_file(path, &autoscaler_options)?;
    for sentence in choice.warnings() {
        out.print_to_stderr(&format!("warning: {sentence}"));
    }
    let AutoscalerChoice { settings, groups, pricing, gpu_label, .. } = choice;
    Ok(Some(AutoscalerSettings { settings, groups, pricing, gpu_label }))
}

/// Adds the objects of a history at a moment, as they were.
fn load_history(cluster: &PreparedCluster, path: &Path, options: &Cluster) -> anyhow::Result<()> {
    let open_history = history_arg::open(Some(path))?;
    let source = open_history.source(options.source.as_deref(), "--source")?;
    let moment = open_history.moment(options.at.first().map(String::as_str))?;
    let selection = Selection { source, ..Selection::default() };
    let mut objects: Vec<Object> = Vec::new();
    open_history.history.for_each_at(moment, &selection, |version| objects.push(version.object))?;
    // Definitions come first, so that the cluster knows the kinds of the others.
    let is_definition = |object: &Object| object.meta().kind == "CustomResourceDefinition";
    objects.sort_by_key(|object| !is_definition(object));
    for object in objects {
        let meta = object.meta();
        let kind = model::Kind::of(&meta.api_version, &meta.kind);
        if kinds::is_secret(&kind) || &*kind.group == "kinescope.io" {
            continue;
        }
        cluster.import(&object).map_err(|error| anyhow!("{} {}: {error}", meta.kind, meta.name))?;
    }
    Ok(())
}

/// Creates the objects of a manifest.
fn load_manifests(cluster: &PreparedCluster, path: &Path) -> anyhow::Result<()> {
    let name = path.display().to_string();
    let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
    let input = Input::open(&name, Box::new(file))?;
    let mut objects = Vec::new();
    formats::manifests::for_each_new_object(input, |object| objects.push(object))?;
    for object in objects {
        let meta = object.meta();
        let created = cluster.create(object.value()?);
        created.map_err(|error| anyhow!("{name}: {} {}: {error}", meta.kind, meta.name))?;
    }
    Ok(())
}
