//! Named formats of texts: `format.dns1123Label().validate('a')`.

use std::sync::Arc;

use super::super::named_format::NamedFormat;
use super::super::value::{Failure, Outcome, Value};
use super::costs::Meter;
use super::{Row, Run};
use crate::names;
use crate::structural::{is_request_uri, matches_format};

pub(super) const ROWS: &[Row] = &[
    Row {
        name: "format.named",
        overloads: &["(string) -> optional(kubernetes.NamedFormat)"],
        run: |_, arguments| {
            let Value::String(name) = &arguments[0] else { return Err(Failure::NoOverload) };
            let found = FORMATS.iter().find(|format| format.name == &**name);
            Ok(Value::Optional(found.map(|format| Arc::new(Value::Format(format)))))
        },
    },
    Row {
        name: "validate",
        overloads: &["kubernetes.NamedFormat.(string) -> optional(list(string))"],
        run: validate,
    },
    row("format.dns1123Label", |_, _| Ok(Value::Format(&FORMATS[0]))),
    row("format.dns1123Subdomain", |_, _| Ok(Value::Format(&FORMATS[1]))),
    row("format.dns1035Label", |_, _| Ok(Value::Format(&FORMATS[2]))),
    row("format.qualifiedName", |_, _| Ok(Value::Format(&FORMATS[3]))),
    row("format.dns1123LabelPrefix", |_, _| Ok(Value::Format(&FORMATS[4]))),
    row("format.dns1123SubdomainPrefix", |_, _| Ok(Value::Format(&FORMATS[5]))),
    row("format.dns1035LabelPrefix", |_, _| Ok(Value::Format(&FORMATS[6]))),
    row("format.labelValue", |_, _| Ok(Value::Format(&FORMATS[7]))),
    row("format.uri", |_, _| Ok(Value::Format(&FORMATS[8]))),
    row("format.uuid", |_, _| Ok(Value::Format(&FORMATS[9]))),
    row("format.byte", |_, _| Ok(Value::Format(&FORMATS[10]))),
    row("format.date", |_, _| Ok(Value::Format(&FORMATS[11]))),
    row("format.datetime", |_, _| Ok(Value::Format(&FORMATS[12]))),
];

static FORMATS: [NamedFormat; 13] = [
    NamedFormat { name: "dns1123Label", regex_length: 30, check: names::label_1123 },
    NamedFormat { name: "dns1123Subdomain", regex_length: 60, check: names::subdomain_1123 },
    NamedFormat { name: "dns1035Label", regex_length: 30, check: names::label_1035 },
    NamedFormat { name: "qualifiedName", regex_length: 60, check: names::qualified_name },
    NamedFormat {
        name: "dns1123LabelPrefix",
        regex_length: 30,
        check: |text| names::label_1123(&without_dash(text)),
    },
    NamedFormat {
        name: "dns1123SubdomainPrefix",
        regex_length: 60,
        check: |text| names::subdomain_1123(&without_dash(text)),
    },
    NamedFormat {
        name: "dns1035LabelPrefix",
        regex_length: 30,
        check: |text| names::label_1035(&without_dash(text)),
    },
    NamedFormat { name: "labelValue", regex_length: 40, check: names::label_value },
    NamedFormat {
        name: "uri",
        regex_length: 1103,
        check: |text| messages(is_request_uri(text), || super::urls::parse_error(text)),
    },
    NamedFormat {
        name: "uuid",
        regex_length: 89,
        check: |text| messages(matches_format("uuid", text), || "does not match the UUID format".to_owned()),
    },
    NamedFormat {
        name: "byte",
        regex_length: 84,
        check: |text| messages(matches_format("byte", text), || "invalid base64".to_owned()),
    },
    NamedFormat {
        name: "date",
        regex_length: 117,
        check: |text| messages(matches_format("date", text), || "invalid date".to_owned()),
    },
    NamedFormat {
        name: "datetime",
        regex_length: 117,
        check: |text| messages(matches_format("datetime", text), || "invalid datetime".to_owned()),
    },
];

const fn row(name: &'static str, run: Run) -> Row {
    Row { name, overloads: &["() -> kubernetes.NamedFormat"], run }
}

fn validate<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let [Value::Format(format), Value::String(text)] = arguments else { return Err(Failure::NoOverload) };
    let messages: Vec<Value<'v>> = (format.check)(text).into_iter().map(Value::string).collect();
    Ok(Value::Optional(
        Some(messages)
            .filter(|messages| !messages.is_empty())
            .map(|messages| Arc::new(Value::list(messages))),
    ))
}

/// A prefix may end with a dash, which something follows.
fn without_dash(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) => format!("{rest}a"),
        None => text.to_owned(),
    }
}

fn messages(is_valid: bool, message: impl FnOnce() -> String) -> Vec<String> {
    if is_valid { Vec::new() } else { vec![message()] }
}
