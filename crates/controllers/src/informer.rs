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
    pub fn apply(&mut self, now: Moment, what: &What) {
        let meta = what.object().meta();
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, &*meta.kind) {
            ("", "Pod") => self.apply_pod(now, what),
            ("", "Node") => self.apply_node(what),
            ("", "ReplicationController") => {
                let turn = self.cache.replication_controllers.apply(what);
                self.update_ownership(OwnershipKind::ReplicationController, what, turn);
            }
            ("apps", "ControllerRevision") => self.apply_revision(what),
            ("apps", "DaemonSet") => {
                let turn = self.cache.daemon_sets.apply(what);
                let ObjectUpdate { old: before, new: after, .. } =
                    self.update_ownership(OwnershipKind::DaemonSet, what, turn);
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
                self.queue.add(Controller::DaemonSet, name_of(what.object()));
            }
            ("apps", "Deployment") => {
                let turn = self.cache.deployments.apply(what);
                self.update_ownership(OwnershipKind::Deployment, what, turn);
                self.queue.add(Controller::Deployment, name_of(what.object()));
            }
            ("apps", "ReplicaSet") => {
                let turn = self.cache.replica_sets.apply(what);
                let ObjectUpdate { old: before, new: after, .. } =
                    self.update_ownership(OwnershipKind::ReplicaSet, what, turn);
                self.queue.add(Controller::ReplicaSet, name_of(what.object()));
                for held in before.iter().chain(&after) {
                    self.enqueue_owner(held, "Deployment", Controller::Deployment);
                }
            }
            ("apps", "StatefulSet") => {
                let turn = self.cache.stateful_sets.apply(what);
                self.update_ownership(OwnershipKind::StatefulSet, what, turn);
                self.queue.add(Controller::StatefulSet, name_of(what.object()));
            }
            ("batch", "Job") => {
                let turn = self.cache.jobs.apply(what);
                let ObjectUpdate { old: before, new: after, .. } =
                    self.update_ownership(OwnershipKind::Job, what, turn);
                self.jobs.job_changed(now, &self.cache, &mut self.queue, before.as_deref(), after.as_deref());
                for held in before.iter().chain(&after) {
                    self.enqueue_owner(held, "CronJob", Controller::CronJob);
                }
            }
            ("batch", "CronJob") => {
                let turn = self.cache.cron_jobs.apply(what);
                let ObjectUpdate { old: before, new: after, .. } =
                    self.update_ownership(OwnershipKind::CronJob, what, turn);
                let name = name_of(what.object());
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
                let turn = self.cache.pod_disruption_budgets.apply(what);
                let ObjectUpdate { new: after, .. } =
                    self.update_ownership(OwnershipKind::PodDisruptionBudget, what, turn);
                if self.queue.is_enabled(Controller::Disruption) {
                    let name = name_of(what.object());
                    self.disruption.budget_changed(&self.cache, &name, after.as_deref());
                    self.queue.add(Controller::Disruption, name);
                }
            }
            ("", "PersistentVolumeClaim") => {
                let name = name_of(what.object());
                match what.state() {
                    Some(_) => self.cache.volume_claims.insert(name),
                    None => self.cache.volume_claims.remove(&name),
                };
            }
            ("scheduling.k8s.io", "PriorityClass") => self.cache.apply_priority_class(what),
            _ => {}
        }
    }

    fn apply_pod(&mut self, now: Moment, what: &What) {
        let name = name_of(what.object());
        let entry = what.state().map(LazyPod::parse);
        let before = self.cache.pods.set(name.clone(), entry);
        let after = self.cache.pods.entry(&name);
        let of = |entry: Option<&LazyPod>| -> Vec<Arc<str>> {
            entry
                .map(|entry| entry.owners.iter().map(|owner| owner.uid.clone()).collect())
                .unwrap_or_default()
        };
        let (old, new) = (of(before.as_ref()), of(after));
        let replaced = before.as_ref().filter(|before| after.is_none_or(|after| after.uid != before.uid));
        if self.queue.is_enabled(Controller::GarbageCollection)
            && let Some(replaced) = replaced
        {
            self.garbage_collector.owner_deleted(&self.cache, &replaced.uid);
        }
        let managed = |entry: Option<&LazyPod>| {
            entry.and_then(|entry| Some((entry.controller()?.clone(), entry.pod(&name).clone())))
        };
        for (entry, is_there) in [(before.as_ref(), false), (after, true)] {
            let Some(owner) = entry.and_then(LazyPod::controller) else { continue };
            let task = NamespacedName { namespace: name.namespace.clone(), name: owner.name.clone() };
            match &*owner.kind {
                "ReplicaSet" => self.queue.add(Controller::ReplicaSet, task),
                "StatefulSet" => self.queue.add(Controller::StatefulSet, task),
                "Job" => {
                    let is_gone = !is_there && after.is_none();
                    // The deletion event has a newer state than the cache, if it has the owners.
                    let last = is_gone
                        .then(|| LazyPod::parse(what.object()))
                        .filter(|last| last.controller().is_some());
                    if let Some((owner, pod)) = managed(last.as_ref().or(entry)) {
                        self.jobs.pod_changed(now, &self.cache, &mut self.queue, &owner, &pod, is_gone);
                    }
                }
                "DaemonSet" if self.queue.is_enabled(Controller::DaemonSet) => {
                    if let Some((owner, pod)) = managed(entry) {
                        self.daemon_sets.pod_changed(&owner.uid, &pod, is_there);
                    }
                    self.queue.add(Controller::DaemonSet, task);
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

    fn apply_node(&mut self, what: &What) {
        let name: Arc<str> = (*what.object().meta().name).into();
        let node = what.state().map(|object| {
            view::<NodeJson>(object)
                .map(|json| CachedNode { labels: json.metadata.labels, taints: json.spec.taints })
                .unwrap_or_else(|why| {
                    self.unsupported
                        .add(format!("a Node makes no sense and counts as one without labels: {why}"));
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

    fn apply_revision(&mut self, what: &What) {
        let name = name_of(what.object());
        let ObjectUpdate { old: before, new: after, error: trouble } =
            self.cache.controller_revisions.apply(what);
        if let Some(why) = trouble {
            self.unsupported.add(format!("a ControllerRevision makes no sense and counts as gone: {why}"));
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
            let task = NamespacedName { namespace: name.namespace.clone(), name: owner.name.clone() };
            match &*owner.kind {
                "DaemonSet" => self.queue.add(Controller::DaemonSet, task),
                "StatefulSet" => self.queue.add(Controller::StatefulSet, task),
                _ => {}
            }
        }
    }

    /// Updates the ownership graph and the garbage collector for an event.
    fn update_ownership<S: ObjectSpec>(
        &mut self,
        thing: OwnershipKind,
        what: &What,
        turn: ObjectUpdate<CachedObject<S>>,
    ) -> ObjectUpdate<CachedObject<S>> {
        let ObjectUpdate { old: before, new: after, error: trouble } = turn;
        if let Some(why) = trouble {
            self.unsupported.add(format!("a {} makes no sense and counts as gone: {why}", S::KIND));
        }
        let name = name_of(what.object());
        let uids = |held: &Option<Arc<CachedObject<S>>>| -> Vec<Arc<str>> {
            let owners = held.iter().flat_map(|held| &held.meta.owner_references);
            owners.map(|owner: &OwnerReference| owner.uid.clone()).collect()
        };
        let (old, new) = (uids(&before), uids(&after));
        self.cache.update_owners(thing, &name, old.iter().map(|uid| &**uid), new.iter().map(|uid| &**uid));
        if self.queue.is_enabled(Controller::GarbageCollection) {
            let is_gone = matches!(what, What::Deleted(_));
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
                        "deleted without what it owns, which goes with it here: a ".to_owned() + S::KIND,
                    );
                }
            }
        }
        ObjectUpdate { old: before, new: after, error: None }
    }

    fn enqueue_owner<S: ObjectSpec>(&mut self, held: &CachedObject<S>, kind: &str, controller: Controller) {
        if let Some(owner) = held.controller().filter(|owner| *owner.kind == *kind) {
            let name = NamespacedName { namespace: held.name.namespace.clone(), name: owner.name.clone() };
            self.queue.add(controller, name);
        }
    }
}
