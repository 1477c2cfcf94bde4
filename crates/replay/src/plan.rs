//! What is replayed, and how everything is set: asked of the user, the history and the defaults, in this order.

mod nodes;
mod play;
mod run;
mod survey;
mod survey_result;
mod told;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use calibration::{Level, NodesBy, ReplaySettings};
use controllers::Controller;
use model::{Kind, Moment, Object, Window};
use query::autoscaler_setup::{GroupsBy, Setup};
use query::scheduler_settings::Which;
use query::{Chosen, Edit, Root, kept, scheduler_settings};
use scheduler::Version;
use simulation::pace::Pace;

use self::nodes::Word;
use crate::classes::Classes;
use crate::film::Film;
use crate::play::{Part, whole_from};
use crate::report::{About, Reservation};

pub use self::nodes::Nodes;
pub use self::play::Outputs;
pub use self::run::{MeasuredSettings, Played, RunPlan};
pub use self::survey_result::SurveyResult;

/// What a user asks of a replay. What is left out is as the history says, or as is usual.
#[derive(Clone, Default)]
pub struct ReplayOptions {
    /// The moment to begin at, as time words say it.
    pub from: Option<String>,
    /// The moment to end at.
    pub to: Option<String>,
    /// For so long at most.
    pub duration: Option<Duration>,
    /// The recording, if the history holds several.
    pub source: Option<String>,
    /// What is given.
    pub level: Option<Level>,
    /// Decides between what is as likely.
    pub seed: Option<u64>,
    /// A KubeSchedulerConfiguration in a file.
    pub scheduler_config: Option<PathBuf>,
    /// Whose rules the scheduler follows.
    pub scheduler_version: Option<Version>,
    /// Node groups in a file, and how their autoscaler is set.
    pub node_groups: Option<PathBuf>,
    /// `recorded`, `off`, or flags of cluster-autoscaler.
    pub autoscaler: String,
    /// Whose rules the autoscaler follows.
    pub autoscaler_version: Option<autoscaler::Version>,
    /// Places of configurations that are set otherwise.
    pub set: Vec<Edit>,
}

/// Whoever waits for a replay: is told how far it is, and may end it.
pub trait Watcher {
    /// It is so late in the time that is read or played. What waits here makes the replay wait.
    fn reached(&mut self, at: Moment);

    /// An error ends the replay: nobody waits any more.
    fn check(&self) -> anyhow::Result<()>;
}

/// What is replayed, how, and who says so.
pub struct Plan {
    /// What is played.
    pub run: RunPlan,
    /// The scheduler.
    pub scheduler: Which,
    /// The autoscaler and its groups.
    pub autoscaler: Setup,
    edits: Vec<String>,
    reservations: Vec<Reservation>,
}

// === impl Plan ===

impl Plan {
    /// Asks everybody. What cannot be is refused before anything is read.
    pub fn make(asked: &ReplayOptions, chosen: &Chosen) -> anyhow::Result<Plan> {
        let source = chosen.source(asked.source.as_deref(), "--source")?.unwrap_or_default();
        if asked.node_groups.is_none() {
            refuse_without(
                chosen,
                "Node",
                "say with --node-groups FILE what nodes an autoscaler may ask for, or nothing can be said of where pods go",
            )?;
        }
        let (from, end) = window(asked, chosen, &source)?;
        if from == end {
            bail!("--from and --to are the same moment, {from}: there is nothing between them");
        }
        let kept = kept(chosen, &source, from)?;
        let level = asked.level.or(kept.as_ref().map(|kept| kept.level)).unwrap_or_default();
        if level == Level::Pods || !has_workloads(chosen)? {
            refuse_without(chosen, "Pod", "there is nothing to replay")?;
        }
        let edits_of = |root: Root| -> Vec<Edit> {
            asked.set.iter().filter(|edit| edit.root == root).cloned().collect()
        };
        let version = match (asked.scheduler_version, &kept) {
            (Some(version), _) => version,
            (None, Some(kept)) => Version::parse(&kept.scheduler_version)?,
            (None, None) => Version::V1_36,
        };
        let scheduler = Which::choose(
            chosen,
            &source,
            &[from, end],
            &scheduler_settings::Asked {
                file: asked.scheduler_config.as_deref(),
                version,
                edits: &edits_of(Root::Scheduler),
            },
        )?;
        let word = Word::read(&asked.autoscaler)?;
        let autoscaler = nodes::choose(asked, &word, chosen, &source, from, end)?;
        let mut reservations = Vec::new();
        let nodes = Nodes::decide(asked, &word, &autoscaler, &mut reservations)?;
        let groups = if nodes == Nodes::AsRecorded { Vec::new() } else { autoscaler.groups.clone() };
        let start = match kept.as_ref().map(|kept| &kept.nodes) {
            Some(NodesBy::Autoscaler { start, .. }) => {
                start.parse().context("the replay that made the history")?
            }
            Some(NodesBy::Record | NodesBy::Nobody) | None => from,
        };
        let is_beginning = chosen.history.span()?.is_some_and(|(start, _)| start == from);
        let run = RunPlan {
            part: Part { source, window: Window { from, to: end.plus_nanos(1) } },
            end,
            seed: asked.seed.or(kept.as_ref().map(|kept| kept.seed)).unwrap_or(1),
            level,
            scheduler: scheduler.settings.clone(),
            autoscaler: autoscaler.settings.clone(),
            nodes,
            groups,
            classes: Classes::new(autoscaler.groups.clone()),
            keeps_targets: matches!(autoscaler.groups_by, GroupsBy::File(_)),
            pricing: autoscaler.pricing,
            gpu_label: autoscaler.gpu_label.clone(),
            start,
            measured: MeasuredSettings {
                // A replay of a replay takes as long as that took, and from its beginning calls nodes as it did.
                pace: kept.is_none(),
                names: kept.is_none() || !is_beginning,
                provisioning: nodes == Nodes::Autoscaled
                    && matches!(autoscaler.groups_by, GroupsBy::History(_)),
            },
            names: kept.as_ref().map(|kept| kept.node_names.clone()).unwrap_or_default(),
            pace: kept.map_or_else(Pace::usual, |kept| kept.pace),
        };
        let edits = asked.set.iter().map(Edit::to_string).collect();
        Ok(Plan { run, scheduler, autoscaler, edits, reservations })
    }

    /// Reads the recording for the first time, and takes from it how long things took. One without pods or nodes is
    /// refused.
    pub fn survey(&mut self, chosen: &Chosen, watcher: &mut dyn Watcher) -> anyhow::Result<SurveyResult> {
        let surveyed = self.run.survey(&chosen.history, |at| {
            watcher.reached(at);
            watcher.check().is_ok()
        });
        // A survey that was stopped says why.
        watcher.check()?;
        let (known, unmeasured) = surveyed?;
        let (from, end) = (self.run.part.window.from, self.run.end);
        if known.causes.totals.demands == 0 && known.causes.made.controllers().is_empty() {
            bail!("there is no pod from {from} to {end}: there is nothing to replay");
        }
        if known.curve.0.is_empty() && self.run.nodes != Nodes::Autoscaled {
            bail!("there is no node from {from} to {end}: nothing can be said of where pods go");
        }
        if unmeasured {
            self.reservations.push(RunPlan::unmeasured());
        } else if self.run.measured.provisioning {
            self.autoscaler.groups.clone_from(&self.run.groups);
        }
        Ok(known)
    }

    /// What of the settings is not simulated, or does not do what it seems to.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        let of_autoscaler = self.autoscaler.warnings().filter(|_| self.run.nodes == Nodes::Autoscaled);
        self.scheduler.settings.left_out.iter().chain(of_autoscaler)
    }

    /// A film of the replay, which begins with how it was set.
    pub fn film(&self, path: &Path) -> anyhow::Result<Film> {
        let mut film = Film::into(path, self.run.part.source.clone())?;
        let from = self.run.part.window.from;
        let mut configuration = self.scheduler.configuration.clone();
        configuration["metadata"] = serde_json::json!({"name": "kube-scheduler"});
        let configuration = Object::parse(&configuration.to_string())
            .context("the scheduler's configuration cannot be kept in a history")?;
        film.begin(from, configuration);
        film.begin(from, self.kept().object(from)?);
        if self.run.nodes == Nodes::Autoscaled {
            // What the recorded autoscaler said of itself does not hold.
            let settings = &self.autoscaler.settings;
            film.skip(Kind::new("", "ConfigMap"), &settings.namespace, &settings.status_config_map_name);
        }
        Ok(film)
    }

    /// Ends a film.
    pub fn end(&self, film: &mut Film) -> anyhow::Result<()> {
        film.end(self.run.end, self.kept().object(self.run.end)?);
        Ok(())
    }

    /// What a history keeps of it.
    fn kept(&self) -> ReplaySettings {
        let nodes = match self.run.nodes {
            Nodes::AsRecorded => NodesBy::Record,
            Nodes::Stay => NodesBy::Nobody,
            Nodes::Autoscaled => NodesBy::Autoscaler {
                version: self.autoscaler.other_version.map(|version| version.to_string()),
                settings: self.autoscaler.document.clone(),
                flags: self.autoscaler.flags.clone(),
                start: self.run.start.to_string(),
            },
        };
        ReplaySettings {
            seed: self.run.seed,
            level: self.run.level,
            scheduler_version: self.scheduler.settings.version.to_string(),
            pace: self.run.pace.clone(),
            node_groups: match nodes {
                NodesBy::Record => serde_json::Value::Null,
                NodesBy::Nobody | NodesBy::Autoscaler { .. } => self.autoscaler.groups_document(),
            },
            nodes,
            node_names: self.run.names.clone(),
        }
    }

    /// What makes it uncertain.
    pub fn reservations(&self, chosen: &Chosen) -> anyhow::Result<Vec<Reservation>> {
        let mut reservations = self.run.reservations_of_recording(&chosen.history)?;
        reservations.extend(self.reservations.iter().cloned());
        reservations.extend(self.run.reservations_of_settings());
        if self.run.nodes == Nodes::Autoscaled {
            let others = self.autoscaler.doubts().chain(&self.autoscaler.assumed);
            reservations.extend(others.map(|text| Reservation::new(About::Autoscaler, text)));
        }
        Ok(reservations)
    }
}

/// From when to when: within the history.
pub fn window(asked: &ReplayOptions, chosen: &Chosen, source: &Arc<str>) -> anyhow::Result<(Moment, Moment)> {
    let path = chosen.history.path().display();
    let Some((start, end)) = chosen.history.span()? else {
        bail!("{path} is empty: there is nothing to replay")
    };
    let moment = |word: &Option<String>, usual| match word {
        Some(word) => chosen.moment(Some(word)),
        None => Ok(usual),
    };
    // A recorder lists kind after kind: before it has seen everything the cluster is not whole.
    let (_, whole) = whole_from(&chosen.history, source, start, end)?;
    let whole = if whole < end { whole } else { start };
    let (from, mut to) = (moment(&asked.from, whole)?, moment(&asked.to, end)?);
    if let Some(duration) = asked.duration {
        to = to.min(from.plus_nanos(i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)));
    }
    for (flag, moment) in [("--from", from), ("--to", to)] {
        if !(start..=end).contains(&moment) {
            bail!("{flag} {moment} is outside the history, which reaches from {start} to {end}");
        }
    }
    if from > to {
        bail!("--from {from} is after --to {to}");
    }
    Ok((from, to))
}

/// Whether there is something that pods come of.
fn has_workloads(chosen: &Chosen) -> anyhow::Result<bool> {
    Ok(chosen.history.kinds()?.iter().any(|kind| Controller::of(&kind.kind).is_some()))
}

fn refuse_without(chosen: &Chosen, kind: &str, so: &str) -> anyhow::Result<()> {
    if !chosen.history.kinds()?.contains(&Kind::new("", kind)) {
        bail!("{} holds no {}s: {so}", chosen.history.path().display(), kind.to_lowercase());
    }
    Ok(())
}
