//! Events, in the old form and the new one: both are shown alike.

use model::Moment;

use super::age::since;
use super::field::Field;
use super::{BuiltIn, Cell, Column, Holds, name};

pub(super) static CORE_EVENT: BuiltIn = BuiltIn {
    columns: COLUMNS,
    cells: |event, now| {
        let names = Names {
            about: "involvedObject",
            message: "message",
            first: "firstTimestamp",
            last: "lastTimestamp",
            count: "count",
            source: "source",
            controller: "reportingComponent",
        };
        cells(event, &names, now)
    },
};

pub(super) static EVENT: BuiltIn = BuiltIn {
    columns: COLUMNS,
    cells: |event, now| {
        let names = Names {
            about: "regarding",
            message: "note",
            first: "deprecatedFirstTimestamp",
            last: "deprecatedLastTimestamp",
            count: "deprecatedCount",
            source: "deprecatedSource",
            controller: "reportingController",
        };
        cells(event, &names, now)
    },
};

static COLUMNS: &[Column] = &[
    Column::text("Last Seen"),
    Column::text("Type"),
    Column::text("Reason"),
    Column::text("Object"),
    Column::wide("Subobject"),
    Column::wide("Source"),
    Column::text("Message"),
    Column::wide("First Seen"),
    Column::wide("Count"),
    Column::new("Name", Holds::Text, "name", 1),
];

/// What one form calls its fields.
struct Names {
    about: &'static str,
    message: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
    source: &'static str,
    controller: &'static str,
}

fn cells(event: Field<'_>, names: &Names, now: Moment) -> Vec<Cell> {
    let first = event.at(names.first).time().or_else(|| event.at("eventTime").time());
    let series = event.at("series");
    let (last, count) = if series.is_set() {
        (series.at("lastObservedTime").time(), series.at("count").int())
    } else {
        // An event that happened once counts as one, although the new form does not say so.
        let count = event.at(names.count).maybe_int().filter(|count| *count != 0);
        (event.at(names.last).time().or(first), count.unwrap_or(1))
    };
    let about = event.at(names.about);
    let kind = about.at("kind").text().to_lowercase();
    let object = match about.at("name").text() {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = event.at(names.source);
    let component = source.at("component").text_or(event.at(names.controller).text());
    let source = match source.at("host").text_or(event.at("reportingInstance").text()) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    };
    vec![
        since(last, now).into(),
        event.at("type").text().into(),
        event.at("reason").text().into(),
        object.into(),
        about.at("fieldPath").text().into(),
        source.into(),
        event.at(names.message).text().trim().into(),
        since(first, now).into(),
        count.into(),
        name(event),
    ]
}
