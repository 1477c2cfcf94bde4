//! The plan of a replay: its window and settings, taken from the user, the history and the defaults, in this order.

mod analysis;
mod execution;
mod node_scaling;
mod recording_analysis;
mod reported_settings;
mod resolved_replay;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use calibration::{NodesDecidedBy, ReplayLevel, ReplaySettings};
use controllers::Controller;
use model::{Kind, Moment, Object, Window};
use query::autoscaler_choice::{AutoscalerChoice, NodeGroupsSource};
use query::scheduler_choice::SchedulerChoice;
use query::{ConfigEdit, ConfigRoot, OpenHistory, OptionNames, recorded_replay_settings, scheduler_choice};
use scheduler::Version;
use simulation::latency::Latencies;

use self::node_scaling::AutoscalerOption;
use crate::history_part::{HistoryPart, complete_from};
use crate::node_classes::NodeClasses;
use crate::replay_recording::ReplayRecording;
use crate::report::{Caveat, CaveatTopic};

pub use self::execution::OutputFiles;
pub use self::node_scaling::NodeScaling;
pub use self::recording_analysis::RecordingAnalysis;
pub use self::resolved_replay::{MeasuredSettings, ResolvedReplay, RunOutcome};

/// Options of a replay. Those left out are taken from the history or the defaults.
#[derive(Clone, Default)]
pub struct ReplayOptions {
    /// The moment to begin at, as a time expression.
    pub from: Option<String>,
    /// The moment to end at.
    pub to: Option<String>,
    /// The maximum duration.
    pub duration: Option<Duration>,
    /// The source, if the history holds several.
    pub source: Option<String>,
    /// Whether pods or workloads are taken from the recording.
    pub level: Option<ReplayLevel>,
    /// The seed of all random choices.
    pub seed: Option<u64>,
    /// A KubeSchedulerConfiguration in a file.
    pub scheduler_config: Option<PathBuf>,
    /// The kube-scheduler version that is simulated.
    pub scheduler_version: Option<Version>,
    /// A file of node groups and autoscaler settings.
    pub node_groups: Option<PathBuf>,
    /// `recorded`, `off`, or flags of cluster-autoscaler.
    pub autoscaler: String,
    /// The cluster-autoscaler version that is simulated.
    pub autoscaler_version: Option<autoscaler::Version>,
    /// Fields of configurations to override.
    pub set: Vec<ConfigEdit>,
    /// The names of these options in messages.
    pub names: OptionNames,
}

/// Listens to the progress of a replay, and may cancel it.
pub trait ReplayListener {
    /// Recorded time has been read or replayed up to a moment. The replay waits while this call blocks.
    fn on_progress(&mut self, at: Moment);

    /// An error cancels the replay.
    fn check_cancelled(&self) -> anyhow::Result<()>;
}

/// A replay with its settings and where each of them comes from.
pub struct ReplayPlan {
    /// Its settings, resolved.
    pub resolved: ResolvedReplay,
    /// The scheduler.
    pub scheduler: SchedulerChoice,
    /// The autoscaler and its node groups.
    pub autoscaler: AutoscalerChoice,
    edits: Vec<String>,
    caveats: Vec<Caveat>,
}

// === impl ReplayPlan ===

impl ReplayPlan {
    /// Resolves the options. Contradictory ones are refused before the recording is read.
    pub fn make(options: &ReplayOptions, open_history: &OpenHistory) -> anyhow::Result<ReplayPlan> {
        let names = options.names;
        let source = open_history.source(options.source.as_deref(), names.source)?.unwrap_or_default();
        if options.node_groups.is_none() {
            let remedy = format!("specify the node groups of an autoscaler with {}", names.node_groups);
            refuse_without(open_history, "Node", &remedy)?;
        }
        let (from, end) = window(options, open_history, &source)?;
        if from == end {
            bail!("{} must be before {}; both are {from}", names.from, names.to);
        }
        let recorded = recorded_replay_settings(open_history, &source, from)?;
        let level = options.level.or(recorded.as_ref().map(|recorded| recorded.level)).unwrap_or_default();
        match (level, has_workloads(open_history)?) {
            (_, false) => refuse_without(open_history, "Pod", "nothing to replay")?,
            (ReplayLevel::Pods, true) => {
                let remedy = format!("set {} to workloads to replay its workloads", names.level);
                refuse_without(open_history, "Pod", &remedy)?;
            }
            (ReplayLevel::Workloads, true) => {}
        }
        let edits_of = |root: ConfigRoot| -> Vec<ConfigEdit> {
            options.set.iter().filter(|edit| edit.root == root).cloned().collect()
        };
        let version = match (options.scheduler_version, &recorded) {
            (Some(version), _) => version,
            (None, Some(recorded)) => Version::parse(&recorded.scheduler_version)?,
            (None, None) => Version::V1_36,
        };
        let scheduler = SchedulerChoice::resolve(
            open_history,
            &source,
            &[from, end],
            &scheduler_choice::SchedulerOptions {
                file: options.scheduler_config.as_deref(),
                version,
                edits: &edits_of(ConfigRoot::Scheduler),
                names,
            },
        )?;
        let autoscaler_option = AutoscalerOption::parse(&options.autoscaler, names.autoscaler)?;
        let autoscaler =
            node_scaling::choose_autoscaler(options, &autoscaler_option, open_history, &source, from, end)?;
        let mut caveats = Vec::new();
        let node_scaling = NodeScaling::decide(options, &autoscaler_option, &autoscaler, &mut caveats)?;
        let groups =
            if node_scaling == NodeScaling::AsRecorded { Vec::new() } else { autoscaler.groups.clone() };
        let start = match recorded.as_ref().map(|recorded| &recorded.nodes) {
            Some(NodesDecidedBy::Autoscaler { start, .. }) => {
                start.parse().context("the settings of the replay that wrote the history")?
            }
            Some(NodesDecidedBy::Recording | NodesDecidedBy::Nothing) | None => from,
        };
        let is_beginning = open_history.history.span()?.is_some_and(|(start, _)| start == from);
        let resolved = ResolvedReplay {
            part: HistoryPart { source, window: Window { from, to: end.plus_nanos(1) } },
            end,
            seed: options.seed.or(recorded.as_ref().map(|recorded| recorded.seed)).unwrap_or(1),
            level,
            scheduler: scheduler.settings.clone(),
            autoscaler: autoscaler.settings.clone(),
            node_scaling,
            groups,
            classes: NodeClasses::new(autoscaler.groups.clone()),
            keep_targets: matches!(autoscaler.groups_source, NodeGroupsSource::File(_)),
            pricing: autoscaler.pricing,
            gpu_label: autoscaler.gpu_label.clone(),
            autoscaler_start: start,
            measured: MeasuredSettings {
                // A replay of a replay uses its latencies and, from its beginning on, its node names.
                latencies: recorded.is_none(),
                node_names: recorded.is_none() || !is_beginning,
                provisioning: node_scaling == NodeScaling::Autoscaled
                    && matches!(autoscaler.groups_source, NodeGroupsSource::History(_)),
            },
            node_names: recorded.as_ref().map(|recorded| recorded.node_names.clone()).unwrap_or_default(),
            latencies: recorded.map_or_else(Latencies::typical, |recorded| recorded.latencies),
        };
        let edits = options.set.iter().map(ConfigEdit::to_string).collect();
        Ok(ReplayPlan { resolved, scheduler, autoscaler, edits, caveats })
    }

    /// Extracts the demands and measures latencies. A recording without pods or nodes is refused.
    pub fn analyze_recording(
        &mut self,
        open_history: &OpenHistory,
        listener: &mut dyn ReplayListener,
    ) -> anyhow::Result<RecordingAnalysis> {
        let analyzed = self.resolved.analyze_recording(&open_history.history, |at| {
            listener.on_progress(at);
            listener.check_cancelled().is_ok()
        });
        // The error of a cancelled analysis is the listener's.
        listener.check_cancelled()?;
        let (analysis, unmeasured) = analyzed?;
        let (from, end) = (self.resolved.part.window.from, self.resolved.end);
        if analysis.demands.totals.demands == 0 && analysis.demands.controller_pods.controllers().is_empty() {
            bail!("no pods from {from} to {end}: nothing to replay");
        }
        if analysis.node_counts.0.is_empty() && self.resolved.node_scaling != NodeScaling::Autoscaled {
            bail!("no nodes from {from} to {end}: pods cannot be scheduled");
        }
        if unmeasured {
            self.caveats.push(ResolvedReplay::unmeasured_caveat());
        } else if self.resolved.measured.provisioning {
            self.autoscaler.groups.clone_from(&self.resolved.groups);
        }
        Ok(analysis)
    }

    /// Settings that are not simulated or have no effect.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        let of_autoscaler =
            self.autoscaler.warnings().filter(|_| self.resolved.node_scaling == NodeScaling::Autoscaled);
        self.scheduler.settings.unsupported_features.iter().chain(of_autoscaler)
    }

    /// Starts a recording of the replay. It begins with the settings.
    pub fn start_recording(&self, path: &Path) -> anyhow::Result<ReplayRecording> {
        let mut recording = ReplayRecording::create(path, self.resolved.part.source.clone())?;
        let from = self.resolved.part.window.from;
        let mut configuration = self.scheduler.configuration.clone();
        configuration["metadata"] = serde_json::json!({"name": "kube-scheduler"});
        let configuration = Object::parse(&configuration.to_string())
            .context("cannot write the KubeSchedulerConfiguration to the history")?;
        recording.push_first(from, configuration);
        recording.push_first(from, self.replay_settings().to_object(from)?);
        if self.resolved.node_scaling == NodeScaling::Autoscaled {
            // The status of the recorded autoscaler does not hold in the replay.
            let settings = &self.autoscaler.settings;
            recording.skip(Kind::new("", "ConfigMap"), &settings.namespace, &settings.status_config_map_name);
        }
        Ok(recording)
    }

    /// Ends a recording.
    pub fn end_recording(&self, recording: &mut ReplayRecording) -> anyhow::Result<()> {
        recording.push_last(self.resolved.end, self.replay_settings().to_object(self.resolved.end)?);
        Ok(())
    }

    /// The settings as they are stored in a history.
    fn replay_settings(&self) -> ReplaySettings {
        let nodes = match self.resolved.node_scaling {
            NodeScaling::AsRecorded => NodesDecidedBy::Recording,
            NodeScaling::Fixed => NodesDecidedBy::Nothing,
            NodeScaling::Autoscaled => NodesDecidedBy::Autoscaler {
                version: self.autoscaler.requested_version.map(|version| version.to_string()),
                settings: self.autoscaler.settings_document.clone(),
                flags: self.autoscaler.flags.clone(),
                start: self.resolved.autoscaler_start.to_string(),
            },
        };
        ReplaySettings {
            seed: self.resolved.seed,
            level: self.resolved.level,
            scheduler_version: self.scheduler.settings.version.to_string(),
            latencies: self.resolved.latencies.clone(),
            node_groups: match nodes {
                NodesDecidedBy::Recording => serde_json::Value::Null,
                NodesDecidedBy::Nothing | NodesDecidedBy::Autoscaler { .. } => {
                    self.autoscaler.groups_document()
                }
            },
            nodes,
            node_names: self.resolved.node_names.clone(),
        }
    }

    /// All caveats that are known before the replay.
    pub fn caveats(&self, open_history: &OpenHistory) -> anyhow::Result<Vec<Caveat>> {
        let mut caveats = self.resolved.recording_caveats(&open_history.history)?;
        caveats.extend(self.caveats.iter().cloned());
        caveats.extend(self.resolved.settings_caveats());
        if self.resolved.node_scaling == NodeScaling::Autoscaled {
            let others = self.autoscaler.caveats().chain(&self.autoscaler.assumptions);
            caveats.extend(others.map(|text| Caveat::new(CaveatTopic::Autoscaler, text)));
        }
        Ok(caveats)
    }
}

/// Returns the first and the last moment of a replay, which lie within the history.
pub fn window(
    options: &ReplayOptions,
    open_history: &OpenHistory,
    source: &Arc<str>,
) -> anyhow::Result<(Moment, Moment)> {
    let path = open_history.history.path().display();
    let Some((start, end)) = open_history.history.span()? else {
        bail!("{path} is empty: nothing to replay")
    };
    let moment = |option_text: &Option<String>, default| match option_text {
        Some(option_text) => open_history.moment(Some(option_text)),
        None => Ok(default),
    };
    // A recorder lists one kind after another: until it has listed all, the cluster is incomplete.
    let (_, complete) = complete_from(&open_history.history, source, start, end)?;
    let complete = if complete < end { complete } else { start };
    let (from, mut to) = (moment(&options.from, complete)?, moment(&options.to, end)?);
    if let Some(duration) = options.duration {
        to = to.min(from.plus_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)));
    }
    let OptionNames { from: from_name, to: to_name, .. } = options.names;
    for (name, moment) in [(from_name, from), (to_name, to)] {
        if !(start..=end).contains(&moment) {
            bail!("{name}={moment} is outside the history, which is from {start} to {end}");
        }
    }
    if from > to {
        bail!("{from_name}={from} is after {to_name}={to}");
    }
    Ok((from, to))
}

/// Whether the history holds workloads.
fn has_workloads(open_history: &OpenHistory) -> anyhow::Result<bool> {
    Ok(open_history.history.kinds()?.iter().any(|kind| Controller::for_kind(kind).is_some()))
}

fn refuse_without(open_history: &OpenHistory, kind: &str, remedy: &str) -> anyhow::Result<()> {
    if !open_history.history.kinds()?.contains(&Kind::new("", kind)) {
        bail!("{} has no {}s: {remedy}", open_history.history.path().display(), kind.to_lowercase());
    }
    Ok(())
}
