//! Tests of the CronJob controller.

use serde_json::{Value, json};

use super::{ALL, FakeCluster, workload};

/// A cluster with a CronJob, at midnight.
fn fake_cluster(spec: Value) -> FakeCluster {
    let mut cluster = FakeCluster::new(&ALL);
    let job = workload("batch/v1", "Job", json!({}));
    let mut cron = workload(
        "batch/v1",
        "CronJob",
        json!({"jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": job["spec"]["template"]}}}),
    );
    for key in ["selector", "template"] {
        cron["spec"].as_object_mut().unwrap().remove(key);
    }
    for (key, value) in spec.as_object().unwrap() {
        cron["spec"][key] = value.clone();
    }
    cluster.put(cron);
    cluster
}

fn finish(cluster: &mut FakeCluster, phase: &str) {
    let pods = cluster.names("Pod");
    for pod in pods {
        if cluster.get("Pod", &pod)["status"]["phase"] == "Pending" {
            cluster.finish_pod(&pod, phase);
        }
    }
    cluster.wait(3);
}

/// Minutes since 1970 at the start.
const START: i64 = super::START / super::SECOND / 60;

#[test]
fn a_job_is_started_at_each_time() {
    let mut cluster = fake_cluster(json!({"schedule": "*/5 * * * *"}));
    assert_eq!(cluster.names("Job").len(), 0);
    cluster.wait(299);
    assert_eq!(cluster.names("Job").len(), 0);
    cluster.wait(2);
    assert_eq!(cluster.names("Job"), [format!("w-{}", START + 5)]);
    let job = cluster.all("Job")[0];
    assert_eq!(
        job["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2026-11-15T00:05:00Z"
    );
    assert_eq!(job["metadata"]["labels"], json!({"a": "b"}));
    assert_eq!(job["spec"]["backoffLimit"], 6);
    assert_eq!(cluster.all("Pod")[0]["metadata"]["labels"]["job-name"], format!("w-{}", START + 5));
    let status = &cluster.get("CronJob", "w")["status"];
    assert_eq!(
        (&status["lastScheduleTime"], status["active"].as_array().map(Vec::len)),
        (&json!("2026-11-15T00:05:00Z"), Some(1))
    );
    finish(&mut cluster, "Succeeded");
    let status = &cluster.get("CronJob", "w")["status"];
    // The Job is synced a second after its pod was created, 100 ms after the full minute.
    assert_eq!(
        (&status["active"], &status["lastSuccessfulTime"]),
        (&Value::Null, &json!("2026-11-15T00:05:01Z"))
    );
    cluster.wait(3600);
    assert_eq!(cluster.get("CronJob", "w")["status"]["lastScheduleTime"], "2026-11-15T01:05:00Z");
}

#[test]
fn the_concurrency_policy_forbids_or_replaces_running_jobs() {
    for (policy, running) in [("Allow", 3), ("Forbid", 1), ("Replace", 1)] {
        let mut cluster = fake_cluster(json!({"schedule": "* * * * *", "concurrencyPolicy": policy}));
        cluster.wait(185);
        assert_eq!(cluster.names("Job").len(), running, "{policy}");
        let last = if policy == "Forbid" { 1 } else { 3 };
        assert_eq!(cluster.names("Job").last(), Some(&format!("w-{}", START + last)), "{policy}");
    }
}

#[test]
fn finished_jobs_are_kept_to_the_history_limits() {
    let mut cluster = fake_cluster(
        json!({"schedule": "* * * * *", "successfulJobsHistoryLimit": 2, "failedJobsHistoryLimit": 0}),
    );
    for _ in 0..4 {
        cluster.wait(60);
        finish(&mut cluster, "Succeeded");
    }
    assert_eq!(cluster.names("Job"), [format!("w-{}", START + 3), format!("w-{}", START + 4)]);
}

#[test]
fn missed_times_start_one_job_unless_past_the_deadline() {
    for (deadline, expected) in [(Value::Null, 1), (json!(30), 0), (json!(90), 1)] {
        let mut cluster = fake_cluster(
            json!({"schedule": "* * * * *", "suspend": true, "startingDeadlineSeconds": deadline}),
        );
        cluster.wait(3600 + 45);
        cluster.change("CronJob", "w", |cron| cron["spec"]["suspend"] = false.into());
        assert_eq!(cluster.names("Job").len(), expected, "{deadline}");
        if expected == 1 {
            assert_eq!(cluster.names("Job"), [format!("w-{}", START + 60)]);
        }
    }
}

#[test]
fn a_changed_schedule_applies_from_its_next_time() {
    let mut cluster = fake_cluster(json!({"schedule": "0 12 * * *"}));
    cluster.wait(3600 + 120);
    cluster.change("CronJob", "w", |cron| cron["spec"]["schedule"] = "*/5 * * * *".into());
    assert_eq!(cluster.names("Job").len(), 0);
    cluster.wait(181);
    assert_eq!(cluster.names("Job"), [format!("w-{}", START + 65)]);
}

#[test]
fn an_unknown_schedule_or_time_zone_is_reported() {
    for spec in [
        json!({"schedule": "now and then"}),
        json!({"schedule": "* * * * *", "timeZone": "Europe/Berlin"}),
        json!({"schedule": "0 0 30 2 *"}),
    ] {
        let mut cluster = fake_cluster(spec);
        cluster.wait(100);
        assert_eq!((cluster.names("Job").len(), cluster.controllers.unsupported().count()), (0, 1));
    }
    let mut cluster = fake_cluster(json!({"schedule": "0 1 * * *", "timeZone": "Etc/GMT-1"}));
    cluster.wait(86_401);
    assert_eq!(cluster.names("Job"), [format!("w-{}", START + 1440)]);
}

#[test]
fn the_scheduled_timestamp_has_the_cron_jobs_time_zone() {
    let mut cluster = fake_cluster(json!({"schedule": "5 3 * * *", "timeZone": "Etc/GMT-3"}));
    cluster.wait(301);
    assert_eq!(
        cluster.all("Job")[0]["metadata"]["annotations"]["batch.kubernetes.io/cronjob-scheduled-timestamp"],
        "2026-11-15T03:05:00+03:00"
    );
}

#[test]
fn completions_default_to_one_only_without_parallelism() {
    let started = |spec: Value| {
        let mut template = workload("batch/v1", "Job", spec);
        template["spec"].as_object_mut().unwrap().remove("selector");
        let mut cluster =
            fake_cluster(json!({"schedule": "*/5 * * * *", "jobTemplate": {"spec": template["spec"]}}));
        cluster.wait(301);
        let job = cluster.all("Job")[0];
        (job["spec"]["parallelism"].clone(), job["spec"]["completions"].clone())
    };
    assert_eq!(started(json!({})), (json!(1), json!(1)));
    assert_eq!(started(json!({"parallelism": 1})), (json!(1), Value::Null));
    assert_eq!(started(json!({"parallelism": 3})), (json!(3), Value::Null));
    assert_eq!(started(json!({"completions": 3})), (json!(1), json!(3)));
}
