//! Replays in batches for programs: their settings, and their execution.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use autoscaler::{NodeGroup, NodeGroups};
use calibration::{DerivedGroups, ReplayLevel};
use formats::scaling_scenario::Scenario;
use model::{Moment, Window};
use serde_json::Value;
use simulation::latency::Latencies;

use super::report::ReplayReport;
use super::report_collector::{CollectedReport, ReportCollector, ScenarioSink};
use super::{Replayer, ReplayerError, recorded_snapshot};
use crate::decisions::DecisionLog;
use crate::history_part::HistoryPart;
use crate::node_classes::NodeClasses;
use crate::plan::{MeasuredSettings, NodeScaling, ResolvedReplay};
use crate::play::BatchSettings;
use crate::report::{
    AutoscalerSettings, Caveat, CaveatTopic, LatencySettings, ReportedSettings, SchedulerSettings,
    SettingsOrigin,
};

/// Builds a replay, and [runs](ReplayBuilder::run) it in batches. Its level is [`ReplayLevel::Pods`].
///
/// By default it reaches from where the recording is complete to its end, with the recorded autoscaler and
/// groups, and with kube-scheduler's default configuration. The autoscaler does not remove nodes, because the
/// report says how many the pods need. Nodes that the recorded autoscaler removed then stay; nodes that were
/// removed otherwise are removed. [`scale_down`](ReplayBuilder::scale_down) changes that.
pub struct ReplayBuilder<'a> {
    replayer: &'a Replayer,
    from: Moment,
    duration: Option<Duration>,
    batch_interval: Option<Duration>,
    scheduler: scheduler::Settings,
    autoscaler: AutoscalerMode,
    node_groups: Option<Vec<NodeGroup>>,
    scale_down: bool,
    latencies: Latencies,
    seed: u64,
    scenarios: Option<(String, ScenarioSink<'a>)>,
}

enum AutoscalerMode {
    Recorded,
    None,
    Custom(Box<autoscaler::Settings>),
}

/// cluster-autoscaler's default scan interval, for replays without an autoscaler.
const DEFAULT_SCAN_INTERVAL: Duration = Duration::from_secs(10);
/// How long to wait for the cluster to settle, beyond the autoscaler's own delays: an unschedulable pod is retried
/// after ten seconds at most.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(120);

// === impl ReplayBuilder ===

impl<'a> ReplayBuilder<'a> {
    pub(super) fn new(replayer: &'a Replayer) -> ReplayBuilder<'a> {
        ReplayBuilder {
            replayer,
            from: replayer.complete_from,
            duration: None,
            batch_interval: None,
            scheduler: scheduler::Settings::default(),
            autoscaler: AutoscalerMode::Recorded,
            node_groups: None,
            scale_down: false,
            latencies: Latencies::typical(),
            seed: 1,
            scenarios: None,
        }
    }

    /// Begins at this moment.
    #[must_use]
    pub fn from(self, from: Moment) -> ReplayBuilder<'a> {
        ReplayBuilder { from, ..self }
    }

    /// Ends the replay after this duration of recorded time; by default it ends with the recording. The
    /// duration must not be zero or reach beyond the recording.
    #[must_use]
    pub fn lasting(self, duration: Duration) -> ReplayBuilder<'a> {
        ReplayBuilder { duration: Some(duration), ..self }
    }

    /// Sets the batch interval, which is the autoscaler's scan interval by default.
    #[must_use]
    pub fn batch_interval(self, interval: Duration) -> ReplayBuilder<'a> {
        ReplayBuilder { batch_interval: Some(interval), ..self }
    }

    /// Sets the scheduler's settings.
    #[must_use]
    pub fn scheduler(self, scheduler: scheduler::Settings) -> ReplayBuilder<'a> {
        ReplayBuilder { scheduler, ..self }
    }

    /// Uses this autoscaler instead of the recorded one.
    #[must_use]
    pub fn autoscaler(self, settings: autoscaler::Settings) -> ReplayBuilder<'a> {
        ReplayBuilder { autoscaler: AutoscalerMode::Custom(Box::new(settings)), ..self }
    }

    /// Uses no autoscaler. Nodes are then added and removed as recorded.
    #[must_use]
    pub fn without_autoscaler(self) -> ReplayBuilder<'a> {
        ReplayBuilder { autoscaler: AutoscalerMode::None, ..self }
    }

    /// Uses these groups instead of the recorded ones, with their provisioning times.
    #[must_use]
    pub fn node_groups(self, groups: Vec<NodeGroup>) -> ReplayBuilder<'a> {
        ReplayBuilder { node_groups: Some(groups), ..self }
    }

    /// Lets the autoscaler remove nodes, if its settings enable scale-down.
    #[must_use]
    pub fn scale_down(self, scale_down: bool) -> ReplayBuilder<'a> {
        ReplayBuilder { scale_down, ..self }
    }

    /// Sets the latencies. New nodes of recorded groups take as long as recorded.
    #[must_use]
    pub fn latencies(self, latencies: Latencies) -> ReplayBuilder<'a> {
        ReplayBuilder { latencies, ..self }
    }

    /// Sets the seed of all random choices.
    #[must_use]
    pub fn seed(self, seed: u64) -> ReplayBuilder<'a> {
        ReplayBuilder { seed, ..self }
    }

    /// Passes every batch in which groups were scaled up to `take`, as a report of Gardener's replayer: the cluster
    /// with the pods of the batch, and the result until the next. The scenarios have this cluster name, and are
    /// numbered as the batches in [`ReplayReport::deployed_pods`], from 1.
    #[must_use]
    pub fn scenarios(
        self,
        name: impl Into<String>,
        take: impl FnMut(Scenario) -> io::Result<()> + 'a,
    ) -> ReplayBuilder<'a> {
        ReplayBuilder { scenarios: Some((name.into(), Box::new(take))), ..self }
    }

    /// Runs the replay.
    pub fn run(mut self) -> Result<ReplayReport, ReplayerError> {
        let part = self.part()?;
        let (replayer, from, scenarios) = (self.replayer, self.from, self.scenarios.take());
        let batch_interval = self.batch_interval;
        let objects = replayer.objects(from)?;
        let (derived, assumptions) = replayer.derive_groups(part.window, &objects)?;
        // Assumptions about the recorded autoscaler do not apply to another.
        let assumptions =
            if matches!(self.autoscaler, AutoscalerMode::Recorded) { assumptions } else { Vec::new() };
        let origins = self.settings_origins(&derived);
        let mut replay = self.resolve(part, &derived);
        let (analysis, unmeasured) = replay.analyze_recording(&replayer.history, |_| true)?;
        let start = recorded_snapshot(from, &objects, &replay.groups, &derived);
        let settings = (replay.node_scaling == NodeScaling::Autoscaled).then_some(&replay.autoscaler);
        let decisions = DecisionLog::new(&analysis.demands, &analysis.node_counts, Vec::new());
        let mut collector = ReportCollector::new(&replay.groups, settings, &start, scenarios, decisions);
        let steps = batch_settings(settings, batch_interval);
        let outcome = replay.play_in_batches(&replayer.history, &analysis, steps, &mut collector);
        if let Some(error) = collector.take_error() {
            return Err(ReplayerError::Scenario(error));
        }
        let outcome = outcome?;
        let CollectedReport { end, scaled_up_groups, scaled_up_nodes, deployed_pods, decisions } =
            collector.finish(outcome.ended.at).map_err(ReplayerError::Scenario)?;
        let window = replay.part.window;
        let gaps = replayer
            .history
            .gaps()?
            .into_iter()
            .filter(|gap| gap.source == replayer.source && gap.from < window.to && gap.to > window.from);
        let mut caveats = replay.recording_caveats(&replayer.history)?;
        caveats.extend(unmeasured.then(ResolvedReplay::unmeasured_caveat));
        caveats.extend(replay.settings_caveats());
        caveats.extend(assumptions.iter().map(|text| Caveat::new(CaveatTopic::Autoscaler, text)));
        let settings = reported_settings(&replay, origins, assumptions);
        Ok(ReplayReport {
            start,
            end,
            batch_interval: steps.interval,
            scaled_up_groups,
            scaled_up_nodes,
            deployed_pods,
            decisions,
            gaps: gaps.collect(),
            report: replay.report(&replayer.history, analysis, outcome, settings, caveats),
        })
    }

    fn resolve(self, part: HistoryPart, derived: &DerivedGroups) -> ResolvedReplay {
        let has_recorded_groups = self.node_groups.is_none();
        let mut groups = self.node_groups.unwrap_or_else(|| derived.groups.clone());
        if has_recorded_groups {
            // They start with their existing nodes.
            groups.iter_mut().for_each(|group| group.target = None);
        }
        let settings = match self.autoscaler {
            AutoscalerMode::None => None,
            AutoscalerMode::Custom(settings) => Some(*settings),
            AutoscalerMode::Recorded => derived.settings.clone(),
        };
        let node_scaling = if settings.is_some() { NodeScaling::Autoscaled } else { NodeScaling::AsRecorded };
        let settings = settings.unwrap_or_default();
        ResolvedReplay {
            end: part.window.to.plus_nanos(-1),
            autoscaler_start: self.from,
            part,
            seed: self.seed,
            level: ReplayLevel::Pods,
            scheduler: self.scheduler,
            autoscaler: autoscaler::Settings {
                scale_down_enabled: settings.scale_down_enabled && self.scale_down,
                ..settings
            },
            node_scaling,
            classes: NodeClasses::new(groups.clone()),
            groups,
            keep_targets: !has_recorded_groups,
            pricing: None,
            gpu_label: derived.gpu_label.clone(),
            node_names: BTreeMap::new(),
            latencies: self.latencies,
            measured: MeasuredSettings {
                latencies: false,
                node_names: false,
                provisioning: has_recorded_groups,
            },
        }
    }

    fn settings_origins(&self, derived: &DerivedGroups) -> SettingsOrigins {
        let recorded = derived
            .origin
            .map_or(SettingsOrigin::Defaults, |origin| SettingsOrigin::History(origin.to_string()));
        SettingsOrigins {
            autoscaler: match self.autoscaler {
                AutoscalerMode::Recorded => SettingsOrigin::History("its Deployment".to_owned()),
                AutoscalerMode::None | AutoscalerMode::Custom(_) => SettingsOrigin::Program,
            },
            groups: if self.node_groups.is_some() { SettingsOrigin::Program } else { recorded },
        }
    }

    fn part(&self) -> Result<HistoryPart, ReplayerError> {
        let Replayer { source, end, .. } = self.replayer;
        let zero = |span: Option<Duration>| span.is_some_and(|span| span.is_zero());
        if zero(self.batch_interval) {
            return Err(ReplayerError::Zero {
                what: "a batch interval",
                usual: "the autoscaler's scan interval",
            });
        }
        if zero(self.duration) {
            return Err(ReplayerError::Zero { what: "a duration", usual: "the whole recording" });
        }
        self.replayer.check(self.from)?;
        let to = match self.duration {
            None => end.plus_nanos(1),
            Some(duration) => {
                let nanos = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
                let to = self.from.plus_nanos(nanos);
                self.replayer.check(to)?;
                to
            }
        };
        Ok(HistoryPart { source: source.clone(), window: Window { from: self.from, to } })
    }
}

/// Returns batches of a given interval, or of the autoscaler's scan interval.
fn batch_settings(autoscaler: Option<&autoscaler::Settings>, interval: Option<Duration>) -> BatchSettings {
    let scan_interval = autoscaler.map(|settings| settings.scan_interval);
    let default_interval =
        scan_interval.filter(|interval| !interval.is_zero()).unwrap_or(DEFAULT_SCAN_INTERVAL);
    let autoscaler_timeout = autoscaler.map_or(Duration::ZERO, |settings| {
        settings.scan_interval.saturating_mul(2).saturating_add(settings.new_pod_scale_up_delay)
    });
    BatchSettings {
        interval: interval.unwrap_or(default_interval),
        settle_timeout: SETTLE_TIMEOUT.saturating_add(autoscaler_timeout),
    }
}

/// Where the settings of the autoscaler and its groups come from.
struct SettingsOrigins {
    autoscaler: SettingsOrigin,
    groups: SettingsOrigin,
}

/// Returns the settings of a replay as its report shows them.
fn reported_settings(
    replay: &ResolvedReplay,
    origins: SettingsOrigins,
    assumptions: Vec<String>,
) -> ReportedSettings {
    let (scheduler, autoscaler) = (&replay.scheduler, &replay.autoscaler);
    let runs = replay.node_scaling == NodeScaling::Autoscaled;
    let groups = NodeGroups::document(&replay.groups, replay.pricing, &replay.gpu_label)["groups"].take();
    ReportedSettings {
        scheduler: SchedulerSettings {
            version: scheduler.version.to_string(),
            verified: scheduler.version == scheduler::Version::V1_36,
            origin: SettingsOrigin::Program,
            configuration: Value::Null,
            unsupported_features: scheduler.unsupported_features.clone(),
        },
        autoscaler: AutoscalerSettings {
            nodes: replay.node_scaling.as_str(),
            version: runs.then(|| autoscaler.version.to_string()),
            verified: runs.then_some(autoscaler.version == autoscaler::Version::V1_36),
            origin: runs.then_some(origins.autoscaler),
            flags: Vec::new(),
            groups_from: origins.groups,
            groups: if runs { groups } else { Value::Array(Vec::new()) },
            assumptions,
            unsupported_flags: autoscaler.unsupported.clone(),
        },
        latencies: LatencySettings { origin: SettingsOrigin::Program },
        overrides: Vec::new(),
    }
}
