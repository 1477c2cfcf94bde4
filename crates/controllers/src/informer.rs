//! Event handlers: they update the informer cache and enqueue the objects concerned.

use std::sync::Arc;

use kubernetes::read::{nullable, view};
use kubernetes::taints::Taint;
use model::{Moment, NamespacedName, What};
use serde::Deserialize;

use super::controller_revision::ControllerRevision;
use super::informer_cache::{CachedNode, OwnershipKind};
use super::object_table::{CachedObject, Metadata, ObjectSpec, ObjectUpdate, OwnerReference, name_of};
use super::pod::LazyPod;
use super::{Controller, Controllers, cron_job};

#[derive(Deserialize)]
struct NodeJson {
    #[serde(default, deserialize_with = "nullable")]
    metadata: Metadata,
    #[serde(default, deserialize_with = "nullable")]
    spec: NodeSpecJson,
}

#[derive(Default, Deserialize)]
struct NodeSpecJson {
    #[serde(default, deserialize_with = "nullable")]
    taints: Vec<Taint>,
}

impl Controllers {
    /// Handles an informer event. Kinds that no controller reads are ignored.
    pub fn apply(&mut self, now: Moment, event: &What) {
        let meta = event.object().meta();
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, &*meta.kind) {
            ("", "Pod") => self.apply_pod(now, event),
            ("", "Node") => self.apply_node(event),
            ("", "ReplicationController") => {
                let update = self.cache.replication_controllers.apply(event);
                self.update_ownership(OwnershipKind::ReplicationController, event, update);
            }
            ("apps", "ControllerRevision") => self.apply_revision(event),
            ("apps", "DaemonSet") => {
                let update = self.cache.daemon_sets.apply(event);
                let ObjectUpdate { old: before, new: after, .. } =
                    self.update_ownership(OwnershipKind::DaemonSet, event, update);
                if self.queue.is_enabled(Controller::DaemonSet) {
                    if let Some(before) = &before
                        && after.as_ref().is_none_or(|after| after.uid != before.uid)
                    {
                        self.daemon_sets.set_changed(&before.uid, false, false);
                    }
                    if let Some(after) = &after {
                        let same = before.is_some_and(|before| Arc::ptr_eq(&before.spec, &after.spec));
                        self.daemon_sets.set_changed(&after.uid, true, !same);
                    }
                }
                self.queue.add(Controller::DaemonSet, name_of(event.object()));
            }
            ("apps", "Deployment") => {
                let update = self.cache.deployments.apply(event);
                self.update_ownership(OwnershipKind::Deployment, event, update);
                self.queue.add(Controller::Deployment, name_of(event.object()));
            }
            ("apps", "ReplicaSet") => {
                let update = self.cache.replica_sets.apply(event);
                let ObjectUpdate { old: before, new: after, .. } =
                    self.update_ownership(OwnershipKind::ReplicaSet, event, update);
                self.queue.add(Controller::ReplicaSet, name_of(event.object()));
                for cached_object in before.iter().chain(&after) {
                    self.enqueue_owner(cached_object, "Deployment", Controller::Deployment);
                }
            }
            ("apps", "StatefulSet") => {
                let update = self.cache.stateful_sets.apply(event);
                self.update_ownership(OwnershipKind::StatefulSet, event, update);
                self.queue.add(Controller::StatefulSet, name_of(event.object()));
            }
            ("batch", "Job") => {
                let update = self.cache.jobs.apply(event);
                let ObjectUpdate { old: before, new: after, .. } =
                    self.update_ownership(OwnershipKind::Job, event, update);
                self.jobs.job_changed(now, &self.cache, &mut self.queue, before.as_deref(), after.as_deref());
                for cached_object in before.iter().chain(&after) {
                    self.enqueue_owner(cached_object, "CronJob", Controller::CronJob);
                }
            }
            ("batch", "CronJob") => {
                let update = self.cache.cron_jobs.apply(event);
                let ObjectUpdate { old: before, new: after, .. } =
                    self.update_ownership(OwnershipKind::CronJob, event, update);
                let name = name_of(event.object());
                match (before, after) {
                    // Times missed under the new schedule are not made up for.
                    (Some(before), Some(after)) if !before.spec.has_same_schedule(&after.spec) => {
                        if let Some(at) = cron_job::next_sync_after_schedule_change(&after, now) {
                            self.queue.add_at(at, Controller::CronJob, name);
                        }
                    }
                    _ => self.queue.add(Controller::CronJob, name),
                }
            }
            ("policy", "PodDisruptionBudget") => {
                let update = self.cache.pod_disruption_budgets.apply(event);
                let ObjectUpdate { new: after, .. } =
                    self.update_ownership(OwnershipKind::PodDisruptionBudget, event, update);
                if self.queue.is_enabled(Controller::Disruption) {
                    let name = name_of(event.object());
                    self.disruption.budget_changed(&self.cache, &name, after.as_deref());
                    self.queue.add(Controller::Disruption, name);
                }
            }
            ("", "PersistentVolumeClaim") => {
                let name = name_of(event.object());
                match event.state() {
                    Some(_) => self.cache.volume_claims.insert(name),
                    None => self.cache.volume_claims.remove(&name),
                };
            }
            ("scheduling.k8s.io", "PriorityClass") => self.cache.apply_priority_class(event),
            _ => {}
        }
    }

    fn apply_pod(&mut self, now: Moment, event: &What) {
        let name = name_of(event.object());
        let lazy_pod = event.state().map(LazyPod::parse);
        let before = self.cache.pods.set(name.clone(), lazy_pod);
        let after = self.cache.pods.entry(&name);
        let owner_uids = |lazy_pod: Option<&LazyPod>| -> Vec<Arc<str>> {
            lazy_pod
                .map(|lazy_pod| lazy_pod.owners.iter().map(|owner| owner.uid.clone()).collect())
                .unwrap_or_default()
        };
        let (old, new) = (owner_uids(before.as_ref()), owner_uids(after));
        let replaced = before.as_ref().filter(|before| after.is_none_or(|after| after.uid != before.uid));
        if self.queue.is_enabled(Controller::GarbageCollection)
            && let Some(replaced) = replaced
        {
            self.garbage_collector.owner_deleted(&self.cache, &replaced.uid);
        }
        let controller_and_pod = |lazy_pod: Option<&LazyPod>| {
            lazy_pod.and_then(|lazy_pod| Some((lazy_pod.controller()?.clone(), lazy_pod.pod(&name).clone())))
        };
        for (lazy_pod, is_there) in [(before.as_ref(), false), (after, true)] {
            let Some(owner) = lazy_pod.and_then(LazyPod::controller) else { continue };
            let owner_key = NamespacedName { namespace: name.namespace.clone(), name: owner.name.clone() };
            match &*owner.kind {
                "ReplicaSet" => self.queue.add(Controller::ReplicaSet, owner_key),
                "StatefulSet" => self.queue.add(Controller::StatefulSet, owner_key),
                "Job" => {
                    let is_gone = !is_there && after.is_none();
                    // The deletion event has a newer state than the cache, if it has the owners.
                    let last = is_gone
                        .then(|| LazyPod::parse(event.object()))
                        .filter(|last| last.controller().is_some());
                    if let Some((owner, pod)) = controller_and_pod(last.as_ref().or(lazy_pod)) {
                        self.jobs.pod_changed(now, &self.cache, &mut self.queue, &owner, &pod, is_gone);
                    }
                }
                "DaemonSet" if self.queue.is_enabled(Controller::DaemonSet) => {
                    if let Some((owner, pod)) = controller_and_pod(lazy_pod) {
                        self.daemon_sets.pod_changed(&owner.uid, &pod, is_there);
                    }
                    self.queue.add(Controller::DaemonSet, owner_key);
                }
                _ => {}
            }
        }
        if self.queue.is_enabled(Controller::Disruption) {
            for budget in self.disruption.pod_changed(&name, after) {
                self.queue.add(Controller::Disruption, budget);
            }
        }
        // A Deployment with the strategy Recreate waits until the old pods are gone.
        if after.is_none()
            && let Some(owner) = before.as_ref().and_then(LazyPod::controller)
            && let Some(set) = self.cache.replica_sets.resolve_owner(&name.namespace, owner).cloned()
        {
            self.enqueue_owner(&set, "Deployment", Controller::Deployment);
        }
        self.cache.update_owners(
            OwnershipKind::Pod,
            &name,
            old.iter().map(|uid| &**uid),
            new.iter().map(|uid| &**uid),
        );
    }

    fn apply_node(&mut self, event: &What) {
        let name: Arc<str> = (*event.object().meta().name).into();
        let node = event.state().map(|object| {
            view::<NodeJson>(object)
                .map(|json| CachedNode { labels: json.metadata.labels, taints: json.spec.taints })
                .unwrap_or_else(|error| {
                    self.unsupported.add(format!("invalid Node, treated as one without labels: {error}"));
                    CachedNode::default()
                })
        });
        if self.cache.nodes.get(&name) == node.as_ref() {
            return;
        }
        match node {
            Some(node) => self.cache.nodes.insert(name.clone(), node),
            None => self.cache.nodes.remove(&name),
        };
        if self.queue.is_enabled(Controller::DaemonSet) {
            self.daemon_sets.node_changed(&name);
            for set in self.cache.daemon_sets.values() {
                self.queue.add(Controller::DaemonSet, set.name.clone());
            }
        }
    }

    fn apply_revision(&mut self, event: &What) {
        let name = name_of(event.object());
        let ObjectUpdate { old: before, new: after, error: parse_error } =
            self.cache.controller_revisions.apply(event);
        if let Some(error) = parse_error {
            self.unsupported.add(format!("invalid ControllerRevision, treated as deleted: {error}"));
        }
        let owners = |revision: &Option<Arc<ControllerRevision>>| {
            revision.as_ref().map(|revision| revision.owners.clone()).unwrap_or_default()
        };
        let (old, new) = (owners(&before), owners(&after));
        self.cache.update_owners(
            OwnershipKind::ControllerRevision,
            &name,
            old.iter().map(|owner| &*owner.uid),
            new.iter().map(|owner| &*owner.uid),
        );
        for owner in old.iter().chain(&new) {
            let owner_key = NamespacedName { namespace: name.namespace.clone(), name: owner.name.clone() };
            match &*owner.kind {
                "DaemonSet" => self.queue.add(Controller::DaemonSet, owner_key),
                "StatefulSet" => self.queue.add(Controller::StatefulSet, owner_key),
                _ => {}
            }
        }
    }

    /// Updates the ownership graph and the garbage collector for an event.
    fn update_ownership<S: ObjectSpec>(
        &mut self,
        ownership_kind: OwnershipKind,
        event: &What,
        update: ObjectUpdate<CachedObject<S>>,
    ) -> ObjectUpdate<CachedObject<S>> {
        let ObjectUpdate { old: before, new: after, error: parse_error } = update;
        if let Some(error) = parse_error {
            self.unsupported.add(format!("invalid {}, treated as deleted: {error}", S::KIND));
        }
        let name = name_of(event.object());
        let owner_uids = |cached_object: &Option<Arc<CachedObject<S>>>| -> Vec<Arc<str>> {
            let owners = cached_object.iter().flat_map(|cached_object| &cached_object.meta.owner_references);
            owners.map(|owner: &OwnerReference| owner.uid.clone()).collect()
        };
        let (old, new) = (owner_uids(&before), owner_uids(&after));
        self.cache.update_owners(
            ownership_kind,
            &name,
            old.iter().map(|uid| &**uid),
            new.iter().map(|uid| &**uid),
        );
        if self.queue.is_enabled(Controller::GarbageCollection) {
            let is_gone = matches!(event, What::Deleted(_));
            let replaced = before.as_ref().filter(|before| match &after {
                Some(after) => after.uid != before.uid,
                None => is_gone,
            });
            if let Some(replaced) = replaced {
                self.garbage_collector.owner_deleted(&self.cache, &replaced.uid);
            }
            if let Some(after) = &after {
                self.garbage_collector.owner_changed(&self.cache, after);
                if after.meta.finalizers.iter().any(|finalizer| &**finalizer == "orphan") {
                    self.unsupported.add(
                        "orphan deletion is not supported, dependents are deleted too: ".to_owned() + S::KIND,
                    );
                }
            }
        }
        ObjectUpdate { old: before, new: after, error: None }
    }

    fn enqueue_owner<S: ObjectSpec>(
        &mut self,
        cached_object: &CachedObject<S>,
        kind: &str,
        controller: Controller,
    ) {
        if let Some(owner) = cached_object.controller().filter(|owner| *owner.kind == *kind) {
            let name =
                NamespacedName { namespace: cached_object.name.namespace.clone(), name: owner.name.clone() };
            self.queue.add(controller, name);
        }
    }
}
