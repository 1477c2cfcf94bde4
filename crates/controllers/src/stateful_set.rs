//! The StatefulSet controller.
//!
//! PersistentVolumeClaims are created with the pods; their deletion (the retention policy) is not simulated.

use std::sync::Arc;

use kubernetes::objects::Phase;
use model::{Moment, NamespacedName, Object};
use serde_json::{Value, json};

use super::api::{StatefulSetSpec, StatefulSetStatus};
use super::controller_revision::ControllerRevision;
use super::object_table::{CachedObject, creation_timestamp};
use super::pod::Pod;
use super::pod_template::{CONTROLLER_REVISION_HASH_LABEL, NewPod, NewPodName};
use super::revision_history;
use super::{BURST_REPLICAS, Controller, EventText, SyncContext};

/// The highest ordinal that Kubernetes parses.
const MAX_ORDINAL: i64 = i32::MAX as i64;

/// The sync of a StatefulSet.
struct StatefulSetSync<'a> {
    stateful_set: &'a CachedObject<StatefulSetSpec>,
    current_revision: Arc<ControllerRevision>,
    update_revision: Arc<ControllerRevision>,
    /// The desired replicas by ordinal, as far as their pods exist.
    replicas: Vec<Option<Arc<Pod>>>,
    /// The condemned pods, the highest ordinal first.
    condemned: Vec<Arc<Pod>>,
}

/// Whether an ordered set continues with the next replica in this sync.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReplicaLoop {
    Continue,
    Exit,
}

pub(super) fn sync(context: &mut SyncContext<'_>, stateful_set: &Arc<CachedObject<StatefulSetSpec>>) {
    let recorded_hash =
        stateful_set.status.update_revision.strip_prefix(&format!("{}-", stateful_set.name.name));
    let is_observed = stateful_set.status.observed_generation == stateful_set.meta.generation;
    let recorded_hash = recorded_hash.filter(|_| is_observed).map(str::to_owned);
    let (update, old) = revision_history::get_or_create_current(
        context,
        stateful_set,
        &stateful_set.spec.template,
        recorded_hash,
    );
    let current = old.iter().find(|revision| *revision.name.name == *stateful_set.status.current_revision);
    let current = current.unwrap_or(&update).clone();
    let policy = &stateful_set.spec.persistent_volume_claim_retention_policy;
    if [&policy.when_deleted, &policy.when_scaled].iter().any(|when| when.as_deref() == Some("Delete")) {
        context.unsupported.add(
            "persistentVolumeClaimRetentionPolicy Delete of a StatefulSet ignored: claims are kept".into(),
        );
    }
    let pods = context.cache.pods_of(&stateful_set.uid);
    let mut stateful_set_sync = StatefulSetSync::new(stateful_set, current, update, &pods);
    let before = context.api_calls.len();
    if !stateful_set.is_deleting() {
        stateful_set_sync.update_pods(context);
    }
    let limit = stateful_set.spec.revision_history_limit.unwrap_or(10);
    let live_revisions =
        [stateful_set_sync.current_revision.name.clone(), stateful_set_sync.update_revision.name.clone()];
    revision_history::truncate_history(context, &old, limit, |revision| {
        let has_revision =
            |pod: &Arc<Pod>| pod.label(CONTROLLER_REVISION_HASH_LABEL) == Some(&revision.name.name);
        live_revisions.contains(&revision.name) || pods.iter().any(has_revision)
    });
    if context.api_calls.len() == before {
        stateful_set_sync.update_status(context, &pods);
    }
}

// === impl StatefulSetSync ===

impl<'a> StatefulSetSync<'a> {
    fn new(
        stateful_set: &'a CachedObject<StatefulSetSpec>,
        current: Arc<ControllerRevision>,
        update: Arc<ControllerRevision>,
        pods: &[Arc<Pod>],
    ) -> StatefulSetSync<'a> {
        let (start, count) =
            (stateful_set.spec.ordinals.start, stateful_set.spec.replicas().min(MAX_ORDINAL));
        let mut condemned: Vec<(i64, Arc<Pod>)> = Vec::new();
        // The existing pods with a desired ordinal. `replicas` is bounded, as missing pods beyond a burst follow in
        // later syncs.
        let mut existing_pods: Vec<(i64, Arc<Pod>)> = Vec::new();
        for pod in pods {
            let Some(ordinal) = ordinal(&stateful_set.name.name, &pod.name.name) else { continue };
            let target_list = if (start..start.saturating_add(count)).contains(&ordinal) {
                &mut existing_pods
            } else {
                &mut condemned
            };
            target_list.push((ordinal, pod.clone()));
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        let mut replicas = vec![None; usize::try_from(count).unwrap_or(0).min(pods.len() + BURST_REPLICAS)];
        for (ordinal, pod) in existing_pods {
            let index = usize::try_from(ordinal - start).unwrap_or(usize::MAX);
            if let Some(replica) = replicas.get_mut(index) {
                *replica = Some(pod);
            }
        }
        StatefulSetSync {
            stateful_set,
            current_revision: current,
            update_revision: update,
            replicas,
            condemned: condemned.into_iter().map(|(_, pod)| pod).collect(),
        }
    }

    /// Creates missing pods, then deletes condemned ones, then replaces pods of an older revision.
    fn update_pods(&mut self, context: &mut SyncContext<'_>) {
        let is_ordered = self.stateful_set.spec.is_ordered();
        for index in 0..self.replicas.len() {
            if self.process_replica(context, index) == ReplicaLoop::Exit && is_ordered {
                return;
            }
        }
        let unavailable = |pod: &&Arc<Pod>| !self.is_available(pod, context.now);
        let first = self.replicas.iter().flatten().find(unavailable);
        let first = first.or_else(|| self.condemned.iter().rev().find(unavailable)).cloned();
        for pod in self.condemned.clone() {
            let is_first = first.as_ref().is_some_and(|first| Arc::ptr_eq(first, &pod));
            if pod.is_deleting() {
                if is_ordered {
                    return;
                }
                continue;
            }
            if is_ordered
                && !is_first
                && !(is_running_and_ready(&pod) && self.is_available(&pod, context.now))
            {
                return;
            }
            self.delete_pod(context, &pod);
            if is_ordered {
                return;
            }
        }
        if self.stateful_set.spec.is_rolling_update() {
            self.rolling_update(context);
        }
    }

    /// Creates or replaces a replica's pod if needed, and reports whether it is healthy.
    fn process_replica(&self, context: &mut SyncContext<'_>, index: usize) -> ReplicaLoop {
        let Some(pod) = &self.replicas[index] else {
            let ordinal = self.stateful_set.spec.ordinals.start + index as i64;
            self.create_missing_claims(context, ordinal);
            self.create_pod(context, ordinal);
            return ReplicaLoop::Exit;
        };
        if pod.is_finished() {
            if !pod.is_deleting() {
                self.delete_pod(context, pod);
            }
            return ReplicaLoop::Exit;
        }
        if pod.status.phase == Phase::Pending
            && let Some(ordinal) = ordinal(&self.stateful_set.name.name, &pod.name.name)
        {
            self.create_missing_claims(context, ordinal);
        }
        let is_healthy =
            !pod.is_deleting() && is_running_and_ready(pod) && self.is_available(pod, context.now);
        if is_healthy { ReplicaLoop::Continue } else { ReplicaLoop::Exit }
    }

    /// Deletes the pod with the highest ordinal of an older revision, once all above it are available.
    fn rolling_update(&self, context: &mut SyncContext<'_>) {
        let last =
            usize::try_from(self.stateful_set.spec.update_strategy.rolling_update.partition).unwrap_or(0);
        for replica in self.replicas.iter().skip(last).rev() {
            let Some(pod) = replica else { return };
            if pod.label(CONTROLLER_REVISION_HASH_LABEL) != Some(&self.update_revision.name.name)
                && !pod.is_deleting()
            {
                self.delete_pod(context, pod);
                return;
            }
            if !self.is_available(pod, context.now) {
                return;
            }
        }
    }

    fn is_available(&self, pod: &Pod, now: Moment) -> bool {
        pod.is_available(self.stateful_set.spec.min_ready_seconds, now) && !pod.is_deleting()
    }

    /// The new pod of an ordinal; below the partition it has the current revision, not the update revision.
    fn new_pod(&self, ordinal: i64) -> NewPod {
        let spec = &self.stateful_set.spec;
        let first_updated = spec.ordinals.start.saturating_add(spec.update_strategy.rolling_update.partition);
        let revision = if spec.is_rolling_update() && ordinal < first_updated {
            &self.current_revision
        } else {
            &self.update_revision
        };
        let name = format!("{}-{ordinal}", self.stateful_set.name.name);
        let mut pod = revision.template.new_pod(self.stateful_set);
        pod.metadata.insert("generateName".to_owned(), format!("{}-", self.stateful_set.name.name).into());
        pod.set_label("statefulset.kubernetes.io/pod-name", &name);
        pod.set_label("apps.kubernetes.io/pod-index", &ordinal.to_string());
        pod.set_label(CONTROLLER_REVISION_HASH_LABEL, &revision.name.name);
        pod.spec.insert("hostname".to_owned(), (*name).into());
        if !spec.service_name.is_empty() {
            pod.spec.insert("subdomain".to_owned(), (*spec.service_name).into());
        }
        let claims: Vec<&str> = self.claim_templates().map(|(claim, _)| claim).collect();
        if !claims.is_empty() {
            let claim_volumes = claims.iter().map(|claim| {
                json!({"name": claim, "persistentVolumeClaim": {"claimName": format!("{claim}-{name}")}})
            });
            let mut volumes: Vec<Value> = claim_volumes.collect();
            let template_volumes = pod.spec.get("volumes").and_then(Value::as_array).into_iter().flatten();
            volumes.extend(
                template_volumes
                    .filter(|template_volumes| !claims.iter().any(|claim| template_volumes["name"] == *claim))
                    .cloned(),
            );
            pod.spec.insert("volumes".to_owned(), volumes.into());
        }
        pod.name = NewPodName::Fixed(name);
        pod
    }

    fn create_pod(&self, context: &mut SyncContext<'_>, ordinal: i64) {
        context.create_pod(self.new_pod(ordinal));
        if let Some(name) = context.reported_name() {
            self.report_change(context, "Create", format!("Pod {name}"), "successful");
        }
    }

    fn delete_pod(&self, context: &mut SyncContext<'_>, pod: &Pod) {
        context.delete_pod(pod);
        self.report_change(context, "Delete", format!("Pod {}", pod.name.name), "successful");
    }

    /// Reports the change of an object that was made last.
    fn report_change(
        &self,
        context: &mut SyncContext<'_>,
        verb: &'static str,
        subject: String,
        outcome: &str,
    ) {
        let set = &self.stateful_set.name.name;
        let (success, failure) = match verb {
            "Create" => ("SuccessfulCreate", "FailedCreate"),
            _ => ("SuccessfulDelete", "FailedDelete"),
        };
        let text = EventText::normal(success, format!("{verb} {subject} in StatefulSet {set} {outcome}"));
        // Of a claim that cannot be created, Kubernetes says for which pod.
        let subject = subject.replacen(" Pod ", " for Pod ", 1);
        let failed = format!("{verb} {subject} in StatefulSet {set} failed error: ");
        context.report_call(self.stateful_set, text, Some(EventText::warning(failure, failed)));
    }

    fn claim_templates(&self) -> impl Iterator<Item = (&str, &Value)> {
        let templates = self.stateful_set.spec.volume_claim_templates.iter();
        templates.filter_map(|claim| Some((claim.pointer("/metadata/name")?.as_str()?, claim)))
    }

    fn create_missing_claims(&self, context: &mut SyncContext<'_>, ordinal: i64) {
        let set = &self.stateful_set.name;
        for (claim, template) in self.claim_templates() {
            let name = NamespacedName {
                namespace: set.namespace.clone(),
                name: format!("{claim}-{}-{ordinal}", set.name).into(),
            };
            if context.cache.volume_claims.contains(&name) {
                continue;
            }
            let labels = template.pointer("/metadata/labels").and_then(Value::as_object);
            let mut labels = labels.cloned().unwrap_or_default();
            labels.extend(self.stateful_set.spec.selector.match_labels.clone());
            let metadata = json!({
                "name": *name.name, "namespace": *name.namespace, "uid": context.name_generator.uid(context.now),
                "creationTimestamp": creation_timestamp(context.now), "labels": labels,
                "annotations": template.pointer("/metadata/annotations").cloned().unwrap_or_else(|| json!({})),
            });
            let claim = json!({
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata,
                "spec": template["spec"], "status": {"phase": "Pending"},
            });
            context.create(Object::from_trusted(claim.to_string()));
            let subject = format!("Claim {} Pod {}-{ordinal}", name.name, set.name);
            self.report_change(context, "Create", subject, "success");
        }
    }

    /// Updates the status.
    fn update_status(&self, context: &mut SyncContext<'_>, pods: &[Arc<Pod>]) {
        let (spec, desired_replicas) = (&self.stateful_set.spec, self.stateful_set.spec.replicas());
        let count = |matches: &dyn Fn(&Pod) -> bool| pods.iter().filter(|pod| matches(pod)).count() as i64;
        let pods_of_revision = |revision: &ControllerRevision| {
            count(&|pod| {
                !pod.is_deleting() && pod.label(CONTROLLER_REVISION_HASH_LABEL) == Some(&revision.name.name)
            })
        };
        let is_available =
            |pod: &Pod| is_running_and_ready(pod) && pod.is_available(spec.min_ready_seconds, context.now);
        let mut status = StatefulSetStatus {
            observed_generation: self.stateful_set.meta.generation,
            replicas: pods.len() as i64,
            ready_replicas: count(&is_running_and_ready),
            current_replicas: pods_of_revision(&self.current_revision),
            updated_replicas: pods_of_revision(&self.update_revision),
            current_revision: self.current_revision.name.name.to_string(),
            update_revision: self.update_revision.name.name.to_string(),
            collision_count: Some(self.stateful_set.status.collision_count.unwrap_or(0)),
            conditions: self.stateful_set.status.conditions.clone(),
            available_replicas: count(&is_available),
        };
        let is_complete =
            [status.updated_replicas, status.ready_replicas, status.replicas] == [desired_replicas; 3];
        if spec.is_rolling_update() && is_complete {
            status.current_replicas = status.updated_replicas;
            status.current_revision = status.update_revision.clone();
        }
        if status != self.stateful_set.status {
            context.update(self.stateful_set.with_status(&status));
        }
        let available_times = pods.iter().filter_map(|pod| pod.available_at(spec.min_ready_seconds));
        if let Some(at) = available_times.filter(|at| *at > context.now).min() {
            context.enqueue_at(at, Controller::StatefulSet, self.stateful_set.name.clone());
        }
    }
}

fn is_running_and_ready(pod: &Pod) -> bool {
    pod.status.phase == Phase::Running && pod.ready
}

/// The ordinal of a pod, if its name is one of the set's.
fn ordinal(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse::<i32>().ok().filter(|_| is_number).map(i64::from)
}
