//! The objects that every cluster has from the start.

use apiserver::{ApiError, Registry};
use model::{Kind, NamespacedName};
use serde_json::{Value, json};

use crate::stage::stage_definition;

/// The namespaces that a cluster has from the start.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Where the Service `kubernetes` leads. No endpoint may have the loopback address at which the server usually listens, so
/// this is one of the network of the nodes.
const API_SERVER_ADDRESS: &str = "10.0.0.1";
const API_SERVER_PORT: u16 = 6443;

/// Creates the objects that every cluster has, unless they exist. `certificate_authority` is that of the API server, PEM.
pub(crate) fn create_initial_objects(
    registry: &Registry,
    certificate_authority: Option<&str>,
) -> Result<(), ApiError> {
    for name in NAMESPACES {
        create(registry, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}))?;
    }
    for (name, value, description) in [
        (
            "system-cluster-critical",
            2_000_000_000_i64,
            "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
        ),
        (
            "system-node-critical",
            2_000_001_000,
            "Used for system critical pods that must not be moved from their current node.",
        ),
    ] {
        create(
            registry,
            json!({
                "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
                "value": value, "description": description,
            }),
        )?;
    }
    create(registry, stage_definition())?;
    if let Some(certificate_authority) = certificate_authority {
        // kube-scheduler and kube-controller-manager read it to authenticate their own clients.
        create(
            registry,
            json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "extension-apiserver-authentication", "namespace": "kube-system"},
                "data": {"client-ca-file": certificate_authority},
            }),
        )?;
    }
    create_kubernetes_service(registry)
}

/// Creates the Service of the API server, and its endpoints, unless they exist.
pub(crate) fn create_kubernetes_service(registry: &Registry) -> Result<(), ApiError> {
    create(
        registry,
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": {"component": "apiserver", "provider": "kubernetes"},
            },
            "spec": {
                "clusterIP": "10.96.0.1",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": API_SERVER_PORT}],
            },
        }),
    )?;
    let ports = json!([{"name": "https", "port": API_SERVER_PORT, "protocol": "TCP"}]);
    create(
        registry,
        json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                // kube-apiserver writes the slice itself.
                "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
            },
            "subsets": [{"addresses": [{"ip": API_SERVER_ADDRESS}], "ports": ports}],
        }),
    )?;
    create(
        registry,
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": "kubernetes", "namespace": "default",
                "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "addressType": "IPv4",
            "endpoints": [{"addresses": [API_SERVER_ADDRESS], "conditions": {"ready": true}}],
            "ports": ports,
        }),
    )
}

/// Creates an object unless it exists.
fn create(registry: &Registry, object: Value) -> Result<(), ApiError> {
    let kind = Kind::of(
        object["apiVersion"].as_str().unwrap_or_default(),
        object["kind"].as_str().unwrap_or_default(),
    );
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    let name = NamespacedName::new(text("namespace"), text("name"));
    if registry.get(&kind, &name).is_none() {
        registry.create_object(object)?;
    }
    Ok(())
}
