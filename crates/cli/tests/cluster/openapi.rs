//! The OpenAPI documents of a virtual cluster beside those of a real API server: whatever ours say, the real ones say too.

use serde_json::{Map, Value, json};
use testcluster::{Cluster, ClusterOptions};

use crate::common::command;
use crate::server::Server;

/// Parameters that have no effect here.
const OTHER_PARAMETERS: [&str; 2] = ["ignoreStoreReadErrorWithClusterBreakingPotential", "shardSelector"];

/// Parts of paths and the ends of paths that are not served.
const OTHER_PATHS: [&str; 6] = [
    "/watch/",
    "/proxy",
    "/componentstatuses",
    "/serviceaccounts/{name}/token",
    "/namespaces/{namespace}/bindings",
    "/certificatesigningrequests/{name}/approval",
];

/// The documents that differ, one line for each difference.
#[derive(Default)]
struct Differences(String);

impl Differences {
    fn add(&mut self, place: &str, difference: &str) {
        self.0 += &format!("{place}: {difference}\n");
    }

    /// Names the paths at which two values differ.
    fn compare(&mut self, place: &str, ours: &Value, real: &Value) {
        match (ours, real) {
            (Value::Object(left), Value::Object(right)) => {
                for key in left.keys().chain(right.keys().filter(|key| !left.contains_key(*key))) {
                    self.compare(&format!("{place} {key}"), &ours[key], &real[key]);
                }
            }
            _ if ours == real => {}
            _ => self.add(place, &format!("{ours}, really {real}")),
        }
    }
}

/// A schema without what may differ: descriptions of lists, of bodies of patches and of the values of enums, the order of
/// required fields, and the group versions of options, of which we serve fewer.
fn comparable_schema(name: &str, mut schema: Value) -> Value {
    if let Some(required) = schema["required"].as_array_mut() {
        required.sort_unstable_by_key(Value::to_string);
    }
    if name.ends_with(".DeleteOptions") {
        schema["x-kubernetes-group-version-kind"] = Value::Null;
    }
    let is_described = !name.ends_with("List") && !name.ends_with(".Patch");
    cut_descriptions(&mut schema, is_described);
    schema
}

fn cut_descriptions(schema: &mut Value, is_described: bool) {
    let Value::Object(members) = schema else { return };
    if !is_described {
        members.remove("description");
    } else if let Some(Value::String(text)) = members.get_mut("description") {
        *text = text.split("Possible enum values:").next().unwrap_or_default().trim_end().to_owned();
    }
    let properties = members.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(|field| cut_descriptions(field, is_described));
    if members.len() == 1 && members.contains_key("allOf") {
        *schema = members["allOf"][0].take();
    }
}

/// The parts of an operation that clients read, without the content types.
fn comparable_operation(item: &Value, operation: &Value) -> Value {
    let both = item["parameters"].as_array().into_iter().chain(operation["parameters"].as_array()).flatten();
    let mut parameters: Vec<String> = both
        .filter(|parameter| !OTHER_PARAMETERS.contains(&parameter["name"].as_str().unwrap()))
        .map(|parameter| format!("{} {} {}", parameter["name"], parameter["in"], parameter["schema"]))
        .collect();
    parameters.sort_unstable();
    let first_schema = |content: &Value| -> Value {
        let mut contents = content.as_object().into_iter().flat_map(Map::values);
        contents.next().map_or(Value::Null, |content| content["schema"].clone())
    };
    let responses: Map<String, Value> = operation["responses"]
        .as_object()
        .unwrap()
        .iter()
        .map(|(code, response)| (code.clone(), first_schema(&response["content"])))
        .collect();
    json!({
        "action": operation["x-kubernetes-action"],
        "body": first_schema(&operation["requestBody"]["content"]),
        "description": operation["description"],
        "id": operation["operationId"],
        "kind": operation["x-kubernetes-group-version-kind"],
        "parameters": parameters,
        "responses": responses,
        "tags": operation["tags"],
    })
}

fn compare_documents(place: &str, mut ours: Value, mut real: Value, differences: &mut Differences) {
    for (path, item) in ours["paths"].as_object().unwrap() {
        let real_item = real["paths"][path].take();
        for (method, operation) in item.as_object().unwrap() {
            // Containers do not run, so that connections have no options.
            let is_connection = operation["x-kubernetes-action"] == "connect" || path.ends_with("/log");
            if method == "parameters" || is_connection {
                continue;
            }
            let ours = comparable_operation(item, operation);
            match &real_item[method] {
                Value::Null => differences.add(place, &format!("{method} {path} does not exist")),
                real => {
                    let real = comparable_operation(&real_item, real);
                    differences.compare(&format!("{place} {method} {path}"), &ours, &real);
                }
            }
        }
    }
    for (path, item) in real["paths"].as_object().unwrap() {
        let is_known = path.ends_with('/') || OTHER_PATHS.iter().any(|part| path.contains(part));
        if !item.is_null() && !is_known {
            differences.add(place, &format!("{path} is missing"));
        }
    }
    let schemas = ours["components"]["schemas"].as_object_mut().unwrap();
    for (name, schema) in schemas {
        let real = real["components"]["schemas"][name].take();
        if real.is_null() {
            differences.add(place, &format!("{name} does not exist"));
            continue;
        }
        let (ours, real) = (comparable_schema(name, schema.take()), comparable_schema(name, real));
        differences.compare(&format!("{place} {name}"), &ours, &real);
    }
}

#[test]
fn the_documents_are_those_of_a_real_server() {
    let Some(real) = Cluster::start(ClusterOptions::default()).unwrap() else {
        // Written directly: the test runner captures the output of print macros.
        std::io::Write::write_all(&mut std::io::stderr(), b"skipped: no go\n").unwrap();
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::of(command(folder.path()).args(["cluster", "--insecure"]));
    let ours = |path: &str| -> Value { serde_json::from_slice(&server.get(path).success()).unwrap() };
    let real = |path: &str| -> Value {
        serde_json::from_str(&real.kubectl(&["get", "--raw", path]).unwrap()).unwrap()
    };
    let mut differences = Differences::default();
    let (index, real_index) = (ours("/openapi/v3"), real("/openapi/v3"));
    for (path, entry) in index["paths"].as_object().unwrap() {
        // KWOK's Stages are served out of the box.
        if path == "apis/kwok.x-k8s.io/v1alpha1" {
            continue;
        }
        let real_entry = real_index["paths"][path]["serverRelativeURL"].as_str();
        let Some(real_url) = real_entry else {
            differences.add(path, "there is no such document");
            continue;
        };
        let url = entry["serverRelativeURL"].as_str().unwrap();
        assert!(url.starts_with(&format!("/openapi/v3/{path}?hash=")), "{url}");
        compare_documents(path, ours(url), real(real_url), &mut differences);
    }
    for path in real_index["paths"].as_object().unwrap().keys() {
        // Documents of discovery, and a version of autoscalers that is not served.
        let is_known = path.matches('/').count() < 2 && path != "api/v1"
            || ["apis/autoscaling/v1", "openid/v1/jwks"].contains(&&**path);
        if !is_known && index["paths"][path].is_null() {
            differences.add(path, "the document is missing");
        }
    }
    assert!(differences.0.is_empty(), "{}", differences.0);
}
