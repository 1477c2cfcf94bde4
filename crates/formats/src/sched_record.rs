//! kube-scheduler-simulator's recording: one `{"time": …, "event": "Add|Update|Delete", "resource": {…}}` per line.
//!
//! `time` is when the recorder received the event. A deletion contains only the object's identity. The recorder is
//! often stopped in the middle of a line, and the simulator's replayer skips such a line.

use std::fmt;
use std::io::{BufRead, Read, Write};

use jiff::tz::Offset;
use model::{Change, Gap, IncomingChange, Kind, Moment, Object, What};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json_values::MAX_VALUE_BYTES;
use crate::object_times::newest_time;
use crate::{Error, ImportItem, Input, ReadOptions, Result, WriteSummary, go_json};

/// Reads records.
pub struct SchedRecordReader {
    file: String,
    reader: Box<dyn BufRead + Send>,
    /// The line read last, and its number counted from 1.
    line: Vec<u8>,
    number: u64,
    options: ReadOptions,
    /// The time of the previous record.
    last: Option<Moment>,
    /// Whether any record so far had a time.
    has_recorded_time: bool,
    times_inferred: bool,
    ended: bool,
}

/// Writes records.
pub struct SchedRecordWriter<W> {
    out: W,
    offset: Offset,
    every_kind: bool,
    line: Vec<u8>,
    written: WriteSummary,
}

#[derive(Default)]
struct Record<'a> {
    time: Option<String>,
    event: Option<String>,
    resource: Option<&'a RawValue>,
}

/// A field of a record. Go matches names case-insensitively.
enum RecordField {
    Time,
    Event,
    Resource,
    Other,
}

// === impl SchedRecordReader ===

impl SchedRecordReader {
    /// Reads the records of a file.
    pub fn new(input: Input, options: ReadOptions) -> SchedRecordReader {
        SchedRecordReader {
            file: input.name,
            reader: input.reader,
            line: Vec::new(),
            number: 0,
            options,
            last: None,
            has_recorded_time: false,
            times_inferred: false,
            ended: false,
        }
    }

    fn read(&mut self) -> Result<Option<ImportItem>> {
        while self.read_line()? {
            let is_complete = self.line.ends_with(b"\n");
            let text = self.line.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.number == 1);
            let text = text.unwrap_or(&self.line).trim_ascii();
            if text.is_empty() {
                continue;
            }
            let why = match std::str::from_utf8(text) {
                Ok(text) => match serde_json::from_str::<Record<'_>>(text) {
                    Ok(record) => {
                        let parsed = parse_time(&record).and_then(|time| Ok((time, parse_change(&record)?)));
                        let (time, what) = parsed.map_err(|why| self.line_error(why))?;
                        return Ok(Some(ImportItem::Change(self.observed(time, what))));
                    }
                    Err(error) if is_complete || error.is_data() => {
                        return Err(self.line_error(format!("not a record: {}", parser_message(&error))));
                    }
                    Err(error) => parser_message(&error),
                },
                Err(error) if is_complete => {
                    return Err(self.line_error(format!("byte {} is not UTF-8", error.valid_up_to())));
                }
                Err(_) => "not UTF-8".to_owned(),
            };
            return Ok(Some(ImportItem::Warning(format!(
                "{}, line {}: the last line is truncated; its {} bytes were skipped ({why})",
                self.file,
                self.number,
                self.line.len(),
            ))));
        }
        let is_first_end = self.times_inferred && !std::mem::replace(&mut self.ended, true);
        Ok(is_first_end.then(|| ImportItem::TimesInferred(self.options.source.clone())))
    }

    /// Reads the next line; returns false at the end.
    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        let mut line = (&mut self.reader).take(MAX_VALUE_BYTES as u64 + 1);
        let length = line
            .read_until(b'\n', &mut self.line)
            .map_err(|source| Error::cannot_read(&self.file, source))?;
        self.number += 1;
        if length > MAX_VALUE_BYTES {
            return Err(self.line_error(format!("longer than {} MiB", MAX_VALUE_BYTES >> 20)));
        }
        Ok(length > 0)
    }

    /// A record without a time gets that of the previous record. If no record so far had one, it gets that of the
    /// options, or the latest time inside the object.
    fn observed(&mut self, time: Option<Moment>, what: What) -> IncomingChange {
        self.has_recorded_time |= time.is_some();
        self.times_inferred |= time.is_none();
        let seen = time
            .or(self.last.filter(|_| self.has_recorded_time))
            .or(self.options.at)
            .unwrap_or_else(|| newest_time(what.object()).max(self.last).unwrap_or(self.options.now));
        self.last = Some(seen);
        IncomingChange::received(seen, &self.options.source, what)
    }

    fn line_error(&self, why: impl Into<String>) -> Error {
        Error::invalid_line(&self.file, self.number, why)
    }
}

impl Iterator for SchedRecordReader {
    type Item = Result<ImportItem>;

    fn next(&mut self) -> Option<Result<ImportItem>> {
        self.read().transpose()
    }
}

/// The parser's message without its line number, which is always 1.
fn parser_message(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

/// When the recorder received the event. Go writes its zero time if none is set.
fn parse_time(record: &Record<'_>) -> std::result::Result<Option<Moment>, String> {
    match record.time.as_deref() {
        None | Some("0001-01-01T00:00:00Z") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|error| format!("time: {error}")),
    }
}

fn parse_change(record: &Record<'_>) -> std::result::Result<What, String> {
    let make = match record.event.as_deref() {
        Some("Add") => What::Added,
        Some("Update") => What::Modified,
        Some("Delete") => What::Deleted,
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            return Err(format!("unknown event {other:?}: expected Add, Update or Delete"));
        }
        None => return Err("a record requires an \"event\": Add, Update or Delete".to_owned()),
    };
    let Some(resource) = record.resource else { return Err("a record requires a \"resource\"".to_owned()) };
    Object::parse(resource.get()).map(make).map_err(|error| format!("resource: {error}"))
}

// === impl SchedRecordWriter ===

impl<W: Write> SchedRecordWriter<W> {
    /// Writes to `out`, times with this UTC offset, which must be whole minutes.
    ///
    /// The recorder watches seven kinds, the replayer takes any; with `every_kind` all are written.
    pub fn new(out: W, offset: Offset, every_kind: bool) -> SchedRecordWriter<W> {
        SchedRecordWriter { out, offset, every_kind, line: Vec::new(), written: WriteSummary::default() }
    }

    /// Flushes the output.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }
}

impl<W: Write> crate::Writer for SchedRecordWriter<W> {
    fn change(&mut self, change: &Change) -> Result<()> {
        if !self.every_kind && !is_recorded_kind(&change.key.kind) {
            self.written.left_out.count(&format!("changes of {}", change.key.kind.kind));
            return Ok(());
        }
        let time = change.seen.timestamp();
        self.line.clear();
        self.line.extend(b"{\"time\":\"");
        if self.offset == Offset::UTC {
            write!(self.line, "{time}")?;
        } else {
            write!(self.line, "{}", time.display_with_offset(self.offset))?;
        }
        let event = match change.what {
            What::Added(_) => "Add",
            What::Modified(_) => "Update",
            What::Deleted(_) => "Delete",
        };
        write!(self.line, "\",\"event\":\"{event}\",\"resource\":")?;
        match change.what.state() {
            Some(object) => go_json::write(&mut self.line, object.as_str()).map_err(std::io::Error::other)?,
            None => write_deleted_object(&mut self.line, change.what.object()),
        }
        self.line.extend(b"}\n");
        self.out.write_all(&self.line)?;
        self.written.count += 1;
        Ok(())
    }

    fn gap(&mut self, _: &Gap) -> Result<()> {
        self.written.left_out.count("gaps");
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<WriteSummary> {
        self.out.flush()?;
        Ok(self.written)
    }
}

fn is_recorded_kind(kind: &Kind) -> bool {
    matches!(
        (&*kind.group, &*kind.kind),
        ("", "Namespace" | "Node" | "PersistentVolume" | "PersistentVolumeClaim" | "Pod")
            | ("scheduling.k8s.io", "PriorityClass")
            | ("storage.k8s.io", "StorageClass")
    )
}

/// Writes the object of a deletion: its identity only. The namespace is written even if it is empty.
fn write_deleted_object(out: &mut Vec<u8>, object: &Object) {
    let meta = object.meta();
    for (before, text) in [
        ("{\"apiVersion\":", &meta.api_version),
        (",\"kind\":", &meta.kind),
        (",\"metadata\":{\"name\":", &meta.name),
        (",\"namespace\":", &meta.namespace),
    ] {
        out.extend(before.as_bytes());
        go_json::write_string(out, text);
    }
    out.extend(b"}}");
}

// === impl Record ===

impl<'de: 'a, 'a> Deserialize<'de> for Record<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Record<'a>, D::Error> {
        struct RecordVisitor;
        impl<'de> Visitor<'de> for RecordVisitor {
            type Value = Record<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with time, event and resource")
            }

            /// As in Go, the last of duplicate fields counts, and null leaves a field unchanged.
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut fields: A,
            ) -> std::result::Result<Record<'de>, A::Error> {
                let mut record = Record::default();
                while let Some(field) = fields.next_key()? {
                    match field {
                        RecordField::Time => record.time = fields.next_value::<Option<_>>()?.or(record.time),
                        RecordField::Event => {
                            record.event = fields.next_value::<Option<_>>()?.or(record.event)
                        }
                        RecordField::Resource => record.resource = Some(fields.next_value()?),
                        RecordField::Other => drop(fields.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(record)
            }
        }
        deserializer.deserialize_map(RecordVisitor)
    }
}

// === impl RecordField ===

impl<'de> Deserialize<'de> for RecordField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<RecordField, D::Error> {
        struct RecordFieldVisitor;
        impl Visitor<'_> for RecordFieldVisitor {
            type Value = RecordField;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }

            fn visit_str<E>(self, name: &str) -> std::result::Result<RecordField, E> {
                let names = [
                    ("time", RecordField::Time),
                    ("event", RecordField::Event),
                    ("resource", RecordField::Resource),
                ];
                let found = names.into_iter().find(|(field, _)| name.eq_ignore_ascii_case(field));
                Ok(found.map_or(RecordField::Other, |(_, field)| field))
            }
        }
        deserializer.deserialize_identifier(RecordFieldVisitor)
    }
}
