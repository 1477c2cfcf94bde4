//! A Service, as far as its endpoints follow from it.

use std::sync::Arc;

use kubernetes::labels::Labels;
use kubernetes::objects::ObjectMeta;
use kubernetes::read::{nullable, view};
use model::{Moment, NamespacedName, Object};
use serde::Deserialize;

use super::pod::ServedPod;

/// A Service.
#[derive(Clone, Debug)]
pub(super) struct Service {
    pub(super) name: NamespacedName,
    pub(super) uid: Arc<str>,
    pub(super) creation_timestamp: Option<Moment>,
    pub(super) is_terminating: bool,
    pub(super) labels: Labels,
    spec: SpecJson,
}

/// A port of endpoints.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EndpointPort {
    pub(super) name: String,
    pub(super) protocol: String,
    pub(super) port: i64,
    pub(super) app_protocol: Option<String>,
}

#[derive(Deserialize)]
struct ServiceJson {
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    spec: SpecJson,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct SpecJson {
    #[serde(rename = "type", deserialize_with = "nullable")]
    service_type: String,
    selector: Labels,
    #[serde(rename = "clusterIP", deserialize_with = "nullable")]
    cluster_ip: String,
    #[serde(deserialize_with = "nullable")]
    ip_families: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    ports: Vec<PortJson>,
    #[serde(deserialize_with = "nullable")]
    publish_not_ready_addresses: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PortJson {
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    protocol: String,
    port: i64,
    target_port: Option<TargetPort>,
    app_protocol: Option<String>,
}

/// A port of a pod.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum TargetPort {
    Number(i64),
    Name(String),
}

impl Service {
    pub(super) fn parse(object: &Object) -> Result<Service, String> {
        let ServiceJson { metadata, spec } = view(object)?;
        Ok(Service {
            name: metadata.namespaced_name(),
            uid: metadata.uid,
            creation_timestamp: metadata.creation_timestamp,
            is_terminating: metadata.deletion_timestamp.is_some(),
            labels: metadata.labels,
            spec,
        })
    }

    /// Whether the controllers write endpoints for it: otherwise somebody else does, or nobody.
    pub(super) fn has_endpoints(&self) -> bool {
        self.spec.service_type != "ExternalName" && !self.spec.selector.is_empty()
    }

    pub(super) fn selects(&self, labels: &Labels) -> bool {
        self.has_endpoints() && self.spec.selector.iter().all(|(key, value)| labels.get(key) == Some(value))
    }

    /// Whether its name stands for its pods' addresses, and not for one of its own.
    pub(super) fn is_headless(&self) -> bool {
        matches!(&*self.spec.cluster_ip, "" | "None")
    }

    pub(super) fn publishes_not_ready(&self) -> bool {
        self.spec.publish_not_ready_addresses
    }

    /// Whether each of its families is IPv6. Without families they follow from its address.
    pub(super) fn families(&self) -> Vec<bool> {
        match &self.spec.ip_families[..] {
            [] if self.is_headless() => vec![false, true],
            [] => vec![self.spec.cluster_ip.contains(':')],
            families => families.iter().map(|family| family == "IPv6").collect(),
        }
    }

    /// The host name of a pod behind it, if it has one.
    pub(super) fn hostname_of<'a>(&self, pod: &'a ServedPod) -> Option<&'a str> {
        (!pod.hostname.is_empty() && pod.subdomain == self.name.name).then_some(&*pod.hostname)
    }

    /// The ports of a pod behind it.
    pub(super) fn ports_of(&self, pod: &ServedPod) -> Vec<EndpointPort> {
        let port_of = |port: &PortJson| {
            let protocol = if port.protocol.is_empty() { "TCP" } else { &port.protocol };
            let number = match &port.target_port {
                Some(TargetPort::Name(name)) => pod.named_port(name, protocol)?,
                Some(TargetPort::Number(number)) if *number != 0 => *number,
                Some(TargetPort::Number(_)) | None => port.port,
            };
            Some(EndpointPort {
                name: port.name.clone(),
                protocol: protocol.to_owned(),
                port: number,
                app_protocol: port.app_protocol.clone(),
            })
        };
        self.spec.ports.iter().filter_map(port_of).collect()
    }

    /// Whether its endpoints have no ports at all, which only a headless one may have.
    pub(super) fn has_no_ports(&self) -> bool {
        self.spec.ports.is_empty()
    }
}
