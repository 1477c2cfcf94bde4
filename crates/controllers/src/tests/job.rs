//! Tests of the Job controller.

use serde_json::{Value, json};
use testobjects::pod;

use super::{ALL, FakeCluster, text, workload};

fn fake_cluster(spec: Value) -> FakeCluster {
    let mut cluster = FakeCluster::new(&ALL);
    cluster.put(workload("batch/v1", "Job", spec));
    cluster
}

fn status(cluster: &FakeCluster, field: &str) -> i64 {
    cluster.get("Job", "w")["status"][field].as_i64().unwrap_or(0)
}

fn true_conditions(cluster: &FakeCluster) -> Vec<(String, String)> {
    let conditions = cluster.get("Job", "w")["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let true_conditions = conditions.iter().filter(|one| one["status"] == "True");
    true_conditions.map(|one| (text(&one["type"]), text(&one["reason"]))).collect()
}

fn pods(cluster: &FakeCluster, phase: &str) -> Vec<String> {
    let pods = cluster.all("Pod").into_iter().filter(|pod| pod["status"]["phase"] == phase);
    pods.map(|pod| text(&pod["metadata"]["name"])).collect()
}

#[test]
fn pods_run_in_parallel_until_enough_have_succeeded() {
    let mut cluster = fake_cluster(json!({"parallelism": 2, "completions": 3, "backoffLimit": 6}));
    assert_eq!((pods(&cluster, "Pending").len(), status(&cluster, "active")), (2, 2));
    assert_eq!(cluster.all("Pod")[0]["metadata"]["finalizers"], json!(["batch.kubernetes.io/job-tracking"]));
    for left in [2, 1, 0] {
        let first = pods(&cluster, "Pending").remove(0);
        cluster.finish_pod(&first, "Succeeded");
        cluster.wait(1);
        assert_eq!(pods(&cluster, "Pending").len(), left);
        assert_eq!(cluster.get("Pod", &first)["metadata"].get("finalizers"), None);
    }
    assert_eq!((status(&cluster, "succeeded"), status(&cluster, "active")), (3, 0));
    assert_eq!(
        true_conditions(&cluster),
        [
            ("SuccessCriteriaMet".to_owned(), "CompletionsReached".to_owned()),
            ("Complete".to_owned(), "CompletionsReached".to_owned())
        ]
    );
    assert_eq!(cluster.get("Job", "w")["status"]["completionTime"], "2026-11-15T00:00:03Z");
}

#[test]
fn pod_updates_are_batched_for_a_second() {
    let mut cluster = fake_cluster(json!({"completions": 2, "parallelism": 1}));
    let first = pods(&cluster, "Pending").remove(0);
    cluster.wait(5);
    cluster.finish_pod(&first, "Succeeded");
    assert_eq!(status(&cluster, "succeeded"), 0);
    assert_eq!(cluster.controllers.next_wake(), Some(cluster.now.plus_nanos(super::SECOND)));
    cluster.wait(1);
    assert_eq!(status(&cluster, "succeeded"), 1);
}

#[test]
fn without_a_number_of_completions_one_success_is_enough() {
    let mut cluster = fake_cluster(json!({"parallelism": 3}));
    let all = pods(&cluster, "Pending");
    cluster.finish_pod(&all[0], "Succeeded");
    cluster.wait(1);
    assert_eq!((all.len(), pods(&cluster, "Pending").len(), true_conditions(&cluster).len()), (3, 2, 0));
    cluster.finish_pod(&all[1], "Succeeded");
    cluster.finish_pod(&all[2], "Succeeded");
    cluster.wait(1);
    assert_eq!(true_conditions(&cluster).len(), 2);
}

#[test]
fn a_failed_pod_is_replaced_after_ten_seconds_then_twenty() {
    // TestJobBackoff: 10 s, doubled with each failure.
    let mut cluster = fake_cluster(json!({"completions": 1, "parallelism": 1, "backoffLimit": 6}));
    for wait in [10, 20, 40] {
        let pod = pods(&cluster, "Pending").remove(0);
        cluster.finish_pod(&pod, "Failed");
        cluster.wait(wait - 1);
        assert_eq!(pods(&cluster, "Pending").len(), 0, "before {wait} seconds");
        cluster.wait(1);
        assert_eq!(pods(&cluster, "Pending").len(), 1, "after {wait} seconds");
    }
    assert_eq!((status(&cluster, "failed"), status(&cluster, "active")), (3, 1));
}

#[test]
fn a_job_fails_when_it_exceeds_its_backoff_limit() {
    let mut cluster = fake_cluster(json!({"completions": 3, "parallelism": 2, "backoffLimit": 0}));
    cluster.is_graceful = true;
    let all = pods(&cluster, "Pending");
    cluster.finish_pod(&all[0], "Failed");
    cluster.wait(1);
    assert_eq!(true_conditions(&cluster), [("FailureTarget".to_owned(), "BackoffLimitExceeded".to_owned())]);
    assert!(!cluster.get("Pod", &all[1])["metadata"]["deletionTimestamp"].is_null());
    // It is finished when the last pod is.
    cluster.wait(2);
    assert_eq!(true_conditions(&cluster).len(), 1);
    cluster.remove("Pod", &all[1]);
    cluster.wait(1);
    assert_eq!(true_conditions(&cluster).last().map(|end| &*end.0), Some("Failed"));
    assert_eq!((status(&cluster, "failed"), status(&cluster, "active")), (2, 0));
}

#[test]
fn container_restarts_count_against_the_backoff_limit() {
    let mut cluster =
        fake_cluster(json!({"backoffLimit": 2, "template": {"metadata": {"labels": {"app": "w"}},
        "spec": {"restartPolicy": "OnFailure", "containers": [{"name": "c"}]}}}));
    let pod = pods(&cluster, "Pending").remove(0);
    let restarts =
        |count: i64| json!({"phase": "Running", "containerStatuses": [{"name": "c", "restartCount": count}]});
    cluster.change("Pod", &pod, |pod| pod["status"] = restarts(1));
    cluster.wait(1);
    assert_eq!(true_conditions(&cluster).len(), 0);
    cluster.change("Pod", &pod, |pod| pod["status"] = restarts(2));
    cluster.wait(3);
    assert_eq!(true_conditions(&cluster).last().map(|end| &*end.1), Some("BackoffLimitExceeded"));
}

#[test]
fn indexes_are_run_once_each() {
    let mut cluster = fake_cluster(json!({"completionMode": "Indexed", "completions": 4, "parallelism": 2}));
    let index = |cluster: &FakeCluster| -> Vec<String> {
        let pods = cluster.all("Pod").into_iter().filter(|pod| pod["status"]["phase"] == "Pending");
        pods.map(|pod| text(&pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"]))
            .collect()
    };
    assert_eq!(index(&cluster), ["0", "1"]);
    let pod = cluster.all("Pod")[1].clone();
    assert!(text(&pod["metadata"]["name"]).starts_with("w-1-"));
    assert_eq!(pod["spec"]["hostname"], "w-1");
    assert_eq!(pod["spec"]["containers"][0]["env"][0]["name"], "JOB_COMPLETION_INDEX");
    cluster.finish_pod(&text(&pod["metadata"]["name"]), "Succeeded");
    cluster.wait(1);
    assert_eq!(index(&cluster), ["0", "2"]);
    assert_eq!(cluster.get("Job", "w")["status"]["completedIndexes"], "1");
    for _ in 0..3 {
        let first = pods(&cluster, "Pending").remove(0);
        cluster.finish_pod(&first, "Succeeded");
        cluster.wait(1);
    }
    assert_eq!(cluster.get("Job", "w")["status"]["completedIndexes"], "0-3");
    assert_eq!(true_conditions(&cluster).len(), 2);
}

#[test]
fn a_suspended_job_has_no_pods_and_its_deadline_does_not_run() {
    let mut cluster = fake_cluster(
        json!({"parallelism": 2, "completions": 2, "activeDeadlineSeconds": 30, "suspend": false}),
    );
    cluster.change("Job", "w", |job| job["spec"]["suspend"] = true.into());
    assert_eq!((cluster.all("Pod").len(), status(&cluster, "failed")), (0, 0));
    assert_eq!(true_conditions(&cluster), [("Suspended".to_owned(), "JobSuspended".to_owned())]);
    cluster.wait(100);
    cluster.change("Job", "w", |job| job["spec"]["suspend"] = false.into());
    assert_eq!((cluster.all("Pod").len(), true_conditions(&cluster).len()), (2, 0));
    cluster.wait(29);
    assert_eq!(true_conditions(&cluster).len(), 0);
    cluster.wait(3);
    assert_eq!(true_conditions(&cluster).first().map(|end| &*end.1), Some("DeadlineExceeded"));
}

#[test]
fn a_finished_job_is_deleted_when_its_ttl_expires() {
    let mut cluster = fake_cluster(json!({"ttlSecondsAfterFinished": 20}));
    let pod = pods(&cluster, "Pending").remove(0);
    cluster.finish_pod(&pod, "Succeeded");
    cluster.wait(20);
    assert_eq!(cluster.names("Job"), ["w"]);
    cluster.wait(1);
    assert!(cluster.objects.is_empty(), "{:?}", cluster.objects.keys());
}

#[test]
fn a_pod_removed_before_it_was_counted_is_counted() {
    let mut cluster = fake_cluster(json!({"completions": 2, "parallelism": 1}));
    let pod = pods(&cluster, "Pending").remove(0);
    cluster.finish_pod(&pod, "Succeeded");
    cluster.remove("Pod", &pod);
    cluster.wait(1);
    assert_eq!((status(&cluster, "succeeded"), pods(&cluster, "Pending").len()), (1, 1));
    let pod = pods(&cluster, "Pending").remove(0);
    cluster.remove("Pod", &pod);
    cluster.wait(1);
    assert_eq!((status(&cluster, "failed"), pods(&cluster, "Pending").len()), (1, 0));
}

#[test]
fn a_deleted_pod_counts_as_failed_once() {
    let mut cluster = fake_cluster(json!({"completions": 1, "parallelism": 1}));
    let pod = pods(&cluster, "Pending").remove(0);
    // Its finalizer keeps it until it is counted; then it is gone at once.
    cluster.change("Pod", &pod, |pod| pod["metadata"]["deletionTimestamp"] = "2026-11-15T00:00:00Z".into());
    assert_eq!(cluster.names("Pod"), [pod]);
    cluster.wait(1);
    assert_eq!((cluster.names("Pod").len(), status(&cluster, "failed")), (0, 1));
    cluster.wait(12);
    assert_eq!((cluster.names("Pod").len(), status(&cluster, "failed")), (1, 1));
}

#[test]
fn lower_parallelism_removes_pods_without_counting_them_as_failed() {
    let mut cluster = fake_cluster(json!({"completions": 5, "parallelism": 3}));
    let all = pods(&cluster, "Pending");
    cluster.run_pod(&all[1]);
    cluster.change("Job", "w", |job| job["spec"]["parallelism"] = 1.into());
    cluster.wait(1);
    assert_eq!(cluster.names("Pod"), [all[1].clone()]);
    assert_eq!(
        (status(&cluster, "failed"), status(&cluster, "active"), status(&cluster, "ready")),
        (0, 1, 1)
    );
}

#[test]
fn unsupported_fields_are_reported() {
    let cluster = fake_cluster(
        json!({"podFailurePolicy": {"rules": []}, "backoffLimitPerIndex": 1, "successPolicy": {}}),
    );
    assert_eq!(cluster.controllers.unsupported().count(), 3);
}

#[test]
fn no_state_is_kept_for_pods_of_a_deleted_job() {
    let mut cluster = FakeCluster::new(&ALL);
    let pod = pod("p").namespace("shop").owner_with_uid("Job", "w", "gone");
    cluster.set(pod.set("metadata.finalizers", json!(["batch.kubernetes.io/job-tracking"])).json());
    cluster.remove("Pod", "p");
    let remembered = format!("{:?}", cluster.controllers.jobs);
    assert!(remembered.contains("removed_uncounted: {}"), "{remembered}");
}
