//! The run of a snapshot: one cycle of the scheduler's actions, or several.

use std::collections::BTreeMap;

use anyhow::Context;
use kai::{Action, ActionDecisions, PodState, PodStatus, Session, Settings};
use model::{NamespacedName, Object};

use crate::input::SchedulerSnapshot;
use crate::next_cycle::{CycleOutcome, GpuGroupNames};
use crate::overrides::SettingOverride;
use crate::report::{CycleReport, InputReport, JobIndex, RunReport};

/// The options of a run.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The actions; `None` for those of the configuration.
    pub actions: Option<Vec<Action>>,
    /// Changed settings, in the order in which they apply.
    pub overrides: Vec<SettingOverride>,
    /// The most cycles.
    pub cycles: u32,
}

/// A run.
#[derive(Clone, Debug)]
pub struct SnapshotRun {
    /// What happened.
    pub report: RunReport,
    /// The pods after the last cycle.
    pub(crate) pods: BTreeMap<NamespacedName, PodState>,
}

/// What a session decides: the input of one cycle, and the session before its first action.
pub(crate) struct OpenCycle {
    pub settings: Settings,
    pub session: Session,
}

const SECOND: i64 = 1_000_000_000;

impl Default for RunOptions {
    fn default() -> RunOptions {
        RunOptions { actions: None, overrides: Vec::new(), cycles: 1 }
    }
}

/// Runs a snapshot.
pub fn run(snapshot: &SchedulerSnapshot, options: &RunOptions) -> anyhow::Result<SnapshotRun> {
    let mut snapshot = snapshot.clone();
    for change in &options.overrides {
        change.apply(&mut snapshot)?;
    }
    let period = schedule_period(&snapshot);
    let mut names = GpuGroupNames::for_objects(&snapshot.objects);
    let mut objects = std::mem::take(&mut snapshot.objects);
    let mut warnings = snapshot.warnings.clone();
    let mut cycles = Vec::new();
    let mut is_settled = false;
    let mut last_pods: Vec<PodState> = Vec::new();
    for number in 1..=options.cycles.max(1) {
        let now = snapshot.time.plus_nanos(i64::from(number - 1).saturating_mul(period));
        let mut cycle = OpenCycle::new(&snapshot, &objects, options, now)?;
        let decisions: Vec<ActionDecisions> = cycle.session.run().to_vec();
        let report = cycle.session.report();
        last_pods = cycle.session.pod_states();
        if number == 1 {
            warnings.extend(cycle.session.warnings().iter().cloned());
        }
        names.start_cycle(&decisions);
        let index = JobIndex::new(&report.jobs, &last_pods);
        cycles.push(CycleReport::new(number, now.to_string(), &decisions, &report, &index, &names));
        let outcome = CycleOutcome { decisions: &decisions, jobs: &report.jobs, pods: &last_pods, now };
        match outcome.next_objects(&objects, &names)? {
            Some(next) => objects = next,
            None => {
                is_settled = true;
                break;
            }
        }
    }
    let overrides = options.overrides.iter().map(ToString::to_string).collect();
    let snapshot = InputReport::new(&snapshot, overrides, warnings);
    let report = RunReport { snapshot, cycles, is_settled };
    let pods = last_pods.into_iter().map(|state| (state.pod.clone(), state)).collect();
    Ok(SnapshotRun { report, pods })
}

// === impl OpenCycle ===

impl OpenCycle {
    pub(crate) fn new(
        snapshot: &SchedulerSnapshot,
        objects: &[Object],
        options: &RunOptions,
        now: model::Moment,
    ) -> anyhow::Result<OpenCycle> {
        let mut settings = snapshot.settings()?;
        if let Some(actions) = &options.actions {
            settings.config.actions.clone_from(actions);
        }
        let open = || Session::open(&SchedulerSnapshot::parse(objects, settings.clone())?, now);
        let session = open().with_context(|| snapshot.name.clone())?;
        Ok(OpenCycle { settings, session })
    }
}

// === impl SnapshotRun ===

impl SnapshotRun {
    /// The last cycle.
    pub fn last_cycle(&self) -> &CycleReport {
        self.report.cycles.last().expect("a run has at least one cycle")
    }
}

/// The status of a pod after a run, in a word of the scheduler's.
pub(crate) fn status_name(status: PodStatus) -> &'static str {
    match status {
        // Given a node in this cycle, or before.
        PodStatus::Allocated => PodStatus::Binding.name(),
        other => other.name(),
    }
}

/// The time between two cycles.
fn schedule_period(snapshot: &SchedulerSnapshot) -> i64 {
    let period = snapshot.scheduler_params["schedulePeriod"].as_i64();
    period.filter(|period| *period > 0).unwrap_or(SECOND)
}
