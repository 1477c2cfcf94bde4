//! The CronJob controller.

mod schedule;

use std::sync::Arc;

use model::{Moment, NamespacedName, Object};
use serde_json::{Value, json};

use self::schedule::{Schedule, utc_offset_of_zone};
use super::api::{CronJobSpec, CronJobStatus, JobSpec, ObjectReference};
use super::informer_cache::OwnershipKind;
use super::k8s_time::{Condition, K8sTime};
use super::object_table::{CachedObject, creation_timestamp};
use super::{Controller, EventText, SyncContext};

const SECOND: i64 = 1_000_000_000;
/// How long after a scheduled time the original syncs, to be safe from clock skew.
const NEXT_SCHEDULE_DELTA: i64 = SECOND / 10;

/// The scheduled times between the last one handled and now.
struct MissedSchedules {
    /// The last schedule time, the creation, or the start of the deadline window.
    earliest: Moment,
    /// The most recent scheduled time.
    most_recent: Option<Moment>,
    are_many: bool,
}

// === impl CronJobSpec ===

impl CronJobSpec {
    fn parse_schedule(&self) -> Result<Schedule, String> {
        let zone = self.schedule.strip_prefix("TZ=").or_else(|| self.schedule.strip_prefix("CRON_TZ="));
        let (zone, text) = match zone {
            Some(rest) => rest.split_once(' ').unwrap_or((rest, "")),
            None => (&*self.time_zone, &*self.schedule),
        };
        let utc_offset = utc_offset_of_zone(zone).ok_or_else(|| format!("unknown time zone {zone:?}"))?;
        Schedule::parse(text, utc_offset)
    }
}

/// When to sync a CronJob next, regardless of missed times; `None` if its schedule is invalid.
pub(super) fn next_sync_after_schedule_change(
    cron_job: &CachedObject<CronJobSpec>,
    now: Moment,
) -> Option<Moment> {
    let schedule = cron_job.spec.parse_schedule().ok()?;
    next_sync_time(cron_job, &cron_job.status, now, &schedule)
}

pub(super) fn sync(context: &mut SyncContext<'_>, cron_job: &Arc<CachedObject<CronJobSpec>>) {
    let mut jobs = context.cache.jobs_of(&cron_job.uid);
    let mut status = cron_job.status.clone();
    clean_up_finished_jobs(context, cron_job, &mut jobs, &mut status);
    update_active_jobs(context, cron_job, &jobs, &mut status);
    if !cron_job.is_deleting() && !cron_job.spec.suspend {
        match cron_job.spec.parse_schedule() {
            Ok(schedule) => start_job_if_due(context, cron_job, &jobs, &mut status, &schedule),
            Err(error) => {
                context.unsupported.add(format!("CronJob not run: {error}"));
                let message = format!("unparseable schedule: {:?} : {error}", cron_job.spec.schedule);
                context.report(cron_job, EventText::warning("UnparseableSchedule", message));
            }
        }
    }
    if status != cron_job.status {
        context.update(cron_job.with_status(&status));
    }
}

/// Deletes the oldest finished Jobs beyond the history limits.
fn clean_up_finished_jobs(
    context: &mut SyncContext<'_>,
    cron_job: &CachedObject<CronJobSpec>,
    jobs: &mut Vec<Arc<CachedObject<JobSpec>>>,
    status: &mut CronJobStatus,
) {
    let spec = &cron_job.spec;
    let limits =
        [("Complete", spec.successful_jobs_history_limit, 3), ("Failed", spec.failed_jobs_history_limit, 1)];
    for (kind, limit, default) in limits {
        let is_finished = |job: &&Arc<CachedObject<JobSpec>>| finished_condition(job) == Some(kind);
        let mut finished_jobs: Vec<_> = jobs.iter().filter(is_finished).cloned().collect();
        finished_jobs.sort_by(|a, b| {
            let start = |job: &CachedObject<JobSpec>| job.status.start_time;
            (start(a).is_none(), start(a), &a.name.name).cmp(&(start(b).is_none(), start(b), &b.name.name))
        });
        let history_limit = usize::try_from(limit.unwrap_or(default)).unwrap_or(0);
        finished_jobs.truncate(finished_jobs.len().saturating_sub(history_limit));
        for job in &finished_jobs {
            if !job.is_deleting() {
                delete_job(context, cron_job, job);
            }
            status.active.retain(|active| *active.uid != *job.uid);
        }
        jobs.retain(|job| !finished_jobs.iter().any(|removed_job| Arc::ptr_eq(removed_job, job)));
    }
}

/// Removes finished and deleted Jobs from the list of active ones.
fn update_active_jobs(
    context: &mut SyncContext<'_>,
    cron_job: &CachedObject<CronJobSpec>,
    jobs: &[Arc<CachedObject<JobSpec>>],
    status: &mut CronJobStatus,
) {
    for active in &status.active {
        let job = jobs.iter().find(|job| *job.uid == *active.uid);
        let text = match job.map(|job| finished_condition(job)) {
            Some(Some(condition)) => EventText::normal(
                "SawCompletedJob",
                format!("Saw completed job: {}, condition: {condition}", active.name),
            ),
            Some(None) => continue,
            None => EventText::normal("MissingJob", format!("Active job went missing: {}", active.name)),
        };
        context.report(cron_job, text);
    }
    for job in jobs.iter().filter(|job| finished_condition(job) == Some("Complete")) {
        status.last_successful_time = status.last_successful_time.max(job.status.completion_time);
    }
    let is_running = |active: &ObjectReference| {
        jobs.iter().any(|job| *job.uid == *active.uid && finished_condition(job).is_none())
    };
    status.active.retain(is_running);
}

/// Starts a Job if one is due.
fn start_job_if_due(
    context: &mut SyncContext<'_>,
    cron_job: &CachedObject<CronJobSpec>,
    jobs: &[Arc<CachedObject<JobSpec>>],
    status: &mut CronJobStatus,
    schedule: &Schedule,
) {
    let now = context.now;
    let Some(missed) = missed_schedules(cron_job, status, now, schedule, true) else {
        context.unsupported.add("CronJob not run: its schedule never matches".to_owned());
        return;
    };
    if let Some(time) = missed.most_recent.filter(|time| *time <= now) {
        let deadline = cron_job.spec.starting_deadline_seconds;
        let is_late = deadline.is_some_and(|seconds| K8sTime(time).plus_seconds(seconds) < now);
        let name = format!("{}-{}", cron_job.name.name, time.nanos().div_euclid(60 * SECOND));
        let is_started = status.active.iter().any(|active| active.name == name)
            || status.last_schedule_time == Some(K8sTime(time));
        let policy = cron_job.spec.concurrency_policy.as_deref().unwrap_or("Allow");
        let is_forbidden = policy == "Forbid" && !status.active.is_empty();
        if is_late {
            let time = time.timestamp().strftime("%a, %d %b %Y %H:%M:%S +0000");
            let message = format!("Missed scheduled time to start a job: {time}");
            context.report(cron_job, EventText::warning("MissSchedule", message));
        } else if !is_started && is_forbidden {
            let message =
                "Not starting job because prior execution is running and concurrency policy is Forbid";
            context.report(cron_job, EventText::normal("JobAlreadyActive", message));
        } else if !is_started {
            if policy == "Replace" {
                for active in std::mem::take(&mut status.active) {
                    if let Some(job) = jobs.iter().find(|job| *job.uid == *active.uid) {
                        delete_job(context, cron_job, job);
                    }
                }
            }
            start_job(context, cron_job, status, name, time);
        }
    }
    if let Some(at) = next_sync_time(cron_job, status, now, schedule) {
        context.enqueue_at(at, Controller::CronJob, cron_job.name.clone());
    }
}

fn delete_job(
    context: &mut SyncContext<'_>,
    cron_job: &CachedObject<CronJobSpec>,
    job: &CachedObject<JobSpec>,
) {
    context.delete(OwnershipKind::Job, &job.name, &job.uid);
    let deleted = EventText::normal("SuccessfulDelete", format!("Deleted job {}", job.name.name));
    context.report_call(cron_job, deleted, Some(EventText::warning("FailedDelete", "Deleted job: ")));
}

fn start_job(
    context: &mut SyncContext<'_>,
    cron_job: &CachedObject<CronJobSpec>,
    status: &mut CronJobStatus,
    name: String,
    time: Moment,
) {
    let namespace = &cron_job.name.namespace;
    let job_name = NamespacedName { namespace: namespace.clone(), name: (*name).into() };
    let uid = match context.cache.jobs.get(&job_name) {
        Some(job) if job.controller().is_some_and(|owner| owner.uid == cron_job.uid) => job.uid.to_string(),
        // It belongs to another owner.
        Some(_) => return,
        None => {
            let uid = context.name_generator.uid(context.now);
            context.create(job_from_template(context.now, cron_job, &name, &uid, time));
            let created = EventText::normal("SuccessfulCreate", format!("Created job {name}"));
            let failed = EventText::warning("FailedCreate", "Error creating job: ");
            context.report_call(cron_job, created, Some(failed));
            uid
        }
    };
    status.active.push(ObjectReference {
        kind: "Job".to_owned(),
        namespace: namespace.to_string(),
        name,
        uid,
        api_version: "batch/v1".to_owned(),
        resource_version: None,
    });
    status.last_schedule_time = Some(K8sTime(time));
}

/// The Job for a scheduled time, with the API server's defaults.
fn job_from_template(
    now: Moment,
    cron_job: &CachedObject<CronJobSpec>,
    name: &str,
    uid: &str,
    time: Moment,
) -> Object {
    let template_field = |path: &str| match cron_job.spec.job_template.pointer(path) {
        Some(Value::Object(fields)) => Value::Object(fields.clone()),
        _ => json!({}),
    };
    let (mut annotations, mut spec, labels) = (
        template_field("/metadata/annotations"),
        template_field("/spec"),
        template_field("/metadata/labels"),
    );
    // The zone of the spec; a zone within the schedule is ignored here.
    let utc_offset = utc_offset_of_zone(&cron_job.spec.time_zone).unwrap_or(0);
    annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] =
        format_with_offset(time, utc_offset).into();
    // With parallelism and no completions, the success of any pod completes the Job.
    if spec.get("parallelism").is_none_or(Value::is_null)
        && spec.get("completions").is_none_or(Value::is_null)
    {
        spec["completions"] = 1.into();
    }
    for (field, value) in [
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ] {
        if spec.get(field).is_none_or(Value::is_null) {
            spec[field] = value;
        }
    }
    let added_annotations = [
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("job-name", name),
    ];
    spec["selector"] = json!({"matchLabels": {added_annotations[0].0: uid}});
    let labels_of_pods = ["template", "metadata", "labels"].into_iter().fold(&mut spec, object_field);
    for (key, value) in added_annotations {
        labels_of_pods[key] = value.into();
    }
    let metadata = json!({
        "name": name, "namespace": *cron_job.name.namespace, "uid": uid, "generation": 1, "labels": labels,
        "creationTimestamp": creation_timestamp(now), "annotations": annotations, "ownerReferences": [cron_job.controller_reference()],
    });
    let job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, "status": {}});
    Object::from_trusted(job.to_string())
}

/// A moment in RFC 3339 with an offset of so many seconds from UTC.
fn format_with_offset(moment: Moment, utc_offset: i64) -> String {
    if utc_offset == 0 {
        return moment.to_string();
    }
    let local = moment.plus_nanos(utc_offset.saturating_mul(SECOND)).to_string();
    let (sign, minutes) = (if utc_offset < 0 { '-' } else { '+' }, utc_offset.abs() / 60);
    format!("{}{sign}{:02}:{:02}", local.trim_end_matches('Z'), minutes / 60, minutes % 60)
}

/// A field of an object, created if missing.
fn object_field<'v>(value: &'v mut Value, key: &str) -> &'v mut Value {
    if !value[key].is_object() {
        value[key] = json!({});
    }
    &mut value[key]
}

/// When to sync again.
fn next_sync_time(
    cron_job: &CachedObject<CronJobSpec>,
    status: &CronJobStatus,
    now: Moment,
    schedule: &Schedule,
) -> Option<Moment> {
    let after = match missed_schedules(cron_job, status, now, schedule, false) {
        None => now,
        Some(MissedSchedules { most_recent: Some(latest), .. }) => latest,
        Some(MissedSchedules { earliest, are_many: false, .. }) => earliest,
        Some(MissedSchedules { .. }) => now,
    };
    schedule.next(after).map(|at| at.plus_nanos(NEXT_SCHEDULE_DELTA))
}

/// The scheduled times between the last one handled and now; `None` if the schedule has no times.
fn missed_schedules(
    cron_job: &CachedObject<CronJobSpec>,
    status: &CronJobStatus,
    now: Moment,
    schedule: &Schedule,
    within_deadline: bool,
) -> Option<MissedSchedules> {
    let mut earliest =
        status.last_schedule_time.map_or(cron_job.creation_time(), |last_schedule| last_schedule.0);
    if let Some(seconds) = cron_job.spec.starting_deadline_seconds.filter(|_| within_deadline) {
        earliest = earliest.max(now.plus_nanos(seconds.saturating_mul(-SECOND)));
    }
    let first = schedule.next(earliest)?;
    if now < first {
        return Some(MissedSchedules { earliest, most_recent: None, are_many: false });
    }
    let second = schedule.next(first)?;
    if now < second {
        return Some(MissedSchedules { earliest, most_recent: Some(first), are_many: false });
    }
    // Skips ahead as if all times were as far apart as the first two, and continues one by one from there.
    let interval_seconds = (second.nanos_since(first) / SECOND).max(1);
    let count = now.nanos_since(first) / SECOND / interval_seconds + 1;
    let from = first.plus_nanos((count - 2).saturating_mul(interval_seconds).saturating_mul(SECOND));
    let mut latest = None;
    let mut next = schedule.next(from);
    while let Some(time) = next.filter(|time| *time <= now) {
        latest = Some(time);
        next = schedule.next(time);
    }
    Some(MissedSchedules { earliest, most_recent: latest, are_many: true })
}

/// The condition that a finished Job has, if it is finished.
fn finished_condition(job: &CachedObject<JobSpec>) -> Option<&'static str> {
    ["Complete", "Failed"].into_iter().find(|kind| Condition::is_true(&job.status.conditions, kind))
}
