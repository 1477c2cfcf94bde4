//! Cluster IPs and node ports of Services.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use super::Registry;
use super::metadata::metadata_text;
use crate::resource::Resource;
use crate::status::ApiError;

/// The addresses of Services: 10.96.0.0/16, as kubeadm's clusters have. The first one is that of `kubernetes`.
const FIRST_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
const ADDRESS_COUNT: u32 = 65_534;
const NODE_PORTS: std::ops::RangeInclusive<u16> = 30_000..=32_767;

impl Registry {
    /// Gives a Service the addresses and ports that it needs and does not have.
    pub(super) fn allocate_addresses(
        &self,
        resource: &Resource,
        service: &mut Value,
    ) -> Result<(), ApiError> {
        let name = metadata_text(service, "name").to_owned();
        let service_type = service["spec"]["type"].as_str().unwrap_or("ClusterIP").to_owned();
        if service_type == "ExternalName" {
            return Ok(());
        }
        let own_uid = metadata_text(service, "uid").to_owned();
        let others = self.store.list(resource)?;
        let others = others.objects.iter().filter_map(|other| other.value().ok());
        let others: Vec<Value> = others.filter(|other| metadata_text(other, "uid") != own_uid).collect();
        match service["spec"]["clusterIP"].as_str() {
            None | Some("") => {
                let used: BTreeSet<&str> =
                    others.iter().filter_map(|other| other["spec"]["clusterIP"].as_str()).collect();
                let first = u32::from(FIRST_ADDRESS);
                let mut free = (0..ADDRESS_COUNT).map(|offset| Ipv4Addr::from(first + offset).to_string());
                let address = free.find(|address| !used.contains(&**address));
                let address = address.ok_or_else(|| {
                    ApiError::unprocessable("failed to allocate a serviceIP: range is full")
                })?;
                service["spec"]["clusterIPs"] = json!([address]);
                service["spec"]["clusterIP"] = address.into();
            }
            Some("None") => service["spec"]["clusterIPs"] = json!(["None"]),
            Some(address) => {
                if others.iter().any(|other| other["spec"]["clusterIP"] == address) {
                    return Err(ApiError::unprocessable(format!(
                        "Service {name:?} is invalid: spec.clusterIPs: Invalid value: [{address:?}]: failed to \
                         allocate IP {address}: provided IP is already allocated"
                    )));
                }
                service["spec"]["clusterIPs"] = json!([address]);
            }
        }
        service["spec"]["ipFamilies"] = json!(["IPv4"]);
        service["spec"]["ipFamilyPolicy"] = "SingleStack".into();
        if matches!(&*service_type, "NodePort" | "LoadBalancer") {
            allocate_node_ports(service, &others)?;
        }
        Ok(())
    }
}

fn allocate_node_ports(service: &mut Value, others: &[Value]) -> Result<(), ApiError> {
    let ports_of = |service: &Value| -> Vec<u64> {
        let ports = service["spec"]["ports"].as_array().into_iter().flatten();
        ports.filter_map(|port| port["nodePort"].as_u64()).filter(|port| *port > 0).collect()
    };
    let mut used: BTreeSet<u64> = others.iter().flat_map(ports_of).collect();
    used.extend(ports_of(service));
    for port in service["spec"]["ports"].as_array_mut().into_iter().flatten() {
        if port["nodePort"].as_u64().unwrap_or(0) > 0 {
            continue;
        }
        let free = NODE_PORTS.map(u64::from).find(|port| !used.contains(port));
        let free =
            free.ok_or_else(|| ApiError::unprocessable("failed to allocate a nodePort: range is full"))?;
        used.insert(free);
        port["nodePort"] = free.into();
    }
    Ok(())
}
