//! The admission plugin LimitRanger: default requests and limits of containers, and the bounds of a namespace.

use serde_json::{Map, Value, json};

use crate::quantity::Quantity;

/// The annotation that lists what was set.
const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Sets the default requests and limits of a LimitRange.
pub fn set_default_resources(pod: &mut Value, limit_range: &Value) {
    let mut set = Vec::new();
    for list in ["initContainers", "containers"] {
        let kind = if list == "containers" { "container" } else { "init container" };
        for container in pod["spec"][list].as_array_mut().into_iter().flatten() {
            let name = container["name"].as_str().unwrap_or_default().to_owned();
            let mut missing = Vec::new();
            for (field, default) in [("requests", "defaultRequest"), ("limits", "default")] {
                let defaults = items(limit_range, "Container").filter_map(|item| item[default].as_object());
                let names = add_missing(&mut container["resources"], field, defaults.flatten());
                if !names.is_empty() {
                    missing.push((field, names));
                }
            }
            for (field, names) in missing {
                let field = field.trim_end_matches('s');
                set.push(format!("{} {field} for {kind} {name}", names.join(", ")));
            }
        }
    }
    if !set.is_empty() {
        if !pod["metadata"]["annotations"].is_object() {
            pod["metadata"]["annotations"] = json!({});
        }
        pod["metadata"]["annotations"][ANNOTATION] =
            format!("LimitRanger plugin set: {}", set.join("; ")).into();
    }
}

/// Adds the entries that a resource list does not have. Returns their names, sorted.
fn add_missing<'a>(
    resources: &mut Value,
    field: &str,
    defaults: impl Iterator<Item = (&'a String, &'a Value)>,
) -> Vec<String> {
    let mut added = Vec::new();
    for (name, quantity) in defaults {
        if resources[field].get(name).is_none() {
            if !resources[field].is_object() {
                resources[field] = Map::new().into();
            }
            resources[field][name.as_str()] = quantity.clone();
            added.push(name.clone());
        }
    }
    added.sort();
    added
}

/// The bounds of a LimitRange that a pod violates, as the server's sentences.
pub fn violations(pod: &Value, limit_range: &Value) -> Vec<String> {
    let mut found = Vec::new();
    for item in items(limit_range, "Container") {
        let containers = ["initContainers", "containers"].map(|list| pod["spec"][list].as_array());
        for container in containers.into_iter().flatten().flatten() {
            check_bounds(item, &container["resources"], "Container", &mut found);
        }
    }
    found
}

fn check_bounds(item: &Value, resources: &Value, what: &str, found: &mut Vec<String>) {
    let amount = |value: Option<&Value>| Quantity::parse(value?.as_str()?).ok();
    for (name, min) in item["min"].as_object().into_iter().flatten() {
        let Some(bound) = amount(Some(min)) else { continue };
        let (request, limit) =
            (amount(resources["requests"].get(name)), amount(resources["limits"].get(name)));
        let text = min.as_str().unwrap_or_default();
        match request {
            None => {
                found.push(format!("minimum {name} usage per {what} is {text}.  No request is specified"))
            }
            Some(request) if request < bound => {
                let request = resources["requests"][name.as_str()].as_str().unwrap_or_default();
                found.push(format!("minimum {name} usage per {what} is {text}, but request is {request}"));
            }
            Some(_) => {}
        }
        if limit.is_some_and(|limit| limit < bound) {
            let limit = resources["limits"][name.as_str()].as_str().unwrap_or_default();
            found.push(format!("minimum {name} usage per {what} is {text}, but limit is {limit}"));
        }
    }
    for (name, max) in item["max"].as_object().into_iter().flatten() {
        let Some(bound) = amount(Some(max)) else { continue };
        let text = max.as_str().unwrap_or_default();
        match amount(resources["limits"].get(name)) {
            None => found.push(format!("maximum {name} usage per {what} is {text}.  No limit is specified")),
            Some(limit) if limit > bound => {
                let limit = resources["limits"][name.as_str()].as_str().unwrap_or_default();
                found.push(format!("maximum {name} usage per {what} is {text}, but limit is {limit}"));
            }
            Some(_) => {}
        }
        if amount(resources["requests"].get(name)).is_some_and(|request| request > bound) {
            let request = resources["requests"][name.as_str()].as_str().unwrap_or_default();
            found.push(format!("maximum {name} usage per {what} is {text}, but request is {request}"));
        }
    }
}

/// The items of a LimitRange about a type of object.
fn items<'a>(limit_range: &'a Value, what: &'static str) -> impl Iterator<Item = &'a Value> {
    let items = limit_range["spec"]["limits"].as_array().into_iter().flatten();
    items.filter(move |item| item["type"] == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range() -> Value {
        json!({"spec": {"limits": [{
            "type": "Container", "default": {"cpu": "1", "memory": "1Gi"}, "defaultRequest": {"cpu": "500m"},
            "max": {"cpu": "2"}, "min": {"cpu": "100m"},
        }]}})
    }

    #[test]
    fn missing_requests_and_limits_are_set() {
        let mut pod = json!({"metadata": {}, "spec": {"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "250m"}}}, {"name": "b"},
        ]}});
        set_default_resources(&mut pod, &range());
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"], json!({"cpu": "250m"}));
        assert_eq!(pod["spec"]["containers"][1]["resources"]["limits"], json!({"cpu": "1", "memory": "1Gi"}));
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu, memory limit for container a; cpu request for container b; \
             cpu, memory limit for container b"
        );
    }

    #[test]
    fn bounds_are_checked_for_each_container() {
        let pod = |requests: Value, limits: Value| json!({"spec": {"containers": [{"resources": {"requests": requests, "limits": limits}}]}});
        let found = |pod: &Value| violations(pod, &range());
        assert_eq!(found(&pod(json!({"cpu": "1"}), json!({"cpu": "2"}))), [""; 0]);
        assert_eq!(
            found(&pod(json!({"cpu": "50m"}), json!({"cpu": "3"}))),
            [
                "minimum cpu usage per Container is 100m, but request is 50m",
                "maximum cpu usage per Container is 2, but limit is 3",
            ]
        );
    }
}
