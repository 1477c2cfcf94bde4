//! StatefulSets: pods that each have a name, made and replaced in the order of their numbers.
//!
//! Claims for their volumes are made with the pods; what a set does with claims of pods that it no longer has is left out.

use std::sync::Arc;

use model::{Moment, NamespacedName, Object};
use serde_json::{Value, json};

use super::api::{StatefulSetSpec, StatefulSetStatus};
use super::pod::{Phase, Pod};
use super::revision::Revision;
use super::revision_history;
use super::table::{Held, created_now};
use super::template::{NewName, NewPod, REVISION_HASH};
use super::{BURST, Context, Controller};

/// The most pods of one set. Numbers beyond are no numbers of pods to Kubernetes.
const MOST: i64 = i32::MAX as i64;

/// A StatefulSet being looked at.
struct Work<'a> {
    held: &'a Held<StatefulSetSpec>,
    current: Arc<Revision>,
    update: Arc<Revision>,
    /// The pods that are to be there, by number, as far as they are.
    replicas: Vec<Option<Arc<Pod>>>,
    /// The pods that are too many, the highest number first.
    condemned: Vec<Arc<Pod>>,
}

/// Whether to go on in this look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Go {
    On,
    Stop,
}

pub(super) fn sync(context: &mut Context<'_>, held: &Arc<Held<StatefulSetSpec>>) {
    let known = held.status.update_revision.strip_prefix(&format!("{}-", held.name.name));
    let is_observed = held.status.observed_generation == held.meta.generation;
    let known = known.filter(|_| is_observed).map(str::to_owned);
    let (update, old) = revision_history::current(context, held, &held.spec.template, known);
    let current = old.iter().find(|revision| *revision.name.name == *held.status.current_revision);
    let current = current.unwrap_or(&update).clone();
    let policy = &held.spec.persistent_volume_claim_retention_policy;
    if [&policy.when_deleted, &policy.when_scaled].iter().any(|when| when.as_deref() == Some("Delete")) {
        context
            .left_out
            .add("claims of a StatefulSet are to be deleted with it or its pods, and are kept".into());
    }
    let pods = context.world.pods_of(&held.uid);
    let mut work = Work::new(held, current, update, &pods);
    let before = context.done.len();
    if !held.is_deleted() {
        work.go_on(context);
    }
    let limit = held.spec.revision_history_limit.unwrap_or(10);
    let live = [work.current.name.clone(), work.update.name.clone()];
    revision_history::forget(context, &old, limit, |revision| {
        let is_of = |pod: &Arc<Pod>| pod.label(REVISION_HASH) == Some(&revision.name.name);
        live.contains(&revision.name) || pods.iter().any(is_of)
    });
    if context.done.len() == before {
        work.tell(context, &pods);
    }
}

// === impl Work ===

impl<'a> Work<'a> {
    fn new(
        held: &'a Held<StatefulSetSpec>,
        current: Arc<Revision>,
        update: Arc<Revision>,
        pods: &[Arc<Pod>],
    ) -> Work<'a> {
        let (start, count) = (held.spec.ordinals.start, held.spec.replicas().min(MOST));
        let mut condemned: Vec<(i64, Arc<Pod>)> = Vec::new();
        // Room for pods that are there; those that are missing come in their time.
        let mut there: Vec<(i64, Arc<Pod>)> = Vec::new();
        for pod in pods {
            let Some(ordinal) = ordinal(&held.name.name, &pod.name.name) else { continue };
            let list = if (start..start.saturating_add(count)).contains(&ordinal) {
                &mut there
            } else {
                &mut condemned
            };
            list.push((ordinal, pod.clone()));
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        let mut replicas = vec![None; usize::try_from(count).unwrap_or(0).min(pods.len() + BURST)];
        for (ordinal, pod) in there {
            let index = usize::try_from(ordinal - start).unwrap_or(usize::MAX);
            if let Some(slot) = replicas.get_mut(index) {
                *slot = Some(pod);
            }
        }
        Work {
            held,
            current,
            update,
            replicas,
            condemned: condemned.into_iter().map(|(_, pod)| pod).collect(),
        }
    }

    /// Does what is next: pods that are missing, then those that are too many, then those of an older template.
    fn go_on(&mut self, context: &mut Context<'_>) {
        let is_ordered = self.held.spec.is_ordered();
        for index in 0..self.replicas.len() {
            if self.see_to(context, index) == Go::Stop && is_ordered {
                return;
            }
        }
        let unavailable = |pod: &&Arc<Pod>| !self.is_available(pod, context.now);
        let first = self.replicas.iter().flatten().find(unavailable);
        let first = first.or_else(|| self.condemned.iter().rev().find(unavailable)).cloned();
        for pod in self.condemned.clone() {
            let is_first = first.as_ref().is_some_and(|first| Arc::ptr_eq(first, &pod));
            if pod.is_deleted() {
                if is_ordered {
                    return;
                }
                continue;
            }
            if is_ordered && !is_first && !(is_running(&pod) && self.is_available(&pod, context.now)) {
                return;
            }
            context.delete_pod(&pod);
            if is_ordered {
                return;
            }
        }
        if self.held.spec.rolls() {
            self.roll(context);
        }
    }

    /// Sees to it that a pod is there and well.
    fn see_to(&self, context: &mut Context<'_>, index: usize) -> Go {
        let Some(pod) = &self.replicas[index] else {
            let ordinal = self.held.spec.ordinals.start + index as i64;
            self.make_claims(context, ordinal);
            context.create_pod(self.pod(ordinal));
            return Go::Stop;
        };
        if pod.is_finished() {
            if !pod.is_deleted() {
                context.delete_pod(pod);
            }
            return Go::Stop;
        }
        if pod.phase == Phase::Pending
            && let Some(ordinal) = ordinal(&self.held.name.name, &pod.name.name)
        {
            self.make_claims(context, ordinal);
        }
        let is_well = !pod.is_deleted() && is_running(pod) && self.is_available(pod, context.now);
        if is_well { Go::On } else { Go::Stop }
    }

    /// Deletes the pod with the highest number that is of an older template, once all above it are well.
    fn roll(&self, context: &mut Context<'_>) {
        let last = usize::try_from(self.held.spec.update_strategy.rolling_update.partition).unwrap_or(0);
        for slot in self.replicas.iter().skip(last).rev() {
            let Some(pod) = slot else { return };
            if pod.label(REVISION_HASH) != Some(&self.update.name.name) && !pod.is_deleted() {
                context.delete_pod(pod);
                return;
            }
            if !self.is_available(pod, context.now) {
                return;
            }
        }
    }

    fn is_available(&self, pod: &Pod, now: Moment) -> bool {
        pod.is_available(self.held.spec.min_ready_seconds, now) && !pod.is_deleted()
    }

    /// The pod of a number: of the older template below the partition.
    fn pod(&self, ordinal: i64) -> NewPod {
        let spec = &self.held.spec;
        let first_new = spec.ordinals.start.saturating_add(spec.update_strategy.rolling_update.partition);
        let revision = if spec.rolls() && ordinal < first_new { &self.current } else { &self.update };
        let name = format!("{}-{ordinal}", self.held.name.name);
        let mut pod = revision.template.pod(self.held);
        pod.metadata.insert("generateName".to_owned(), format!("{}-", self.held.name.name).into());
        pod.label("statefulset.kubernetes.io/pod-name", &name);
        pod.label("apps.kubernetes.io/pod-index", &ordinal.to_string());
        pod.label(REVISION_HASH, &revision.name.name);
        pod.spec.insert("hostname".to_owned(), (*name).into());
        if !spec.service_name.is_empty() {
            pod.spec.insert("subdomain".to_owned(), (*spec.service_name).into());
        }
        let claims: Vec<&str> = self.claims().map(|(claim, _)| claim).collect();
        if !claims.is_empty() {
            let claimed = claims.iter().map(|claim| {
                json!({"name": claim, "persistentVolumeClaim": {"claimName": format!("{claim}-{name}")}})
            });
            let mut volumes: Vec<Value> = claimed.collect();
            let own = pod.spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
            volumes.extend(own.filter(|own| !claims.iter().any(|claim| own["name"] == *claim)).cloned());
            pod.spec.insert("volumes".to_owned(), volumes.into());
        }
        pod.name = NewName::Fixed(name);
        pod
    }

    fn claims(&self) -> impl Iterator<Item = (&str, &Value)> {
        let templates = self.held.spec.volume_claim_templates.iter();
        templates.filter_map(|claim| Some((claim.pointer("/metadata/name")?.as_str()?, claim)))
    }

    fn make_claims(&self, context: &mut Context<'_>, ordinal: i64) {
        let set = &self.held.name;
        for (claim, template) in self.claims() {
            let name = NamespacedName {
                namespace: set.namespace.clone(),
                name: format!("{claim}-{}-{ordinal}", set.name).into(),
            };
            if context.world.claims.contains(&name) {
                continue;
            }
            let labels = template.pointer("/metadata/labels").and_then(Value::as_object);
            let mut labels = labels.cloned().unwrap_or_default();
            labels.extend(self.held.spec.selector.match_labels.clone());
            let metadata = json!({
                "name": *name.name, "namespace": *name.namespace, "uid": context.names.uid(context.now),
                "creationTimestamp": created_now(context.now), "labels": labels,
                "annotations": template.pointer("/metadata/annotations").cloned().unwrap_or_else(|| json!({})),
            });
            let claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata,
                "spec": template["spec"], "status": {"phase": "Pending"},
            });
            context.create(Object::trusted(claim.to_string()));
        }
    }

    /// Keeps the status up to date.
    fn tell(&self, context: &mut Context<'_>, pods: &[Arc<Pod>]) {
        let (spec, wanted) = (&self.held.spec, self.held.spec.replicas());
        let count = |is: &dyn Fn(&Pod) -> bool| pods.iter().filter(|pod| is(pod)).count() as i64;
        let of = |revision: &Revision| {
            count(&|pod| !pod.is_deleted() && pod.label(REVISION_HASH) == Some(&revision.name.name))
        };
        let is_available =
            |pod: &Pod| is_running(pod) && pod.is_available(spec.min_ready_seconds, context.now);
        let mut status = StatefulSetStatus {
            observed_generation: self.held.meta.generation,
            replicas: pods.len() as i64,
            ready_replicas: count(&is_running),
            current_replicas: of(&self.current),
            updated_replicas: of(&self.update),
            current_revision: self.current.name.name.to_string(),
            update_revision: self.update.name.name.to_string(),
            collision_count: Some(self.held.status.collision_count.unwrap_or(0)),
            conditions: self.held.status.conditions.clone(),
            available_replicas: count(&is_available),
        };
        let is_whole = [status.updated_replicas, status.ready_replicas, status.replicas] == [wanted; 3];
        if spec.rolls() && is_whole {
            status.current_replicas = status.updated_replicas;
            status.current_revision = status.update_revision.clone();
        }
        if status != self.held.status {
            context.update(self.held.with_status(&status));
        }
        let later = pods.iter().filter_map(|pod| pod.available_at(spec.min_ready_seconds));
        if let Some(at) = later.filter(|at| *at > context.now).min() {
            context.look_again(at, Controller::StatefulSet, self.held.name.clone());
        }
    }
}

fn is_running(pod: &Pod) -> bool {
    pod.phase == Phase::Running && pod.ready
}

/// The number of a pod, if it is one of that set by its name.
fn ordinal(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse::<i32>().ok().filter(|_| is_number).map(i64::from)
}
