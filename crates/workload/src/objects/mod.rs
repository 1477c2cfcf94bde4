//! Kubernetes objects as text, written field by field in the order in which an API server prints them.
//!
//! Each kind is a struct of the fields that vary; constant fields are in its writer.

pub(crate) mod event;
pub(crate) mod node;
pub(crate) mod pod;
pub(crate) mod template;
pub(crate) mod workloads;

use std::fmt::Write;
use std::sync::Arc;

use model::{Key, Kind, Moment};

/// Nanoseconds in a second.
pub(crate) const SECOND: i64 = 1_000_000_000;

/// An object that can be written as JSON.
pub(crate) trait WriteJson {
    fn meta(&self) -> &Meta;
    fn meta_mut(&mut self) -> &mut Meta;
    fn write(&self, out: &mut String);
}

/// The part of `metadata` that every kind has.
#[derive(Clone)]
pub(crate) struct Meta {
    pub(crate) key: Key,
    pub(crate) uid: Arc<str>,
    pub(crate) version: u64,
    /// Zero for kinds that count no generations.
    pub(crate) generation: u64,
    pub(crate) created: Moment,
    pub(crate) deletion: Option<Deletion>,
    pub(crate) owner: Option<Owner>,
    /// Whether `managedFields` are printed.
    pub(crate) managed_fields: bool,
}

/// A requested deletion that has not finished.
#[derive(Clone, Copy)]
pub(crate) struct Deletion {
    pub(crate) deadline: Moment,
    pub(crate) grace: i64,
}

/// The controller an object belongs to.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) name: Arc<str>,
    pub(crate) uid: Arc<str>,
}

/// The part of `metadata` that differs by kind, as JSON; empty values are left out.
#[derive(Default)]
pub(crate) struct ExtraMetadata<'a> {
    pub(crate) generate_name: &'a str,
    pub(crate) labels: &'a str,
    pub(crate) annotations: &'a str,
    pub(crate) finalizers: &'a str,
    pub(crate) managed_fields: &'a str,
}

/// An entry of `managedFields`.
pub(crate) struct FieldManager<'a> {
    pub(crate) name: &'a str,
    pub(crate) api_version: &'a str,
    pub(crate) at: Moment,
    pub(crate) fields: &'a str,
    pub(crate) is_status: bool,
}

// === impl Meta ===

impl Meta {
    pub(crate) fn new(source: &Arc<str>, kind: Kind, namespace: &str, name: &str, uid: String) -> Meta {
        let key = Key { source: source.clone(), kind, namespace: namespace.into(), name: name.into() };
        let uid = uid.into();
        Meta {
            key,
            uid,
            version: 0,
            generation: 1,
            created: Moment::MIN,
            deletion: None,
            owner: None,
            managed_fields: true,
        }
    }

    /// `"metadata":{…}`.
    pub(crate) fn write(&self, out: &mut String, extra: &ExtraMetadata<'_>) {
        out.push_str(r#""metadata":{"name":""#);
        out.push_str(&self.key.name);
        if !extra.generate_name.is_empty() {
            out.push_str(r#"","generateName":""#);
            out.push_str(extra.generate_name);
        }
        if !self.key.namespace.is_empty() {
            out.push_str(r#"","namespace":""#);
            out.push_str(&self.key.namespace);
        }
        out.push_str(r#"","uid":""#);
        out.push_str(&self.uid);
        append(out, format_args!(r#"","resourceVersion":"{}""#, self.version));
        if self.generation > 0 {
            append(out, format_args!(r#","generation":{}"#, self.generation));
        }
        out.push_str(r#","creationTimestamp":"#);
        write_seconds(out, self.created);
        if let Some(deletion) = self.deletion {
            out.push_str(r#","deletionTimestamp":"#);
            write_seconds(out, deletion.deadline);
            append(out, format_args!(r#","deletionGracePeriodSeconds":{}"#, deletion.grace));
        }
        write_field(out, "labels", extra.labels);
        write_field(out, "annotations", extra.annotations);
        if let Some(Owner { api_version, kind, name, uid }) = &self.owner {
            append(
                out,
                format_args!(
                    r#","ownerReferences":[{{"apiVersion":"{api_version}","kind":"{kind}","name":"{name}","uid":"{uid}","controller":true,"blockOwnerDeletion":true}}]"#
                ),
            );
        }
        write_field(out, "finalizers", extra.finalizers);
        if self.managed_fields {
            write_field(out, "managedFields", extra.managed_fields);
        }
        out.push('}');
    }
}

// === impl FieldManager ===

impl FieldManager<'_> {
    /// The whole of `managedFields`, in the order given.
    pub(crate) fn list(managers: &[FieldManager<'_>]) -> String {
        let mut out = String::with_capacity(1024);
        for manager in managers {
            out.push(if out.is_empty() { '[' } else { ',' });
            manager.write(&mut out);
        }
        out.push(']');
        out
    }

    fn write(&self, out: &mut String) {
        let FieldManager { name, api_version, at, fields, is_status: of_status } = self;
        append(
            out,
            format_args!(r#"{{"manager":"{name}","operation":"Update","apiVersion":"{api_version}","time":"#),
        );
        write_seconds(out, *at);
        append(out, format_args!(r#","fieldsType":"FieldsV1","fieldsV1":{fields}"#));
        if *of_status {
            out.push_str(r#","subresource":"status""#);
        }
        out.push('}');
    }
}

/// `,"name":value`, or nothing for an empty value.
fn write_field(out: &mut String, name: &str, value: &str) {
    if !value.is_empty() {
        out.push_str(",\"");
        out.push_str(name);
        out.push_str("\":");
        out.push_str(value);
    }
}

/// Appends formatted text.
pub(crate) fn append(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String cannot fail");
}

/// A string of any characters as JSON.
pub(crate) fn json_string(text: &str) -> String {
    let json = serde_json::to_string(text).expect("a string serializes as JSON");
    // Go's encoder, and so the API server, escapes characters that are special in HTML.
    json.replace('<', r"\u003c").replace('>', r"\u003e").replace('&', r"\u0026")
}

/// A map of strings as JSON, sorted by key as Go prints maps. Keys and values need no escapes.
pub(crate) fn json_map(pairs: &[(&str, &str)]) -> String {
    let mut pairs = pairs.to_vec();
    pairs.sort_unstable();
    let mut out = String::with_capacity(64 * pairs.len());
    for (key, value) in pairs {
        out.push(if out.is_empty() { '{' } else { ',' });
        append(&mut out, format_args!(r#""{key}":"{value}""#));
    }
    out.push('}');
    out
}

/// Writes a time with whole seconds, as most fields have it.
pub(crate) fn write_seconds(out: &mut String, moment: Moment) {
    out.push('"');
    write_date_and_time(out, moment);
    out.push_str("Z\"");
}

/// Writes a time with six digits of a second, as `eventTime` has it.
pub(crate) fn write_micros(out: &mut String, moment: Moment) {
    out.push('"');
    write_date_and_time(out, moment);
    append(out, format_args!(".{:06}Z\"", moment.nanos().rem_euclid(SECOND) / 1_000));
}

/// Writes `2026-11-02T07:00:00`. Hand-written because a busy stream prints millions of them.
fn write_date_and_time(out: &mut String, moment: Moment) {
    let seconds = moment.nanos().div_euclid(SECOND);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March have their leap day last; 400 of them are 146,097 days.
    let since = days + 719_468;
    let (era, day) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    write_two_digits(out, year / 100);
    write_two_digits(out, year % 100);
    out.push('-');
    write_two_digits(out, month);
    out.push('-');
    write_two_digits(out, day_of_month);
    out.push('T');
    write_two_digits(out, second / 3_600);
    out.push(':');
    write_two_digits(out, second / 60 % 60);
    out.push(':');
    write_two_digits(out, second % 60);
}

fn write_two_digits(out: &mut String, number: i64) {
    out.push(char::from(b'0' + (number / 10) as u8));
    out.push(char::from(b'0' + (number % 10) as u8));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_printed_as_the_calendar_has_them() {
        for seconds in [0, 951_782_399, 951_868_800, 1_709_164_800, 1_793_541_780, 4_102_444_799] {
            let moment = Moment::from_nanos(seconds * SECOND + 5_000);
            let (mut whole, mut fine) = (String::new(), String::new());
            write_seconds(&mut whole, moment);
            write_micros(&mut fine, moment);
            let expected = Moment::from_nanos(seconds * SECOND).to_string();
            assert_eq!(whole, format!("\"{expected}\""));
            assert_eq!(fine, format!("\"{}.000005Z\"", expected.trim_end_matches('Z')));
        }
    }

    #[test]
    fn text_is_escaped_as_go_escapes_it() {
        assert_eq!(json_string("a \"b\" 1->2\n"), r#""a \"b\" 1-\u003e2\n""#);
    }
}
