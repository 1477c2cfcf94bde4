//! Checks of new pods and of pod templates.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::containers::{ContainerContext, check_containers, check_image_blanks, check_init_containers};
use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::ip_address::check_ip;
use super::json_fields::{boolean, get, integer, list, optional_integer, optional_text, text, texts};
use super::metadata::{check_annotations, check_metadata};
use super::pod_resources::check_pod_resources;
use super::resources::check_overhead;
use super::scheduling::{
    SelectorTolerance, check_affinity, check_scheduling_gates, check_spread_constraints, check_tolerations,
};
use super::security::check_pod_security_context;
use super::selectors::check_labels;
use super::volumes::check_volumes;
use crate::names::{
    NameRule, label_1123, number_in_range, qualified_name, subdomain_1123, subdomain_with_underscores,
};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// In the order in which Kubernetes visits them.
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// Checks a new pod.
pub(super) fn check_pod_create(errors: &mut FieldErrors, pod: &Value, namespaced: bool) {
    check_pod_metadata_and_spec(errors, pod, namespaced, SelectorTolerance::NONE);
    let spec = &pod["spec"];
    if !list(spec, "ephemeralContainers").is_empty() {
        errors.forbidden(FieldPath::SPEC.child("ephemeralContainers"), "cannot be set on create");
    }
    if !text(spec, "nodeName").is_empty() && !list(spec, "schedulingGates").is_empty() {
        let detail = "cannot be set until all schedulingGates have been cleared";
        errors.forbidden(FieldPath::SPEC.child("nodeName"), detail);
    }
}

/// Checks that hold for new and updated pods.
pub(super) fn check_pod_metadata_and_spec(
    errors: &mut FieldErrors,
    pod: &Value,
    namespaced: bool,
    tolerance: SelectorTolerance,
) {
    check_metadata(errors, pod, namespaced, NameRule::Subdomain);
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    check_pod_annotations(errors, metadata, spec, FieldPath::METADATA.child("annotations"));
    check_pod_spec(errors, spec, Some(metadata), FieldPath::SPEC, tolerance);
    if text(spec, "serviceAccountName").is_empty() {
        check_no_tokens(errors, spec);
    }
    check_image_blanks(errors, spec, FieldPath::SPEC);
}

/// Checks a pod template.
pub(super) fn check_pod_template(
    errors: &mut FieldErrors,
    template: &Value,
    path: FieldPath<'_>,
    tolerance: SelectorTolerance,
) {
    let spec = &template["spec"];
    check_template_metadata(errors, template, path);
    let spec_path = path.child("spec");
    check_pod_spec(errors, spec, None, spec_path, tolerance);
    if !list(spec, "ephemeralContainers").is_empty() {
        let detail = "ephemeral containers not allowed in pod template";
        errors.forbidden(spec_path.child("ephemeralContainers"), detail);
    }
}

/// Checks the labels and annotations of a pod template.
pub(super) fn check_template_metadata(errors: &mut FieldErrors, template: &Value, path: FieldPath<'_>) {
    let metadata = &template["metadata"];
    check_labels(errors, metadata, "labels", path.child("labels"));
    check_annotations(errors, metadata, path.child("annotations"));
    check_pod_annotations(errors, metadata, &template["spec"], path.child("annotations"));
}

/// Checks annotations that have a meaning for pods.
pub(super) fn check_pod_annotations(
    errors: &mut FieldErrors,
    metadata: &Value,
    spec: &Value,
    path: FieldPath<'_>,
) {
    let annotations = &metadata["annotations"];
    if let Some(mirror) = optional_text(annotations, MIRROR)
        && text(spec, "nodeName").is_empty()
    {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(path.key(MIRROR), mirror, detail);
    }
    if let Some(cost) = optional_text(annotations, DELETION_COST)
        && !is_deletion_cost(cost)
    {
        errors.invalid(path.key(DELETION_COST), cost, "must be a 32bit integer");
    }
}

fn is_deletion_cost(cost: &str) -> bool {
    let has_first_digit =
        cost == "0" || cost.starts_with(|first: char| first == '-' || ('1'..='9').contains(&first));
    has_first_digit && cost.parse::<i32>().is_ok()
}

fn check_no_tokens(errors: &mut FieldErrors, spec: &Value) {
    let volumes = FieldPath::SPEC.child("volumes");
    for (index, volume) in list(spec, "volumes").iter().enumerate() {
        let volume_path = volumes.index(index);
        let projected = volume_path.child("projected");
        let sources = projected.child("sources");
        for (index, source) in list(&volume["projected"], "sources").iter().enumerate() {
            if get(source, "serviceAccountToken").is_some() {
                let path = sources.index(index);
                let detail = "must not be specified when serviceAccountName is not set";
                errors.forbidden(path.child("serviceAccountToken"), detail);
            }
        }
    }
}

/// Checks the spec of a pod or of a template, which has no metadata of a pod.
fn check_pod_spec(
    errors: &mut FieldErrors,
    spec: &Value,
    metadata: Option<&Value>,
    path: FieldPath<'_>,
    tolerance: SelectorTolerance,
) {
    if get(spec, "terminationGracePeriodSeconds").is_none() {
        errors.required(path.child("terminationGracePeriodSeconds"), "");
    }
    let pod_name = metadata.map(|metadata| text(metadata, "name"));
    let volumes = check_volumes(errors, spec, pod_name, path);
    let claims: BTreeSet<&str> = list(spec, "resourceClaims")
        .iter()
        .map(|claim| text(claim, "name"))
        .filter(|it| !it.is_empty())
        .collect();
    check_resource_claims(errors, spec, path.child("resourceClaims"));
    let context = ContainerContext { spec, volumes, claims };
    check_containers(errors, &context, path);
    check_init_containers(errors, &context, path);
    check_pod_resources(errors, spec, path);
    if boolean(spec, "hostNetwork") {
        check_host_network_ports(errors, spec, metadata.is_some(), path);
    }
    check_policies(errors, spec, path);
    check_labels(errors, spec, "nodeSelector", path.child("nodeSelector"));
    check_pod_security_context(errors, spec, path);
    check_affinity(errors, spec, path, tolerance);
    check_dns_config(errors, spec, path.child("dnsConfig"));
    let gates = path.child("readinessGates");
    for (index, gate) in list(spec, "readinessGates").iter().enumerate() {
        let condition = text(gate, "conditionType");
        errors.invalid_all(gates.index(index).child("conditionType"), condition, qualified_name(condition));
    }
    check_scheduling_gates(errors, spec, path);
    check_spread_constraints(errors, spec, path, tolerance);
    check_host_users(errors, spec, path);
    check_names(errors, spec, path);
    check_tolerations(errors, list(spec, "tolerations"), path.child("tolerations"));
    let aliases = path.child("hostAliases");
    for (index, alias) in list(spec, "hostAliases").iter().enumerate() {
        let path = aliases.index(index);
        check_ip(errors, text(alias, "ip"), path.child("ip"));
        let hostnames = path.child("hostnames");
        for (index, name) in texts(alias, "hostnames").enumerate() {
            errors.invalid_all(hostnames.index(index), name, subdomain_1123(name));
        }
    }
    check_classes(errors, spec, path);
    check_operating_system(errors, spec, path);
    check_file_keys(errors, spec, path);
}

fn check_policies(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    for (name, known) in [
        ("restartPolicy", &["Always", "OnFailure", "Never"][..]),
        ("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
    ] {
        match text(spec, name) {
            "" => errors.required(path.child(name), ""),
            value if known.contains(&value) => {}
            value => errors.not_supported(path.child(name), value, known),
        }
    }
}

fn check_host_network_ports(errors: &mut FieldErrors, spec: &Value, is_pod: bool, path: FieldPath<'_>) {
    let containers = path.child("containers");
    for (index, container) in list(spec, "containers").iter().enumerate() {
        let container_path = containers.index(index);
        let ports = container_path.child("ports");
        for (index, port) in list(container, "ports").iter().enumerate() {
            let (host, own) = (integer(port, "hostPort"), integer(port, "containerPort"));
            if (is_pod || host != 0) && host != own {
                let detail = "must match `containerPort` when `hostNetwork` is true";
                errors.invalid(ports.index(index).child("hostPort"), host, detail);
            }
        }
    }
}

fn check_resource_claims(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let mut names = BTreeSet::new();
    for (index, claim) in list(spec, "resourceClaims").iter().enumerate() {
        let path = path.index(index);
        let name = text(claim, "name");
        if name.is_empty() {
            errors.required(path.child("name"), "");
        } else if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        } else {
            errors.invalid_all(path.child("name"), name, label_1123(name));
        }
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        let found =
            sources.into_iter().filter_map(|name| optional_text(claim, name).map(|value| (name, value)));
        let printed = || PrintedValue::Go("core.PodResourceClaim", claim);
        match found.clone().count() {
            0 => {
                let detail = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`";
                errors.invalid(path, printed(), detail);
            }
            1 => {}
            _ => {
                let detail =
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified";
                errors.invalid(path, printed(), detail);
            }
        }
        for (name, value) in found {
            errors.invalid_all(path.child(name), value, NameRule::Subdomain.check(value, false));
        }
    }
}

fn check_dns_config(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    const MAX_NAMESERVERS: usize = 3;
    const MAX_SEARCHES: usize = 32;
    const MAX_SEARCH_LENGTH: usize = 2048;
    let config = get(spec, "dnsConfig");
    if text(spec, "dnsPolicy") == "None" {
        let Some(config) = config else {
            return errors.required(path, "must provide `dnsConfig` when `dnsPolicy` is None");
        };
        if list(config, "nameservers").is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(path.child("nameservers"), detail);
        }
    }
    let Some(config) = config else { return };
    let servers = path.child("nameservers");
    if list(config, "nameservers").len() > MAX_NAMESERVERS {
        let detail = format!("must not have more than {MAX_NAMESERVERS} nameservers");
        errors.invalid(servers, &config["nameservers"], detail);
    }
    for (index, server) in texts(config, "nameservers").enumerate() {
        check_ip(errors, server, servers.index(index));
    }
    let searches = path.child("searches");
    let all: Vec<&str> = texts(config, "searches").collect();
    if all.len() > MAX_SEARCHES {
        let detail = format!("must not have more than {MAX_SEARCHES} search paths");
        errors.invalid(searches, &config["searches"], detail);
    }
    if all.join(" ").len() > MAX_SEARCH_LENGTH {
        let detail = format!(
            "must not have more than {MAX_SEARCH_LENGTH} characters (including spaces) in the search list"
        );
        errors.invalid(searches, &config["searches"], detail);
    }
    for (index, search) in all.into_iter().enumerate().filter(|(_, search)| *search != ".") {
        let search = search.strip_suffix('.').unwrap_or(search);
        errors.invalid_all(searches.index(index), search, subdomain_with_underscores(search));
    }
    let options = path.child("options");
    for (index, option) in list(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            errors.required(options.index(index), "must not be empty");
        }
    }
}

fn check_host_users(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec.get("hostUsers") == Some(&Value::Bool(false)) {
        for (name, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")]
        {
            if boolean(spec, name) {
                errors.forbidden(path.child(shown), DETAIL);
            }
        }
        for name in CONTAINER_LISTS {
            let path = path.child(name);
            for (index, container) in list(spec, name).iter().enumerate() {
                if !list(container, "volumeDevices").is_empty() {
                    errors.forbidden(path.index(index).child("volumeDevices"), DETAIL);
                }
            }
        }
    }
    let Some(name) = optional_text(spec, "hostnameOverride") else { return };
    let path = path.child("hostnameOverride");
    if boolean(spec, "setHostnameAsFQDN") {
        errors.forbidden(path, "may not be specified when setHostnameAsFQDN is true");
    }
    if boolean(spec, "hostNetwork") {
        errors.forbidden(path, "may not be specified when hostNetwork is true");
    }
    if name.len() > 64 {
        errors.too_long(path, 64);
    }
    errors.invalid_all(path, name, subdomain_1123(name));
}

fn check_names(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    for name in ["serviceAccountName", "nodeName"] {
        let value = text(spec, name);
        if !value.is_empty() {
            errors.invalid_all(path.child(name), value, NameRule::Subdomain.check(value, false));
        }
    }
    if let Some(seconds) = optional_integer(spec, "activeDeadlineSeconds") {
        for message in number_in_range(seconds, 1, i32::MAX.into()) {
            errors.invalid(path.child("activeDeadlineSeconds"), seconds, message);
        }
    }
    for name in ["hostname", "subdomain"] {
        let value = text(spec, name);
        if !value.is_empty() {
            errors.invalid_all(path.child(name), value, label_1123(value));
        }
    }
}

fn check_classes(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let priority_class = text(spec, "priorityClassName");
    if !priority_class.is_empty() {
        let messages = NameRule::Subdomain.check(priority_class, false);
        errors.invalid_all(path.child("priorityClassName"), priority_class, messages);
    }
    if let Some(name) = optional_text(spec, "runtimeClassName") {
        errors.invalid_all(path.child("runtimeClassName"), name, NameRule::Subdomain.check(name, false));
    }
    check_preemption_policy(errors, spec, path.child("preemptionPolicy"));
    if let Some(overhead) = get(spec, "overhead") {
        check_overhead(errors, overhead, path.child("overhead"));
    }
}

/// Checks whether a pod may preempt others.
pub(super) fn check_preemption_policy(errors: &mut FieldErrors, object: &Value, path: FieldPath<'_>) {
    match optional_text(object, "preemptionPolicy") {
        None | Some("PreemptLowerPriority" | "Never") => {}
        Some("") => errors.required(path, ""),
        Some(other) => errors.not_supported(path, other, &["PreemptLowerPriority", "Never"]),
    }
}

fn check_operating_system(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let Some(system) = get(spec, "os") else { return };
    let path = path.child("os");
    match text(system, "name") {
        "linux" | "windows" => {}
        "" => errors.required(path.child("name"), ""),
        other => errors.not_supported(path, other, &["linux", "windows"]),
    }
}

/// Checks that environment variables read from files in volumes of the pod.
fn check_file_keys(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    // Of two volumes of a name the last one counts.
    let volumes: BTreeMap<&str, &Value> =
        list(spec, "volumes").iter().map(|volume| (text(volume, "name"), volume)).collect();
    for name in CONTAINER_LISTS {
        let list_path = path.child(name);
        for (index, container) in list(spec, name).iter().enumerate() {
            let container_path = list_path.index(index);
            let variables = container_path.child("env");
            for (index, variable) in list(container, "env").iter().enumerate() {
                let Some(reference) = get(&variable["valueFrom"], "fileKeyRef") else { continue };
                let variable_path = variables.index(index);
                let source = variable_path.child("valueFrom");
                let path = source.child("fileKeyRef");
                let name = text(reference, "volumeName");
                match volumes.get(name) {
                    None => errors.not_found(path.child("volumeName"), name, ""),
                    Some(volume) if get(volume, "emptyDir").is_none() => {
                        let detail = "referenced volume must be of type emptyDir";
                        errors.invalid(path.child("volumeName"), name, detail);
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
