//! One watch event per line: `{"at": …, "type": "ADDED|MODIFIED|DELETED", "object": {…}}`.
//!
//! `at` is RFC 3339 or microseconds since 1970. A gap is `{"at": …, "type": "GAP", "to": …, "kinds": […], "why":
//! …}`, with a `to` of null while it is open. `source` names the recording; `seen` is the time on the observer's clock
//! where it differs from `at`; `inferred` marks changes that were inferred and not received. The output of `kubectl get
//! --watch --output-watch-events -o json` is read too: values over several lines, without times.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use model::{Change, Gap, IncomingChange, Kind, Moment, Object, What};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::json_values::JsonValues;
use crate::object_times::newest_time;
use crate::{ImportItem, Input, ReadOptions, Result, WriteSummary};

/// Reads lines.
pub struct JsonlReader {
    values: JsonValues,
    options: ReadOptions,
    /// The previous line's source, reused because most lines name the same.
    source: Arc<str>,
    /// The time of the previous change.
    last: Option<Moment>,
    /// Sources of lines without a time.
    times_inferred: BTreeSet<Arc<str>>,
}

/// Writes lines.
pub struct JsonlWriter<W> {
    out: W,
    /// The source that lines omit.
    source: Option<Arc<str>>,
    count: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EventLine<'a> {
    #[serde(default)]
    at: Option<LineTime>,
    #[serde(default)]
    seen: Option<LineTime>,
    #[serde(rename = "type", borrow)]
    word: Cow<'a, str>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    source: Option<Cow<'a, str>>,
    #[serde(default)]
    inferred: bool,
    #[serde(default)]
    to: Option<LineTime>,
    #[serde(default)]
    kinds: Option<Vec<String>>,
    #[serde(default)]
    why: Option<String>,
}

/// RFC 3339, or microseconds since 1970.
struct LineTime(Moment);

// === impl JsonlReader ===

impl JsonlReader {
    /// Reads the events of a file.
    pub fn new(input: Input, options: ReadOptions) -> JsonlReader {
        let values = JsonValues::new(&input.name, input.reader);
        let source = options.source.clone();
        JsonlReader { values, options, source, last: None, times_inferred: BTreeSet::new() }
    }

    fn read(&mut self) -> Result<Option<ImportItem>> {
        loop {
            let Some((number, text)) = self.values.next()? else {
                return Ok(self.times_inferred.pop_first().map(ImportItem::TimesInferred));
            };
            // A list of an event's values would also be read as an event.
            if !text.trim_start().starts_with('{') {
                return Err(self
                    .values
                    .line_error(number, "not an event: expected a JSON object".to_owned()));
            }
            let read = serde_json::from_str::<EventLine<'_>>(text);
            let line = match read {
                Ok(line) => line,
                Err(error) => {
                    // Within a value the parser counts lines from its own beginning.
                    let number = number + (error.line() as u64).saturating_sub(1);
                    return Err(self.values.line_error(number, format!("not an event: {error}")));
                }
            };
            let source = match &line.source {
                None => self.options.source.clone(),
                Some(name) if **name == *self.source => self.source.clone(),
                Some(name) => Arc::from(&**name),
            };
            let item = match &*line.word {
                // A bookmark is a position of the watch, not a change.
                "BOOKMARK" => None,
                "GAP" => Some(gap(&line, &source)),
                _ => Some(change(&line, &source, self.options.at.or(self.last))),
            };
            let inferred = line.at.is_none();
            match item {
                None => continue,
                Some(Err(why)) => return Err(self.values.line_error(number, why)),
                Some(Ok(mut item)) => {
                    if let ImportItem::Change(observed) = &mut item {
                        if inferred {
                            if !self.times_inferred.contains(&source) {
                                self.times_inferred.insert(source.clone());
                            }
                            observed.seen = self.options.at.unwrap_or_else(|| {
                                let newest = newest_time(observed.what.object());
                                newest.max(self.last).unwrap_or(self.options.now)
                            });
                        }
                        self.last = Some(observed.seen);
                    }
                    self.source = source;
                    return Ok(Some(item));
                }
            }
        }
    }
}

impl Iterator for JsonlReader {
    type Item = Result<ImportItem>;

    fn next(&mut self) -> Option<Result<ImportItem>> {
        self.read().transpose()
    }
}

fn gap(line: &EventLine<'_>, source: &Arc<str>) -> std::result::Result<ImportItem, String> {
    let Some(LineTime(from)) = &line.at else { return Err("a gap requires \"at\"".to_owned()) };
    let to = line.to.as_ref().map_or(Moment::MAX, |LineTime(to)| *to);
    if line.object.is_some() {
        return Err("a gap must not have an object".to_owned());
    }
    if to < *from {
        return Err(format!("the gap ends at {to}, before its start at {from}"));
    }
    let kinds = line.kinds.iter().flatten();
    Ok(ImportItem::Gap(Gap {
        source: source.clone(),
        kinds: kinds
            .map(|kind| {
                kind.split_once('.')
                    .map_or_else(|| Kind::new("", kind), |(kind, group)| Kind::new(group, kind))
            })
            .collect(),
        from: *from,
        to,
        why: line.why.clone().unwrap_or_default(),
    }))
}

fn change(
    line: &EventLine<'_>,
    source: &Arc<str>,
    default_time: Option<Moment>,
) -> std::result::Result<ImportItem, String> {
    let Some(object) = line.object else { return Err("an event requires an \"object\"".to_owned()) };
    let make = match &*line.word {
        "ADDED" => What::Added,
        "MODIFIED" => What::Modified,
        "DELETED" => What::Deleted,
        "ERROR" => return Err(format!("the watch ended with an error: {}", truncated(object.get()))),
        other => {
            return Err(format!(
                "unknown type {:?}: expected ADDED, MODIFIED, DELETED, GAP or BOOKMARK",
                truncated(other)
            ));
        }
    };
    if line.to.is_some() || line.kinds.is_some() || line.why.is_some() {
        return Err("\"to\", \"kinds\" and \"why\" are only for gaps".to_owned());
    }
    let object = Object::parse(object.get()).map_err(|error| error.to_string())?;
    let at = line.at.as_ref().map(|LineTime(at)| *at);
    let seen = line.seen.as_ref().map(|LineTime(seen)| *seen).or(at).or(default_time).unwrap_or_default();
    let observed =
        IncomingChange { inferred: line.inferred, ..IncomingChange::received(seen, source, make(object)) };
    Ok(ImportItem::Change(observed))
}

/// A JSON text without line ends. JSON allows none inside a string, so each of them is insignificant whitespace.
///
/// This is most of the work of an export, and not generic, so that it is compiled with the optimization of this crate.
fn on_one_line(json: &str) -> Cow<'_, str> {
    match memchr::memchr2(b'\n', b'\r', json.as_bytes()) {
        Some(_) => json.replace(['\n', '\r'], " ").into(),
        None => json.into(),
    }
}

fn truncated(text: &str) -> String {
    text.chars().take(200).collect()
}

impl<'de> Deserialize<'de> for LineTime {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<LineTime, D::Error> {
        struct LineTimeVisitor;
        impl Visitor<'_> for LineTimeVisitor {
            type Value = LineTime;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"2026-11-01T14:03:00Z\" or microseconds since 1970")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<LineTime, E> {
                text.parse().map(LineTime).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, micros: i64) -> std::result::Result<LineTime, E> {
                Moment::from_micros(micros).map(LineTime).ok_or_else(|| {
                    E::custom(format_args!("{micros} microseconds since 1970 are after the year 2262"))
                })
            }

            fn visit_u64<E: de::Error>(self, micros: u64) -> std::result::Result<LineTime, E> {
                self.visit_i64(i64::try_from(micros).unwrap_or(i64::MAX))
            }
        }
        deserializer.deserialize_any(LineTimeVisitor)
    }
}

// === impl JsonlWriter ===

#[derive(Serialize)]
struct ChangeLine<'a> {
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    inferred: bool,
    #[serde(rename = "type")]
    word: &'a str,
}

#[derive(Serialize)]
struct GapLine<'a> {
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'a str>,
    #[serde(rename = "type")]
    word: &'a str,
    /// `None` for an open gap.
    to: Option<String>,
    kinds: Vec<String>,
    why: &'a str,
}

impl<W: Write> JsonlWriter<W> {
    /// Writes to `out`. Lines of `source` omit the source; with `None` every line names it.
    pub fn new(out: W, source: Option<Arc<str>>) -> JsonlWriter<W> {
        JsonlWriter { out, source, count: 0 }
    }

    fn source_name<'a>(&self, source: &'a Arc<str>) -> Option<&'a str> {
        (self.source.as_ref() != Some(source)).then_some(source)
    }
}

impl<W: Write> crate::Writer for JsonlWriter<W> {
    /// Writes the object's bytes unchanged, except for line ends between its tokens.
    fn change(&mut self, change: &Change) -> Result<()> {
        let line = ChangeLine {
            at: change.at.to_string(),
            seen: (change.seen != change.at).then(|| change.seen.to_string()),
            source: self.source_name(&change.key.source),
            inferred: change.inferred,
            word: change.what.event_type(),
        };
        let envelope = to_json(&line);
        let open = envelope.strip_suffix('}').expect("a struct serializes as a JSON object");
        let object = on_one_line(change.what.object().as_str());
        writeln!(self.out, "{open},\"object\":{object}}}")?;
        self.count += 1;
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        let line = GapLine {
            at: gap.from.to_string(),
            source: self.source_name(&gap.source),
            word: "GAP",
            to: (!gap.is_open()).then(|| gap.to.to_string()),
            kinds: gap.kinds.iter().map(Kind::to_string).collect(),
            why: &gap.why,
        };
        writeln!(self.out, "{}", to_json(&line))?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<WriteSummary> {
        self.out.flush()?;
        Ok(WriteSummary { count: self.count, ..WriteSummary::default() })
    }
}

fn to_json(line: &impl Serialize) -> String {
    serde_json::to_string(line).expect("strings and numbers serialize as JSON")
}
