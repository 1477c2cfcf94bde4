//! Jobs and what starts them.

use model::Moment;

use super::age::{human, since};
use super::field::Field;
use super::selectors;
use super::workloads::containers;
use super::{AGE, BuiltIn, Cell, Column, NAME, name, object_age};

pub(super) static JOB: BuiltIn = BuiltIn {
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

pub(super) static CRON_JOB: BuiltIn = BuiltIn {
    columns: &[
        NAME,
        Column::text("Schedule"),
        Column::text("Timezone"),
        Column::truth("Suspend"),
        Column::integer("Active"),
        Column::text("Last Schedule"),
        AGE,
        Column::wide("Containers"),
        Column::wide("Images"),
        Column::wide("Selector"),
    ],
    cells: cron_job,
};

fn job(job: Field<'_>, now: Moment) -> Vec<Cell> {
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

fn status(job: Field<'_>) -> &'static str {
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
    states.into_iter().find(|(holds, _)| *holds).map_or("Running", |(_, state)| state)
}

fn completions(job: Field<'_>) -> String {
    let succeeded = job.at("status.succeeded").int();
    match (job.at("spec.completions").maybe_int(), job.at("spec.parallelism").int()) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism @ 2..) => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(job: Field<'_>, now: Moment) -> String {
    match (job.at("status.startTime").time(), job.at("status.completionTime").time()) {
        (Some(start), end) => human(end.unwrap_or(now).nanos_since(start)),
        (None, _) => String::new(),
    }
}

fn cron_job(object: Field<'_>, now: Moment) -> Vec<Cell> {
    let job = object.at("spec.jobTemplate.spec");
    let [names, images] = containers(job.at("template"));
    let last = object.at("status.lastScheduleTime");
    let last = if last.is_set() { since(last.time(), now) } else { "<none>".to_owned() };
    vec![
        name(object),
        object.at("spec.schedule").text().into(),
        object.at("spec.timeZone").maybe_text().unwrap_or("<none>").into(),
        if object.at("spec.suspend").truth() { "True" } else { "False" }.into(),
        object.at("status.active").count().into(),
        last.into(),
        object_age(object, now),
        names,
        images,
        selectors::shown(job.at("selector")).into(),
    ]
}
