//! The log of KAI's snapshot-tool: one cycle on a snapshot, with the messages of the original.

use kai::{Action, ActionDecisions, Commitment, GpuGroup, PendingReason, QueueReport, ResourceReport};

use crate::input::SchedulerSnapshot;
use crate::report::full_name;
use crate::run::{OpenCycle, RunOptions};

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogLine {
    /// It is printed at this verbosity and above.
    pub level: u8,
    /// The message.
    pub message: String,
}

/// An event of a cycle, as the tool reports it.
pub enum ToolEvent<'a> {
    /// A line of the log.
    Line(LogLine),
    /// An action begins.
    Started(&'a str),
    /// The action has ended.
    Ended(&'a str),
}

const MILLI: f64 = 1000.0;
const GIGA: f64 = 1e9;

/// Runs one cycle, and reports what the original reports.
pub fn tool_log(snapshot: &SchedulerSnapshot, mut observer: impl FnMut(ToolEvent<'_>)) -> anyhow::Result<()> {
    let mut cycle = OpenCycle::new(snapshot, &snapshot.objects, &RunOptions::default(), snapshot.time)?;
    let mut line = |level: u8, message: String| observer(ToolEvent::Line(LogLine { level, message }));
    for warning in snapshot.warnings.iter().chain(cycle.session.warnings()) {
        line(1, warning.clone());
    }
    let before = cycle.session.report();
    let (jobs, nodes) = (before.jobs.len(), before.nodes.len());
    let queues = before.queues.len();
    line(2, format!("Session with <{jobs}> Jobs, <{queues}> Queues and <{nodes}> Nodes"));
    for queue in &before.queues {
        line(3, division_result(queue));
    }
    for action in cycle.settings.config.actions.clone() {
        observer(ToolEvent::Started(action.name()));
        observer(ToolEvent::Line(LogLine { level: 2, message: format!("Enter {} ...", title(action)) }));
        let decisions = cycle.session.run_action(action).clone();
        observer(ToolEvent::Ended(action.name()));
        for line in action_lines(&decisions) {
            observer(ToolEvent::Line(line));
        }
        observer(ToolEvent::Line(LogLine { level: 2, message: format!("Leaving {} ...", title(action)) }));
    }
    let mut last_job = None;
    for pending in &cycle.session.report().pending {
        let reason = match &pending.reason {
            PendingReason::Pod(errors) | PendingReason::InvalidSubGroup(errors) => errors.to_string(),
            PendingReason::PodGroup(errors) => errors.first().map(ToString::to_string).unwrap_or_default(),
            PendingReason::NotReady | PendingReason::None => continue,
        };
        if last_job.as_ref() != Some(&pending.job) {
            let job = format!("{}/{}", pending.pod.namespace, pending.job);
            let message = format!("Could not allocate resources for job: <{job}>: {reason}");
            observer(ToolEvent::Line(LogLine { level: 3, message }));
            last_job = Some(pending.job.clone());
        }
    }
    Ok(())
}

/// What an action did: evictions, then placements in their order.
fn action_lines(decisions: &ActionDecisions) -> Vec<LogLine> {
    let mut lines = Vec::new();
    let mut line = |level: u8, message: String| lines.push(LogLine { level, message });
    let mut preemptors = Vec::new();
    for eviction in &decisions.evicted {
        line(4, format!("Evicting task: {}", full_name(&eviction.pod)));
        if let Some(preemptor) = &eviction.preemptor
            && !preemptors.contains(&preemptor)
        {
            preemptors.push(preemptor);
        }
    }
    for commitment in &decisions.order {
        match commitment {
            Commitment::Pipeline(pod) => line(4, format!("Pipelining task: {}", full_name(pod))),
            Commitment::Bind(pod) => {
                line(4, format!("Allocating task: {}", full_name(pod)));
                if let Some(placement) = decisions.bound.iter().find(|placement| placement.pod == *pod) {
                    let groups: Vec<String> = placement.gpu_groups.iter().map(group_name).collect();
                    let (name, groups) = (full_name(pod), groups.join(" "));
                    let node = &placement.node;
                    line(
                        3,
                        format!(
                            "Creating bind request for task <{name}> to node <{node}> gpuGroup: <[{groups}]>"
                        ),
                    );
                }
            }
        }
    }
    for preemptor in preemptors {
        let name = full_name(preemptor);
        match decisions.action {
            Action::Reclaim => line(3, format!("Reclaimed resources for job <{name}>")),
            Action::Preempt => line(3, format!("Successfully preempted for job <{name}>")),
            Action::Consolidation => line(3, format!("Successfully consolidated for job <{name}>")),
            Action::Allocate | Action::StaleGangEviction => {}
        }
    }
    lines
}

fn division_result(queue: &QueueReport) -> String {
    let part = |title: &str, share: &ResourceReport, unit: f64| {
        let amount = |amount: f64| if amount < 0.0 { amount } else { amount / unit };
        format!(
            "{title}: deserved: <{}>, requested: <{}>, maxAllowed: <{}>, allocated: <{}>, historicalUsage: <0>, fairShare: <{}>",
            amount(share.quota),
            amount(share.request),
            amount(share.limit),
            amount(share.allocated),
            amount(share.fair_share)
        )
    };
    format!(
        "Resource division result for queue <{}>: Queue Priority: <{}>, {}, {}, {}",
        queue.name,
        queue.priority,
        part("GPU", &queue.gpu, 1.0),
        part("CPU (cores)", &queue.cpu, MILLI),
        part("memory (GB)", &queue.memory, GIGA)
    )
}

fn group_name(group: &GpuGroup) -> String {
    match group {
        GpuGroup::Known(name) => name.to_string(),
        GpuGroup::New(number) => format!("new-{number}"),
    }
}

/// The name of an action in the log.
fn title(action: Action) -> &'static str {
    match action {
        Action::Allocate => "Allocate",
        Action::Consolidation => "Consolidation",
        Action::Reclaim => "Reclaim",
        Action::Preempt => "Preempt",
        Action::StaleGangEviction => "StaleGangEviction",
    }
}
