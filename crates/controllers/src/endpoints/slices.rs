//! The EndpointSlices of a Service.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::Object;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::pod::ServedPod;
use super::port_order::sort_slice_ports;
use super::service::{EndpointPort, Service};
use super::{HEADLESS_LABEL, ServedPods, delete, target_ref};
use crate::ApiCall;

pub(super) const SERVICE_LABEL: &str = "kubernetes.io/service-name";
pub(super) const MANAGED_BY_LABEL: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const CONTROLLER: &str = "endpointslice-controller.k8s.io";
/// The most endpoints of an EndpointSlice.
const MAX_ENDPOINTS: usize = 100;

/// An endpoint of an EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Endpoint {
    addresses: Vec<String>,
    conditions: Conditions,
    #[serde(skip_serializing_if = "Option::is_none")]
    hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target_ref: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node_name: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<Arc<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Conditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

/// What identifies an endpoint: its addresses, its host name, and its pod's namespace and name.
type EndpointKey = (Vec<String>, String, String, String);

/// An EndpointSlice that exists.
#[derive(Clone)]
struct Slice<'a> {
    object: &'a Object,
    value: Value,
    is_ipv6: bool,
    ports: Vec<EndpointPort>,
    endpoints: Vec<Endpoint>,
    is_changed: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SliceJson {
    #[serde(default)]
    address_type: String,
    #[serde(default)]
    ports: Option<Vec<PortJson>>,
    #[serde(default)]
    endpoints: Option<Vec<Endpoint>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PortJson {
    name: Option<String>,
    protocol: Option<String>,
    port: Option<i64>,
    app_protocol: Option<String>,
}

/// The changes of the slices of one family.
#[derive(Default)]
struct SliceChanges<'a> {
    /// Endpoints and their ports.
    created: Vec<(Vec<EndpointPort>, Vec<Endpoint>)>,
    updated: Vec<Slice<'a>>,
    deleted: Vec<Slice<'a>>,
}

/// The calls that bring the EndpointSlices up to date.
pub(super) fn sync<'a>(served: &ServedPods<'_>, existing: impl Iterator<Item = &'a Object>) -> Vec<ApiCall> {
    let families = served.service.families();
    let (slices, mut foreign): (Vec<Slice<'a>>, Vec<Slice<'a>>) = existing
        .filter_map(Slice::parse)
        .partition(|slice| families.contains(&slice.is_ipv6) && slice.is_owned_by(served.service));
    let mut calls = Vec::new();
    for is_ipv6 in families {
        let own: Vec<Slice<'a>> = slices.iter().filter(|slice| slice.is_ipv6 == is_ipv6).cloned().collect();
        calls.extend(reconcile(served, is_ipv6, own).into_calls(served, is_ipv6));
    }
    calls.extend(foreign.drain(..).map(|slice| delete(slice.object, "EndpointSlice")));
    calls
}

fn reconcile<'a>(served: &ServedPods<'_>, is_ipv6: bool, existing: Vec<Slice<'a>>) -> SliceChanges<'a> {
    let service = served.service;
    let existing_count = existing.len();
    let mut desired: BTreeMap<Vec<EndpointPort>, BTreeMap<EndpointKey, Endpoint>> = BTreeMap::new();
    for pod in served.pods.iter().filter(|pod| pod.has_address()) {
        let mut ports = service.ports_of(pod);
        sort_slice_ports(&mut ports);
        let endpoints = desired.entry(ports).or_default();
        let zone = pod.node_name.as_ref().and_then(|node| served.zones.get(node));
        // The pods of a node that does not exist are about to go.
        if zone.is_none() && !service.publishes_not_ready() {
            continue;
        }
        let endpoint = Endpoint::of(service, pod, zone, is_ipv6);
        if !endpoint.addresses.is_empty() {
            endpoints.insert(endpoint.key(), endpoint);
        }
    }
    let mut changes = SliceChanges::default();
    let mut by_ports: BTreeMap<Vec<EndpointPort>, Vec<Slice<'a>>> = BTreeMap::new();
    for slice in existing {
        by_ports.entry(slice.ports.clone()).or_default().push(slice);
    }
    for (ports, endpoints) in desired {
        let slices = by_ports.remove(&ports).unwrap_or_default();
        changes.reconcile_ports(service, ports, slices, endpoints);
    }
    changes.deleted.extend(by_ports.into_values().flatten());
    if existing_count == changes.deleted.len() && changes.created.is_empty() {
        // A Service without endpoints has an empty slice.
        match &changes.deleted[..] {
            [only] if only.is_placeholder(service) => changes.deleted.clear(),
            _ => changes.created.push((Vec::new(), Vec::new())),
        }
    }
    changes
}

// === impl SliceChanges ===

impl<'a> SliceChanges<'a> {
    /// Distributes the endpoints with the same ports: those that are in a slice stay there, and the others go into slices
    /// that change anyway, into one that has room, or into new ones.
    fn reconcile_ports(
        &mut self,
        service: &Service,
        ports: Vec<EndpointPort>,
        slices: Vec<Slice<'a>>,
        mut desired: BTreeMap<EndpointKey, Endpoint>,
    ) {
        let (mut changed, mut unchanged) = (Vec::new(), Vec::new());
        for mut slice in slices {
            let kept: Vec<Endpoint> =
                slice.endpoints.iter().filter_map(|endpoint| desired.remove(&endpoint.key())).collect();
            let is_changed = kept != slice.endpoints;
            if is_changed && kept.is_empty() {
                self.deleted.push(slice);
                continue;
            }
            slice.endpoints = kept;
            slice.is_changed = is_changed || !slice.has_labels_of(service);
            if slice.is_changed { changed.push(slice) } else { unchanged.push(slice) }
        }
        let mut rest = desired.into_values();
        changed.sort_by_key(|slice| std::cmp::Reverse(slice.endpoints.len()));
        for slice in &mut changed {
            let room = MAX_ENDPOINTS.saturating_sub(slice.endpoints.len());
            slice.endpoints.extend(rest.by_ref().take(room));
        }
        while rest.len() >= MAX_ENDPOINTS {
            self.created.push((ports.clone(), rest.by_ref().take(MAX_ENDPOINTS).collect()));
        }
        let count = rest.len();
        if count > 0 {
            let fits = |slice: &&mut Slice<'a>| slice.endpoints.len() + count <= MAX_ENDPOINTS;
            match unchanged.iter_mut().filter(fits).max_by_key(|slice| slice.endpoints.len()) {
                Some(slice) => {
                    slice.endpoints.extend(rest);
                    slice.is_changed = true;
                }
                None => self.created.push((ports, rest.collect())),
            }
        }
        self.updated.extend(changed.into_iter().chain(unchanged).filter(|slice| slice.is_changed));
    }

    /// Slices that would be deleted are used for new ones.
    fn into_calls(mut self, served: &ServedPods<'_>, is_ipv6: bool) -> Vec<ApiCall> {
        let service = served.service;
        let mut deleted = std::mem::take(&mut self.deleted).into_iter();
        while !self.created.is_empty() {
            let Some(slice) = deleted.next() else { break };
            if let Some((ports, endpoints)) = self.created.pop() {
                self.updated.push(Slice { ports, endpoints, ..slice });
            }
        }
        let mut calls = Vec::new();
        if !service.is_terminating {
            for (ports, endpoints) in self.created {
                let mut slice = json!({
                    "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                    "metadata": {
                        "generateName": generated_prefix(&service.name.name), "namespace": *service.name.namespace,
                        "labels": labels_of(service),
                        "ownerReferences": [{
                            "apiVersion": "v1", "kind": "Service", "name": *service.name.name, "uid": *service.uid,
                            "controller": true, "blockOwnerDeletion": true,
                        }],
                    },
                    "addressType": if is_ipv6 { "IPv6" } else { "IPv4" },
                });
                set_contents(&mut slice, &ports, &endpoints);
                served.annotate(&mut slice);
                calls.push(ApiCall::Create(Object::from_trusted(slice.to_string())));
            }
        }
        for Slice { mut value, ports, endpoints, .. } in self.updated {
            value["metadata"]["labels"] = labels_of(service);
            set_contents(&mut value, &ports, &endpoints);
            served.annotate(&mut value);
            calls.push(ApiCall::Update(Object::from_trusted(value.to_string())));
        }
        calls.extend(deleted.map(|slice| delete(slice.object, "EndpointSlice")));
        calls
    }
}

// === impl Slice ===

impl<'a> Slice<'a> {
    fn parse(object: &'a Object) -> Option<Slice<'a>> {
        let value = object.value().ok()?;
        let SliceJson { address_type, ports, endpoints } = SliceJson::deserialize(&value).ok()?;
        let ports = ports.into_iter().flatten().map(|port| EndpointPort {
            name: port.name.unwrap_or_default(),
            protocol: port.protocol.unwrap_or_default(),
            port: port.port.unwrap_or_default(),
            app_protocol: port.app_protocol,
        });
        let mut ports: Vec<EndpointPort> = ports.collect();
        sort_slice_ports(&mut ports);
        let is_ipv6 = address_type == "IPv6";
        let endpoints = endpoints.unwrap_or_default();
        Some(Slice { object, value, is_ipv6, ports, endpoints, is_changed: false })
    }

    fn is_owned_by(&self, service: &Service) -> bool {
        let owners = self.value["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        owners.into_iter().any(|owner| {
            owner["uid"] == *service.uid && owner["kind"] == "Service" && owner["apiVersion"] == "v1"
        })
    }

    /// Whether it has the Service's labels, apart from those that the controller sets.
    fn has_labels_of(&self, service: &Service) -> bool {
        let own = self.value["metadata"]["labels"].as_object().into_iter().flatten();
        let copied: BTreeMap<&str, &str> = own
            .filter(|(key, _)| !is_reserved(key))
            .map(|(key, value)| (&**key, value.as_str().unwrap_or_default()))
            .collect();
        let wanted = service.labels.iter().filter(|(key, _)| !is_reserved(key));
        copied == wanted.map(|(key, value)| (&**key, &**value)).collect()
    }

    fn is_placeholder(&self, service: &Service) -> bool {
        self.ports.is_empty()
            && self.endpoints.is_empty()
            && self.value["metadata"]["labels"] == labels_of(service)
    }
}

// === impl Endpoint ===

impl Endpoint {
    fn of(service: &Service, pod: &ServedPod, zone: Option<&Arc<str>>, is_ipv6: bool) -> Endpoint {
        let is_serving = pod.is_ready;
        Endpoint {
            addresses: pod.addresses_of(is_ipv6).map(str::to_owned).collect(),
            conditions: Conditions {
                ready: Some(service.publishes_not_ready() || is_serving && !pod.is_terminating),
                serving: Some(is_serving),
                terminating: Some(pod.is_terminating),
            },
            hostname: service.hostname_of(pod).map(str::to_owned),
            target_ref: Some(target_ref(pod)),
            node_name: pod.node_name.clone(),
            zone: zone.filter(|zone| !zone.is_empty()).cloned(),
        }
    }

    fn key(&self) -> EndpointKey {
        let mut addresses = self.addresses.clone();
        addresses.sort_unstable();
        let of_target = |field: &str| {
            let target = self.target_ref.as_ref().and_then(|target| target[field].as_str());
            target.unwrap_or_default().to_owned()
        };
        (addresses, self.hostname.clone().unwrap_or_default(), of_target("namespace"), of_target("name"))
    }
}

fn set_contents(slice: &mut Value, ports: &[EndpointPort], endpoints: &[Endpoint]) {
    let ports = ports.iter().map(|port| {
        let mut fields = json!({"name": port.name, "port": port.port, "protocol": port.protocol});
        if let Some(protocol) = &port.app_protocol {
            fields["appProtocol"] = (**protocol).into();
        }
        fields
    });
    // Go writes an empty list that was stored as null.
    let list = |entries: Vec<Value>| if entries.is_empty() { Value::Null } else { entries.into() };
    slice["ports"] = list(ports.collect());
    slice["endpoints"] = list(endpoints.iter().map(|endpoint| json!(endpoint)).collect());
}

/// The labels of a slice: the Service's, and those of the controller.
fn labels_of(service: &Service) -> Value {
    let own = service.labels.iter().filter(|(key, _)| !is_reserved(key));
    let mut labels: Map<String, Value> =
        own.map(|(key, value)| (key.to_string(), (**value).into())).collect();
    if service.is_headless() {
        labels.insert(HEADLESS_LABEL.to_owned(), "".into());
    }
    labels.insert(SERVICE_LABEL.to_owned(), (*service.name.name).into());
    labels.insert(MANAGED_BY_LABEL.to_owned(), CONTROLLER.into());
    labels.into()
}

fn is_reserved(label: &str) -> bool {
    [SERVICE_LABEL, MANAGED_BY_LABEL, HEADLESS_LABEL].contains(&label)
}

/// The prefix of a slice's name. A name that is as long as names may be has no room for the dash.
fn generated_prefix(service: &str) -> String {
    if service.len() < 253 { format!("{service}-") } else { service.to_owned() }
}
