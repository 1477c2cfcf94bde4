//! A replay: what can be set, and how it runs.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use autoscaler::{NodeGroup, NodeGroups};
use calibration::{Derived, Level};
use formats::scaling_scenario::Scenario;
use model::{Moment, Window};
use serde_json::Value;
use simulation::pace::Pace;

use super::follow::{Scenarios, Seen, Witness};
use super::report::ReplayReport;
use super::{Error, Replayer, shown};
use crate::classes::Classes;
use crate::decisions::DecisionLog;
use crate::plan::{MeasuredSettings, Nodes, RunPlan};
use crate::play::{Part, Steps};
use crate::report::{
    About, AutoscalerSettings, From, PaceSettings, Reservation, SchedulerSettings, Settings,
};

/// A replay that is being prepared.
///
/// By default it begins as soon as the recording is whole and goes on to its end, with the recorded autoscaler and
/// groups, and with a kube-scheduler as it is by default. Nodes are not removed: a replay is asked what the pods of a
/// window need, and a node that goes on its way would blur the answer. Nodes that the recorded autoscaler removed then
/// stay; those that others took away go, as they did. [`scale_down`](Replay::scale_down) changes it.
pub struct Replay<'a> {
    replayer: &'a Replayer,
    from: Moment,
    duration: Option<Duration>,
    batch_interval: Option<Duration>,
    scheduler: scheduler::Settings,
    autoscaler: Chosen,
    node_groups: Option<Vec<NodeGroup>>,
    scale_down: bool,
    pace: Pace,
    seed: u64,
    scenarios: Option<(String, Scenarios<'a>)>,
}

enum Chosen {
    Recorded,
    None,
    Set(Box<autoscaler::Settings>),
}

/// Cluster-autoscaler's usual scan interval, where there is none to ask.
const SCAN_INTERVAL: Duration = Duration::from_secs(10);
/// How long a step may go on beyond what the autoscaler's own waits explain: a pod that is refused waits ten seconds at
/// most before it is tried again.
const PATIENCE: Duration = Duration::from_secs(120);

// === impl Replay ===

impl<'a> Replay<'a> {
    pub(super) fn of(replayer: &'a Replayer) -> Replay<'a> {
        Replay {
            replayer,
            from: replayer.whole,
            duration: None,
            batch_interval: None,
            scheduler: scheduler::Settings::default(),
            autoscaler: Chosen::Recorded,
            node_groups: None,
            scale_down: false,
            pace: Pace::usual(),
            seed: 1,
            scenarios: None,
        }
    }

    /// From this moment.
    #[must_use]
    pub fn from(self, from: Moment) -> Replay<'a> {
        Replay { from, ..self }
    }

    /// For so long.
    #[must_use]
    pub fn lasting(self, duration: Duration) -> Replay<'a> {
        Replay { duration: Some(duration), ..self }
    }

    /// In steps of this length, instead of the autoscaler's scan interval.
    #[must_use]
    pub fn batch_interval(self, interval: Duration) -> Replay<'a> {
        Replay { batch_interval: Some(interval), ..self }
    }

    /// With this scheduler.
    #[must_use]
    pub fn scheduler(self, scheduler: scheduler::Settings) -> Replay<'a> {
        Replay { scheduler, ..self }
    }

    /// With this autoscaler instead of the recorded one.
    #[must_use]
    pub fn autoscaler(self, settings: autoscaler::Settings) -> Replay<'a> {
        Replay { autoscaler: Chosen::Set(Box::new(settings)), ..self }
    }

    /// Without an autoscaler. Nodes then come and go as they were recorded.
    #[must_use]
    pub fn without_autoscaler(self) -> Replay<'a> {
        Replay { autoscaler: Chosen::None, ..self }
    }

    /// With these groups instead of the recorded ones. New nodes take as long as they say.
    #[must_use]
    pub fn node_groups(self, groups: Vec<NodeGroup>) -> Replay<'a> {
        Replay { node_groups: Some(groups), ..self }
    }

    /// Nodes are removed if the autoscaler's settings have it so.
    #[must_use]
    pub fn scale_down(self, scale_down: bool) -> Replay<'a> {
        Replay { scale_down, ..self }
    }

    /// Things take so long. New nodes of recorded groups take as long as they took in the record.
    #[must_use]
    pub fn pace(self, pace: Pace) -> Replay<'a> {
        Replay { pace, ..self }
    }

    /// Chance is decided by this number.
    #[must_use]
    pub fn seed(self, seed: u64) -> Replay<'a> {
        Replay { seed, ..self }
    }

    /// Every step in which groups grew is handed over as a report of Gardener's replayer: the cluster with the pods of the
    /// step, and what came of them until the next. The reports are of a cluster with this name, and numbered as the steps
    /// in [`ReplayReport::deployed_pods`], from 1.
    #[must_use]
    pub fn scenarios(
        self,
        name: impl Into<String>,
        take: impl FnMut(Scenario) -> io::Result<()> + 'a,
    ) -> Replay<'a> {
        Replay { scenarios: Some((name.into(), Box::new(take))), ..self }
    }

    /// Plays it.
    pub fn run(mut self) -> Result<ReplayReport, Error> {
        let part = self.part()?;
        let (replayer, from, scenarios) = (self.replayer, self.from, self.scenarios.take());
        let batch_interval = self.batch_interval;
        let objects = replayer.objects(from)?;
        let (derived, assumed) = replayer.derived(part.window, &objects)?;
        // What is assumed of the recorded autoscaler is of no account to another.
        let assumed = if matches!(self.autoscaler, Chosen::Recorded) { assumed } else { Vec::new() };
        let sources = self.sources(&derived);
        let mut plan = self.plan(part, &derived);
        let (known, unmeasured) = plan.survey(&replayer.history, |_| true)?;
        let start = shown(from, &objects, &plan.groups, &derived);
        let settings = (plan.nodes == Nodes::Autoscaled).then_some(&plan.autoscaler);
        let decisions = DecisionLog::new(&known.causes, &known.curve, Vec::new());
        let mut witness = Witness::new(&plan.groups, settings, &start, scenarios, decisions);
        let steps = steps(settings, batch_interval);
        let played = plan.play_in_batches(&replayer.history, &known, steps, &mut witness);
        if let Some(error) = witness.failure() {
            return Err(Error::Scenario(error));
        }
        let played = played?;
        let Seen { end, scaled_up_groups, scaled_up_nodes, deployed_pods, decisions } =
            witness.finish(played.ended.at).map_err(Error::Scenario)?;
        let window = plan.part.window;
        let gaps = replayer
            .history
            .gaps()?
            .into_iter()
            .filter(|gap| gap.source == replayer.source && gap.from < window.to && gap.to > window.from);
        let mut reservations = plan.reservations_of_recording(&replayer.history)?;
        reservations.extend(unmeasured.then(RunPlan::unmeasured));
        reservations.extend(plan.reservations_of_settings());
        reservations.extend(assumed.iter().map(|text| Reservation::new(About::Autoscaler, text)));
        let settings = settings_of(&plan, sources, assumed);
        Ok(ReplayReport {
            start,
            end,
            batch_interval: steps.interval,
            scaled_up_groups,
            scaled_up_nodes,
            deployed_pods,
            decisions,
            gaps: gaps.collect(),
            report: plan.report(&replayer.history, known, played, settings, reservations),
        })
    }

    fn plan(self, part: Part, derived: &Derived) -> RunPlan {
        let are_recorded = self.node_groups.is_none();
        let mut groups = self.node_groups.unwrap_or_else(|| derived.groups.clone());
        if are_recorded {
            // They have the nodes that are there.
            groups.iter_mut().for_each(|group| group.target = None);
        }
        let settings = match self.autoscaler {
            Chosen::None => None,
            Chosen::Set(settings) => Some(*settings),
            Chosen::Recorded => derived.settings.clone(),
        };
        let nodes = if settings.is_some() { Nodes::Autoscaled } else { Nodes::AsRecorded };
        let settings = settings.unwrap_or_default();
        RunPlan {
            end: part.window.to.plus_nanos(-1),
            start: self.from,
            part,
            seed: self.seed,
            level: Level::Pods,
            scheduler: self.scheduler,
            autoscaler: autoscaler::Settings {
                scale_down_enabled: settings.scale_down_enabled && self.scale_down,
                ..settings
            },
            nodes,
            classes: Classes::new(groups.clone()),
            groups,
            keeps_targets: !are_recorded,
            pricing: None,
            gpu_label: derived.gpu_label.clone(),
            names: BTreeMap::new(),
            pace: self.pace,
            measured: MeasuredSettings { pace: false, names: false, provisioning: are_recorded },
        }
    }

    fn sources(&self, derived: &Derived) -> Sources {
        let recorded = derived.told_by.map_or(From::Defaults, |told_by| From::History(told_by.to_string()));
        Sources {
            autoscaler: match self.autoscaler {
                Chosen::Recorded => From::History("its Deployment".to_owned()),
                Chosen::None | Chosen::Set(_) => From::Program,
            },
            groups: if self.node_groups.is_some() { From::Program } else { recorded },
        }
    }

    fn part(&self) -> Result<Part, Error> {
        let Replayer { source, end, .. } = self.replayer;
        let zero = |span: Option<Duration>| span.is_some_and(|span| span.is_zero());
        if zero(self.batch_interval) {
            return Err(Error::Zero { what: "a batch interval", usual: "the autoscaler's scan interval" });
        }
        if zero(self.duration) {
            return Err(Error::Zero { what: "a duration", usual: "all that was recorded" });
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
        Ok(Part { source: source.clone(), window: Window { from: self.from, to } })
    }
}

/// Steps of a length, or of the autoscaler's scan interval.
fn steps(autoscaler: Option<&autoscaler::Settings>, interval: Option<Duration>) -> Steps {
    let scan_interval = autoscaler.map(|settings| settings.scan_interval);
    let usual = scan_interval.filter(|interval| !interval.is_zero()).unwrap_or(SCAN_INTERVAL);
    let waits = autoscaler.map_or(Duration::ZERO, |settings| {
        settings.scan_interval.saturating_mul(2).saturating_add(settings.new_pod_scale_up_delay)
    });
    Steps { interval: interval.unwrap_or(usual), patience: PATIENCE.saturating_add(waits) }
}

/// Who says how the autoscaler and its groups are set.
struct Sources {
    autoscaler: From,
    groups: From,
}

/// How a replay was set, for the report.
fn settings_of(plan: &RunPlan, sources: Sources, assumed: Vec<String>) -> Settings {
    let (scheduler, autoscaler) = (&plan.scheduler, &plan.autoscaler);
    let runs = plan.nodes == Nodes::Autoscaled;
    let groups = NodeGroups::document(&plan.groups, plan.pricing, &plan.gpu_label)["groups"].take();
    Settings {
        scheduler: SchedulerSettings {
            version: scheduler.version.to_string(),
            verified: scheduler.version == scheduler::Version::V1_36,
            from: From::Program,
            configuration: Value::Null,
            left_out: scheduler.left_out.clone(),
        },
        autoscaler: AutoscalerSettings {
            nodes: plan.nodes.word(),
            version: runs.then(|| autoscaler.version.to_string()),
            verified: runs.then_some(autoscaler.version == autoscaler::Version::V1_36),
            from: runs.then_some(sources.autoscaler),
            flags: Vec::new(),
            groups_from: sources.groups,
            groups: if runs { groups } else { Value::Array(Vec::new()) },
            assumed,
            left_out: autoscaler.left_out.clone(),
        },
        pace: PaceSettings { from: From::Program },
        set: Vec::new(),
    }
}
