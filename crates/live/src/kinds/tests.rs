use super::*;

fn served(group: &str, kind: &str, plural: &str, short: &[&str]) -> Served {
    Served {
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

fn server() -> Vec<Served> {
    let built_in = kubernetes::kinds::all();
    let mut all: Vec<Served> = built_in
        .iter()
        .map(|one| Served {
            versions: words(one.versions),
            ..served(one.group, one.kind, one.plural, one.short_names)
        })
        .collect();
    all.push(served("", "Binding", "bindings", &[]));
    all.push(served("karpenter.sh", "NodePool", "nodepools", &[]));
    all.push(served("example.com", "Widget", "widgets", &["wi"]));
    all
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[track_caller]
fn check(choice: KindChoice, expected: &[&str]) {
    let chosen = choice.of(&server()).unwrap();
    assert_eq!(chosen.iter().map(Served::words).collect::<Vec<_>>(), expected);
}

#[test]
fn the_default_set_is_what_the_server_has_of_it() {
    let chosen = KindChoice::default().of(&server()).unwrap();
    let has = |kind: &str| chosen.iter().any(|one| one.kind.to_string() == kind);
    assert!(has("Pod") && has("ConfigMap") && has("NodePool.karpenter.sh") && has("Event.events.k8s.io"));
    assert!(!has("Secret") && !has("Event") && !has("Queue.scheduling.run.ai") && !has("Widget.example.com"));
    // All of the built-in ones, and one of another maker.
    assert_eq!(chosen.len(), 33);
}

#[test]
fn the_default_set_is_named_as_servers_name_it() {
    let all = default_resources();
    let classes = (Kind::new("storage.k8s.io", "StorageClass"), "storageclasses".to_owned());
    assert!(all.contains(&classes));
    // What their makers call the definitions of those that are not built in.
    let foreign = [
        // Built in since 1.35, and not served unless it is asked for.
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
fn words_are_kubectls() {
    let only = |list: &[&str]| KindChoice { only: Some(words(list)), ..KindChoice::default() };
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
        KindChoice { also: words(&["wi"]), skip: words(&["po"]), ..only(&["po", "no"]) },
        &["nodes", "widgets.example.com"],
    );
}

#[test]
fn what_every_word_of_kubectl_means_is_the_same_as_without_a_server() {
    for line in include_str!("../../../../testdata/kubernetes/kinds_words.jsonl").lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let word = line["word"].as_str().unwrap();
        let built_in: Vec<Served> =
            server().into_iter().filter(|one| kubernetes::kinds::of(&one.kind).is_some()).collect();
        let found = candidates(word, &built_in);
        let found = found
            .first()
            .map_or(serde_json::Value::Null, |one| serde_json::json!([*one.kind.group, *one.kind.kind]));
        assert_eq!(found, line["found"], "{word}");
    }
}

#[test]
fn words_for_nothing_are_refused_with_what_is_near() {
    let refused = |choice: KindChoice, because: &str| {
        let error = choice.of(&server()).unwrap_err().to_string();
        assert!(error.contains(because), "{error:?} should say {because:?}");
    };
    let also = |word| KindChoice { also: words(&[word]), ..KindChoice::default() };
    refused(
        also("nodepool5"),
        "nodepool5: the server has nothing of that name; it has nodepools.karpenter.sh",
    );
    refused(also("xyzzy"), "kubectl api-resources");
    refused(also("bindings"), "cannot list and watch");
    refused(KindChoice { skip: words(&["pod5"]), ..KindChoice::default() }, "pods");
    // Of the default set, though this server has none.
    assert!(
        KindChoice { skip: words(&["nodeclaims", "queue.scheduling"]), ..KindChoice::default() }
            .of(&server())
            .is_ok()
    );
}

#[test]
fn words_for_what_has_gone_hide_nothing_of_the_rest() {
    let choice = KindChoice {
        only: Some(words(&["po", "gadgets.example.com"])),
        also: words(&["gizmos", "no"]),
        if_there: vec![Kind::new("example.com", "Widget"), Kind::new("example.com", "Gizmo")],
        skip: words(&["gadgets"]),
    };
    assert!(choice.of(&server()).is_err());
    let chosen = choice.of_those_there(&server()).unwrap();
    assert_eq!(
        chosen.iter().map(Served::words).collect::<Vec<_>>(),
        ["pods", "nodes", "widgets.example.com"]
    );
}

#[test]
fn secrets_are_chosen_by_no_word_and_no_kind() {
    let mut server = server();
    // As another server behind this one may serve them, and by another name.
    server.push(served("gloo.solo.io", "Secret", "secrets", &["sec"]));
    server.push(Served {
        versions: words(&["v2", "v1"]),
        ..served("vault.example.com", "Credential", "secrets", &["cred"])
    });
    // In a group that comes before the core group nothing is hidden.
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
    for word in named {
        let choices = [
            KindChoice { only: Some(words(&["po", word])), ..KindChoice::default() },
            KindChoice { also: words(&[word]), ..KindChoice::default() },
            KindChoice { also: words(&[word]), skip: words(&[word]), ..KindChoice::default() },
        ];
        for choice in choices {
            let error = choice.of(&server).unwrap_err().to_string();
            assert!(error.contains("Secrets are never recorded; leave it out"), "{word}: {error}");
            let later = choice.of_those_there(&server);
            assert!(later.is_ok_and(|kinds| !kinds.iter().any(Served::is_secret)), "{word}");
        }
    }
    for kind in [Kind::new("", "Secret"), Kind::new("gloo.solo.io", "Secret"), Kind::new("none", "secret")] {
        let choice = KindChoice { if_there: vec![kind], ..KindChoice::default() };
        assert!(choice.check().is_err() && choice.of(&server).is_err());
    }
    let credential =
        KindChoice { if_there: vec![Kind::new("vault.example.com", "Credential")], ..KindChoice::default() };
    assert!(credential.of(&server).is_err());
    // These are words for nothing.
    for word in ["secrets.v1", "v1.Secret", "v1/Secret", "v1.secrets", "core/secrets", "/secrets", " secrets"]
    {
        let choice = KindChoice { also: words(&[word]), ..KindChoice::default() };
        assert!(choice.of(&server).is_err(), "{word}");
    }
    // Whoever leaves them out asks for nothing.
    let chosen = KindChoice { skip: words(&["secrets"]), ..KindChoice::default() }.of(&server).unwrap();
    assert!(!chosen.iter().any(Served::is_secret));
}
