use super::*;

fn served(group: &str, kind: &str, plural: &str, short: &[&str]) -> ServedKind {
    ServedKind {
        kind: Kind::new(group, kind),
        version: "v1".to_owned(),
        versions: vec!["v1".to_owned()],
        plural: plural.to_owned(),
        singular: kind.to_lowercase(),
        short_names: short.iter().map(|name| (*name).to_owned()).collect(),
        is_namespaced: true,
        can_be_watched: kind != "Binding",
        has_status: false,
    }
}

fn server() -> Vec<ServedKind> {
    let built_in = kubernetes::kinds::all();
    let mut all: Vec<ServedKind> = built_in
        .iter()
        .map(|one| ServedKind {
            versions: strings(one.versions),
            ..served(one.group, one.kind, one.plural, one.short_names)
        })
        .collect();
    all.push(served("", "Binding", "bindings", &[]));
    all.push(served("karpenter.sh", "NodePool", "nodepools", &[]));
    all.push(served("example.com", "Widget", "widgets", &["wi"]));
    all
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[track_caller]
fn check(choice: KindChoice, expected: &[&str]) {
    let chosen = choice.select(&server()).unwrap();
    assert_eq!(chosen.iter().map(ServedKind::qualified_name).collect::<Vec<_>>(), expected);
}

#[test]
fn the_default_set_is_limited_to_kinds_that_the_server_has() {
    let chosen = KindChoice::default().select(&server()).unwrap();
    let has = |kind: &str| chosen.iter().any(|one| one.kind.to_string() == kind);
    assert!(has("Pod") && has("ConfigMap") && has("NodePool.karpenter.sh") && has("Event.events.k8s.io"));
    assert!(!has("Secret") && !has("Event") && !has("Queue.scheduling.run.ai") && !has("Widget.example.com"));
    // All built-in kinds, and one custom resource.
    assert_eq!(chosen.len(), 33);
}

#[test]
fn plurals_of_the_default_set_are_those_of_servers() {
    let all = default_resources();
    let classes = (Kind::new("storage.k8s.io", "StorageClass"), "storageclasses".to_owned());
    assert!(all.contains(&classes));
    // The names of the CustomResourceDefinitions of the other kinds.
    let foreign = [
        // Built in since 1.35, and not enabled by default.
        "workloads.scheduling.k8s.io",
        "podgroups.scheduling.k8s.io",
        "verticalpodautoscalers.autoscaling.k8s.io",
        "scaledobjects.keda.sh",
        "scaledjobs.keda.sh",
        "nodepools.karpenter.sh",
        "nodeclaims.karpenter.sh",
        "ec2nodeclasses.karpenter.k8s.aws",
        "aksnodeclasses.karpenter.azure.com",
        "gcenodeclasses.karpenter.k8s.gcp",
        "kwoknodeclasses.karpenter.kwok.sh",
        "machinedeployments.machine.sapcloud.io",
        "machineclasses.machine.sapcloud.io",
        "workers.extensions.gardener.cloud",
        "queues.scheduling.run.ai",
        "podgroups.scheduling.run.ai",
        "bindrequests.scheduling.run.ai",
        "topologies.kai.scheduler",
        "workloads.kueue.x-k8s.io",
        "clusterqueues.kueue.x-k8s.io",
        "localqueues.kueue.x-k8s.io",
        "cohorts.kueue.x-k8s.io",
        "resourceflavors.kueue.x-k8s.io",
        "topologies.kueue.x-k8s.io",
        "admissionchecks.kueue.x-k8s.io",
        "workloadpriorityclasses.kueue.x-k8s.io",
        "podgroups.scheduling.volcano.sh",
        "queues.scheduling.volcano.sh",
        "jobs.batch.volcano.sh",
        "jobsets.jobset.x-k8s.io",
        "leaderworkersets.leaderworkerset.x-k8s.io",
        "noderesourcetopologies.topology.node.k8s.io",
    ];
    let named = all.iter().filter(|(kind, _)| kubernetes::kinds::of(kind).is_none());
    assert_eq!(named.map(|(kind, plural)| format!("{plural}.{}", kind.group)).collect::<Vec<_>>(), foreign);
}

#[test]
fn kinds_are_named_as_in_kubectl() {
    let only = |list: &[&str]| KindChoice { only: Some(strings(list)), ..KindChoice::default() };
    check(
        only(&["po", "deploy", "Node", "widget.example.com", "pods"]),
        &["pods", "deployments.apps", "nodes", "widgets.example.com"],
    );
    check(
        only(&["deployments.v1.apps", "ing.networking"]),
        &["deployments.apps", "ingresses.networking.k8s.io"],
    );
    check(only(&["events"]), &["events.events.k8s.io"]);
    check(
        KindChoice { also: strings(&["wi"]), skip: strings(&["po"]), ..only(&["po", "no"]) },
        &["nodes", "widgets.example.com"],
    );
}

#[test]
fn every_kubectl_name_resolves_as_without_a_server() {
    for line in include_str!("../../../../testdata/kubernetes/kinds_words.jsonl").lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let resource_name = line["word"].as_str().unwrap();
        let built_in: Vec<ServedKind> =
            server().into_iter().filter(|one| kubernetes::kinds::of(&one.kind).is_some()).collect();
        let found = candidates(resource_name, &built_in);
        let found = found
            .first()
            .map_or(serde_json::Value::Null, |one| serde_json::json!([*one.kind.group, *one.kind.kind]));
        assert_eq!(found, line["found"], "{resource_name}");
    }
}

#[test]
fn unknown_names_are_rejected_with_similar_names() {
    let check_error = |choice: KindChoice, message: &str| {
        let error = choice.select(&server()).unwrap_err().to_string();
        assert!(error.contains(message), "{error:?} should contain {message:?}");
    };
    let also = |resource_name| KindChoice { also: strings(&[resource_name]), ..KindChoice::default() };
    check_error(
        also("nodepool5"),
        "nodepool5: the server doesn't have this resource type; similar: nodepools.karpenter.sh",
    );
    check_error(also("xyzzy"), "kubectl api-resources");
    check_error(also("bindings"), "does not support list and watch");
    check_error(KindChoice { skip: strings(&["pod5"]), ..KindChoice::default() }, "pods");
    // Kinds of the default set that this server does not have.
    assert!(
        KindChoice { skip: strings(&["nodeclaims", "queue.scheduling"]), ..KindChoice::default() }
            .select(&server())
            .is_ok()
    );
}

#[test]
fn names_of_removed_kinds_hide_no_other_kinds() {
    let choice = KindChoice {
        only: Some(strings(&["po", "gadgets.example.com"])),
        also: strings(&["gizmos", "no"]),
        if_served: vec![Kind::new("example.com", "Widget"), Kind::new("example.com", "Gizmo")],
        skip: strings(&["gadgets"]),
    };
    assert!(choice.select(&server()).is_err());
    let chosen = choice.select_available(&server()).unwrap();
    assert_eq!(
        chosen.iter().map(ServedKind::qualified_name).collect::<Vec<_>>(),
        ["pods", "nodes", "widgets.example.com"]
    );
}

#[test]
fn secrets_are_selected_by_no_name_and_no_kind() {
    let mut server = server();
    // As an aggregated API server may serve them, under another name.
    server.push(served("gloo.solo.io", "Secret", "secrets", &["sec"]));
    server.push(ServedKind {
        versions: strings(&["v2", "v1"]),
        ..served("vault.example.com", "Credential", "secrets", &["cred"])
    });
    // A group that comes before the core group hides nothing.
    server.insert(0, served("aaa.example.com", "Secret", "secrets", &[]));
    let named = [
        "secrets",
        "secret",
        "Secret",
        "SECRETS",
        "secrets.",
        "secrets.v1.",
        "Secret.v1.",
        "secrets.gloo",
        "secrets.gloo.solo.io",
        "Secret.v1.gloo.solo.io",
        "sec",
        "cred",
        "credential",
        "credential.v2.vault.example.com",
        "secrets.vault.example.com",
        "secrets.aaa.example.com",
    ];
    for resource_name in named {
        let choices = [
            KindChoice { only: Some(strings(&["po", resource_name])), ..KindChoice::default() },
            KindChoice { also: strings(&[resource_name]), ..KindChoice::default() },
            KindChoice {
                also: strings(&[resource_name]),
                skip: strings(&[resource_name]),
                ..KindChoice::default()
            },
        ];
        for choice in choices {
            let error = choice.select(&server).unwrap_err().to_string();
            assert!(error.contains("Secrets are never recorded"), "{resource_name}: {error}");
            let later = choice.select_available(&server);
            assert!(later.is_ok_and(|kinds| !kinds.iter().any(ServedKind::is_secret)), "{resource_name}");
        }
    }
    for kind in [Kind::new("", "Secret"), Kind::new("gloo.solo.io", "Secret"), Kind::new("none", "secret")] {
        let choice = KindChoice { if_served: vec![kind], ..KindChoice::default() };
        assert!(choice.check().is_err() && choice.select(&server).is_err());
    }
    let credential =
        KindChoice { if_served: vec![Kind::new("vault.example.com", "Credential")], ..KindChoice::default() };
    assert!(credential.select(&server).is_err());
    // These names match nothing.
    for resource_name in
        ["secrets.v1", "v1.Secret", "v1/Secret", "v1.secrets", "core/secrets", "/secrets", " secrets"]
    {
        let choice = KindChoice { also: strings(&[resource_name]), ..KindChoice::default() };
        assert!(choice.select(&server).is_err(), "{resource_name}");
    }
    // Excluding Secrets is allowed.
    let chosen = KindChoice { skip: strings(&["secrets"]), ..KindChoice::default() }.select(&server).unwrap();
    assert!(!chosen.iter().any(ServedKind::is_secret));
}
