//! Tables of resource claims and slices (dynamic resource allocation).

use super::field::JsonField;
use super::{AGE, BuiltInPrinter, Column, NAME, name, object_age};

pub(super) static RESOURCE_CLAIM: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("State"), AGE],
    cells: |object, now| vec![name(object), state(object).into(), object_age(object, now)],
};

pub(super) static RESOURCE_SLICE: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::text("Node"), Column::text("Driver"), Column::text("Pool"), AGE],
    cells: |object, now| {
        vec![
            name(object),
            object.at("spec.nodeName").text().into(),
            object.at("spec.driver").text().into(),
            object.at("spec.pool.name").text().into(),
            object_age(object, now),
        ]
    },
};

fn state(claim: JsonField<'_>) -> String {
    let deleted = claim.at("metadata.deletionTimestamp").is_set();
    let allocated = claim.at("status.allocation").is_set();
    let reserved = allocated && claim.at("status.reservedFor").count() > 0;
    let states = [
        (deleted, "deleted"),
        (!deleted && !allocated, "pending"),
        (allocated, "allocated"),
        (reserved, "reserved"),
    ];
    states
        .into_iter()
        .filter(|(applies, _)| *applies)
        .map(|(_, state_name)| state_name)
        .collect::<Vec<_>>()
        .join(",")
}
