//! The controllers of Deployments and ReplicaSets.

use std::cmp::Reverse;
use std::sync::Arc;

use model::What;

use crate::objects::SECOND;
use crate::objects::event::{Regarding, Reporter};
use crate::objects::pod::Phase;
use crate::objects::template::Template;
use crate::objects::workloads::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet, SetStatus};

use super::cluster::{Cluster, Due, Listed, Maker, PodId};

impl Cluster {
    /// Someone creates a Deployment.
    pub(super) fn create_deployment(&mut self, template: Template, replicas: i64) -> usize {
        let outline = &template.outline;
        let meta = self.log.meta("apps", "Deployment", &outline.namespace, &outline.app);
        let (template, status) = (Arc::new(template), DeploymentStatus::default());
        let mut deployment = Deployment { meta, template, replicas, revision: 0, status };
        self.log.publish(What::Added, &mut deployment);
        self.deployments.push(Listed::new(deployment));
        let index = self.deployments.len() - 1;
        self.soon(Due::Deployment(index));
        index
    }

    /// Someone changes the spec of a Deployment.
    pub(super) fn edit_deployment(&mut self, index: usize, edit: impl FnOnce(&mut Deployment)) {
        let deployment = &mut self.deployments[index].it;
        edit(deployment);
        deployment.meta.generation += 1;
        self.log.publish(What::Modified, deployment);
        self.soon(Due::Deployment(index));
    }

    /// Someone deletes a Deployment; the garbage collector follows.
    pub(super) fn delete_deployment(&mut self, index: usize) {
        self.deployments[index].gone = true;
        self.log.publish(What::Deleted, &mut self.deployments[index].it);
        for set in 0..self.sets.len() {
            if self.sets[set].it.1 != index || self.sets[set].gone {
                continue;
            }
            self.sets[set].gone = true;
            self.log.publish(What::Deleted, &mut self.sets[set].it.0);
            for pod in self.active(|maker| maker == Maker::Set(set)) {
                self.delete_pod(pod);
            }
        }
    }

    /// The Deployment of that name.
    pub(super) fn deployment(&self, name: &str) -> Option<usize> {
        self.deployments.iter().position(|listed| !listed.gone && &*listed.it.meta.key.name == name)
    }

    pub(super) fn sync_deployment(&mut self, index: usize) {
        if self.deployments[index].gone {
            return;
        }
        let Some(new) = self.newest_set(index) else { return };
        let deployment = &self.deployments[index].it;
        let wanted = deployment.replicas;
        let all: Vec<usize> = self.sets_of(index);
        let old: Vec<usize> = all.iter().copied().filter(|set| *set != new).collect();
        let rolling = old.iter().any(|set| self.sets[*set].it.0.replicas > 0);
        let sum = |sets: &[usize]| -> i64 { sets.iter().map(|set| self.sets[*set].it.0.replicas).sum() };
        let available =
            |sets: &[usize]| -> i64 { sets.iter().map(|set| self.sets[*set].it.0.status.ready).sum() };
        let now = self.sets[new].it.0.replicas;
        if now > wanted || (!rolling && now < wanted) {
            self.scale_set(new, wanted);
        } else if now < wanted && sum(&all) < wanted + deployment.surge() {
            self.scale_set(new, wanted.min(now + wanted + deployment.surge() - sum(&all)));
        } else if rolling {
            let least = wanted - deployment.unavailable();
            let starting = now - self.sets[new].it.0.status.ready;
            // Old pods that do not work go first, then as many as the new ones have replaced.
            let mut spare = sum(&all) - least - starting;
            let mut surplus = available(&all) - least;
            for set in old {
                let ReplicaSet { replicas, status, .. } = &self.sets[set].it.0;
                let (replicas, ready) = (*replicas, status.ready);
                let broken = (replicas - ready).min(spare).max(0);
                let replaced = surplus.min(replicas - broken).max(0).min((spare - broken).max(0));
                if broken + replaced > 0 {
                    spare -= broken + replaced;
                    surplus -= replaced;
                    self.scale_set(set, replicas - broken - replaced);
                }
            }
        }
        self.update_status(index, new);
    }

    /// The set of the present template: found, made anew, or taken up again after a roll-back.
    fn newest_set(&mut self, index: usize) -> Option<usize> {
        let sets = self.sets_of(index);
        let image = self.deployments[index].it.template.outline.image.clone();
        let last = sets.iter().map(|set| self.sets[*set].it.0.revision).max().unwrap_or(0);
        let found = sets.iter().copied().find(|set| self.sets[*set].it.0.template.outline.image == image);
        if let Some(set) = found {
            let replica_set = &mut self.sets[set].it.0;
            if replica_set.revision < last {
                replica_set.revision = last + 1;
                self.log.publish(What::Modified, replica_set);
                self.deployments[index].it.revision = last + 1;
                self.log.publish(What::Modified, &mut self.deployments[index].it);
            }
            return Some(set);
        }
        let hash = self.log.chance.suffix(10);
        let deployment = &mut self.deployments[index].it;
        let (namespace, app) = (deployment.meta.key.namespace.clone(), deployment.meta.key.name.clone());
        let total: i64 = sets.iter().map(|set| self.sets[*set].it.0.replicas).sum();
        let most = deployment.replicas + deployment.surge();
        let replicas = deployment.replicas.min(most - total).max(0);
        let name = format!("{app}-{hash}");
        let mut meta = self.log.meta("apps", "ReplicaSet", &namespace, &name);
        meta.owner = Some(deployment.meta.as_owner("apps/v1", "Deployment"));
        deployment.revision = last + 1;
        let template = deployment.template.clone();
        let wanted = (deployment.replicas, most);
        let status = SetStatus::default();
        let mut set = ReplicaSet { meta, template, hash, replicas, wanted, revision: last + 1, status };
        self.log.publish(What::Added, &mut set);
        let since = self.log.now;
        deployment.status.set(DeploymentCondition {
            kind: "Progressing",
            holds: true,
            updated: since,
            since,
            reason: "NewReplicaSetCreated",
            message: format!("Created new replica set \"{name}\""),
        });
        self.log.publish(What::Modified, deployment);
        let regarding = Regarding::of(&deployment.meta, "apps/v1");
        self.sets.push(Listed::new((set, index)));
        let note = format!("Scaled up replica set {name} from 0 to {replicas}");
        self.say(Reporter::Controller("deployment-controller"), false, "ScalingReplicaSet", regarding, note);
        self.soon(Due::Set(self.sets.len() - 1));
        Some(self.sets.len() - 1)
    }

    fn sets_of(&self, index: usize) -> Vec<usize> {
        (0..self.sets.len()).filter(|set| !self.sets[*set].gone && self.sets[*set].it.1 == index).collect()
    }

    fn scale_set(&mut self, set: usize, replicas: i64) {
        let (replica_set, index) = &mut self.sets[set].it;
        let deployment = &self.deployments[*index].it;
        let before = replica_set.replicas;
        if before == replicas {
            return;
        }
        replica_set.replicas = replicas;
        replica_set.wanted = (deployment.replicas, deployment.replicas + deployment.surge());
        replica_set.meta.generation += 1;
        self.log.publish(What::Modified, replica_set);
        let way = if before < replicas { "up" } else { "down" };
        let note =
            format!("Scaled {way} replica set {} from {before} to {replicas}", replica_set.meta.key.name);
        let regarding = Regarding::of(&deployment.meta, "apps/v1");
        self.say(Reporter::Controller("deployment-controller"), false, "ScalingReplicaSet", regarding, note);
        self.soon(Due::Set(set));
    }

    fn update_status(&mut self, index: usize, new: usize) {
        let now = self.log.now;
        let sets = self.sets_of(index);
        let all = |count: fn(&ReplicaSet) -> i64| -> i64 {
            sets.iter().map(|set| count(&self.sets[*set].it.0)).sum()
        };
        let newest = &self.sets[new].it.0;
        let deployment = &self.deployments[index].it;
        let before = &deployment.status;
        let available = all(|set| set.status.ready);
        let mut status = DeploymentStatus {
            observed: deployment.meta.generation,
            replicas: all(|set| set.status.replicas),
            updated: newest.status.replicas,
            ready: available,
            available,
            unavailable: (all(|set| set.replicas) - available).max(0),
            terminating: all(|set| set.status.terminating),
            conditions: before.conditions.clone(),
        };
        let enough = available >= deployment.replicas - deployment.unavailable();
        let (reason, message) = if enough {
            ("MinimumReplicasAvailable", "Deployment has minimum availability.")
        } else {
            ("MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
        };
        let condition = |kind, holds, reason, message: String| DeploymentCondition {
            kind,
            holds,
            updated: now,
            since: now,
            reason,
            message,
        };
        status.set(condition("Available", enough, reason, message.to_owned()));
        let name = &newest.meta.key.name;
        let progress = before.conditions.iter().find(|condition| condition.kind == "Progressing");
        let settled = progress.is_some_and(|condition| condition.reason == "NewReplicaSetAvailable")
            && status.replicas == status.updated;
        let wanted = deployment.replicas;
        let complete = [status.updated, status.replicas, status.available] == [wanted; 3];
        let progressed = status.updated > before.updated
            || status.replicas - status.updated < before.replicas - before.updated
            || status.ready > before.ready;
        if !settled && complete {
            let message = format!("ReplicaSet \"{name}\" has successfully progressed.");
            status.set(condition("Progressing", true, "NewReplicaSetAvailable", message));
        } else if !settled && progressed {
            let message = format!("ReplicaSet \"{name}\" is progressing.");
            let since = progress.filter(|condition| condition.holds).map_or(now, |condition| condition.since);
            status.conditions.retain(|condition| condition.kind != "Progressing");
            status.conditions.push(DeploymentCondition {
                since,
                ..condition("Progressing", true, "ReplicaSetUpdated", message)
            });
        } else if !settled && progress.is_some_and(|it| now.nanos_since(it.updated) > 600 * SECOND) {
            let message = format!("ReplicaSet \"{name}\" has timed out progressing.");
            status.set(condition("Progressing", false, "ProgressDeadlineExceeded", message));
        }
        if status != *before {
            self.deployments[index].it.status = status;
            self.log.publish(What::Modified, &mut self.deployments[index].it);
        }
    }

    pub(super) fn sync_set(&mut self, index: usize) {
        if self.sets[index].gone {
            return;
        }
        let pods = self.active(|maker| maker == Maker::Set(index));
        let replica_set = &self.sets[index].it.0;
        let missing = replica_set.replicas - pods.len() as i64;
        for _ in 0..missing {
            self.add_to_set(index);
        }
        if missing < 0 {
            for pod in self.least_worth(&pods).into_iter().take(missing.unsigned_abs() as usize) {
                let Some(name) = self.pods.get(&pod).map(|life| life.pod.meta.key.name.clone()) else {
                    continue;
                };
                self.delete_pod(pod);
                let regarding = Regarding::of(&self.sets[index].it.0.meta, "apps/v1");
                let by = Reporter::Controller("replicaset-controller");
                self.say(by, false, "SuccessfulDelete", regarding, format!("Deleted pod: {name}"));
            }
        }
        let (mut status, deployment) = (SetStatus::default(), self.sets[index].it.1);
        let replica_set = &mut self.sets[index].it.0;
        status.observed = replica_set.meta.generation;
        for life in self.pods.values().filter(|life| life.maker == Maker::Set(index)) {
            if life.pod.is_deleting() {
                status.terminating += 1;
            } else if !life.pod.is_finished() {
                status.replicas += 1;
                status.ready += i64::from(life.pod.is_ready());
            }
        }
        if replica_set.status != status {
            replica_set.status = status;
            self.log.publish(What::Modified, replica_set);
        }
        self.soon(Due::Deployment(deployment));
    }

    fn add_to_set(&mut self, index: usize) {
        let suffix = self.log.chance.suffix(5);
        let replica_set = &self.sets[index].it.0;
        let (template, owner) =
            (replica_set.template.clone(), replica_set.meta.as_owner("apps/v1", "ReplicaSet"));
        let generate_name: Arc<str> = format!("{}-", replica_set.meta.key.name).into();
        let name = format!("{generate_name}{suffix}");
        let labels = template.labels(&[("pod-template-hash", &replica_set.hash)]);
        self.make_pod(&name, Maker::Set(index), &template, labels, |pod| {
            pod.meta.owner = Some(owner);
            pod.generate_name = generate_name;
        });
        let regarding = Regarding::of(&self.sets[index].it.0.meta, "apps/v1");
        let by = Reporter::Controller("replicaset-controller");
        self.say(by, false, "SuccessfulCreate", regarding, format!("Created pod: {name}"));
    }

    /// Pods in the order in which a ReplicaSet gives them up.
    fn least_worth(&self, pods: &[PodId]) -> Vec<PodId> {
        let mut pods = pods.to_vec();
        pods.sort_by_cached_key(|id| {
            let life = &self.pods[id];
            let pod = &life.pod;
            let beside = pods_beside(self, *id);
            let since = pod.running.as_ref().map(|running| running.ready.since);
            (
                pod.node.is_some(),
                pod.phase != Phase::Pending,
                pod.is_ready(),
                Reverse(beside),
                Reverse(since),
                Reverse(pod.meta.created),
                *id,
            )
        });
        pods
    }
}

/// How many ready pods of the same set run on the same node.
fn pods_beside(cluster: &Cluster, id: PodId) -> usize {
    let life = &cluster.pods[&id];
    let Some(node) = &life.pod.node else { return 0 };
    cluster.pods_on(node).filter(|(_, other)| other.maker == life.maker && other.pod.is_ready()).count()
}
