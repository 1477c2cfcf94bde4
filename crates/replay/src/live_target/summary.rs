//! Summaries of runs and dry runs against a live API server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use live::apply::{CountedExample, OutcomeCounts};
use live::translate::{ApiOperation, ExclusionReason};
use model::{Kind, Moment};
use serde_json::{Map, Value, json};

/// The API operations that a run would perform.
#[derive(Clone, Debug)]
pub struct DryRun {
    /// The first recorded moment.
    pub from: Moment,
    /// The last recorded moment.
    pub end: Moment,
    /// API operations by kind, each count at the index of its name in [`DryRun::OPERATIONS`].
    pub counts: BTreeMap<Kind, [u64; DryRun::OPERATIONS.len()]>,
    /// Changes that rules leave out, by reason.
    pub left_out: BTreeMap<ExclusionReason, u64>,
}

/// The summary of a run.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// The name of the run.
    pub run: String,
    /// The kubeconfig of the target.
    pub target: PathBuf,
    /// The first recorded moment.
    pub from: Moment,
    /// The last recorded moment.
    pub end: Moment,
    /// Whether it was stopped before its end.
    pub is_stopped: bool,
    /// The recorded moment before which all operations are done; `None` if none has begun.
    pub position: Option<Moment>,
    /// How long it took.
    pub took: Duration,
    /// The outcomes of its operations: applied, skipped and failed.
    pub outcomes: OutcomeCounts,
    /// Changes that rules left out, by reason.
    pub left_out: BTreeMap<ExclusionReason, u64>,
}

// === impl DryRun ===

impl DryRun {
    /// The names of API operations.
    pub const OPERATIONS: [&'static str; 5] = ["create", "change", "bind", "delete", "remove"];

    pub(super) fn new(from: Moment, end: Moment) -> DryRun {
        DryRun { from, end, counts: BTreeMap::new(), left_out: BTreeMap::new() }
    }

    pub(super) fn count(&mut self, operation: ApiOperation) {
        let verb = operation.verb.as_str();
        let index = DryRun::OPERATIONS.iter().position(|name| *name == verb).unwrap_or_default();
        self.counts.entry(operation.object_ref.kind).or_default()[index] += 1;
    }
}

// === impl RunSummary ===

impl RunSummary {
    /// Whether the server accepted all operations.
    pub fn is_accepted(&self) -> bool {
        self.outcomes.failed.is_empty()
    }

    /// The summary as JSON.
    pub fn to_json(&self) -> Value {
        let outcomes = &self.outcomes;
        let example = |(what, example): (&str, &CountedExample)| json!({"what": what, "count": example.count, "first": example.first});
        let millis = |share: f64| outcomes.lateness_quantile(share).map(|late| late.as_millis() as u64);
        let applied: Map<String, Value> = outcomes
            .applied
            .iter()
            .map(|(applied, count)| (applied.as_str().to_owned(), (*count).into()))
            .collect();
        let left_out: Map<String, Value> =
            self.left_out.iter().map(|(reason, count)| (reason.to_string(), (*count).into())).collect();
        let skipped = outcomes.skipped.iter();
        let skipped: Vec<Value> =
            skipped.map(|(reason, counted)| example((reason.describe(), counted))).collect();
        let failed: Vec<Value> =
            outcomes.failed.iter().map(|(what, counted)| example((what, counted))).collect();
        json!({
            "run": self.run,
            "target": self.target.display().to_string(),
            "window": {"from": self.from.to_string(), "to": self.end.to_string()},
            "stoppedAt": self.position.filter(|_| self.is_stopped).map(|at| at.to_string()),
            "seconds": self.took.as_secs_f64(),
            "requests": outcomes.count(),
            "done": applied,
            "leftOut": left_out,
            "passedOver": skipped,
            "refused": failed,
            "lateMillis": {"p50": millis(0.5), "p99": millis(0.99), "most": millis(1.0)},
        })
    }
}
