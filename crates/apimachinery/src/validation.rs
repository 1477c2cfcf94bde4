//! Validation of objects that are created and updated, with the errors of an API server of Kubernetes 1.36:
//! the same fields, texts and order.
//!
//! Objects must have their defaults. Fields that an API server sets before it validates may be absent:
//! addresses and ports of services, the selector of a Job, `status` on update. Map entries are checked in the
//! order of their keys, where a server's order is random.
//!
//! Not validated:
//!
//! * JSON types and unknown fields, which a server rejects while decoding;
//! * `managedFields`, and everything that only subresources change: status, scale, ephemeral containers,
//!   resizing;
//! * in pods: Windows options, deprecated annotations, contents of cloud volumes, trust bundles and
//!   certificates;
//! * Docker configurations in Secrets, whether a time zone exists, expressions in the schemas of custom resources;
//! * kinds that are not named in this module, except for their metadata.
//!
//! Rules that depend on other objects belong to admission.

mod autoscaling;
mod claims;
mod config;
mod containers;
mod cron_schedule;
mod custom_definitions;
mod custom_resources;
mod events;
mod field_error;
mod field_references;
mod go_types;
mod go_values;
mod ingress;
mod ip_address;
mod job_policies;
mod jobs;
mod json_fields;
mod metadata;
mod nodes;
mod pod;
mod pod_resources;
mod pod_update;
mod policy;
mod probes;
mod quotas;
mod rbac;
mod resources;
mod scheduling;
mod schema_path;
mod schema_rules;
mod security;
mod selectors;
mod service;
mod storage;
#[cfg(test)]
mod tests;
mod unified_diff;
mod volumes;
mod workloads;

use std::collections::HashSet;

use model::Kind;
use serde_json::Value;

use crate::names::NameRule;
pub use custom_definitions::{definition_warnings, expression_warnings};
pub use custom_resources::{CustomResourceRules, ScalePaths, finalizer_warning};
use field_error::FieldErrors;
pub use field_error::{FieldError, FieldErrorType};
use kubernetes::kinds;
use metadata::{check_any_metadata, check_any_metadata_update, check_metadata, check_metadata_update};
pub use schema_rules::SchemaRules;

/// The errors for which an API server would reject a new object; none if it is valid.
///
/// `namespaced` tells whether objects of the kind live in namespaces.
pub fn validate_create(kind: &Kind, namespaced: bool, object: &Value) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    check_create(&mut errors, kind, namespaced, object);
    // Kinds that do not check their metadata leave this to the server, which does it last.
    if errors.is_empty() {
        check_any_metadata(&mut errors, object, namespaced, NameRule::PathSegment);
    }
    errors.into_vec()
}

/// The errors for which an API server would reject a new version of an object; none if it is valid. Some
/// errors occur twice, as in a server's response.
pub fn validate_update(kind: &Kind, namespaced: bool, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = FieldErrors::default();
    check_any_metadata(&mut errors, new, namespaced, NameRule::PathSegment);
    check_any_metadata_update(&mut errors, old, new);
    check_update(&mut errors, kind, namespaced, old, new);
    errors.into_vec()
}

/// The errors as the message of a `Status` lists them: those that occur twice once.
pub fn aggregate_message(errors: &[FieldError]) -> String {
    let mut seen = HashSet::new();
    let texts = errors.iter().map(ToString::to_string);
    let texts: Vec<String> = texts.filter(|text| seen.insert(text.clone())).collect();
    match &texts[..] {
        [only] => only.clone(),
        texts => format!("[{}]", texts.join(", ")),
    }
}

fn check_create(errors: &mut FieldErrors, kind: &Kind, namespaced: bool, object: &Value) {
    match (&*kind.group, &*kind.kind) {
        ("", "ConfigMap") => config::check_config_map(errors, object, namespaced),
        ("" | "events.k8s.io", "Event") => events::check_event(errors, &kind.group, object, namespaced),
        ("", "LimitRange") => quotas::check_limit_range(errors, object, namespaced),
        ("", "Namespace") => policy::check_namespace(errors, object, namespaced),
        ("", "Node") => nodes::check_node(errors, object, namespaced),
        ("", "PersistentVolume") => storage::check_persistent_volume(errors, object, namespaced),
        ("", "PersistentVolumeClaim") => claims::check_claim(errors, object, namespaced),
        ("", "Pod") => pod::check_pod_create(errors, object, namespaced),
        ("", "PodTemplate") => workloads::check_pod_template_object(errors, object, namespaced),
        ("", "ReplicationController") => workloads::check_replication_controller(errors, object, namespaced),
        ("", "ResourceQuota") => quotas::check_resource_quota(errors, object, namespaced),
        ("", "Secret") => config::check_secret(errors, object, namespaced),
        ("", "Service") => service::check_service(errors, object, namespaced),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            custom_definitions::check_definition(errors, object, namespaced);
        }
        ("apps", "DaemonSet") => workloads::check_daemon_set(errors, object, namespaced),
        ("apps", "Deployment") => workloads::check_deployment(errors, object, namespaced),
        ("apps", "ReplicaSet") => workloads::check_replica_set(errors, object, namespaced),
        ("apps", "StatefulSet") => workloads::check_stateful_set(errors, object, namespaced),
        ("autoscaling", "HorizontalPodAutoscaler") => {
            autoscaling::check_autoscaler(errors, object, namespaced);
        }
        ("batch", "CronJob") => jobs::check_cron_job(errors, object, namespaced),
        ("batch", "Job") => jobs::check_job(errors, object, namespaced),
        ("coordination.k8s.io", "Lease") => policy::check_lease(errors, object, namespaced),
        ("networking.k8s.io", "Ingress") => ingress::check_ingress(errors, object, namespaced),
        ("node.k8s.io", "RuntimeClass") => policy::check_runtime_class(errors, object, namespaced),
        ("policy", "PodDisruptionBudget") => policy::check_pod_disruption_budget(errors, object),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => rbac::check_role(errors, object, namespaced),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            rbac::check_role_binding(errors, object, namespaced);
        }
        ("scheduling.k8s.io", "PriorityClass") => policy::check_priority_class(errors, object, namespaced),
        ("storage.k8s.io", "StorageClass") => storage::check_storage_class(errors, object, namespaced),
        // The name is an address, or anything.
        ("networking.k8s.io", "IPAddress") | ("certificates.k8s.io", "CertificateSigningRequest") => {
            check_metadata(errors, object, namespaced, NameRule::PathSegment);
        }
        _ if kinds::of(kind).is_some() => check_metadata(errors, object, namespaced, NameRule::Subdomain),
        _ => check_any_metadata(errors, object, namespaced, NameRule::Subdomain),
    }
}

fn check_update(errors: &mut FieldErrors, kind: &Kind, namespaced: bool, old: &Value, new: &Value) {
    match (&*kind.group, &*kind.kind) {
        ("", "ConfigMap") => config::check_config_map_update(errors, old, new, namespaced),
        ("" | "events.k8s.io", "Event") => events::check_event_update(errors, &kind.group, old, new),
        ("", "LimitRange") => quotas::check_limit_range(errors, new, namespaced),
        ("", "Namespace") => policy::check_namespace_update(errors, old, new, namespaced),
        ("", "Node") => nodes::check_node_update(errors, old, new, namespaced),
        ("", "PersistentVolume") => storage::check_persistent_volume_update(errors, old, new, namespaced),
        ("", "PersistentVolumeClaim") => claims::check_claim_update(errors, old, new, namespaced),
        ("", "Pod") => pod_update::check_pod_update(errors, old, new, namespaced),
        ("", "PodTemplate") => workloads::check_pod_template_object_update(errors, old, new),
        ("", "ReplicationController") => workloads::check_replication_controller_update(errors, old, new),
        ("", "ResourceQuota") => quotas::check_resource_quota_update(errors, old, new),
        ("", "Secret") => config::check_secret_update(errors, old, new, namespaced),
        ("", "Service") => service::check_service_update(errors, old, new),
        ("", "ServiceAccount") => {
            check_metadata_update(errors, old, new);
            check_metadata(errors, new, namespaced, NameRule::Subdomain);
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            custom_definitions::check_definition_update(errors, old, new);
        }
        ("apps", "DaemonSet") => workloads::check_daemon_set_update(errors, old, new),
        ("apps", "Deployment") => workloads::check_deployment_update(errors, old, new),
        ("apps", "ReplicaSet") => workloads::check_replica_set_update(errors, old, new),
        ("apps", "StatefulSet") => workloads::check_stateful_set_update(errors, old, new),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaling::check_autoscaler_update(errors, old, new),
        ("batch", "CronJob") => jobs::check_cron_job_update(errors, old, new),
        ("batch", "Job") => jobs::check_job_update(errors, old, new, namespaced),
        ("coordination.k8s.io", "Lease") => policy::check_lease_update(errors, old, new),
        ("networking.k8s.io", "Ingress") => ingress::check_ingress_update(errors, old, new, namespaced),
        ("node.k8s.io", "RuntimeClass") => policy::check_runtime_class_update(errors, old, new, namespaced),
        ("policy", "PodDisruptionBudget") => policy::check_pod_disruption_budget(errors, new),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            rbac::check_role_update(errors, old, new, namespaced);
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            rbac::check_role_binding_update(errors, old, new, namespaced);
        }
        ("scheduling.k8s.io", "PriorityClass") => policy::check_priority_class_update(errors, old, new),
        ("storage.k8s.io", "StorageClass") => {
            storage::check_storage_class_update(errors, old, new, namespaced);
        }
        _ if kinds::of(kind).is_some() => check_metadata_update(errors, old, new),
        _ => check_any_metadata_update(errors, old, new),
    }
}
