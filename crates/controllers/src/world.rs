//! The cluster as the controllers' informers tell it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::taints::Taint;
use model::{NamespacedName, Object, What};
use serde_json::Value;

use super::OwnerName;
use super::api::{
    BudgetSpec, CronJobSpec, DaemonSetSpec, DeploymentSpec, JobSpec, ReplicaSetSpec,
    ReplicationControllerSpec, StatefulSetSpec,
};
use super::pod::{Entry, Pod, Pods};
use super::revision::{Revision, Revisions};
use super::table::{Held, Owner, Spec, Table};

/// A pod, its ReplicaSet, its Deployment: chains are short.
const MOST_OWNERS: usize = 4;

/// All that is known of the cluster.
#[derive(Debug)]
pub(super) struct World {
    pub(super) pods: Pods,
    pub(super) nodes: BTreeMap<Arc<str>, Node>,
    pub(super) daemon_sets: Table<DaemonSetSpec>,
    pub(super) replica_sets: Table<ReplicaSetSpec>,
    pub(super) deployments: Table<DeploymentSpec>,
    pub(super) stateful_sets: Table<StatefulSetSpec>,
    pub(super) jobs: Table<JobSpec>,
    pub(super) cron_jobs: Table<CronJobSpec>,
    pub(super) budgets: Table<BudgetSpec>,
    pub(super) replication_controllers: Table<ReplicationControllerSpec>,
    pub(super) revisions: Revisions,
    /// Claims for volumes, by name.
    pub(super) claims: BTreeSet<NamespacedName>,
    /// Classes of priority.
    pub(super) classes: Vec<Value>,
    /// What belongs to whom, by the owner's uid.
    owned: BTreeMap<Arc<str>, BTreeSet<(Thing, NamespacedName)>>,
}

/// What is owned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Thing {
    Pod,
    ReplicaSet,
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    Budget,
    Revision,
    ReplicationController,
}

/// What is looked at in a node.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Node {
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
}

// === impl World ===

impl World {
    pub(super) fn new() -> World {
        World {
            pods: Pods::default(),
            nodes: BTreeMap::new(),
            daemon_sets: Table::NEW,
            replica_sets: Table::NEW,
            deployments: Table::NEW,
            stateful_sets: Table::NEW,
            jobs: Table::NEW,
            cron_jobs: Table::NEW,
            budgets: Table::NEW,
            replication_controllers: Table::NEW,
            revisions: Revisions::default(),
            claims: BTreeSet::new(),
            classes: Vec::new(),
            owned: BTreeMap::new(),
        }
    }

    /// Takes note of who owns something: those who did, and those who do.
    pub(super) fn own<'u>(
        &mut self,
        thing: Thing,
        name: &NamespacedName,
        before: impl Iterator<Item = &'u str>,
        after: impl Iterator<Item = &'u str>,
    ) {
        let after: Vec<&str> = after.collect();
        for uid in before.filter(|uid| !after.contains(uid)) {
            if let Some(owned) = self.owned.get_mut(uid) {
                owned.remove(&(thing, name.clone()));
                if owned.is_empty() {
                    self.owned.remove(uid);
                }
            }
        }
        for uid in after {
            match self.owned.get_mut(uid) {
                Some(owned) => drop(owned.insert((thing, name.clone()))),
                None => drop(self.owned.insert(uid.into(), BTreeSet::from([(thing, name.clone())]))),
            }
        }
    }

    /// What belongs to someone, by kind and name.
    pub(super) fn owned(&self, uid: &str) -> impl Iterator<Item = &(Thing, NamespacedName)> {
        self.owned.get(uid).into_iter().flatten()
    }

    /// The pods that someone manages, by name.
    pub(super) fn pods_of(&self, uid: &str) -> Vec<Arc<Pod>> {
        let names = self.owned(uid).filter(|(thing, _)| *thing == Thing::Pod).map(|(_, name)| name);
        let pods = names.filter_map(|name| Some((name, self.pods.entry(name)?)));
        let managed = pods.filter(|(_, entry)| entry.controller().is_some_and(|owner| *owner.uid == *uid));
        managed.map(|(name, entry)| entry.pod(name).clone()).collect()
    }

    /// The ReplicaSets that someone manages, by name.
    pub(super) fn replica_sets_of(&self, uid: &str) -> Vec<Arc<Held<ReplicaSetSpec>>> {
        self.managed(uid, Thing::ReplicaSet, &self.replica_sets)
    }

    /// The Jobs that someone manages, by name.
    pub(super) fn jobs_of(&self, uid: &str) -> Vec<Arc<Held<JobSpec>>> {
        self.managed(uid, Thing::Job, &self.jobs)
    }

    /// The revisions of a set, by number and then by name.
    pub(super) fn revisions_of(&self, uid: &str) -> Vec<Arc<Revision>> {
        let names = self.owned(uid).filter(|(thing, _)| *thing == Thing::Revision).map(|(_, name)| name);
        let mut revisions: Vec<_> = names.filter_map(|name| self.revisions.get(name).cloned()).collect();
        revisions.sort_by(|a, b| (a.number, &a.name).cmp(&(b.number, &b.name)));
        revisions
    }

    fn managed<S: Spec>(&self, uid: &str, thing: Thing, table: &Table<S>) -> Vec<Arc<Held<S>>> {
        let names = self.owned(uid).filter(|(own, _)| *own == thing).map(|(_, name)| name);
        let held = names.filter_map(|name| table.get(name));
        held.filter(|held| held.controller().is_some_and(|owner| *owner.uid == *uid)).cloned().collect()
    }

    /// Who manages a pod, and who manages that in turn, as far as they are there.
    pub(super) fn owners_of(&self, pod: &Object) -> Vec<OwnerName> {
        let namespace: Arc<str> = (*pod.meta().namespace).into();
        let mut next = Entry::read(pod).controller().cloned();
        let mut owners = Vec::new();
        while let Some(owner) = next {
            let above = match &*owner.kind {
                "ReplicaSet" => above(&self.replica_sets, &namespace, &owner),
                "Deployment" => above(&self.deployments, &namespace, &owner),
                "StatefulSet" => above(&self.stateful_sets, &namespace, &owner),
                "DaemonSet" => above(&self.daemon_sets, &namespace, &owner),
                "Job" => above(&self.jobs, &namespace, &owner),
                "CronJob" => above(&self.cron_jobs, &namespace, &owner),
                _ => None,
            };
            let Some(above) = above else { break };
            owners.push(OwnerName { kind: owner.kind, namespace: namespace.clone(), name: owner.name });
            // Some may say that they own each other.
            next = above.filter(|_| owners.len() < MOST_OWNERS);
        }
        owners
    }

    /// Takes note of a class of priority.
    pub(super) fn apply_class(&mut self, what: &What) {
        let name = what.object().meta().name;
        self.classes.retain(|class| class["metadata"]["name"] != *name);
        if let Some(class) = what.state().and_then(|object| object.value().ok()) {
            self.classes.push(class);
            self.classes.sort_by(|a, b| a["metadata"]["name"].as_str().cmp(&b["metadata"]["name"].as_str()));
        }
    }
}

/// Who manages an owner, if that is there.
fn above<S: Spec>(table: &Table<S>, namespace: &Arc<str>, owner: &Owner) -> Option<Option<Owner>> {
    table.owner(namespace, owner).map(|held| held.controller().cloned())
}

// === impl Thing ===

impl Thing {
    /// Its group and kind.
    pub(super) fn kind(self) -> (&'static str, &'static str) {
        match self {
            Thing::Pod => ("", "Pod"),
            Thing::ReplicaSet => ("apps", "ReplicaSet"),
            Thing::Deployment => ("apps", "Deployment"),
            Thing::StatefulSet => ("apps", "StatefulSet"),
            Thing::DaemonSet => ("apps", "DaemonSet"),
            Thing::Job => ("batch", "Job"),
            Thing::CronJob => ("batch", "CronJob"),
            Thing::Budget => ("policy", "PodDisruptionBudget"),
            Thing::Revision => ("apps", "ControllerRevision"),
            Thing::ReplicationController => ("", "ReplicationController"),
        }
    }
}
