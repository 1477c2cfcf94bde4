//! The informer cache of the controllers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::objects::{OwnerReference, PodView};
use kubernetes::taints::Taint;
use model::{Kind, NamespacedName, ObjectRef, What};
use serde_json::Value;

use super::api::{
    CronJobSpec, DaemonSetSpec, DeploymentSpec, JobSpec, PodDisruptionBudgetSpec, ReplicaSetSpec,
    ReplicationControllerSpec, StatefulSetSpec,
};
use super::controller_revision::{ControllerRevision, ControllerRevisions};
use super::object_table::{CachedObject, ObjectSpec, ObjectTable};
use super::pod::{Pod, PodTable};

/// The longest chain of owners; a pod, its ReplicaSet and its Deployment are three.
const MAX_OWNERS: usize = 4;

/// The objects of the cluster, as received from informers.
#[derive(Debug)]
pub(super) struct InformerCache {
    pub(super) pods: PodTable,
    pub(super) nodes: BTreeMap<Arc<str>, CachedNode>,
    pub(super) daemon_sets: ObjectTable<DaemonSetSpec>,
    pub(super) replica_sets: ObjectTable<ReplicaSetSpec>,
    pub(super) deployments: ObjectTable<DeploymentSpec>,
    pub(super) stateful_sets: ObjectTable<StatefulSetSpec>,
    pub(super) jobs: ObjectTable<JobSpec>,
    pub(super) cron_jobs: ObjectTable<CronJobSpec>,
    pub(super) pod_disruption_budgets: ObjectTable<PodDisruptionBudgetSpec>,
    pub(super) replication_controllers: ObjectTable<ReplicationControllerSpec>,
    pub(super) controller_revisions: ControllerRevisions,
    /// PersistentVolumeClaims, by name.
    pub(super) volume_claims: BTreeSet<NamespacedName>,
    /// PriorityClasses.
    pub(super) priority_classes: Vec<Value>,
    /// Dependents, by the uid of their owner.
    dependents: BTreeMap<Arc<str>, BTreeSet<(OwnershipKind, NamespacedName)>>,
}

/// The kind of an object in the ownership graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OwnershipKind {
    Pod,
    ReplicaSet,
    Deployment,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    PodDisruptionBudget,
    ControllerRevision,
    ReplicationController,
}

/// The parts of a Node that controllers read.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CachedNode {
    pub(super) labels: Labels,
    pub(super) taints: Vec<Taint>,
}

// === impl InformerCache ===

impl InformerCache {
    pub(super) fn new() -> InformerCache {
        InformerCache {
            pods: PodTable::default(),
            nodes: BTreeMap::new(),
            daemon_sets: ObjectTable::EMPTY,
            replica_sets: ObjectTable::EMPTY,
            deployments: ObjectTable::EMPTY,
            stateful_sets: ObjectTable::EMPTY,
            jobs: ObjectTable::EMPTY,
            cron_jobs: ObjectTable::EMPTY,
            pod_disruption_budgets: ObjectTable::EMPTY,
            replication_controllers: ObjectTable::EMPTY,
            controller_revisions: ControllerRevisions::default(),
            volume_claims: BTreeSet::new(),
            priority_classes: Vec::new(),
            dependents: BTreeMap::new(),
        }
    }

    /// Updates the owners of an object: the uids of the old and the new ones.
    pub(super) fn update_owners<'u>(
        &mut self,
        kind: OwnershipKind,
        name: &NamespacedName,
        before: impl Iterator<Item = &'u str>,
        after: impl Iterator<Item = &'u str>,
    ) {
        let after: Vec<&str> = after.collect();
        for uid in before.filter(|uid| !after.contains(uid)) {
            if let Some(dependents) = self.dependents.get_mut(uid) {
                dependents.remove(&(kind, name.clone()));
                if dependents.is_empty() {
                    self.dependents.remove(uid);
                }
            }
        }
        for uid in after {
            match self.dependents.get_mut(uid) {
                Some(dependents) => drop(dependents.insert((kind, name.clone()))),
                None => drop(self.dependents.insert(uid.into(), BTreeSet::from([(kind, name.clone())]))),
            }
        }
    }

    /// The dependents of an owner, by kind and name.
    pub(super) fn dependents_of(&self, uid: &str) -> impl Iterator<Item = &(OwnershipKind, NamespacedName)> {
        self.dependents.get(uid).into_iter().flatten()
    }

    /// The pods of a controller, by name.
    pub(super) fn pods_of(&self, uid: &str) -> Vec<Arc<Pod>> {
        let names =
            self.dependents_of(uid).filter(|(kind, _)| *kind == OwnershipKind::Pod).map(|(_, name)| name);
        let pods = names.filter_map(|name| self.pods.get(name));
        pods.filter(|pod| pod.controller().is_some_and(|owner| *owner.uid == *uid)).cloned().collect()
    }

    /// The ReplicaSets of a controller, by name.
    pub(super) fn replica_sets_of(&self, uid: &str) -> Vec<Arc<CachedObject<ReplicaSetSpec>>> {
        self.controlled_by(uid, OwnershipKind::ReplicaSet, &self.replica_sets)
    }

    /// The Jobs of a controller, by name.
    pub(super) fn jobs_of(&self, uid: &str) -> Vec<Arc<CachedObject<JobSpec>>> {
        self.controlled_by(uid, OwnershipKind::Job, &self.jobs)
    }

    /// The revisions of a set, by number and then by name.
    pub(super) fn revisions_of(&self, uid: &str) -> Vec<Arc<ControllerRevision>> {
        let names = self
            .dependents_of(uid)
            .filter(|(kind, _)| *kind == OwnershipKind::ControllerRevision)
            .map(|(_, name)| name);
        let mut revisions: Vec<_> =
            names.filter_map(|name| self.controller_revisions.get(name).cloned()).collect();
        revisions.sort_by(|a, b| (a.revision, &a.name).cmp(&(b.revision, &b.name)));
        revisions
    }

    fn controlled_by<S: ObjectSpec>(
        &self,
        uid: &str,
        kind: OwnershipKind,
        table: &ObjectTable<S>,
    ) -> Vec<Arc<CachedObject<S>>> {
        let names = self.dependents_of(uid).filter(|(own, _)| *own == kind).map(|(_, name)| name);
        let object = names.filter_map(|name| table.get(name));
        object.filter(|object| object.controller().is_some_and(|owner| *owner.uid == *uid)).cloned().collect()
    }

    /// The controller of a pod, its controller in turn, and so on, as far as they exist.
    pub(super) fn owners_of(&self, pod: &PodView) -> Vec<ObjectRef> {
        let namespace = &pod.name.namespace;
        let mut next = pod.controller().cloned();
        let mut owners = Vec::new();
        while let Some(owner) = next {
            let next_owner = match &*owner.kind {
                "ReplicaSet" => controller_of_owner(&self.replica_sets, namespace, &owner),
                "Deployment" => controller_of_owner(&self.deployments, namespace, &owner),
                "StatefulSet" => controller_of_owner(&self.stateful_sets, namespace, &owner),
                "DaemonSet" => controller_of_owner(&self.daemon_sets, namespace, &owner),
                "Job" => controller_of_owner(&self.jobs, namespace, &owner),
                "CronJob" => controller_of_owner(&self.cron_jobs, namespace, &owner),
                _ => None,
            };
            let Some(next_owner) = next_owner else { break };
            owners.push(owner.object_ref(namespace));
            // Owner references may form a cycle.
            next = next_owner.filter(|_| owners.len() < MAX_OWNERS);
        }
        owners
    }

    /// Handles an event of a PriorityClass.
    pub(super) fn apply_priority_class(&mut self, event: &What) {
        let name = event.object().meta().name;
        self.priority_classes.retain(|class| class["metadata"]["name"] != *name);
        if let Some(class) = event.state().and_then(|object| object.value().ok()) {
            self.priority_classes.push(class);
            self.priority_classes
                .sort_by(|a, b| a["metadata"]["name"].as_str().cmp(&b["metadata"]["name"].as_str()));
        }
    }
}

/// The controller of an owner, if the owner exists.
fn controller_of_owner<S: ObjectSpec>(
    table: &ObjectTable<S>,
    namespace: &Arc<str>,
    owner: &OwnerReference,
) -> Option<Option<OwnerReference>> {
    table.resolve_owner(namespace, owner).map(|object| object.controller().cloned())
}

// === impl OwnershipKind ===

impl OwnershipKind {
    /// Its group and kind.
    pub(super) fn kind(self) -> Kind {
        let (group, kind) = match self {
            OwnershipKind::Pod => ("", "Pod"),
            OwnershipKind::ReplicaSet => ("apps", "ReplicaSet"),
            OwnershipKind::Deployment => ("apps", "Deployment"),
            OwnershipKind::StatefulSet => ("apps", "StatefulSet"),
            OwnershipKind::DaemonSet => ("apps", "DaemonSet"),
            OwnershipKind::Job => ("batch", "Job"),
            OwnershipKind::CronJob => ("batch", "CronJob"),
            OwnershipKind::PodDisruptionBudget => ("policy", "PodDisruptionBudget"),
            OwnershipKind::ControllerRevision => ("apps", "ControllerRevision"),
            OwnershipKind::ReplicationController => ("", "ReplicationController"),
        };
        Kind::new(group, kind)
    }
}
