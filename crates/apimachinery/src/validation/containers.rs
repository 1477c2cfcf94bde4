//! Checks of the containers of a pod: names, images, ports, environment, mounts, restarts.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath};
use super::field_references::{check_field_reference, check_resource_field_reference};
use super::json_fields::{boolean, get, integer, list, optional_text, text};
use super::probes::{check_lifecycle, check_probes};
use super::resources::{ResourceScope, check_requirements};
use super::security::check_security_context;
use super::volumes::{Volumes, check_descending_path, check_no_backsteps, check_pull_policy, has_backsteps};
use crate::names::{NameRule, config_map_key, environment_variable, label_1123, port_name, port_number};

/// The parts of a pod that its containers refer to.
pub(super) struct ContainerContext<'v> {
    pub(super) spec: &'v Value,
    pub(super) volumes: Volumes<'v>,
    pub(super) claims: BTreeSet<&'v str>,
}

/// Checks the containers of a pod.
pub(super) fn check_containers(
    errors: &mut FieldErrors,
    context: &ContainerContext<'_>,
    path: FieldPath<'_>,
) {
    let containers = list(context.spec, "containers");
    let path = path.child("containers");
    if containers.is_empty() {
        return errors.required(path, "");
    }
    let mut names = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let path = path.index(index);
        check_container(errors, container, context, path);
        let name = text(container, "name");
        if !names.insert(name) {
            errors.duplicate(path.child("name"), name);
        }
        check_lifecycle(errors, container, context.spec, path);
        check_probes(errors, container, context.spec, path);
        check_restart_policy(errors, container, path);
    }
    check_host_ports(errors, containers, path);
}

/// Checks the init containers of a pod.
pub(super) fn check_init_containers(
    errors: &mut FieldErrors,
    context: &ContainerContext<'_>,
    path: FieldPath<'_>,
) {
    let mut names: BTreeSet<&str> =
        list(context.spec, "containers").iter().map(|container| text(container, "name")).collect();
    let list_path = path.child("initContainers");
    for (index, container) in list(context.spec, "initContainers").iter().enumerate() {
        let path = list_path.index(index);
        check_container(errors, container, context, path);
        check_restart_policy(errors, container, path);
        let name = text(container, "name");
        if names.contains(name) {
            errors.duplicate(path.child("name"), name);
        } else if !name.is_empty() {
            names.insert(name);
        }
        // Kubernetes counts this container as the first.
        check_host_ports(errors, std::slice::from_ref(container), list_path);
        let is_sidecar = text(container, "restartPolicy") == "Always";
        if is_sidecar {
            check_lifecycle(errors, container, context.spec, path);
            check_probes(errors, container, context.spec, path);
            continue;
        }
        for name in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            if get(container, name).is_some() {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.forbidden(path.child(name), detail);
            }
        }
        let policies = path.child("resizePolicy");
        for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
            if text(policy, "restartPolicy") == "RestartContainer" {
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                let path = policies.index(index);
                errors.invalid(path.child("restartPolicy"), "RestartContainer", detail);
            }
        }
    }
}

/// Checks that images are not surrounded by blanks; only pods themselves must meet this.
pub(super) fn check_image_blanks(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    for name in ["containers", "initContainers"] {
        let path = path.child(name);
        for (index, container) in list(spec, name).iter().enumerate() {
            let image = text(container, "image");
            if image.trim() != image {
                let detail = "must not have leading or trailing whitespace";
                errors.invalid(path.index(index).child("image"), image, detail);
            }
        }
    }
}

fn check_container(
    errors: &mut FieldErrors,
    container: &Value,
    context: &ContainerContext<'_>,
    path: FieldPath<'_>,
) {
    match text(container, "name") {
        "" => errors.required(path.child("name"), ""),
        name => errors.invalid_all(path.child("name"), name, label_1123(name)),
    }
    if text(container, "image").is_empty() {
        errors.required(path.child("image"), "");
    }
    match text(container, "terminationMessagePolicy") {
        "File" | "FallbackToLogsOnError" => {}
        "" => errors.required(path.child("terminationMessagePolicy"), ""),
        other => {
            let path = path.child("terminationMessagePolicy");
            errors.not_supported(path, other, &["File", "FallbackToLogsOnError"]);
        }
    }
    check_ports(errors, container, path.child("ports"));
    check_environment(errors, container, path);
    check_volume_mounts(errors, container, &context.volumes, path.child("volumeMounts"));
    check_volume_devices(errors, container, &context.volumes, path.child("volumeDevices"));
    check_pull_policy(errors, container, "imagePullPolicy", path);
    let (resources, resources_path) = (&container["resources"], path.child("resources"));
    check_requirements(errors, resources, resources_path, ResourceScope::Container, &context.claims);
    check_resize_policy(errors, container, context.spec, path.child("resizePolicy"));
    check_security_context(errors, container, context.spec, path);
}

fn check_ports(errors: &mut FieldErrors, container: &Value, path: FieldPath<'_>) {
    let mut names = BTreeSet::new();
    for (index, port) in list(container, "ports").iter().enumerate() {
        let path = path.index(index);
        let name = text(port, "name");
        if !name.is_empty() {
            let messages = port_name(name);
            if messages.is_empty() && !names.insert(name) {
                errors.duplicate(path.child("name"), name);
            }
            errors.invalid_all(path.child("name"), name, messages);
        }
        for field in ["containerPort", "hostPort"] {
            match integer(port, field) {
                0 if field == "containerPort" => errors.required(path.child(field), ""),
                0 => {}
                number => {
                    for message in port_number(number) {
                        errors.invalid(path.child(field), number, message);
                    }
                }
            }
        }
        check_protocol(errors, port, path);
    }
}

/// Checks the protocol of a port.
pub(super) fn check_protocol(errors: &mut FieldErrors, port: &Value, path: FieldPath<'_>) {
    match text(port, "protocol") {
        "TCP" | "UDP" | "SCTP" => {}
        "" => errors.required(path.child("protocol"), ""),
        other => errors.not_supported(path.child("protocol"), other, &["SCTP", "TCP", "UDP"]),
    }
}

fn check_host_ports(errors: &mut FieldErrors, containers: &[Value], path: FieldPath<'_>) {
    let mut used = BTreeSet::new();
    for (index, container) in containers.iter().enumerate() {
        let container_path = path.index(index);
        let ports_path = container_path.child("ports");
        for (index, port) in list(container, "ports").iter().enumerate() {
            let number = integer(port, "hostPort");
            let key = format!("{}/{}/{number}", text(port, "protocol"), text(port, "hostIP"));
            if number != 0 && !used.insert(key.clone()) {
                errors.duplicate(ports_path.index(index).child("hostPort"), &key);
            }
        }
    }
}

fn check_environment(errors: &mut FieldErrors, container: &Value, path: FieldPath<'_>) {
    let variables = path.child("env");
    for (index, variable) in list(container, "env").iter().enumerate() {
        let path = variables.index(index);
        match text(variable, "name") {
            "" => errors.required(path.child("name"), ""),
            name => errors.invalid_all(path.child("name"), name, environment_variable(name)),
        }
        if let Some(source) = get(variable, "valueFrom") {
            check_variable_source(errors, source, text(variable, "value"), path.child("valueFrom"));
        }
    }
    let sources = path.child("envFrom");
    for (index, source) in list(container, "envFrom").iter().enumerate() {
        let path = sources.index(index);
        let prefix = text(source, "prefix");
        errors.invalid_all(path.child("prefix"), prefix, environment_variable(prefix));
        let references = ["configMapRef", "secretRef"];
        let found = references.into_iter().filter_map(|name| get(source, name).map(|it| (name, it)));
        for (name, reference) in found.clone() {
            let path = path.child(name);
            match text(reference, "name") {
                "" => errors.required(path.child("name"), ""),
                name => errors.invalid_all(path.child("name"), name, NameRule::Subdomain.check(name, true)),
            }
        }
        match found.count() {
            0 => errors.invalid(sources, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(sources, "", "may not have more than one field specified at a time"),
        }
    }
}

fn check_variable_source(errors: &mut FieldErrors, source: &Value, value: &str, path: FieldPath<'_>) {
    let mut count = 0;
    for name in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let Some(reference) = get(source, name) else { continue };
        count += 1;
        let path = path.child(name);
        match name {
            "fieldRef" => check_field_reference(errors, reference, path, false),
            "resourceFieldRef" => check_resource_field_reference(errors, reference, path, false),
            "fileKeyRef" => check_file_key(errors, reference, path),
            _ => {
                let name = text(reference, "name");
                errors.invalid_all(path.child("name"), name, NameRule::Subdomain.check(name, false));
                match text(reference, "key") {
                    "" => errors.required(path.child("key"), ""),
                    key => errors.invalid_all(path.child("key"), key, config_map_key(key)),
                }
            }
        }
    }
    if count == 0 {
        let detail = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` \
                      or `fileKeyRef`";
        errors.invalid(path, "", detail);
    } else if !value.is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

fn check_file_key(errors: &mut FieldErrors, reference: &Value, path: FieldPath<'_>) {
    match text(reference, "key") {
        "" => errors.required(path.child("key"), ""),
        key => errors.invalid_all(path.child("key"), key, environment_variable(key)),
    }
    match text(reference, "volumeName") {
        "" => errors.required(path.child("volumeName"), ""),
        name => errors.invalid_all(path.child("volumeName"), name, label_1123(name)),
    }
    match text(reference, "path") {
        "" => errors.required(path.child("path"), ""),
        file => check_no_backsteps(errors, file, path.child("path")),
    }
}

fn check_volume_mounts(
    errors: &mut FieldErrors,
    container: &Value,
    volumes: &Volumes<'_>,
    path: FieldPath<'_>,
) {
    let of_devices = |field: &'static str| -> BTreeSet<&str> {
        list(container, "volumeDevices").iter().map(|device| text(device, field)).collect()
    };
    let (device_names, device_paths) = (of_devices("name"), of_devices("devicePath"));
    let mut targets = BTreeSet::new();
    for (index, mount) in list(container, "volumeMounts").iter().enumerate() {
        let mount_path = path.index(index);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.required(mount_path.child("name"), "");
        }
        if !volumes.contains_key(name) {
            errors.not_found(mount_path.child("name"), name, "");
        }
        if target.is_empty() {
            errors.required(mount_path.child("mountPath"), "");
        }
        if !targets.insert(target) {
            errors.invalid(mount_path.child("mountPath"), target, "must be unique");
        }
        if device_names.contains(name) {
            errors.invalid(mount_path.child("name"), name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(target) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.invalid(mount_path.child("mountPath"), target, detail);
        }
        let (sub_path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        if !sub_path.is_empty() {
            check_descending_path(errors, sub_path, path.child("subPath"));
        }
        if !expression.is_empty() {
            if !sub_path.is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errors.invalid(mount_path.child("subPathExpr"), expression, detail);
            }
            check_descending_path(errors, expression, path.child("subPathExpr"));
        }
        check_mount_options(errors, mount, container, path);
    }
}

fn check_mount_options(errors: &mut FieldErrors, mount: &Value, container: &Value, path: FieldPath<'_>) {
    const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];
    let propagation = optional_text(mount, "mountPropagation");
    if let Some(propagation) = propagation {
        let path = path.child("mountPropagation");
        if !PROPAGATIONS.contains(&propagation) {
            errors.not_supported(path, propagation, &PROPAGATIONS);
        }
        if propagation == "Bidirectional" && !boolean(&container["securityContext"], "privileged") {
            let detail = "Bidirectional mount propagation is available only to privileged containers";
            errors.forbidden(path, detail);
        }
    }
    let path = path.child("recursiveReadOnly");
    match optional_text(mount, "recursiveReadOnly") {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !boolean(mount, "readOnly") {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if propagation.is_some_and(|propagation| propagation != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(path, detail);
            }
        }
        Some(other) => errors.not_supported(path, other, &["Disabled", "Enabled", "IfPossible"]),
    }
}

fn check_volume_devices(
    errors: &mut FieldErrors,
    container: &Value,
    volumes: &Volumes<'_>,
    path: FieldPath<'_>,
) {
    let of_mounts = |field: &'static str| -> BTreeSet<&str> {
        list(container, "volumeMounts").iter().map(|mount| text(mount, field)).collect()
    };
    let (mount_names, mount_paths) = (of_mounts("name"), of_mounts("mountPath"));
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (index, device) in list(container, "volumeDevices").iter().enumerate() {
        let path = path.index(index);
        let (name, target) = (text(device, "name"), text(device, "devicePath"));
        if name.is_empty() {
            errors.required(path.child("name"), "");
        }
        if names.contains(name) {
            errors.invalid(path.child("name"), name, "must be unique");
        }
        match volumes.get(name) {
            None => errors.not_found(path.child("name"), name, ""),
            Some(volume) if get(volume, "persistentVolumeClaim").or(get(volume, "ephemeral")).is_none() => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(path.child("name"), name, detail);
            }
            Some(_) => {}
        }
        if target.is_empty() {
            errors.required(path.child("devicePath"), "");
        }
        if paths.contains(target) {
            errors.invalid(path.child("devicePath"), target, "must be unique");
        }
        if has_backsteps(target) {
            errors.invalid(path.child("devicePath"), target, "can not contain backsteps ('..')");
        } else {
            paths.insert(target);
        }
        if mount_names.contains(name) {
            errors.invalid(path.child("name"), name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(target) {
            let detail = "must not already exist as a path in volumeMounts";
            errors.invalid(path.child("devicePath"), target, detail);
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

fn check_resize_policy(errors: &mut FieldErrors, container: &Value, spec: &Value, path: FieldPath<'_>) {
    let mut resources = BTreeSet::new();
    for (index, policy) in list(container, "resizePolicy").iter().enumerate() {
        let (resource, restart) = (text(policy, "resourceName"), text(policy, "restartPolicy"));
        if !resources.insert(resource) {
            errors.duplicate(path.index(index), resource);
        }
        for (value, known) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])]
        {
            if value.is_empty() {
                errors.required(path, "");
            } else if !known.contains(&value) {
                errors.not_supported(path, value, &known);
            }
        }
        if text(spec, "restartPolicy") == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(path, restart, detail);
        }
    }
}

/// Checks the restart policy of one container.
fn check_restart_policy(errors: &mut FieldErrors, container: &Value, path: FieldPath<'_>) {
    const MAX_RULES: usize = 20;
    const MAX_EXIT_CODES: usize = 255;
    let policies = ["Always", "Never", "OnFailure"];
    let rules = list(container, "restartPolicyRules");
    match optional_text(container, "restartPolicy") {
        None if rules.is_empty() => return,
        None => {
            let detail = "must specify restartPolicy when restart rules are used";
            errors.required(path.child("restartPolicy"), detail);
        }
        Some(policy) if !policies.contains(&policy) => {
            errors.not_supported(path.child("restartPolicy"), policy, &policies);
        }
        Some(_) => {}
    }
    let rules_path = path.child("restartPolicyRules");
    if rules.len() > MAX_RULES {
        errors.too_many(rules_path, rules.len(), MAX_RULES);
    }
    for (index, rule) in rules.iter().enumerate() {
        let path = rules_path.index(index);
        let (action, actions) = (text(rule, "action"), ["Restart", "RestartAllContainers"]);
        if !actions.contains(&action) {
            errors.not_supported(path.child("action"), action, &actions);
        }
        let Some(exit_codes) = get(rule, "exitCodes") else {
            errors.required(path.child("exitCodes"), "must be specified");
            continue;
        };
        let path = path.child("exitCodes");
        let (operator, operators) = (text(exit_codes, "operator"), ["In", "NotIn"]);
        if !operators.contains(&operator) {
            errors.not_supported(path.child("operator"), operator, &operators);
        }
        let count = list(exit_codes, "values").len();
        if count > MAX_EXIT_CODES {
            errors.too_many(path.child("values"), count, MAX_EXIT_CODES);
        }
    }
}
