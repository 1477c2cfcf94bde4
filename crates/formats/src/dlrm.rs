//! Alibaba's trace of recommendation services (`cluster-trace-gpu-v2025`): one instance per row, times in seconds since
//! the trace began.
//!
//! The trace becomes the objects that a cluster would have had: an instance is a Pod; instances with the same service,
//! role and spec are a Deployment with its ReplicaSet, which is scaled before each creation and deletion. The trace
//! names no nodes, so pods have no `nodeName`; the condition `PodScheduled` says when they were scheduled. All objects
//! are inferred.

mod objects;
mod rows;
mod timeline;
mod trace;

use self::timeline::TraceTimeline;
use self::trace::Trace;
use crate::{ImportItems, Input, ReadOptions, Result};

/// Reads a trace. It begins at [`ReadOptions::at`](crate::ReadOptions), or now.
pub fn read(input: Input, options: ReadOptions) -> Result<ImportItems> {
    Ok(Box::new(TraceTimeline::new(Trace::read(input)?, options)))
}
