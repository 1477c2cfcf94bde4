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
    assert_eq!(chosen.len(), 32);
}

#[test]
fn the_default_set_is_named_as_servers_name_it() {
    let all = default_resources();
    assert_eq!(all.len(), DEFAULT.len());
    let classes = (Kind::new("storage.k8s.io", "StorageClass"), "storageclasses".to_owned());
    assert!(all.contains(&classes));
    // What their makers call the definitions of those that are not built in.
    let foreign = [
        "nodepools.karpenter.sh",
        "nodeclaims.karpenter.sh",
        "machinedeployments.machine.sapcloud.io",
        "machineclasses.machine.sapcloud.io",
        "workers.extensions.gardener.cloud",
        "queues.scheduling.run.ai",
        "podgroups.scheduling.run.ai",
        "bindrequests.scheduling.run.ai",
        "topologies.kai.scheduler",
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
    refused(also("secrets"), "never recorded");
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
