//! The pods of a snapshot.

use std::borrow::Cow;
use std::sync::Arc;

use kubernetes::amounts::ScalarResourceNames;
use kubernetes::objects::{Phase, PodSpec, PodView};
use model::{Moment, NamespacedName};
use rustc_hash::{FxHashMap, FxHashSet};
use scheduler::pod::SchedulingSpec;

use super::gpu::{GpuRequirement, ReceivedType};
use super::gpu_groups::GpuGroupNames;
use super::ids::{JobId, NodeId, PodId};
use super::job::Job;
use super::pod::{Pod, SUB_GROUP_LABEL};
use super::pod_info::{AssignedNode, GpuGroups, PodInfo};
use super::pod_request::PodRequest;
use super::resources::{ResourceNames, ResourceVector};
use super::status::PodStatus;
use super::sub_group::DEFAULT_SUB_GROUP;
use crate::objects::{BindRequestView, DeviceClassView};
use crate::snapshot::Snapshot;
use crate::{Error, Result};

/// The label with the GPU group of a pod.
pub(super) const GPU_GROUP_LABEL: &str = "runai-gpu-group";
/// The beginning of labels with further groups of a pod.
pub(super) const GPU_GROUP_LABEL_PREFIX: &str = "runai-gpu-group/";

/// The prefix of the resource that containers may request of every device class, by its name.
const DEVICE_CLASS_PREFIX: &str = "deviceclass.resource.kubernetes.io/";

const POD_GROUP_ANNOTATION: &str = "pod-group-name";
const RECEIVED_TYPE_ANNOTATION: &str = "received-resource-type";
const APP_LABEL: &str = "app";
const RESERVATION_APP: &str = "kai-resource-reservation";
const SCALING_APP: &str = "scaling-pod";

/// Loads pods one after the other.
pub(super) struct PodLoader<'a> {
    now: Moment,
    stuck_threshold: i64,
    names: &'a ResourceNames,
    nodes: &'a FxHashMap<Arc<str>, NodeId>,
    jobs: &'a FxHashMap<Arc<str>, JobId>,
    gpu_groups: &'a GpuGroupNames,
    bind_requests: FxHashMap<NamespacedName, &'a BindRequestView>,
    /// Resources that are allocated as devices.
    device_resources: FxHashSet<Cow<'a, str>>,
    /// The converted specs, by that of the view and the namespace.
    specs: FxHashMap<(*const PodSpec, Arc<str>), Arc<SchedulingSpec>>,
    scalars: ScalarResourceNames,
}

impl<'a> PodLoader<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        now: Moment,
        names: &'a ResourceNames,
        nodes: &'a FxHashMap<Arc<str>, NodeId>,
        jobs: &'a FxHashMap<Arc<str>, JobId>,
        gpu_groups: &'a GpuGroupNames,
    ) -> PodLoader<'a> {
        // A request for a node that is not there does not count.
        let live =
            snapshot.bind_requests.iter().filter(|request| nodes.contains_key(&request.spec.selected_node));
        let by_pod = live.map(|request| {
            let (namespace, name) = (request.metadata.namespace.clone(), request.spec.pod_name.clone());
            (NamespacedName { namespace, name }, request)
        });
        PodLoader {
            now,
            stuck_threshold: snapshot.settings.params.stuck_in_releasing_threshold,
            names,
            nodes,
            jobs,
            gpu_groups,
            bind_requests: by_pod.collect(),
            device_resources: device_resources(snapshot),
            specs: FxHashMap::default(),
            scalars: ScalarResourceNames::default(),
        }
    }

    /// The pod that a view shows, and its state.
    pub(super) fn load(&mut self, view: &Arc<PodView>, id: PodId, jobs: &[Job]) -> Result<(Pod, PodInfo)> {
        let invalid =
            |why: String| Error::object("Pod", format!("{}/{}", view.name.namespace, view.name.name), why);
        let request = PodRequest::new(view, self.names).map_err(invalid)?;
        let spec = self.scheduling_spec(view).map_err(invalid)?;
        let app = view.label(APP_LABEL);
        let job = view.annotations.get(POD_GROUP_ANNOTATION).filter(|name| !name.is_empty());
        let job = job.and_then(|name| self.jobs.get(name)).copied();
        let sub_group =
            view.label(SUB_GROUP_LABEL).filter(|name| !name.is_empty()).unwrap_or(DEFAULT_SUB_GROUP);
        let pod_set = job.and_then(|job| jobs[job.index()].tree.find_pod_set(sub_group));
        let pod = Pod {
            spec,
            job,
            pod_set: pod_set.map(|index| index as u32),
            request_type: request.request_type,
            request: request.vector,
            gpu: request.gpu,
            is_legacy_mig: request.is_legacy_mig,
            is_reservation: app == Some(RESERVATION_APP),
            is_utility: app == Some(RESERVATION_APP) || app == Some(SCALING_APP),
            view: view.clone(),
        };
        let info = self.info(view, id);
        if info.status.is_alive() || info.status.is_active_used() {
            self.check_devices(&pod)?;
        }
        Ok((pod, info))
    }

    fn info(&self, view: &PodView, id: PodId) -> PodInfo {
        let request = self.bind_requests.get(&view.name).copied().filter(|request| !request.is_failed());
        let node_name =
            view.node_name.as_ref().or_else(|| request.map(|request| &request.spec.selected_node));
        let node = match node_name {
            None => AssignedNode::None,
            Some(name) => {
                self.nodes.get(name).map_or(AssignedNode::Unknown, |node| AssignedNode::Node(*node))
            }
        };
        let selected = request.map(|request| &request.spec.selected_gpu_groups);
        let gpu_groups = match selected.filter(|groups| !groups.is_empty()) {
            Some(groups) => groups.iter().filter_map(|name| self.gpu_groups.find(name)).collect(),
            None => self.labelled_groups(view),
        };
        let received = request.map(|request| &*request.spec.received_resource_type);
        let received = received
            .filter(|name| !name.is_empty())
            .or_else(|| view.annotations.get(RECEIVED_TYPE_ANNOTATION))
            .map_or(ReceivedType::None, ReceivedType::of);
        PodInfo {
            pod: id,
            status: self.status(view, request.is_some()),
            node,
            gpu_groups,
            is_virtual_status: false,
            received,
            accepted: ResourceVector::zero(self.names),
            accepted_gpu: GpuRequirement::default(),
        }
    }

    fn status(&self, view: &PodView, has_bind_request: bool) -> PodStatus {
        match (view.status.phase, view.deletion_timestamp) {
            (Phase::Running, Some(deleted)) if self.now.nanos_since(deleted) > self.stuck_threshold => {
                PodStatus::StuckInReleasing
            }
            (Phase::Running | Phase::Pending, Some(_)) => PodStatus::Releasing,
            (Phase::Running, None) => PodStatus::Running,
            (Phase::Pending, None) if view.node_name.is_some() => PodStatus::Bound,
            (Phase::Pending, None) if has_bind_request => PodStatus::Binding,
            (Phase::Pending, None) if !view.spec.scheduling_gates.is_empty() => PodStatus::Gated,
            (Phase::Pending, None) => PodStatus::Pending,
            (Phase::Succeeded, _) => PodStatus::Succeeded,
            (Phase::Failed, _) => PodStatus::Failed,
            (Phase::Unknown, _) => PodStatus::Unknown,
        }
    }

    /// Further groups count only beside the first one.
    fn labelled_groups(&self, view: &PodView) -> GpuGroups {
        let Some(first) = view.label(GPU_GROUP_LABEL) else { return GpuGroups::new() };
        let more = view.labels.iter().filter(|(label, _)| label.starts_with(GPU_GROUP_LABEL_PREFIX));
        let names = std::iter::once(first).chain(more.map(|(_, name)| &**name));
        names.filter_map(|name| self.gpu_groups.find(name)).collect()
    }

    /// Pods of a template and a namespace share their converted spec.
    fn scheduling_spec(&mut self, view: &PodView) -> std::result::Result<Arc<SchedulingSpec>, String> {
        let key = (Arc::as_ptr(&view.spec), view.name.namespace.clone());
        if let Some(spec) = self.specs.get(&key) {
            return Ok(spec.clone());
        }
        let pod = scheduler::pod::Pod::new(view, &mut self.scalars);
        if let Some(error) = pod.read_error {
            return Err(error.to_string());
        }
        self.specs.insert(key, pod.spec.clone());
        Ok(pod.spec)
    }

    /// Refuses pods that need dynamic resource allocation.
    fn check_devices(&self, pod: &Pod) -> Result<()> {
        let containers = pod.view.spec.containers.iter().chain(&pod.view.spec.init_containers);
        let mut requests = containers.flat_map(|container| container.resources.requests.iter());
        let has_device_resource = !self.device_resources.is_empty()
            && requests.any(|(name, _)| self.device_resources.contains(name));
        if pod.spec.has_resource_claims || has_device_resource {
            return Err(Error::Unsupported {
                kind: "Pod",
                name: pod.full_name(),
                what: "dynamic resource allocation",
            });
        }
        Ok(())
    }
}

/// The resources that stand for devices of a class: the one that the class names, and the one with its own name.
fn device_resources(snapshot: &Snapshot) -> FxHashSet<Cow<'_, str>> {
    let classes = snapshot.device_classes.iter();
    let of_class = |class: &DeviceClassView| format!("{DEVICE_CLASS_PREFIX}{}", class.metadata.name);
    let implicit = classes.clone().map(|class| Cow::Owned(of_class(class)));
    let named = classes.filter_map(|class| class.spec.extended_resource_name.as_deref()).map(Cow::Borrowed);
    named.chain(implicit).collect()
}
