//! Tables of custom resources, by the columns of their definition.

use std::borrow::Cow;

use model::Moment;
use serde_json::Value;

use super::age::age_since;
use super::field::JsonField;
use super::json_path::{BadPath, JsonPath};
use super::{Cell, CellSource, Column, ColumnType, NAME, TableConvertor};
use crate::go::json::json_text;
use crate::go::text::with_exponent;

/// The type and path of a column.
#[derive(Clone, Debug)]
pub(super) struct CustomColumn {
    column_type: ColumnType,
    path: JsonPath,
}

pub(super) fn layout(crd: JsonField<'_>, version: &str) -> Option<TableConvertor> {
    let version = crd.at("spec.versions").items().find(|entry| entry.at("name").text() == version)?;
    let mut columns = vec![NAME];
    let mut custom = Vec::new();
    for column in version.at("additionalPrinterColumns").items() {
        // Like an API server, omits the first path that is invalid and all columns after it.
        let Ok(path) = JsonPath::parse(column.at("jsonPath").text()) else { break };
        let column_type = ColumnType::from_name(column.at("type").text()).unwrap_or(ColumnType::Text);
        columns.push(Column {
            name: Cow::Owned(column.at("name").text().to_owned()),
            column_type,
            format: Cow::Owned(column.at("format").text().to_owned()),
            priority: i32::try_from(column.at("priority").int()).unwrap_or(i32::MAX),
        });
        custom.push(CustomColumn { column_type, path });
    }
    if version.at("additionalPrinterColumns").count() == 0 {
        columns.push(Column::new("Age", ColumnType::Date, "", 0));
        let path = JsonPath::parse(".metadata.creationTimestamp").map_err(|BadPath| ());
        custom.push(CustomColumn {
            column_type: ColumnType::Date,
            path: path.expect("the constant path is valid"),
        });
    }
    Some(TableConvertor { columns: Cow::Owned(columns), source: CellSource::Custom(custom) })
}

pub(super) fn cells(columns: &[CustomColumn], object: &Value, now: Moment) -> Vec<Cell> {
    let name = super::name(JsonField::of(object));
    std::iter::once(name).chain(columns.iter().map(|column| column.cell(object, now))).collect()
}

// === impl CustomColumn ===

impl CustomColumn {
    fn cell(&self, object: &Value, now: Moment) -> Cell {
        let Some(value) = self.path.first(object) else { return Cell::Null };
        match (self.column_type, &*value) {
            (ColumnType::Text, value) => Cell::Text(text(value)),
            (ColumnType::Integer, Value::Number(number)) => match (number.as_i64(), number.as_f64()) {
                (Some(number), _) => Cell::Integer(number),
                (None, Some(number)) => Cell::Integer(number as i64),
                (None, None) => Cell::Null,
            },
            (ColumnType::Number, Value::Number(number)) => number.as_f64().map_or(Cell::Null, Cell::Number),
            (ColumnType::Boolean, Value::Bool(truth)) => Cell::Boolean(*truth),
            (ColumnType::Date, Value::String(time)) => Cell::Text(date(time, &value, now)),
            _ => Cell::Null,
        }
    }
}

fn date(text: &str, value: &Value, now: Moment) -> String {
    let readable = matches!(text, "" | "null") || text.parse::<jiff::Timestamp>().is_ok();
    if readable { age_since(JsonField::of(value).time(), now) } else { "<invalid>".to_owned() }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(number)) => number_text(number),
            _ => number.to_string(),
        },
        Value::Bool(truth) => truth.to_string(),
        Value::Array(_) | Value::Object(_) => json_text(value),
    }
}

/// A number as Go prints it: with an exponent from a million on.
pub(super) fn number_text(number: f64) -> String {
    if number == 0.0 || (1e-4..1e6).contains(&number.abs()) {
        return number.to_string();
    }
    with_exponent(number, 2)
}
