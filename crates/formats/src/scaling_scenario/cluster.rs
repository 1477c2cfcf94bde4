//! Gardener's cluster snapshot: the objects that matter to scaling at one moment.

use std::collections::BTreeMap;

use model::{Moment, Object};
use serde_json::Value;

use crate::LeftOutCounts;
use crate::scaling_history::info::{
    AUTOSCALER_DEPLOYMENT, CsiNodeInfo, InfoResult, Labels, MachineDeploymentInfo, NodeInfo,
    PRIORITIES_CONFIG_MAP, PodInfo, PriorityClassInfo, Resources, ScheduleStatus, SettingsInfo,
    WorkerPoolInfo,
};

/// The objects that matter to scaling at one moment. All lists are sorted by namespace and name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClusterSnapshot {
    /// The moment.
    pub at: Moment,
    /// Pods without a node, unschedulable or not yet attempted by the scheduler.
    pub unscheduled_pods: Vec<PodInfo>,
    /// Pods on nodes. Finished pods are left out: they use no resources.
    pub scheduled_pods: Vec<PodInfo>,
    /// Pods with a nominated node.
    pub nominated_pods: Vec<PodInfo>,
    /// Nodes, whatever their condition.
    pub nodes: Vec<NodeInfo>,
    /// Gardener's worker pools.
    pub worker_pools: Vec<WorkerPoolInfo>,
    /// The node groups.
    pub node_groups: Vec<NodeGroupInfo>,
    /// Templates of the groups' new nodes.
    pub node_templates: Vec<NodeTemplate>,
    /// Gardener's machine deployments.
    pub machine_deployments: Vec<MachineDeploymentInfo>,
    /// Priority classes.
    pub priority_classes: Vec<PriorityClassInfo>,
    /// The autoscaler's settings; `None` if not known.
    pub autoscaler: Option<SettingsInfo>,
    /// Objects that cannot be parsed.
    pub left_out: LeftOutCounts,
}

/// A node group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeGroupInfo {
    /// Its name.
    pub name: String,
    /// Its worker pool; empty if not known.
    pub pool: String,
    /// Its zone; empty if not known.
    pub zone: String,
    /// Its target size.
    pub target: i64,
    /// Its minimum size.
    pub min: i64,
    /// Its maximum size.
    pub max: i64,
}

/// The template of a group's new nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeTemplate {
    /// The name of the group.
    pub name: String,
    /// Their instance type.
    pub instance_type: String,
    /// Their region.
    pub region: String,
    /// Their zone.
    pub zone: String,
    /// All their resources.
    pub capacity: Resources,
    /// Resources available to pods.
    pub allocatable: Resources,
    /// Their labels.
    pub labels: Labels,
    /// Their taints.
    pub taints: Vec<Value>,
}

/// The part of a snapshot that an object belongs to, by its API group and kind, and for single objects by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SnapshotPart {
    /// A pod.
    Pod,
    /// A node.
    Node,
    /// A CSINode: the volume limit of a node.
    CsiNode,
    /// A priority class.
    PriorityClass,
    /// A machine deployment of Gardener.
    MachineDeployment,
    /// A Worker of Gardener, with its pools.
    Worker,
    /// The autoscaler's Deployment: its settings.
    Autoscaler,
    /// The priority expander's ConfigMap.
    Priorities,
}

// === impl ClusterSnapshot ===

impl ClusterSnapshot {
    /// The snapshot of these objects. The caller fills in node groups and templates.
    pub fn of<'a>(at: Moment, objects: impl IntoIterator<Item = &'a Object>) -> ClusterSnapshot {
        let mut cluster = ClusterSnapshot { at, ..ClusterSnapshot::default() };
        let mut around = RelatedValues::default();
        for object in objects {
            if cluster.add(object, &mut around).is_err() {
                cluster.left_out.count(&format!("{} objects skipped as invalid", object.meta().kind));
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

    fn add(&mut self, object: &Object, around: &mut RelatedValues) -> InfoResult<()> {
        let Some(part) = SnapshotPart::of(object) else { return Ok(()) };
        let value = || object.value().map_err(|error| error.to_string());
        match part {
            SnapshotPart::Pod => self.add_pod(PodInfo::read(object)?),
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
                self.worker_pools.extend(WorkerPoolInfo::pools_of(&value()?)?.into_values());
            }
            SnapshotPart::Autoscaler => self.autoscaler = Some(SettingsInfo::of(&value()?)?),
            SnapshotPart::Priorities => {
                around.priorities = value()?["data"]["priorities"].as_str().unwrap_or_default().to_owned();
            }
        }
        Ok(())
    }

    fn add_pod(&mut self, info: PodInfo) {
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

    /// All pods in the order of a report: pods without a node first, then by name.
    pub(super) fn pods(&self) -> Vec<&PodInfo> {
        let mut pending: Vec<&PodInfo> = self.unscheduled_pods.iter().chain(&self.nominated_pods).collect();
        let mut placed: Vec<&PodInfo> = self.scheduled_pods.iter().collect();
        for pods in [&mut pending, &mut placed] {
            pods.sort_by(|a, b| (&a.meta.name, &a.meta.namespace).cmp(&(&b.meta.name, &b.meta.namespace)));
        }
        pending.append(&mut placed);
        pending
    }
}

// === impl NodeTemplate ===

impl NodeTemplate {
    /// The template of a group whose new nodes resemble this one. The error says why the node cannot be parsed.
    pub fn of(group: &str, node: &Object) -> InfoResult<NodeTemplate> {
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
    /// The part that an object belongs to; `None` if the snapshot does not need it.
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
            ("apps", "Deployment") if meta.name == AUTOSCALER_DEPLOYMENT => Some(SnapshotPart::Autoscaler),
            ("", "ConfigMap") if meta.name == PRIORITIES_CONFIG_MAP => Some(SnapshotPart::Priorities),
            _ => None,
        }
    }
}

/// Values for nodes and settings that come from other objects.
#[derive(Default)]
struct RelatedValues {
    volumes: BTreeMap<String, i64>,
    priorities: String,
}
