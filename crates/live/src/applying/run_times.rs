//! How long pods ran in a recording, by who stands behind them.

use std::collections::HashMap;
use std::time::Duration;

use kubernetes::owners::Owners;
use kubernetes::pod_lives::{Life, PodLives, Ran};
use model::{Change, Kind, Moment, What};
use serde_json::Value;

use crate::transplant::{Address, Templates};

/// How long pods ran, gathered from changes. Those that are started again whenever they end run for ever.
#[derive(Debug, Default)]
pub struct RunTimes {
    templates: Templates,
    owners: Owners,
    lives: PodLives,
    /// By whom pods belong to, in words; each by when it started.
    of: HashMap<String, Vec<(Moment, Option<Duration>)>>,
}

// === impl RunTimes ===

impl RunTimes {
    /// Of nobody yet. The pods of kinds that describe them belong to those.
    pub fn new(templates: Templates) -> RunTimes {
        RunTimes { templates, ..RunTimes::default() }
    }

    /// Takes a change of any object.
    pub fn see(&mut self, change: &Change) {
        let is_pod = change.key.kind == Kind::new("", "Pod");
        match &change.what {
            What::Deleted(_) if is_pod => {}
            what => self.owners.see(&change.key, what),
        }
        if is_pod {
            if let Some(life) = self.lives.pod(change.at, &change.key, &change.what) {
                self.take(&life);
            }
            if matches!(change.what, What::Deleted(_)) {
                self.owners.forget(&change.key);
            }
        }
    }

    /// All was seen.
    pub fn finish(mut self) -> RunTimes {
        for life in std::mem::take(&mut self.lives).finish() {
            self.take(&life);
        }
        self.of.values_mut().for_each(|times| times.sort_by_key(|(start, _)| *start));
        RunTimes { templates: self.templates, of: self.of, ..RunTimes::default() }
    }

    fn take(&mut self, life: &Life) {
        let (start, ran) = match life.ran {
            Ran::Not => return,
            Ran::Since(start) => (start, None),
            Ran::Between(start, end) => (start, u64::try_from(end.nanos_since(start)).ok()),
        };
        let pod = life.pod.value().unwrap_or_default();
        let ends =
            pod.pointer("/spec/restartPolicy").and_then(Value::as_str).is_some_and(|it| it != "Always");
        let above = self.owners.above(&life.pod).into_iter().rev();
        let mut owners = above.filter(|owner| self.templates.are_in(&owner.kind()));
        let owner = owners.next().map_or_else(
            || Address::of(&life.key),
            |owner| Address {
                kind: owner.kind(),
                namespace: life.key.namespace.clone(),
                name: owner.name.as_str().into(),
            },
        );
        let ran = ran.filter(|_| ends).map(Duration::from_nanos);
        self.of.entry(owner.to_string()).or_default().push((start, ran));
    }

    /// How long the pod ran that was the so manieth of somebody; from the beginning again if there were fewer.
    pub(super) fn of(&self, owner: &str, sequence: usize) -> Option<Duration> {
        let times = self.of.get(owner).filter(|times| !times.is_empty())?;
        times[sequence % times.len()].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use testobjects::{Builder, PodBuilder, resource};

    fn at(second: i64) -> Moment {
        Moment::from_nanos(second * 1_000_000_000)
    }

    fn seen<K>(times: &mut RunTimes, second: i64, object: Builder<K>) {
        let object = object.object();
        let key = object.key(&"film".into());
        times.see(&Change {
            seq: 1,
            at: at(second),
            seen: at(second),
            key,
            what: What::Modified(object),
            inferred: false,
        });
    }

    fn pod(name: &str, restart: &str, from: i64, to: Option<i64>) -> PodBuilder {
        let state = match to {
            Some(to) => {
                json!({"terminated": {"startedAt": at(from).to_string(), "finishedAt": at(to).to_string()}})
            }
            None => json!({"running": {"startedAt": at(from).to_string()}}),
        };
        testobjects::pod(name)
            .namespace("shop")
            .set("spec.restartPolicy", restart)
            .phase(if to.is_some() { "Succeeded" } else { "Running" })
            .set("status.containerStatuses", json!([{"name": "c", "state": state}]))
    }

    #[test]
    fn pods_have_the_times_of_those_they_belong_to() {
        let job = resource("batch/v1", "Job", "sums").namespace("shop").uid("j");
        let job = job.owner_with_uid("CronJob", "nightly", "c");
        let of_job = |pod: PodBuilder| pod.owner_with_uid("Job", "sums", "j");
        let mut times = RunTimes::new(Templates::default());
        seen(&mut times, 1, job);
        seen(&mut times, 40, of_job(pod("late", "Never", 30, Some(40))));
        seen(&mut times, 41, of_job(pod("early", "OnFailure", 10, Some(41))));
        seen(&mut times, 50, pod("bare", "Never", 20, None));
        seen(&mut times, 60, pod("always", "Always", 20, Some(60)));
        let times = times.finish();
        let nightly = "CronJob.batch shop/nightly";
        let seconds = |owner: &str, place| times.of(owner, place).map(|it| it.as_secs());
        assert_eq!([0, 1, 2].map(|place| seconds(nightly, place)), [Some(31), Some(10), Some(31)]);
        assert_eq!(
            ["Pod shop/bare", "Pod shop/always", "Pod shop/nobody"].map(|it| seconds(it, 0)),
            [None; 3]
        );
    }
}
