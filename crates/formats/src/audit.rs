//! The audit log of a Kubernetes API server: the user, the object and the time of every write.
//!
//! Each successful write becomes a version of an object of the kind [`kind`], one such object per object written to, so
//! their number follows the cluster and not the length of the log. Request and response bodies are left out, whatever
//! the level of the audit policy: the recording has the objects, and a log may hold Secrets.

mod event;
#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};

use model::{IncomingChange, Kind, Moment, Object, What};

use self::event::{AuditEvent, ParseError, SkipReason, WriteTarget};
use crate::json_values::JsonValues;
use crate::{ImportItem, ImportItems, Input, LeftOutCounts, ReadOptions, Result};

const API_VERSION: &str = "kinescope.io/v1";
const KIND: &str = "AuditEvent";
/// Stands for all objects of a resource in a namespace.
const ALL_OBJECTS: &str = "*";

/// A write, as a history stores it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedWrite {
    /// When the API server received the request.
    pub received: Moment,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// `status`, `binding`, `eviction`; empty for the object itself.
    pub subresource: String,
    /// The authenticated user.
    pub user: String,
    /// The impersonated user, if any.
    pub impersonated_user: Option<String>,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The client's addresses.
    pub source_ips: Vec<String>,
    /// The API server's ID of the request.
    pub audit_id: String,
    /// The resourceVersion after the write, if the log holds responses.
    pub resource_version: Option<String>,
}

/// Reads an audit log.
struct AuditReader {
    values: JsonValues,
    writes: WriteExtractor,
    ended: bool,
}

/// Turns the writes among a log's events into items.
struct WriteExtractor {
    options: ReadOptions,
    /// Items not yet returned.
    ready: VecDeque<ImportItem>,
    /// Namespace and name of the targets that have not been deleted.
    alive: HashSet<(String, String)>,
    left_out: LeftOutCounts,
    /// Objects whose names the API server generated and the log does not contain.
    unnamed_count: u64,
    /// The last line is truncated.
    is_truncated: bool,
}

/// The kind of the objects that store writes.
pub fn kind() -> Kind {
    Kind::of(API_VERSION, KIND)
}

/// The names of the two objects that store the writes to one object: those to the object itself, and those to all
/// objects of its resource and namespace. `resource` is written as in kubectl, `deployments.apps`.
pub fn object_names(resource: &str, name: &str) -> [String; 2] {
    [format!("{resource}:{name}"), format!("{resource}:{ALL_OBJECTS}")]
}

/// Reads the items of an audit log.
pub fn read(input: Input, options: ReadOptions) -> ImportItems {
    let writes = WriteExtractor {
        options,
        ready: VecDeque::new(),
        alive: HashSet::new(),
        left_out: LeftOutCounts::default(),
        unnamed_count: 0,
        is_truncated: false,
    };
    Box::new(AuditReader { values: JsonValues::new(&input.name, input.reader), writes, ended: false })
}

/// Merges several logs by time: those of several API servers overlap.
pub fn merge(logs: Vec<ImportItems>) -> ImportItems {
    let mut logs: Vec<_> = logs.into_iter().map(Iterator::peekable).collect();
    Box::new(std::iter::from_fn(move || {
        // Errors and warnings have no time and come at once.
        let next = |log: &mut std::iter::Peekable<ImportItems>| match log.peek() {
            None => None,
            Some(Ok(ImportItem::Change(observed))) => Some(observed.seen),
            Some(_) => Some(Moment::MIN),
        };
        let times = logs.iter_mut().map(next).enumerate();
        let (first, _) = times.filter_map(|(log, time)| Some((log, time?))).min_by_key(|(_, time)| *time)?;
        logs[first].next()
    }))
}

// === impl AuditedWrite ===

impl AuditedWrite {
    /// The write stored in an object of [`kind`]; `None` for any other object.
    pub fn from_object(object: &Object) -> Option<AuditedWrite> {
        event::parse_stored(object.as_str())
    }
}

// === impl AuditReader ===

impl Iterator for AuditReader {
    type Item = Result<ImportItem>;

    fn next(&mut self) -> Option<Result<ImportItem>> {
        loop {
            if let Some(item) = self.writes.ready.pop_front() {
                return Some(Ok(item));
            }
            if self.ended {
                return None;
            }
            if let Err(error) = self.read() {
                self.ended = true;
                return Some(Err(error));
            }
        }
    }
}

impl AuditReader {
    fn read(&mut self) -> Result<()> {
        let Some((line, text)) = self.values.next()? else {
            self.ended = true;
            self.writes.push_warnings(self.values.file());
            return Ok(());
        };
        let write = self.writes.extract(text);
        write.map_err(|why| self.values.line_error(line, why))
    }
}

// === impl WriteExtractor ===

impl WriteExtractor {
    fn extract(&mut self, text: &str) -> std::result::Result<(), String> {
        let events = match event::parse(text) {
            Ok(events) => events,
            // Values are read until they are complete, so this is the last one.
            Err(ParseError::Truncated) => {
                self.is_truncated = true;
                return Ok(());
            }
            Err(ParseError::Invalid(why)) => return Err(why),
        };
        for event in events {
            match event.target() {
                Ok(target) => {
                    let change = self.change(&target, &event)?;
                    self.ready.push_back(ImportItem::Change(change));
                }
                Err(SkipReason::OtherStage) => {}
                Err(SkipReason::Unnamed) => self.unnamed_count += 1,
                Err(SkipReason::Category(category)) => self.left_out.count(category),
            }
        }
        Ok(())
    }

    /// The write as a version of the object that stores it.
    fn change(
        &mut self,
        target: &WriteTarget,
        event: &AuditEvent<'_>,
    ) -> std::result::Result<IncomingChange, String> {
        let WriteTarget { namespace, resource, name } = target;
        let name = format!("{resource}:{}", name.as_deref().unwrap_or(ALL_OBJECTS));
        let object =
            Object::parse(&event.to_stored_json(namespace, &name)?).map_err(|error| error.to_string())?;
        let key = (namespace.clone(), name);
        let what = if event.is_delete() {
            self.alive.remove(&key);
            What::Deleted(object)
        } else if self.alive.insert(key) {
            What::Added(object)
        } else {
            What::Modified(object)
        };
        let observed = IncomingChange::received(event.completed()?, &self.options.source, what);
        // The API server has no such object.
        Ok(IncomingChange { inferred: true, ..observed })
    }

    /// Appends warnings about everything left out.
    fn push_warnings(&mut self, file: &str) {
        let left_out: Vec<String> =
            self.left_out.iter().map(|(category, count)| format!("{count} {category}")).collect();
        if !left_out.is_empty() {
            self.ready.push_back(ImportItem::Warning(format!("{file}: skipped: {}", left_out.join(", "))));
        }
        if self.is_truncated {
            let text = format!(
                "{file}: the last line is truncated and was skipped: import the log again when it is complete"
            );
            self.ready.push_back(ImportItem::Warning(text));
        }
        if self.unnamed_count > 0 {
            self.ready.push_back(ImportItem::Warning(format!(
                "{file}: the creators of {} objects are unknown: the API server generated their names, which are logged only with the audit level RequestResponse",
                self.unnamed_count
            )));
        }
    }
}
