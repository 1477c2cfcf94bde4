//! A virtual cluster: new, or continued from a moment of a history.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use apiserver::ApiError;
use formats::Input;
use history::Selection;
use kubernetes::kinds;
use model::{Kind, Moment, Object};
use query::OpenHistory;
use query::autoscaler_choice::{AutoscalerChoice, AutoscalerOptions};
use recorder::secret_key;
use serde_json::json;
use virtualcluster::{
    AutoscalerSettings, ClusterClock, ControlPlaneSettings, NodeTemplate, PreparedCluster, RecordingOptions,
    VirtualCluster, VirtualClusterOptions, control_routes, default_scheduler_configuration,
};

use super::{ClockKind, Cluster};
use crate::input_files::{InputFile, expand_folders, open_file};
use crate::output::Printer;
use crate::warnings::Warnings;
use crate::{InvalidArguments, Outcome, history_arg};

/// A moment of a history, with which a cluster begins.
struct HistoryMoment {
    open_history: OpenHistory,
    source: Option<Arc<str>>,
    moment: Moment,
}

/// Serves a cluster until the program is asked to stop.
pub(super) fn serve(options: &Cluster, out: &mut Printer) -> anyhow::Result<Outcome> {
    let template = options.node_template.as_deref().map(read_node_template).transpose()?.unwrap_or_default();
    let credentials = options.serving.credentials()?;
    let control_plane = ControlPlaneSettings {
        components: options.controllers.clone(),
        scheduler: match &options.scheduler_config {
            Some(path) => read_scheduler_settings(path)?,
            None => ControlPlaneSettings::default().scheduler,
        },
        scheduling_annotations: options.scheduling_annotations,
        autoscaler: autoscaler_settings(options, out)?,
        certificate_authority: credentials
            .as_ref()
            .map(|credentials| credentials.certificate_authority.clone()),
        seed: options.seed.map_or_else(random_seed, Ok)?,
    };
    let history = options.history()?;
    let name = history.as_deref().and_then(Path::file_stem);
    let name = name.map_or("kinescope".into(), |name| name.to_string_lossy());
    let kubeconfig = options.serving.kubeconfig_target(&name)?;
    let beginning = history.as_deref().map(|path| HistoryMoment::open(path, options, out)).transpose()?;
    let clock = match options.clock {
        ClockKind::Real => ClusterClock::Real,
        ClockKind::Virtual => ClusterClock::starting_at(match &beginning {
            Some(beginning) => beginning.moment,
            None => ClusterClock::Real.now(),
        }),
    };
    let cluster = VirtualCluster::prepare(VirtualClusterOptions {
        clock,
        control_plane,
        recording: recording_options(options, &name)?,
        ..VirtualClusterOptions::default()
    })?;
    if let Some(beginning) = beginning {
        beginning.load_into(&cluster)?;
    }
    load_manifests(&cluster, &options.load, out).context("--load")?;
    cluster.add_nodes(options.nodes, &template).context("--nodes")?;
    let cluster = Arc::new(cluster.start()?);
    let registry = Arc::clone(cluster.registry());
    let served = options.serving.listen(
        true,
        credentials,
        name.to_string(),
        match &options.record {
            Some(path) => format!("virtual cluster, recorded into {},", path.display()),
            None => "virtual cluster".to_owned(),
        },
        registry,
        control_routes(cluster.clone()),
    )?;
    let outcome = options.serving.serve(out, vec![served], kubeconfig, "get nodes");
    cluster.stop().context("the recording is not complete")?;
    outcome
}

/// The history that the cluster is recorded into.
fn recording_options(options: &Cluster, name: &str) -> anyhow::Result<Option<RecordingOptions>> {
    let Some(path) = &options.record else { return Ok(None) };
    if path.exists() {
        bail!("{} exists: a new cluster needs a history of its own, so name another file", path.display());
    }
    // Before the redaction key is read, which creates it if it is missing.
    history::require_folder(path)?;
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
        (None, true) => {
            let message = "the component autoscaler has no node groups to scale: name a file of them with \
                --node-groups, see docs/node-groups.md";
            return Err(InvalidArguments(message.to_owned()).into());
        }
        (Some(_), false) => {
            let message = "--node-groups is for the autoscaler, which does not run: add it to --controllers";
            return Err(InvalidArguments(message.to_owned()).into());
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

// === impl HistoryMoment ===

impl HistoryMoment {
    fn open(path: &Path, options: &Cluster, out: &mut Printer) -> anyhow::Result<HistoryMoment> {
        let open_history = history_arg::open(Some(path))?;
        let source = open_history.source(options.source.as_deref(), "--source")?;
        let moment = options.moments(&open_history, out)?[0];
        Ok(HistoryMoment { open_history, source, moment })
    }

    /// Adds the objects, as they were.
    fn load_into(self, cluster: &PreparedCluster) -> anyhow::Result<()> {
        let selection = Selection { source: self.source, ..Selection::default() };
        let mut objects: Vec<Object> = Vec::new();
        let history = self.open_history.history;
        history.for_each_at(self.moment, &selection, |version| objects.push(version.object))?;
        objects.retain(|object| !kinds::is_secret(&kind_of(object)) && !is_setting(object));
        objects.sort_by_key(loading_order);
        for object in objects {
            cluster.import(&object).map_err(|error| anyhow!("{}", refusal_of(&object, &error)))?;
        }
        Ok(())
    }
}

/// Adds the objects of manifests. One with a resourceVersion was read from a cluster, and is added as it was; the others
/// are created, with warnings about fields that their kind does not have.
fn load_manifests(cluster: &PreparedCluster, paths: &[PathBuf], out: &mut Printer) -> anyhow::Result<()> {
    if paths.is_empty() {
        return Ok(());
    }
    let mut objects: Vec<(Arc<str>, Object)> = Vec::new();
    for InputFile { path, .. } in expand_folders(paths)? {
        let (name, reader) = open_file(&path)?;
        let input = Input::open(&name, reader)?;
        let name: Arc<str> = name.into();
        formats::manifests::for_each_new_object(input, |object| objects.push((name.clone(), object)))?;
    }
    objects.retain(|(_, object)| !is_setting(object));
    objects.sort_by_key(|(_, object)| loading_order(object));
    let mut warnings = Warnings::default();
    for (file, object) in objects {
        let meta = object.meta();
        let was_read = meta.resource_version.as_ref().is_some_and(|version| !version.is_empty());
        let added = match was_read {
            true => cluster.import(&object).map(|_| Vec::new()),
            false => cluster.create_manifest(&object),
        };
        let unknown = added.map_err(|error| anyhow!("{file}: {}", refusal_of(&object, &error)))?;
        for field in unknown {
            warnings.add(format!("--load: {file}: {} {:?}: {field}", meta.kind, meta.name));
        }
    }
    warnings.print(out);
    Ok(())
}

fn kind_of(object: &Object) -> Kind {
    let meta = object.meta();
    Kind::of(&meta.api_version, &meta.kind)
}

/// Whether an object is a setting that a history has beside the objects of its cluster.
fn is_setting(object: &Object) -> bool {
    &*kind_of(object).group == "kinescope.io"
}

/// The order in which objects are added: those that others cannot be created without come first.
fn loading_order(object: &Object) -> u8 {
    let kind = kind_of(object);
    match (&*kind.group, &*kind.kind) {
        ("apiextensions.k8s.io", "CustomResourceDefinition") => 0,
        ("", "Namespace") => 1,
        ("scheduling.k8s.io", "PriorityClass") | ("storage.k8s.io", "StorageClass") => 2,
        _ => 3,
    }
}

/// Why an object was refused. Most errors name it.
fn refusal_of(object: &Object, error: &ApiError) -> String {
    let (meta, error) = (object.meta(), error.to_string());
    if error.contains(&format!("{:?}", meta.name)) {
        return error;
    }
    format!("{} {:?}: {error}", meta.kind, meta.name)
}
