//! What controllers are told, and whom it concerns.

use std::sync::Arc;

use kubernetes::read::{nullable, view};
use kubernetes::taints::Taint;
use model::{Moment, NamespacedName, What};
use serde::Deserialize;

use super::pod::Entry;
use super::revision::Revision;
use super::table::{Held, Metadata, Owner, Spec, Turn, name_of};
use super::world::{Node, Thing};
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
    /// Something came, changed or went, as an informer would tell it. Kinds that nobody looks at are ignored.
    pub fn apply(&mut self, now: Moment, what: &What) {
        let meta = what.object().meta();
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, &*meta.kind) {
            ("", "Pod") => self.apply_pod(now, what),
            ("", "Node") => self.apply_node(what),
            ("", "ReplicationController") => {
                let turn = self.world.replication_controllers.apply(what);
                self.note(Thing::ReplicationController, what, turn);
            }
            ("apps", "ControllerRevision") => self.apply_revision(what),
            ("apps", "DaemonSet") => {
                let turn = self.world.daemon_sets.apply(what);
                let Turn { before, after, .. } = self.note(Thing::DaemonSet, what, turn);
                if self.queue.works(Controller::DaemonSet) {
                    if let Some(before) = &before
                        && after.as_ref().is_none_or(|after| after.uid != before.uid)
                    {
                        self.daemons.set_changed(&before.uid, false, false);
                    }
                    if let Some(after) = &after {
                        let same = before.is_some_and(|before| Arc::ptr_eq(&before.spec, &after.spec));
                        self.daemons.set_changed(&after.uid, true, !same);
                    }
                }
                self.queue.add(Controller::DaemonSet, name_of(what.object()));
            }
            ("apps", "Deployment") => {
                let turn = self.world.deployments.apply(what);
                self.note(Thing::Deployment, what, turn);
                self.queue.add(Controller::Deployment, name_of(what.object()));
            }
            ("apps", "ReplicaSet") => {
                let turn = self.world.replica_sets.apply(what);
                let Turn { before, after, .. } = self.note(Thing::ReplicaSet, what, turn);
                self.queue.add(Controller::ReplicaSet, name_of(what.object()));
                for held in before.iter().chain(&after) {
                    self.wake_owner(held, "Deployment", Controller::Deployment);
                }
            }
            ("apps", "StatefulSet") => {
                let turn = self.world.stateful_sets.apply(what);
                self.note(Thing::StatefulSet, what, turn);
                self.queue.add(Controller::StatefulSet, name_of(what.object()));
            }
            ("batch", "Job") => {
                let turn = self.world.jobs.apply(what);
                let Turn { before, after, .. } = self.note(Thing::Job, what, turn);
                self.jobs.job_changed(now, &self.world, &mut self.queue, before.as_deref(), after.as_deref());
                for held in before.iter().chain(&after) {
                    self.wake_owner(held, "CronJob", Controller::CronJob);
                }
            }
            ("batch", "CronJob") => {
                let turn = self.world.cron_jobs.apply(what);
                let Turn { before, after, .. } = self.note(Thing::CronJob, what, turn);
                let name = name_of(what.object());
                match (before, after) {
                    // Times that would have been are not made up for.
                    (Some(before), Some(after)) if !before.spec.has_times_of(&after.spec) => {
                        if let Some(at) = cron_job::next_time(&after, now) {
                            self.queue.add_at(at, Controller::CronJob, name);
                        }
                    }
                    _ => self.queue.add(Controller::CronJob, name),
                }
            }
            ("policy", "PodDisruptionBudget") => {
                let turn = self.world.budgets.apply(what);
                let Turn { after, .. } = self.note(Thing::Budget, what, turn);
                if self.queue.works(Controller::Disruption) {
                    let name = name_of(what.object());
                    self.budgets.budget_changed(&self.world, &name, after.as_deref());
                    self.queue.add(Controller::Disruption, name);
                }
            }
            ("", "PersistentVolumeClaim") => {
                let name = name_of(what.object());
                match what.state() {
                    Some(_) => self.world.claims.insert(name),
                    None => self.world.claims.remove(&name),
                };
            }
            ("scheduling.k8s.io", "PriorityClass") => self.world.apply_class(what),
            _ => {}
        }
    }

    fn apply_pod(&mut self, now: Moment, what: &What) {
        let name = name_of(what.object());
        let entry = what.state().map(Entry::read);
        let before = self.world.pods.set(name.clone(), entry);
        let after = self.world.pods.entry(&name);
        let of = |entry: Option<&Entry>| -> Vec<Arc<str>> {
            entry
                .map(|entry| entry.owners.iter().map(|owner| owner.uid.clone()).collect())
                .unwrap_or_default()
        };
        let (old, new) = (of(before.as_ref()), of(after));
        let replaced = before.as_ref().filter(|before| after.is_none_or(|after| after.uid != before.uid));
        if self.queue.works(Controller::GarbageCollection)
            && let Some(replaced) = replaced
        {
            self.garbage.owner_gone(&self.world, &replaced.uid);
        }
        let managed = |entry: Option<&Entry>| {
            entry.and_then(|entry| Some((entry.controller()?.clone(), entry.pod(&name).clone())))
        };
        for (entry, is_there) in [(before.as_ref(), false), (after, true)] {
            let Some(owner) = entry.and_then(Entry::controller) else { continue };
            let task = NamespacedName { namespace: name.namespace.clone(), name: owner.name.clone() };
            match &*owner.kind {
                "ReplicaSet" => self.queue.add(Controller::ReplicaSet, task),
                "StatefulSet" => self.queue.add(Controller::StatefulSet, task),
                "Job" => {
                    let is_gone = !is_there && after.is_none();
                    // What came with the news of its end is newer than what was known, if there is anything in it.
                    let last = is_gone
                        .then(|| Entry::read(what.object()))
                        .filter(|last| last.controller().is_some());
                    if let Some((owner, pod)) = managed(last.as_ref().or(entry)) {
                        self.jobs.pod_changed(now, &self.world, &mut self.queue, &owner, &pod, is_gone);
                    }
                }
                "DaemonSet" if self.queue.works(Controller::DaemonSet) => {
                    if let Some((owner, pod)) = managed(entry) {
                        self.daemons.pod_changed(&owner.uid, &pod, is_there);
                    }
                    self.queue.add(Controller::DaemonSet, task);
                }
                _ => {}
            }
        }
        if self.queue.works(Controller::Disruption) {
            for budget in self.budgets.pod_changed(&name, after) {
                self.queue.add(Controller::Disruption, budget);
            }
        }
        // A Deployment that makes all anew waits until the old pods are gone.
        if after.is_none()
            && let Some(owner) = before.as_ref().and_then(Entry::controller)
            && let Some(set) = self.world.replica_sets.owner(&name.namespace, owner).cloned()
        {
            self.wake_owner(&set, "Deployment", Controller::Deployment);
        }
        self.world.own(Thing::Pod, &name, old.iter().map(|uid| &**uid), new.iter().map(|uid| &**uid));
    }

    fn apply_node(&mut self, what: &What) {
        let name: Arc<str> = (*what.object().meta().name).into();
        let node = what.state().map(|object| {
            view::<NodeJson>(object)
                .map(|json| Node { labels: json.metadata.labels, taints: json.spec.taints })
                .unwrap_or_else(|why| {
                    self.left_out
                        .add(format!("a Node makes no sense and counts as one without labels: {why}"));
                    Node::default()
                })
        });
        if self.world.nodes.get(&name) == node.as_ref() {
            return;
        }
        match node {
            Some(node) => self.world.nodes.insert(name.clone(), node),
            None => self.world.nodes.remove(&name),
        };
        if self.queue.works(Controller::DaemonSet) {
            self.daemons.node_changed(&name);
            for set in self.world.daemon_sets.values() {
                self.queue.add(Controller::DaemonSet, set.name.clone());
            }
        }
    }

    fn apply_revision(&mut self, what: &What) {
        let name = name_of(what.object());
        let Turn { before, after, trouble } = self.world.revisions.apply(what);
        if let Some(why) = trouble {
            self.left_out.add(format!("a ControllerRevision makes no sense and counts as gone: {why}"));
        }
        let owners = |revision: &Option<Arc<Revision>>| {
            revision.as_ref().map(|revision| revision.owners.clone()).unwrap_or_default()
        };
        let (old, new) = (owners(&before), owners(&after));
        self.world.own(
            Thing::Revision,
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

    /// Takes note of who owns an object, and what is to be deleted with it.
    fn note<S: Spec>(&mut self, thing: Thing, what: &What, turn: Turn<Held<S>>) -> Turn<Held<S>> {
        let Turn { before, after, trouble } = turn;
        if let Some(why) = trouble {
            self.left_out.add(format!("a {} makes no sense and counts as gone: {why}", S::KIND));
        }
        let name = name_of(what.object());
        let uids = |held: &Option<Arc<Held<S>>>| -> Vec<Arc<str>> {
            let owners = held.iter().flat_map(|held| &held.meta.owner_references);
            owners.map(|owner: &Owner| owner.uid.clone()).collect()
        };
        let (old, new) = (uids(&before), uids(&after));
        self.world.own(thing, &name, old.iter().map(|uid| &**uid), new.iter().map(|uid| &**uid));
        if self.queue.works(Controller::GarbageCollection) {
            let is_gone = matches!(what, What::Deleted(_));
            let replaced = before.as_ref().filter(|before| match &after {
                Some(after) => after.uid != before.uid,
                None => is_gone,
            });
            if let Some(replaced) = replaced {
                self.garbage.owner_gone(&self.world, &replaced.uid);
            }
            if let Some(after) = &after {
                self.garbage.owner_changed(&self.world, after);
                if after.meta.finalizers.iter().any(|finalizer| &**finalizer == "orphan") {
                    self.left_out.add(
                        "deleted without what it owns, which goes with it here: a ".to_owned() + S::KIND,
                    );
                }
            }
        }
        Turn { before, after, trouble: None }
    }

    fn wake_owner<S: Spec>(&mut self, held: &Held<S>, kind: &str, controller: Controller) {
        if let Some(owner) = held.controller().filter(|owner| *owner.kind == *kind) {
            let name = NamespacedName { namespace: held.name.namespace.clone(), name: owner.name.clone() };
            self.queue.add(controller, name);
        }
    }
}
