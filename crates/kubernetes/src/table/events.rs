//! Tables of Events, of the core group and of `events.k8s.io`: both are shown alike.

use model::Moment;

use super::age::age_since;
use super::field::JsonField;
use super::{BuiltInPrinter, Cell, Column, ColumnType, name};

pub(super) static CORE_EVENT: BuiltInPrinter = BuiltInPrinter {
    columns: COLUMNS,
    cells: |event, now| {
        let names = EventFieldNames {
            involved_object: "involvedObject",
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

pub(super) static EVENT: BuiltInPrinter = BuiltInPrinter {
    columns: COLUMNS,
    cells: |event, now| {
        let names = EventFieldNames {
            involved_object: "regarding",
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
    Column::new("Name", ColumnType::Text, "name", 1),
];

/// The field names of one of the two Event kinds.
struct EventFieldNames {
    involved_object: &'static str,
    message: &'static str,
    first: &'static str,
    last: &'static str,
    count: &'static str,
    source: &'static str,
    controller: &'static str,
}

fn cells(event: JsonField<'_>, names: &EventFieldNames, now: Moment) -> Vec<Cell> {
    let first = event.at(names.first).time().or_else(|| event.at("eventTime").time());
    let series = event.at("series");
    let (last, count) = if series.is_set() {
        (series.at("lastObservedTime").time(), series.at("count").int())
    } else {
        // An event that occurred once has count one, although `events.k8s.io` omits it.
        let count = event.at(names.count).maybe_int().filter(|count| *count != 0);
        (event.at(names.last).time().or(first), count.unwrap_or(1))
    };
    let about = event.at(names.involved_object);
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
        age_since(last, now).into(),
        event.at("type").text().into(),
        event.at("reason").text().into(),
        object.into(),
        about.at("fieldPath").text().into(),
        source.into(),
        event.at(names.message).text().trim().into(),
        age_since(first, now).into(),
        count.into(),
        name(event),
    ]
}
