//! The Endpoints and EndpointSlice controllers: the addresses of the pods that Services select.
//!
//! [`EndpointControllers::apply`] is their informers. Both write what follows from the same pods, so one sync is that of
//! both. Hints for topology aware routing are not set, and Endpoints that users write are not mirrored.

mod pod;
mod port_order;
mod service;
mod slices;
mod subsets;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kubernetes::well_known;
use model::{Moment, NamespacedName, Object, ObjectRef, What};
use serde_json::{Value, json};

use self::pod::ServedPod;
use self::service::Service;
use super::ApiCall;

/// The Endpoints and EndpointSlice controllers of a cluster.
#[derive(Debug, Default)]
pub struct EndpointControllers {
    services: BTreeMap<NamespacedName, Service>,
    pods: BTreeMap<NamespacedName, Arc<ServedPod>>,
    /// The zones of the nodes that exist; empty for none.
    zones: BTreeMap<Arc<str>, Arc<str>>,
    endpoints: BTreeMap<NamespacedName, Object>,
    /// The EndpointSlices of the controller, by the name of their Service, and by their own.
    slices: BTreeMap<NamespacedName, BTreeMap<Arc<str>, Object>>,
    trigger_times: BTreeMap<NamespacedName, TriggerTimes>,
    /// The Services with pods on nodes that do not exist, by node.
    waiting_for_nodes: BTreeMap<Arc<str>, BTreeSet<NamespacedName>>,
    queue: BTreeSet<NamespacedName>,
}

/// The times that were seen in the last sync of a Service.
#[derive(Debug, Default)]
struct TriggerTimes {
    pods: BTreeMap<Arc<str>, Moment>,
}

/// What a Service selects at the time of a sync.
struct ServedPods<'a> {
    service: &'a Service,
    pods: Vec<&'a ServedPod>,
    zones: &'a BTreeMap<Arc<str>, Arc<str>>,
    /// When the change happened that is written; `None` if it has no time of its own.
    trigger_time: Option<Moment>,
}

const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";

// === impl EndpointControllers ===

impl EndpointControllers {
    /// Handles an informer event. Kinds that the controllers do not read are ignored.
    pub fn apply(&mut self, event: &What) {
        let meta = event.object().meta();
        let name = NamespacedName::new(&*meta.namespace, &*meta.name);
        match (&*meta.api_version, &*meta.kind) {
            ("v1", "Service") => self.apply_service(name, event),
            ("v1", "Pod") => self.apply_pod(name, event),
            ("v1", "Node") => self.apply_node(event),
            ("v1", "Endpoints") => {
                match event.state() {
                    Some(object) => drop(self.endpoints.insert(name.clone(), object.clone())),
                    None => drop(self.endpoints.remove(&name)),
                }
                self.enqueue_service(name);
            }
            ("discovery.k8s.io/v1", "EndpointSlice") => self.apply_slice(&name, event),
            _ => {}
        }
    }

    /// Whether a Service is to be synced.
    pub fn has_work(&self) -> bool {
        !self.queue.is_empty()
    }

    /// The API calls of the next sync that has any. To be repeated, once they are carried out and reported back, until it
    /// returns none. An object that is created has no name yet if it has `generateName`.
    pub fn process_next_item(&mut self) -> Vec<ApiCall> {
        while let Some(name) = self.queue.pop_first() {
            let calls = self.sync(&name);
            if !calls.is_empty() {
                return calls;
            }
        }
        Vec::new()
    }

    fn apply_service(&mut self, name: NamespacedName, event: &What) {
        match event.state().and_then(|object| Service::parse(object).ok()) {
            Some(service) => drop(self.services.insert(name.clone(), service)),
            None => {
                self.services.remove(&name);
                self.trigger_times.remove(&name);
            }
        }
        self.queue.insert(name);
    }

    fn apply_pod(&mut self, name: NamespacedName, event: &What) {
        let new = event.state().and_then(|object| ServedPod::parse(object).ok()).map(Arc::new);
        let old = match &new {
            Some(new) => self.pods.insert(name.clone(), new.clone()),
            None => self.pods.remove(&name),
        };
        if old == new {
            return;
        }
        let is_served =
            |service: &Service| [&old, &new].into_iter().flatten().any(|pod| service.selects(&pod.labels));
        let services =
            in_namespace(&self.services, &name.namespace).filter(|(_, service)| is_served(service));
        self.queue.extend(services.map(|(name, _)| name.clone()));
    }

    fn apply_node(&mut self, event: &What) {
        let Ok(value) = event.object().value() else { return };
        let name: Arc<str> = (*event.object().meta().name).into();
        if event.state().is_none() {
            self.zones.remove(&name);
            return;
        }
        let zone = value["metadata"]["labels"][well_known::ZONE].as_str().unwrap_or_default();
        self.zones.insert(name.clone(), zone.into());
        self.queue.extend(self.waiting_for_nodes.remove(&name).unwrap_or_default());
    }

    fn apply_slice(&mut self, name: &NamespacedName, event: &What) {
        let Ok(value) = event.object().value() else { return };
        let labels = &value["metadata"]["labels"];
        let Some(service) = labels[slices::SERVICE_LABEL].as_str() else { return };
        if labels[slices::MANAGED_BY_LABEL] != slices::CONTROLLER {
            return;
        }
        let service = NamespacedName { namespace: name.namespace.clone(), name: service.into() };
        let slices = self.slices.entry(service.clone()).or_default();
        match event.state() {
            Some(object) => drop(slices.insert(name.name.clone(), object.clone())),
            None => drop(slices.remove(&name.name)),
        }
        if slices.is_empty() {
            self.slices.remove(&service);
        }
        self.enqueue_service(service);
    }

    fn enqueue_service(&mut self, name: NamespacedName) {
        if self.services.contains_key(&name) {
            self.queue.insert(name);
        }
    }

    fn sync(&mut self, name: &NamespacedName) -> Vec<ApiCall> {
        let current = self.endpoints.get(name);
        let Some(service) = self.services.get(name) else {
            // EndpointSlices are left to the garbage collector.
            return current.map(|endpoints| delete(endpoints, "Endpoints")).into_iter().collect();
        };
        if !service.has_endpoints() {
            return Vec::new();
        }
        let pods: Vec<&ServedPod> = in_namespace(&self.pods, &name.namespace)
            .map(|(_, pod)| &**pod)
            .filter(|pod| service.selects(&pod.labels))
            .collect();
        let trigger_time = match self.trigger_times.get_mut(name) {
            Some(times) => times.update(&pods),
            None => {
                self.trigger_times.entry(name.clone()).or_default().update(&pods);
                service.creation_timestamp
            }
        };
        for node in pods.iter().filter_map(|pod| pod.node_name.as_ref()) {
            if !self.zones.contains_key(node) {
                self.waiting_for_nodes.entry(node.clone()).or_default().insert(name.clone());
            }
        }
        let served = ServedPods { service, pods, zones: &self.zones, trigger_time };
        let mut calls: Vec<ApiCall> = subsets::sync(&served, current).into_iter().collect();
        let slices = self.slices.get(name).into_iter().flat_map(BTreeMap::values);
        calls.extend(slices::sync(&served, slices));
        calls
    }
}

// === impl TriggerTimes ===

impl TriggerTimes {
    /// The earliest of the times at which pods became ready or unready since the last sync.
    fn update(&mut self, pods: &[&ServedPod]) -> Option<Moment> {
        let times = pods.iter().filter_map(|pod| Some((pod.name.name.clone(), pod.ready_changed?)));
        let times: BTreeMap<Arc<str>, Moment> = times.collect();
        let is_new = |(pod, at): &(&Arc<str>, &Moment)| self.pods.get(*pod).is_none_or(|last| **at > *last);
        let earliest = times.iter().filter(is_new).map(|(_, at)| *at).min();
        self.pods = times;
        earliest
    }
}

// === impl ServedPods ===

impl ServedPods<'_> {
    /// Annotates an object with the time of the change, or removes the time of an earlier one.
    fn annotate(&self, object: &mut Value) {
        let annotations = &mut object["metadata"]["annotations"];
        match self.trigger_time {
            Some(at) => annotations[TRIGGER_TIME] = at.to_string().into(),
            None => {
                if let Some(annotations) = annotations.as_object_mut() {
                    annotations.remove(TRIGGER_TIME);
                }
            }
        }
    }
}

/// The entries of a namespace.
fn in_namespace<'a, T>(
    table: &'a BTreeMap<NamespacedName, T>,
    namespace: &'a Arc<str>,
) -> impl Iterator<Item = (&'a NamespacedName, &'a T)> {
    let first = NamespacedName { namespace: namespace.clone(), name: "".into() };
    table.range(first..).take_while(move |(name, _)| name.namespace == *namespace)
}

fn delete(object: &Object, kind: &str) -> ApiCall {
    let meta = object.meta();
    let kind = model::Kind::of(&meta.api_version, kind);
    let uid = meta.uid.as_deref().unwrap_or_default().into();
    ApiCall::Delete { object: ObjectRef::new(kind, &*meta.namespace, &*meta.name), uid }
}

/// A reference to a pod, as addresses have it.
fn target_ref(pod: &ServedPod) -> Value {
    json!({"kind": "Pod", "namespace": *pod.name.namespace, "name": *pod.name.name, "uid": *pod.uid})
}

#[cfg(test)]
mod tests;
