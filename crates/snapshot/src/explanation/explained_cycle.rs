//! A cycle that was run to be explained, with its states before and after.

use std::collections::BTreeMap;

use anyhow::bail;
use kai::{Action, JobReport, PodState, PodStatus, Report};
use model::NamespacedName;

use super::{
    FairShareStep, NodeExplanation, PodExplanation, PodGroupExplanation, PodSetReport, QueueExplanation,
    SubGroupReport,
};
use crate::borrowing::Resource;
use crate::input::SchedulerSnapshot;
use crate::next_cycle::GpuGroupNames;
use crate::queue_report::QueueReport;
use crate::report::{ActionReport, CycleReport, InputReport, JobIndex, full_name, reasons_of};
use crate::run::{OpenCycle, RunOptions, status_name};

/// A cycle that was run, with its states before and after.
pub(super) struct ExplainedCycle {
    input: InputReport,
    open: OpenCycle,
    report: Report,
    cycle: CycleReport,
    before: Vec<PodState>,
    after: Vec<PodState>,
    /// The session before the first action, where the order of jobs is looked at.
    start: OpenCycle,
}

// === impl ExplainedCycle ===

impl ExplainedCycle {
    pub(super) fn new(snapshot: &SchedulerSnapshot, options: &RunOptions) -> anyhow::Result<ExplainedCycle> {
        let mut snapshot = snapshot.clone();
        for change in &options.overrides {
            change.apply(&mut snapshot)?;
        }
        let now = snapshot.time;
        let mut names = GpuGroupNames::for_objects(&snapshot.objects);
        let start = OpenCycle::new(&snapshot, &snapshot.objects, options, now)?;
        let mut open = OpenCycle::new(&snapshot, &snapshot.objects, options, now)?;
        let before = open.session.pod_states();
        let decisions = open.session.run().to_vec();
        let report = open.session.report();
        let after = open.session.pod_states();
        names.start_cycle(&decisions);
        let index = JobIndex::new(&report.jobs, &after);
        let cycle = CycleReport::new(1, now.to_string(), &decisions, &report, &index, &names);
        let mut warnings = snapshot.warnings.clone();
        warnings.extend(open.session.warnings().iter().cloned());
        let overrides = options.overrides.iter().map(ToString::to_string).collect();
        let input = InputReport::new(&snapshot, overrides, warnings);
        Ok(ExplainedCycle { input, open, report, cycle, before, after, start })
    }

    pub(super) fn pod(&mut self, name: &NamespacedName) -> anyhow::Result<PodExplanation> {
        let Ok(index) = self.after.binary_search_by(|state| state.pod.cmp(name)) else {
            bail!(self.pod_not_found(name));
        };
        let (before, after) = (self.before[index].clone(), self.after[index].clone());
        let pod = full_name(name);
        let pending = self.report.pending.iter().find(|pending| pending.pod == *name);
        let (source, reasons) = match pending.map(|pending| reasons_of(&pending.reason)) {
            Some((source, reasons)) => (Some(source), reasons),
            None => (None, Vec::new()),
        };
        let is_after_cycle = matches!(after.status, PodStatus::Pending | PodStatus::Gated);
        let session = if is_after_cycle { &mut self.open.session } else { &mut self.start.session };
        let mut nodes: Vec<NodeExplanation> =
            session.explain(name).unwrap_or_default().into_iter().map(NodeExplanation::of).collect();
        nodes.sort_by(|left, right| {
            let by_score = right.score.unwrap_or(f64::MIN).total_cmp(&left.score.unwrap_or(f64::MIN));
            let both = left.is_suitable && right.is_suitable;
            right
                .is_suitable
                .cmp(&left.is_suitable)
                .then(if both { by_score } else { std::cmp::Ordering::Equal })
                .then(left.node.cmp(&right.node))
        });
        let queue = self.job(&after.job).map(|job| job.queue.to_string()).unwrap_or_default();
        Ok(PodExplanation {
            snapshot: self.input.clone(),
            actions: self.actions_about(|it| it == pod, |_| false),
            pod,
            pod_group: after.job.to_string(),
            queue,
            status: status_name(before.status),
            status_after: status_name(after.status),
            node: after.node.as_ref().map(ToString::to_string),
            source,
            reasons,
            is_after_cycle,
            nodes,
        })
    }

    pub(super) fn pod_group(
        &mut self,
        namespace: Option<&str>,
        name: &str,
    ) -> anyhow::Result<PodGroupExplanation> {
        let is_named = |job: &&JobReport| {
            *job.name == *name && namespace.is_none_or(|namespace| *job.namespace == *namespace)
        };
        let Some(job) = self.report.jobs.iter().find(is_named).cloned() else {
            let names: Vec<&str> = self.report.jobs.iter().map(|job| &*job.name).collect();
            bail!(not_found("PodGroup", name, namespace, &names));
        };
        let order = self.start.session.job_order(Action::Allocate);
        let queue_of = |other: &NamespacedName| self.job(&other.name).map(|job| job.queue.clone());
        let same_queue = order.iter().filter(|other| queue_of(other).as_ref() == Some(&job.queue));
        let order_in_queue =
            same_queue.clone().position(|other| other.name == job.name).map(|index| index + 1);
        let (before, after) = (self.start.session.job_state(name), self.open.session.job_state(name));
        let (Some(before), Some(after)) = (before, after) else { bail!("PodGroup {name} has no job") };
        let pod_group = full_name(&before.name);
        let sets = before.pod_sets.iter().zip(&after.pod_sets).map(|(before, after)| PodSetReport {
            name: before.name.to_string(),
            min_available: before.min_available,
            pods: before.pods,
            allocated: before.active_allocated,
            allocated_after: after.active_allocated,
            required_topology_level: before.required_level.to_string(),
        });
        let groups = before.sub_group_sets.iter().zip(&after.sub_group_sets);
        let groups = groups.map(|(before, after)| SubGroupReport {
            name: before.name.to_string(),
            needed: before.needed,
            satisfied: before.satisfied,
            satisfied_after: after.satisfied,
            required_topology_level: before.required_level.to_string(),
        });
        let pods: BTreeMap<String, ()> = self
            .after
            .iter()
            .filter(|state| *state.job == *name)
            .map(|it| (full_name(&it.pod), ()))
            .collect();
        let has_sub_groups = before.pod_sets.len() > 1 || before.sub_group_sets.len() > 1;
        let mut fit_errors: Vec<String> = after.fit_errors.iter().map(ToString::to_string).collect();
        fit_errors.sort_unstable();
        fit_errors.dedup();
        Ok(PodGroupExplanation {
            snapshot: self.input.clone(),
            queue: job.queue.to_string(),
            priority: job.priority,
            is_preemptible: job.is_preemptible,
            is_ready: job.is_ready,
            is_stale: job.is_stale,
            order: order.iter().position(|other| other.name == job.name).map(|index| index + 1),
            order_length: order.len(),
            order_in_queue,
            pod_sets: sets.collect(),
            sub_groups: if has_sub_groups { groups.collect() } else { Vec::new() },
            statuses: statuses_of(&self.before, name),
            statuses_after: statuses_of(&self.after, name),
            actions: self.actions_about(|pod| pods.contains_key(pod), |preemptor| preemptor == pod_group),
            pending: self.cycle.pending.iter().filter(|it| it.pod_group == pod_group).cloned().collect(),
            fit_errors,
            queues: self.path_to(&job.queue),
            pod_group,
        })
    }

    pub(super) fn queue(&self, name: &str) -> anyhow::Result<QueueExplanation> {
        let queues = self.path_to(name);
        if queues.is_empty() {
            let names: Vec<&str> = self.cycle.queues.iter().map(|queue| &*queue.name).collect();
            bail!(not_found("Queue", name, None, &names));
        }
        let parents: Vec<Option<&str>> = queues.iter().map(|queue| queue.parent.as_deref()).collect();
        let is_below = |queue: &str| self.path_to(queue).iter().any(|ancestor| ancestor.name == name);
        let mut divisions = Vec::new();
        for resource in Resource::ALL {
            for parent in &parents {
                let divided = match parent.and_then(|name| self.queue_report(name)) {
                    Some(parent) => resource.of(parent).fair_share,
                    None => resource.total(&self.cycle.total),
                };
                divisions.extend(
                    self.children_of(*parent).map(|queue| FairShareStep::new(resource, queue, divided)),
                );
            }
        }
        let borrowing = self.cycle.borrowing.iter();
        Ok(QueueExplanation {
            snapshot: self.input.clone(),
            children: self.children_of(Some(name)).map(|queue| queue.name.clone()).collect(),
            divisions,
            pending: self.cycle.pending.iter().filter(|it| is_below(&it.queue)).cloned().collect(),
            borrowing: borrowing.filter(|it| parents.contains(&it.parent.as_deref())).cloned().collect(),
            queues,
        })
    }

    fn job(&self, name: &str) -> Option<&JobReport> {
        self.report.jobs.iter().find(|job| *job.name == *name)
    }

    fn queue_report(&self, name: &str) -> Option<&QueueReport> {
        self.cycle.queues.iter().find(|queue| queue.name == name)
    }

    /// The queues of a parent; the top queues without one.
    fn children_of<'a>(&'a self, parent: Option<&'a str>) -> impl Iterator<Item = &'a QueueReport> {
        self.cycle.queues.iter().filter(move |queue| queue.parent.as_deref() == parent)
    }

    /// A queue and the queues above it, the top first; empty if it does not exist.
    fn path_to(&self, name: &str) -> Vec<QueueReport> {
        let mut path = Vec::new();
        let mut next = self.queue_report(name);
        while let Some(queue) = next {
            path.push(queue.clone());
            next = queue.parent.as_deref().and_then(|parent| self.queue_report(parent));
        }
        path.reverse();
        path
    }

    /// The actions with decisions about some pods, or evictions for some pod groups.
    fn actions_about(
        &self,
        is_pod: impl Fn(&str) -> bool,
        is_preemptor: impl Fn(&str) -> bool,
    ) -> Vec<ActionReport> {
        let mut actions = self.cycle.actions.clone();
        for action in &mut actions {
            action.bound.retain(|it| is_pod(&it.pod));
            action.pipelined.retain(|it| is_pod(&it.pod));
            action.evicted.retain(|it| is_pod(&it.pod) || it.preemptor.as_deref().is_some_and(&is_preemptor));
        }
        actions.retain(|it| !(it.bound.is_empty() && it.pipelined.is_empty() && it.evicted.is_empty()));
        actions
    }

    fn pod_not_found(&self, name: &NamespacedName) -> String {
        let elsewhere = self.after.iter().find(|state| state.pod.name == name.name);
        match elsewhere {
            Some(other) => format!(
                "pod {} not found in the snapshot; there is one in the namespace {}",
                full_name(name),
                other.pod.namespace
            ),
            None => {
                let here = self.after.iter().filter(|state| state.pod.namespace == name.namespace);
                let names: Vec<&str> = here.map(|state| &*state.pod.name).collect();
                let why = not_found("pod", &full_name(name), None, &[]);
                match query::similar(&name.name, &names) {
                    Some(similar) => format!("{why}: did you mean {similar}?"),
                    None => format!("{why}, or it belongs to no pod group"),
                }
            }
        }
    }
}

fn statuses_of(states: &[PodState], job: &str) -> BTreeMap<&'static str, usize> {
    let mut statuses = BTreeMap::new();
    for state in states.iter().filter(|state| *state.job == *job) {
        *statuses.entry(status_name(state.status)).or_default() += 1;
    }
    statuses
}

fn not_found(kind: &str, name: &str, namespace: Option<&str>, known: &[&str]) -> String {
    let place = namespace.map(|namespace| format!(" in the namespace {namespace}")).unwrap_or_default();
    match query::similar(name, known) {
        Some(similar) if similar != name => {
            format!("{kind} {name} not found in the snapshot{place}: did you mean {similar}?")
        }
        _ => format!("{kind} {name} not found in the snapshot{place}"),
    }
}
