//! What acts outside a cluster, and is not given unless somebody asks for it.

use serde_json::{Value, json};

use super::super::*;
use super::given;

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
fn kinds_that_act_outside_are_given_if_they_are_named_or_that_is_allowed() {
    for (version, kind) in EXTERNAL {
        let object = of_kind(version, kind);
        assert_eq!(given(Manner::default(), &object), None, "{kind}");
        let named = Manner { kinds: Some(vec![Kind::of(version, kind)]), ..Manner::default() };
        assert!(given(named, &object).is_some(), "{kind}");
        let allowed = Manner { allow_external_effects: true, ..Manner::default() };
        assert!(given(allowed, &object).is_some(), "{kind}");
    }
    // A claim of Karpenter's says where something was put, besides.
    assert_eq!(given(Manner::default(), &of_kind("karpenter.sh/v1", "NodeClaim")), None);
}

#[test]
fn what_workloads_and_schedulers_need_is_given() {
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
        let manner = Manner { target_kinds: vec![Kind::of(version, kind)], ..Manner::default() };
        assert!(given(manner, &of_kind(version, kind)).is_some(), "{kind}");
    }
}

#[test]
fn kinds_of_others_are_given_where_nobody_can_be_at_work_on_them() {
    let kind = || Kind::new("x.io", "Box");
    let boxed = of_kind("x.io/v1", "Box");
    assert!(given(Manner::default(), &boxed).is_some());
    let had = || Manner { target_kinds: vec![kind()], ..Manner::default() };
    assert_eq!(given(had(), &boxed), None);
    assert!(given(Manner { kinds: Some(vec![kind()]), ..had() }, &boxed).is_some());
    assert!(given(Manner { allow_external_effects: true, ..had() }, &boxed).is_some());
    let templates = Templates::with([(kind(), vec!["/spec/template".to_owned()])]);
    assert!(given(Manner { templates, ..had() }, &boxed).is_some());
}

#[test]
fn definitions_have_no_webhook_and_are_of_kinds_that_are_given() {
    let definition = |group: &str, kind: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "d"},
            "spec": {"group": group, "names": {"kind": kind}, "conversion": {"strategy": "Webhook",
                "webhook": {"clientConfig": {"url": "https://outside"}}}}})
    };
    let (_, boxes) = given(Manner::default(), &definition("x.io", "Box")).unwrap();
    assert_eq!(boxes["spec"]["conversion"], json!({"strategy": "None"}));
    for (group, kind) in [("karpenter.sh", "NodePool"), ("gateway.networking.k8s.io", "Gateway")] {
        assert_eq!(given(Manner::default(), &definition(group, kind)), None, "{group}");
    }
}

#[test]
fn services_stay_inside() {
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
    let (_, balanced) = given(Manner::default(), &service("LoadBalancer")).unwrap();
    let expected = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"type": "ClusterIP", "ports": [{"port": 80}], "selector": {"app": "web"}}});
    assert_eq!(balanced, expected);
    assert_eq!(given(Manner::default(), &service("ClusterIP")).unwrap().1, expected);
    let (_, of_nodes) = given(Manner::default(), &service("NodePort")).unwrap();
    assert_eq!(
        of_nodes["spec"],
        json!({"type": "NodePort", "externalTrafficPolicy": "Local", "ports": [{"port": 80}], "selector": {"app": "web"}})
    );
    let elsewhere = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "shop"},
        "spec": {"type": "ExternalName", "externalName": "db.example"}});
    assert_eq!(given(Manner::default(), &elsewhere), None);
    let allowed = || Manner { allow_external_effects: true, ..Manner::default() };
    assert_eq!(given(allowed(), &service("LoadBalancer")).unwrap().1["spec"]["type"], "LoadBalancer");
    assert!(given(allowed(), &elsewhere).is_some());
}

#[test]
fn addresses_of_kubelets_and_pods_are_not_told() {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {
        "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": "n"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}, "allocatable": {"cpu": "4"}}});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "shop"},
        "spec": {"nodeName": "n"}, "status": {"phase": "Running", "podIP": "192.0.2.2", "hostIP": "192.0.2.1",
            "podIPs": [{"ip": "192.0.2.2"}], "hostIPs": [{"ip": "192.0.2.1"}]}});
    let bound = || Manner { keep_placement: true, ..Manner::default() };
    let status = |manner, object| given(manner, object).unwrap().1["status"].clone();
    let expected = json!({"addresses": [{"type": "Hostname", "address": "n"}], "allocatable": {"cpu": "4"}});
    assert_eq!(status(bound(), &node), expected);
    assert_eq!(status(bound(), &pod), json!({"phase": "Running"}));
    let allowed = || Manner { allow_external_effects: true, ..bound() };
    assert_eq!(status(allowed(), &node), node["status"]);
    assert_eq!(status(allowed(), &pod), pod["status"]);
}

#[test]
fn annotations_that_others_act_upon_are_nowhere() {
    let annotations = json!({"cert-manager.io/cluster-issuer": "a", "alb.ingress.kubernetes.io/scheme": "b",
        "external-dns.alpha.kubernetes.io/hostname": "c", "iam.amazonaws.com/role": "d", "networking.gke.io/x": "e",
        "dns.alpha.kubernetes.io/external": "f", "kubectl.kubernetes.io/last-applied-configuration": "{}",
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "example.io/cert-manager.io": "f"});
    let kept =
        json!({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false", "example.io/cert-manager.io": "f"});
    let manner = || Manner { level: Level::Workloads, ..Manner::default() };
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop", "annotations": annotations},
        "spec": {"template": {"metadata": {"annotations": annotations}, "spec": {"containers": []}}}});
    let (_, given_deployment) = given(manner(), &deployment).unwrap();
    for place in ["/metadata/annotations", "/spec/template/metadata/annotations"] {
        assert_eq!(given_deployment.pointer(place), Some(&kept), "{place}");
    }
    let allowed = Manner { allow_external_effects: true, ..manner() };
    assert_eq!(given(allowed, &deployment).unwrap().1, deployment);
}

#[test]
fn no_autoscaler_finds_the_instances_of_recorded_nodes() {
    let node = |spec: Value| {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", "annotations":
            {"csi.volume.kubernetes.io/nodeid": "{\"ebs.csi.aws.com\":\"i-1\"}", "a": "b"}}, "spec": spec});
        given(Manner::default(), &node).unwrap().1
    };
    let id = |spec: Value| node(spec)["spec"].get("providerID").cloned();
    let nowhere = Some(json!("replay.kinescope.io://n1"));
    assert_eq!(id(json!({"providerID": "aws:///eu-1a/i-1"})), nowhere);
    // The target's cloud would give it one.
    assert_eq!(id(json!({"taints": [{"key": "node.cloudprovider.kubernetes.io/uninitialized"}]})), nowhere);
    assert_eq!(id(json!({"providerID": "kwok:n1"})), Some(json!("kwok:n1")));
    assert_eq!(id(json!({})), None);
    assert_eq!(node(json!({}))["metadata"]["annotations"], json!({"a": "b"}));
}

#[test]
fn settings_of_a_clusters_components_are_not_given() {
    let map = |namespace: &str| {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "aws-auth", "namespace": namespace}});
        given(Manner::default(), &map).is_some()
    };
    assert_eq!((map("kube-system"), map("shop")), (false, true));
}
