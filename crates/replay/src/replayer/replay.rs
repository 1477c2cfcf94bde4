//! A replay: what can be set, and how it runs.

use std::io;
use std::time::Duration;

use autoscaler::NodeGroup;
use calibration::{Level, Measure};
use formats::scaling_scenario::Scenario;
use model::{Moment, Object, Window};
use simulation::pace::Pace;
use simulation::{AutoscalerSetup, Setup, SimulatedCloud};

use super::follow::{Scenarios, Seen, Witness};
use super::report::ReplayReport;
use super::{Error, Replayer, shown};
use crate::level;
use crate::play::{Part, Steps, play_in_batches, survey};
use crate::snapshot::group_of;

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
    pub fn run(self) -> Result<ReplayReport, Error> {
        let replayer = self.replayer;
        let part = self.part()?;
        let objects = replayer.objects(self.from)?;
        let (derived, assumed) = replayer.derived(part.window, &objects)?;
        // What is assumed of the recorded autoscaler is of no account to another.
        let mut reservations = match self.autoscaler {
            Chosen::Recorded => assumed,
            Chosen::None | Chosen::Set(_) => Vec::new(),
        };
        let are_recorded = self.node_groups.is_none();
        let mut groups = self.node_groups.unwrap_or_else(|| derived.groups.clone());
        let settings = match self.autoscaler {
            Chosen::None => None,
            Chosen::Set(settings) => Some(*settings),
            Chosen::Recorded => derived.settings.clone(),
        };
        let settings = settings.map(|settings| autoscaler::Settings {
            scale_down_enabled: settings.scale_down_enabled && self.scale_down,
            ..settings
        });
        let scan_interval = settings.as_ref().map(|settings| settings.scan_interval);
        let usual = scan_interval.filter(|interval| !interval.is_zero()).unwrap_or(SCAN_INTERVAL);
        let interval = self.batch_interval.unwrap_or(usual);
        let mut measure = Measure::new(&groups);
        let (scales, history) = (settings.is_some(), &replayer.history);
        let controllers = level::controllers(Level::Pods, scales);
        let causes = survey(history, &part, scales, controllers, &|_| None, None, |at, seen| {
            measure.see(at, seen);
        })?;
        let measured = measure.finish();
        for (group, measured) in groups.iter_mut().zip(measured).filter(|_| are_recorded) {
            // It has the nodes that are there.
            group.target = None;
            if let Some(measured) = measured {
                group.provisioning = measured;
            }
        }
        reservations.extend(causes.untold.iter().map(|(what, count)| format!("{what}: {count}")));
        let start = shown(self.from, &objects, &groups, &derived);
        let mut witness = Witness::new(&groups, settings.as_ref(), &start, self.scenarios);
        let cloud = SimulatedCloud::new(groups.clone(), self.seed).with_gpu_label(derived.gpu_label.clone());
        let setup = Setup {
            start: self.from,
            scheduler: self.scheduler,
            autoscaler: settings.clone().map(|settings| AutoscalerSetup {
                settings,
                cloud,
                start: self.from,
            }),
            pace: self.pace,
            seed: self.seed,
        };
        let waits = settings.as_ref().map_or(Duration::ZERO, |it| {
            it.scan_interval.saturating_mul(2).saturating_add(it.new_pod_scale_up_delay)
        });
        let steps = Steps { interval, patience: PATIENCE.saturating_add(waits) };
        let is_scaled = |node: &Object| settings.is_some() && group_of(&groups, node).is_some();
        let played =
            play_in_batches(&replayer.history, &part, &causes, &is_scaled, setup, steps, &mut witness);
        if let Some(error) = witness.failure() {
            return Err(Error::Scenario(error));
        }
        let ended = played?;
        let Seen { end, scaled_up_groups, scaled_up_nodes, deployed_pods, decisions } =
            witness.finish(ended).map_err(Error::Scenario)?;
        let gaps = replayer.history.gaps()?.into_iter().filter(|gap| {
            gap.source == replayer.source && gap.from < part.window.to && gap.to > part.window.from
        });
        Ok(ReplayReport {
            start,
            end,
            batch_interval: interval,
            scaled_up_groups,
            scaled_up_nodes,
            deployed_pods,
            decisions,
            gaps: gaps.collect(),
            reservations,
        })
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
