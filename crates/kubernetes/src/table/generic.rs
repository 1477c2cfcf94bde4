//! Kinds of which nothing is shown but the name and a time.

use jiff::Timestamp;

use super::field::Field;
use super::{AGE, BuiltIn, Column, Holds, NAME, name, object_age};

pub(super) static NAME_AND_AGE: BuiltIn =
    BuiltIn { columns: &[NAME, AGE], cells: |object, now| vec![name(object), object_age(object, now)] };

/// What an API server shows of a kind for which nobody wrote columns.
pub(super) static NAME_AND_CREATION: BuiltIn = BuiltIn {
    columns: &[NAME, Column::new("Created At", Holds::Date, "", 0)],
    cells: |object, _| vec![name(object), creation(object).into()],
};

/// In whole seconds, as Kubernetes stores it.
fn creation(object: Field<'_>) -> String {
    match object.at("metadata.creationTimestamp").timestamp() {
        Some(time) => Timestamp::from_second(time.as_second()).unwrap_or(time).to_string(),
        None => "0001-01-01T00:00:00Z".to_owned(),
    }
}
