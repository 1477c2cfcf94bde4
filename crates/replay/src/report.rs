//! `report.json`: the metrics of a recording and of its replay, and how they differ.

mod scaling;
mod scaling_fidelity;

use std::fmt;

use calibration::ReplayLevel;
use model::{Gap, Moment};
use serde::Serialize;
use serde_json::Value;

use crate::compare::Fidelity;
use crate::demands::RecordedDemands;
use crate::metrics::ClusterMetrics;

pub use scaling::{GroupScaling, GroupSizeStats, NodeCountDifference, ScalingComparison};
pub use scaling_fidelity::ScalingFidelity;

/// The report of a replay. The fields are documented in `docs/replay-report.md`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The name of the replayed file.
    pub history: String,
    /// The source in it.
    pub source: String,
    /// The live API server that it was replayed into, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The replayed window.
    pub window: TimeSpan,
    /// What was taken from the recording: `pods` or `workloads`.
    pub level: ReplayLevel,
    /// The seed of all random choices.
    pub seed: u64,
    /// The settings, and where they come from.
    pub settings: ReportedSettings,
    /// The metrics of the recording.
    pub recorded: ClusterMetrics,
    /// The metrics of the replay.
    pub replayed: ClusterMetrics,
    /// How closely the replay matches the recording.
    pub fidelity: Fidelity,
    /// The sizes of node groups in both.
    pub scaling: ScalingComparison,
    /// What makes the report uncertain.
    #[serde(rename = "reservations")]
    pub caveats: Vec<Caveat>,
}

/// A time span.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the names say it")]
pub struct TimeSpan {
    pub from: String,
    pub to: String,
}

/// The settings of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReportedSettings {
    /// The scheduler.
    pub scheduler: SchedulerSettings,
    /// The autoscaler, and what adds and removes nodes.
    pub autoscaler: AutoscalerSettings,
    /// The latencies.
    #[serde(rename = "pace")]
    pub latencies: LatencySettings,
    /// Overrides by the user.
    #[serde(rename = "set")]
    pub overrides: Vec<String>,
}

/// The settings of the scheduler.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerSettings {
    /// The version that was simulated.
    pub version: String,
    /// Whether this version is verified against the original.
    pub verified: bool,
    /// Where the settings come from.
    #[serde(rename = "from")]
    pub origin: SettingsOrigin,
    /// Its KubeSchedulerConfiguration.
    pub configuration: Value,
    /// Parts of the configuration that are not simulated.
    #[serde(rename = "leftOut")]
    pub unsupported_features: Vec<String>,
}

/// The settings of the autoscaler.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoscalerSettings {
    /// What adds and removes nodes: `autoscaler`, `record` or `nobody`.
    pub nodes: &'static str,
    /// The version that was simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Whether this version is verified against the original.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<bool>,
    /// Where the settings come from.
    #[serde(rename = "from", skip_serializing_if = "Option::is_none")]
    pub origin: Option<SettingsOrigin>,
    /// Additional flags.
    pub flags: Vec<String>,
    /// Where the node groups come from.
    pub groups_from: SettingsOrigin,
    /// The groups, in the format of `node-groups.yaml`.
    pub groups: Value,
    /// Assumptions about groups and settings.
    #[serde(rename = "assumed")]
    pub assumptions: Vec<String>,
    /// Flags that are not simulated.
    #[serde(rename = "leftOut")]
    pub unsupported_flags: Vec<String>,
}

/// The settings of latencies.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LatencySettings {
    /// Where the latencies come from.
    #[serde(rename = "from")]
    pub origin: SettingsOrigin,
}

/// Where settings come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "by", content = "name")]
pub enum SettingsOrigin {
    /// Defaults.
    Defaults,
    /// A file.
    File(String),
    /// The history: the named object.
    History(String),
    /// The settings of the replay that wrote the history.
    Replay,
    /// The program that uses the library.
    Program,
}

/// A reason why a report is uncertain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Caveat {
    /// The topic.
    #[serde(rename = "about")]
    pub topic: CaveatTopic,
    /// The caveat as a sentence.
    pub text: String,
    /// The time for which it holds, if not for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub during: Option<TimeSpan>,
}

/// The topic of a caveat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum CaveatTopic {
    /// Changes may have been missed.
    Gap,
    /// Times were inferred.
    Times,
    /// Demands could not be extracted.
    #[serde(rename = "causes")]
    Demands,
    /// Unsupported controller features.
    Controllers,
    /// The scheduler and its settings.
    Scheduler,
    /// The autoscaler and its settings.
    Autoscaler,
    /// The latencies.
    #[serde(rename = "pace")]
    Latencies,
    /// The live cluster that it was replayed into.
    Target,
}

// === impl Report ===

impl Report {
    /// The bytes of `report.json`.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}

// === impl TimeSpan ===

impl TimeSpan {
    /// The span between two moments.
    pub fn new(from: Moment, to: Moment) -> TimeSpan {
        TimeSpan { from: from.to_string(), to: to.to_string() }
    }
}

// === impl Caveat ===

impl Caveat {
    /// A caveat for the whole time.
    pub fn new(topic: CaveatTopic, text: impl Into<String>) -> Caveat {
        Caveat { topic, text: text.into(), during: None }
    }

    /// The caveat of a gap.
    pub fn of_gap(gap: &Gap) -> Caveat {
        let kinds: Vec<String> = gap.kinds.iter().map(|kind| kind.kind.to_string()).collect();
        let concerns = |kind: &str| gap.kinds.is_empty() || kinds.iter().any(|gap_kind| gap_kind == kind);
        let mut consequences = Vec::new();
        if concerns("Pod") {
            consequences.push("short-lived pods may be missing, others may appear late");
        }
        if concerns("Node") {
            consequences.push("nodes may have been added, removed or failed unnoticed");
        }
        if ["ReplicaSet", "StatefulSet", "Job", "DaemonSet"].iter().any(|kind| concerns(kind)) {
            consequences.push("the cause of a pod deletion may be wrong");
        }
        if consequences.is_empty() {
            consequences.push("the scheduler may have used other versions of them");
        }
        let of = if kinds.is_empty() { String::new() } else { format!(" of {}", kinds.join(", ")) };
        Caveat {
            topic: CaveatTopic::Gap,
            text: format!("changes{of} may have been missed ({}): {}", gap.why, consequences.join("; ")),
            during: Some(TimeSpan::new(gap.from, gap.to)),
        }
    }

    /// The caveats of unexplained observations.
    pub fn of_demands(demands: &RecordedDemands) -> Vec<Caveat> {
        let caveat =
            |(what, count): (&&str, &u64)| Caveat::new(CaveatTopic::Demands, format!("{count} {what}"));
        demands.unexplained.iter().map(caveat).collect()
    }

    /// The caveat of an unsupported controller feature that was requested.
    pub fn of_controllers(sentence: &str, times: u64) -> Caveat {
        let text = if times == 1 { sentence.to_owned() } else { format!("{sentence}, {times} times") };
        Caveat::new(CaveatTopic::Controllers, text)
    }
}

impl fmt::Display for Caveat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(TimeSpan { from, to }) = &self.during {
            write!(f, "from {from} to {to} ")?;
        }
        f.write_str(&self.text)
    }
}
