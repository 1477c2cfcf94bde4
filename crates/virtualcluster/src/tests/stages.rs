//! Tests of clusters with Stages.

use super::*;

fn stage(name: &str, kind: &str, spec: Value) -> Value {
    let mut stage = json!({
        "apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "Stage", "metadata": {"name": name},
        "spec": {"resourceRef": {"apiGroup": "v1", "kind": kind}},
    });
    for (field, value) in spec.as_object().unwrap() {
        stage["spec"][field.as_str()] = value.clone();
    }
    stage
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> Value {
    match values {
        [] => json!({"key": key, "operator": operator}),
        values => json!({"key": key, "operator": operator, "values": values}),
    }
}

/// Pods create their containers for two seconds, then run.
fn pod_stages() -> Vec<Value> {
    let created = "{{ $now := Now }}
phase: Pending
conditions:
{{ range .spec.containers }}
- {type: Ready, status: \"False\", message: {{ .name | Quote }}, lastTransitionTime: {{ $now | Quote }}}
{{ end }}
podIP: {{ PodIPWith .spec.nodeName ( or .spec.hostNetwork false ) .metadata.uid .metadata.name .metadata.namespace | Quote }}";
    vec![
        stage(
            "pod-create",
            "Pod",
            json!({
                "selector": {"matchExpressions": [
                    requirement(".metadata.deletionTimestamp", "DoesNotExist", &[]),
                    requirement(".status.podIP", "DoesNotExist", &[]),
                ]},
                "next": {
                    "event": {"type": "Normal", "reason": "Created", "message": "Created container"},
                    "statusTemplate": created,
                },
            }),
        ),
        stage(
            "pod-ready",
            "Pod",
            json!({
                "selector": {"matchExpressions": [
                    requirement(".status.phase", "In", &["Pending"]),
                    requirement(".status.podIP", "Exists", &[]),
                ]},
                "delay": {"durationMilliseconds": 2000},
                "next": {"statusTemplate": "phase: Running\nstartTime: {{ Now | Quote }}"},
            }),
        ),
        stage(
            "pod-delete",
            "Pod",
            json!({
                "selector": {"matchExpressions": [requirement(".metadata.deletionTimestamp", "Exists", &[])]},
                "delay": {"durationMilliseconds": 1000}, "steps": [{"delete": true}],
            }),
        ),
    ]
}

#[test]
fn stages_of_pods_replace_the_built_in_behavior() {
    let cluster = cluster(1);
    for stage in pod_stages() {
        cluster.create(stage).unwrap();
    }
    cluster.create(pod("a", "1")).unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster), ["Pending"]);
    let pods = Kind::new("", "Pod");
    let address = fields(&cluster, &pods, "/status/podIP");
    assert!(address[0].starts_with("10.128."), "{address:?}");
    assert!(fields(&cluster, &Kind::new("", "Event"), "/reason").contains(&"Created".to_owned()));
    // The condition of the scheduler is still there.
    let conditions = fields(&cluster, &pods, "/status/conditions");
    assert!(
        conditions[0].contains("PodScheduled") && conditions[0].contains("\"message\":\"c\""),
        "{conditions:?}"
    );
    let now = cluster.advance(AdvanceTarget::UntilIdle).unwrap();
    assert_eq!(
        (now.to_string(), phases(&cluster)),
        ("2026-11-02T14:20:02Z".to_owned(), vec!["Running".to_owned()])
    );
    assert_eq!(fields(&cluster, &pods, "/status/podIP"), address);
    cluster.registry().delete_object(&pods, &name("a"), &DeleteOptions::default()).unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster).len(), 1);
    cluster.advance(AdvanceTarget::By(Duration::from_secs(1))).unwrap();
    assert!(phases(&cluster).is_empty());
}

#[test]
fn pods_that_exist_take_part_and_without_stages_the_built_in_behavior_returns() {
    let cluster = cluster(1);
    cluster.create(pod("a", "1")).unwrap();
    cluster.settle();
    let fail = json!({
        "selector": {"matchLabels": {"fail": "yes"}}, "next": {"statusTemplate": "phase: Failed"},
    });
    cluster.create(stage("fail", "Pod", fail)).unwrap();
    cluster.create(pod("b", "1")).unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster), ["Running", "Pending"], "no stage starts pods");
    let label = |pod: &mut Value| {
        pod["metadata"]["labels"] = json!({"fail": "yes"});
        true
    };
    cluster.registry().update_object(&Kind::new("", "Pod"), &name("a"), UpdatedPart::Object, label).unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster), ["Failed", "Pending"]);
    let stages = Kind::new("kwok.x-k8s.io", "Stage");
    let fail = NamespacedName::new("", "fail");
    cluster.registry().delete_object(&stages, &fail, &DeleteOptions::default()).unwrap();
    cluster.settle();
    assert_eq!(phases(&cluster), ["Failed", "Running"]);
}

#[test]
fn heartbeats_of_nodes_go_on_and_do_not_keep_a_cluster_busy() {
    let cluster = cluster(1);
    let template = "conditions:\n{{ range NodeConditions }}\n- {type: {{ .type }}, status: {{ .status | Quote }}, \
        lastHeartbeatTime: {{ Now | Quote }}}\n{{ end }}";
    let heartbeat = json!({
        "selector": {"matchExpressions": [requirement(
            ".status.conditions.[] | select( .type == \"Ready\" ) | .status", "In", &["True"],
        )]},
        "delay": {"durationMilliseconds": 20000}, "next": {"statusTemplate": template},
        "immediateNextStage": true,
    });
    cluster.create(stage("node-heartbeat", "Node", heartbeat)).unwrap();
    assert_eq!(cluster.advance(AdvanceTarget::UntilIdle).unwrap().to_string(), START);
    cluster.advance(AdvanceTarget::By(Duration::from_secs(60))).unwrap();
    let nodes = cluster.store().objects(&Kind::new("", "Node"));
    let node = nodes.iter().next().unwrap().value().unwrap();
    let conditions = node["status"]["conditions"].as_array().unwrap();
    assert_eq!(conditions.len(), 5);
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready").unwrap();
    assert_eq!(ready["lastHeartbeatTime"], "2026-11-02T14:21:00Z");
}

#[test]
fn stages_that_are_not_understood_are_refused() {
    let cluster = cluster(1);
    let cel = json!({"selector": {"matchExpressions": [{"cel": {"expression": "true"}}]}});
    let refused = cluster.create(stage("s", "Pod", cel)).unwrap_err();
    let message = refused.to_string();
    assert!(
        message.contains("Stage.kwok.x-k8s.io \"s\" is invalid: spec.selector.matchExpressions[0].cel: CEL"),
        "{message}"
    );
    cluster.create(stage("s", "Pod", json!({}))).unwrap();
    let edit = |stage: &mut Value| {
        stage["spec"]["resourceRef"]["kind"] = "Job".into();
        true
    };
    let name = NamespacedName::new("", "s");
    let kind = Kind::new("kwok.x-k8s.io", "Stage");
    let refused = cluster.registry().update_object(&kind, &name, UpdatedPart::Object, edit).unwrap_err();
    assert!(refused.to_string().contains("stages of v1 Job are not supported"), "{refused}");
}

#[test]
fn a_stage_that_fails_says_so_in_an_event() {
    let cluster = cluster(1);
    let broken = json!({"selector": {}, "next": {"statusTemplate": "a: {{ index .spec.containers 7 }}"}});
    cluster.create(stage("broken", "Pod", broken)).unwrap();
    cluster.create(pod("a", "1")).unwrap();
    cluster.settle();
    let events = cluster.store().objects(&Kind::new("", "Event"));
    let events: Vec<Value> = events.iter().map(|event| event.value().unwrap()).collect();
    let failed = events.iter().find(|event| event["reason"] == "StageFailed").unwrap();
    assert_eq!(failed["message"], "stage broken: index 7 is out of range: there are 1 items");
}

/// Two stages that follow each other, with a delay between them.
fn alternating_stages(kind: &str, milliseconds: u64) -> Vec<Value> {
    let label = |name: &str, from: &str, to: &str| {
        let selector = json!({"matchExpressions": [requirement(".metadata.labels.lamp", "In", &[from])]});
        let template = format!("labels: {{lamp: \"{to}\"}}");
        let patch = json!({"root": "metadata", "template": template, "type": "merge"});
        let delay = json!({"durationMilliseconds": milliseconds});
        stage(name, kind, json!({"selector": selector, "delay": delay, "steps": [{"patch": patch}]}))
    };
    vec![label("switch-off", "on", "off"), label("switch-on", "off", "on")]
}

fn lamp(name: &str) -> Value {
    let mut pod = pod(name, "1");
    pod["metadata"]["labels"] = json!({"lamp": "on"});
    pod
}

fn event_messages(cluster: &VirtualCluster, reason: &str) -> Vec<String> {
    let events = cluster.store().objects(&Kind::new("", "Event"));
    let events = events.iter().map(|event| event.value().unwrap());
    let events = events.filter(|event| event["reason"] == reason);
    events.map(|event| event["message"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_virtual_clock_stays_where_stages_follow_each_other_without_end() {
    let cluster = cluster(1);
    let [off, on] = <[Value; 2]>::try_from(alternating_stages("Pod", 0)).unwrap();
    cluster.create(off).unwrap();
    cluster.create(on.clone()).unwrap();
    cluster.create(lamp("a")).unwrap();
    assert!(!cluster.settle(), "there is always something left to do");
    let expected = "Pod default/a: stages \"switch-off\", \"switch-on\" follow each other without delay and without \
        end: give a stage a delay, or a selector that its result does not match";
    for target in [AdvanceTarget::UntilIdle, AdvanceTarget::By(Duration::from_secs(5))] {
        let refused = cluster.advance(target).unwrap_err();
        assert_eq!(refused.to_string(), format!("the clock stays at {START}: {expected}"));
        assert_eq!(cluster.now().to_string(), START);
    }
    assert_eq!(event_messages(&cluster, "StageFailed"), [expected]);

    // With a delay they may follow each other forever: a clock that moves by a duration arrives.
    let kind = Kind::new("kwok.x-k8s.io", "Stage");
    let delay = |stage: &mut Value| {
        stage["spec"]["delay"] = json!({"durationMilliseconds": 1000});
        true
    };
    let name = NamespacedName::new("", "switch-on");
    cluster.registry().update_object(&kind, &name, UpdatedPart::Object, delay).unwrap();
    let now = cluster.advance(AdvanceTarget::By(Duration::from_secs(5))).unwrap();
    assert_eq!(now.to_string(), "2026-11-02T14:20:05Z");
    assert!(cluster.settle());
}

#[test]
fn an_object_that_goes_ends_its_endless_stages() {
    let cluster = cluster(2);
    for stage in alternating_stages("Node", 0) {
        cluster.create(stage).unwrap();
    }
    let node_kind = Kind::new("", "Node");
    let names = ["node-0", "node-1"].map(|name| NamespacedName::new("", name));
    for name in &names {
        let label = |node: &mut Value| {
            node["metadata"]["labels"]["lamp"] = "on".into();
            true
        };
        cluster.registry().update_object(&node_kind, name, UpdatedPart::Object, label).unwrap();
    }
    let refused = cluster.advance(AdvanceTarget::UntilIdle).unwrap_err().to_string();
    assert!(refused.contains("Node node-0: stages") && refused.contains("1 other objects"), "{refused}");
    cluster.registry().delete_object(&node_kind, &names[0], &DeleteOptions::default()).unwrap();
    let unlabel = |node: &mut Value| {
        node["metadata"]["labels"]["lamp"] = "broken".into();
        true
    };
    cluster.registry().update_object(&node_kind, &names[1], UpdatedPart::Object, unlabel).unwrap();
    assert_eq!(cluster.advance(AdvanceTarget::UntilIdle).unwrap().to_string(), START);
}

#[test]
fn many_writes_at_one_moment_are_no_endless_stages() {
    let cluster = cluster(1);
    // This one plays for every write, and changes nothing.
    let always = json!({"selector": {}, "next": {"statusTemplate": "phase: Running"}});
    cluster.create(stage("always", "Pod", always)).unwrap();
    cluster.create(pod("a", "1")).unwrap();
    for write in 0..300 {
        let edit = |pod: &mut Value| {
            pod["metadata"]["labels"] = json!({"write": write.to_string()});
            true
        };
        cluster
            .registry()
            .update_object(&Kind::new("", "Pod"), &name("a"), UpdatedPart::Object, edit)
            .unwrap();
        assert!(cluster.settle());
    }
    assert_eq!(cluster.advance(AdvanceTarget::UntilIdle).unwrap().to_string(), START);
    assert!(event_messages(&cluster, "StageFailed").is_empty());
}

#[test]
fn on_the_wall_clock_endless_stages_are_postponed() {
    let cluster = VirtualCluster::start(VirtualClusterOptions::default()).unwrap();
    cluster.add_nodes(1, &NodeTemplate::default()).unwrap();
    for stage in alternating_stages("Pod", 0) {
        cluster.create(stage).unwrap();
    }
    cluster.create(lamp("a")).unwrap();
    // It replies, since nothing is left to do until the next one is due.
    assert!(!cluster.settle());
    assert_eq!(event_messages(&cluster, "StageFailed").len(), 1);
}

#[test]
fn a_replica_set_whose_pods_fail_at_once_does_not_stop_the_program() {
    let cluster = cluster(1);
    let fail = json!({
        "selector": {"matchExpressions": [requirement(".status.phase", "In", &["Pending"])]},
        "next": {"statusTemplate": "phase: Failed"},
    });
    cluster.create(stage("fail", "Pod", fail)).unwrap();
    let selector = json!({"matchLabels": {"app": "web"}});
    cluster.create(workload("ReplicaSet", "web", json!({"replicas": 1, "selector": selector}))).unwrap();
    let refused = cluster.advance(AdvanceTarget::UntilIdle).unwrap_err();
    assert!(matches!(refused, AdvanceError::Unsettled { .. }), "{refused}");
}
