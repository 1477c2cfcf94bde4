//! Event handlers: they update the informer cache and enqueue the objects concerned.

use std::sync::Arc;

use kubernetes::objects::{NodeEvent, OwnerReference, PodEvent};
use model::{Moment, NamespacedName, What};

use super::controller_revision::ControllerRevision;
use super::informer_cache::{CachedNode, OwnershipKind};
use super::object_table::{CachedObject, ObjectSpec, ObjectUpdate, name_of};
use super::pod::Pod;
use super::{Controller, Controllers, cron_job};

impl Controllers {
    /// Handles an informer event. Kinds that no controller reads are ignored.
    pub fn apply(&mut self, now: Moment, event: &What) {
        let meta = event.object().meta();
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, &*meta.kind) {
            ("", "Pod") => self.apply_pod(now, &PodEvent::of_pod(event)),
            ("", "Node") => self.apply_node(&NodeEvent::of_node(event)),
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
                if let Some(before) = &before
                    && after.as_ref().is_none_or(|after| after.uid != before.uid)
                {
                    self.replica_sets.set_deleted(&before.uid);
                }
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

    /// Handles an informer event of a pod.
    pub fn apply_pod(&mut self, now: Moment, event: &PodEvent) {
        let name = event.object().name.clone();
        let after = event.state().map(|view| Arc::new(Pod::new(view.clone())));
        let before = self.cache.pods.set(&name, after.clone());
        let (before, after) = (before.as_ref(), after.as_ref());
        let replaced = before.filter(|before| after.is_none_or(|after| after.uid != before.uid));
        if self.queue.is_enabled(Controller::GarbageCollection)
            && let Some(replaced) = replaced
        {
            self.garbage_collector.owner_deleted(&self.cache, &replaced.uid);
        }
        for (pod, is_there) in [(before, false), (after, true)] {
            let Some((pod, owner)) = pod.and_then(|pod| Some((pod, pod.controller()?))) else { continue };
            self.replica_sets.pod_changed(&owner.uid, &name);
            let owner_key = NamespacedName { namespace: name.namespace.clone(), name: owner.name.clone() };
            match &*owner.kind {
                "ReplicaSet" => self.queue.add(Controller::ReplicaSet, owner_key),
                "StatefulSet" => self.queue.add(Controller::StatefulSet, owner_key),
                "Job" => {
                    let is_gone = !is_there && after.is_none();
                    // The deletion event has a newer state than the cache, if it has the owners.
                    let last = is_gone.then(|| Pod::new(event.object().clone()));
                    let last = last.as_ref().and_then(|last| Some((last, last.controller()?)));
                    let (pod, owner) = last.unwrap_or((pod, owner));
                    self.jobs.pod_changed(now, &self.cache, &mut self.queue, owner, pod, is_gone);
                }
                "DaemonSet" if self.queue.is_enabled(Controller::DaemonSet) => {
                    self.daemon_sets.pod_changed(&owner.uid, pod, is_there);
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
            && let Some(owner) = before.and_then(|before| before.controller())
            && let Some(set) = self.cache.replica_sets.resolve_owner(&name.namespace, owner).cloned()
        {
            self.enqueue_owner(&set, "Deployment", Controller::Deployment);
        }
        let owners = |pod: Option<&Arc<Pod>>| pod.map(|pod| pod.owner_references.clone()).unwrap_or_default();
        let (old, new) = (owners(before), owners(after));
        self.cache.update_owners(
            OwnershipKind::Pod,
            &name,
            old.iter().map(|owner| &*owner.uid),
            new.iter().map(|owner| &*owner.uid),
        );
    }

    /// Handles an informer event of a node.
    pub fn apply_node(&mut self, event: &NodeEvent) {
        let name = event.object().name.clone();
        let node = event.state().map(|view| {
            if let Some(error) = &view.read_error {
                self.unsupported.add(format!("invalid Node, treated as one without labels: {error}"));
            }
            CachedNode { labels: view.labels.clone(), taints: view.taints.clone() }
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
        for owner in old.iter().chain(&*new) {
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
            let owners = cached_object.iter().flat_map(|cached_object| &*cached_object.meta.owner_references);
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
