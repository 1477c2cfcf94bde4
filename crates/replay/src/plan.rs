//! What is replayed, and how everything is set: asked of the user, the history and the defaults, in this order.

mod nodes;
mod play;
mod survey;
mod told;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use autoscaler::{Delay, NodeGroup, Provisioning};
use calibration::{Level, NodesBy, ReplaySettings};
use controllers::Controller;
use model::{Gap, Kind, Moment, Object, Window};
use query::autoscaler_setup::{GroupsBy, Setup};
use query::scheduler_settings::Which;
use query::{Chosen, Edit, Root, kept, scheduler_settings};
use scheduler::Version;
use simulation::pace::Pace;
use simulation::{AutoscalerSetup, Setup as RunSetup, SimulatedCloud};

use self::nodes::Word;
use self::survey::Measured;
use crate::classes::Classes;
use crate::film::Film;
use crate::play::{Part, whole_from};
use crate::report::{About, Reservation};

pub use self::nodes::Nodes;
pub use self::play::Outputs;
pub use self::survey::Known;

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

/// What is replayed, and how.
pub struct Plan {
    /// The recording, and which part of it.
    pub part: Part,
    /// The last moment that counts.
    pub end: Moment,
    /// Decides between what is as likely.
    pub seed: u64,
    /// What is given.
    pub level: Level,
    /// The scheduler.
    pub scheduler: Which,
    /// The autoscaler and its groups.
    pub autoscaler: Setup,
    /// Who makes nodes come and go.
    pub nodes: Nodes,
    /// The groups whose nodes come and go as is decided; none if they do so as recorded.
    pub groups: Vec<NodeGroup>,
    /// Which nodes are like which.
    pub classes: Classes,
    /// The autoscaler's first loop is a scan interval later.
    start: Moment,
    /// The nodes that came, group by group: new ones are called as they were.
    names: BTreeMap<Arc<str>, Vec<Arc<str>>>,
    pace: Pace,
    /// Whether the pace is that of the replay that made the history.
    keeps_pace: bool,
    /// Whether nodes are called as in that replay: if it is played from its beginning.
    keeps_names: bool,
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
        Ok(Plan {
            part: Part { source, window: Window { from, to: end.plus_nanos(1) } },
            end,
            seed: asked.seed.or(kept.as_ref().map(|kept| kept.seed)).unwrap_or(1),
            level,
            scheduler,
            classes: Classes::new(autoscaler.groups.clone()),
            autoscaler,
            nodes,
            groups,
            start,
            keeps_pace: kept.is_some(),
            keeps_names: kept.is_some() && chosen.history.span()?.is_some_and(|(start, _)| start == from),
            names: kept.as_ref().map(|kept| kept.node_names.clone()).unwrap_or_default(),
            pace: kept.map_or_else(Pace::usual, |kept| kept.pace),
            edits: asked.set.iter().map(Edit::to_string).collect(),
            reservations,
        })
    }

    /// What of the settings is not simulated, or does not do what it seems to.
    pub fn warnings(&self) -> impl Iterator<Item = &String> {
        let of_autoscaler = self.autoscaler.warnings().filter(|_| self.nodes == Nodes::Autoscaled);
        self.scheduler.settings.left_out.iter().chain(of_autoscaler)
    }

    /// What takes time takes as long as it did in the recording, where nobody says how long; nodes that come are called
    /// as they were, and the autoscaler begins when it did.
    fn take_measured(&mut self, measured: Measured) {
        let Measured { pace, provisioning, names, first_loop } = measured;
        if !self.keeps_names {
            self.names = names;
        }
        if !self.keeps_pace {
            self.pace = pace;
            let interval =
                i64::try_from(self.autoscaler.settings.scan_interval.as_nanos()).unwrap_or(i64::MAX);
            self.start = first_loop.map_or(self.start, |first| first.plus_nanos(interval.saturating_neg()));
        }
        self.take_provisioning(provisioning);
    }

    fn take_provisioning(&mut self, measured: Vec<Option<Provisioning>>) {
        if self.nodes != Nodes::Autoscaled || !matches!(self.autoscaler.groups_by, GroupsBy::History(_)) {
            return;
        }
        let all = |delay: fn(&Provisioning) -> &Delay| {
            let spans = measured.iter().flatten().flat_map(|it| match delay(it) {
                Delay::Constant(span) => vec![*span],
                Delay::ByWork(work) => vec![work.least],
                Delay::Measured(spans) => spans.clone(),
                Delay::ByTime(spans) => spans.iter().map(|(_, span)| *span).collect(),
            });
            let mut spans: Vec<_> = spans.collect();
            spans.sort_unstable();
            Delay::Measured(spans)
        };
        if measured.iter().all(Option::is_none) {
            let text = "no new node was recorded: how long one takes is assumed";
            self.reservations.push(Reservation::new(About::Pace, text));
            return;
        }
        // A group that got no node is like the others.
        let usual = Provisioning {
            registers_after: all(|it| &it.registers_after),
            ready_after: all(|it| &it.ready_after),
        };
        for (group, measured) in self.groups.iter_mut().zip(measured) {
            group.provisioning = measured.unwrap_or_else(|| usual.clone());
        }
        self.autoscaler.groups.clone_from(&self.groups);
    }

    /// Whether a node comes and goes as is decided.
    pub fn is_scaled(&self, node: &Object) -> bool {
        self.nodes != Nodes::AsRecorded && self.classes.group_of(node).is_some()
    }

    /// How the run is set.
    pub fn setup(&self) -> RunSetup {
        let start = self.part.window.from;
        let autoscaler = (self.nodes == Nodes::Autoscaled).then(|| {
            let mut groups = self.groups.clone();
            if !matches!(self.autoscaler.groups_by, GroupsBy::File(_)) {
                // They have as many nodes as there are.
                groups.iter_mut().for_each(|group| group.target = None);
            }
            let mut cloud =
                SimulatedCloud::new(groups, self.seed).with_gpu_label(self.autoscaler.gpu_label.clone());
            if let Some(pricing) = self.autoscaler.pricing {
                cloud = cloud.with_pricing(pricing);
            }
            for (group, names) in &self.names {
                cloud = cloud.with_names(group, names.iter().cloned());
            }
            AutoscalerSetup { settings: self.autoscaler.settings.clone(), cloud, start: self.start }
        });
        RunSetup {
            start,
            scheduler: self.scheduler.settings.clone(),
            autoscaler,
            pace: self.pace.clone(),
            seed: self.seed,
        }
    }

    /// A film of the replay, which begins with how it was set.
    pub fn film(&self, path: &Path) -> anyhow::Result<Film> {
        let mut film = Film::into(path, self.part.source.clone())?;
        let from = self.part.window.from;
        let mut configuration = self.scheduler.configuration.clone();
        configuration["metadata"] = serde_json::json!({"name": "kube-scheduler"});
        let configuration = Object::parse(&configuration.to_string())
            .context("the scheduler's configuration cannot be kept in a history")?;
        film.begin(from, configuration);
        film.begin(from, self.kept().object(from)?);
        if self.nodes == Nodes::Autoscaled {
            // What the recorded autoscaler said of itself does not hold.
            let settings = &self.autoscaler.settings;
            film.skip(Kind::new("", "ConfigMap"), &settings.namespace, &settings.status_config_map_name);
        }
        Ok(film)
    }

    /// Ends a film.
    pub fn end(&self, film: &mut Film) -> anyhow::Result<()> {
        film.end(self.end, self.kept().object(self.end)?);
        Ok(())
    }

    /// What a history keeps of it.
    fn kept(&self) -> ReplaySettings {
        let nodes = match self.nodes {
            Nodes::AsRecorded => NodesBy::Record,
            Nodes::Stay => NodesBy::Nobody,
            Nodes::Autoscaled => NodesBy::Autoscaler {
                version: self.autoscaler.other_version.map(|version| version.to_string()),
                settings: self.autoscaler.document.clone(),
                flags: self.autoscaler.flags.clone(),
                start: self.start.to_string(),
            },
        };
        ReplaySettings {
            seed: self.seed,
            level: self.level,
            scheduler_version: self.scheduler.settings.version.to_string(),
            pace: self.pace.clone(),
            node_groups: match nodes {
                NodesBy::Record => serde_json::Value::Null,
                NodesBy::Nobody | NodesBy::Autoscaler { .. } => self.autoscaler.groups_document(),
            },
            nodes,
            node_names: self.names.clone(),
        }
    }

    /// What makes it uncertain.
    pub fn reservations(&self, chosen: &Chosen) -> anyhow::Result<Vec<Reservation>> {
        let mut reservations = Vec::new();
        let Window { from, to } = self.part.window;
        for gap in chosen.history.gaps()? {
            if gap.source == self.part.source && gap.from < to && from < gap.to {
                // One that is open lasts as long as the replay.
                let end = if gap.is_open() { to } else { gap.to };
                reservations.push(Reservation::of_gap(&Gap { to: end, ..gap }));
            }
        }
        let summary = chosen.history.summary()?;
        if summary.sources.iter().any(|source| source.name == self.part.source && source.times_inferred) {
            let text = "the times of the recording were not recorded but worked out";
            reservations.push(Reservation::new(About::Times, text));
        }
        reservations.extend(self.reservations.iter().cloned());
        let unverified = |is_verified: bool, about, name: &str, version: String| {
            let text = format!("the rules of {name} {version} are not verified");
            (!is_verified).then(|| Reservation::new(about, text))
        };
        let version = self.scheduler.settings.version.to_string();
        let is_verified = self.scheduler.is_verified();
        reservations.extend(unverified(is_verified, About::Scheduler, "kube-scheduler", version));
        let left_out = &self.scheduler.settings.left_out;
        reservations.extend(left_out.iter().map(|text| Reservation::new(About::Scheduler, text)));
        if self.nodes == Nodes::Autoscaled {
            let version = self.autoscaler.settings.version.to_string();
            let is_verified = self.autoscaler.is_verified();
            reservations.extend(unverified(is_verified, About::Autoscaler, "cluster-autoscaler", version));
            let text = "the autoscaler's memory starts afresh: a node that had been unneeded for a while counts from \
                        the beginning";
            reservations.push(Reservation::new(About::Autoscaler, text));
            let others = self.autoscaler.warnings().chain(&self.autoscaler.assumed);
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
