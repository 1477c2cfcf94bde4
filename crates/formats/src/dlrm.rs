//! Alibaba's trace of recommendation services (`cluster-trace-gpu-v2025`): an instance a row, in seconds since the
//! trace began.
//!
//! What it tells becomes what a cluster would have shown: instances are Pods, those of one service, role and shape are
//! a Deployment with its ReplicaSet, which is scaled before each creation and deletion. It names no nodes, so pods stay
//! without one; that they were scheduled, and when, is their condition `PodScheduled`. All objects are made up.

mod objects;
mod play;
mod rows;
mod trace;

use self::play::Play;
use self::trace::Trace;
use crate::{Given, Input, Items, Result};

/// Reads a trace. It begins at the given time, or now.
pub fn read(input: Input, given: Given) -> Result<Items> {
    Ok(Box::new(Play::new(Trace::read(input)?, given)))
}
