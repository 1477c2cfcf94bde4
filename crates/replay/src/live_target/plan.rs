//! The plan of a replay into a live API server: the part of the recording, and how its objects are translated.

use anyhow::bail;
use calibration::ReplayLevel;
use history::Selection;
use kubernetes::selector::check_value;
use live::apply::ReplaySpeed;
use live::translate::{AppliedLevel, PodTemplatePaths, SimkubeMode, TranslateOptions, Translator};
use model::{ContentHash, Kind, Moment};
use query::{KindResolver, OpenHistory};
use serde_json::{Value, json};

use super::recorded_part::RecordedPart;
use super::summary::DryRun;
use super::{LiveReplayOptions, VIRTUAL_NAMESPACE_PREFIX};
use crate::Speed;
use crate::plan::{self, ReplayPlan};

/// A replay into a live API server with its settings.
pub struct LivePlan<'a> {
    /// Warnings about the settings.
    pub warnings: Vec<String>,
    pub(super) options: &'a LiveReplayOptions,
    pub(super) part: RecordedPart<'a>,
    pub(super) translate_options: TranslateOptions,
    /// The name of the run, with which all objects are labeled.
    pub(super) run_name: String,
}

// === impl LivePlan ===

impl<'a> LivePlan<'a> {
    /// Resolves the options. Errors are found before connecting to the target.
    pub fn make(
        options: &'a LiveReplayOptions,
        open_history: &'a OpenHistory,
    ) -> anyhow::Result<LivePlan<'a>> {
        options.check()?;
        let source = open_history.source(options.replay.source.as_deref(), "--source")?.unwrap_or_default();
        let (from, end) = plan::window(&options.replay, open_history, &source)?;
        if options.record {
            // The comparison at the end needs it.
            ReplayPlan::make(&options.replay, open_history)?;
        }
        let run_name = run_name(options, open_history)?;
        let mut warnings = Vec::new();
        let translation = translate_options(options, open_history, &run_name, &mut warnings)?;
        let everything = Selection { source: Some(source), ..Selection::default() };
        let part = RecordedPart { open_history, everything, from, end };
        Ok(LivePlan { warnings, options, part, translate_options: translation, run_name })
    }

    /// Counts the API operations, without a server.
    pub fn dry_run(&self) -> anyhow::Result<DryRun> {
        let mut translator = Translator::new(self.translate_options.clone());
        let mut dry_run = DryRun::new(self.part.from, self.part.end);
        self.part.for_each_operation(&mut translator, |operation| dry_run.count(operation))?;
        dry_run.left_out.clone_from(translator.excluded());
        Ok(dry_run)
    }

    /// The speed of API operations, if those recorded at `from` are due now.
    pub(super) fn speed(&self, from: Moment) -> ReplaySpeed {
        match self.options.speed {
            Speed::Max => ReplaySpeed::Max,
            Speed::Times(speed) => ReplaySpeed::Scaled { speed, start: from },
        }
    }

    /// A description of the run, which must be equal to resume it.
    pub(super) fn description(&self) -> String {
        let RecordedPart { open_history, everything, from, end } = &self.part;
        let history = open_history.history.path().file_name().unwrap_or_default().to_string_lossy();
        let source = everything.source.as_deref().unwrap_or_default();
        let level = match self.translate_options.level {
            AppliedLevel::Pods => "pods",
            AppliedLevel::Workloads => "workloads",
        };
        let mut text = format!("{history} ({source}) from {from} to {end}, level {level}");
        if self.translate_options.keep_placement {
            text += ", with its placements";
        }
        if self.translate_options.keep_volume_handles {
            text += ", with its volume handles";
        }
        if self.translate_options.allow_external_effects {
            text += ", with external effects";
        }
        if let Some(simkube) = &self.translate_options.simkube {
            text += &format!(", as SimKube in {}-*", simkube.prefix);
        }
        if let Some(kinds) = &self.translate_options.kinds {
            let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
            text += &format!(", only {}", kinds.join(", "));
        }
        if !self.translate_options.rules.is_empty() {
            let rules = &self.translate_options.rules;
            let hash = ContentHash::of(&format!("{rules:?}"));
            text += &format!(", with {} rules ({:016x})", rules.len(), hash.0);
        }
        text
    }

    /// The run as an object of kind Simulation, as SimKube's hooks get it.
    pub(super) fn simulation(&self) -> Value {
        let speed = match self.options.speed {
            Speed::Max => Value::Null,
            Speed::Times(speed) => speed.into(),
        };
        let prefix = self.options.simkube.as_ref().map(|simkube| simkube.namespace_prefix.as_str());
        json!({
            "apiVersion": "simkube.io/v1", "kind": "Simulation",
            "metadata": {"name": self.run_name},
            "spec": {
                "driver": {
                    "image": "", "namespace": "", "port": 0,
                    "tracePath": format!("file://{}", self.part.open_history.history.path().display()),
                    "virtualNsPrefix": prefix.unwrap_or(VIRTUAL_NAMESPACE_PREFIX),
                },
                "repetitions": self.options.repetitions, "speed": speed,
            },
        })
    }
}

/// Returns how objects are translated. The kinds of the target are not known yet.
fn translate_options(
    options: &LiveReplayOptions,
    open_history: &OpenHistory,
    run: &str,
    warnings: &mut Vec<String>,
) -> anyhow::Result<TranslateOptions> {
    let resolver = KindResolver::read(&open_history.history, open_history.times.end)?;
    let kinds = options.kinds.as_deref().map(|text| resolver.resolve(text)).transpose()?;
    let kinds: Option<Vec<Kind>> =
        kinds.map(|resolved| resolved.into_iter().map(|resolved| resolved.kind).collect());
    if let Some(kind) = kinds.iter().flatten().find(|kind| kubernetes::kinds::is_secret(kind)) {
        bail!("--kinds: {kind} must be removed: Secrets are never replayed into a target");
    }
    let level = match (options.replay.level, &options.simkube) {
        (Some(ReplayLevel::Pods), Some(_)) => {
            bail!("--level pods cannot be used with --style simkube, which replays workloads")
        }
        (Some(ReplayLevel::Workloads), _) | (None, Some(_)) => AppliedLevel::Workloads,
        (Some(ReplayLevel::Pods) | None, None) => AppliedLevel::Pods,
    };
    let file = options.simkube.as_ref().and_then(|simkube| simkube.tracer_config.as_deref());
    let tracer = match file {
        Some(path) => {
            let (tracer, config_warnings) = query::read_tracer_config(path)?;
            warnings.extend(config_warnings);
            tracer
        }
        None => {
            open_history.tracer_config(open_history.source(options.replay.source.as_deref(), "--source")?)?
        }
    };
    let simkube = options.simkube.as_ref().map(|simkube| SimkubeMode {
        name: run.to_owned(),
        prefix: simkube.namespace_prefix.clone(),
        delays: simkube.delays,
    });
    Ok(TranslateOptions {
        level,
        keep_placement: options.keep_placement,
        kinds,
        run: run.to_owned(),
        target_kinds: Vec::new(),
        keep_volume_handles: options.keep_volume_handles,
        allow_external_effects: options.allow_external_effects,
        templates: PodTemplatePaths::with(tracer.template_paths()),
        simkube,
        rules: options.rules.clone(),
    })
}

/// Returns the name of the run, with which all objects are labeled.
fn run_name(options: &LiveReplayOptions, open_history: &OpenHistory) -> anyhow::Result<String> {
    let name = match &options.run {
        Some(name) => name.clone(),
        None => open_history.history.path().file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    match check_value(&name) {
        Ok(()) if !name.is_empty() => Ok(name),
        Ok(()) => bail!("the name of the run is empty: specify one with --run"),
        Err(reason) => {
            bail!("invalid name of the run: {reason}; specify another with --run")
        }
    }
}
