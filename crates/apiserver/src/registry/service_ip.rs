//! Cluster IPs and node ports of Services: which ones they may have, and which ones they get.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

use apimachinery::validation::FieldError;
use kubernetes::fields::{Fields, entries_mut, fields_mut, fields_of, is_missing, text};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Registry;
use super::metadata::metadata_text;
use crate::resource::Resource;
use crate::status::ApiError;

/// The addresses of Services.
const NETWORK: &str = "10.96.0.0/16";
const NETWORK_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 0);
const BROADCAST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 255, 255);
/// The address of the Service `kubernetes` in the namespace `default`, which no other one gets.
const API_SERVER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const NODE_PORTS: std::ops::RangeInclusive<u64> = 30_000..=32_767;

/// What the other Services have.
struct Allocations {
    addresses: BTreeSet<String>,
    node_ports: BTreeSet<u64>,
}

/// A node port that a Service does not get.
enum PortRefusal {
    /// The one that an entry of its ports asks for.
    Invalid { index: usize, port: u64, why: String },
    /// All are taken.
    Full,
}

/// A Service, as far as others may not have the same.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceView {
    spec: ServiceSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServiceSpec {
    #[serde(rename = "clusterIPs")]
    cluster_ips: Option<Vec<String>>,
    #[serde(rename = "clusterIP")]
    cluster_ip: Option<String>,
    health_check_node_port: Option<u64>,
    ports: Option<Vec<ServicePort>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ServicePort {
    node_port: Option<u64>,
}

// === impl Registry ===

impl Registry {
    /// Gives a Service the addresses and ports that it needs and does not have. Those that it asks for must be free.
    pub(super) fn allocate_addresses(
        &self,
        resource: &Resource,
        old: Option<&Value>,
        service: &mut Value,
    ) -> Result<(), ApiError> {
        let name = metadata_text(service, "name").to_owned();
        let invalid = |errors: &[FieldError]| ApiError::invalid(resource, &name, errors);
        let old = old.and_then(|old| old["spec"].as_object());
        let mut allocations = self.allocations_of_others(resource, service)?;
        let is_api_server = metadata_text(service, "namespace") == "default" && name == "kubernetes";
        if !is_api_server {
            allocations.addresses.insert(API_SERVER_ADDRESS.to_string());
        }
        let Some(spec) = service.as_object_mut().and_then(|service| fields_mut(service, "spec")) else {
            return Ok(());
        };
        if has_address(spec) {
            check_families(spec).map_err(|errors| invalid(&errors))?;
            let keeps_address = old.is_some_and(|old| has_address(old) && !is_missing(old, "clusterIP"));
            match text(spec, "clusterIP") {
                _ if keeps_address => {}
                "None" => {}
                "" => {
                    let address = allocations.next_address().ok_or_else(|| {
                        let why =
                            format!("failed to allocate a serviceIP for Service {name:?}: range is full");
                        ApiError::internal(why)
                    })?;
                    spec.insert("clusterIPs".to_owned(), json!([address]));
                    spec.insert("clusterIP".to_owned(), address.into());
                }
                address => allocations.check_address(address).map_err(|why| {
                    let why = format!("failed to allocate IP {address}: {why}");
                    invalid(&[FieldError::invalid("spec.clusterIPs".to_owned(), &json!([address]), why)])
                })?,
            }
        }
        if matches!(text(spec, "type"), "NodePort" | "LoadBalancer") {
            match old {
                None => allocations.set_new_node_ports(spec),
                Some(old) => allocations.set_node_ports(old, spec),
            }
            .map_err(|refusal| refusal.into_error(&invalid))?;
        }
        allocations.set_health_check_port(old, spec)
    }

    fn allocations_of_others(&self, resource: &Resource, service: &Value) -> Result<Allocations, ApiError> {
        let own = (metadata_text(service, "namespace"), metadata_text(service, "name"));
        let mut allocations = Allocations { addresses: BTreeSet::new(), node_ports: BTreeSet::new() };
        for other in self.store.list(resource)?.objects.iter() {
            let meta = other.meta();
            if (&*meta.namespace, &*meta.name) == own {
                continue;
            }
            let Ok(ServiceView { spec }) = other.view::<ServiceView>() else { continue };
            let addresses = spec.cluster_ips.into_iter().flatten().chain(spec.cluster_ip);
            allocations.addresses.extend(addresses.filter(|address| address != "None"));
            let ports = spec.ports.into_iter().flatten().filter_map(|port| port.node_port);
            allocations.node_ports.extend(ports.chain(spec.health_check_node_port).filter(|port| *port > 0));
        }
        Ok(allocations)
    }
}

// === impl Allocations ===

impl Allocations {
    fn next_address(&self) -> Option<String> {
        let mut addresses = u32::from(API_SERVER_ADDRESS)..u32::from(BROADCAST_ADDRESS);
        addresses.find_map(|address| {
            let address = Ipv4Addr::from(address).to_string();
            (!self.addresses.contains(&address)).then_some(address)
        })
    }

    fn check_address(&self, text: &str) -> Result<(), String> {
        let address: Option<Ipv4Addr> = text.parse().ok();
        match address {
            Some(address) if address == NETWORK_ADDRESS || address == BROADCAST_ADDRESS => Err(format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {NETWORK}"
            )),
            Some(address) if address > NETWORK_ADDRESS && address < BROADCAST_ADDRESS => {
                if self.addresses.contains(text) {
                    Err("provided IP is already allocated".to_owned())
                } else {
                    Ok(())
                }
            }
            _ => Err("the provided network does not match the current range".to_owned()),
        }
    }

    /// Takes a port that a Service asks for.
    fn claim_port(&mut self, port: u64) -> Result<(), String> {
        if !NODE_PORTS.contains(&port) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {}-{}",
                NODE_PORTS.start(),
                NODE_PORTS.end()
            ));
        }
        if self.node_ports.insert(port) {
            Ok(())
        } else {
            Err("provided port is already allocated".to_owned())
        }
    }

    /// A free port; `None` if there is none.
    fn next_port(&mut self) -> Option<u64> {
        let port = NODE_PORTS.into_iter().find(|port| !self.node_ports.contains(port))?;
        self.node_ports.insert(port);
        Some(port)
    }

    /// Sets the node ports of a new Service: one for the same port of several protocols.
    fn set_new_node_ports(&mut self, spec: &mut Fields) -> Result<(), PortRefusal> {
        let is_automatic = allocates_node_ports(spec);
        let requested: Vec<(i64, u64)> =
            ports_of(spec).filter_map(|port| Some((port["port"].as_i64()?, node_port_of(port)?))).collect();
        let mut by_port: BTreeMap<i64, u64> = BTreeMap::new();
        for (index, port) in entries_mut(spec, "ports").enumerate() {
            let number = port.get("port").and_then(Value::as_i64).unwrap_or_default();
            let own = port.get("nodePort").and_then(Value::as_u64).filter(|own| *own > 0);
            if own.is_none() && !is_automatic {
                continue;
            }
            let node_port = match by_port.get(&number) {
                Some(shared) if own.is_none_or(|own| own == *shared) => *shared,
                Some(_) => self.claim_port_at(index, own.unwrap_or_default())?,
                None => match requested.iter().find(|(of, _)| *of == number) {
                    Some((_, wanted)) => self.claim_port_at(index, *wanted)?,
                    None => self.next_port().ok_or(PortRefusal::Full)?,
                },
            };
            by_port.entry(number).or_insert(node_port);
            port.insert("nodePort".to_owned(), node_port.into());
        }
        Ok(())
    }

    /// Sets the node ports of a Service that is updated, which keeps those that it had.
    fn set_node_ports(&mut self, old: &Fields, spec: &mut Fields) -> Result<(), PortRefusal> {
        let is_automatic = allocates_node_ports(spec);
        let mut own: BTreeSet<u64> = ports_of(old).filter_map(node_port_of).collect();
        self.node_ports.extend(&own);
        for (index, port) in entries_mut(spec, "ports").enumerate() {
            match port.get("nodePort").and_then(Value::as_u64).filter(|wanted| *wanted > 0) {
                Some(wanted) if own.contains(&wanted) => {}
                Some(wanted) => _ = own.insert(self.claim_port_at(index, wanted)?),
                None if is_automatic => {
                    let node_port = self.next_port().ok_or(PortRefusal::Full)?;
                    port.insert("nodePort".to_owned(), node_port.into());
                }
                None => {}
            }
        }
        Ok(())
    }

    fn claim_port_at(&mut self, index: usize, port: u64) -> Result<u64, PortRefusal> {
        self.claim_port(port).map_err(|why| PortRefusal::Invalid { index, port, why }).map(|()| port)
    }

    /// Sets the port for health checks of a load balancer that sends traffic to the nodes with pods only.
    fn set_health_check_port(&mut self, old: Option<&Fields>, spec: &mut Fields) -> Result<(), ApiError> {
        if !needs_health_check(spec) || old.is_some_and(needs_health_check) {
            return Ok(());
        }
        match spec.get("healthCheckNodePort").and_then(Value::as_u64).filter(|port| *port > 0) {
            Some(port) => self.claim_port(port).map_err(|why| {
                ApiError::internal(format!("failed to allocate requested HealthCheck NodePort {port}: {why}"))
            }),
            None => {
                let full = || "failed to allocate a HealthCheck NodePort 0: range is full".to_owned();
                let port = self.next_port().ok_or_else(|| ApiError::internal(full()))?;
                spec.insert("healthCheckNodePort".to_owned(), port.into());
                Ok(())
            }
        }
    }
}

// === impl PortRefusal ===

impl PortRefusal {
    fn into_error(self, invalid: &dyn Fn(&[FieldError]) -> ApiError) -> ApiError {
        match self {
            PortRefusal::Invalid { index, port, why } => {
                let field = format!("spec.ports[{index}].nodePort");
                invalid(&[FieldError::invalid(field, &port.into(), why)])
            }
            PortRefusal::Full => {
                ApiError::internal("failed to allocate a nodePort: range is full".to_owned())
            }
        }
    }
}

/// Refuses IPv6, which the cluster does not have; a Service without cluster IP and selector may have endpoints of any
/// family.
fn check_families(spec: &Fields) -> Result<(), Vec<FieldError>> {
    if text(spec, "clusterIP") == "None" && fields_of(spec, "selector").is_none_or(Fields::is_empty) {
        return Ok(());
    }
    let entries = |field: &str| spec.get(field).and_then(Value::as_array).into_iter().flatten().enumerate();
    let mut errors = Vec::new();
    for (index, _) in entries("clusterIPs").filter(|(_, ip)| ip.as_str().is_some_and(|ip| ip.contains(':'))) {
        let field = format!("spec.clusterIPs[{index}]");
        let why = "IPv6 is not configured on this cluster".to_owned();
        errors.push(FieldError::invalid(field, &spec["clusterIPs"], why));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if text(spec, "ipFamilyPolicy") == "RequireDualStack" {
        let why = "this cluster is not configured for dual-stack services".to_owned();
        errors.push(FieldError::invalid("spec.ipFamilyPolicy".to_owned(), &spec["ipFamilyPolicy"], why));
    }
    for (index, family) in entries("ipFamilies").filter(|(_, family)| **family == "IPv6") {
        let field = format!("spec.ipFamilies[{index}]");
        errors.push(FieldError::invalid(field, family, "not configured on this cluster".to_owned()));
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn has_address(spec: &Fields) -> bool {
    text(spec, "type") != "ExternalName"
}

fn allocates_node_ports(spec: &Fields) -> bool {
    let is_off = spec.get("allocateLoadBalancerNodePorts").is_some_and(|allocates| *allocates == false);
    text(spec, "type") == "NodePort" || !is_off
}

fn needs_health_check(spec: &Fields) -> bool {
    text(spec, "type") == "LoadBalancer" && text(spec, "externalTrafficPolicy") == "Local"
}

fn ports_of(spec: &Fields) -> impl Iterator<Item = &Value> {
    spec.get("ports").and_then(Value::as_array).into_iter().flatten()
}

fn node_port_of(port: &Value) -> Option<u64> {
    port["nodePort"].as_u64().filter(|port| *port > 0)
}
