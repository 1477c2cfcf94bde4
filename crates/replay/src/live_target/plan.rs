//! The plan of a replay into a live API server: which part of the recording, and how its objects are translated.

use anyhow::bail;
use calibration::Level as ReplayLevel;
use history::Selection;
use kubernetes::selector::check_value;
use live::applying::Pace;
use live::transplant::{Level, Manner, Simkube, Templates, Transplant};
use model::{Kind, Moment};
use query::{Chosen, KindWords};
use serde_json::{Value, json};

use super::recorded_part::RecordedPart;
use super::summary::DryRun;
use super::{LiveReplayOptions, VIRTUAL_NAMESPACE_PREFIX};
use crate::Speed;
use crate::plan;

/// What is played into a live API server, and how.
pub struct LivePlan<'a> {
    /// What a user should know about the settings.
    pub warnings: Vec<String>,
    pub(super) options: &'a LiveReplayOptions,
    pub(super) part: RecordedPart<'a>,
    pub(super) manner: Manner,
    /// The name that everything is labeled with.
    pub(super) run_name: String,
}

// === impl LivePlan ===

impl<'a> LivePlan<'a> {
    /// Reads the settings. What cannot be done is refused before the target is connected to.
    pub fn make(options: &'a LiveReplayOptions, chosen: &'a Chosen) -> anyhow::Result<LivePlan<'a>> {
        options.check()?;
        let source = chosen.source(options.replay.source.as_deref(), "--source")?.unwrap_or_default();
        let (from, end) = plan::window(&options.replay, chosen, &source)?;
        let run_name = run_name(options, chosen)?;
        let mut warnings = Vec::new();
        let manner = manner(options, chosen, &run_name, &mut warnings)?;
        let everything = Selection { source: Some(source), ..Selection::default() };
        let part = RecordedPart { chosen, everything, from, end };
        Ok(LivePlan { warnings, options, part, manner, run_name })
    }

    /// Counts what would be done. No server is asked.
    pub fn dry_run(&self) -> anyhow::Result<DryRun> {
        let mut transplant = Transplant::new(self.manner.clone());
        let mut counted = DryRun::new(self.part.from, self.part.end);
        self.part.deeds(&mut transplant, |deed| counted.count(deed))?;
        counted.left_out.clone_from(transplant.left_out());
        Ok(counted)
    }

    /// How fast API operations follow each other, if what happened at `from` is due now.
    pub(super) fn pace(&self, from: Moment) -> Pace {
        match self.options.speed {
            Speed::Max => Pace::Max,
            Speed::Times(speed) => Pace::Times { speed, from },
        }
    }

    /// What is played, and how: a run is resumed only with an equal description.
    pub(super) fn description(&self) -> String {
        let RecordedPart { chosen, everything, from, end } = &self.part;
        let history = chosen.history.path().file_name().unwrap_or_default().to_string_lossy();
        let source = everything.source.as_deref().unwrap_or_default();
        let level = match self.manner.level {
            Level::Pods => "pods",
            Level::Workloads => "workloads",
        };
        let mut text = format!("{history} ({source}) from {from} to {end}, level {level}");
        if self.manner.keep_placement {
            text += ", with its placements";
        }
        if self.manner.keep_volume_handles {
            text += ", with its volume handles";
        }
        if self.manner.allow_external_effects {
            text += ", with external effects";
        }
        if let Some(simkube) = &self.manner.simkube {
            text += &format!(", as SimKube in {}-*", simkube.prefix);
        }
        if let Some(kinds) = &self.manner.kinds {
            let kinds: Vec<String> = kinds.iter().map(ToString::to_string).collect();
            text += &format!(", only {}", kinds.join(", "));
        }
        if !self.manner.rules.is_empty() {
            text += &format!(", with {} rules", self.manner.rules.len());
        }
        text
    }

    /// The run as SimKube's hooks get it: an object of kind Simulation.
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
                    "tracePath": format!("file://{}", self.part.chosen.history.path().display()),
                    "virtualNsPrefix": prefix.unwrap_or(VIRTUAL_NAMESPACE_PREFIX),
                },
                "repetitions": self.options.repetitions, "speed": speed,
            },
        })
    }
}

/// How objects are translated. The kinds of the target are not known yet.
fn manner(
    options: &LiveReplayOptions,
    chosen: &Chosen,
    run: &str,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Manner> {
    let words = KindWords::read(&chosen.history, chosen.times.end)?;
    let kinds = options.kinds.as_deref().map(|text| words.find(text)).transpose()?;
    let kinds: Option<Vec<Kind>> = kinds.map(|found| found.into_iter().map(|found| found.kind).collect());
    if let Some(kind) = kinds.iter().flatten().find(|kind| kubernetes::kinds::is_secret(kind)) {
        bail!("--kinds: {kind}: Secrets are never given to a target; leave it out");
    }
    let level = match (options.replay.level, &options.simkube) {
        (Some(ReplayLevel::Pods), Some(_)) => bail!("SimKube gives workloads: leave --level pods"),
        (Some(ReplayLevel::Workloads), _) | (None, Some(_)) => Level::Workloads,
        (Some(ReplayLevel::Pods) | None, None) => Level::Pods,
    };
    let file = options.simkube.as_ref().and_then(|simkube| simkube.tracer_config.as_deref());
    let tracer = match file {
        Some(path) => {
            let (tracer, told) = query::read_tracer_config(path)?;
            warnings.extend(told);
            tracer
        }
        None => chosen.tracer_config(chosen.source(options.replay.source.as_deref(), "--source")?)?,
    };
    let simkube = options.simkube.as_ref().map(|simkube| Simkube {
        name: run.to_owned(),
        prefix: simkube.namespace_prefix.clone(),
        delays: simkube.delays,
    });
    Ok(Manner {
        level,
        keep_placement: options.keep_placement,
        kinds,
        run: run.to_owned(),
        target_kinds: Vec::new(),
        keep_volume_handles: options.keep_volume_handles,
        allow_external_effects: options.allow_external_effects,
        templates: Templates::with(tracer.templates()),
        simkube,
        rules: options.rules.clone(),
    })
}

/// The name that everything is labeled with.
fn run_name(options: &LiveReplayOptions, chosen: &Chosen) -> anyhow::Result<String> {
    let name = match &options.run {
        Some(name) => name.clone(),
        None => chosen.history.path().file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    match check_value(&name) {
        Ok(()) if !name.is_empty() => Ok(name),
        Ok(()) => bail!("a run needs a name: give one with --run"),
        Err(why) => {
            bail!("everything is labelled with the name of the run, and {why}; say it with --run")
        }
    }
}
