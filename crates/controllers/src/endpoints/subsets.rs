//! The Endpoints of a Service.

use std::collections::BTreeMap;

use model::Object;
use serde_json::{Map, Value, json};

use super::pod::ServedPod;
use super::port_order::sort_subset_ports;
use super::service::EndpointPort;
use super::{HEADLESS_LABEL, ServedPods, target_ref};
use crate::ApiCall;

const MANAGED_BY_LABEL: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";
/// The most addresses of an Endpoints object.
const MAX_ADDRESSES: usize = 1000;

/// Addresses with the same ports.
struct Subset<'a> {
    ready: Vec<Address<'a>>,
    not_ready: Vec<Address<'a>>,
    ports: Vec<EndpointPort>,
}

/// An address of a pod. The order is that of Kubernetes: by address and uid.
#[derive(Clone, Copy)]
struct Address<'a> {
    ip: &'a str,
    pod: &'a ServedPod,
    hostname: Option<&'a str>,
}

/// The call that brings the Endpoints object up to date, if it is not.
pub(super) fn sync(served: &ServedPods<'_>, current: Option<&Object>) -> Option<ApiCall> {
    let service = served.service;
    let mut subsets = subsets(served);
    let is_truncated = truncate(&mut subsets);
    let subsets: Vec<Value> = subsets.iter().map(Subset::to_json).collect();
    let old = match current {
        Some(current) => current.value().ok()?,
        None => json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": *service.name.name, "namespace": *service.name.namespace},
        }),
    };
    let old_subsets = old["subsets"].as_array().map_or(&[][..], |subsets| subsets);
    let had_annotation = old["metadata"]["annotations"].get(OVER_CAPACITY).is_some();
    let is_current =
        old_subsets == subsets && labels_are_correct(served, &old["metadata"]["labels"]) && !had_annotation;
    if current.is_some() && is_current && !is_truncated {
        return None;
    }
    let mut new = old;
    served.annotate(&mut new);
    if is_truncated {
        new["metadata"]["annotations"][OVER_CAPACITY] = "truncated".into();
    } else if let Some(annotations) = new["metadata"]["annotations"].as_object_mut() {
        annotations.remove(OVER_CAPACITY);
    }
    let mut labels: Map<String, Value> = Map::new();
    labels.extend(service.labels.iter().map(|(key, value)| (key.to_string(), (**value).into())));
    labels.remove(HEADLESS_LABEL);
    if service.is_headless() {
        labels.insert(HEADLESS_LABEL.to_owned(), "".into());
    }
    labels.insert(MANAGED_BY_LABEL.to_owned(), CONTROLLER.into());
    new["metadata"]["labels"] = labels.into();
    match subsets.is_empty() {
        true => drop(new.as_object_mut().and_then(|fields| fields.remove("subsets"))),
        false => new["subsets"] = subsets.into(),
    }
    let is_unchanged = current.is_some_and(|current| current.value().is_ok_and(|current| current == new));
    if is_unchanged {
        return None;
    }
    let object = Object::from_trusted(new.to_string());
    Some(if current.is_some() { ApiCall::Update(object) } else { ApiCall::Create(object) })
}

/// The label of headless Services alone is no reason to write.
fn labels_are_correct(served: &ServedPods<'_>, labels: &Value) -> bool {
    let service = &served.service.labels;
    let own = labels.as_object().into_iter().flatten();
    let copied: Vec<(&str, &str)> = own
        .filter(|(key, _)| *key != HEADLESS_LABEL && *key != MANAGED_BY_LABEL)
        .map(|(key, value)| (&**key, value.as_str().unwrap_or_default()))
        .collect();
    labels[MANAGED_BY_LABEL] == CONTROLLER
        && copied.iter().all(|(key, value)| service.get(key) == Some(value))
        && copied.len() == service.iter().count()
}

/// The addresses, grouped by their ports. Kubernetes sorts the groups by hashes of their addresses, which contain uids;
/// here they are sorted by ports.
fn subsets<'a>(served: &ServedPods<'a>) -> Vec<Subset<'a>> {
    type AddressKey<'a> = (&'a str, &'a str);
    let service = served.service;
    let is_ipv6 = service.families().first().copied().unwrap_or(false);
    let mut addresses: BTreeMap<AddressKey<'a>, Address<'a>> = BTreeMap::new();
    let mut by_port: BTreeMap<Option<EndpointPort>, BTreeMap<AddressKey<'a>, bool>> = BTreeMap::new();
    for pod in &served.pods {
        let is_served = pod.has_address() && (!pod.is_terminating || service.publishes_not_ready());
        let Some(ip) = pod.addresses_of(is_ipv6).next().filter(|_| is_served) else { continue };
        let key = (ip, &*pod.uid);
        addresses.insert(key, Address { ip, pod, hostname: service.hostname_of(pod) });
        let is_ready = service.publishes_not_ready() || pod.is_ready;
        let ports: Vec<Option<EndpointPort>> = if service.has_no_ports() {
            // Only a headless Service need not have ports.
            if service.is_headless() { vec![None] } else { Vec::new() }
        } else {
            service.ports_of(pod).into_iter().map(Some).collect()
        };
        for port in ports {
            by_port.entry(port).or_default().insert(key, is_ready);
        }
    }
    let mut groups: BTreeMap<Vec<(AddressKey<'a>, bool)>, Vec<EndpointPort>> = BTreeMap::new();
    for (port, keys) in by_port {
        groups.entry(keys.into_iter().collect()).or_default().extend(port);
    }
    let mut subsets: Vec<Subset<'a>> = groups
        .into_iter()
        .map(|(keys, mut ports)| {
            sort_subset_ports(&mut ports);
            let of = |wanted: bool| {
                keys.iter().filter(|(_, ready)| *ready == wanted).map(|(key, _)| addresses[key]).collect()
            };
            Subset { ready: of(true), not_ready: of(false), ports }
        })
        .collect();
    subsets.sort_by(|a, b| a.ports.cmp(&b.ports));
    subsets
}

/// Shortens the lists of addresses in proportion if there are too many. Returns whether there were.
fn truncate(subsets: &mut [Subset<'_>]) -> bool {
    let ready: usize = subsets.iter().map(|subset| subset.ready.len()).sum();
    let not_ready: usize = subsets.iter().map(|subset| subset.not_ready.len()).sum();
    if ready + not_ready <= MAX_ADDRESSES {
        return false;
    }
    let truncates_ready = ready > MAX_ADDRESSES;
    let (max, total) =
        if truncates_ready { (MAX_ADDRESSES, ready) } else { (MAX_ADDRESSES - ready, not_ready) };
    let mut remaining = max;
    for subset in subsets {
        let list = if truncates_ready { &mut subset.ready } else { &mut subset.not_ready };
        list.truncate((list.len() * max).div_ceil(total).min(remaining));
        remaining -= list.len();
        if truncates_ready {
            subset.not_ready.clear();
        }
    }
    true
}

impl Subset<'_> {
    fn to_json(&self) -> Value {
        let mut subset = json!({});
        for (field, addresses) in [("addresses", &self.ready), ("notReadyAddresses", &self.not_ready)] {
            if !addresses.is_empty() {
                subset[field] = addresses.iter().copied().map(Address::to_json).collect();
            }
        }
        if !self.ports.is_empty() {
            subset["ports"] = self.ports.iter().map(port_to_json).collect();
        }
        subset
    }
}

impl Address<'_> {
    fn to_json(self) -> Value {
        let mut address = json!({"ip": self.ip});
        if let Some(hostname) = self.hostname {
            address["hostname"] = hostname.into();
        }
        if let Some(node) = &self.pod.node_name {
            address["nodeName"] = (**node).into();
        }
        address["targetRef"] = target_ref(self.pod);
        address
    }
}

fn port_to_json(port: &EndpointPort) -> Value {
    let mut fields = json!({"port": port.port, "protocol": port.protocol});
    if !port.name.is_empty() {
        fields["name"] = (*port.name).into();
    }
    if let Some(protocol) = &port.app_protocol {
        fields["appProtocol"] = (**protocol).into();
    }
    fields
}
