//! Run times of recorded pods, by owner.

use std::collections::HashMap;
use std::time::Duration;

use kubernetes::owners::OwnerIndex;
use kubernetes::pod_lifecycles::{PodLifecycle, PodLifecycleData, PodLifecycleTracker};
use model::{Change, Moment, ObjectRef, What};
use serde_json::Value;

use crate::translate::PodTemplatePaths;

/// Run times of pods, collected from changes. Pods with restartPolicy Always have none.
#[derive(Debug, Default)]
pub struct RunTimes {
    templates: PodTemplatePaths,
    owners: OwnerIndex,
    lives: PodLifecycleTracker,
    /// By the text of the owner's reference; sorted by start time.
    by_owner: HashMap<String, Vec<(Moment, Option<Duration>)>>,
}

// === impl RunTimes ===

impl RunTimes {
    /// No run times yet. The owner of a pod is its topmost owner with a pod template.
    pub fn new(templates: PodTemplatePaths) -> RunTimes {
        RunTimes { templates, ..RunTimes::default() }
    }

    /// Observes a change of any object.
    pub fn observe(&mut self, change: &Change) {
        let is_pod = change.key.kind.is("", "Pod");
        match &change.what {
            What::Deleted(_) if is_pod => {}
            what => self.owners.apply(&change.key, what),
        }
        if is_pod {
            if let Some(lifecycle) = self.lives.apply(change.at, &change.key, &change.what) {
                self.add(&lifecycle);
            }
            if matches!(change.what, What::Deleted(_)) {
                self.owners.remove(&change.key);
            }
        }
    }

    /// Completes the collection.
    pub fn finish(mut self) -> RunTimes {
        for lifecycle in std::mem::take(&mut self.lives).finish() {
            self.add(&lifecycle);
        }
        self.by_owner.values_mut().for_each(|times| times.sort_by_key(|(start, _)| *start));
        RunTimes { templates: self.templates, by_owner: self.by_owner, ..RunTimes::default() }
    }

    fn add(&mut self, lifecycle: &PodLifecycle) {
        let (start, run_time) = match lifecycle.data {
            PodLifecycleData::Empty => return,
            PodLifecycleData::Running(start) => (start, None),
            PodLifecycleData::Finished(start, end) => (start, u64::try_from(end.nanos_since(start)).ok()),
        };
        let pod = lifecycle.pod.value().unwrap_or_default();
        let is_finite = pod
            .pointer("/spec/restartPolicy")
            .and_then(Value::as_str)
            .is_some_and(|policy| policy != "Always");
        let ancestors = self.owners.transitive_owners(&lifecycle.pod).into_iter().rev();
        let mut owners = ancestors.filter(|owner| self.templates.has_kind(&owner.kind()));
        let owner = owners.next().map_or_else(
            || ObjectRef::from(&lifecycle.key),
            |owner| ObjectRef {
                kind: owner.kind(),
                namespace: lifecycle.key.namespace.clone(),
                name: owner.name.clone(),
            },
        );
        let run_time = run_time.filter(|_| is_finite).map(Duration::from_nanos);
        self.by_owner.entry(owner.to_string()).or_default().push((start, run_time));
    }

    /// The run time of an owner's pod by index, modulo the number of recorded pods.
    pub(super) fn run_time(&self, owner: &str, sequence: usize) -> Option<Duration> {
        let times = self.by_owner.get(owner).filter(|times| !times.is_empty())?;
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

    fn observe<K>(times: &mut RunTimes, second: i64, object: Builder<K>) {
        let object = object.object();
        let key = object.key(&"film".into());
        times.observe(&Change {
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
    fn pods_have_the_run_times_of_their_owner() {
        let job = resource("batch/v1", "Job", "sums").namespace("shop").uid("j");
        let job = job.owner_with_uid("CronJob", "nightly", "c");
        let of_job = |pod: PodBuilder| pod.owner_with_uid("Job", "sums", "j");
        let mut times = RunTimes::new(PodTemplatePaths::default());
        observe(&mut times, 1, job);
        observe(&mut times, 40, of_job(pod("late", "Never", 30, Some(40))));
        observe(&mut times, 41, of_job(pod("early", "OnFailure", 10, Some(41))));
        observe(&mut times, 50, pod("bare", "Never", 20, None));
        observe(&mut times, 60, pod("always", "Always", 20, Some(60)));
        let times = times.finish();
        let nightly = "CronJob.batch shop/nightly";
        let seconds = |owner: &str, sequence| times.run_time(owner, sequence).map(|it| it.as_secs());
        assert_eq!([0, 1, 2].map(|sequence| seconds(nightly, sequence)), [Some(31), Some(10), Some(31)]);
        assert_eq!(
            ["Pod shop/bare", "Pod shop/always", "Pod shop/nobody"].map(|it| seconds(it, 0)),
            [None; 3]
        );
    }
}
