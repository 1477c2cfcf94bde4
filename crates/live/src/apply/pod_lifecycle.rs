//! Lifecycle of pods that the target's controllers create, as SimKube's mutation webhook handles it.
//!
//! The API server would have to reach a webhook; this only watches pods and writes the annotations that KWOK's stages
//! read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::{Kind, Moment, Object, ObjectRef, What};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Applier, RunTimes, lock};
use crate::list_watch::RequestFailure;
use crate::recording_event::RecordingEvent;
use crate::translate::{COMPLETE_LABEL, COMPLETE_TIME_ANNOTATION, OWNER_ANNOTATION, reset_for_create};

/// Options for the lifecycle of pods.
#[derive(Debug)]
pub struct PodLifecycleOptions {
    /// The recorded run times.
    pub run_times: RunTimes,
    /// The speed of the replay.
    pub speed: f64,
    /// Recreate bare pods that are deleted by others while they run.
    pub reschedule_interrupted: bool,
}

/// The annotation of a clone with the name of the original pod.
const ORIGINAL_OWNER_ANNOTATION: &str = "static.simkube.io/original-owner";
const CLONE_INFIX: &str = "-clone-";
/// The maximum number of attempts after transient failures.
const MAX_ATTEMPTS: u32 = 5;
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The state of a pod.
struct TrackedPod {
    /// Its index among its owner's pods.
    sequence: usize,
    /// Its completion time was written.
    has_completion_time: bool,
}

/// Handles pod events until the channel is closed.
pub async fn drive_pod_lifecycles(
    applier: Arc<Applier>,
    options: PodLifecycleOptions,
    mut updates: mpsc::Receiver<RecordingEvent>,
    now: impl Fn() -> Moment,
) {
    let mut pods: HashMap<Box<str>, TrackedPod> = HashMap::new();
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut tasks = JoinSet::new();
    if options.reschedule_interrupted {
        lock(&applier.deleted).get_or_insert_default();
    }
    while let Some(event) = updates.recv().await {
        let RecordingEvent::Batch(updates) = event else { continue };
        for observed in updates.changes {
            let object = observed.what.object();
            let Some(watched) = WatchedPod::parse(object) else { continue };
            if let What::Deleted(_) = observed.what {
                pods.remove(&*watched.uid);
                let is_own_deletion =
                    lock(&applier.deleted).as_mut().is_some_and(|deletions| deletions.remove(&*watched.uid));
                if options.reschedule_interrupted
                    && !is_own_deletion
                    && watched.is_interrupted()
                    && !applier.is_stopped()
                {
                    let (object_ref, clone) = watched.next_clone();
                    let applier = applier.clone();
                    tasks.spawn(async move { applier.create_clone(&object_ref, &clone).await });
                }
                continue;
            }
            let tracked = pods.entry(watched.uid.clone()).or_insert_with(|| {
                let count = counts.entry(watched.owner.clone()).or_default();
                *count += 1;
                TrackedPod { sequence: *count - 1, has_completion_time: watched.has_completion_time() }
            });
            if watched.phase() != "Running" || std::mem::replace(&mut tracked.has_completion_time, true) {
                continue;
            }
            if let Some(run_time) = options.run_times.run_time(&watched.owner, tracked.sequence) {
                let end = now().plus_nanos((run_time.as_nanos() as f64 / options.speed) as i64);
                let (object_ref, applier) = (watched.object_ref(), applier.clone());
                tasks.spawn(
                    async move { applier.write_completion_time(&object_ref, &watched.uid, end).await },
                );
            }
        }
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
}

impl Applier {
    /// Writes the completion time to a pod.
    async fn write_completion_time(&self, object_ref: &ObjectRef, uid: &str, end: Moment) {
        // KWOK parses whole seconds.
        let end = end.timestamp().strftime("%FT%TZ").to_string();
        let patch = json!({"metadata": {"uid": uid, "labels": {COMPLETE_LABEL: "true"}, "annotations": {COMPLETE_TIME_ANNOTATION: end}}});
        retry(|| self.target.patch(object_ref, "", &patch)).await;
    }

    async fn create_clone(&self, object_ref: &ObjectRef, object: &Value) {
        retry(|| self.target.create(object_ref, object)).await;
    }
}

/// Retries transient failures.
async fn retry<F>(attempt: impl Fn() -> F)
where
    F: Future<Output = Result<Value, RequestFailure>>,
{
    for _ in 0..MAX_ATTEMPTS {
        match attempt().await {
            Err(failure) if failure.is_transient() => sleep(RETRY_INTERVAL).await,
            _ => return,
        }
    }
}

/// A pod as received from the watch.
struct WatchedPod {
    pod: Value,
    uid: Box<str>,
    owner: String,
}

impl WatchedPod {
    fn parse(object: &Object) -> Option<WatchedPod> {
        let pod = object.value().ok()?;
        let text = |pointer: &str| pod.pointer(pointer).and_then(Value::as_str);
        let uid = text("/metadata/uid")?.into();
        let owner = pod["metadata"]["annotations"].get(OWNER_ANNOTATION)?.as_str()?.to_owned();
        Some(WatchedPod { uid, owner, pod })
    }

    fn text(&self, pointer: &str) -> &str {
        self.pod.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    fn phase(&self) -> &str {
        self.text("/status/phase")
    }

    fn object_ref(&self) -> ObjectRef {
        self.pod_ref(self.text("/metadata/name"))
    }

    /// A pod in the same namespace.
    fn pod_ref(&self, name: &str) -> ObjectRef {
        ObjectRef::new(Kind::new("", "Pod"), self.text("/metadata/namespace"), name)
    }

    /// Whether it already has a completion time.
    fn has_completion_time(&self) -> bool {
        self.pod["metadata"]["labels"].get(COMPLETE_LABEL).is_some()
    }

    /// Whether it was running, and has no controller that would recreate it.
    fn is_interrupted(&self) -> bool {
        let owners = self.pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let is_bare = owners.into_iter().flatten().all(|owner| owner["controller"] != true);
        is_bare && self.phase() == "Running"
    }

    /// A copy of the pod under the next clone name.
    fn next_clone(&self) -> (ObjectRef, Value) {
        let name = self.text("/metadata/name");
        let (stem, number) = match name.rsplit_once(CLONE_INFIX) {
            Some((stem, number)) => (stem, number.parse::<u64>().map_or(0, |number| number + 1)),
            None => (name, 0),
        };
        let clone_name = format!("{stem}{CLONE_INFIX}{number}");
        let mut pod = self.pod.clone();
        reset_for_create(&mut pod);
        if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("nodeName");
        }
        let metadata = &mut pod["metadata"];
        metadata["name"] = clone_name.as_str().into();
        metadata["annotations"][ORIGINAL_OWNER_ANNOTATION] = stem.into();
        for (field, name) in [("labels", COMPLETE_LABEL), ("annotations", COMPLETE_TIME_ANNOTATION)] {
            if let Some(fields) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                fields.remove(name);
            }
        }
        (self.pod_ref(&clone_name), pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched_pod(name: &str, owners: Value) -> WatchedPod {
        let pod = testobjects::pod(name)
            .namespace("virtual-shop")
            .uid("u")
            .version(7)
            .set("metadata.ownerReferences", owners)
            .label("app", "a")
            .label(COMPLETE_LABEL, "true")
            .annotation(OWNER_ANNOTATION, "Pod shop/a")
            .annotation(COMPLETE_TIME_ANNOTATION, "2026-11-15T00:00:00Z")
            .on("n1")
            .set("spec.serviceAccountName", "default")
            .phase("Running");
        WatchedPod::parse(&pod.object()).unwrap()
    }

    #[test]
    fn an_interrupted_bare_pod_is_cloned_under_the_next_name() {
        let root = json!([{"kind": "ClusterRole", "name": "kinescope-replay-a", "uid": "r"}]);
        let first = watched_pod("a", root);
        assert!(first.is_interrupted());
        let (object_ref, pod) = first.next_clone();
        assert_eq!(object_ref.to_string(), "Pod virtual-shop/a-clone-0");
        let expected = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a-clone-0", "namespace": "virtual-shop", "labels": {"app": "a"},
                "ownerReferences": [{"kind": "ClusterRole", "name": "kinescope-replay-a", "uid": "r"}],
                "annotations": {OWNER_ANNOTATION: "Pod shop/a", ORIGINAL_OWNER_ANNOTATION: "a"}},
            "spec": {"containers": [{"name": "c"}]}});
        assert_eq!(pod, expected);
        assert_eq!(&*watched_pod("a-clone-0", json!([])).next_clone().0.name, "a-clone-1");
        assert!(
            !watched_pod("a", json!([{"kind": "Job", "name": "j", "uid": "j", "controller": true}]))
                .is_interrupted()
        );
    }
}
