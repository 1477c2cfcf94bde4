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
use super::{Controller, SyncContext};

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
        let ahead =
            utc_offset_of_zone(zone).ok_or_else(|| format!("the time zone {zone:?} is not known here"))?;
        Schedule::parse(text, ahead)
    }
}

/// When to sync a CronJob next, regardless of missed times; `None` if its schedule is invalid.
pub(super) fn next_sync_after_schedule_change(
    held: &CachedObject<CronJobSpec>,
    now: Moment,
) -> Option<Moment> {
    let schedule = held.spec.parse_schedule().ok()?;
    next_sync_time(held, &held.status, now, &schedule)
}

pub(super) fn sync(context: &mut SyncContext<'_>, held: &Arc<CachedObject<CronJobSpec>>) {
    let mut jobs = context.cache.jobs_of(&held.uid);
    let mut status = held.status.clone();
    clean_up_finished_jobs(context, held, &mut jobs, &mut status);
    update_active_jobs(&jobs, &mut status);
    if !held.is_deleting() && !held.spec.suspend {
        match held.spec.parse_schedule() {
            Ok(schedule) => start_job_if_due(context, held, &jobs, &mut status, &schedule),
            Err(why) => context.unsupported.add(format!("a CronJob starts nothing: {why}")),
        }
    }
    if status != held.status {
        context.update(held.with_status(&status));
    }
}

/// Deletes the oldest finished Jobs beyond the history limits.
fn clean_up_finished_jobs(
    context: &mut SyncContext<'_>,
    held: &CachedObject<CronJobSpec>,
    jobs: &mut Vec<Arc<CachedObject<JobSpec>>>,
    status: &mut CronJobStatus,
) {
    let spec = &held.spec;
    let limits =
        [("Complete", spec.successful_jobs_history_limit, 3), ("Failed", spec.failed_jobs_history_limit, 1)];
    for (kind, limit, default) in limits {
        let is_over = |job: &&Arc<CachedObject<JobSpec>>| finished_condition(job) == Some(kind);
        let mut over: Vec<_> = jobs.iter().filter(is_over).cloned().collect();
        over.sort_by(|a, b| {
            let start = |job: &CachedObject<JobSpec>| job.status.start_time;
            (start(a).is_none(), start(a), &a.name.name).cmp(&(start(b).is_none(), start(b), &b.name.name))
        });
        let kept = usize::try_from(limit.unwrap_or(default)).unwrap_or(0);
        over.truncate(over.len().saturating_sub(kept));
        for job in &over {
            if !job.is_deleting() {
                context.delete(OwnershipKind::Job, &job.name, &job.uid);
            }
            status.active.retain(|active| *active.uid != *job.uid);
        }
        jobs.retain(|job| !over.iter().any(|gone| Arc::ptr_eq(gone, job)));
    }
}

/// Removes finished and deleted Jobs from the list of active ones.
fn update_active_jobs(jobs: &[Arc<CachedObject<JobSpec>>], status: &mut CronJobStatus) {
    for job in jobs.iter().filter(|job| finished_condition(job) == Some("Complete")) {
        status.last_successful_time = status.last_successful_time.max(job.status.completion_time);
    }
    let runs = |active: &ObjectReference| {
        jobs.iter().any(|job| *job.uid == *active.uid && finished_condition(job).is_none())
    };
    status.active.retain(runs);
}

/// Starts a Job if one is due.
fn start_job_if_due(
    context: &mut SyncContext<'_>,
    held: &CachedObject<CronJobSpec>,
    jobs: &[Arc<CachedObject<JobSpec>>],
    status: &mut CronJobStatus,
    schedule: &Schedule,
) {
    let now = context.now;
    let Some(missed) = missed_schedules(held, status, now, schedule, true) else {
        context.unsupported.add("a CronJob starts nothing: its schedule never comes".to_owned());
        return;
    };
    if let Some(time) = missed.most_recent.filter(|time| *time <= now) {
        let deadline = held.spec.starting_deadline_seconds;
        let is_late = deadline.is_some_and(|seconds| K8sTime(time).plus_seconds(seconds) < now);
        let name = format!("{}-{}", held.name.name, time.nanos().div_euclid(60 * SECOND));
        let is_done = status.active.iter().any(|active| active.name == name)
            || status.last_schedule_time == Some(K8sTime(time));
        let policy = held.spec.concurrency_policy.as_deref().unwrap_or("Allow");
        if !(is_late || is_done || policy == "Forbid" && !status.active.is_empty()) {
            if policy == "Replace" {
                for active in std::mem::take(&mut status.active) {
                    if let Some(job) = jobs.iter().find(|job| *job.uid == *active.uid) {
                        context.delete(OwnershipKind::Job, &job.name, &job.uid);
                    }
                }
            }
            start_job(context, held, status, name, time);
        }
    }
    if let Some(at) = next_sync_time(held, status, now, schedule) {
        context.enqueue_at(at, Controller::CronJob, held.name.clone());
    }
}

fn start_job(
    context: &mut SyncContext<'_>,
    held: &CachedObject<CronJobSpec>,
    status: &mut CronJobStatus,
    name: String,
    time: Moment,
) {
    let namespace = &held.name.namespace;
    let known = NamespacedName { namespace: namespace.clone(), name: (*name).into() };
    let uid = match context.cache.jobs.get(&known) {
        Some(job) if job.controller().is_some_and(|owner| owner.uid == held.uid) => job.uid.to_string(),
        // It belongs to another owner.
        Some(_) => return,
        None => {
            let uid = context.name_generator.uid(context.now);
            context.create(job_from_template(context.now, held, &name, &uid, time));
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
    held: &CachedObject<CronJobSpec>,
    name: &str,
    uid: &str,
    time: Moment,
) -> Object {
    let part = |path: &str| match held.spec.job_template.pointer(path) {
        Some(Value::Object(fields)) => Value::Object(fields.clone()),
        _ => json!({}),
    };
    let (mut annotations, mut spec, labels) =
        (part("/metadata/annotations"), part("/spec"), part("/metadata/labels"));
    // The zone of the spec; a zone within the schedule is ignored here.
    let ahead = utc_offset_of_zone(&held.spec.time_zone).unwrap_or(0);
    annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] = format_with_offset(time, ahead).into();
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
    let own = [
        ("batch.kubernetes.io/controller-uid", uid),
        ("batch.kubernetes.io/job-name", name),
        ("controller-uid", uid),
        ("job-name", name),
    ];
    spec["selector"] = json!({"matchLabels": {own[0].0: uid}});
    let labels_of_pods = ["template", "metadata", "labels"].into_iter().fold(&mut spec, object_field);
    for (key, value) in own {
        labels_of_pods[key] = value.into();
    }
    let metadata = json!({
        "name": name, "namespace": *held.name.namespace, "uid": uid, "generation": 1, "labels": labels,
        "creationTimestamp": creation_timestamp(now), "annotations": annotations, "ownerReferences": [held.controller_reference()],
    });
    let job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, "status": {}});
    Object::from_trusted(job.to_string())
}

/// A moment in RFC 3339 with an offset of so many seconds from UTC.
fn format_with_offset(moment: Moment, ahead: i64) -> String {
    if ahead == 0 {
        return moment.to_string();
    }
    let local = moment.plus_nanos(ahead.saturating_mul(SECOND)).to_string();
    let (sign, minutes) = (if ahead < 0 { '-' } else { '+' }, ahead.abs() / 60);
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
    held: &CachedObject<CronJobSpec>,
    status: &CronJobStatus,
    now: Moment,
    schedule: &Schedule,
) -> Option<Moment> {
    let after = match missed_schedules(held, status, now, schedule, false) {
        None => now,
        Some(MissedSchedules { most_recent: Some(latest), .. }) => latest,
        Some(MissedSchedules { earliest, are_many: false, .. }) => earliest,
        Some(MissedSchedules { .. }) => now,
    };
    schedule.next(after).map(|at| at.plus_nanos(NEXT_SCHEDULE_DELTA))
}

/// The scheduled times between the last one handled and now; `None` if the schedule has no times.
fn missed_schedules(
    held: &CachedObject<CronJobSpec>,
    status: &CronJobStatus,
    now: Moment,
    schedule: &Schedule,
    within_deadline: bool,
) -> Option<MissedSchedules> {
    let mut earliest = status.last_schedule_time.map_or(held.creation_time(), |stamp| stamp.0);
    if let Some(seconds) = held.spec.starting_deadline_seconds.filter(|_| within_deadline) {
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
    let gap = (second.nanos_since(first) / SECOND).max(1);
    let count = now.nanos_since(first) / SECOND / gap + 1;
    let from = first.plus_nanos((count - 2).saturating_mul(gap).saturating_mul(SECOND));
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
