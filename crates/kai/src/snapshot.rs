//! The input of a cycle: settings and objects, parsed.

use std::collections::BTreeSet;
use std::sync::Arc;

use kubernetes::objects::{NodeView, PodSpecCache, PodView};
use kubernetes::read::view;
use model::{NamespacedName, Object};
use serde::Deserialize;

use crate::objects::{
    BindRequestView, DeviceClassView, NamedView, PodGroupView, PriorityClassView, QueueView,
    ResourceSliceView, TopologyView,
};
use crate::settings::Settings;
use crate::{Error, Result};

/// The settings and the objects of a scheduler at one moment.
#[derive(Debug)]
pub struct Snapshot {
    pub(crate) settings: Settings,
    pub(crate) pods: Vec<Arc<PodView>>,
    pub(crate) nodes: Vec<Arc<NodeView>>,
    pub(crate) queues: Vec<QueueView>,
    pub(crate) pod_groups: Vec<PodGroupView>,
    pub(crate) bind_requests: Vec<BindRequestView>,
    pub(crate) priority_classes: Vec<PriorityClassView>,
    pub(crate) config_maps: BTreeSet<NamespacedName>,
    pub(crate) topologies: Vec<TopologyView>,
    pub(crate) resource_slices: Vec<ResourceSliceView>,
    pub(crate) device_classes: Vec<DeviceClassView>,
    /// The names of nodes with a NUMA topology.
    pub(crate) numa_nodes: BTreeSet<Arc<str>>,
    /// Volumes, claims, storage classes and drivers, for the filter of volumes.
    pub(crate) storage: Vec<Object>,
    pod_specs: PodSpecCache,
}

impl Snapshot {
    /// A snapshot without objects.
    pub fn new(settings: Settings) -> Snapshot {
        Snapshot {
            settings,
            pods: Vec::new(),
            nodes: Vec::new(),
            queues: Vec::new(),
            pod_groups: Vec::new(),
            bind_requests: Vec::new(),
            priority_classes: Vec::new(),
            config_maps: BTreeSet::new(),
            topologies: Vec::new(),
            resource_slices: Vec::new(),
            device_classes: Vec::new(),
            numa_nodes: BTreeSet::new(),
            storage: Vec::new(),
            pod_specs: PodSpecCache::default(),
        }
    }

    /// Adds an object. An object of a kind that no decision depends on is ignored; a malformed one is an error.
    pub fn add(&mut self, object: &Object) -> Result<()> {
        let meta = object.meta();
        let group = meta.api_version.split_once('/').map_or("", |(group, _)| group);
        match (group, &*meta.kind) {
            ("", "Pod") => {
                let pod = self.pod_specs.pod_view(object);
                check_readable("Pod", object, pod.read_error.as_deref())?;
                self.pods.push(Arc::new(pod));
            }
            ("", "Node") => {
                let node = NodeView::parse(object);
                check_readable("Node", object, node.read_error.as_deref())?;
                self.nodes.push(Arc::new(node));
            }
            ("scheduling.run.ai", "Queue") => self.queues.push(parse("Queue", object)?),
            ("scheduling.run.ai", "PodGroup") => self.pod_groups.push(parse("PodGroup", object)?),
            ("scheduling.run.ai", "BindRequest") => self.bind_requests.push(parse("BindRequest", object)?),
            ("scheduling.k8s.io", "PriorityClass") => {
                self.priority_classes.push(parse("PriorityClass", object)?);
            }
            ("", "ConfigMap") => {
                let named: NamedView = parse("ConfigMap", object)?;
                self.config_maps.insert(named.metadata.namespaced_name());
            }
            ("kai.scheduler" | "kueue.x-k8s.io", "Topology") => {
                self.topologies.push(parse("Topology", object)?);
            }
            ("resource.k8s.io", "ResourceSlice") => {
                self.resource_slices.push(parse("ResourceSlice", object)?);
            }
            ("resource.k8s.io", "DeviceClass") => self.device_classes.push(parse("DeviceClass", object)?),
            ("topology.node.k8s.io", "NodeResourceTopology") => {
                self.numa_nodes.insert((*meta.name).into());
            }
            ("", "PersistentVolume" | "PersistentVolumeClaim") | ("storage.k8s.io", _) => {
                self.storage.push(object.clone());
            }
            _ => {}
        }
        Ok(())
    }
}

fn parse<T: for<'de> Deserialize<'de>>(kind: &'static str, object: &Object) -> Result<T> {
    view(object).map_err(|why| Error::object(kind, name(object), why))
}

fn check_readable(kind: &'static str, object: &Object, error: Option<&str>) -> Result<()> {
    error.map_or(Ok(()), |why| Err(Error::object(kind, name(object), why)))
}

fn name(object: &Object) -> String {
    let meta = object.meta();
    if meta.namespace.is_empty() {
        meta.name.into_owned()
    } else {
        format!("{}/{}", meta.namespace, meta.name)
    }
}
