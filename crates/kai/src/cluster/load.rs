//! The cluster that a snapshot shows at a moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::objects::NodeView;
use model::Moment;
use rustc_hash::FxHashMap;

use super::free_columns::FreeColumns;
use super::gpu_groups::GpuGroupNames;
use super::ids::{NodeId, PodId};
use super::load_jobs::{JobLoader, load_jobs};
use super::load_pods::{GPU_GROUP_LABEL, GPU_GROUP_LABEL_PREFIX, PodLoader};
use super::load_queues::{QueueTable, load_queues};
use super::node::{CPU_WORKER_LABEL, DEFAULT_GPU_MEMORY, GPU_WORKER_LABEL, Node};
use super::node_set::NodeSet;
use super::pod_info::{PodInfo, PodInfos};
use super::resources::ResourceNames;
use super::status::PodStatus;
use super::topology::Topology;
use super::{Cluster, Pod};
use crate::snapshot::Snapshot;
use crate::{Error, Result};

/// The most levels of a topology.
const MAX_TOPOLOGY_LEVELS: usize = 16;

/// Loads a snapshot.
pub(crate) fn load(snapshot: &Snapshot, now: Moment) -> Result<Cluster> {
    check_devices(snapshot)?;
    let node_views = select_nodes(snapshot)?;
    let names = resource_names(snapshot, &node_views);
    let gpu_groups = gpu_groups(snapshot);
    let known = gpu_groups.known_count();
    let nodes: Vec<Node> = node_views.into_iter().map(|view| Node::new(view, &names, known)).collect();
    let node_ids: FxHashMap<Arc<str>, NodeId> =
        nodes.iter().enumerate().map(|(index, node)| (node.name().clone(), NodeId::of(index))).collect();
    let QueueTable { queues, ids: queue_ids } = load_queues(snapshot)?;
    let topologies = load_topologies(snapshot)?;
    let JobLoader { mut jobs, ids: job_ids } = load_jobs(snapshot, &queue_ids, &names)?;

    let mut loader = PodLoader::new(snapshot, now, &names, &node_ids, &job_ids, &gpu_groups);
    let mut views: Vec<_> = snapshot.pods.iter().collect();
    views.sort_by(|a, b| a.name.cmp(&b.name));
    let (mut pods, mut infos) = (Vec::with_capacity(views.len()), PodInfos::default());
    for (index, view) in views.into_iter().enumerate() {
        let (pod, info) = loader.load(view, PodId::of(index), &jobs)?;
        if pods.last().is_some_and(|last: &Pod| last.view.name == pod.view.name) {
            return Err(Error::object("Pod", pod.full_name(), "it is listed twice"));
        }
        pods.push(pod);
        infos.push_pod(info);
    }
    let sizes = nodes.iter().map(|node| node.gpu_memory).filter(|memory| *memory > DEFAULT_GPU_MEMORY);
    let (min_gpu_memory, max_gpu_memory) = (sizes.clone().min(), sizes.max());
    let job_count = jobs.len();
    let mut cluster = Cluster {
        now,
        names,
        free: FreeColumns::new(&nodes),
        nodes,
        nodes_with_affinity: NodeSet::default(),
        pods,
        infos,
        jobs: Vec::new(),
        pending_jobs: BTreeSet::new(),
        job_count,
        queues,
        gpu_groups,
        topologies,
        config_maps: snapshot.config_maps.clone(),
        min_gpu_memory,
        max_gpu_memory,
        status_changes: 0,
    };
    add_pods_to_nodes(&mut cluster);
    for index in 0..cluster.pods.len() {
        if let Some(job) = cluster.pods[index].job {
            jobs[job.index()].add_pod(PodInfos::of_pod(PodId::of(index)), &cluster.infos, &cluster.pods);
        }
    }
    super::signature::set_signatures(&mut jobs, &cluster.infos, &cluster.pods);
    let with_pending = jobs.iter().filter(|job| job.has_status(PodStatus::Pending));
    cluster.pending_jobs = with_pending.map(|job| job.id).collect();
    cluster.jobs = jobs;
    Ok(cluster)
}

/// Refuses devices of dynamic resource allocation where the scheduler would count them as GPUs.
fn check_devices(snapshot: &Snapshot) -> Result<()> {
    let counts = |driver: &str| driver.to_ascii_lowercase().contains("gpu");
    for slice in &snapshot.resource_slices {
        if slice.spec.node_name.is_some() && counts(&slice.spec.driver) && !slice.spec.devices.is_empty() {
            return Err(Error::Unsupported {
                kind: "ResourceSlice",
                name: slice.metadata.name.to_string(),
                what: "GPUs of dynamic resource allocation",
            });
        }
    }
    Ok(())
}

/// The nodes of the scheduler, sorted by name.
fn select_nodes(snapshot: &Snapshot) -> Result<Vec<Arc<NodeView>>> {
    let params = &snapshot.settings.params;
    let is_selected = |node: &&Arc<NodeView>| {
        let has_worker_label =
            || node.label(GPU_WORKER_LABEL).is_some() || node.label(CPU_WORKER_LABEL).is_some();
        params.node_pool.contains(&node.labels) && (!params.restrict_scheduling_nodes || has_worker_label())
    };
    let mut nodes: Vec<Arc<NodeView>> = snapshot.nodes.iter().filter(is_selected).cloned().collect();
    nodes.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(twice) = nodes.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(Error::object("Node", &*twice[0].name, "it is listed twice"));
    }
    Ok(nodes)
}

fn resource_names(snapshot: &Snapshot, nodes: &[Arc<NodeView>]) -> ResourceNames {
    let mut names = ResourceNames::default();
    for node in nodes {
        node.allocatable.iter().for_each(|(name, _)| names.add(name));
    }
    let mut of_pods: Vec<&str> = Vec::new();
    let mut last_spec = None;
    for pod in &snapshot.pods {
        // Pods of a template share their spec.
        let spec = Arc::as_ptr(&pod.spec);
        if last_spec.replace(spec) == Some(spec) {
            continue;
        }
        for container in pod.spec.init_containers.iter().chain(&pod.spec.containers) {
            for (name, _) in container.resources.requests.iter() {
                if names.index(name).is_none() {
                    of_pods.push(name);
                }
            }
        }
    }
    of_pods.sort_unstable();
    of_pods.dedup();
    of_pods.into_iter().for_each(|name| names.add(name));
    names
}

fn gpu_groups(snapshot: &Snapshot) -> GpuGroupNames {
    let mut names = Vec::new();
    for request in &snapshot.bind_requests {
        names.extend(request.spec.selected_gpu_groups.iter().cloned());
    }
    for pod in &snapshot.pods {
        let of_pod = pod
            .labels
            .iter()
            .filter(|(label, _)| &***label == GPU_GROUP_LABEL || label.starts_with(GPU_GROUP_LABEL_PREFIX));
        names.extend(of_pod.map(|(_, group)| group.clone()));
    }
    GpuGroupNames::new(names)
}

fn load_topologies(snapshot: &Snapshot) -> Result<Vec<Topology>> {
    let mut topologies = BTreeMap::new();
    for view in &snapshot.topologies {
        let name = view.metadata.name.clone();
        let levels: Vec<Arc<str>> = view.spec.levels.iter().map(|level| level.node_label.clone()).collect();
        let invalid = |why: String| Err(Error::object("Topology", &*name, why));
        if levels.is_empty() || levels.len() > MAX_TOPOLOGY_LEVELS {
            let why = format!("{} levels: expected 1 to {MAX_TOPOLOGY_LEVELS}", levels.len());
            return invalid(why);
        }
        let is_repeated = |index: usize| levels[..index].contains(&levels[index]);
        if let Some(index) = (0..levels.len()).find(|index| is_repeated(*index)) {
            return invalid(format!("two levels have the label {:?}", levels[index]));
        }
        topologies.insert(name.clone(), Topology { name, levels });
    }
    Ok(topologies.into_values().collect())
}

/// Adds pods to their nodes: those that hold shared GPUs first.
fn add_pods_to_nodes(cluster: &mut Cluster) {
    for are_reservations in [true, false] {
        for id in (0..cluster.pods.len()).map(PodId::of) {
            let info = PodInfos::of_pod(id);
            let PodInfo { node, status, .. } = cluster.info(info);
            if let Some(node) = node.known()
                && cluster.pod(id).is_reservation == are_reservations
                && status.is_active_used()
            {
                cluster.add_to_node(info, node).expect("every pod is added once");
            }
        }
    }
}
