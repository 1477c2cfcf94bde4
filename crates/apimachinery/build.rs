//! Collects the descriptions of the built-in kinds, of all types that they contain, and of their fields.
//!
//! They are in the JSON schemas of `k8s-openapi`, whose code is much larger than its texts: so it is a part of this script,
//! and the texts are a part of the crate.

use std::env;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use k8s_openapi::schemars::generate::SchemaSettings;
use k8s_openapi::schemars::{Schema, SchemaGenerator};
use serde_json::Value;

/// Adds the schemas of kinds to a generator.
macro_rules! add_schemas {
    ($generator:ident; $($($module:ident)::+ [$($kind:ident)+])+) => {
        $({
            use k8s_openapi::$($module)::+ as module;
            $(let _: Schema = $generator.subschema_for::<module::$kind>();)+
        })+
    };
}

#[expect(clippy::disallowed_methods, reason = "cargo passes the folder in this way")]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let mut generator = SchemaGenerator::new(SchemaSettings::openapi3());
    add_schemas! {
        generator;
        api::admissionregistration::v1 [
            MutatingAdmissionPolicy MutatingAdmissionPolicyBinding MutatingWebhookConfiguration
            ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration
        ]
        api::apps::v1 [ControllerRevision DaemonSet Deployment ReplicaSet StatefulSet]
        api::authentication::v1 [SelfSubjectReview TokenRequest TokenReview]
        api::authorization::v1 [
            LocalSubjectAccessReview SelfSubjectAccessReview SelfSubjectRulesReview SubjectAccessReview
        ]
        api::autoscaling::v1 [Scale]
        api::autoscaling::v2 [HorizontalPodAutoscaler]
        api::batch::v1 [CronJob Job]
        api::certificates::v1 [CertificateSigningRequest]
        api::coordination::v1 [Lease]
        api::core::v1 [
            Binding ConfigMap Endpoints Event LimitRange Namespace Node PersistentVolume PersistentVolumeClaim Pod
            PodTemplate ReplicationController ResourceQuota Secret Service ServiceAccount
        ]
        api::discovery::v1 [EndpointSlice]
        api::events::v1 [Event]
        api::flowcontrol::v1 [FlowSchema PriorityLevelConfiguration]
        api::networking::v1 [IPAddress Ingress IngressClass NetworkPolicy ServiceCIDR]
        api::node::v1 [RuntimeClass]
        api::policy::v1 [Eviction PodDisruptionBudget]
        api::rbac::v1 [ClusterRole ClusterRoleBinding Role RoleBinding]
        api::resource::v1 [DeviceClass ResourceClaim ResourceClaimTemplate ResourceSlice]
        api::scheduling::v1 [PriorityClass]
        api::storage::v1 [
            CSIDriver CSINode CSIStorageCapacity StorageClass VolumeAttachment VolumeAttributesClass
        ]
        apiextensions_apiserver::pkg::apis::apiextensions::v1 [CustomResourceDefinition]
        apimachinery::pkg::apis::meta::v1 [DeleteOptions ListMeta Status]
        kube_aggregator::pkg::apis::apiregistration::v1 [APIService]
    }
    let mut source = "&[\n".to_owned();
    for (name, schema) in &generator.take_definitions(true) {
        let fields = schema["properties"].as_object().into_iter().flatten();
        let fields: Vec<(&str, &str)> = fields.map(|(name, field)| (&**name, description(field))).collect();
        writeln!(source, "    ({name:?}, {:?}, &{fields:?}),", description(schema))
            .expect("a string can be written to");
    }
    source.push_str("]\n");
    let folder = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let path = Path::new(&folder).join("descriptions.rs");
    fs::write(&path, source).unwrap_or_else(|error| panic!("cannot write {}: {error}", path.display()));
}

fn description(schema: &Value) -> &str {
    schema["description"].as_str().unwrap_or_default()
}
