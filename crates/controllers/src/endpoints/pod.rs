//! A pod as Services see it.

use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::objects::{ObjectMeta, Phase};
use kubernetes::read::{moment, non_empty, nullable, view};
use model::{Moment, NamespacedName, Object};
use serde::Deserialize;

/// The parts of a pod that its endpoints follow from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServedPod {
    pub(super) name: NamespacedName,
    pub(super) uid: Arc<str>,
    pub(super) labels: Labels,
    pub(super) node_name: Option<Arc<str>>,
    pub(super) hostname: Arc<str>,
    pub(super) subdomain: Arc<str>,
    pub(super) addresses: Vec<String>,
    pub(super) is_ready: bool,
    /// When it became ready or unready.
    pub(super) ready_changed: Option<Moment>,
    pub(super) is_terminating: bool,
    pub(super) is_finished: bool,
    /// The ports of its containers and sidecars that have names.
    named_ports: Vec<NamedPort>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct NamedPort {
    name: Arc<str>,
    protocol: Arc<str>,
    number: i64,
}

#[derive(Deserialize)]
struct PodJson {
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    spec: SpecJson,
    #[serde(default, deserialize_with = "nullable")]
    status: StatusJson,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecJson {
    #[serde(deserialize_with = "non_empty")]
    node_name: Option<Arc<str>>,
    #[serde(deserialize_with = "nullable")]
    hostname: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    subdomain: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    containers: Vec<ContainerJson>,
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<ContainerJson>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerJson {
    #[serde(deserialize_with = "nullable")]
    restart_policy: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    ports: Vec<PortJson>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PortJson {
    #[serde(deserialize_with = "nullable")]
    name: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    protocol: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    container_port: i64,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StatusJson {
    #[serde(deserialize_with = "nullable")]
    phase: Phase,
    #[serde(rename = "podIPs", deserialize_with = "nullable")]
    pod_ips: Vec<PodIpJson>,
    #[serde(deserialize_with = "nullable")]
    conditions: Vec<ConditionJson>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodIpJson {
    #[serde(deserialize_with = "nullable")]
    ip: String,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ConditionJson {
    #[serde(rename = "type", deserialize_with = "nullable")]
    kind: Arc<str>,
    #[serde(deserialize_with = "nullable")]
    status: Arc<str>,
    #[serde(deserialize_with = "moment")]
    last_transition_time: Option<Moment>,
}

impl ServedPod {
    pub(super) fn parse(object: &Object) -> Result<ServedPod, String> {
        let PodJson { metadata, spec, status } = view(object)?;
        let sidecars = spec.init_containers.into_iter().filter(|one| &*one.restart_policy == "Always");
        let ports = spec.containers.into_iter().chain(sidecars).flat_map(|container| container.ports);
        let named_ports = ports.filter(|port| !port.name.is_empty()).map(|port| NamedPort {
            name: port.name,
            protocol: if port.protocol.is_empty() { "TCP".into() } else { port.protocol },
            number: port.container_port,
        });
        let ready = status.conditions.iter().find(|condition| &*condition.kind == "Ready");
        Ok(ServedPod {
            name: metadata.namespaced_name(),
            uid: metadata.uid,
            labels: metadata.labels,
            node_name: spec.node_name,
            hostname: spec.hostname,
            subdomain: spec.subdomain,
            addresses: status.pod_ips.into_iter().map(|address| address.ip).collect(),
            is_ready: ready.is_some_and(|ready| &*ready.status == "True"),
            ready_changed: ready.and_then(|ready| ready.last_transition_time),
            is_terminating: metadata.deletion_timestamp.is_some(),
            is_finished: matches!(status.phase, Phase::Succeeded | Phase::Failed),
            named_ports: named_ports.collect(),
        })
    }

    /// Whether it has endpoints at all, terminating or not.
    pub(super) fn has_address(&self) -> bool {
        !self.is_finished && !self.addresses.is_empty()
    }

    /// Its addresses of a family.
    pub(super) fn addresses_of(&self, is_ipv6: bool) -> impl Iterator<Item = &str> {
        self.addresses
            .iter()
            .map(|address| &**address)
            .filter(move |address| address.contains(':') == is_ipv6)
    }

    /// The number of a port by its name.
    pub(super) fn named_port(&self, name: &str, protocol: &str) -> Option<i64> {
        let mut ports = self.named_ports.iter();
        ports.find(|port| *port.name == *name && *port.protocol == *protocol).map(|port| port.number)
    }
}
