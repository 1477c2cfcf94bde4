//! Defaults of pods, pod templates and their containers.

use kubernetes::admission::default_containers;
use kubernetes::fields::{Fields, default_to, fields_mut, fields_of, is_missing, text};
use kubernetes::objects::{PodSpec, PodStatus};
use kubernetes::requests::{CPU, MEMORY, PodResources, PodResourcesOptions, ResourceList};
use serde_json::{Value, json};

use super::images::pull_policy;

/// Only the requests of the containers, as they are written.
const CONTAINERS_ONLY: PodResourcesOptions = PodResourcesOptions {
    use_status_resources: false,
    use_pod_level_resources: false,
    include_overhead: false,
    default_missing_cpu: false,
    default_missing_memory: false,
};

/// Annotations in which Kubernetes 1.5 had the init containers.
const INIT_CONTAINER_ANNOTATIONS: [&str; 4] = [
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-containers",
];

pub(super) fn pod(pod: &mut Fields) {
    remove_init_container_annotations(pod);
    let Some(spec) = fields_mut(pod, "spec") else { return };
    default_containers(spec);
    default_pod_resources(spec);
    default_to(spec, "enableServiceLinks", true);
    if spec.get("terminationGracePeriodSeconds").and_then(Value::as_i64).is_some_and(|period| period < 0) {
        spec.insert("terminationGracePeriodSeconds".to_owned(), 1.into());
    }
}

pub(super) fn pod_template_spec(template: &mut Fields) {
    remove_init_container_annotations(template);
}

pub(super) fn pod_spec(spec: &mut Fields) {
    default_to(spec, "dnsPolicy", "ClusterFirst");
    default_to(spec, "restartPolicy", "Always");
    default_to(spec, "securityContext", json!({}));
    default_to(spec, "terminationGracePeriodSeconds", 30);
    default_to(spec, "schedulerName", "default-scheduler");
    // `serviceAccount` is the former name of `serviceAccountName`.
    if is_missing(spec, "serviceAccountName")
        && let Some(account) = spec.get("serviceAccount").cloned()
    {
        spec.insert("serviceAccountName".to_owned(), account);
    }
    match spec.get("serviceAccountName").cloned() {
        Some(account) => spec.insert("serviceAccount".to_owned(), account),
        None => spec.remove("serviceAccount"),
    };
}

pub(super) fn pod_status(status: &mut Fields) {
    let first = status.get("podIPs").and_then(|addresses| addresses.pointer("/0/ip")).cloned();
    match (status.get("podIP").cloned(), first) {
        (Some(address), first) if first.as_ref() != Some(&address) => {
            status.insert("podIPs".to_owned(), json!([{"ip": address}]));
        }
        (None, Some(first)) => {
            status.insert("podIP".to_owned(), first);
        }
        _ => {}
    }
}

pub(super) fn container(container: &mut Fields) {
    let policy = pull_policy(text(container, "image"));
    default_to(container, "imagePullPolicy", policy);
    default_to(container, "terminationMessagePath", "/dev/termination-log");
    default_to(container, "terminationMessagePolicy", "File");
}

pub(super) fn probe(probe: &mut Fields) {
    default_to(probe, "timeoutSeconds", 1);
    default_to(probe, "periodSeconds", 10);
    default_to(probe, "successThreshold", 1);
    default_to(probe, "failureThreshold", 3);
}

pub(super) fn http_get_action(action: &mut Fields) {
    default_to(action, "path", "/");
    default_to(action, "scheme", "HTTP");
}

pub(super) fn grpc_action(action: &mut Fields) {
    default_to(action, "service", "");
}

pub(super) fn object_field_selector(selector: &mut Fields) {
    default_to(selector, "apiVersion", "v1");
}

pub(super) fn file_key_selector(selector: &mut Fields) {
    default_to(selector, "optional", false);
}

fn remove_init_container_annotations(object: &mut Fields) {
    let Some(metadata) = fields_mut(object, "metadata") else { return };
    let Some(annotations) = fields_mut(metadata, "annotations") else { return };
    annotations.retain(|key, _| !INIT_CONTAINER_ANNOTATIONS.contains(&key.as_str()));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

/// The pod's own `resources`: limits of huge pages from those of its containers, and requests from those of
/// its containers, otherwise from its own limits.
fn default_pod_resources(spec: &mut Fields) {
    if fields_of(spec, "resources").is_none_or(|own| own.get("limits").or(own.get("requests")).is_none()) {
        return;
    }
    let Ok(parsed) = PodSpec::parse(&Value::Object(spec.clone()).to_string()) else { return };
    let containers = PodResources { spec: &parsed, status: &PodStatus::default() };
    let Some(own) = fields_mut(spec, "resources") else { return };
    let requested = fields_of(own, "requests").cloned().unwrap_or_default();
    let huge_pages = of_names(&containers.limits(CONTAINERS_ONLY), |name| {
        is_huge_page(name) && !requested.contains_key(name)
    });
    add_missing(own, "limits", huge_pages);
    let Some(limits) = fields_of(own, "limits").cloned() else { return };
    let of_containers = containers.requests(CONTAINERS_ONLY);
    add_missing(own, "requests", of_names(&of_containers, |name| [CPU, MEMORY].contains(&name)));
    let supported = |name: &str| [CPU, MEMORY].contains(&name) || is_huge_page(name);
    add_missing(own, "requests", limits.into_iter().filter(|(name, _)| supported(name)).collect());
}

fn is_huge_page(name: &str) -> bool {
    name.starts_with("hugepages-")
}

fn of_names(list: &ResourceList, is_included: impl Fn(&str) -> bool) -> Fields {
    let included = list.iter().filter(|(name, _)| is_included(name));
    included.map(|(name, quantity)| (name.to_owned(), quantity.to_string().into())).collect()
}

fn add_missing(resources: &mut Fields, list: &str, quantities: Fields) {
    if quantities.is_empty() {
        return;
    }
    default_to(resources, list, json!({}));
    let Some(list) = fields_mut(resources, list) else { return };
    for (name, quantity) in quantities {
        list.entry(name).or_insert(quantity);
    }
}
