//! A watch event a line: `{"at": …, "type": "ADDED|MODIFIED|DELETED", "object": {…}}`.
//!
//! `at` is RFC 3339 or whole microseconds since 1970. A time in which something may have been missed is
//! `{"at": …, "type": "GAP", "to": …, "kinds": […], "why": …}`, with a `to` of null while it has not ended. `source` names
//! the recording; `seen` is the time on the observer's clock where it differs from `at`; `inferred` marks what was worked
//! out rather than received. What `kubectl get --watch --output-watch-events -o json` prints is read too: values over many
//! lines, without times.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::io::Write;
use std::sync::Arc;

use model::{Change, Gap, Kind, Moment, Object, Observed, What};
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::times::newest_time;
use crate::values::Values;
use crate::{Given, Input, Item, Result, Written};

/// Reads lines.
pub struct Reader {
    values: Values,
    given: Given,
    /// The source named last: most lines name the same.
    source: Arc<str>,
    /// The time of the line above.
    last: Option<Moment>,
    /// Sources of lines without a time.
    times_inferred: BTreeSet<Arc<str>>,
}

/// Writes lines.
pub struct Writer<W> {
    out: W,
    /// Lines of this source do not name it.
    source: Option<Arc<str>>,
    count: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line<'a> {
    #[serde(default)]
    at: Option<Time>,
    #[serde(default)]
    seen: Option<Time>,
    #[serde(rename = "type", borrow)]
    word: Cow<'a, str>,
    #[serde(borrow, default)]
    object: Option<&'a RawValue>,
    #[serde(borrow, default)]
    source: Option<Cow<'a, str>>,
    #[serde(default)]
    inferred: bool,
    #[serde(default)]
    to: Option<Time>,
    #[serde(default)]
    kinds: Option<Vec<String>>,
    #[serde(default)]
    why: Option<String>,
}

/// RFC 3339, or microseconds since 1970.
struct Time(Moment);

// === impl Reader ===

impl Reader {
    /// Reads the events of a file.
    pub fn new(input: Input, given: Given) -> Reader {
        let values = Values::new(&input.name, input.reader);
        let source = given.source.clone();
        Reader { values, given, source, last: None, times_inferred: BTreeSet::new() }
    }

    fn read(&mut self) -> Result<Option<Item>> {
        loop {
            let Some((number, text)) = self.values.next()? else {
                return Ok(self.times_inferred.pop_first().map(Item::TimesInferred));
            };
            let read = serde_json::from_str::<Line<'_>>(text);
            let line = match read {
                Ok(line) => line,
                Err(error) => {
                    // Within a value the parser counts lines from its own beginning.
                    let number = number + (error.line() as u64).saturating_sub(1);
                    return Err(self.values.bad(number, format!("not an event: {error}")));
                }
            };
            let source = match &line.source {
                None => self.given.source.clone(),
                Some(name) if **name == *self.source => self.source.clone(),
                Some(name) => Arc::from(&**name),
            };
            let item = match &*line.word {
                // A bookmark is a position of the watch and no news.
                "BOOKMARK" => None,
                "GAP" => Some(gap(&line, &source)),
                _ => Some(change(&line, &source, self.given.at.or(self.last))),
            };
            let inferred = line.at.is_none();
            match item {
                None => continue,
                Some(Err(why)) => return Err(self.values.bad(number, why)),
                Some(Ok(mut item)) => {
                    if let Item::Change(observed) = &mut item {
                        if inferred {
                            if !self.times_inferred.contains(&source) {
                                self.times_inferred.insert(source.clone());
                            }
                            observed.seen = self.given.at.unwrap_or_else(|| {
                                let newest = newest_time(observed.what.object());
                                newest.max(self.last).unwrap_or(self.given.now)
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

impl Iterator for Reader {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        self.read().transpose()
    }
}

fn gap(line: &Line<'_>, source: &Arc<str>) -> std::result::Result<Item, String> {
    let Some(Time(from)) = &line.at else { return Err("a gap needs \"at\"".to_owned()) };
    let to = line.to.as_ref().map_or(Moment::MAX, |Time(to)| *to);
    if line.object.is_some() {
        return Err("a gap has no object".to_owned());
    }
    if to < *from {
        return Err(format!("a gap from {from} cannot end before that, at {to}"));
    }
    let kinds = line.kinds.iter().flatten();
    Ok(Item::Gap(Gap {
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
    line: &Line<'_>,
    source: &Arc<str>,
    otherwise: Option<Moment>,
) -> std::result::Result<Item, String> {
    let Some(object) = line.object else { return Err("an event needs an \"object\"".to_owned()) };
    let make = match &*line.word {
        "ADDED" => What::Added,
        "MODIFIED" => What::Modified,
        "DELETED" => What::Deleted,
        "ERROR" => return Err(format!("the watch ended with an error: {}", short(object.get()))),
        other => {
            return Err(format!(
                "type {:?} is none of ADDED, MODIFIED, DELETED, GAP, BOOKMARK",
                short(other)
            ));
        }
    };
    if line.to.is_some() || line.kinds.is_some() || line.why.is_some() {
        return Err("\"to\", \"kinds\" and \"why\" belong to a gap".to_owned());
    }
    let object = Object::parse(object.get()).map_err(|error| error.to_string())?;
    let at = line.at.as_ref().map(|Time(at)| *at);
    let seen = line.seen.as_ref().map(|Time(seen)| *seen).or(at).or(otherwise).unwrap_or_default();
    let observed = Observed { inferred: line.inferred, ..Observed::received(seen, source, make(object)) };
    Ok(Item::Change(observed))
}

fn short(text: &str) -> String {
    text.chars().take(200).collect()
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Time, D::Error> {
        struct Times;
        impl Visitor<'_> for Times {
            type Value = Time;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time such as \"2026-11-01T14:03:00Z\" or whole microseconds since 1970")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<Time, E> {
                text.parse().map(Time).map_err(E::custom)
            }

            fn visit_i64<E: de::Error>(self, micros: i64) -> std::result::Result<Time, E> {
                Moment::from_micros(micros).map(Time).ok_or_else(|| {
                    E::custom(format_args!("{micros} is beyond the year 2262 in microseconds since 1970"))
                })
            }

            fn visit_u64<E: de::Error>(self, micros: u64) -> std::result::Result<Time, E> {
                self.visit_i64(i64::try_from(micros).unwrap_or(i64::MAX))
            }
        }
        deserializer.deserialize_any(Times)
    }
}

// === impl Writer ===

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
    /// `None` for one that is open.
    to: Option<String>,
    kinds: Vec<String>,
    why: &'a str,
}

impl<W: Write> Writer<W> {
    /// Writes to `out`. Lines of `source` do not name it; with `None` every line does.
    pub fn new(out: W, source: Option<Arc<str>>) -> Writer<W> {
        Writer { out, source, count: 0 }
    }

    fn named<'a>(&self, source: &'a Arc<str>) -> Option<&'a str> {
        (self.source.as_ref() != Some(source)).then_some(source)
    }
}

impl<W: Write> crate::Writer for Writer<W> {
    /// The object's bytes go out as they are, but for line ends between its tokens.
    fn change(&mut self, change: &Change) -> Result<()> {
        let line = ChangeLine {
            at: change.at.to_string(),
            seen: (change.seen != change.at).then(|| change.seen.to_string()),
            source: self.named(&change.key.source),
            inferred: change.inferred,
            word: change.what.word(),
        };
        let envelope = text(&line);
        let open = envelope.strip_suffix('}').expect("a struct is written in braces");
        let object = change.what.object().as_str();
        // JSON allows no line end inside a string, so every one of them is mere space.
        let object: Cow<'_, str> = if object.contains(['\n', '\r']) {
            object.replace(['\n', '\r'], " ").into()
        } else {
            object.into()
        };
        writeln!(self.out, "{open},\"object\":{object}}}")?;
        self.count += 1;
        Ok(())
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        let line = GapLine {
            at: gap.from.to_string(),
            source: self.named(&gap.source),
            word: "GAP",
            to: (!gap.is_open()).then(|| gap.to.to_string()),
            kinds: gap.kinds.iter().map(Kind::to_string).collect(),
            why: &gap.why,
        };
        writeln!(self.out, "{}", text(&line))?;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Written> {
        self.out.flush()?;
        Ok(Written { count: self.count, ..Written::default() })
    }
}

fn text(line: &impl Serialize) -> String {
    serde_json::to_string(line).expect("texts and numbers are JSON")
}
