//! What of a recording is given: each pod, or the workloads that pods come of.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Each pod that was asked for, when it was.
    #[default]
    Pods,
    /// Deployments, Jobs and their like, whose controllers make pods.
    Workloads,
}

/// A word that is none of the levels.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("give pods or workloads")]
pub struct BadLevel;

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Level::Pods => "pods",
            Level::Workloads => "workloads",
        })
    }
}

impl FromStr for Level {
    type Err = BadLevel;

    fn from_str(word: &str) -> Result<Level, BadLevel> {
        match word {
            "pods" => Ok(Level::Pods),
            "workloads" => Ok(Level::Workloads),
            _ => Err(BadLevel),
        }
    }
}
