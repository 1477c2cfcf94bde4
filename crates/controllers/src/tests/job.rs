//! Jobs.

use serde_json::{Value, json};
use testobjects::pod;

use super::{ALL, Stage, text, workload};

fn stage(spec: Value) -> Stage {
    let mut stage = Stage::new(&ALL);
    stage.put(workload("batch/v1", "Job", spec));
    stage
}

fn status(stage: &Stage, field: &str) -> i64 {
    stage.get("Job", "w")["status"][field].as_i64().unwrap_or(0)
}

fn ends(stage: &Stage) -> Vec<(String, String)> {
    let conditions = stage.get("Job", "w")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let held = conditions.iter().filter(|one| one["status"] == "True");
    held.map(|one| (text(&one["type"]), text(&one["reason"]))).collect()
}

fn pods(stage: &Stage, phase: &str) -> Vec<String> {
    let pods = stage.all("Pod").into_iter().filter(|pod| pod["status"]["phase"] == phase);
    pods.map(|pod| text(&pod["metadata"]["name"])).collect()
}

#[test]
fn so_many_pods_run_at_once_until_enough_have_succeeded() {
    let mut stage = stage(json!({"parallelism": 2, "completions": 3, "backoffLimit": 6}));
    assert_eq!((pods(&stage, "Pending").len(), status(&stage, "active")), (2, 2));
    assert_eq!(stage.all("Pod")[0]["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    for left in [2, 1, 0] {
        let first = pods(&stage, "Pending").remove(0);
        stage.end(&first, "Succeeded");
        stage.wait(1);
        assert_eq!(pods(&stage, "Pending").len(), left);
        assert_eq!(stage.get("Pod", &first)["metadata"].get("finalizers"), None);
    }
    assert_eq!((status(&stage, "succeeded"), status(&stage, "active")), (3, 0));
    assert_eq!(
        ends(&stage),
        [
            ("SuccessCriteriaMet".to_owned(), "CompletionsReached".to_owned()),
            ("Complete".to_owned(), "CompletionsReached".to_owned())
        ]
    );
    assert_eq!(stage.get("Job", "w")["status"]["completionTime"], "2026-11-15T00:00:03Z");
}

#[test]
fn news_of_pods_is_looked_at_a_second_later() {
    let mut stage = stage(json!({"completions": 2, "parallelism": 1}));
    let first = pods(&stage, "Pending").remove(0);
    stage.wait(5);
    stage.end(&first, "Succeeded");
    assert_eq!(status(&stage, "succeeded"), 0);
    assert_eq!(stage.controllers.next_wake(), Some(stage.now.plus_nanos(super::SECOND)));
    stage.wait(1);
    assert_eq!(status(&stage, "succeeded"), 1);
}

#[test]
fn without_a_number_of_completions_one_success_is_enough() {
    let mut stage = stage(json!({"parallelism": 3}));
    let all = pods(&stage, "Pending");
    stage.end(&all[0], "Succeeded");
    stage.wait(1);
    assert_eq!((all.len(), pods(&stage, "Pending").len(), ends(&stage).len()), (3, 2, 0));
    stage.end(&all[1], "Succeeded");
    stage.end(&all[2], "Succeeded");
    stage.wait(1);
    assert_eq!(ends(&stage).len(), 2);
}

#[test]
fn a_failed_pod_is_replaced_after_ten_seconds_then_twenty() {
    // TestJobBackoff: 10 s, doubled with each failure.
    let mut stage = stage(json!({"completions": 1, "parallelism": 1, "backoffLimit": 6}));
    for wait in [10, 20, 40] {
        let pod = pods(&stage, "Pending").remove(0);
        stage.end(&pod, "Failed");
        stage.wait(wait - 1);
        assert_eq!(pods(&stage, "Pending").len(), 0, "before {wait} seconds");
        stage.wait(1);
        assert_eq!(pods(&stage, "Pending").len(), 1, "after {wait} seconds");
    }
    assert_eq!((status(&stage, "failed"), status(&stage, "active")), (3, 1));
}

#[test]
fn a_job_fails_with_one_failure_more_than_its_limit() {
    let mut stage = stage(json!({"completions": 3, "parallelism": 2, "backoffLimit": 0}));
    stage.is_graceful = true;
    let all = pods(&stage, "Pending");
    stage.end(&all[0], "Failed");
    stage.wait(1);
    assert_eq!(ends(&stage), [("FailureTarget".to_owned(), "BackoffLimitExceeded".to_owned())]);
    assert!(!stage.get("Pod", &all[1])["metadata"]["deletionTimestamp"].is_null());
    // It is over when the last pod is.
    stage.wait(2);
    assert_eq!(ends(&stage).len(), 1);
    stage.remove("Pod", &all[1]);
    stage.wait(1);
    assert_eq!(ends(&stage).last().map(|end| &*end.0), Some("Failed"));
    assert_eq!((status(&stage, "failed"), status(&stage, "active")), (2, 0));
}

#[test]
fn containers_that_are_started_again_count_against_the_limit() {
    let mut stage = stage(json!({"backoffLimit": 2, "template": {"metadata": {"labels": {"app": "w"}},
        "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c"}]}}}));
    let pod = pods(&stage, "Pending").remove(0);
    let restarts =
        |count: i64| json!({"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": count}]});
    stage.change("Pod", &pod, |pod| pod["status"] = restarts(1));
    stage.wait(1);
    assert_eq!(ends(&stage).len(), 0);
    stage.change("Pod", &pod, |pod| pod["status"] = restarts(2));
    stage.wait(3);
    assert_eq!(ends(&stage).last().map(|end| &*end.1), Some("BackoffLimitExceeded"));
}

#[test]
fn indexes_are_run_once_each() {
    let mut stage = stage(json!({"completionMode": "Indexed", "completions": 4, "parallelism": 2}));
    let index = |stage: &Stage| -> Vec<String> {
        let pods = stage.all("Pod").into_iter().filter(|pod| pod["status"]["phase"] == "Pending");
        pods.map(|pod| text(&pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]))
            .collect()
    };
    assert_eq!(index(&stage), ["0", "1"]);
    let pod = stage.all("Pod")[1].clone();
    assert!(text(&pod["metadata"]["name"]).starts_with("w-1-"));
    assert_eq!(pod["spec"]["hostname"], "w-1");
    assert_eq!(pod["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
    stage.end(&text(&pod["metadata"]["name"]), "Succeeded");
    stage.wait(1);
    assert_eq!(index(&stage), ["0", "2"]);
    assert_eq!(stage.get("Job", "w")["status"]["completedIndexes"], "1");
    for _ in 0..3 {
        let first = pods(&stage, "Pending").remove(0);
        stage.end(&first, "Succeeded");
        stage.wait(1);
    }
    assert_eq!(stage.get("Job", "w")["status"]["completedIndexes"], "0-3");
    assert_eq!(ends(&stage).len(), 2);
}

#[test]
fn a_suspended_job_has_no_pods_and_its_deadline_does_not_run() {
    let mut stage =
        stage(json!({"parallelism": 2, "completions": 2, "activeDeadlineSeconds": 30, "suspend": false}));
    stage.change("Job", "w", |job| job["spec"]["suspend"] = true.into());
    assert_eq!((stage.all("Pod").len(), status(&stage, "failed")), (0, 0));
    assert_eq!(ends(&stage), [("Suspended".to_owned(), "JobSuspended".to_owned())]);
    stage.wait(100);
    stage.change("Job", "w", |job| job["spec"]["suspend"] = false.into());
    assert_eq!((stage.all("Pod").len(), ends(&stage).len()), (2, 0));
    stage.wait(29);
    assert_eq!(ends(&stage).len(), 0);
    stage.wait(3);
    assert_eq!(ends(&stage).first().map(|end| &*end.1), Some("DeadlineExceeded"));
}

#[test]
fn a_job_that_is_over_is_deleted_when_its_time_has_come() {
    let mut stage = stage(json!({"ttlSecondsAfterFinished": 20}));
    let pod = pods(&stage, "Pending").remove(0);
    stage.end(&pod, "Succeeded");
    stage.wait(20);
    assert_eq!(stage.names("Job"), ["w"]);
    stage.wait(1);
    assert!(stage.objects.is_empty(), "{:?}", stage.objects.keys());
}

#[test]
fn a_pod_that_goes_uncounted_is_counted_all_the_same() {
    let mut stage = stage(json!({"completions": 2, "parallelism": 1}));
    let pod = pods(&stage, "Pending").remove(0);
    stage.end(&pod, "Succeeded");
    stage.remove("Pod", &pod);
    stage.wait(1);
    assert_eq!((status(&stage, "succeeded"), pods(&stage, "Pending").len()), (1, 1));
    let pod = pods(&stage, "Pending").remove(0);
    stage.remove("Pod", &pod);
    stage.wait(1);
    assert_eq!((status(&stage, "failed"), pods(&stage, "Pending").len()), (1, 0));
}

#[test]
fn a_pod_that_is_deleted_has_failed_once() {
    let mut stage = stage(json!({"completions": 1, "parallelism": 1}));
    let pod = pods(&stage, "Pending").remove(0);
    // Its finalizer keeps it until it is counted; then it is gone at once.
    stage.change("Pod", &pod, |pod| pod["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into());
    assert_eq!(stage.names("Pod"), [pod]);
    stage.wait(1);
    assert_eq!((stage.names("Pod").len(), status(&stage, "failed")), (0, 1));
    stage.wait(12);
    assert_eq!((stage.names("Pod").len(), status(&stage, "failed")), (1, 1));
}

#[test]
fn fewer_at_once_takes_away_pods_that_have_not_failed() {
    let mut stage = stage(json!({"completions": 5, "parallelism": 3}));
    let all = pods(&stage, "Pending");
    stage.run(&all[1]);
    stage.change("Job", "w", |job| job["spec"]["parallelism"] = 1.into());
    stage.wait(1);
    assert_eq!(stage.names("Pod"), [all[1].clone()]);
    assert_eq!((status(&stage, "failed"), status(&stage, "active"), status(&stage, "ready")), (0, 1, 1));
}

#[test]
fn what_is_not_looked_at_is_said() {
    let stage =
        stage(json!({"podFailurePolicy": {"rules": []}, "backoffLimitPerIndex": 1, "successPolicy": {}}));
    assert_eq!(stage.controllers.left_out().count(), 3);
}

#[test]
fn pods_of_a_job_that_is_gone_are_not_remembered() {
    let mut stage = Stage::new(&ALL);
    let pod = pod("p").namespace("shop").owner_with_uid("Job", "w", "gone");
    stage.set(pod.set("metadata.finalizers", json!(["batch.kubernetes.io/job-tracking"])).json());
    stage.remove("Pod", "p");
    let remembered = format!("{:?}", stage.controllers.jobs);
    assert!(remembered.contains("vanished: {}"), "{remembered}");
}
