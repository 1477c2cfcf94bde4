//! kube-scheduler-simulator's recording: `{"time": …, "event": "Add|Update|Delete", "resource": {…}}` a line.
//!
//! `time` is when the recorder heard of it. A deletion tells no more than what names the object. The recorder is often
//! stopped in the middle of a line, and its replayer leaves such a line out.

use std::fmt;
use std::io::{BufRead, Read, Write};

use jiff::tz::Offset;
use model::{Change, Gap, Kind, Moment, Object, Observed, What};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::times::newest_time;
use crate::values::MAX_VALUE;
use crate::{Error, Given, Input, Item, Result, Written, go_json};

/// Reads records.
pub struct Reader {
    file: String,
    reader: Box<dyn BufRead + Send>,
    /// The line read last, and its number counted from 1.
    line: Vec<u8>,
    number: u64,
    given: Given,
    /// The time of the record above.
    last: Option<Moment>,
    /// Whether that, or the one of a record further above, was recorded.
    timed: bool,
    times_inferred: bool,
    ended: bool,
}

/// Writes records.
pub struct Writer<W> {
    out: W,
    offset: Offset,
    every_kind: bool,
    line: Vec<u8>,
    written: Written,
}

#[derive(Default)]
struct Record<'a> {
    time: Option<String>,
    event: Option<String>,
    resource: Option<&'a RawValue>,
}

/// A field of a record. Go takes any case.
enum Field {
    Time,
    Event,
    Resource,
    Other,
}

// === impl Reader ===

impl Reader {
    /// Reads the records of a file.
    pub fn new(input: Input, given: Given) -> Reader {
        Reader {
            file: input.name,
            reader: input.reader,
            line: Vec::new(),
            number: 0,
            given,
            last: None,
            timed: false,
            times_inferred: false,
            ended: false,
        }
    }

    fn read(&mut self) -> Result<Option<Item>> {
        while self.read_line()? {
            let whole = self.line.ends_with(b"\n");
            let text = self.line.strip_prefix(b"\xef\xbb\xbf").filter(|_| self.number == 1);
            let text = text.unwrap_or(&self.line).trim_ascii();
            if text.is_empty() {
                continue;
            }
            let why = match std::str::from_utf8(text) {
                Ok(text) => match serde_json::from_str::<Record<'_>>(text) {
                    Ok(record) => {
                        let told = moment(&record).and_then(|time| Ok((time, what(&record)?)));
                        let (time, what) = told.map_err(|why| self.bad(why))?;
                        return Ok(Some(Item::Change(self.observed(time, what))));
                    }
                    Err(error) if whole || error.is_data() => {
                        return Err(self.bad(format!("not a record: {}", said(&error))));
                    }
                    Err(error) => said(&error),
                },
                Err(error) if whole => {
                    return Err(self.bad(format!("byte {} is no UTF-8", error.valid_up_to())));
                }
                Err(_) => "no UTF-8".to_owned(),
            };
            return Ok(Some(Item::Warning(format!(
                "{}, line {}: the recorder was stopped in the middle of this last line; its {} bytes are left out ({why})",
                self.file,
                self.number,
                self.line.len(),
            ))));
        }
        let untold = self.times_inferred && !std::mem::replace(&mut self.ended, true);
        Ok(untold.then(|| Item::TimesInferred(self.given.source.clone())))
    }

    /// Whether there is another line.
    fn read_line(&mut self) -> Result<bool> {
        self.line.clear();
        let mut line = (&mut self.reader).take(MAX_VALUE as u64 + 1);
        let length =
            line.read_until(b'\n', &mut self.line).map_err(|source| Error::read(&self.file, source))?;
        self.number += 1;
        if length > MAX_VALUE {
            return Err(self.bad(format!("longer than {} MiB", MAX_VALUE >> 20)));
        }
        Ok(length > 0)
    }

    /// Without a time it was heard of when the record above was. Where no record has one, an object tells when it was
    /// like this.
    fn observed(&mut self, time: Option<Moment>, what: What) -> Observed {
        self.timed |= time.is_some();
        self.times_inferred |= time.is_none();
        let seen = time
            .or(self.last.filter(|_| self.timed))
            .or(self.given.at)
            .unwrap_or_else(|| newest_time(what.object()).max(self.last).unwrap_or(self.given.now));
        self.last = Some(seen);
        Observed::received(seen, &self.given.source, what)
    }

    fn bad(&self, why: impl Into<String>) -> Error {
        Error::line(&self.file, self.number, why)
    }
}

impl Iterator for Reader {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        self.read().transpose()
    }
}

/// What the parser says, who counts lines from the beginning of this one.
fn said(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

/// When the recorder heard of it. Go writes the year 1 where nobody set a time.
fn moment(record: &Record<'_>) -> std::result::Result<Option<Moment>, String> {
    match record.time.as_deref() {
        None | Some("0001-01-01T00:00:00Z") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|error| format!("time: {error}")),
    }
}

fn what(record: &Record<'_>) -> std::result::Result<What, String> {
    let make = match record.event.as_deref() {
        Some("Add") => What::Added,
        Some("Update") => What::Modified,
        Some("Delete") => What::Deleted,
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            return Err(format!("event {other:?} is none of Add, Update, Delete"));
        }
        None => return Err("a record needs an \"event\": Add, Update or Delete".to_owned()),
    };
    let Some(resource) = record.resource else { return Err("a record needs a \"resource\"".to_owned()) };
    Object::parse(resource.get()).map(make).map_err(|error| format!("resource: {error}"))
}

// === impl Writer ===

impl<W: Write> Writer<W> {
    /// Writes to `out`, times with this offset of whole minutes.
    ///
    /// The recorder watches seven kinds. The replayer takes any; with `every_kind` all are written.
    pub fn new(out: W, offset: Offset, every_kind: bool) -> Writer<W> {
        Writer { out, offset, every_kind, line: Vec::new(), written: Written::default() }
    }

    /// Hands on what waits in buffers.
    pub fn flush(&mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }
}

impl<W: Write> crate::Writer for Writer<W> {
    fn change(&mut self, change: &Change) -> Result<()> {
        if !self.every_kind && !is_recorded(&change.key.kind) {
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
            None => write_name(&mut self.line, change.what.object()),
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

    fn finish(mut self: Box<Self>) -> Result<Written> {
        self.out.flush()?;
        Ok(self.written)
    }
}

fn is_recorded(kind: &Kind) -> bool {
    matches!(
        (&*kind.group, &*kind.kind),
        ("", "Namespace" | "Node" | "PersistentVolume" | "PersistentVolumeClaim" | "Pod")
            | ("scheduling.k8s.io", "PriorityClass")
            | ("storage.k8s.io", "StorageClass")
    )
}

/// All that a deletion tells. The namespace is there even where it is empty.
fn write_name(out: &mut Vec<u8>, object: &Object) {
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
        struct Records;
        impl<'de> Visitor<'de> for Records {
            type Value = Record<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with time, event and resource")
            }

            /// Of a field that stands twice the last counts, and what is null says nothing, as in Go.
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut fields: A,
            ) -> std::result::Result<Record<'de>, A::Error> {
                let mut record = Record::default();
                while let Some(field) = fields.next_key()? {
                    match field {
                        Field::Time => record.time = fields.next_value::<Option<_>>()?.or(record.time),
                        Field::Event => record.event = fields.next_value::<Option<_>>()?.or(record.event),
                        Field::Resource => record.resource = Some(fields.next_value()?),
                        Field::Other => drop(fields.next_value::<IgnoredAny>()?),
                    }
                }
                Ok(record)
            }
        }
        deserializer.deserialize_map(Records)
    }
}

// === impl Field ===

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Field, D::Error> {
        struct Names;
        impl Visitor<'_> for Names {
            type Value = Field;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field's name")
            }

            fn visit_str<E>(self, name: &str) -> std::result::Result<Field, E> {
                let names = [("time", Field::Time), ("event", Field::Event), ("resource", Field::Resource)];
                let found = names.into_iter().find(|(field, _)| name.eq_ignore_ascii_case(field));
                Ok(found.map_or(Field::Other, |(_, field)| field))
            }
        }
        deserializer.deserialize_identifier(Names)
    }
}
