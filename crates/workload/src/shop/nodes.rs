//! Nodes: how they join, report, get lost, are drained, and how the autoscaler adds and removes them.

use std::sync::Arc;

use model::{Moment, What};

use crate::objects::SECOND;
use crate::objects::event::{Regarding, Reporter};
use crate::objects::node::{ALLOCATABLE, Health, Node, Taint};
use crate::objects::pod::{Disruption, Phase, Scheduled};
use crate::objects::template::Shape;

use super::cluster::{Cluster, Due, Listed, NodeLife, PodId};

/// The zones, each with its group of nodes.
pub(super) const ZONES: [&str; 3] = ["north-a", "north-b", "north-c"];
/// How many nodes the autoscaler lets a group have.
const GROUP_MAX: usize = 4;
const HEARTBEATS: i64 = 300 * SECOND;
/// How long the autoscaler watches a node that is not needed.
const UNNEEDED: i64 = 600 * SECOND;
/// What the DaemonSets take of every node.
const DAEMONS: i64 = 200;
/// Pods below this priority are not worth a node to the autoscaler.
const EXPENDABLE: i64 = -10;

impl Cluster {
    /// A machine of a zone has booted and its kubelet registers it.
    pub(super) fn node_joins(&mut self, zone: usize) {
        self.booting[zone] = self.booting[zone].saturating_sub(1);
        let node = self.add_node(zone, Vec::new(), true);
        let regarding = self.regarding_node(node);
        let name = regarding.name.clone();
        let by = Reporter::Kubelet { node: name.clone() };
        self.say(by, false, "Starting", regarding.clone(), "Starting kubelet.");
        let note = format!("Node {name} event: Registered Node {name} in Controller");
        self.say(Reporter::Controller("node-controller"), false, "RegisteredNode", regarding, note);
        let nanos = self.log.millis(14_000, 24_000);
        self.after(nanos, Due::NodeReady(node));
    }

    /// A new node, not ready yet.
    pub(super) fn add_node(&mut self, zone: usize, mut taints: Vec<Taint>, scaled: bool) -> usize {
        let letter = ZONES[zone].trim_start_matches("north-");
        let number = self.nodes.iter().filter(|listed| listed.it.node.zone == ZONES[zone]).count() + 1;
        let mut meta = self.log.meta("", "Node", "", &format!("node-{letter}{number}"));
        meta.generation = 0;
        let subnet = self.nodes.len() + 1;
        taints.push(Taint {
            key: "node.kubernetes.io/not-ready",
            value: String::new(),
            effect: "NoSchedule",
            added: None,
        });
        let now = self.log.now;
        let mut node = Node {
            meta,
            zone: ZONES[zone],
            ip: format!("10.0.{}.{}", zone + 1, 10 + subnet).into(),
            subnet,
            unschedulable: false,
            taints,
            health: Health::Starting,
            since: now,
            heartbeat: now,
            started: now,
            kernel: "6.12.57+deb13-cloud-amd64",
            machine: self.log.chance.uid(),
            boot: self.log.chance.uid(),
            images: Vec::new(),
        };
        self.log.publish(What::Added, &mut node);
        self.nodes.push(Listed::new(NodeLife {
            node,
            scaled,
            silent: false,
            unneeded: None,
            leaving: false,
            next_address: 1,
        }));
        for daemon in 0..self.daemons.len() {
            self.soon(Due::Daemon(daemon));
        }
        self.nodes.len() - 1
    }

    pub(super) fn node_ready(&mut self, node: usize) {
        if self.nodes[node].gone {
            return;
        }
        let now = self.log.now;
        let it = &mut self.nodes[node].it.node;
        (it.health, it.since, it.heartbeat) = (Health::Ready, now, now);
        self.log.publish(What::Modified, it);
        it.taints.retain(|taint| !taint.key.starts_with("node.kubernetes.io/not-ready"));
        self.log.publish(What::Modified, it);
        self.say_status(node, "NodeReady");
        let nanos = self.log.chance.between(SECOND..=HEARTBEATS);
        self.after(nanos, Due::Heartbeat(node));
        self.wake(None);
    }

    pub(super) fn heartbeat(&mut self, node: usize) {
        let Listed { it: NodeLife { node: it, silent, .. }, gone } = &mut self.nodes[node];
        if *gone || *silent {
            return;
        }
        it.heartbeat = self.log.now;
        self.log.publish(What::Modified, it);
        self.after(HEARTBEATS, Due::Heartbeat(node));
    }

    /// The control plane has not heard of a node for too long.
    pub(super) fn lose(&mut self, node: usize) {
        let now = self.log.now;
        let it = &mut self.nodes[node].it.node;
        (it.health, it.since) = (Health::Lost, now);
        let name = it.meta.key.name.clone();
        self.log.publish(What::Modified, it);
        let taint = |effect, added| Taint {
            key: "node.kubernetes.io/unreachable",
            value: String::new(),
            effect,
            added,
        };
        it.taints.push(taint("NoSchedule", Some(now)));
        self.log.publish(What::Modified, it);
        let regarding = self.regarding_node(node);
        let by = Reporter::Controller("node-controller");
        let note = format!("Node {name} status is now: NodeNotReady");
        self.say(by.clone(), false, "NodeNotReady", regarding, note);
        let pods: Vec<PodId> = self.pods_on(&name).map(|(id, _)| id).collect();
        for id in &pods {
            let Some(life) = self.pods.get_mut(id) else { continue };
            let Some(running) = life.pod.running.as_mut().filter(|running| running.ready.holds) else {
                continue;
            };
            (running.ready.holds, running.ready.since) = (false, now);
            self.changed(*id);
            self.say_of_pod(*id, by.clone(), true, "NodeNotReady", "Node is not ready");
        }
        let it = &mut self.nodes[node].it.node;
        it.taints.push(taint("NoExecute", Some(now)));
        self.log.publish(What::Modified, it);
        for id in pods {
            let Some(life) = self.pods.get(&id) else { continue };
            let outline = &life.pod.template.outline;
            if outline.shape != Shape::OnEveryNode {
                let nanos = outline.patience * SECOND + self.log.millis(2, 40);
                self.after(nanos, Due::Evict(id));
            }
        }
    }

    /// A lost node is heard of again.
    pub(super) fn find(&mut self, node: usize) {
        let now = self.log.now;
        let NodeLife { node: it, silent, .. } = &mut self.nodes[node].it;
        *silent = false;
        (it.health, it.since, it.heartbeat, it.started) = (Health::Ready, now, now, now);
        self.log.publish(What::Modified, it);
        it.taints.retain(|taint| taint.key != "node.kubernetes.io/unreachable");
        self.log.publish(What::Modified, it);
        let regarding = self.regarding_node(node);
        let by = Reporter::Kubelet { node: regarding.name.clone() };
        self.say(by, false, "Starting", regarding, "Starting kubelet.");
        self.say_status(node, "NodeReady");
        self.after(HEARTBEATS, Due::Heartbeat(node));
        self.catch_up(node);
        self.wake(None);
    }

    /// A taint that the pod bore for its time drives it out.
    pub(super) fn evict_for_taint(&mut self, id: PodId) {
        let Some(life) = self.pods.get_mut(&id) else { return };
        let node = life.pod.node.clone();
        let lost = node.and_then(|name| self.node(&name));
        if !lost.is_some_and(|node| self.nodes[node].it.node.has("node.kubernetes.io/unreachable")) {
            return;
        }
        let Some(life) = self.pods.get(&id).filter(|life| !life.pod.is_deleting()) else { return };
        let note =
            format!("Marking for deletion Pod {}/{}", life.pod.meta.key.namespace, life.pod.meta.key.name);
        self.say_of_pod(
            id,
            Reporter::Controller("taint-eviction-controller"),
            false,
            "TaintManagerEviction",
            note,
        );
        self.disrupt(id, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
        self.delete_pod(id);
    }

    /// Someone wants no new pods on a node, or does again.
    pub(super) fn cordon(&mut self, node: usize, on: bool) {
        let now = self.log.now;
        let it = &mut self.nodes[node].it.node;
        it.unschedulable = on;
        self.log.publish(What::Modified, it);
        let key = "node.kubernetes.io/unschedulable";
        it.taints.retain(|taint| taint.key != key);
        if on {
            it.taints.push(Taint { key, value: String::new(), effect: "NoSchedule", added: Some(now) });
        }
        self.log.publish(What::Modified, it);
        self.say_status(node, if on { "NodeNotSchedulable" } else { "NodeSchedulable" });
        if !on {
            self.wake(None);
        }
    }

    /// Evicts what runs on a node, as fast as the budgets allow; then the autoscaler, if it asked, removes it.
    pub(super) fn drain(&mut self, node: usize) {
        let NodeLife { node: it, leaving, .. } = &self.nodes[node].it;
        if self.nodes[node].gone || !it.unschedulable {
            return;
        }
        let (name, leaving) = (it.meta.key.name.clone(), *leaving);
        let pods: Vec<PodId> = self
            .pods_on(&name)
            .filter(|(_, life)| life.pod.template.outline.shape != Shape::OnEveryNode)
            .map(|(id, _)| id)
            .collect();
        for id in &pods {
            let Some(life) = self.pods.get(id).filter(|life| !life.pod.is_deleting()) else { continue };
            let app = &life.pod.template.outline.app;
            if let Some(budget) = self.budgets.iter_mut().find(|budget| budget.app == app) {
                if budget.allowed() == 0 {
                    continue;
                }
                // The API server counts an eviction at once; the controller counts again later.
                budget.healthy -= 1;
                self.log.publish(What::Modified, budget);
            }
            self.disrupt(*id, "EvictionByEvictionAPI", "Eviction API: evicting");
            self.delete_pod(*id);
        }
        if !pods.is_empty() {
            self.after(5 * SECOND, Due::Drain(node));
        } else if leaving {
            self.remove_node(node);
        }
    }

    /// A drained node is rebooted into a new kernel; its daemons start again.
    pub(super) fn reboot(&mut self, node: usize) {
        let (now, boot) = (self.log.now, self.log.chance.uid());
        let it = &mut self.nodes[node].it.node;
        it.kernel = "6.17.8+deb13-cloud-amd64";
        it.boot.clone_from(&boot);
        (it.heartbeat, it.started, it.since) = (now, now, now);
        let name = it.meta.key.name.clone();
        self.log.publish(What::Modified, it);
        let regarding = self.regarding_node(node);
        let by = Reporter::Kubelet { node: name.clone() };
        self.say(by.clone(), false, "Starting", regarding.clone(), "Starting kubelet.");
        let note = format!("Node {name} has been rebooted, boot id: {boot}");
        self.say(by, true, "Rebooted", regarding, note);
        let daemons: Vec<PodId> = self.pods_on(&name).map(|(id, _)| id).collect();
        for id in daemons {
            self.after(SECOND, Due::Restart(id));
        }
    }

    fn remove_node(&mut self, node: usize) {
        self.nodes[node].gone = true;
        let regarding = self.regarding_node(node);
        let name = regarding.name.clone();
        self.log.publish(What::Deleted, &mut self.nodes[node].it.node);
        let note = format!("Node {name} event: Removing Node {name} from Controller");
        self.say(Reporter::Controller("node-controller"), false, "RemovingNode", regarding, note);
        // Nobody stops the pods of a machine that is no more: the garbage collector calls them failed.
        let pods: Vec<PodId> = self
            .pods
            .iter()
            .filter(|(_, life)| life.pod.node.as_ref() == Some(&name))
            .map(|(id, _)| *id)
            .collect();
        for id in pods {
            if let Some(life) = self.pods.get_mut(&id).filter(|life| !life.pod.is_finished()) {
                life.pod.phase = Phase::Failed;
                self.disrupt(id, "DeletionByPodGC", "PodGC: node no longer exists");
            }
            self.remove_pod(id);
        }
        for daemon in 0..self.daemons.len() {
            self.soon(Due::Daemon(daemon));
        }
    }

    /// The autoscaler looks at what waits and at what idles.
    pub(super) fn scan(&mut self) {
        self.after(10 * SECOND, Due::Scan);
        self.scale_up();
        self.scale_down();
    }

    fn scale_up(&mut self) {
        let waiting: Vec<(PodId, i64)> = self
            .pods
            .iter()
            .filter(|(_, life)| matches!(life.pod.scheduled, Scheduled::Failed { .. }))
            .filter(|(_, life)| life.pod.nominated.is_none() && life.pod.host.is_none())
            .filter(|(_, life)| life.pod.template.outline.class.value >= EXPENDABLE)
            .map(|(id, life)| (*id, life.pod.template.outline.milli_cpu))
            .collect();
        // First fit into the nodes that are on their way, then into new ones.
        let starting =
            self.nodes.iter().filter(|it| !it.gone && it.it.node.health == Health::Starting).count();
        let coming = self.booting.iter().sum::<usize>() + starting;
        let mut rooms = vec![ALLOCATABLE.0 - DAEMONS; coming];
        let mut added: Vec<usize> = Vec::new();
        let mut helped = Vec::new();
        for (id, cpu) in waiting {
            let room = rooms.iter().position(|room| *room >= cpu);
            let room = room.or_else(|| {
                let zone = self.smallest_group(&added)?;
                added.push(zone);
                rooms.push(ALLOCATABLE.0 - DAEMONS);
                Some(rooms.len() - 1)
            });
            if let Some(room) = room {
                rooms[room] -= cpu;
                helped.push(id);
            }
        }
        if added.is_empty() {
            return;
        }
        let mut plan: Vec<String> = Vec::new();
        for (zone, name) in ZONES.iter().enumerate() {
            let more = added.iter().filter(|it| **it == zone).count();
            if more > 0 {
                let size = self.group_size(zone);
                plan.push(format!("{{workers-{name} {size}->{} (max: {GROUP_MAX})}}", size + more));
            }
        }
        for zone in added {
            self.booting[zone] += 1;
            let boot = self.troubles.boot_seconds;
            let nanos = self.log.millis(boot * 1_000, boot * 1_000 + 20_000);
            self.machines += 1;
            self.after(nanos, Due::Joins(zone, self.machines));
        }
        let note = format!("pod triggered scale-up: [{}]", plan.join(" "));
        for id in helped {
            let first =
                self.pods.get_mut(&id).is_some_and(|life| !std::mem::replace(&mut life.promised, true));
            if first {
                self.say_of_pod(
                    id,
                    Reporter::Controller("cluster-autoscaler"),
                    false,
                    "TriggeredScaleUp",
                    note.clone(),
                );
            }
        }
    }

    /// The zone with the fewest nodes that may still grow; `added` are decided already.
    fn smallest_group(&self, added: &[usize]) -> Option<usize> {
        let size = |zone: usize| self.group_size(zone) + added.iter().filter(|it| **it == zone).count();
        (0..ZONES.len()).filter(|zone| size(*zone) < GROUP_MAX).min_by_key(|zone| (size(*zone), *zone))
    }

    fn group_size(&self, zone: usize) -> usize {
        let there = self.nodes.iter().filter(|it| !it.gone && it.it.node.zone == ZONES[zone]).count();
        there + self.booting[zone]
    }

    fn scale_down(&mut self) {
        let now = self.log.now;
        for node in 0..self.nodes.len() {
            let NodeLife { node: it, scaled, unneeded, leaving, .. } = &self.nodes[node].it;
            if self.nodes[node].gone || !scaled || *leaving || it.health != Health::Ready {
                continue;
            }
            let (needed, since) = (self.is_needed(node), *unneeded);
            match (needed, since) {
                (true, None) => {}
                (true, Some(_)) => self.mark_unneeded(node, None),
                (false, None) => self.mark_unneeded(node, Some(now)),
                (false, Some(since)) if now.nanos_since(since) > UNNEEDED => {
                    self.take_away(node);
                    // One at a time: what moves from this one may need the next.
                    return;
                }
                (false, Some(_)) => {}
            }
        }
    }

    /// Half used, or its pods would fit nowhere else.
    fn is_needed(&self, node: usize) -> bool {
        let name = &self.nodes[node].it.node.meta.key.name;
        let moving: i64 = self
            .pods_on(name)
            .filter(|(_, life)| life.pod.template.outline.shape != Shape::OnEveryNode)
            .map(|(_, life)| life.pod.template.outline.milli_cpu)
            .sum();
        let free: i64 = (0..self.nodes.len())
            .filter(|other| *other != node && !self.nodes[*other].gone && !self.nodes[*other].it.leaving)
            .filter(|other| self.nodes[*other].it.node.dedicated().is_none())
            .filter(|other| self.nodes[*other].it.node.health == Health::Ready)
            .map(|other| {
                let name = &self.nodes[other].it.node.meta.key.name;
                let used: i64 = self.pods_on(name).map(|(_, life)| life.pod.template.outline.milli_cpu).sum();
                // What is left in crumbs is of no use.
                (ALLOCATABLE.0 - used - 600).max(0)
            })
            .sum();
        (moving + DAEMONS) * 2 > ALLOCATABLE.0 || moving > free || self.is_short()
    }

    fn mark_unneeded(&mut self, node: usize, since: Option<Moment>) {
        let NodeLife { node: it, unneeded, .. } = &mut self.nodes[node].it;
        *unneeded = since;
        let key = "DeletionCandidateOfClusterAutoscaler";
        it.taints.retain(|taint| taint.key != key);
        if let Some(since) = since {
            let value = (since.nanos() / SECOND).to_string();
            it.taints.push(Taint { key, value, effect: "PreferNoSchedule", added: None });
        }
        self.log.publish(What::Modified, it);
    }

    fn take_away(&mut self, node: usize) {
        let value = (self.log.now.nanos() / SECOND).to_string();
        let NodeLife { node: it, leaving, .. } = &mut self.nodes[node].it;
        *leaving = true;
        it.unschedulable = true;
        it.taints.push(Taint {
            key: "ToBeDeletedByClusterAutoscaler",
            value,
            effect: "NoSchedule",
            added: None,
        });
        self.log.publish(What::Modified, it);
        let regarding = self.regarding_node(node);
        let by = Reporter::Controller("cluster-autoscaler");
        self.say(by, false, "ScaleDown", regarding, "marked the node as toBeDeleted/unschedulable");
        self.after(5 * SECOND, Due::Drain(node));
    }

    fn disrupt(&mut self, id: PodId, reason: &'static str, message: &'static str) {
        let since = self.log.now;
        if let Some(life) = self.pods.get_mut(&id) {
            life.pod.disruption = Some(Disruption { since, reason, message });
            self.changed(id);
        }
    }

    fn regarding_node(&self, node: usize) -> Regarding {
        Regarding::of(&self.nodes[node].it.node.meta, "v1")
    }

    /// The kubelet says what its node now is.
    fn say_status(&mut self, node: usize, reason: &'static str) {
        let regarding = self.regarding_node(node);
        let name: Arc<str> = regarding.name.clone();
        let note = format!("Node {name} status is now: {reason}");
        self.say(Reporter::Kubelet { node: name }, false, reason, regarding, note);
    }
}
