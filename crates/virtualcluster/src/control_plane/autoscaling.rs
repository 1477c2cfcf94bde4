//! cluster-autoscaler and its cloud: nodes come and go, and the autoscaler's Events and status are written.

use std::sync::Arc;
use std::time::Duration;

use apiserver::{DeleteOptions, UpdatedPart, WriteOptions};
use autoscaler::{Action, Event, InvolvedObject as AutoscalerObject, NodeGroup, NodeGroups, PodPricing};
use kubernetes::objects::{NodeEvent, PodEvent};
use kubernetes::time::whole_second;
use kubernetes::well_known;
use model::{Kind, Moment, NamespacedName, Object, What};
use serde_json::{Value, json};
use simulation::components::AutoscalerLoop;
use simulation::latency::{Latencies, LatencySampler};
use simulation::{AutoscalerSetup, CloudChange, NodeEdit, SimulatedCloud};

use super::ComponentContext;
use super::core_event_recorder::{CoreEventRecorder, EventText, InvolvedObject};
use super::kubelet::set_initial_node_status;

/// The settings of a cluster's autoscaler.
#[derive(Clone, Debug)]
pub struct AutoscalerSettings {
    /// Its flags.
    pub settings: autoscaler::Settings,
    /// The node groups that it scales.
    pub groups: Vec<NodeGroup>,
    /// The prices of pods, for the expander `price`.
    pub pricing: Option<PodPricing>,
    /// The label that names the GPU of a node.
    pub gpu_label: Arc<str>,
}

/// The autoscaler of a cluster.
pub(super) struct Autoscaling {
    autoscaler: AutoscalerLoop,
    /// The durations of its loops.
    latencies: LatencySampler,
    events: CoreEventRecorder,
    status_config_map: NamespacedName,
    priority_config_map: NamespacedName,
    /// Whether it did something whose effects may be work for it.
    has_acted: bool,
}

const COMPONENT: &str = "cluster-autoscaler";
/// cluster-autoscaler writes equal Events at most this often.
const MIN_EVENT_INTERVAL: Duration = Duration::from_secs(300);
const PRIORITY_CONFIG_MAP: &str = "cluster-autoscaler-priority-expander";
const LAST_UPDATED: &str = "cluster-autoscaler.kubernetes.io/last-updated";

// === impl AutoscalerSettings ===

impl From<NodeGroups> for AutoscalerSettings {
    /// The groups and settings of a `node-groups.yaml`.
    fn from(file: NodeGroups) -> AutoscalerSettings {
        AutoscalerSettings {
            settings: file.settings.unwrap_or_default(),
            groups: file.groups,
            pricing: file.pricing,
            gpu_label: file.gpu_label,
        }
    }
}

// === impl Autoscaling ===

impl Autoscaling {
    /// An autoscaler that starts now. The nodes that exist are adopted by their groups as they are observed.
    pub(super) fn new(settings: &AutoscalerSettings, seed: u64, now: Moment) -> Autoscaling {
        let AutoscalerSettings { settings, groups, pricing, gpu_label } = settings.clone();
        let mut cloud = SimulatedCloud::new(groups, seed).with_gpu_label(gpu_label);
        if let Some(pricing) = pricing {
            cloud = cloud.with_pricing(pricing);
        }
        let config_map = |name: &str| NamespacedName::new(settings.namespace.clone(), name);
        Autoscaling {
            status_config_map: config_map(&settings.status_config_map_name),
            priority_config_map: config_map(PRIORITY_CONFIG_MAP),
            autoscaler: AutoscalerLoop::new(AutoscalerSetup { settings, cloud, start: now }, now),
            latencies: LatencySampler::new(Latencies::typical(), seed),
            events: CoreEventRecorder::new(COMPONENT, MIN_EVENT_INTERVAL),
            has_acted: false,
        }
    }

    pub(super) fn observe_pod(&mut self, now: Moment, event: &PodEvent) {
        let pod = event.object();
        if event.state().is_some() && pod.node_name.is_none() && pod.status.is_unschedulable() {
            self.autoscaler.pod_unschedulable(now, &pod.name);
        }
        self.autoscaler.apply_pod(event.clone());
    }

    pub(super) fn observe_node(&mut self, event: &NodeEvent) {
        match event {
            NodeEvent::Added(node) => {
                self.autoscaler.node_added(node);
            }
            NodeEvent::Deleted(node) => self.autoscaler.node_deleted(node),
            NodeEvent::Modified(_) => {}
        }
        self.autoscaler.apply_node(event);
    }

    pub(super) fn observe(&mut self, what: &What) {
        // Nothing about scaling depends on Events and Leases, which are many.
        if !matches!(&*what.object().meta().kind, "Event" | "Lease") {
            self.autoscaler.apply(what);
        }
    }

    /// When it or its cloud has something to do.
    pub(super) fn next(&self) -> Moment {
        self.autoscaler.next()
    }

    /// Whether a node is on its way, or a pod waits for the next loop.
    pub(super) fn is_busy(&self) -> bool {
        self.autoscaler.awaits_node() || !self.autoscaler.is_idle()
    }

    /// Does what is due. Returns whether there was anything: its effects are to be observed before the next call.
    pub(super) fn work(&mut self, context: &mut ComponentContext<'_>) -> bool {
        let is_due = self.has_acted || self.autoscaler.next() <= context.now;
        self.has_acted = is_due && self.step(context);
        self.has_acted
    }

    fn step(&mut self, context: &mut ComponentContext<'_>) -> bool {
        let has_changed = self.apply_cloud_changes(context);
        self.autoscaler.deliver_pod_events();
        let background = self.autoscaler.background(context.now);
        let is_busy = !background.actions.is_empty() || !background.events.is_empty();
        self.execute(context, &background.actions, &background.events);
        if self.apply_cloud_changes(context) || has_changed || is_busy {
            return true;
        }
        let Some(result) = self.autoscaler.run_once(context.now, &mut self.latencies) else { return false };
        self.write_status(context);
        self.execute(context, &result.actions, &result.events);
        self.autoscaler.finish(result);
        true
    }

    /// Creates and deletes the nodes of the cloud's machines. Returns whether there were any.
    fn apply_cloud_changes(&mut self, context: &mut ComponentContext<'_>) -> bool {
        let changes = self.autoscaler.cloud_changes(context.now);
        for change in &changes {
            match change {
                CloudChange::Registered { node, pods } => register_node(context, node, pods),
                CloudChange::Ready { node, at } => make_node_ready(context, node, *at),
                CloudChange::Deleted { node } => {
                    let name = NamespacedName::new("", node.clone());
                    // A user may have deleted it first.
                    let _ = context.registry.delete_object(&node_kind(), &name, &DeleteOptions::default());
                }
            }
        }
        !changes.is_empty()
    }

    fn execute(&mut self, context: &mut ComponentContext<'_>, actions: &[Action], events: &[Event]) {
        for event in events {
            self.record(context, event);
        }
        for action in actions {
            match action {
                Action::Taint { node, key, value, effect } => {
                    edit_node(context, node, NodeEdit::Taint { key, value, effect });
                }
                Action::Untaint { node, key } => edit_node(context, node, NodeEdit::Untaint(key)),
                Action::Cordon { node, unschedulable } => {
                    edit_node(context, node, NodeEdit::Cordon(*unschedulable));
                }
                Action::Evict { pod, grace } => evict(context, pod, *grace),
            }
        }
    }

    fn record(&mut self, context: &mut ComponentContext<'_>, event: &Event) {
        let uid_in_store = |kind: &Kind, name: &NamespacedName| {
            let object = context.registry.get(kind, name);
            object.and_then(|object| object.meta().uid.map(|uid| uid.to_string())).unwrap_or_default()
        };
        let (kind, name) = match &event.involved_object {
            AutoscalerObject::Pod(pod) => ("Pod", pod.clone()),
            AutoscalerObject::Node(node) => ("Node", NamespacedName::new("", node.clone())),
            AutoscalerObject::StatusConfigMap => ("ConfigMap", self.status_config_map.clone()),
            AutoscalerObject::PriorityConfigMap => ("ConfigMap", self.priority_config_map.clone()),
        };
        let involved = InvolvedObject {
            api_version: "v1".to_owned(),
            kind: kind.to_owned(),
            uid: uid_in_store(&Kind::new("", kind), &name),
            name,
        };
        let text = EventText {
            event_type: if event.is_warning { "Warning" } else { "Normal" }.to_owned(),
            reason: event.reason.to_owned(),
            message: event.message.clone(),
        };
        self.events.record(context.registry, context.now, involved, text);
    }

    /// Writes the status that the last loop has left.
    fn write_status(&self, context: &mut ComponentContext<'_>) {
        let Some(status) = self.autoscaler.autoscaler().status() else { return };
        let text = formats::manifests::to_yaml(&status);
        let kind = Kind::new("", "ConfigMap");
        let name = &self.status_config_map;
        let updated = context.registry.update_object(&kind, name, UpdatedPart::Object, |map| {
            map["metadata"]["annotations"][LAST_UPDATED] = status["time"].clone();
            map["data"] = json!({"status": text});
            true
        });
        if updated.is_err_and(|error| error.is_not_found()) {
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {
                    "name": *name.name, "namespace": *name.namespace, "annotations": {LAST_UPDATED: status["time"]},
                },
                "data": {"status": text},
            });
            // Without its namespace there is no status, as in Kubernetes.
            let _ = context.registry.create_object(map);
        }
    }
}

fn node_kind() -> Kind {
    Kind::new("", "Node")
}

/// Creates the Node of a new machine, and its pods.
fn register_node(context: &mut ComponentContext<'_>, node: &Object, pods: &[Object]) {
    let Ok(mut node) = node.value() else { return };
    if !node["metadata"]["annotations"].is_object() {
        node["metadata"]["annotations"] = json!({});
    }
    // Programs that write to clusters of fake nodes only look for this annotation.
    node["metadata"]["annotations"][well_known::KWOK_NODE] = "fake".into();
    let is_ready = node["status"]["conditions"][0]["status"] == "True";
    if is_ready {
        let version = context.registry.store().git_version();
        set_initial_node_status(&mut node, version, &whole_second(context.now).to_string());
    }
    // A node of this name may have been created by a user: the machine is then an unregistered one.
    if context.registry.create_object(node).is_err() {
        return;
    }
    for pod in pods.iter().filter_map(|pod| pod.value().ok()) {
        // A pod whose namespace does not exist is not created.
        let _ = context.registry.create_object(pod);
    }
}

fn make_node_ready(context: &mut ComponentContext<'_>, node: &Arc<str>, at: Moment) {
    let name = NamespacedName::new("", node.clone());
    let version = context.registry.store().git_version();
    // Taints are in the spec, conditions in the status. A node that was deleted meanwhile stays so.
    let _ = context.registry.update_object(&node_kind(), &name, UpdatedPart::Everything, |node| {
        NodeEdit::Untaint(well_known::NODE_NOT_READY).apply(node);
        set_initial_node_status(node, version, &whole_second(at).to_string());
        true
    });
}

fn edit_node(context: &mut ComponentContext<'_>, node: &Arc<str>, edit: NodeEdit<'_>) {
    let name = NamespacedName::new("", node.clone());
    // A node that has gone is left alone.
    let _ = context.registry.update_object(&node_kind(), &name, UpdatedPart::Object, |node: &mut Value| {
        edit.apply(node);
        true
    });
}

fn evict(context: &mut ComponentContext<'_>, pod: &NamespacedName, grace: i64) {
    let table = context.registry.store().resources();
    let Some(pods) = table.of_kind(&Kind::new("", "Pod")) else { return };
    let options = DeleteOptions { grace_period_seconds: Some(grace), ..DeleteOptions::default() };
    let write = WriteOptions { is_component: true, ..WriteOptions::default() };
    // The autoscaler sees that a pod does not terminate, and tries again.
    let _ = context.registry.evict(pods, pod, options, write);
}
