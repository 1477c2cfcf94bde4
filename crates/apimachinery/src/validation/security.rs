//! Checks of the security contexts of pods and containers. Windows options are not checked.

use std::collections::BTreeSet;

use serde_json::Value;

use super::field_error::{FieldErrors, FieldPath, PrintedValue};
use super::json_fields::{boolean, get, list, optional_integer, optional_text, text, texts};
use super::volumes::check_descending_path;
use crate::names::number_in_range;

const MAX_ID: i64 = i32::MAX as i64;
const SYSCTL: &str = r"^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
const MAX_SYSCTL_LENGTH: usize = 253;

/// Checks the security context of a pod.
pub(super) fn check_pod_security_context(errors: &mut FieldErrors, spec: &Value, path: FieldPath<'_>) {
    let context = &spec["securityContext"];
    let path = path.child("securityContext");
    for name in ["fsGroup", "runAsUser", "runAsGroup"] {
        check_id(errors, optional_integer(context, name), path.child(name));
    }
    let groups = path.child("supplementalGroups");
    for (index, group) in list(context, "supplementalGroups").iter().enumerate() {
        check_id(errors, group.as_i64(), groups.index(index));
    }
    if boolean(spec, "shareProcessNamespace") && boolean(spec, "hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(path.child("shareProcessNamespace"), true, detail);
    }
    check_sysctls(errors, context, spec, path.child("sysctls"));
    check_choice(errors, context, "fsGroupChangePolicy", &["Always", "OnRootMismatch"], path);
    check_seccomp_profile(errors, context, path.child("seccompProfile"));
    check_app_armor_profile(errors, context, path.child("appArmorProfile"));
    check_choice(errors, context, "supplementalGroupsPolicy", &["Merge", "Strict"], path);
    check_choice(errors, context, "seLinuxChangePolicy", &["Recursive"], path);
}

/// Checks the security context of a container.
pub(super) fn check_security_context(
    errors: &mut FieldErrors,
    container: &Value,
    spec: &Value,
    path: FieldPath<'_>,
) {
    let Some(context) = get(container, "securityContext") else { return };
    let path = path.child("securityContext");
    for name in ["runAsUser", "runAsGroup"] {
        check_id(errors, optional_integer(context, name), path.child(name));
    }
    check_choice(errors, context, "procMount", &["Default", "Unmasked"], path);
    let host_users = spec.get("hostUsers").and_then(Value::as_bool).unwrap_or(true);
    if host_users && text(context, "procMount") == "Unmasked" {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        errors.invalid(path.child("procMount"), "Unmasked", detail);
    }
    check_seccomp_profile(errors, context, path.child("seccompProfile"));
    if context.get("allowPrivilegeEscalation") == Some(&Value::Bool(false)) {
        let printed = || PrintedValue::Go("core.SecurityContext", context);
        if boolean(context, "privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(path, printed(), detail);
        }
        for _ in texts(&context["capabilities"], "add").filter(|capability| *capability == "CAP_SYS_ADMIN") {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(path, printed(), detail);
        }
    }
    check_app_armor_profile(errors, context, path.child("appArmorProfile"));
}

fn check_id(errors: &mut FieldErrors, id: Option<i64>, path: FieldPath<'_>) {
    let Some(id) = id else { return };
    for message in number_in_range(id, 0, MAX_ID) {
        errors.invalid(path, id, message);
    }
}

fn check_choice(errors: &mut FieldErrors, object: &Value, name: &str, choices: &[&str], path: FieldPath<'_>) {
    if let Some(value) = optional_text(object, name).filter(|value| !choices.contains(value)) {
        errors.not_supported(path.child(name), value, choices);
    }
}

fn check_sysctls(errors: &mut FieldErrors, context: &Value, spec: &Value, path: FieldPath<'_>) {
    let mut names = BTreeSet::new();
    for (index, sysctl) in list(context, "sysctls").iter().enumerate() {
        let path = path.index(index);
        let name = text(sysctl, "name");
        let is_repeated = !names.insert(name);
        if name.is_empty() {
            errors.required(path.child("name"), "");
        } else if name.len() > MAX_SYSCTL_LENGTH || !name.split(['.', '/']).all(is_sysctl_part) {
            let detail = format!("must have at most {MAX_SYSCTL_LENGTH} characters and match regex {SYSCTL}");
            errors.invalid(path.child("name"), name, detail);
        } else if is_repeated {
            errors.duplicate(path.child("name"), name);
        }
        let dotted = name.replace('/', ".");
        let is_ipc = ["kernel.shm", "kernel.msg", "fs.mqueue."].iter().any(|it| dotted.starts_with(it))
            || dotted == "kernel.sem";
        for (is_shared, field) in [(dotted.starts_with("net."), "hostNetwork"), (is_ipc, "hostIPC")] {
            if is_shared && boolean(spec, field) {
                let detail = format!("may not be specified when '{field}' is true");
                errors.invalid(path.child("name"), name, detail);
            }
        }
    }
}

fn is_sysctl_part(part: &str) -> bool {
    let is_end = |byte: Option<u8>| byte.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    is_end(part.bytes().next())
        && is_end(part.bytes().next_back())
        && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_')
}

fn check_seccomp_profile(errors: &mut FieldErrors, context: &Value, path: FieldPath<'_>) {
    let Some(profile) = get(context, "seccompProfile") else { return };
    let file = optional_text(profile, "localhostProfile");
    match text(profile, "type") {
        "Localhost" | "RuntimeDefault" | "Unconfined" => {}
        "" => errors.required(path.child("type"), "type is required when seccompProfile is set"),
        other => {
            errors.not_supported(path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]);
        }
    }
    let file_path = path.child("localhostProfile");
    match (text(profile, "type") == "Localhost", file) {
        (true, None) => errors.required(file_path, "must be set when seccomp type is Localhost"),
        (true, Some(file)) => check_descending_path(errors, file, file_path),
        (false, Some(_)) => {
            let printed = PrintedValue::Go("core.SeccompProfile", profile);
            errors.invalid(file_path, printed, "can only be set when seccomp type is Localhost");
        }
        (false, None) => {}
    }
}

fn check_app_armor_profile(errors: &mut FieldErrors, context: &Value, path: FieldPath<'_>) {
    const MAX_LENGTH: usize = 4095;
    let Some(profile) = get(context, "appArmorProfile") else { return };
    let name = optional_text(profile, "localhostProfile");
    let name_path = path.child("localhostProfile");
    match text(profile, "type") {
        "Localhost" => {
            let name = name.unwrap_or_default();
            if name.trim() != name {
                errors.invalid(name_path, name, "must not be padded with whitespace");
            } else if name.is_empty() {
                errors.required(name_path, "must be set when AppArmor type is Localhost");
            }
            if name.len() > MAX_LENGTH {
                errors.too_long(name_path, MAX_LENGTH);
            }
        }
        "RuntimeDefault" | "Unconfined" => {
            if let Some(name) = name {
                errors.invalid(name_path, name, "can only be set when AppArmor type is Localhost");
            }
        }
        "" => errors.required(path.child("type"), "type is required when appArmorProfile is set"),
        other => {
            errors.not_supported(path.child("type"), other, &["Localhost", "RuntimeDefault", "Unconfined"]);
        }
    }
}
