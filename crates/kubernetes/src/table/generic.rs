//! Tables of kinds that are shown with name and time only.

use jiff::Timestamp;

use super::field::JsonField;
use super::{AGE, BuiltInPrinter, Column, ColumnType, NAME, name, object_age};

pub(super) static NAME_AND_AGE: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, AGE],
    cells: |object, now| vec![name(object), object_age(object, now)],
};

/// The default columns of an API server, for kinds without a table convertor.
pub(super) static NAME_AND_CREATION: BuiltInPrinter = BuiltInPrinter {
    columns: &[NAME, Column::new("Created At", ColumnType::Date, "", 0)],
    cells: |object, _| vec![name(object), creation(object).into()],
};

/// In whole seconds, as Kubernetes stores it.
fn creation(object: JsonField<'_>) -> String {
    match object.at("metadata.creationTimestamp").timestamp() {
        Some(time) => Timestamp::from_second(time.as_second()).unwrap_or(time).to_string(),
        None => "0001-01-01T00:00:00Z".to_owned(),
    }
}
