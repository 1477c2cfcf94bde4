//! Tests that a real API server accepts the objects of `deploy/` with strict validation.

use model::Kind;
use serde_json::{Value, json};
use testcluster::{Cluster, ClusterOptions};

use crate::EVERYTHING;
use crate::rendered::{Renderer, deploy, no_go, objects, of_kind};

/// Starts a cluster; `None`, with a message, if it cannot be built.
pub(crate) fn start(options: ClusterOptions) -> Option<Cluster> {
    let cluster = Cluster::start(options).unwrap();
    if cluster.is_none() {
        no_go();
    }
    cluster
}

/// Creates an object.
#[track_caller]
pub(crate) fn create(cluster: &Cluster, object: &Value) {
    cluster.kubectl_with_input(&["create", "-f", "-"], &object.to_string()).unwrap();
}

/// A CustomResourceDefinition of a kind, with this schema.
pub(crate) fn definition(kind: &Kind, plural: &str, schema: Value) -> Value {
    let (group, kind) = (&*kind.group, &*kind.kind);
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
            // Required for API groups that end in k8s.io.
            "annotations": { "api-approved.kubernetes.io": "unapproved, for a test" },
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "plural": plural, "singular": kind.to_lowercase(), "kind": kind },
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": schema } } },
            }],
        },
    })
}

/// The part of the Prometheus operator's definition that is used.
fn service_monitors() -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "object", "additionalProperties": text });
    let fields = |fields: Value| json!({ "type": "object", "properties": fields });
    let authorization =
        fields(json!({ "type": text, "credentials": fields(json!({ "name": text, "key": text })) }));
    let endpoint = fields(json!({
        "port": text,
        "interval": text,
        "scheme": { "type": "string", "enum": ["http", "https"] },
        "authorization": authorization,
        "tlsConfig": fields(json!({ "serverName": text })),
    }));
    let spec = fields(json!({
        "selector": fields(json!({ "matchLabels": texts })),
        "endpoints": { "type": "array", "items": endpoint },
    }));
    definition(&Kind::new("monitoring.coreos.com", "ServiceMonitor"), "servicemonitors", spec)
}

fn prometheus_rules() -> Value {
    let text = json!({ "type": "string" });
    let texts = json!({ "type": "object", "additionalProperties": text });
    let list =
        |fields: Value| json!({ "type": "array", "items": { "type": "object", "properties": fields } });
    let rule = json!({ "alert": text, "expr": text, "for": text, "labels": texts, "annotations": texts });
    let groups = list(json!({ "name": text, "rules": list(rule) }));
    let spec = json!({ "type": "object", "properties": { "groups": groups } });
    definition(&Kind::new("monitoring.coreos.com", "PrometheusRule"), "prometheusrules", spec)
}

#[test]
fn a_real_server_accepts_all_objects() {
    let Some(renderer) = Renderer::find() else { return };
    let Some(cluster) = start(ClusterOptions::default()) else { return };
    let base = renderer.kustomize("base");
    create(&cluster, of_kind(&objects(&base), "Namespace"));
    create(&cluster, &service_monitors());
    create(&cluster, &prometheus_rules());
    cluster.kubectl(&["wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"]).unwrap();
    for rendered in [
        &base,
        &renderer.kustomize("service-monitor"),
        &renderer.template(&[]).success(),
        &renderer.template(&["--values", EVERYTHING]).success(),
    ] {
        let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        let applied = cluster.kubectl_with_input(&apply, rendered).unwrap();
        assert_eq!(applied.lines().count(), objects(rendered).len(), "{applied}");
        assert!(applied.lines().all(|line| line.ends_with("(server dry run)")), "{applied}");
        check_pod(&cluster, of_kind(&objects(rendered), "StatefulSet"));
    }

    for folder in ["alerts", "network-policy"] {
        let apply = ["apply", "--dry-run=server", "--validate=strict", "-f", "-"];
        let applied = cluster.kubectl_with_input(&apply, &renderer.kustomize(folder)).unwrap();
        assert!(applied.ends_with("/kinescope created (server dry run)\n"), "{applied}");
    }

    // As the README describes for other clusters.
    let account = deploy().join("kustomize/base/account.yaml");
    let apply = ["apply", "--dry-run=server", "-n=kinescope", "-f", account.to_str().unwrap()];
    assert_eq!(cluster.kubectl(&apply).unwrap().lines().count(), 3);

    let kubeconfig = cluster.kubeconfig().to_str().unwrap();
    let notes = || renderer.helm(&["install", "--dry-run=server", "--kubeconfig", kubeconfig]).success();
    let make = "kubectl create secret generic kinescope-token -n kinescope --from-literal=token=";
    assert!(notes().contains(make), "{}", notes());
    cluster
        .kubectl(&[
            "create",
            "secret",
            "generic",
            "kinescope-token",
            "-n=kinescope",
            "--from-literal=token=x",
        ])
        .unwrap();
    assert!(!notes().contains(make) && notes().contains("port-forward -n kinescope service/kinescope 7777"));
}

/// Creates a pod of the StatefulSet, as its controller would: the namespace enforces the restricted Pod Security
/// Standard.
fn check_pod(cluster: &Cluster, set: &Value) {
    let mut pod = set["spec"]["template"].clone();
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = "kinescope-0".into();
    pod["metadata"]["namespace"] = "kinescope".into();
    let data = json!({ "name": "data", "persistentVolumeClaim": { "claimName": "data-kinescope-0" } });
    pod["spec"]["volumes"].as_array_mut().unwrap().push(data);
    let make = |pod: &Value| {
        cluster.kubectl_with_input(
            &["create", "--dry-run=server", "--validate=strict", "-f", "-"],
            &pod.to_string(),
        )
    };
    assert_eq!(make(&pod).unwrap(), "pod/kinescope-0 created (server dry run)\n");
    pod["spec"]["containers"][0]["securityContext"]["capabilities"] = Value::Null;
    let error = make(&pod).unwrap_err().to_string();
    assert!(error.contains("violates PodSecurity \"restricted:latest\""), "{error}");
}
