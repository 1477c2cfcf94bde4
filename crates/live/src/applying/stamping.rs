//! What others made of our objects, told how long it runs: the part of SimKube's webhook.
//!
//! A webhook would have to be reached by the API server; this only watches, and writes on pods what KWOK's stages read.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::{Moment, Object, What};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::{Applier, RunTimes, lock};
use crate::news::Event;
use crate::transplant::{Address, COMPLETE, COMPLETE_TIME, OWNER, as_new};
use crate::watching::Failure;

/// How pods are treated.
#[derive(Debug)]
pub struct Stamped {
    /// How long they run.
    pub times: RunTimes,
    /// So many times as fast as they did.
    pub speed: f64,
    /// Pods of nobody that somebody else deletes while they run are made again.
    pub clones: bool,
}

/// The name that a clone is made from.
const ORIGINAL: &str = "static.simkube.io/original-owner";
const CLONE: &str = "-clone-";
/// How often something is tried that fails for a reason that may pass.
const ATTEMPTS: u32 = 5;
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

/// What is known of a pod.
struct Pod {
    /// Which of its owner's.
    sequence: usize,
    /// Its end was written.
    is_stamped: bool,
}

/// Treats pods as they are told of, until nobody tells any more.
pub async fn stamp(
    applier: Arc<Applier>,
    how: Stamped,
    mut news: mpsc::Receiver<Event>,
    now: impl Fn() -> Moment,
) {
    let mut pods: HashMap<Box<str>, Pod> = HashMap::new();
    let mut counts: HashMap<String, usize> = HashMap::new();
    let mut tasks = JoinSet::new();
    if how.clones {
        lock(&applier.deleted).get_or_insert_default();
    }
    while let Some(event) = news.recv().await {
        let Event::News(news) = event else { continue };
        for observed in news.changes {
            let object = observed.what.object();
            let Some(seen) = Seen::of(object) else { continue };
            if let What::Deleted(_) = observed.what {
                pods.remove(&*seen.uid);
                let is_ours = lock(&applier.deleted).as_mut().is_some_and(|ours| ours.remove(&*seen.uid));
                if how.clones && !is_ours && seen.is_interrupted() && !applier.is_stopped() {
                    let (address, clone) = seen.again();
                    let applier = applier.clone();
                    tasks.spawn(async move { applier.make(&address, &clone).await });
                }
                continue;
            }
            let pod = pods.entry(seen.uid.clone()).or_insert_with(|| {
                let count = counts.entry(seen.owner.clone()).or_default();
                *count += 1;
                Pod { sequence: *count - 1, is_stamped: seen.is_stamped() }
            });
            if seen.phase() != "Running" || std::mem::replace(&mut pod.is_stamped, true) {
                continue;
            }
            if let Some(ran) = how.times.of(&seen.owner, pod.sequence) {
                let end = now().plus_nanos((ran.as_nanos() as f64 / how.speed) as i64);
                let (address, applier) = (seen.address(), applier.clone());
                tasks.spawn(async move { applier.let_end(&address, &seen.uid, end).await });
            }
        }
        while tasks.try_join_next().is_some() {}
    }
    while tasks.join_next().await.is_some() {}
}

impl Applier {
    /// Writes on a pod when it ends.
    async fn let_end(&self, address: &Address, uid: &str, end: Moment) {
        // KWOK reads whole seconds.
        let end = end.timestamp().strftime("%FT%TZ").to_string();
        let patch = json!({"metadata": {"uid": uid, "labels": {COMPLETE: "true"}, "annotations": {COMPLETE_TIME: end}}});
        insist(|| self.target.patch(address, "", &patch)).await;
    }

    async fn make(&self, address: &Address, object: &Value) {
        insist(|| self.target.create(address, object)).await;
    }
}

/// Tries until it is done, or will never be.
async fn insist<F>(attempt: impl Fn() -> F)
where
    F: Future<Output = Result<Value, Failure>>,
{
    for _ in 0..ATTEMPTS {
        match attempt().await {
            Err(failure) if failure.is_passing() => sleep(BETWEEN_ATTEMPTS).await,
            _ => return,
        }
    }
}

/// A pod as it is told of.
struct Seen {
    pod: Value,
    uid: Box<str>,
    owner: String,
}

impl Seen {
    fn of(object: &Object) -> Option<Seen> {
        let pod = object.value().ok()?;
        let text = |place: &str| pod.pointer(place).and_then(Value::as_str);
        let uid = text("/metadata/uid")?.into();
        let owner = pod["metadata"]["annotations"].get(OWNER)?.as_str()?.to_owned();
        Some(Seen { uid, owner, pod })
    }

    fn text(&self, place: &str) -> &str {
        self.pod.pointer(place).and_then(Value::as_str).unwrap_or_default()
    }

    fn phase(&self) -> &str {
        self.text("/status/phase")
    }

    fn address(&self) -> Address {
        Address::of_pod(self.text("/metadata/namespace"), self.text("/metadata/name"))
    }

    /// Whether its end stands on it, from before.
    fn is_stamped(&self) -> bool {
        self.pod["metadata"]["labels"].get(COMPLETE).is_some()
    }

    /// Whether it ran, and nobody makes it again.
    fn is_interrupted(&self) -> bool {
        let owners = self.pod.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let is_bare = owners.into_iter().flatten().all(|owner| owner["controller"] != true);
        is_bare && self.phase() == "Running"
    }

    /// The same pod once more, under the next name.
    fn again(&self) -> (Address, Value) {
        let name = self.text("/metadata/name");
        let (stem, number) = match name.rsplit_once(CLONE) {
            Some((stem, number)) => (stem, number.parse::<u64>().map_or(0, |number| number + 1)),
            None => (name, 0),
        };
        let new = format!("{stem}{CLONE}{number}");
        let mut pod = self.pod.clone();
        as_new(&mut pod);
        if let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) {
            spec.remove("nodeName");
        }
        let metadata = &mut pod["metadata"];
        metadata["name"] = new.as_str().into();
        metadata["annotations"][ORIGINAL] = stem.into();
        for (field, name) in [("labels", COMPLETE), ("annotations", COMPLETE_TIME)] {
            if let Some(fields) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                fields.remove(name);
            }
        }
        (Address::of_pod(self.text("/metadata/namespace"), &new), pod)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(name: &str, owners: Value) -> Seen {
        let pod = testobjects::pod(name)
            .namespace("virtual-shop")
            .uid("u")
            .version(7)
            .set("metadata.ownerReferences", owners)
            .label("app", "a")
            .label(COMPLETE, "true")
            .annotation(OWNER, "Pod shop/a")
            .annotation(COMPLETE_TIME, "2026-11-15T00:00:00Z")
            .on("n1")
            .set("spec.serviceAccountName", "default")
            .phase("Running");
        Seen::of(&pod.object()).unwrap()
    }

    #[test]
    fn a_pod_of_nobody_is_made_again_under_the_next_name() {
        let root = json!([{"kind": "ClusterRole", "name": "kinescope-replay-a", "uid": "r"}]);
        let first = seen("a", root);
        assert!(first.is_interrupted());
        let (address, pod) = first.again();
        assert_eq!(address.to_string(), "Pod virtual-shop/a-clone-0");
        let expected = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a-clone-0", "namespace": "virtual-shop", "labels": {"app": "a"},
                "ownerReferences": [{"kind": "ClusterRole", "name": "kinescope-replay-a", "uid": "r"}],
                "annotations": {OWNER: "Pod shop/a", ORIGINAL: "a"}},
            "spec": {"containers": [{"name": "c"}]}});
        assert_eq!(pod, expected);
        assert_eq!(&*seen("a-clone-0", json!([])).again().0.name, "a-clone-1");
        assert!(
            !seen("a", json!([{"kind": "Job", "name": "j", "uid": "j", "controller": true}]))
                .is_interrupted()
        );
    }
}
