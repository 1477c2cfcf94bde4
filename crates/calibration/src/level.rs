//! Replay levels: whether pods or workloads are taken from a recording.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a replay takes from the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReplayLevel {
    /// Each pod, at its recorded time.
    #[default]
    Pods,
    /// Deployments, Jobs and other workloads, whose controllers create pods.
    Workloads,
}

/// The error for a text that is no level.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected pods or workloads")]
pub struct ParseLevelError;

impl fmt::Display for ReplayLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReplayLevel::Pods => "pods",
            ReplayLevel::Workloads => "workloads",
        })
    }
}

impl FromStr for ReplayLevel {
    type Err = ParseLevelError;

    fn from_str(text: &str) -> Result<ReplayLevel, ParseLevelError> {
        match text {
            "pods" => Ok(ReplayLevel::Pods),
            "workloads" => Ok(ReplayLevel::Workloads),
            _ => Err(ParseLevelError),
        }
    }
}
