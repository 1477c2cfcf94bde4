//! CronJobs: Jobs by the clock.

mod schedule;

use std::sync::Arc;

use model::{Moment, NamespacedName, Object};
use serde_json::{Value, json};

use self::schedule::{Schedule, ahead_of_utc};
use super::api::{Active, CronJobSpec, CronJobStatus, JobSpec};
use super::stamp::{Condition, Stamp};
use super::table::{Held, created_now};
use super::world::Thing;
use super::{Context, Controller};

const SECOND: i64 = 1_000_000_000;
/// How long after a time the original looks again, to be safe from clocks that differ.
const LATER: i64 = SECOND / 10;

/// What of the schedule lies between the last time and now.
struct Missed {
    /// When it was last done, or could have been.
    earliest: Moment,
    /// The latest time that was to be.
    latest: Option<Moment>,
    is_any: bool,
}

// === impl CronJobSpec ===

impl CronJobSpec {
    fn schedule(&self) -> Result<Schedule, String> {
        let zone = self.schedule.strip_prefix("TZ=").or_else(|| self.schedule.strip_prefix("CRON_TZ="));
        let (zone, text) = match zone {
            Some(rest) => rest.split_once(' ').unwrap_or((rest, "")),
            None => (&*self.time_zone, &*self.schedule),
        };
        let ahead = ahead_of_utc(zone).ok_or_else(|| format!("the time zone {zone:?} is not known here"))?;
        Schedule::parse(text, ahead)
    }
}

/// When to look at a CronJob next, whatever was missed; `None` if its schedule makes no sense.
pub(super) fn next_time(held: &Held<CronJobSpec>, now: Moment) -> Option<Moment> {
    let schedule = held.spec.schedule().ok()?;
    next_look(held, &held.status, now, &schedule)
}

pub(super) fn sync(context: &mut Context<'_>, held: &Arc<Held<CronJobSpec>>) {
    let mut jobs = context.world.jobs_of(&held.uid);
    let mut status = held.status.clone();
    clean_up(context, held, &mut jobs, &mut status);
    settle(&jobs, &mut status);
    if !held.is_deleted() && !held.spec.suspend {
        match held.spec.schedule() {
            Ok(schedule) => start(context, held, &jobs, &mut status, &schedule),
            Err(why) => context.left_out.add(format!("a CronJob starts nothing: {why}")),
        }
    }
    if status != held.status {
        context.update(held.with_status(&status));
    }
}

/// Deletes Jobs that are over, beyond the number that is kept of them: the oldest first.
fn clean_up(
    context: &mut Context<'_>,
    held: &Held<CronJobSpec>,
    jobs: &mut Vec<Arc<Held<JobSpec>>>,
    status: &mut CronJobStatus,
) {
    let spec = &held.spec;
    let limits =
        [("Complete", spec.successful_jobs_history_limit, 3), ("Failed", spec.failed_jobs_history_limit, 1)];
    for (kind, limit, default) in limits {
        let is_over = |job: &&Arc<Held<JobSpec>>| end_of(job) == Some(kind);
        let mut over: Vec<_> = jobs.iter().filter(is_over).cloned().collect();
        over.sort_by(|a, b| {
            let start = |job: &Held<JobSpec>| job.status.start_time;
            (start(a).is_none(), start(a), &a.name.name).cmp(&(start(b).is_none(), start(b), &b.name.name))
        });
        let kept = usize::try_from(limit.unwrap_or(default)).unwrap_or(0);
        over.truncate(over.len().saturating_sub(kept));
        for job in &over {
            if !job.is_deleted() {
                context.delete(Thing::Job, &job.name, &job.uid);
            }
            status.active.retain(|active| *active.uid != *job.uid);
        }
        jobs.retain(|job| !over.iter().any(|gone| Arc::ptr_eq(gone, job)));
    }
}

/// Forgets Jobs that are over or gone.
fn settle(jobs: &[Arc<Held<JobSpec>>], status: &mut CronJobStatus) {
    for job in jobs.iter().filter(|job| end_of(job) == Some("Complete")) {
        status.last_successful_time = status.last_successful_time.max(job.status.completion_time);
    }
    let runs = |active: &Active| jobs.iter().any(|job| *job.uid == *active.uid && end_of(job).is_none());
    status.active.retain(runs);
}

/// Starts a Job, if it is time.
fn start(
    context: &mut Context<'_>,
    held: &Held<CronJobSpec>,
    jobs: &[Arc<Held<JobSpec>>],
    status: &mut CronJobStatus,
    schedule: &Schedule,
) {
    let now = context.now;
    let Some(missed) = missed(held, status, now, schedule, true) else {
        context.left_out.add("a CronJob starts nothing: its schedule never comes".to_owned());
        return;
    };
    if let Some(time) = missed.latest.filter(|time| *time <= now) {
        let deadline = held.spec.starting_deadline_seconds;
        let is_late = deadline.is_some_and(|seconds| Stamp(time).plus_seconds(seconds) < now);
        let name = format!("{}-{}", held.name.name, time.nanos().div_euclid(60 * SECOND));
        let is_done = status.active.iter().any(|active| active.name == name)
            || status.last_schedule_time == Some(Stamp(time));
        let policy = held.spec.concurrency_policy.as_deref().unwrap_or("Allow");
        if !(is_late || is_done || policy == "Forbid" && !status.active.is_empty()) {
            if policy == "Replace" {
                for active in std::mem::take(&mut status.active) {
                    if let Some(job) = jobs.iter().find(|job| *job.uid == *active.uid) {
                        context.delete(Thing::Job, &job.name, &job.uid);
                    }
                }
            }
            start_job(context, held, status, name, time);
        }
    }
    if let Some(at) = next_look(held, status, now, schedule) {
        context.look_again(at, Controller::CronJob, held.name.clone());
    }
}

fn start_job(
    context: &mut Context<'_>,
    held: &Held<CronJobSpec>,
    status: &mut CronJobStatus,
    name: String,
    time: Moment,
) {
    let namespace = &held.name.namespace;
    let known = NamespacedName { namespace: namespace.clone(), name: (*name).into() };
    let uid = match context.world.jobs.get(&known) {
        Some(job) if job.controller().is_some_and(|owner| owner.uid == held.uid) => job.uid.to_string(),
        // Somebody else's.
        Some(_) => return,
        None => {
            let uid = context.names.uid(context.now);
            context.create(job(context.now, held, &name, &uid, time));
            uid
        }
    };
    status.active.push(Active {
        kind: "Job".to_owned(),
        namespace: namespace.to_string(),
        name,
        uid,
        api_version: "batch/v1".to_owned(),
        resource_version: None,
    });
    status.last_schedule_time = Some(Stamp(time));
}

/// The Job of a time, with what an API server fills in.
fn job(now: Moment, held: &Held<CronJobSpec>, name: &str, uid: &str, time: Moment) -> Object {
    let part = |path: &str| match held.spec.job_template.pointer(path) {
        Some(Value::Object(fields)) => Value::Object(fields.clone()),
        _ => json!({}),
    };
    let (mut annotations, mut spec, labels) =
        (part("/metadata/annotations"), part("/spec"), part("/metadata/labels"));
    // The zone of the spec; one within the schedule does not count here.
    let ahead = ahead_of_utc(&held.spec.time_zone).unwrap_or(0);
    annotations["batch.kubernetes.io/cronjob-scheduled-timestamp"] = by_clock(time, ahead).into();
    // One that says how many run at once, but not how many are to succeed, means any of them.
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
    let labels_of_pods = ["template", "metadata", "labels"].into_iter().fold(&mut spec, child);
    for (key, value) in own {
        labels_of_pods[key] = value.into();
    }
    let metadata = json!({
        "name": name, "namespace": *held.name.namespace, "uid": uid, "generation": 1, "labels": labels,
        "creationTimestamp": created_now(now), "annotations": annotations, "ownerReferences": [held.reference()],
    });
    let job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, "status": {}});
    Object::trusted(job.to_string())
}

/// A moment as a clock shows it that is so many seconds ahead of UTC.
fn by_clock(moment: Moment, ahead: i64) -> String {
    if ahead == 0 {
        return moment.to_string();
    }
    let local = moment.plus_nanos(ahead.saturating_mul(SECOND)).to_string();
    let (sign, minutes) = (if ahead < 0 { '-' } else { '+' }, ahead.abs() / 60);
    format!("{}{sign}{:02}:{:02}", local.trim_end_matches('Z'), minutes / 60, minutes % 60)
}

/// A part of an object, made if it is not there.
fn child<'v>(value: &'v mut Value, key: &str) -> &'v mut Value {
    if !value[key].is_object() {
        value[key] = json!({});
    }
    &mut value[key]
}

/// When to look again.
fn next_look(
    held: &Held<CronJobSpec>,
    status: &CronJobStatus,
    now: Moment,
    schedule: &Schedule,
) -> Option<Moment> {
    let after = match missed(held, status, now, schedule, false) {
        None => now,
        Some(Missed { latest: Some(latest), .. }) => latest,
        Some(Missed { earliest, is_any: false, .. }) => earliest,
        Some(Missed { .. }) => now,
    };
    schedule.next(after).map(|at| at.plus_nanos(LATER))
}

/// What of the schedule lies between the last time and now; `None` if nothing is ever to be.
fn missed(
    held: &Held<CronJobSpec>,
    status: &CronJobStatus,
    now: Moment,
    schedule: &Schedule,
    within_deadline: bool,
) -> Option<Missed> {
    let mut earliest = status.last_schedule_time.map_or(held.created(), |stamp| stamp.0);
    if let Some(seconds) = held.spec.starting_deadline_seconds.filter(|_| within_deadline) {
        earliest = earliest.max(now.plus_nanos(seconds.saturating_mul(-SECOND)));
    }
    let first = schedule.next(earliest)?;
    if now < first {
        return Some(Missed { earliest, latest: None, is_any: false });
    }
    let second = schedule.next(first)?;
    if now < second {
        return Some(Missed { earliest, latest: Some(first), is_any: false });
    }
    // As if all were as far apart as the first two; from there it is gone through.
    let gap = (second.nanos_since(first) / SECOND).max(1);
    let count = now.nanos_since(first) / SECOND / gap + 1;
    let from = first.plus_nanos((count - 2).saturating_mul(gap).saturating_mul(SECOND));
    let mut latest = None;
    let mut next = schedule.next(from);
    while let Some(time) = next.filter(|time| *time <= now) {
        latest = Some(time);
        next = schedule.next(time);
    }
    Some(Missed { earliest, latest, is_any: true })
}

/// How a Job has ended, if it has.
fn end_of(job: &Held<JobSpec>) -> Option<&'static str> {
    ["Complete", "Failed"].into_iter().find(|kind| Condition::is_true(&job.status.conditions, kind))
}
