//! The kubelets of all nodes: bound pods run, become ready and end, as with KWOK's fast stages; and what
//! kube-controller-manager does about pods of nodes that have gone or are tainted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use apiserver::{DeleteOptions, Preconditions, UpdatedPart};
use kubernetes::conditions::set_pod_condition;
use kubernetes::go::duration;
use kubernetes::objects::{NodeEvent, NodeView, Phase, PodEvent, PodView};
use kubernetes::time::{after, whole_second};
use model::{Kind, Moment, NamespacedName, What};
use serde_json::{Value, json};
use simulation::components::TaintEviction;

use super::ComponentContext;
use super::node_leases::NodeLeases;
use super::pod_addresses::{NODE_ADDRESS, PodAddresses};
use super::stage_player::{EndlessStages, StagePlayer};
use super::tasks::{ClusterTask, PodRef};
use crate::node_conditions::kubelet_conditions;
use crate::stage::StagedKind;

/// The kubelets of a cluster.
pub(super) struct Kubelet {
    pods_by_node: BTreeMap<Arc<str>, BTreeSet<NamespacedName>>,
    taint_eviction: TaintEviction<NamespacedName>,
    /// When pods, by their uid, will have been active for as long as they may be.
    deadlines: BTreeMap<Arc<str>, Moment>,
    addresses: PodAddresses,
    stages: StagePlayer,
    leases: NodeLeases,
}

/// The time from a node's deletion until its pods are deleted: a period of pod GC, and its quarantine.
const POD_GC_DELAY: Duration = Duration::from_secs(60);
/// Annotations with which KWOK's stages are delayed.
const STAGE_SUFFIX: &str = ".stage.kwok.x-k8s.io/delay";

impl Kubelet {
    pub(super) fn new(seed: u64, has_heartbeats: bool) -> Kubelet {
        Kubelet {
            pods_by_node: BTreeMap::new(),
            taint_eviction: TaintEviction::default(),
            deadlines: BTreeMap::new(),
            addresses: PodAddresses::default(),
            stages: StagePlayer::new(seed),
            leases: NodeLeases::new(has_heartbeats),
        }
    }

    pub(super) fn observe_pod(&mut self, context: &mut ComponentContext<'_>, event: &PodEvent) {
        let pod = event.object();
        let Some(node) = &pod.node_name else { return };
        if event.state().is_none() {
            if let Some(pods) = self.pods_by_node.get_mut(node) {
                pods.remove(&pod.name);
                if pods.is_empty() {
                    self.pods_by_node.remove(node);
                }
            }
            self.taint_eviction.pod_deleted(&pod.name);
            self.deadlines.remove(&pod.uid);
            self.stages.forget(StagedKind::Pod, &pod.name);
            return;
        }
        self.pods_by_node.entry(node.clone()).or_default().insert(pod.name.clone());
        let pod_ref = PodRef { name: pod.name.clone(), uid: pod.uid.clone() };
        let Some(_) = context.nodes.get(node) else {
            self.stages.end_run(StagedKind::Pod, &pod.name);
            context.agenda.put(after(context.now, POD_GC_DELAY), ClusterTask::CollectPods(node.clone()));
            return;
        };
        if self.stages.has_stages_of(StagedKind::Pod) {
            self.stages.observe(context, StagedKind::Pod, &pod.name);
            return self.check_taints(context, pod);
        }
        self.plan_deadline(context, pod);
        let (delay, task) = if pod.is_terminating() {
            (stage_delay(pod, "pod-delete"), ClusterTask::RemovePod(pod_ref))
        } else {
            match pod.status.phase {
                Phase::Pending => (stage_delay(pod, "pod-ready"), ClusterTask::StartPod(pod_ref)),
                Phase::Running if is_of_job(pod) => {
                    (stage_delay(pod, "pod-complete"), ClusterTask::FinishPod(pod_ref))
                }
                _ => return self.check_taints(context, pod),
            }
        };
        context.agenda.put(after(context.now, delay), task);
        self.check_taints(context, pod);
    }

    pub(super) fn observe_node(&mut self, context: &mut ComponentContext<'_>, event: &NodeEvent) {
        let node = event.object();
        let name = NamespacedName::new("", node.name.clone());
        if event.state().is_none() {
            self.taint_eviction.node_deleted(&node.name);
            self.stages.forget(StagedKind::Node, &name);
            if self.pods_by_node.contains_key(&node.name) {
                let at = after(context.now, POD_GC_DELAY);
                context.agenda.put(at, ClusterTask::CollectPods(node.name.clone()));
            }
            return;
        }
        self.leases.observe_node(context, &node.name);
        if self.stages.has_stages_of(StagedKind::Node) {
            self.stages.observe(context, StagedKind::Node, &name);
        } else if node.condition("Ready").is_none() {
            initialize_node(context, &node.name);
        }
        if self.taint_eviction.node_changed(node) {
            for name in self.pods_by_node.get(&node.name).cloned().unwrap_or_default() {
                if let Some(pod) = context.pods.get(&name).cloned() {
                    self.check_taints(context, &pod);
                }
            }
        }
        // Pods that were bound before their node existed.
        if matches!(event, NodeEvent::Added(_)) {
            for name in self.pods_by_node.get(&node.name).cloned().unwrap_or_default() {
                if let Some(pod) = context.pods.get(&name).cloned() {
                    self.observe_pod(context, &PodEvent::Modified(pod));
                }
            }
        }
    }

    /// A Stage was added, modified or deleted: the objects of its kind are matched again.
    pub(super) fn observe_stage(&mut self, context: &mut ComponentContext<'_>, what: &What) {
        match self.stages.observe_stage(what) {
            Some(StagedKind::Pod) => {
                let names: Vec<NamespacedName> = self.pods_by_node.values().flatten().cloned().collect();
                for pod in names.iter().filter_map(|name| context.pods.get(name).cloned()) {
                    self.observe_pod(context, &PodEvent::Modified(pod));
                }
            }
            Some(StagedKind::Node) => {
                let nodes: BTreeMap<Arc<str>, Arc<NodeView>> =
                    context.nodes.iter().map(|(name, node)| (name.clone(), node.clone())).collect();
                for node in nodes.into_values() {
                    self.observe_node(context, &NodeEvent::Modified(node));
                }
            }
            None => {}
        }
    }

    /// Evicts a pod that does not tolerate a taint of its node, now or later.
    fn check_taints(&mut self, context: &mut ComponentContext<'_>, pod: &PodView) {
        let (node, tolerations) = (pod.node_name.as_ref(), &pod.spec.tolerations);
        let at = self.taint_eviction.pod_changed(context.now, &pod.name, node, tolerations);
        if let Some(at) = at {
            let pod_ref = PodRef { name: pod.name.clone(), uid: pod.uid.clone() };
            context.agenda.put(at, ClusterTask::EvictByTaint(pod_ref, at));
        }
    }

    /// Plans the end of a pod that may be active for a limited time only, which begins when it starts.
    fn plan_deadline(&mut self, context: &mut ComponentContext<'_>, pod: &PodView) {
        let (Some(seconds), Some(start)) = (pod.spec.active_deadline_seconds, pod.status.start_time) else {
            return;
        };
        if pod.is_finished() || pod.is_terminating() {
            return;
        }
        let at = after(start, Duration::from_secs(seconds.unsigned_abs())).max(context.now);
        if self.deadlines.get(&pod.uid).is_none_or(|planned| at < *planned) {
            self.deadlines.insert(pod.uid.clone(), at);
            let pod_ref = PodRef { name: pod.name.clone(), uid: pod.uid.clone() };
            context.agenda.put(at, ClusterTask::EndActivePod(pod_ref));
        }
    }

    /// The stages that do not come to an end at the present moment.
    pub(super) fn endless_stages(&self) -> Option<EndlessStages> {
        self.stages.endless()
    }

    /// Does what is due.
    pub(super) fn run(&mut self, context: &mut ComponentContext<'_>, task: ClusterTask) {
        let has_stages = self.stages.has_stages_of(StagedKind::Pod);
        match task {
            // Stages replace what was planned before.
            ClusterTask::StartPod(_)
            | ClusterTask::FinishPod(_)
            | ClusterTask::EndActivePod(_)
            | ClusterTask::RemovePod(_)
                if has_stages => {}
            ClusterTask::StartPod(pod) => self.start_pod(context, &pod),
            ClusterTask::FinishPod(pod) => finish_pod(context, &pod),
            ClusterTask::EndActivePod(pod) => self.end_active_pod(context, &pod),
            ClusterTask::RemovePod(pod) => remove_pod(context, &pod),
            ClusterTask::CollectPods(node) => self.collect_pods(context, &node),
            ClusterTask::EvictByTaint(pod, at) => {
                if self.taint_eviction.evicts(&pod.name, at).is_some() {
                    evict_by_taint(context, &pod);
                }
            }
            ClusterTask::RenewLease(node) => self.leases.renew(context, node),
            ClusterTask::PlayStage(play) => self.stages.play(context, &play, &mut self.addresses),
        }
    }

    fn start_pod(&mut self, context: &mut ComponentContext<'_>, pod: &PodRef) {
        let Some(view) = current(context, pod).cloned() else { return };
        if view.is_terminating() || view.status.phase != Phase::Pending {
            return;
        }
        let pod_ip = self.addresses.next();
        let node = view.node_name.as_ref().and_then(|node| context.nodes.get(node));
        let host_ip = node.and_then(|node| node.internal_ip.clone());
        let host_ip = host_ip.as_deref().unwrap_or(NODE_ADDRESS);
        let now = whole_second(context.now).to_string();
        edit_status(context, pod, |object| {
            let running = json!({"running": {"startedAt": now}});
            let completed = json!({"terminated": {
                "exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now,
            }});
            let containers = container_statuses(object, "containers", &running, true);
            let init_containers = container_statuses(object, "initContainers", &completed, true);
            let ip = if object["spec"]["hostNetwork"] == true { host_ip.to_owned() } else { pod_ip.clone() };
            let status = &mut object["status"];
            status["phase"] = "Running".into();
            status["startTime"] = now.as_str().into();
            status["hostIP"] = host_ip.into();
            status["hostIPs"] = json!([{"ip": host_ip}]);
            status["podIPs"] = json!([{"ip": ip}]);
            status["podIP"] = ip.into();
            status["containerStatuses"] = containers;
            if init_containers.as_array().is_some_and(|statuses| !statuses.is_empty()) {
                status["initContainerStatuses"] = init_containers;
            }
            for condition in ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady"] {
                set_condition(object, condition, "True", None, &now);
            }
        });
    }

    /// Ends a pod whose deadline has passed. A deadline can be made earlier, never later.
    fn end_active_pod(&mut self, context: &mut ComponentContext<'_>, pod: &PodRef) {
        self.deadlines.remove(&pod.uid);
        if current(context, pod).is_none_or(|view| view.is_finished()) {
            return;
        }
        let now = whole_second(context.now).to_string();
        edit_status(context, pod, |object| {
            // 128 and SIGKILL: containers that do not end by themselves are killed.
            let killed = json!({"terminated": {
                "exitCode": 137, "reason": "Error", "startedAt": object["status"]["startTime"], "finishedAt": now,
            }});
            let containers = container_statuses(object, "containers", &killed, false);
            let status = &mut object["status"];
            status["phase"] = "Failed".into();
            status["reason"] = "DeadlineExceeded".into();
            status["message"] = "Pod was active on the node longer than the specified deadline".into();
            status["containerStatuses"] = containers;
            for condition in ["Ready", "ContainersReady"] {
                set_condition(object, condition, "False", Some(("PodFailed", "")), &now);
            }
        });
    }

    /// Pod GC: deletes the pods of a node that does not exist.
    fn collect_pods(&mut self, context: &mut ComponentContext<'_>, node: &Arc<str>) {
        if context.nodes.contains_key(node) {
            return;
        }
        for name in self.pods_by_node.get(node).cloned().unwrap_or_default() {
            let Some(view) = context.pods.get(&name) else { continue };
            let pod = PodRef { name, uid: view.uid.clone() };
            if !view.is_finished() {
                let now = whole_second(context.now).to_string();
                edit_status(context, &pod, |object| {
                    object["status"]["phase"] = "Failed".into();
                    let target = ("DeletionByPodGC", "PodGC: node no longer exists");
                    set_condition(object, "DisruptionTarget", "True", Some(target), &now);
                });
            }
            remove_pod(context, &pod);
        }
    }
}

/// The view of a pod, if it is still the same pod.
fn current<'a>(context: &'a ComponentContext<'_>, pod: &PodRef) -> Option<&'a Arc<PodView>> {
    context.pods.get(&pod.name).filter(|view| view.uid == pod.uid)
}

/// How long a stage of a pod is delayed.
fn stage_delay(pod: &PodView, stage: &str) -> Duration {
    let annotation = pod.annotations.get(&format!("{stage}{STAGE_SUFFIX}"));
    let nanos = annotation.and_then(duration::parse).and_then(|nanos| u64::try_from(nanos).ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

fn is_of_job(pod: &PodView) -> bool {
    pod.controller().is_some_and(|owner| &*owner.kind == "Job")
}

fn finish_pod(context: &mut ComponentContext<'_>, pod: &PodRef) {
    if current(context, pod).is_none_or(|view| view.is_terminating() || view.is_finished()) {
        return;
    }
    let now = whole_second(context.now).to_string();
    edit_status(context, pod, |object| {
        let completed = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}});
        let containers = container_statuses(object, "containers", &completed, false);
        let status = &mut object["status"];
        status["phase"] = "Succeeded".into();
        status["containerStatuses"] = containers;
        for condition in ["Ready", "ContainersReady"] {
            set_condition(object, condition, "False", Some(("PodCompleted", "")), &now);
        }
    });
}

/// The containers of a terminating pod have stopped.
fn remove_pod(context: &mut ComponentContext<'_>, pod: &PodRef) {
    let preconditions = Some(Preconditions { uid: Some(pod.uid.to_string()), resource_version: None });
    let options = DeleteOptions { preconditions, grace_period_seconds: Some(0), ..DeleteOptions::default() };
    // It may have gone already.
    let _ = context.registry.delete_object(&Kind::new("", "Pod"), &pod.name, &options);
}

fn evict_by_taint(context: &mut ComponentContext<'_>, pod: &PodRef) {
    let now = whole_second(context.now).to_string();
    edit_status(context, pod, |object| {
        let target = ("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint");
        set_condition(object, "DisruptionTarget", "True", Some(target), &now);
    });
    let preconditions = Some(Preconditions { uid: Some(pod.uid.to_string()), resource_version: None });
    let options = DeleteOptions { preconditions, ..DeleteOptions::default() };
    let _ = context.registry.delete_object(&Kind::new("", "Pod"), &pod.name, &options);
}

/// Edits the status of a pod. One that has gone is left alone.
fn edit_status(context: &mut ComponentContext<'_>, pod: &PodRef, mut edit: impl FnMut(&mut Value)) {
    let uid = pod.uid.clone();
    let _ = context.registry.update_object(&Kind::new("", "Pod"), &pod.name, UpdatedPart::Status, |object| {
        let is_same = object["metadata"]["uid"] == *uid;
        if is_same {
            edit(object);
        }
        is_same
    });
}

/// The statuses of a list of containers, all in one state.
fn container_statuses(pod: &Value, list: &str, state: &Value, is_ready: bool) -> Value {
    let containers = pod["spec"][list].as_array().into_iter().flatten();
    containers
        .map(|container| {
            json!({
                "name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0,
                "ready": is_ready, "started": is_ready, "state": state, "lastState": {},
            })
        })
        .collect()
}

fn set_condition(
    pod: &mut Value,
    condition_type: &str,
    condition_status: &str,
    reason: Option<(&str, &str)>,
    now: &str,
) {
    let mut condition = json!({"type": condition_type, "status": condition_status});
    if let Some((reason, message)) = reason {
        condition["reason"] = reason.into();
        if !message.is_empty() {
            condition["message"] = message.into();
        }
    }
    set_pod_condition(pod, condition, now);
}

/// A node that nobody reports the status of becomes ready, with KWOK's capacity if it has none.
fn initialize_node(context: &mut ComponentContext<'_>, name: &Arc<str>) {
    let now = whole_second(context.now).to_string();
    let key = NamespacedName::new("", name.clone());
    let version = context.registry.store().git_version();
    let _ = context.registry.update_object(&Kind::new("", "Node"), &key, UpdatedPart::Status, |node| {
        set_initial_node_status(node, version, &now);
        true
    });
}

/// Sets the status that the kubelet of a ready node reports. `version` is that of the cluster: clients parse it as the
/// version of a kubelet and compare it with the server's, so it has no addition such as the one of KWOK's nodes.
pub(super) fn set_initial_node_status(node: &mut Value, version: &str, now: &str) {
    let status = &mut node["status"];
    if !status["capacity"].is_object() {
        status["capacity"] = json!({"cpu": "1k", "memory": "1Ti", "pods": "1M"});
    }
    if !status["allocatable"].is_object() {
        status["allocatable"] = status["capacity"].clone();
    }
    let mut conditions = kubelet_conditions();
    for condition in &mut conditions {
        condition["lastHeartbeatTime"] = now.into();
        condition["lastTransitionTime"] = now.into();
    }
    status["conditions"] = conditions.into();
    if !status["addresses"].is_array() {
        status["addresses"] = json!([{"type": "InternalIP", "address": NODE_ADDRESS}]);
    }
    if status["nodeInfo"]["kubeletVersion"].as_str().unwrap_or_default().is_empty() {
        status["nodeInfo"] = json!({
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "",
            "kubeProxyVersion": "", "kubeletVersion": version, "machineID": "",
            "operatingSystem": "linux", "osImage": "", "systemUUID": "",
        });
    }
}
