//! Defaults of the built-in kinds: what an API server of Kubernetes 1.36 changes in an object as it reads it,
//! before admission and storage.
//!
//! Defaults that depend on other objects (PriorityClasses, LimitRanges, StorageClasses, ServiceAccounts) are
//! set by admission plugins and not here.

pub(crate) mod canonical;
mod cluster;
mod devices;
mod extensions;
mod images;
mod networking;
pub(crate) mod pods;
mod storage;
#[cfg(test)]
pub(crate) mod tests;
mod workloads;

use std::sync::LazyLock;

use kubernetes::fields::Fields;
use kubernetes::kinds;
use model::Kind;
use serde_json::Value;

use crate::schema::{self, StructId, StructType, Type};

/// Sets the defaults of an object of a built-in kind in its preferred version, and brings it into the form
/// that an API server returns: without nulls, empty values and unknown fields, with canonical quantities and
/// times.
///
/// It applies to whatever a client sends, for creation and for updates. Objects of other kinds are unchanged.
/// Fields of the wrong type are left as they are: whether an object is valid is checked elsewhere.
pub fn set_defaults(kind: &Kind, object: &mut Value) {
    let Some(id) = stored_type(kind) else { return };
    canonical::make_canonical(id, object);
    set_struct_defaults(id, object);
}

/// Whether a field of two objects of a kind is equal as Kubernetes compares them: quantities by their number.
/// Both objects must have passed [`set_defaults`].
pub(crate) fn is_field_equal(kind: &Kind, field: &str, left: &Value, right: &Value) -> bool {
    let (left, right) = (&left[field], &right[field]);
    let Some(id) = stored_type(kind) else { return left == right };
    match schema::get(id).field(field) {
        Some(known) => canonical::semantically_equal(&known.type_, left, right),
        None => left == right,
    }
}

/// The type of a kind that an API server stores by default.
fn stored_type(kind: &Kind) -> Option<StructId> {
    kinds::of(kind)?;
    schema::type_of(kind)
}

/// Sets the defaults of the fields of one struct type.
type DefaultFn = fn(&mut Fields);

/// The defaults of a type's own fields; those of the types within it are set afterwards.
fn defaults_of(type_name: &str) -> Option<DefaultFn> {
    let function: DefaultFn = match type_name {
        "admissionregistration.MatchResources" => extensions::match_resources,
        "admissionregistration.MutatingAdmissionPolicySpec"
        | "admissionregistration.ValidatingAdmissionPolicySpec" => extensions::admission_policy_spec,
        "admissionregistration.MutatingWebhook" => extensions::mutating_webhook,
        "admissionregistration.NamedRuleWithOperations" | "admissionregistration.RuleWithOperations" => {
            extensions::rule
        }
        "admissionregistration.ServiceReference"
        | "apiextensions.ServiceReference"
        | "apiregistration.ServiceReference" => extensions::service_reference,
        "admissionregistration.ValidatingWebhook" => extensions::webhook,
        "apiextensions.CustomResourceDefinition" => extensions::custom_resource_definition,
        "apps.DaemonSet" => workloads::daemon_set,
        "apps.Deployment" => workloads::deployment,
        "apps.ReplicaSet" => workloads::replica_set,
        "apps.StatefulSet" => workloads::stateful_set,
        "autoscaling.HorizontalPodAutoscaler" => workloads::horizontal_pod_autoscaler,
        "batch.CronJob" => workloads::cron_job,
        "batch.Job" => workloads::job,
        "batch.PodFailurePolicyOnPodConditionsPattern" => workloads::pod_conditions_pattern,
        "core.AzureDiskVolumeSource" => storage::azure_disk,
        "core.ConfigMapVolumeSource"
        | "core.DownwardAPIVolumeSource"
        | "core.ProjectedVolumeSource"
        | "core.SecretVolumeSource" => storage::default_mode,
        "core.Container" | "core.EphemeralContainer" => pods::container,
        "core.ContainerPort" | "core.EndpointPort" => networking::protocol,
        "core.FileKeySelector" => pods::file_key_selector,
        "core.GRPCAction" => pods::grpc_action,
        "core.HTTPGetAction" => pods::http_get_action,
        "core.HostPathVolumeSource" => storage::host_path,
        "core.ISCSIPersistentVolumeSource" | "core.ISCSIVolumeSource" => storage::iscsi,
        "core.LimitRangeItem" => cluster::limit_range_item,
        "core.Namespace" => cluster::namespace,
        "core.NamespaceStatus" => cluster::namespace_status,
        "core.NodeSpec" => cluster::node_spec,
        "core.NodeStatus" => cluster::node_status,
        "core.ObjectFieldSelector" => pods::object_field_selector,
        "core.PersistentVolume" => storage::persistent_volume,
        "core.PersistentVolumeClaim" => storage::persistent_volume_claim,
        "core.PersistentVolumeClaimSpec" => storage::persistent_volume_claim_spec,
        "core.Pod" => pods::pod,
        "core.PodSpec" => pods::pod_spec,
        "core.PodStatus" => pods::pod_status,
        "core.PodTemplateSpec" => pods::pod_template_spec,
        "core.Probe" => pods::probe,
        "core.RBDPersistentVolumeSource" | "core.RBDVolumeSource" => storage::rbd,
        "core.ReplicationController" => workloads::replication_controller,
        "core.ScaleIOPersistentVolumeSource" | "core.ScaleIOVolumeSource" => storage::scale_io,
        "core.Secret" => cluster::secret,
        "core.Service" => networking::service,
        "core.ServiceAccountTokenProjection" => storage::service_account_token,
        "core.Volume" => storage::volume,
        "discovery.EndpointPort" => networking::endpoint_slice_port,
        "flowcontrol.ExemptPriorityLevelConfiguration" => cluster::exempt_priority_level,
        "flowcontrol.FlowSchemaSpec" => cluster::flow_schema_spec,
        "flowcontrol.LimitedPriorityLevelConfiguration" => cluster::limited_priority_level,
        "flowcontrol.QueuingConfiguration" => cluster::queuing,
        "networking.IngressClassParametersReference" => networking::ingress_class_parameters,
        "networking.NetworkPolicy" => networking::network_policy,
        "networking.NetworkPolicyPort" => networking::protocol,
        "policy.PodDisruptionBudget" => workloads::pod_disruption_budget,
        "rbac.ClusterRoleBinding" | "rbac.RoleBinding" => cluster::role_binding,
        "rbac.Subject" => cluster::rbac_subject,
        "resource.DeviceSubRequest" | "resource.ExactDeviceRequest" => devices::device_request,
        "resource.DeviceToleration" => devices::device_toleration,
        "scheduling.PriorityClass" => cluster::priority_class,
        "storage.CSIDriver" => storage::csi_driver,
        "storage.StorageClass" => storage::storage_class,
        _ => return None,
    };
    Some(function)
}

/// The defaults of a struct type.
#[derive(Clone, Copy)]
struct StructDefaults {
    set_own: Option<DefaultFn>,
    /// Whether it or a type of its fields has defaults.
    any: bool,
}

/// The defaults of each struct type, by its id.
static DEFAULTS: LazyLock<Vec<StructDefaults>> = LazyLock::new(|| {
    let own = |type_: &StructType| {
        let set_own = defaults_of(type_.name);
        StructDefaults { set_own, any: set_own.is_some() }
    };
    let mut all: Vec<StructDefaults> = schema::all().iter().map(own).collect();
    // Each round reaches the types one level further up; types that contain themselves end it all the same.
    loop {
        let reaching: Vec<usize> = (0..all.len())
            .filter(|index| !all[*index].any)
            .filter(|index| {
                let fields = &schema::all()[*index].fields;
                let inner = fields.iter().filter_map(|field| field.type_.struct_id());
                inner.into_iter().any(|id| all[id.index()].any)
            })
            .collect();
        if reaching.is_empty() {
            return all;
        }
        for index in reaching {
            all[index].any = true;
        }
    }
});

fn set_struct_defaults(id: StructId, value: &mut Value) {
    let Value::Object(fields) = value else { return };
    if let Some(set_own) = DEFAULTS[id.index()].set_own {
        set_own(fields);
    }
    for field in &schema::get(id).fields {
        if let Some(inner) = field.type_.struct_id()
            && DEFAULTS[inner.index()].any
            && let Some(value) = fields.get_mut(field.name)
        {
            set_inner_defaults(&field.type_, value);
        }
    }
}

fn set_inner_defaults(type_: &Type, value: &mut Value) {
    match (type_, value) {
        (Type::Struct(id), value) => set_struct_defaults(*id, value),
        (Type::Pointer(inner), value) => set_inner_defaults(inner, value),
        (Type::List(inner), Value::Array(entries)) => {
            entries.iter_mut().for_each(|entry| set_inner_defaults(inner, entry));
        }
        (Type::Map(_, inner), Value::Object(entries)) => {
            entries.values_mut().for_each(|entry| set_inner_defaults(inner, entry));
        }
        _ => {}
    }
}
