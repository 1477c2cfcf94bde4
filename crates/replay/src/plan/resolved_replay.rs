//! A resolved replay: its settings, and its execution.

use std::collections::BTreeMap;
use std::sync::Arc;

use autoscaler::{NodeGroup, PodPricing};
use calibration::ReplayLevel;
use history::History;
use kubernetes::objects::NodeView;
use model::{Gap, Moment, What};
use simulation::latency::Latencies;
use simulation::{AutoscalerSetup, Observer, PodDemand, RunSetup, SimulatedCloud, SimulationEvent};

use super::node_scaling::NodeScaling;
use super::recording_analysis::RecordingAnalysis;
use crate::compare::{Fidelity, RunComparison};
use crate::error::Error;
use crate::history_part::HistoryPart;
use crate::metrics::ClusterMetrics;
use crate::node_classes::NodeClasses;
use crate::play::{BatchObserver, BatchSettings, PlayEnd, ReplayObserver, play, play_in_batches};
use crate::report::{Caveat, CaveatTopic, Report, ReportedSettings, ScalingComparison, TimeSpan};

/// The settings of a replay. Those in `measured` are filled in by
/// [`analyze_recording`](ResolvedReplay::analyze_recording). The command, the server and the library differ
/// in where the settings come from.
pub struct ResolvedReplay {
    /// The part of the history that is replayed.
    pub part: HistoryPart,
    /// The last moment of the replay.
    pub end: Moment,
    /// The seed of all random choices.
    pub seed: u64,
    /// Whether pods or workloads are taken from the recording.
    pub level: ReplayLevel,
    /// The scheduler's settings.
    pub scheduler: scheduler::Settings,
    /// The autoscaler's settings, if it adds and removes nodes.
    pub autoscaler: autoscaler::Settings,
    /// What adds and removes nodes.
    pub node_scaling: NodeScaling,
    /// The groups whose nodes the replay adds and removes; none if nodes are as recorded.
    pub groups: Vec<NodeGroup>,
    /// The classes of nodes.
    pub classes: NodeClasses,
    /// Whether groups start at their target size; otherwise with the number of their existing nodes.
    pub keep_targets: bool,
    /// Prices for the price expander.
    pub pricing: Option<PodPricing>,
    /// The label that names the GPU type of a node.
    pub gpu_label: Arc<str>,
    /// When the autoscaler starts. Its first loop is one scan interval later.
    pub autoscaler_start: Moment,
    /// Recorded names of added nodes, by group, which new nodes get.
    pub node_names: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// The latencies.
    pub latencies: Latencies,
    /// The settings that are taken from the recording.
    pub measured: MeasuredSettings,
}

/// The settings of a run that are measured when its recording is analyzed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredSettings {
    /// The latencies, and the time of the autoscaler's first loop.
    pub latencies: bool,
    /// The names of new nodes.
    pub node_names: bool,
    /// The provisioning times of node groups.
    pub provisioning: bool,
}

/// The outcome of a run, compared with the recording.
pub struct RunOutcome {
    /// The metrics of the replay.
    pub replayed: ClusterMetrics,
    /// How closely the replay matches the recording.
    pub fidelity: Fidelity,
    /// The sizes of node groups.
    pub scaling: ScalingComparison,
    /// When it ended, and the unsupported controller features that were requested.
    pub ended: PlayEnd,
}

// === impl ResolvedReplay ===

impl ResolvedReplay {
    /// Caveats about the recorded part that is replayed.
    pub fn recording_caveats(&self, history: &History) -> Result<Vec<Caveat>, history::Error> {
        let HistoryPart { source, window } = &self.part;
        let gaps = history.gaps()?.into_iter();
        let gaps = gaps.filter(|gap| gap.source == *source && gap.from < window.to && window.from < gap.to);
        // An open gap lasts until the end of the replay.
        let shown = |gap: Gap| Gap { to: if gap.is_open() { window.to } else { gap.to }, ..gap };
        let mut caveats: Vec<Caveat> = gaps.map(|gap| Caveat::of_gap(&shown(gap))).collect();
        let summary = history.summary()?;
        if summary
            .sources
            .iter()
            .any(|source_summary| source_summary.name == *source && source_summary.times_inferred)
        {
            let text = "the times of the recording were inferred, not recorded";
            caveats.push(Caveat::new(CaveatTopic::Times, text));
        }
        Ok(caveats)
    }

    /// Caveats about the settings: unverified versions, and what is not simulated.
    pub fn settings_caveats(&self) -> Vec<Caveat> {
        let unverified = |name: &str, version: String| format!("{name} {version} is not verified");
        let mut caveats = Vec::new();
        let mut add_caveat = |topic, text: &str| caveats.push(Caveat::new(topic, text));
        let scheduler = &self.scheduler;
        if scheduler.version != scheduler::Version::V1_36 {
            add_caveat(CaveatTopic::Scheduler, &unverified("kube-scheduler", scheduler.version.to_string()));
        }
        scheduler.unsupported_features.iter().for_each(|text| add_caveat(CaveatTopic::Scheduler, text));
        if self.node_scaling == NodeScaling::Autoscaled {
            let autoscaler = &self.autoscaler;
            if autoscaler.version != autoscaler::Version::V1_36 {
                add_caveat(
                    CaveatTopic::Autoscaler,
                    &unverified("cluster-autoscaler", autoscaler.version.to_string()),
                );
            }
            let text = "the autoscaler starts without its earlier state: a node is unneeded since the start of the \
                        replay at the earliest";
            add_caveat(CaveatTopic::Autoscaler, text);
            autoscaler.unsupported.iter().for_each(|text| add_caveat(CaveatTopic::Autoscaler, text));
        }
        caveats
    }

    /// Returns the report of a run. `caveats` are those known before it.
    pub(crate) fn report(
        &self,
        history: &History,
        analysis: RecordingAnalysis,
        outcome: RunOutcome,
        settings: ReportedSettings,
        mut caveats: Vec<Caveat>,
    ) -> Report {
        caveats.extend(Caveat::of_demands(&analysis.demands));
        let unsupported = outcome.ended.unsupported.iter();
        caveats.extend(unsupported.map(|(what, count)| Caveat::of_controllers(what, *count)));
        Report {
            history: history.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            source: self.part.source.to_string(),
            target: None,
            window: TimeSpan::new(self.part.window.from, self.end),
            level: self.level,
            seed: self.seed,
            settings,
            recorded: analysis.metrics,
            replayed: outcome.replayed,
            fidelity: outcome.fidelity,
            scaling: outcome.scaling,
            caveats,
        }
    }

    /// The caveat if no new node was recorded.
    pub fn unmeasured_caveat() -> Caveat {
        Caveat::new(CaveatTopic::Latencies, "no new node was recorded: the provisioning time is assumed")
    }

    /// Whether a node belongs to a group that the replay scales. Without an autoscaler, such groups keep
    /// their initial nodes.
    pub fn is_in_scaled_group(&self, node: &NodeView) -> bool {
        self.node_scaling != NodeScaling::AsRecorded && self.classes.group_of(node).is_some()
    }

    /// Runs the replay.
    pub fn play(
        &self,
        history: &History,
        analysis: &RecordingAnalysis,
        observer: &mut dyn ReplayObserver,
    ) -> Result<RunOutcome, Error> {
        self.play_compared(analysis, observer, |is_in_scaled_group, compared_observer| {
            play(history, &self.part, &analysis.demands, is_in_scaled_group, self.setup(), compared_observer)
        })
    }

    /// Runs the replay in batches.
    pub fn play_in_batches(
        &self,
        history: &History,
        analysis: &RecordingAnalysis,
        settings: BatchSettings,
        observer: &mut dyn BatchObserver,
    ) -> Result<RunOutcome, Error> {
        self.play_compared(analysis, observer, |is_in_scaled_group, compared_observer| {
            play_in_batches(
                history,
                &self.part,
                &analysis.demands,
                is_in_scaled_group,
                self.setup(),
                settings,
                compared_observer,
            )
        })
    }

    /// Runs the replay with `play`, and compares it with the recording.
    fn play_compared<F: ReplayObserver + ?Sized>(
        &self,
        analysis: &RecordingAnalysis,
        observer: &mut F,
        play: impl FnOnce(
            &(dyn Fn(&NodeView) -> bool + Sync),
            &mut ComparedObserver<'_, '_, F>,
        ) -> Result<PlayEnd, Error>,
    ) -> Result<RunOutcome, Error> {
        let class_of = |node: &NodeView| Some(self.classes.class_of(node));
        let comparison = RunComparison::new(&analysis.demands, self.part.window.from, &class_of);
        let mut compared = ComparedObserver { comparison, observer };
        let ended = play(&|node| self.is_in_scaled_group(node), &mut compared);
        // First, because an error of the comparison stops the replay.
        let (replayed, fidelity, node_counts) = compared.comparison.finish(self.end, &analysis.metrics)?;
        let ended = ended?;
        let groups = self.groups.iter().map(|group| &group.name);
        let scaling = ScalingComparison::of(groups, &analysis.node_counts, &node_counts, self.part.window);
        Ok(RunOutcome { replayed, fidelity, scaling, ended })
    }

    /// The simulation's setup.
    pub fn setup(&self) -> RunSetup {
        let autoscaler = (self.node_scaling == NodeScaling::Autoscaled).then(|| {
            let mut groups = self.groups.clone();
            if !self.keep_targets {
                groups.iter_mut().for_each(|group| group.target = None);
            }
            let mut cloud = SimulatedCloud::new(groups, self.seed).with_gpu_label(self.gpu_label.clone());
            if let Some(pricing) = self.pricing {
                cloud = cloud.with_pricing(pricing);
            }
            for (group, names) in &self.node_names {
                cloud = cloud.with_node_names(group, names.iter().cloned());
            }
            AutoscalerSetup { settings: self.autoscaler.clone(), cloud, start: self.autoscaler_start }
        });
        RunSetup {
            start: self.part.window.from,
            scheduler: self.scheduler.clone(),
            autoscaler,
            latencies: self.latencies.clone(),
            seed: self.seed,
        }
    }
}

/// An observer, combined with the comparison with the recording.
struct ComparedObserver<'a, 'f, F: ?Sized> {
    comparison: RunComparison<'a>,
    observer: &'f mut F,
}

impl<F: ReplayObserver + ?Sized> Observer for ComparedObserver<'_, '_, F> {
    fn wants_changes(&self) -> bool {
        self.observer.wants_changes()
    }

    fn on_change(&mut self, at: Moment, what: What) {
        self.observer.on_change(at, what);
    }

    fn on_event(&mut self, at: Moment, event: &SimulationEvent<'_>) {
        self.comparison.on_event(at, event);
        self.observer.on_event(at, event);
    }
}

impl<F: ReplayObserver + ?Sized> ReplayObserver for ComparedObserver<'_, '_, F> {
    fn on_demand(&mut self, at: Moment, demand: &PodDemand) {
        self.comparison.on_demand(at, demand);
        self.observer.on_demand(at, demand);
    }

    fn on_progress(&mut self, now: Moment) {
        self.observer.on_progress(now);
    }

    fn should_continue(&self) -> bool {
        self.comparison.should_continue() && self.observer.should_continue()
    }
}

impl<F: BatchObserver + ?Sized> BatchObserver for ComparedObserver<'_, '_, F> {
    fn on_batch_started(&mut self, recorded: Moment, now: Moment) {
        self.observer.on_batch_started(recorded, now);
    }

    fn on_batch_submitted(&mut self, now: Moment) {
        self.observer.on_batch_submitted(now);
    }

    fn on_batch_settled(&mut self, now: Moment, stable: bool) {
        self.observer.on_batch_settled(now, stable);
    }
}
