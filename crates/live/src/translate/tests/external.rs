//! Tests that objects with external effects are not applied by default.

use serde_json::{Value, json};

use super::super::*;
use super::created;

fn of_kind(version: &str, kind: &str) -> Value {
    testobjects::resource(version, kind, "a").set("spec.x", 1).json()
}

const EXTERNAL: &[(&str, &str)] = &[
    ("networking.k8s.io/v1", "Ingress"),
    ("networking.k8s.io/v1", "IngressClass"),
    ("gateway.networking.k8s.io/v1", "Gateway"),
    ("gateway.networking.k8s.io/v1", "GatewayClass"),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"),
    ("apiregistration.k8s.io/v1", "APIService"),
    ("certificates.k8s.io/v1", "CertificateSigningRequest"),
    ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding"),
    ("storage.k8s.io/v1", "VolumeAttributesClass"),
    ("snapshot.storage.k8s.io/v1", "VolumeSnapshot"),
    ("snapshot.storage.k8s.io/v1", "VolumeSnapshotContent"),
    ("groupsnapshot.storage.k8s.io/v1beta1", "VolumeGroupSnapshot"),
    ("karpenter.sh/v1", "NodePool"),
    ("karpenter.k8s.aws/v1", "EC2NodeClass"),
    ("cluster.x-k8s.io/v1beta1", "MachineDeployment"),
    ("infrastructure.cluster.x-k8s.io/v1beta1", "AWSMachineTemplate"),
    ("machine.openshift.io/v1beta1", "MachineSet"),
    ("machine.sapcloud.io/v1alpha1", "MachineDeployment"),
    ("extensions.gardener.cloud/v1alpha1", "Worker"),
    ("s3.aws.crossplane.io/v1beta1", "Bucket"),
    ("s3.services.k8s.aws/v1alpha1", "Bucket"),
    ("storage.cnrm.cloud.google.com/v1beta1", "StorageBucket"),
    ("resources.azure.com/v1", "ResourceGroup"),
    ("cert-manager.io/v1", "Certificate"),
    ("externaldns.k8s.io/v1alpha1", "DNSEndpoint"),
    ("argoproj.io/v1alpha1", "Application"),
    ("velero.io/v1", "DeleteBackupRequest"),
    ("kueue.x-k8s.io/v1beta1", "MultiKueueCluster"),
];

#[test]
fn kinds_with_external_effects_are_applied_if_named_or_allowed() {
    for (version, kind) in EXTERNAL {
        let object = of_kind(version, kind);
        assert_eq!(created(TranslateOptions::default(), &object), None, "{kind}");
        let named =
            TranslateOptions { kinds: Some(vec![Kind::of(version, kind)]), ..TranslateOptions::default() };
        assert!(created(named, &object).is_some(), "{kind}");
        let allowed = TranslateOptions { allow_external_effects: true, ..TranslateOptions::default() };
        assert!(created(allowed, &object).is_some(), "{kind}");
    }
    // A NodeClaim is also excluded as a placement.
    assert_eq!(created(TranslateOptions::default(), &of_kind("karpenter.sh/v1", "NodeClaim")), None);
}

#[test]
fn objects_that_workloads_and_schedulers_need_are_applied() {
    for (version, kind) in [
        ("v1", "ConfigMap"),
        ("v1", "Namespace"),
        ("policy/v1", "PodDisruptionBudget"),
        ("scheduling.k8s.io/v1", "PriorityClass"),
        ("node.k8s.io/v1", "RuntimeClass"),
        ("storage.k8s.io/v1", "CSIDriver"),
        ("resource.k8s.io/v1", "ResourceSlice"),
        ("kueue.x-k8s.io/v1beta1", "ClusterQueue"),
        ("scheduling.run.ai/v2alpha2", "PodGroup"),
    ] {
        let options =
            TranslateOptions { target_kinds: vec![Kind::of(version, kind)], ..TranslateOptions::default() };
        assert!(created(options, &of_kind(version, kind)).is_some(), "{kind}");
    }
}

#[test]
fn custom_kinds_are_applied_where_no_controller_can_exist() {
    let kind = || Kind::new("x.io", "Box");
    let boxed = of_kind("x.io/v1", "Box");
    assert!(created(TranslateOptions::default(), &boxed).is_some());
    let had = || TranslateOptions { target_kinds: vec![kind()], ..TranslateOptions::default() };
    assert_eq!(created(had(), &boxed), None);
    assert!(created(TranslateOptions { kinds: Some(vec![kind()]), ..had() }, &boxed).is_some());
    assert!(created(TranslateOptions { allow_external_effects: true, ..had() }, &boxed).is_some());
    let templates = PodTemplatePaths::with([(kind(), vec!["/spec/template".to_owned()])]);
    assert!(created(TranslateOptions { templates, ..had() }, &boxed).is_some());
}

#[test]
fn definitions_have_no_webhook_and_define_only_applied_kinds() {
    let definition = |group: &str, kind: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "d"},
            "spec": {"group": group, "names": {"kind": kind}, "conversion": {"strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "https://outside"}}}}})
    };
    let (_, boxes) = created(TranslateOptions::default(), &definition("x.io", "Box")).unwrap();
    assert_eq!(boxes["spec"]["conversion"], json!({"strategy": "None"}));
    for (group, kind) in [("karpenter.sh", "NodePool"), ("gateway.networking.k8s.io", "Gateway")] {
        assert_eq!(created(TranslateOptions::default(), &definition(group, kind)), None, "{group}");
    }
}

#[test]
fn services_have_no_external_effects() {
    let service = |kind: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop", "annotations": {
                "service.beta.kubernetes.io/aws-load-balancer-type": "nlb", "cloud.google.com/neg": "{}", "getambassador.io/config": "x",
                "external-dns.alpha.kubernetes.io/hostname": "shop.example"}},
            "spec": {"type": kind, "ports": [{"port": 80, "nodePort": 30080}], "externalIPs": ["192.0.2.1"],
                "loadBalancerIP": "192.0.2.2", "loadBalancerClass": "a/b", "loadBalancerSourceRanges": ["192.0.2.0/24"],
                "allocateLoadBalancerNodePorts": true, "externalTrafficPolicy": "Local", "healthCheckNodePort": 30081,
                "selector": {"app": "web"}},
            "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.2"}]}}})
    };
    let (_, balanced) = created(TranslateOptions::default(), &service("LoadBalancer")).unwrap();
    let expected = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"type": "ClusterIP", "ports": [{"port": 80}], "selector": {"app": "web"}}});
    assert_eq!(balanced, expected);
    assert_eq!(created(TranslateOptions::default(), &service("ClusterIP")).unwrap().1, expected);
    let (_, of_nodes) = created(TranslateOptions::default(), &service("NodePort")).unwrap();
    assert_eq!(
        of_nodes["spec"],
        json!({"type": "NodePort", "externalTrafficPolicy": "Local", "ports": [{"port": 80}], "selector": {"app": "web"}})
    );
    let elsewhere = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"type": "ExternalName", "externalName": "db.example"}});
    assert_eq!(created(TranslateOptions::default(), &elsewhere), None);
    let allowed = || TranslateOptions { allow_external_effects: true, ..TranslateOptions::default() };
    assert_eq!(created(allowed(), &service("LoadBalancer")).unwrap().1["spec"]["type"], "LoadBalancer");
    assert!(created(allowed(), &elsewhere).is_some());
}

#[test]
fn addresses_of_kubelets_and_pods_are_removed() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": "n"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}, "allocatable": {"cpu": "4"}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"nodeName": "n"}, "status": {"phase": "Running", "podIP": "192.0.2.2", "hostIP": "192.0.2.1",
            "podIPs": [{"ip": "192.0.2.2"}], "hostIPs": [{"ip": "192.0.2.1"}]}});
    let bound = || TranslateOptions { keep_placement: true, ..TranslateOptions::default() };
    let status = |options, object| created(options, object).unwrap().1["status"].clone();
    let expected = json!({"addresses": [{"type": "Hostname", "address": "n"}], "allocatable": {"cpu": "4"}});
    assert_eq!(status(bound(), &node), expected);
    assert_eq!(status(bound(), &pod), json!({"phase": "Running"}));
    let allowed = || TranslateOptions { allow_external_effects: true, ..bound() };
    assert_eq!(status(allowed(), &node), node["status"]);
    assert_eq!(status(allowed(), &pod), pod["status"]);
}

#[test]
fn annotations_with_external_effects_are_removed() {
    let annotations = json!({"cert-manager.io/cluster-issuer": "a", "alb.ingress.kubernetes.io/scheme": "b",
        "external-dns.alpha.kubernetes.io/hostname": "c", "iam.amazonaws.com/role": "d", "networking.gke.io/x": "e",
        "dns.alpha.kubernetes.io/external": "f", "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "example.io/cert-manager.io": "f"});
    let kept =
        json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "example.io/cert-manager.io": "f"});
    let options = || TranslateOptions { level: AppliedLevel::Workloads, ..TranslateOptions::default() };
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": {"containers": []}}}});
    let (_, given_deployment) = created(options(), &deployment).unwrap();
    for pointer in ["/metadata/annotations", "/spec/template/metadata/annotations"] {
        assert_eq!(given_deployment.pointer(pointer), Some(&kept), "{pointer}");
    }
    let allowed = TranslateOptions { allow_external_effects: true, ..options() };
    assert_eq!(created(allowed, &deployment).unwrap().1, deployment);
}

#[test]
fn no_autoscaler_finds_the_instances_of_recorded_nodes() {
    let node = |spec: Value| {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations":
            {"csi.volume.kubernetes.io/nodeid": "{\"ebs.csi.aws.com\":\"i-1\"}", "a": "b"}}, "spec": spec});
        created(TranslateOptions::default(), &node).unwrap().1
    };
    let id = |spec: Value| node(spec)["spec"].get("providerID").cloned();
    let nowhere = Some(json!("replay.kinescope.io://n1"));
    assert_eq!(id(json!({"providerID": "aws:///eu-1a/i-1"})), nowhere);
    // The target's cloud controller would set one.
    assert_eq!(id(json!({"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized"}]})), nowhere);
    assert_eq!(id(json!({"providerID": "kwok:n1"})), Some(json!("kwok:n1")));
    assert_eq!(id(json!({})), None);
    assert_eq!(node(json!({}))["metadata"]["annotations"], json!({"a": "b"}));
}

#[test]
fn config_maps_of_system_namespaces_are_not_applied() {
    let map = |namespace: &str| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "aws-auth", "namespace": namespace}});
        created(TranslateOptions::default(), &map).is_some()
    };
    assert_eq!((map("kube-system"), map("shop")), (false, true));
}
