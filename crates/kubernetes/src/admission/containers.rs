//! Requests and host ports that containers have by default.

use serde_json::{Value, json};

use crate::fields::{Fields, default_to, entries_mut, fields_mut, fields_of};

/// Sets the requests and host ports of the containers of a pod, which those of a template do not get.
pub fn default_containers(spec: &mut Fields) {
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    for list in ["initContainers", "containers"] {
        for container in entries_mut(spec, list) {
            default_requests(container);
            if host_network {
                default_host_ports(container);
            }
        }
    }
}

/// A resource with a limit and no request is requested up to its limit.
fn default_requests(container: &mut Fields) {
    let Some(resources) = fields_mut(container, "resources") else { return };
    let Some(limits) = fields_of(resources, "limits").cloned() else { return };
    default_to(resources, "requests", json!({}));
    let Some(requests) = fields_mut(resources, "requests") else { return };
    for (name, limit) in limits {
        requests.entry(name).or_insert(limit);
    }
}

/// On the network of the host, ports of a container are ports of the host.
fn default_host_ports(container: &mut Fields) {
    for port in entries_mut(container, "ports") {
        if port.get("hostPort").is_none_or(|host| host.is_null() || *host == 0)
            && let Some(own) = port.get("containerPort").cloned()
        {
            port.insert("hostPort".to_owned(), own);
        }
    }
}
