//! Plays a workload: the scheduler decides about all measured pods, while other things happen.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use model::{Moment, NamespacedName, Object, What};
use scheduler::{Decision, Scheduler, SchedulingAttempt, Settings};
use serde::{Deserialize, Serialize};

use super::stage::{MEASURED, START, Stage};
use crate::Result;

/// What became of the measured pods.
#[derive(Serialize, Deserialize)]
pub(super) struct Played {
    /// How long all took.
    pub(super) seconds: f64,
    /// How long the first so many took, as they were asked for.
    pub(super) laps: Vec<f64>,
    /// Decisions about pods, those that came by the clock and those tried again included.
    pub(super) attempts: usize,
    /// Measured pods that found no node.
    pub(super) refused: usize,
    /// Pods that had to go.
    pub(super) victims: usize,
}

/// A scheduler in a workload.
struct Player<'a> {
    scheduler: Scheduler,
    /// Every pod that may have to go.
    pods: HashMap<NamespacedName, &'a Object>,
    /// Which measured pods have been decided about.
    is_decided: Vec<bool>,
    played: Played,
}

/// Plays a workload; `laps` are numbers of measured pods, rising, whose times are wanted too.
pub(super) fn play(stage: &Stage, laps: &[usize]) -> Result<Played> {
    let mut player = Player::new(stage);
    let start = Instant::now();
    player.decide_all(stage, laps, start)?;
    player.played.seconds = start.elapsed().as_secs_f64();
    let Played { refused, victims, .. } = player.played;
    if refused != stage.finds_none || (victims > 0) != stage.has_victims {
        return Err(format!(
            "{refused} pods found no node and {victims} had to go: that is another workload"
        )
        .into());
    }
    Ok(player.played)
}

// === impl Player ===

impl<'a> Player<'a> {
    /// The scheduler knows all objects, and the measured pods wait.
    fn new(stage: &'a Stage) -> Player<'a> {
        let mut scheduler = Scheduler::new(Settings::default());
        let mut pods = HashMap::new();
        for what in &stage.before {
            scheduler.apply(START, what);
            if what.object().meta().kind == "Pod" {
                pods.insert(name_of(what.object()), what.object());
            }
        }
        for pod in &stage.measured {
            scheduler.apply(START, &What::Added(pod.clone()));
        }
        let played = Played { seconds: 0.0, laps: Vec::new(), attempts: 0, refused: 0, victims: 0 };
        Player { scheduler, pods, is_decided: vec![false; stage.measured.len()], played }
    }

    /// What is measured; a profiler finds it by its name.
    #[inline(never)]
    fn decide_all(&mut self, stage: &Stage, laps: &[usize], start: Instant) -> Result<()> {
        let mut events = stage.events.iter().peekable();
        let mut laps = laps.iter().peekable();
        let (mut now, mut decided) = (START, 0);
        while decided < stage.measured.len() {
            now = now.max(START.plus_nanos(nanos(stage.pace) * decided as i64));
            while let Some((_, what)) = events.next_if(|(at, _)| *at <= now) {
                self.scheduler.apply(now, what);
            }
            match self.scheduler.schedule_one(now) {
                Some(attempted) => {
                    let pod = stage.tries_again_at_once.then(|| attempted.pod.clone());
                    decided += usize::from(self.follow(now, attempted)?);
                    if let Some(pod) = pod {
                        decided += usize::from(self.try_again(now, pod)?);
                    }
                }
                None => now = self.scheduler.next_wake(now).ok_or("a workload ran out of pods")?,
            }
            if laps.next_if(|lap| **lap == decided).is_some() {
                self.played.laps.push(start.elapsed().as_secs_f64());
            }
        }
        Ok(())
    }

    /// Another attempt at a pod that was not placed at the first.
    fn try_again(&mut self, now: Moment, pod: NamespacedName) -> Result<bool> {
        match self.scheduler.attempt(now, &pod.namespace, &pod.name) {
            None | Some(Decision::Skipped(_)) => Ok(false),
            Some(decision) => self.follow(now, SchedulingAttempt { pod, decision }),
        }
    }

    /// What follows from a decision at once. Says whether a measured pod has been decided about that was not before.
    fn follow(&mut self, now: Moment, attempted: SchedulingAttempt) -> Result<bool> {
        let SchedulingAttempt { pod, decision } = attempted;
        self.played.attempts += 1;
        let measured = pod.name.strip_prefix(MEASURED).and_then(|number| number.parse::<usize>().ok());
        match decision {
            Decision::Placed(_) => {}
            Decision::Refused(rejection) => {
                self.played.victims += rejection.victims.len();
                for victim in &rejection.victims {
                    let object = self.pods.get(victim).ok_or("an unknown pod had to go")?;
                    self.scheduler.apply(now, &What::Deleted((*object).clone()));
                }
                // It has its turn again, now that room was made for it.
                if rejection.nominated_node.is_some() {
                    return Ok(false);
                }
                let is_new = measured.is_some_and(|number| !self.is_decided[number]);
                self.played.refused += usize::from(is_new);
            }
            Decision::Skipped(why) | Decision::Failed(why) => {
                return Err(format!("{}: {why}", pod.name).into());
            }
            Decision::Gated(refusal) => {
                return Err(format!("{} was tried but is gated: {refusal:?}", pod.name).into());
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
    fn every_measured_pod_is_decided_about() {
        let mut stage = Stage::new(10.0);
        stage.nodes(3);
        stage.measured(20, "default", tenth_too_large);
        stage.finds_none = 2;
        let played = play(&stage, &[5, 20]).unwrap();
        assert_eq!((played.attempts, played.refused, played.laps.len()), (20, 2, 2));
    }

    #[test]
    fn a_pod_for_which_others_had_to_go_is_tried_again() {
        let mut stage = Stage::new(10.0);
        stage.nodes(2);
        stage.placed(8, "default", low);
        stage.measured(2, "default", high);
        stage.has_victims = true;
        let played = play(&stage, &[]).unwrap();
        assert_eq!((played.attempts, played.refused, played.victims), (4, 0, 6));
    }

    #[test]
    fn what_comes_by_the_clock_is_decided_about_beside_the_measured_pods() {
        let mut stage = Stage::new(10.0);
        stage.nodes(2);
        stage.measured(10, "default", plain);
        stage.churn(Duration::from_millis(400), |index| {
            let mut pod = manifest::pod("default", &format!("churn-{index}"));
            high(&mut pod, index);
            vec![What::Added(manifest::object(&pod))]
        });
        let played = play(&stage, &[]).unwrap();
        assert_eq!((played.attempts, played.refused), (12, 0));
    }
}
