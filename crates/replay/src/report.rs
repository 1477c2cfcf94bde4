//! `report.json`: what happened, what would have happened, and how far the two are apart.

mod moves;
mod scaling;

use std::fmt;

use calibration::Level;
use model::{Gap, Moment};
use serde::Serialize;
use serde_json::Value;

use crate::causes::Causes;
use crate::compare::Fidelity;
use crate::figures::Figures;

pub use moves::Moves;
pub use scaling::{GroupScaling, NodeCurves, Scaling, Size};

/// What came of a replay. The fields are documented in `docs/replay-report.md`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The file that was replayed.
    pub history: String,
    /// The recording in it.
    pub source: String,
    /// The real API server that it was played into, if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// From when to when.
    pub window: Span,
    /// What was taken for given: `pods` or `workloads`.
    pub level: Level,
    /// Decided between what is as likely.
    pub seed: u64,
    /// How it was set, and who says so.
    pub settings: Settings,
    /// What happened.
    pub recorded: Figures,
    /// What would have happened.
    pub replayed: Figures,
    /// How much came out as recorded.
    pub fidelity: Fidelity,
    /// How groups of nodes grew and shrank.
    pub scaling: Scaling,
    /// What makes it uncertain.
    pub reservations: Vec<Reservation>,
}

/// From one moment to another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct Span {
    pub from: String,
    pub to: String,
}

/// How a replay was set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Settings {
    /// The scheduler.
    pub scheduler: SchedulerSettings,
    /// The autoscaler, and who makes nodes come and go.
    pub autoscaler: AutoscalerSettings,
    /// How long things take.
    pub pace: PaceSettings,
    /// What the user set otherwise.
    pub set: Vec<String>,
}

/// How the scheduler was set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerSettings {
    /// Whose rules it followed.
    pub version: String,
    /// Whether those are held against the real one.
    pub verified: bool,
    /// Who says how it is set.
    pub from: From,
    /// Its KubeSchedulerConfiguration.
    pub configuration: Value,
    /// What of that is not simulated.
    pub left_out: Vec<String>,
}

/// How the autoscaler was set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerSettings {
    /// Who makes nodes come and go: `autoscaler`, `record` or `nobody`.
    pub nodes: &'static str,
    /// Whose rules it followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether those are held against the real one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// Who says how it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<From>,
    /// Flags on top of that.
    pub flags: Vec<String>,
    /// Who says which groups there are.
    pub groups_from: From,
    /// The groups, as `node-groups.yaml` has them.
    pub groups: Value,
    /// What was taken for granted.
    pub assumed: Vec<String>,
    /// What of its flags is not simulated.
    pub left_out: Vec<String>,
}

/// How long things take.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PaceSettings {
    /// Who says so.
    pub from: From,
}

/// Who says how something is set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "by", content = "name")]
pub enum From {
    /// Nobody.
    Defaults,
    /// This file.
    File(String),
    /// The history, by that.
    History(String),
    /// The replay that the history was made by.
    Replay,
    /// The program that uses the library.
    Program,
}

/// What makes a report uncertain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// What it is about.
    pub about: About,
    /// In a sentence.
    pub text: String,
    /// When, if it holds for a part of the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub during: Option<Span>,
}

/// What a reservation is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum About {
    /// Something may have been missed.
    Gap,
    /// Times were not recorded but worked out.
    Times,
    /// What stands behind pods could not be told.
    Causes,
    /// Controllers, and what they leave out.
    Controllers,
    /// The scheduler and how it is set.
    Scheduler,
    /// The autoscaler and how it is set.
    Autoscaler,
    /// How long things take.
    Pace,
    /// The real cluster that it was played into.
    Target,
}

// === impl Report ===

impl Report {
    /// The bytes of `report.json`.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

// === impl Span ===

impl Span {
    /// Between two moments.
    pub fn new(from: Moment, to: Moment) -> Span {
        Span { from: from.to_string(), to: to.to_string() }
    }
}

// === impl Reservation ===

impl Reservation {
    /// One that holds all the time.
    pub fn new(about: About, text: impl Into<String>) -> Reservation {
        Reservation { about, text: text.into(), during: None }
    }

    /// What a gap makes uncertain.
    pub fn of_gap(gap: &Gap) -> Reservation {
        let kinds: Vec<String> = gap.kinds.iter().map(|kind| kind.kind.to_string()).collect();
        let concerns = |kind: &str| gap.kinds.is_empty() || kinds.iter().any(|it| it == kind);
        let mut unsure = Vec::new();
        if concerns("Pod") {
            unsure.push("pods that came and went are missing, others seem to have come late");
        }
        if concerns("Node") {
            unsure.push("nodes may have come, gone or failed unseen");
        }
        if ["ReplicaSet", "StatefulSet", "Job", "DaemonSet"].iter().any(|kind| concerns(kind)) {
            unsure.push("whose wish a deletion was may be told wrongly");
        }
        if unsure.is_empty() {
            unsure.push("what the scheduler knew of them may differ");
        }
        let of = if kinds.is_empty() { String::new() } else { format!(" of {}", kinds.join(", ")) };
        Reservation {
            about: About::Gap,
            text: format!("changes{of} may have been missed ({}): {}", gap.why, unsure.join("; ")),
            during: Some(Span::new(gap.from, gap.to)),
        }
    }

    /// What could not be told of the causes.
    pub fn of_causes(causes: &Causes) -> Vec<Reservation> {
        let told = |(what, count): (&&str, &u64)| Reservation::new(About::Causes, format!("{count} {what}"));
        causes.untold.iter().map(told).collect()
    }

    /// What controllers were asked for and do not do, so many times.
    pub fn of_controllers(sentence: &str, times: u64) -> Reservation {
        let text = if times == 1 { sentence.to_owned() } else { format!("{sentence}, {times} times") };
        Reservation::new(About::Controllers, text)
    }
}

impl fmt::Display for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Span { from, to }) = &self.during {
            write!(f, "from {from} to {to} ")?;
        }
        f.write_str(&self.text)
    }
}
