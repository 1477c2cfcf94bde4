//! A cluster at one moment, as far as scaling goes.

use std::collections::BTreeMap;

use model::{Moment, Object};
use serde_json::Value;

use crate::LeftOut;
use crate::scaling_history::info::{
    CsiNodeInfo, DEPLOYMENT, Fit, Labels, MachineDeploymentInfo, NodeInfo, PRIORITIES, PodInfo,
    PriorityClassInfo, Resources, ScheduleStatus, SettingsInfo, WorkerPoolInfo,
};

/// A cluster at one moment, as far as scaling goes. All lists are by namespace and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterSnapshot {
    /// Which moment.
    pub at: Moment,
    /// Pods without a node, be it that no node takes them or that nobody has looked at them yet.
    pub unscheduled_pods: Vec<PodInfo>,
    /// Pods on nodes. Those that have ended are left out: they take no room.
    pub scheduled_pods: Vec<PodInfo>,
    /// Pods for which a node is being cleared.
    pub nominated_pods: Vec<PodInfo>,
    /// Nodes, whatever their condition.
    pub nodes: Vec<NodeInfo>,
    /// Gardener's worker pools.
    pub worker_pools: Vec<WorkerPoolInfo>,
    /// The groups that grow and shrink.
    pub node_groups: Vec<NodeGroupInfo>,
    /// What new nodes of the groups would be like.
    pub node_templates: Vec<NodeTemplate>,
    /// Gardener's machine deployments.
    pub machine_deployments: Vec<MachineDeploymentInfo>,
    /// Priority classes.
    pub priority_classes: Vec<PriorityClassInfo>,
    /// How the autoscaler is set; `None` if nothing tells.
    pub autoscaler: Option<SettingsInfo>,
    /// Objects that cannot be understood.
    pub left_out: LeftOut,
}

/// A group that grows and shrinks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeGroupInfo {
    /// Its name.
    pub name: String,
    /// The pool it is part of; empty if nothing tells.
    pub pool: String,
    /// Its zone; empty if nothing tells.
    pub zone: String,
    /// How many nodes it is to have.
    pub target: i64,
    /// The fewest it may have.
    pub min: i64,
    /// The most it may have.
    pub max: i64,
}

/// What new nodes of a group would be like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeTemplate {
    /// The name of the group.
    pub name: String,
    /// What the cloud calls such machines.
    pub instance_type: String,
    /// Their region.
    pub region: String,
    /// Their zone.
    pub zone: String,
    /// All they have.
    pub capacity: Resources,
    /// What pods may have of it.
    pub allocatable: Resources,
    /// Their labels.
    pub labels: Labels,
    /// Their taints.
    pub taints: Vec<Value>,
}

/// What an object tells a snapshot. Groups and kinds decide, and names where one of many is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotPart {
    /// A pod.
    Pod,
    /// A node.
    Node,
    /// How many volumes a node takes.
    CsiNode,
    /// A priority class.
    PriorityClass,
    /// A machine deployment of Gardener's.
    MachineDeployment,
    /// Worker pools of Gardener's.
    Worker,
    /// The autoscaler's settings.
    Autoscaler,
    /// Which groups the autoscaler prefers.
    Priorities,
}

// === impl ClusterSnapshot ===

impl ClusterSnapshot {
    /// A cluster of these objects. Groups and templates are left for those who know how to tell them.
    pub fn of<'a>(at: Moment, objects: impl IntoIterator<Item = &'a Object>) -> ClusterSnapshot {
        let mut cluster = ClusterSnapshot { at, ..ClusterSnapshot::default() };
        let mut around = Around::default();
        for object in objects {
            if cluster.add(object, &mut around).is_err() {
                cluster.left_out.count(&format!("{} objects that cannot be understood", object.meta().kind));
            }
        }
        for node in &mut cluster.nodes {
            node.volumes = around.volumes.get(&node.meta.name).copied().unwrap_or_default().max(0);
        }
        if let Some(settings) = &mut cluster.autoscaler {
            settings.priorities = around.priorities;
        }
        cluster.sort();
        cluster
    }

    fn add(&mut self, object: &Object, around: &mut Around) -> Fit<()> {
        let Some(part) = SnapshotPart::of(object) else { return Ok(()) };
        let value = || object.value().map_err(|error| error.to_string());
        match part {
            SnapshotPart::Pod => self.pod(PodInfo::read(object)?),
            SnapshotPart::Node => self.nodes.push(NodeInfo::read(object)?),
            SnapshotPart::CsiNode => {
                let CsiNodeInfo { meta, volumes } = CsiNodeInfo::of(&value()?)?;
                around.volumes.insert(meta.name, volumes);
            }
            SnapshotPart::PriorityClass => {
                self.priority_classes.push(PriorityClassInfo::of(&value()?)?);
            }
            SnapshotPart::MachineDeployment => {
                self.machine_deployments.push(MachineDeploymentInfo::of(&value()?)?);
            }
            SnapshotPart::Worker => {
                self.worker_pools.extend(WorkerPoolInfo::all_of(&value()?)?.into_values());
            }
            SnapshotPart::Autoscaler => self.autoscaler = Some(SettingsInfo::of(&value()?)?),
            SnapshotPart::Priorities => {
                around.priorities = value()?["data"]["priorities"].as_str().unwrap_or_default().to_owned();
            }
        }
        Ok(())
    }

    fn pod(&mut self, info: PodInfo) {
        if matches!(&*info.phase, "Succeeded" | "Failed") {
            return;
        }
        let list = match info.status {
            _ if !info.node_name().is_empty() => &mut self.scheduled_pods,
            ScheduleStatus::Nominated => &mut self.nominated_pods,
            ScheduleStatus::Pending | ScheduleStatus::Unscheduled | ScheduleStatus::Committed => {
                &mut self.unscheduled_pods
            }
        };
        list.push(info);
    }

    fn sort(&mut self) {
        for pods in [&mut self.unscheduled_pods, &mut self.scheduled_pods, &mut self.nominated_pods] {
            pods.sort_by(|a, b| (&a.meta.namespace, &a.meta.name).cmp(&(&b.meta.namespace, &b.meta.name)));
        }
        self.nodes.sort_by(|a, b| a.meta.name.cmp(&b.meta.name));
        self.worker_pools
            .sort_by(|a, b| (&a.meta.namespace, &a.meta.name).cmp(&(&b.meta.namespace, &b.meta.name)));
        self.machine_deployments
            .sort_by(|a, b| (&a.meta.namespace, &a.meta.name).cmp(&(&b.meta.namespace, &b.meta.name)));
        self.priority_classes.sort_by(|a, b| a.meta.name.cmp(&b.meta.name));
    }

    /// All pods in the order of a report: those without a node first, then by name.
    pub(super) fn pods(&self) -> Vec<&PodInfo> {
        let mut waiting: Vec<&PodInfo> = self.unscheduled_pods.iter().chain(&self.nominated_pods).collect();
        let mut placed: Vec<&PodInfo> = self.scheduled_pods.iter().collect();
        for pods in [&mut waiting, &mut placed] {
            pods.sort_by(|a, b| (&a.meta.name, &a.meta.namespace).cmp(&(&b.meta.name, &b.meta.namespace)));
        }
        waiting.append(&mut placed);
        waiting
    }
}

// === impl NodeTemplate ===

impl NodeTemplate {
    /// The template of a group whose new nodes are like this one. Says why that cannot be understood.
    pub fn of(group: &str, node: &Object) -> Fit<NodeTemplate> {
        let NodeInfo { labels, taints, allocatable, capacity, .. } = NodeInfo::read(node)?;
        let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
        Ok(NodeTemplate {
            name: group.to_owned(),
            instance_type: label("node.kubernetes.io/instance-type"),
            region: label("topology.kubernetes.io/region"),
            zone: label("topology.kubernetes.io/zone"),
            capacity,
            allocatable,
            labels,
            taints,
        })
    }
}

// === impl SnapshotPart ===

impl SnapshotPart {
    /// What an object tells; `None` if a snapshot needs nothing of it.
    pub fn of(object: &Object) -> Option<SnapshotPart> {
        let meta = object.meta();
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, &*meta.kind) {
            ("", "Pod") => Some(SnapshotPart::Pod),
            ("", "Node") => Some(SnapshotPart::Node),
            ("storage.k8s.io", "CSINode") => Some(SnapshotPart::CsiNode),
            ("scheduling.k8s.io", "PriorityClass") => Some(SnapshotPart::PriorityClass),
            ("machine.sapcloud.io", "MachineDeployment") => Some(SnapshotPart::MachineDeployment),
            ("extensions.gardener.cloud", "Worker") => Some(SnapshotPart::Worker),
            ("apps", "Deployment") if meta.name == DEPLOYMENT => Some(SnapshotPart::Autoscaler),
            ("", "ConfigMap") if meta.name == PRIORITIES => Some(SnapshotPart::Priorities),
            _ => None,
        }
    }
}

/// What other objects tell of nodes and settings.
#[derive(Default)]
struct Around {
    volumes: BTreeMap<String, i64>,
    priorities: String,
}
