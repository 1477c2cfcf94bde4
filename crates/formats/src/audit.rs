//! The audit log of a Kubernetes API server: who wrote to which object, and when.
//!
//! Each successful write becomes a version of an object of the kind [`kind`], one object for each object that was written
//! to: as many are there as the cluster has objects, however long the log is. Bodies of requests and responses are left
//! out, whatever the level of the audit policy: the recording has the objects, and a log may hold Secrets.

mod event;
#[cfg(test)]
mod tests;

use std::collections::{HashSet, VecDeque};

use model::{Kind, Moment, Object, Observed, What};

use self::event::{AuditEvent, Ignored, NoEvent, Target};
use crate::values::Values;
use crate::{Given, Input, Item, Items, LeftOut, Result};

const API_VERSION: &str = "kinescope.io/v1";
const KIND: &str = "AuditEvent";
/// The name that stands for all objects of a resource in a namespace.
const ALL: &str = "*";

/// A write, as a history keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditedWrite {
    /// When the API server received the request.
    pub received: Moment,
    /// `create`, `update`, `patch`, `delete` or `deletecollection`.
    pub verb: String,
    /// `status`, `binding`, `eviction`; empty for the object itself.
    pub subresource: String,
    /// Who was authenticated.
    pub user: String,
    /// Whom they acted as, if not themselves.
    pub impersonated_user: Option<String>,
    /// The program, as it names itself.
    pub user_agent: String,
    /// Where the request came from.
    pub source_ips: Vec<String>,
    /// The API server's number of the request.
    pub audit_id: String,
    /// The version that the write made, if the log holds responses.
    pub resource_version: Option<String>,
}

/// Reads a log.
struct Reader {
    values: Values,
    writes: Writes,
    ended: bool,
}

/// The writes among the events of a log.
struct Writes {
    given: Given,
    /// Those that have not been given yet.
    ready: VecDeque<Item>,
    /// Names of targets that have not been deleted.
    alive: HashSet<(String, String)>,
    left_out: LeftOut,
    /// Objects whose names the API server made up, and the log does not tell.
    unnamed: u64,
    /// The last line is not whole.
    is_cut_off: bool,
}

/// The kind of objects that keep writes.
pub fn kind() -> Kind {
    Kind::of(API_VERSION, KIND)
}

/// The names of the objects that keep the writes to one object: of those to itself, and of those to all of its resource
/// and namespace. `resource` is named as kubectl names it, `deployments.apps`.
pub fn names(resource: &str, name: &str) -> [String; 2] {
    [format!("{resource}:{name}"), format!("{resource}:{ALL}")]
}

/// What a log says.
pub fn read(input: Input, given: Given) -> Items {
    let writes = Writes {
        given,
        ready: VecDeque::new(),
        alive: HashSet::new(),
        left_out: LeftOut::default(),
        unnamed: 0,
        is_cut_off: false,
    };
    Box::new(Reader { values: Values::new(&input.name, input.reader), writes, ended: false })
}

/// What several logs say, in the order of time: those of several API servers overlap.
pub fn merge(logs: Vec<Items>) -> Items {
    let mut logs: Vec<_> = logs.into_iter().map(Iterator::peekable).collect();
    Box::new(std::iter::from_fn(move || {
        // What has no time, an error or a warning, comes at once.
        let next = |log: &mut std::iter::Peekable<Items>| match log.peek() {
            None => None,
            Some(Ok(Item::Change(observed))) => Some(observed.seen),
            Some(_) => Some(Moment::MIN),
        };
        let times = logs.iter_mut().map(next).enumerate();
        let (first, _) = times.filter_map(|(log, time)| Some((log, time?))).min_by_key(|(_, time)| *time)?;
        logs[first].next()
    }))
}

// === impl AuditedWrite ===

impl AuditedWrite {
    /// What an object of [`kind`] keeps; `None` if it is none.
    pub fn kept_in(object: &Object) -> Option<AuditedWrite> {
        event::kept_in(object.as_str())
    }
}

// === impl Reader ===

impl Iterator for Reader {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
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

impl Reader {
    fn read(&mut self) -> Result<()> {
        let Some((line, text)) = self.values.next()? else {
            self.ended = true;
            self.writes.sum_up(self.values.file());
            return Ok(());
        };
        let taken = self.writes.take(text);
        taken.map_err(|why| self.values.bad(line, why))
    }
}

// === impl Writes ===

impl Writes {
    fn take(&mut self, text: &str) -> std::result::Result<(), String> {
        let events = match event::parse(text) {
            Ok(events) => events,
            // Values are read until they are whole, so this is the last one.
            Err(NoEvent::CutOff) => {
                self.is_cut_off = true;
                return Ok(());
            }
            Err(NoEvent::Because(why)) => return Err(why),
        };
        for event in events {
            match event.write() {
                Ok(target) => {
                    let change = self.change(&target, &event)?;
                    self.ready.push_back(Item::Change(change));
                }
                Err(Ignored::OtherStage) => {}
                Err(Ignored::Unnamed) => self.unnamed += 1,
                Err(Ignored::Because(what)) => self.left_out.count(what),
            }
        }
        Ok(())
    }

    /// A write as a version of the object that keeps it.
    fn change(&mut self, target: &Target, event: &AuditEvent<'_>) -> std::result::Result<Observed, String> {
        let Target { namespace, resource, name } = target;
        let name = format!("{resource}:{}", name.as_deref().unwrap_or(ALL));
        let object = Object::parse(&event.kept(namespace, &name)?).map_err(|error| error.to_string())?;
        let key = (namespace.clone(), name);
        let what = if event.deletes() {
            self.alive.remove(&key);
            What::Deleted(object)
        } else if self.alive.insert(key) {
            What::Added(object)
        } else {
            What::Modified(object)
        };
        let observed = Observed::received(event.completed()?, &self.given.source, what);
        // The server has no such object.
        Ok(Observed { inferred: true, ..observed })
    }

    /// Tells what was left out.
    fn sum_up(&mut self, file: &str) {
        let left_out: Vec<String> =
            self.left_out.iter().map(|(what, count)| format!("{count} {what}")).collect();
        if !left_out.is_empty() {
            self.ready.push_back(Item::Warning(format!("{file}: left out: {}", left_out.join(", "))));
        }
        if self.is_cut_off {
            let text = format!(
                "{file}: the last line is cut off, and left out: import the log again when it is whole"
            );
            self.ready.push_back(Item::Warning(text));
        }
        if self.unnamed > 0 {
            self.ready.push_back(Item::Warning(format!(
                "{file}: who created {} objects is not known: the API server made up their names, which a log has only \
                 where its policy says level: RequestResponse",
                self.unnamed
            )));
        }
    }
}
