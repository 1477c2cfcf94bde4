//! Runner of a workload: the scheduler decides all measured pods while other changes happen.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::{Moment, NamespacedName, Object, What};
use scheduler::{Decision, Scheduler, SchedulingAttempt, Settings};
use serde::{Deserialize, Serialize};

use super::setup::{MEASURED_PREFIX, START, WorkloadSetup};
use crate::Result;

/// The measurements of one run.
#[derive(Serialize, Deserialize)]
pub(super) struct WorkloadRun {
    /// The time of all decisions.
    pub(super) seconds: f64,
    /// The time up to each lap.
    pub(super) laps: Vec<f64>,
    /// The number of scheduling attempts, including those of churned pods and retries.
    pub(super) attempts: usize,
    /// The number of unschedulable measured pods.
    pub(super) unschedulable: usize,
    /// The number of preempted pods.
    pub(super) victims: usize,
}

/// A scheduler that runs a workload.
struct WorkloadRunner<'a> {
    scheduler: Scheduler,
    /// Every pod that may be preempted.
    pods: HashMap<NamespacedName, &'a Object>,
    /// Whether each measured pod has been decided.
    is_decided: Vec<bool>,
    run: WorkloadRun,
}

/// Runs a workload. `laps` are rising numbers of measured pods; the time until so many are decided is recorded too.
pub(super) fn run_workload(setup: &WorkloadSetup, laps: &[usize]) -> Result<WorkloadRun> {
    let mut runner = WorkloadRunner::new(setup);
    let start = Instant::now();
    runner.decide_all(setup, laps, start)?;
    runner.run.seconds = start.elapsed().as_secs_f64();
    let WorkloadRun { unschedulable, victims, .. } = runner.run;
    if unschedulable != setup.unschedulable || (victims > 0) != setup.has_victims {
        return Err(format!(
            "unexpected result: {unschedulable} pods were unschedulable and {victims} were preempted"
        )
        .into());
    }
    Ok(runner.run)
}

// === impl WorkloadRunner ===

impl<'a> WorkloadRunner<'a> {
    /// Adds all objects and the measured pods to a scheduler.
    fn new(setup: &'a WorkloadSetup) -> WorkloadRunner<'a> {
        let mut scheduler = Scheduler::new(Settings::default());
        let mut pods = HashMap::new();
        for what in &setup.initial {
            scheduler.apply(START, what);
            if what.object().meta().kind == "Pod" {
                pods.insert(name_of(what.object()), what.object());
            }
        }
        for pod in &setup.measured {
            scheduler.apply(START, &What::Added(pod.clone()));
        }
        let run = WorkloadRun { seconds: 0.0, laps: Vec::new(), attempts: 0, unschedulable: 0, victims: 0 };
        WorkloadRunner { scheduler, pods, is_decided: vec![false; setup.measured.len()], run }
    }

    /// The measured work; a profiler finds it by this name.
    #[inline(never)]
    fn decide_all(&mut self, setup: &WorkloadSetup, laps: &[usize], start: Instant) -> Result<()> {
        let mut events = setup.events.iter().peekable();
        let mut laps = laps.iter().peekable();
        let (mut now, mut decided) = (START, 0);
        while decided < setup.measured.len() {
            now = now.max(START.plus_nanos(nanos(setup.interval) * decided as i64));
            while let Some((_, what)) = events.next_if(|(at, _)| *at <= now) {
                self.scheduler.apply(now, what);
            }
            match self.scheduler.schedule_one(now) {
                Some(attempted) => {
                    let pod = setup.retries_preemptor_at_once.then(|| attempted.pod.clone());
                    decided += usize::from(self.apply_decision(now, attempted)?);
                    if let Some(pod) = pod {
                        decided += usize::from(self.retry(now, pod)?);
                    }
                }
                None => now = self.scheduler.next_wake(now).ok_or("a workload ran out of pods")?,
            }
            if laps.next_if(|lap| **lap == decided).is_some() {
                self.run.laps.push(start.elapsed().as_secs_f64());
            }
        }
        Ok(())
    }

    /// Attempts a pod again that was not placed by the first attempt.
    fn retry(&mut self, now: Moment, pod: NamespacedName) -> Result<bool> {
        match self.scheduler.attempt(now, &pod.namespace, &pod.name) {
            None | Some(Decision::Skipped(_)) => Ok(false),
            Some(decision) => self.apply_decision(now, SchedulingAttempt { pod, decision }),
        }
    }

    /// Applies a decision. Returns whether a measured pod has been decided for the first time.
    fn apply_decision(&mut self, now: Moment, attempted: SchedulingAttempt) -> Result<bool> {
        let SchedulingAttempt { pod, decision } = attempted;
        self.run.attempts += 1;
        let measured = pod.name.strip_prefix(MEASURED_PREFIX).and_then(|number| number.parse::<usize>().ok());
        match decision {
            Decision::Scheduled(_) => {}
            Decision::Unschedulable(rejection) => {
                self.run.victims += rejection.victims.len();
                for victim in &rejection.victims {
                    let object = self.pods.get(victim).ok_or("an unknown pod was preempted")?;
                    self.scheduler.apply(now, &What::Deleted((*object).clone()));
                }
                // It is attempted again after the preemption.
                if rejection.nominated_node.is_some() {
                    return Ok(false);
                }
                let is_new = measured.is_some_and(|number| !self.is_decided[number]);
                self.run.unschedulable += usize::from(is_new);
            }
            Decision::Skipped(why) | Decision::Failed(why) => {
                return Err(format!("{}: {why}", pod.name).into());
            }
            Decision::Gated(status) => {
                return Err(format!("{} was attempted but is gated: {status:?}", pod.name).into());
            }
        }
        Ok(measured.is_some_and(|number| !std::mem::replace(&mut self.is_decided[number], true)))
    }
}

fn name_of(pod: &Object) -> NamespacedName {
    let meta = pod.meta();
    NamespacedName { namespace: (*meta.namespace).into(), name: (*meta.name).into() }
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::manifest::{self, high, low, plain, tenth_too_large};
    use super::*;

    #[test]
    fn every_measured_pod_is_decided() {
        let mut setup = WorkloadSetup::new(10.0);
        setup.add_nodes(3);
        setup.add_measured_pods(20, "default", tenth_too_large);
        setup.unschedulable = 2;
        let run = run_workload(&setup, &[5, 20]).unwrap();
        assert_eq!((run.attempts, run.unschedulable, run.laps.len()), (20, 2, 2));
    }

    #[test]
    fn a_pod_that_preempted_others_is_attempted_again() {
        let mut setup = WorkloadSetup::new(10.0);
        setup.add_nodes(2);
        setup.add_running_pods(8, "default", low);
        setup.add_measured_pods(2, "default", high);
        setup.has_victims = true;
        let run = run_workload(&setup, &[]).unwrap();
        assert_eq!((run.attempts, run.unschedulable, run.victims), (4, 0, 6));
    }

    #[test]
    fn churned_pods_are_decided_along_with_the_measured_pods() {
        let mut setup = WorkloadSetup::new(10.0);
        setup.add_nodes(2);
        setup.add_measured_pods(10, "default", plain);
        setup.add_churn(Duration::from_millis(400), |index| {
            let mut pod = manifest::pod("default", &format!("churn-{index}"));
            high(&mut pod, index);
            vec![What::Added(manifest::object(&pod))]
        });
        let run = run_workload(&setup, &[]).unwrap();
        assert_eq!((run.attempts, run.unschedulable), (12, 0));
    }
}
