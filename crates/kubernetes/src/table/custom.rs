//! Tables of custom resources, by the columns of their definition.

use std::borrow::Cow;

use model::Moment;
use serde_json::Value;

use super::age::age_since;
use super::field::JsonField;
use super::json_path::{BadPath, JsonPath};
use super::{Cell, CellSource, Column, ColumnType, NAME, TableConvertor};

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
        Value::Array(_) | Value::Object(_) => {
            let mut json = String::new();
            write_json(value, &mut json);
            json
        }
    }
}

/// A number as Go prints it: with an exponent from a million on.
pub(super) fn number_text(number: f64) -> String {
    if number == 0.0 || (1e-4..1e6).contains(&number.abs()) {
        return number.to_string();
    }
    with_exponent(number, 2)
}

/// JSON as Go writes it: numbers with exponents as in ECMAScript, and characters special in HTML escaped. Objects
/// nest no deeper than [`model::MAX_DEPTH`].
fn write_json(value: &Value, json: &mut String) {
    match value {
        Value::Array(list) => {
            let mut separator = '[';
            for entry in list {
                json.push(std::mem::replace(&mut separator, ','));
                write_json(entry, json);
            }
            json.push_str(if list.is_empty() { "[]" } else { "]" });
        }
        Value::Object(map) => {
            let mut separator = '{';
            for (name, entry) in map {
                json.push(std::mem::replace(&mut separator, ','));
                json.push_str(&escaped(&Value::from(name.as_str())));
                json.push(':');
                write_json(entry, json);
            }
            json.push_str(if map.is_empty() { "{}" } else { "}" });
        }
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (None, Some(number)) if number != 0.0 && !(1e-6..1e21).contains(&number.abs()) => {
                json.push_str(&with_exponent(number, if number.abs() < 1.0 { 1 } else { 2 }));
            }
            (None, Some(number)) => json.push_str(&number.to_string()),
            _ => json.push_str(&number.to_string()),
        },
        _ => json.push_str(&escaped(value)),
    }
}

fn escaped(value: &Value) -> String {
    let text = value.to_string();
    let signs = [
        ('<', "\\u003c"),
        ('>', "\\u003e"),
        ('&', "\\u0026"),
        ('\u{2028}', "\\u2028"),
        ('\u{2029}', "\\u2029"),
    ];
    signs.into_iter().fold(text, |text, (sign, code)| text.replace(sign, code))
}

/// `1.5e+06`: the exponent always has a sign, and at least this many digits.
fn with_exponent(number: f64, digits: usize) -> String {
    let text = format!("{number:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, exponent) = exponent.strip_prefix('-').map_or(('+', exponent), |exponent| ('-', exponent));
    format!("{mantissa}e{sign}{exponent:0>digits$}")
}
