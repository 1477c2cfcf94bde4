//! StatefulSets. The orders are those that the original's tests hold it to.

use serde_json::{Value, json};

use super::{ALL, Stage, text, workload};

fn stage(spec: Value) -> Stage {
    let mut stage = Stage::new(&ALL);
    stage.put(workload("apps/v1", "StatefulSet", spec));
    stage
}

fn scale(stage: &mut Stage, replicas: i64) {
    stage.change("StatefulSet", "w", |set| set["spec"]["replicas"] = replicas.into());
}

fn image(stage: &mut Stage, image: &str) {
    stage.change("StatefulSet", "w", |set| {
        set["spec"]["template"]["spec"]["containers"][0]["image"] = image.into()
    });
}

fn images(stage: &Stage) -> Vec<String> {
    stage.all("Pod").iter().map(|pod| text(&pod["spec"]["containers"][0]["image"])).collect()
}

fn status(stage: &Stage, field: &str) -> i64 {
    stage.get("StatefulSet", "w")["status"][field].as_i64().unwrap_or(0)
}

#[test]
fn pods_come_one_after_the_other_and_go_the_other_way_round() {
    let mut stage = stage(json!({"replicas": 3, "serviceName": "s"}));
    for index in 0..3 {
        assert_eq!(stage.names("Pod").len(), index + 1);
        let pod = stage.get("Pod", &format!("w-{index}"));
        assert_eq!(
            (&pod["spec"]["hostname"], &pod["spec"]["subdomain"]),
            (&json!(format!("w-{index}")), &json!("s"))
        );
        assert_eq!(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"], index.to_string());
        stage.run(&format!("w-{index}"));
    }
    assert_eq!((status(&stage, "readyReplicas"), status(&stage, "currentReplicas")), (3, 3));
    stage.is_graceful = true;
    scale(&mut stage, 1);
    let is_going =
        |stage: &Stage, pod: &str| !stage.get("Pod", pod)["metadata"]["deletionTimestamp"].is_null();
    assert!(is_going(&stage, "w-2") && !is_going(&stage, "w-1"));
    stage.remove("Pod", "w-2");
    assert!(is_going(&stage, "w-1"));
    stage.remove("Pod", "w-1");
    assert_eq!(stage.names("Pod"), ["w-0"]);
}

#[test]
fn in_parallel_all_come_and_go_at_once() {
    let mut stage =
        stage(json!({"replicas": 4, "podManagementPolicy": "Parallel", "ordinals": {"start": 5}}));
    assert_eq!(stage.names("Pod"), ["w-5", "w-6", "w-7", "w-8"]);
    scale(&mut stage, 1);
    assert_eq!(stage.names("Pod"), ["w-5"]);
}

#[test]
fn a_pod_that_ended_is_made_anew_under_its_name() {
    let mut stage = stage(json!({"replicas": 2}));
    stage.run_all();
    let uid = stage.get("Pod", "w-0")["metadata"]["uid"].clone();
    stage.end("w-0", "Failed");
    assert_ne!(stage.get("Pod", "w-0")["metadata"]["uid"], uid);
    assert_eq!(stage.get("Pod", "w-0")["status"]["phase"], "Pending");
}

#[test]
fn an_update_begins_at_the_highest_number_and_waits_for_each() {
    let mut stage = stage(json!({"replicas": 3}));
    stage.run_all();
    image(&mut stage, "i:2");
    assert_eq!(images(&stage), ["i:1", "i:1", "i:2"]);
    assert_eq!(status(&stage, "updatedReplicas"), 1);
    stage.run("w-2");
    assert_eq!(images(&stage), ["i:1", "i:2", "i:2"]);
    stage.run_all();
    assert_eq!(images(&stage), ["i:2", "i:2", "i:2"]);
    let set = stage.get("StatefulSet", "w");
    assert_eq!(set["status"]["currentRevision"], set["status"]["updateRevision"]);
    assert_eq!(
        stage.get("Pod", "w-0")["metadata"]["labels"]["controller-revision-hash"],
        set["status"]["updateRevision"]
    );
}

#[test]
fn below_the_partition_the_older_template_holds() {
    let mut stage = stage(
        json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}),
    );
    stage.run_all();
    image(&mut stage, "i:2");
    stage.run_all();
    assert_eq!(images(&stage), ["i:1", "i:1", "i:2"]);
    stage.remove("Pod", "w-0");
    stage.run_all();
    assert_eq!(images(&stage), ["i:1", "i:1", "i:2"]);
    assert_eq!((status(&stage, "currentReplicas"), status(&stage, "updatedReplicas")), (2, 1));
}

#[test]
fn on_delete_only_what_is_deleted_is_made_anew() {
    let mut stage = stage(json!({"replicas": 2, "updateStrategy": {"type": "OnDelete"}}));
    stage.run_all();
    image(&mut stage, "i:2");
    assert_eq!(images(&stage), ["i:1", "i:1"]);
    stage.remove("Pod", "w-0");
    assert_eq!(images(&stage), ["i:2", "i:1"]);
}

#[test]
fn claims_are_made_with_the_pods_and_stay() {
    let claim =
        json!({"metadata": {"name": "data"}, "spec": {"resources": {"requests": {"storage": "1Gi"}}}});
    let mut stage = stage(json!({"replicas": 2, "volumeClaimTemplates": [claim]}));
    stage.run_all();
    assert_eq!(stage.names("PersistentVolumeClaim"), ["data-w-0", "data-w-1"]);
    assert_eq!(
        stage.get("Pod", "w-1")["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"],
        "data-w-1"
    );
    scale(&mut stage, 1);
    scale(&mut stage, 2);
    assert_eq!(stage.names("PersistentVolumeClaim").len(), 2);
}

#[test]
fn revisions_that_no_pod_has_are_kept_to_a_limit() {
    let mut stage = stage(json!({"replicas": 1, "revisionHistoryLimit": 1}));
    for version in 2..6 {
        stage.run_all();
        image(&mut stage, &format!("i:{version}"));
    }
    stage.run_all();
    let mut numbers: Vec<_> =
        stage.all("ControllerRevision").iter().map(|one| one["revision"].as_i64()).collect();
    numbers.sort();
    assert_eq!(numbers, [Some(4), Some(5)]);
}

#[test]
fn a_set_that_was_there_before_keeps_the_name_of_its_revision() {
    let mut set = workload("apps/v1", "StatefulSet", json!({"replicas": 1}));
    set["status"] = json!({"observedGeneration": 1, "replicas": 0, "currentRevision": "w-abc", "updateRevision": "w-abc"});
    let mut stage = Stage::new(&ALL);
    stage.put(set);
    assert_eq!(stage.names("ControllerRevision"), ["w-abc"]);
    assert_eq!(stage.get("Pod", "w-0")["metadata"]["labels"]["controller-revision-hash"], "w-abc");
}
