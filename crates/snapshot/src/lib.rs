//! Snapshots of KAI-Scheduler: taken from a moment of a history or from a live cluster, run, explained and compared.
//!
//! [`SchedulerSnapshot`] is the input of everything else, read from a file or a history. [`run`] runs the scheduler's
//! actions on it, for one or several cycles. Results are plain data; the same snapshot and options give equal ones.

mod borrowing;
mod capture;
mod comparison;
mod explanation;
mod input;
mod next_cycle;
mod overrides;
mod queue_report;
mod report;
mod run;
mod tool_log;

pub use borrowing::{Borrower, Borrowing, Lender, Resource};
pub use capture::{CaptureOptions, CaptureSummary, CapturedObjects, LiveObjects, list_live, take};
pub use comparison::{Comparison, PodDifference, PodEnd, QueueDifference, compare};
pub use explanation::{
    Explanation, ExplanationSubject, FairShareStep, NodeExplanation, PluginScore, PodExplanation,
    PodGroupExplanation, PodSetReport, QueueExplanation, SubGroupReport, explain,
};
pub use input::{GeneratorChoice, HistoryMoment, SchedulerSnapshot, TimeOrigin};
pub use overrides::SettingOverride;
pub use queue_report::{QuantityReport, QueueReport, QueueResources, ResourceShare};
pub use report::{
    ActionReport, CycleReport, EvictionReport, InputReport, PendingReport, PlacementReport, RunReport,
};
pub use run::{RunOptions, SnapshotRun, run};
pub use tool_log::{LogLine, ToolEvent, tool_log};
