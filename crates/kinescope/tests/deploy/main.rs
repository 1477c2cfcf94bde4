//! What `deploy/` ships: the same by Kustomize and by Helm, taken by a real API server, and allowed no more than the
//! recorder asks for.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

#[path = "../common/mod.rs"]
mod common;
mod pod;
mod rendered;
mod rights;
mod server;

use std::collections::BTreeMap;

use rendered::{Renderer, deploy, objects, of_kind};
use serde_json::{Value, json};

fn file(path: &str) -> String {
    std::fs::read_to_string(deploy().join(path)).unwrap()
}

/// A group, a resource and a verb.
type Right = [String; 3];

fn right(group: &str, resource: &str, verb: &str) -> Right {
    [group, resource, verb].map(str::to_owned)
}

/// What a role allows.
#[track_caller]
fn allowed(role: &Value) -> Vec<Right> {
    let mut allowed = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        let words = |field: &str| rule[field].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        // Names of objects, or paths that are none, would be something else again.
        assert_eq!(rule.as_object().unwrap().len(), 3, "{rule}");
        for group in words("apiGroups") {
            for resource in words("resources") {
                allowed.extend(words("verbs").map(|verb| right(group, resource, verb)));
            }
        }
    }
    allowed
}

/// What the recorder needs.
fn needed() -> Vec<Right> {
    let all = live::default_resources();
    all.iter()
        .flat_map(|(kind, plural)| ["list", "watch"].map(|verb| right(&kind.group, plural, verb)))
        .collect()
}

/// That rights are these, each once; only what differs is told.
#[track_caller]
fn check_rights(rights: &[Right], expected: &[Right]) {
    let beyond = |one: &[Right], other: &[Right]| -> Vec<String> {
        one.iter().filter(|right| !other.contains(right)).map(|right| right.join(" ")).collect()
    };
    let (too_many, missing) = (beyond(rights, expected), beyond(expected, rights));
    assert!(too_many.is_empty() && missing.is_empty(), "too many: {too_many:?}, missing: {missing:?}");
    assert_eq!(rights.len(), expected.len(), "some are told twice");
}

#[test]
fn the_role_is_what_the_recorder_needs() {
    let account = objects(&file("kustomize/base/account.yaml"));
    check_rights(&allowed(of_kind(&account, "ClusterRole")), &needed());
    assert!(!needed().iter().any(|[_, resource, _]| resource == "secrets" || resource == "*"));
}

#[test]
fn versions_and_users_are_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = &objects(&file("helm/kinescope/Chart.yaml"))[0];
    assert_eq!([&chart["version"], &chart["appVersion"]], [version, version]);
    let base = &objects(&file("kustomize/base/kustomization.yaml"))[0];
    assert_eq!(base["images"], json!([{ "name": "kinescope", "newTag": version }]));
    for said in ["Dockerfile", "README.md"] {
        assert!(file(said).contains(&format!("kinescope:{version}")), "{said}");
    }
    let set = &objects(&file("kustomize/base/statefulset.yaml"))[0];
    let user = &set["spec"]["template"]["spec"]["securityContext"]["runAsUser"];
    assert!(file("Dockerfile").contains(&format!("\nUSER {user}:{user}\n")));
}

#[test]
fn helm_and_kustomize_make_the_same() {
    let Some(renderer) = Renderer::find() else { return };
    for (folder, values) in
        [("base", &[][..]), ("service-monitor", &["--set", "serviceMonitor.enabled=true"][..])]
    {
        let by_kustomize = comparable(&renderer.kustomize(folder));
        let by_helm = comparable(&renderer.template(values).fine());
        assert_eq!(by_kustomize.keys().collect::<Vec<_>>(), by_helm.keys().collect::<Vec<_>>());
        for (name, object) in &by_kustomize {
            assert_eq!(object, &by_helm[name], "{name} of {folder}");
        }
    }
}

/// Objects by kind and name. Helm makes namespaces itself, if told to, and adds three labels; the configuration is
/// compared by what it means.
fn comparable(yaml: &str) -> BTreeMap<String, Value> {
    let mut all = BTreeMap::new();
    for mut object in objects(yaml) {
        if object["kind"] == "Namespace" {
            continue;
        }
        let labels = object["metadata"]["labels"].as_object_mut().unwrap();
        for label in ["app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart"] {
            labels.remove(label);
        }
        if let Some(config) = object.pointer_mut("/data/config.yaml") {
            *config = serde_saphyr::from_str(config.as_str().unwrap()).unwrap();
        }
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        assert!(all.insert(name, object).is_none());
    }
    all
}

#[test]
fn the_values_of_the_chart_do_what_they_say() {
    let Some(renderer) = Renderer::find() else { return };
    let rendered = objects(&renderer.template(&["--values", EVERYTHING]).fine());
    let set = &of_kind(&rendered, "StatefulSet")["spec"];
    let pod = &set["template"]["spec"];
    let container = &pod["containers"][0];
    let arguments = container["args"].as_array().unwrap();
    assert!(arguments.contains(&json!("--tls-cert=/etc/kinescope-tls/tls.crt")), "{arguments:?}");
    assert!(arguments.contains(&json!("--tls-key=/etc/kinescope-tls/tls.key")), "{arguments:?}");
    assert_eq!(container["image"], "registry.example/kinescope:edge");
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["resources"]["limits"], json!({ "memory": "4Gi" }));
    for probe in ["livenessProbe", "readinessProbe"] {
        assert_eq!(container[probe]["httpGet"]["scheme"], "HTTPS");
    }
    assert_eq!(pod["imagePullSecrets"], json!([{ "name": "registry" }]));
    assert_eq!(pod["nodeSelector"], json!({ "disk": "ssd" }));
    assert_eq!(pod["tolerations"], json!([{ "key": "infra", "operator": "Exists" }]));
    let secrets: Vec<&Value> =
        pod["volumes"].as_array().unwrap().iter().map(|volume| &volume["secret"]["secretName"]).collect();
    for secret in ["films-token", "films-kubeconfigs", "films-tls"] {
        assert!(secrets.contains(&&json!(secret)), "{secrets:?}");
    }
    let claim = &set["volumeClaimTemplates"][0]["spec"];
    assert_eq!(claim["storageClassName"], "fast");
    assert_eq!(claim["resources"]["requests"]["storage"], "100Gi");
    let config = of_kind(&rendered, "ConfigMap")["data"]["config.yaml"].as_str().unwrap();
    let clusters = json!([
        { "name": "this", "also": ["leases"] },
        { "name": "prod", "kubeconfig": "/etc/kinescope-kubeconfigs/prod", "context": "admin" },
    ]);
    assert_eq!(
        serde_saphyr::from_str::<Value>(config).unwrap(),
        json!({ "folder": "/data", "retention": { "age": "7d", "size": "50Gi" }, "clusters": clusters })
    );
    let mut with_leases = needed();
    with_leases.extend(["list", "watch"].map(|verb| right("coordination.k8s.io", "leases", verb)));
    check_rights(&allowed(of_kind(&rendered, "ClusterRole")), &with_leases);
    let monitor = of_kind(&rendered, "ServiceMonitor");
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!([&endpoint["scheme"], &endpoint["interval"]], ["https", "10s"]);
    assert_eq!(endpoint["tlsConfig"], json!({ "serverName": "kinescope" }));
    assert_eq!(endpoint["authorization"]["credentials"]["name"], "films-token");
}

#[test]
fn the_examples_of_the_readme_can_be_rendered() {
    let readme = file("README.md");
    let examples: Vec<&str> =
        readme.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
    let [image, helm_kind, kustomize_kind, helm_clusters] = examples[..] else { panic!("{examples:#?}") };
    let Some(renderer) = Renderer::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::os::unix::fs::symlink(deploy(), path("deploy")).unwrap();
    std::fs::create_dir(path("mine")).unwrap();
    std::fs::write(path("mine/kustomization.yaml"), format!("{image}{kustomize_kind}")).unwrap();
    std::fs::write(path("mine/config.yaml"), helm_clusters).unwrap();
    std::fs::write(path("kind.yaml"), helm_kind).unwrap();
    std::fs::write(path("clusters.yaml"), helm_clusters).unwrap();

    let by_kustomize = objects(&renderer.kustomize(&path("mine")));
    let by_helm = objects(&renderer.template(&["--values", &path("kind.yaml")]).fine());
    for rendered in [&by_kustomize, &by_helm] {
        let rights = allowed(of_kind(rendered, "ClusterRole"));
        assert!(rights.contains(&right("coordination.k8s.io", "leases", "watch")));
    }
    let container = &of_kind(&by_kustomize, "StatefulSet")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], concat!("registry.example/kinescope:", env!("CARGO_PKG_VERSION")));
    assert_eq!(of_kind(&by_kustomize, "ConfigMap")["data"]["config.yaml"], helm_clusters);
    let by_helm = objects(&renderer.template(&["--values", &path("clusters.yaml")]).fine());
    let config = of_kind(&by_helm, "ConfigMap")["data"]["config.yaml"].as_str().unwrap();
    assert!(config.contains("kubeconfig: /etc/kinescope-kubeconfigs/prod\n"), "{config}");
}

/// Every value of the chart set to another than its default.
const EVERYTHING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/deploy/everything.yaml");

#[test]
fn every_value_is_tried_and_wrong_ones_are_refused() {
    let everything = &objects(&std::fs::read_to_string(EVERYTHING).unwrap())[0];
    check_differs("", &objects(&file("helm/kinescope/values.yaml"))[0], everything);
    let Some(renderer) = Renderer::find() else { return };
    for wrong in [
        "tokenSecrets=x",
        "tokenSecret=",
        "storage.sise=1Gi",
        "image.pullPolicy=Sometimes",
        "clusters=null",
        "clusters[0].context=prod",
        "extraRules[0].verbs[0]=get",
    ] {
        let error = renderer.template(&["--set", wrong]).wrong(1);
        assert!(error.contains("values don't meet the specifications of the schema"), "{wrong}: {error}");
    }
}

/// That nothing of `values` is left out of `others` or the same there.
fn check_differs(path: &str, values: &Value, others: &Value) {
    match values.as_object().filter(|fields| !fields.is_empty()) {
        Some(fields) => {
            for (name, value) in fields {
                check_differs(&format!("{path}.{name}"), value, &others[name]);
            }
        }
        None => assert!(!others.is_null() && values != others, "{path} is not tried"),
    }
}
