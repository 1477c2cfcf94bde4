//! Tables of Jobs and CronJobs.

use model::Moment;

use super::age::{age_since, human_duration};
use super::field::JsonField;
use super::selectors;
use super::workloads::containers;
use super::{AGE, BuiltInPrinter, Cell, Column, NAME, name, object_age};

pub(super) static JOB: BuiltInPrinter = BuiltInPrinter {
    columns: &[
        NAME,
        Column::text("Status"),
        Column::text("Completions"),
        Column::text("Duration"),
        AGE,
        Column::wide("Containers"),
        Column::wide("Images"),
        Column::wide("Selector"),
    ],
    cells: job,
};

pub(super) static CRON_JOB: BuiltInPrinter = BuiltInPrinter {
    columns: &[
        NAME,
        Column::text("Schedule"),
        Column::text("Timezone"),
        Column::boolean("Suspend"),
        Column::integer("Active"),
        Column::text("Last Schedule"),
        AGE,
        Column::wide("Containers"),
        Column::wide("Images"),
        Column::wide("Selector"),
    ],
    cells: cron_job,
};

fn job(job: JsonField<'_>, now: Moment) -> Vec<Cell> {
    let [names, images] = containers(job.at("spec.template"));
    vec![
        name(job),
        status(job).into(),
        completions(job).into(),
        duration(job, now).into(),
        object_age(job, now),
        names,
        images,
        selectors::shown(job.at("spec.selector")).into(),
    ]
}

fn status(job: JsonField<'_>) -> &'static str {
    // The first condition of a type counts.
    let has = |kind: &str| {
        let mut conditions = job.at("status.conditions").items();
        let found = conditions.find(|condition| condition.at("type").text() == kind);
        found.is_some_and(|condition| condition.at("status").text() == "True")
    };
    let states = [
        (has("Complete"), "Complete"),
        (has("Failed"), "Failed"),
        (job.at("metadata.deletionTimestamp").is_set(), "Terminating"),
        (has("Suspended"), "Suspended"),
        (has("FailureTarget"), "FailureTarget"),
        (has("SuccessCriteriaMet"), "SuccessCriteriaMet"),
    ];
    states.into_iter().find(|(applies, _)| *applies).map_or("Running", |(_, state)| state)
}

fn completions(job: JsonField<'_>) -> String {
    let succeeded = job.at("status.succeeded").int();
    match (job.at("spec.completions").maybe_int(), job.at("spec.parallelism").int()) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(job: JsonField<'_>, now: Moment) -> String {
    match (job.at("status.startTime").time(), job.at("status.completionTime").time()) {
        (Some(start), end) => human_duration(end.unwrap_or(now).nanos_since(start)),
        (None, _) => String::new(),
    }
}

fn cron_job(object: JsonField<'_>, now: Moment) -> Vec<Cell> {
    let job = object.at("spec.jobTemplate.spec");
    let [names, images] = containers(job.at("template"));
    let last = object.at("status.lastScheduleTime");
    let last = if last.is_set() { age_since(last.time(), now) } else { "<none>".to_owned() };
    vec![
        name(object),
        object.at("spec.schedule").text().into(),
        object.at("spec.timeZone").maybe_text().unwrap_or("<none>").into(),
        if object.at("spec.suspend").is_true() { "True" } else { "False" }.into(),
        object.at("status.active").count().into(),
        last.into(),
        object_age(object, now),
        names,
        images,
        selectors::shown(job.at("selector")).into(),
    ]
}
