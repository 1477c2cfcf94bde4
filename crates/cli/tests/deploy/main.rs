//! Tests of `deploy/`: Kustomize and Helm render the same objects, a real API server accepts them, and their role
//! grants exactly the permissions that the recorder needs.

#![allow(clippy::unwrap_used, reason = "a test stops where something is not as it should be")]

mod alerts;
#[path = "../common/mod.rs"]
mod common;
mod permissions;
mod pod;
mod rendered;
mod server;

use std::collections::BTreeMap;

use rendered::{Renderer, deploy, objects, of_kind};
use serde_json::{Value, json};

fn file(path: &str) -> String {
    std::fs::read_to_string(deploy().join(path)).unwrap()
}

/// A permission: API group, resource and verb.
type Permission = [String; 3];

fn permission(group: &str, resource: &str, verb: &str) -> Permission {
    [group, resource, verb].map(str::to_owned)
}

/// The permissions that a role grants.
#[track_caller]
fn granted_permissions(role: &Value) -> Vec<Permission> {
    let mut allowed = Vec::new();
    for rule in role["rules"].as_array().unwrap() {
        let words = |field: &str| rule[field].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
        // Resource names and non-resource URLs are not supported here.
        assert_eq!(rule.as_object().unwrap().len(), 3, "{rule}");
        for group in words("apiGroups") {
            for resource in words("resources") {
                allowed.extend(words("verbs").map(|verb| permission(group, resource, verb)));
            }
        }
    }
    allowed
}

/// The permissions that the recorder needs.
fn needed_permissions() -> Vec<Permission> {
    let all = live::default_resources();
    all.iter()
        .flat_map(|(kind, plural)| ["list", "watch"].map(|verb| permission(&kind.group, plural, verb)))
        .collect()
}

/// Checks that the permissions are the expected ones, without duplicates; a failure lists the differences.
#[track_caller]
fn check_permissions(permissions: &[Permission], expected: &[Permission]) {
    let beyond = |one: &[Permission], other: &[Permission]| -> Vec<String> {
        one.iter()
            .filter(|permission| !other.contains(permission))
            .map(|permission| permission.join(" "))
            .collect()
    };
    let (too_many, missing) = (beyond(permissions, expected), beyond(expected, permissions));
    assert!(too_many.is_empty() && missing.is_empty(), "too many: {too_many:?}, missing: {missing:?}");
    assert_eq!(permissions.len(), expected.len(), "some permissions are granted twice");
}

#[test]
fn the_role_is_what_the_recorder_needs() {
    let account = objects(&file("kustomize/base/account.yaml"));
    check_permissions(&granted_permissions(of_kind(&account, "ClusterRole")), &needed_permissions());
    assert!(!needed_permissions().iter().any(|[_, resource, _]| resource == "secrets" || resource == "*"));
}

#[test]
fn versions_and_users_are_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = &objects(&file("helm/kinescope/Chart.yaml"))[0];
    assert_eq!([&chart["version"], &chart["appVersion"]], [version, version]);
    let base = &objects(&file("kustomize/base/kustomization.yaml"))[0];
    assert_eq!(base["images"], json!([{ "name": "kinescope", "newTag": version }]));
    for file_name in ["Dockerfile", "README.md"] {
        assert!(file(file_name).contains(&format!("kinescope:{version}")), "{file_name}");
    }
    let set = &objects(&file("kustomize/base/statefulset.yaml"))[0];
    let user = &set["spec"]["template"]["spec"]["securityContext"]["runAsUser"];
    assert!(file("Dockerfile").contains(&format!("\nUSER {user}:{user}\n")));
}

#[test]
fn the_build_image_can_be_given_by_its_digest() {
    let dockerfile = file("Dockerfile");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let images: Vec<String> = dockerfile
        .lines()
        .filter(|line| line.starts_with("FROM "))
        .map(|line| words(line)[1].clone())
        .collect();
    assert_eq!(images, ["${RUST_IMAGE}", "scratch"]);
    // An ARG used in the first FROM must precede it.
    let before = dockerfile.split_once("\nFROM ").unwrap().0;
    let default = before.lines().find_map(|line| line.strip_prefix("ARG RUST_IMAGE=")).unwrap();
    assert!(default.starts_with("rust:"), "{default}");
    assert!(file("README.md").contains("--build-arg RUST_IMAGE=rust@sha256:DIGEST"));
}

#[test]
fn helm_and_kustomize_render_the_same() {
    let Some(renderer) = Renderer::find() else { return };
    for (folders, values) in [
        (&["base"][..], &[][..]),
        (&["service-monitor"], &["--set", "serviceMonitor.enabled=true"]),
        (
            &["base", "alerts", "network-policy"],
            &["--set", "prometheusRule.enabled=true,networkPolicy.enabled=true"],
        ),
    ] {
        let rendered: Vec<String> = folders.iter().map(|folder| renderer.kustomize(folder)).collect();
        let by_kustomize = comparable_objects(&rendered.join("---\n"));
        let by_helm = comparable_objects(&renderer.template(values).success());
        assert_eq!(by_kustomize.keys().collect::<Vec<_>>(), by_helm.keys().collect::<Vec<_>>());
        for (name, object) in &by_kustomize {
            assert_eq!(object, &by_helm[name], "{name} of {folders:?}");
        }
    }
}

/// Objects by kind and name. Helm does not render the namespace and adds three labels; the configuration is compared
/// after parsing.
fn comparable_objects(yaml: &str) -> BTreeMap<String, Value> {
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
    let rendered = objects(&renderer.template(&["--values", EVERYTHING]).success());
    let set = &of_kind(&rendered, "StatefulSet")["spec"];
    let pod = &set["template"]["spec"];
    let container = &pod["containers"][0];
    let arguments = container["args"].as_array().unwrap();
    assert!(arguments.contains(&json!("--tls-cert=/etc/kinescope-tls/tls.crt")), "{arguments:?}");
    assert!(arguments.contains(&json!("--tls-key=/etc/kinescope-tls/tls.key")), "{arguments:?}");
    assert_eq!(container["image"], "registry.example/kinescope:edge");
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(container["resources"]["limits"], json!({ "memory": "4Gi" }));
    // Probes have a separate listener without TLS.
    assert!(arguments.contains(&json!("--health-probe-bind-address=0.0.0.0:8081")), "{arguments:?}");
    assert!(
        container["ports"].as_array().unwrap().contains(&json!({ "name": "probes", "containerPort": 8081 }))
    );
    for (probe, path) in [("livenessProbe", "/healthz"), ("readinessProbe", "/readyz")] {
        assert_eq!(container[probe]["httpGet"], json!({ "path": path, "port": "probes" }));
    }
    assert!(!of_kind(&rendered, "Service")["spec"].to_string().contains("probes"));
    // The scratch size is that of its volume.
    assert!(arguments.contains(&json!("--scratch-size=50Gi")), "{arguments:?}");
    let volumes = pod["volumes"].as_array().unwrap();
    let scratch = volumes.iter().find(|volume| volume["name"] == "tmp").unwrap();
    assert_eq!(scratch["emptyDir"]["sizeLimit"], "50Gi");
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
        { "name": "this", "also": ["ingresses"] },
        { "name": "prod", "kubeconfig": "/etc/kinescope-kubeconfigs/prod", "context": "admin" },
    ]);
    assert_eq!(
        serde_saphyr::from_str::<Value>(config).unwrap(),
        json!({ "folder": "/data", "retention": { "age": "7d", "size": "50Gi" }, "clusters": clusters })
    );
    let mut with_ingresses = needed_permissions();
    with_ingresses.extend(["list", "watch"].map(|verb| permission("networking.k8s.io", "ingresses", verb)));
    check_permissions(&granted_permissions(of_kind(&rendered, "ClusterRole")), &with_ingresses);
    let monitor = of_kind(&rendered, "ServiceMonitor");
    assert_eq!(monitor["metadata"]["labels"]["release"], "prometheus");
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!([&endpoint["scheme"], &endpoint["interval"]], ["https", "10s"]);
    assert_eq!(endpoint["tlsConfig"], json!({ "serverName": "kinescope" }));
    assert_eq!(endpoint["authorization"]["credentials"]["name"], "films-token");
    assert_eq!(of_kind(&rendered, "PrometheusRule")["metadata"]["labels"]["release"], "prometheus");
    let policy = &of_kind(&rendered, "NetworkPolicy")["spec"];
    assert_eq!(policy["podSelector"], set["selector"]);
    let monitoring = json!({ "matchLabels": { "kubernetes.io/metadata.name": "monitoring" } });
    assert_eq!(policy["ingress"][0]["from"], json!([{ "namespaceSelector": monitoring }]));
    assert_eq!(policy["egress"][1]["ports"], json!([{ "protocol": "TCP", "port": 8443 }]));
}

#[test]
fn the_examples_of_the_readme_can_be_rendered() {
    let readme = file("README.md");
    let examples: Vec<&str> =
        readme.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
    let [image, helm_policy, kustomize_more, helm_kind, kustomize_kind, helm_clusters] = examples[..] else {
        panic!("{examples:#?}")
    };
    let Some(renderer) = Renderer::find() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::os::unix::fs::symlink(deploy(), path("deploy")).unwrap();
    std::fs::create_dir(path("mine")).unwrap();
    std::fs::write(path("mine/kustomization.yaml"), format!("{image}{kustomize_kind}")).unwrap();
    std::fs::write(path("mine/config.yaml"), helm_clusters).unwrap();
    std::fs::create_dir(path("more")).unwrap();
    std::fs::write(path("more/kustomization.yaml"), kustomize_more).unwrap();
    std::fs::write(path("policy.yaml"), helm_policy).unwrap();
    std::fs::write(path("kind.yaml"), helm_kind).unwrap();
    std::fs::write(path("clusters.yaml"), helm_clusters).unwrap();

    let by_kustomize = objects(&renderer.kustomize(&path("mine")));
    let by_helm = objects(&renderer.template(&["--values", &path("kind.yaml")]).success());
    for rendered in [&by_kustomize, &by_helm] {
        let permissions = granted_permissions(of_kind(rendered, "ClusterRole"));
        assert!(permissions.contains(&permission("networking.k8s.io", "ingresses", "watch")));
    }
    let container = &of_kind(&by_kustomize, "StatefulSet")["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], concat!("registry.example/kinescope:", env!("CARGO_PKG_VERSION")));
    assert_eq!(of_kind(&by_kustomize, "ConfigMap")["data"]["config.yaml"], helm_clusters);
    let more = objects(&renderer.kustomize(&path("more")));
    of_kind(&more, "PrometheusRule");
    let by_helm = objects(&renderer.template(&["--values", &path("policy.yaml")]).success());
    let peers = |rendered: &[Value]| {
        of_kind(rendered, "NetworkPolicy")["spec"]["ingress"][0]["from"].as_array().unwrap().len()
    };
    assert_eq!((peers(&more), peers(&by_helm)), (1, 2));
    let by_helm = objects(&renderer.template(&["--values", &path("clusters.yaml")]).success());
    let config = of_kind(&by_helm, "ConfigMap")["data"]["config.yaml"].as_str().unwrap();
    assert!(config.contains("kubeconfig: /etc/kinescope-kubeconfigs/prod\n"), "{config}");
}

/// Values that set every value of the chart to something other than its default.
const EVERYTHING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/deploy/everything.yaml");

#[test]
fn every_value_is_tested_and_invalid_ones_are_rejected() {
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
        "networkPolicy.from[0].pods=web",
        "networkPolicy.apiServerPorts[0]=0",
        "prometheusRule.enabled=maybe",
    ] {
        let error = renderer.template(&["--set", wrong]).failure(1);
        assert!(error.contains("values don't meet the specifications of the schema"), "{wrong}: {error}");
    }
}

/// Checks that `others` sets every value of `values`, to something else.
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
