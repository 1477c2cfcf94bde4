//! A resolved replay: how everything in a run is set, what is learnt from the recording before it, and how it is played.

use std::collections::BTreeMap;
use std::sync::Arc;

use autoscaler::{NodeGroup, Pricing};
use calibration::Level;
use history::History;
use model::{Gap, Moment, Object, What};
use simulation::pace::Pace;
use simulation::{AutoscalerSetup, Decided, Demand, Observer, Setup, SimulatedCloud};

use super::nodes::Nodes;
use super::survey_result::SurveyResult;
use crate::classes::Classes;
use crate::compare::{Comparison, Fidelity};
use crate::error::Error;
use crate::figures::Figures;
use crate::play::{Ended, Follower, Part, StepFollower, Steps, play, play_in_batches};
use crate::report::{About, Report, Reservation, Scaling, Settings, Span};

/// A replay whose settings are all known. The command, the server and the library differ in who says what they are.
pub struct RunPlan {
    /// The recording, and which part of it.
    pub part: Part,
    /// The last moment that counts.
    pub end: Moment,
    /// Decides between what is as likely.
    pub seed: u64,
    /// What is given.
    pub level: Level,
    /// The scheduler.
    pub scheduler: scheduler::Settings,
    /// The autoscaler, if it makes nodes come and go.
    pub autoscaler: autoscaler::Settings,
    /// Who makes nodes come and go.
    pub nodes: Nodes,
    /// The groups whose nodes come and go as is decided; none if they do so as recorded.
    pub groups: Vec<NodeGroup>,
    /// Which nodes are like which.
    pub classes: Classes,
    /// Whether groups begin with the size they name; otherwise with as many nodes as there are.
    pub keeps_targets: bool,
    /// What pods cost, where the expander wants to know.
    pub pricing: Option<Pricing>,
    /// The label that names the GPU of a node.
    pub gpu_label: Arc<str>,
    /// The autoscaler's first loop is a scan interval later.
    pub start: Moment,
    /// The nodes that came, group by group: new ones are called as they were.
    pub names: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    /// How long things take.
    pub pace: Pace,
    /// What of this is as in the recording.
    pub measured: MeasuredSettings,
}

/// Which settings of a run are taken from the recording when it is surveyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasuredSettings {
    /// How long things take, and when the autoscaler's first loop is due.
    pub pace: bool,
    /// What new nodes are called.
    pub names: bool,
    /// How long new nodes of groups take.
    pub provisioning: bool,
}

/// What a run came to beside what was recorded.
pub struct Played {
    /// What would have happened.
    pub replayed: Figures,
    /// How much came out as recorded.
    pub fidelity: Fidelity,
    /// How groups of nodes grew and shrank.
    pub scaling: Scaling,
    /// When it ended, and what no controller does that was asked for.
    pub ended: Ended,
}

// === impl RunPlan ===

impl RunPlan {
    /// What makes the recording uncertain within the part that is played.
    pub fn reservations_of_recording(&self, history: &History) -> Result<Vec<Reservation>, history::Error> {
        let Part { source, window } = &self.part;
        let gaps = history.gaps()?.into_iter();
        let gaps = gaps.filter(|gap| gap.source == *source && gap.from < window.to && window.from < gap.to);
        // One that is open lasts as long as the replay.
        let shown = |gap: Gap| Gap { to: if gap.is_open() { window.to } else { gap.to }, ..gap };
        let mut reservations: Vec<Reservation> = gaps.map(|gap| Reservation::of_gap(&shown(gap))).collect();
        let summary = history.summary()?;
        if summary.sources.iter().any(|known| known.name == *source && known.times_inferred) {
            let text = "the times of the recording were not recorded but worked out";
            reservations.push(Reservation::new(About::Times, text));
        }
        Ok(reservations)
    }

    /// What makes the settings uncertain: rules that are not verified, and what is not simulated.
    pub fn reservations_of_settings(&self) -> Vec<Reservation> {
        let unverified =
            |name: &str, version: String| format!("the rules of {name} {version} are not verified");
        let mut reservations = Vec::new();
        let mut say = |about, text: &str| reservations.push(Reservation::new(about, text));
        let scheduler = &self.scheduler;
        if scheduler.version != scheduler::Version::V1_36 {
            say(About::Scheduler, &unverified("kube-scheduler", scheduler.version.to_string()));
        }
        scheduler.left_out.iter().for_each(|text| say(About::Scheduler, text));
        if self.nodes == Nodes::Autoscaled {
            let autoscaler = &self.autoscaler;
            if autoscaler.version != autoscaler::Version::V1_36 {
                say(About::Autoscaler, &unverified("cluster-autoscaler", autoscaler.version.to_string()));
            }
            let text = "the autoscaler's memory starts afresh: a node that had been unneeded for a while counts from \
                        the beginning";
            say(About::Autoscaler, text);
            autoscaler.left_out.iter().for_each(|text| say(About::Autoscaler, text));
        }
        reservations
    }

    /// The report of a run that was played beside what was recorded. The reservations are those before it was played.
    pub(crate) fn report(
        &self,
        history: &History,
        known: SurveyResult,
        played: Played,
        settings: Settings,
        mut reservations: Vec<Reservation>,
    ) -> Report {
        reservations.extend(Reservation::of_causes(&known.causes));
        let unsupported = played.ended.unsupported.iter();
        reservations.extend(unsupported.map(|(what, count)| Reservation::of_controllers(what, *count)));
        Report {
            history: history.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
            source: self.part.source.to_string(),
            target: None,
            window: Span::new(self.part.window.from, self.end),
            level: self.level,
            seed: self.seed,
            settings,
            recorded: known.figures,
            replayed: played.replayed,
            fidelity: played.fidelity,
            scaling: played.scaling,
            reservations,
        }
    }

    /// What to say if no new node was recorded.
    pub fn unmeasured() -> Reservation {
        Reservation::new(About::Pace, "no new node was recorded: how long one takes is assumed")
    }

    /// Whether a node comes and goes as is decided.
    pub fn is_scaled(&self, node: &Object) -> bool {
        self.nodes != Nodes::AsRecorded && self.classes.group_of(node).is_some()
    }

    /// Plays it.
    pub fn play(
        &self,
        history: &History,
        known: &SurveyResult,
        follower: &mut dyn Follower,
    ) -> Result<Played, Error> {
        self.compared(known, follower, |is_scaled, both| {
            play(history, &self.part, &known.causes, is_scaled, self.setup(), both)
        })
    }

    /// Plays it in steps.
    pub fn play_in_batches(
        &self,
        history: &History,
        known: &SurveyResult,
        steps: Steps,
        follower: &mut dyn StepFollower,
    ) -> Result<Played, Error> {
        self.compared(known, follower, |is_scaled, both| {
            play_in_batches(history, &self.part, &known.causes, is_scaled, self.setup(), steps, both)
        })
    }

    /// Plays it in some way, and compares what comes of it with what was recorded.
    fn compared<F: Follower + ?Sized>(
        &self,
        known: &SurveyResult,
        follower: &mut F,
        play: impl FnOnce(&(dyn Fn(&Object) -> bool + Sync), &mut Compared<'_, '_, F>) -> Result<Ended, Error>,
    ) -> Result<Played, Error> {
        let class_of = |node: &Object| Some(self.classes.class_of(node));
        let comparison = Comparison::new(&known.causes, self.part.window.from, &class_of);
        let mut compared = Compared { comparison, follower };
        let ended = play(&|node| self.is_scaled(node), &mut compared)?;
        let (replayed, fidelity, curve) = compared.comparison.finish(self.end, &known.figures)?;
        let groups = self.groups.iter().map(|group| &group.name);
        let scaling = Scaling::of(groups, &known.curve, &curve, self.part.window);
        Ok(Played { replayed, fidelity, scaling, ended })
    }

    /// How the run is set.
    pub fn setup(&self) -> Setup {
        let autoscaler = (self.nodes == Nodes::Autoscaled).then(|| {
            let mut groups = self.groups.clone();
            if !self.keeps_targets {
                groups.iter_mut().for_each(|group| group.target = None);
            }
            let mut cloud = SimulatedCloud::new(groups, self.seed).with_gpu_label(self.gpu_label.clone());
            if let Some(pricing) = self.pricing {
                cloud = cloud.with_pricing(pricing);
            }
            for (group, names) in &self.names {
                cloud = cloud.with_names(group, names.iter().cloned());
            }
            AutoscalerSetup { settings: self.autoscaler.clone(), cloud, start: self.start }
        });
        Setup {
            start: self.part.window.from,
            scheduler: self.scheduler.clone(),
            autoscaler,
            pace: self.pace.clone(),
            seed: self.seed,
        }
    }
}

/// A follower, and the comparison with what was recorded.
struct Compared<'a, 'f, F: ?Sized> {
    comparison: Comparison<'a>,
    follower: &'f mut F,
}

impl<F: Follower + ?Sized> Observer for Compared<'_, '_, F> {
    fn wants_changes(&self) -> bool {
        self.follower.wants_changes()
    }

    fn changed(&mut self, at: Moment, what: What) {
        self.follower.changed(at, what);
    }

    fn decided(&mut self, at: Moment, decided: &Decided<'_>) {
        self.comparison.decided(at, decided);
        self.follower.decided(at, decided);
    }
}

impl<F: Follower + ?Sized> Follower for Compared<'_, '_, F> {
    fn asked(&mut self, at: Moment, demand: &Demand) {
        self.comparison.asked(at, demand);
        self.follower.asked(at, demand);
    }

    fn reached(&mut self, now: Moment) {
        self.follower.reached(now);
    }

    fn goes_on(&self) -> bool {
        self.comparison.goes_on() && self.follower.goes_on()
    }
}

impl<F: StepFollower + ?Sized> StepFollower for Compared<'_, '_, F> {
    fn batch_begins(&mut self, recorded: Moment, now: Moment) {
        self.follower.batch_begins(recorded, now);
    }

    fn batch_given(&mut self, now: Moment) {
        self.follower.batch_given(now);
    }

    fn batch_settled(&mut self, now: Moment, stable: bool) {
        self.follower.batch_settled(now, stable);
    }
}
