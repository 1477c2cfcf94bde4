//! A trace as changes: its events, and among them what is known of pods that it has no objects of.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use kubernetes::pod_lives::Ran;
use model::{BadObject, Key, Moment, Object, Observed, What};
use serde_json::Value;

use super::bytes::Bytes;
use super::config::{TracerConfig, kept};
use super::cursor::Cursor;
use super::event::{Event, object};
use super::json::Json;
use super::lives::{Lives, Turn, start};
use super::msgpack::Msgpack;
use super::outline::outline;
use super::owners::Owners;
use super::pods;
use crate::input::FileOnDisk;
use crate::{Error, Given, Input, Item, Result};

/// Reads a trace.
///
/// It holds the lives, the objects that own them, and the names of all objects that are there.
pub(super) struct Reader {
    cursor: Box<dyn Cursor>,
    /// Keeps a copy of the file alive.
    _file: FileOnDisk,
    source: Arc<str>,
    config: TracerConfig,
    owners: Owners,
    lives: Lives,
    /// The objects that are there.
    present: HashSet<Key>,
    /// The specs of the pods made up whose lives have an end to come, by the life.
    standing: HashMap<usize, Option<Arc<Value>>>,
    step: Step,
    /// What comes next.
    ready: VecDeque<Item>,
    json: Vec<u8>,
    /// What keeps the configuration, until it is told.
    kept: Option<Object>,
    /// When the trace begins.
    first: Moment,
}

/// Where in the events the reading is.
#[derive(Clone, Copy)]
enum Step {
    /// Before an event, or at the end of all.
    Between,
    /// Before what an event applies.
    Before(Event),
    Applying(Event),
    /// Before what it deletes.
    Applied(Event),
    Deleting(Event),
    /// After all events.
    After,
    End,
}

// === impl Reader ===

impl Reader {
    pub(super) fn new(input: Input, given: Given) -> Result<Reader> {
        let name = input.name.clone();
        let file = input.into_file()?;
        let mut bytes = Bytes::open(&name, &file.path)?;
        if bytes.some_more()?.starts_with(b"\xef\xbb\xbf") {
            bytes.consume(3);
        }
        let mut cursor: Box<dyn Cursor> = match bytes.some_more()?[0] {
            b'{' | b'[' | b' ' | b'\t' | b'\r' | b'\n' => Box::new(Json::new(bytes)),
            _ => Box::new(Msgpack::new(bytes)),
        };
        let outline = outline(&mut *cursor)?;
        let config = TracerConfig::of_trace(&outline.config)
            .map_err(|why| Error::unfit(&name, format!("config: {why}")))?;
        let mut owners = Owners::new(outline.owners);
        if !owners.list.is_empty() {
            cursor.go_to(outline.events)?;
            owners.find_in_events(&mut *cursor)?;
        }
        cursor.go_to(outline.events)?;
        cursor.enter()?;
        let step = if cursor.more()? { Step::Before(Event::look(&mut *cursor)?) } else { Step::After };
        let first_event = match step {
            Step::Before(event) => Some(event.at),
            _ => None,
        };
        let first_life =
            outline.lives.iter().map(|life| start(life.ran)).filter(|at| *at > Moment::MIN).min();
        let first = first_event.into_iter().chain(first_life).min();
        let kept = kept(&outline.config).map_err(|error| Error::unfit(&name, format!("config: {error}")))?;
        Ok(Reader {
            cursor,
            _file: file,
            source: given.source,
            config,
            owners,
            lives: Lives::new(outline.lives),
            present: HashSet::new(),
            standing: HashMap::new(),
            step,
            ready: VecDeque::new(),
            json: Vec::new(),
            kept: Some(kept),
            first: first.or(given.at).unwrap_or(given.now),
        })
    }

    fn read(&mut self) -> Result<Option<Item>> {
        while self.ready.is_empty() {
            match self.step {
                Step::Between => {
                    self.step = if self.cursor.more()? {
                        Step::Before(Event::look(&mut *self.cursor)?)
                    } else {
                        Step::After
                    };
                }
                Step::Before(event) => {
                    if self.turn(event.at.plus_nanos(-1))? {
                        continue;
                    }
                    self.cursor.go_to(event.applied)?;
                    self.cursor.enter_list("applied_objs")?;
                    self.step = Step::Applying(event);
                }
                Step::Applying(event) => {
                    if self.cursor.more()? {
                        let object = self.object()?;
                        self.applied(event.at, object)?;
                    } else {
                        self.step = Step::Applied(event);
                    }
                }
                Step::Applied(event) => {
                    // A pod that was created, ran and was deleted in one second did so in this order.
                    if self.turn(event.at)? {
                        continue;
                    }
                    self.cursor.go_to(event.deleted)?;
                    self.cursor.enter_list("deleted_objs")?;
                    self.step = Step::Deleting(event);
                }
                Step::Deleting(event) => {
                    if self.cursor.more()? {
                        let object = self.object()?;
                        self.deleted(event.at, object)?;
                    } else {
                        self.cursor.go_to(event.end)?;
                        self.step = Step::Between;
                    }
                }
                Step::After => {
                    if !self.turn(Moment::MAX)? {
                        self.tell_kept(self.first);
                        self.step = Step::End;
                    }
                }
                Step::End => break,
            }
        }
        Ok(self.ready.pop_front())
    }

    /// The object that comes next.
    fn object(&mut self) -> Result<Object> {
        self.cursor.value(&mut self.json)?;
        object(&*self.cursor, &self.json)
    }

    fn applied(&mut self, at: Moment, object: Object) -> Result<()> {
        let key = object.key(&self.source);
        let what = if self.present.insert(key.clone()) { What::Added } else { What::Modified };
        self.tell(at, key, what(object.clone()), false);
        if let Some(place) = self.owners.find(&object) {
            let owner = &mut self.owners.list[place];
            owner.is_now(&object);
            if let Some((life, ran)) = owner.life {
                let pod = pods::with_life(&object, self.lives.get(life), ran)
                    .map_err(|error| self.unmade(&error))?;
                self.infer(at, What::Modified(pod));
            }
        }
        Ok(())
    }

    fn deleted(&mut self, at: Moment, object: Object) -> Result<()> {
        let key = object.key(&self.source);
        if self.present.remove(&key)
            && let Some(place) = self.owners.find(&object)
            && let Some((life, Ran::Since(_))) = self.owners.list[place].life.take()
        {
            // What ends with the deletion may be stamped a second later, by another clock.
            let (owner, life) = (&self.owners.list[place], self.lives.get(life));
            if let (Some(pod), Ran::Between(..)) = (&owner.object, life.ran) {
                let pod = pods::with_life(pod, life, life.ran).map_err(|error| self.unmade(&error))?;
                self.infer(at, What::Modified(pod));
            }
        }
        self.tell(at, key, What::Deleted(object), false);
        Ok(())
    }

    /// Takes the next turn in a pod's life up to and at this moment; `false` if there is none.
    fn turn(&mut self, until: Moment) -> Result<bool> {
        let Some(turn) = self.lives.next(until) else { return Ok(false) };
        let place = self.lives.get(turn.life).owner as usize;
        let told = if self.owners.list[place].owner.is_pod() {
            self.turn_of_itself(&turn, place)
        } else {
            self.turn_of_owned(&turn, place)
        };
        told.map_err(|error| self.unmade(&error))?;
        Ok(true)
    }

    /// A pod without an owner. If the trace has it, its life is told of that object, and not before it is there.
    fn turn_of_itself(&mut self, turn: &Turn, place: usize) -> std::result::Result<(), BadObject> {
        let life = self.lives.get(turn.life);
        let known = &mut self.owners.list[place];
        let ends = matches!(turn.ran, Ran::Between(..));
        if ends && known.life.is_none_or(|(life, _)| life != turn.life) {
            return Ok(());
        }
        known.life = Some((turn.life, turn.ran));
        let what = match &known.object {
            None => {
                let pod = pods::made_up(&known.owner, known.owner.gvk.as_ref(), life, None, turn.ran)?;
                known.object = Some(pod.clone());
                self.present.insert(pod.key(&self.source));
                What::Added(pod)
            }
            Some(pod) if self.present.contains(&pod.key(&self.source)) => {
                What::Modified(pods::with_life(pod, life, turn.ran)?)
            }
            Some(_) => return Ok(()),
        };
        self.infer(turn.at.max(self.first), what);
        Ok(())
    }

    fn turn_of_owned(&mut self, turn: &Turn, place: usize) -> std::result::Result<(), BadObject> {
        let life = self.lives.get(turn.life);
        let known = &mut self.owners.list[place];
        let ends = matches!(turn.ran, Ran::Between(..));
        let spec = if ends {
            self.standing.remove(&turn.life).expect("a life ends after it began")
        } else {
            known.spec(life.hash, &self.config)
        };
        let gvk = known.gvk(&self.config);
        let pod = pods::made_up(&known.owner, gvk.as_ref(), life, spec.as_deref(), turn.ran)?;
        if !ends && matches!(life.ran, Ran::Between(..)) {
            self.standing.insert(turn.life, spec);
        }
        let what = if ends { What::Modified(pod) } else { What::Added(pod) };
        self.infer(turn.at.max(self.first), what);
        Ok(())
    }

    fn infer(&mut self, at: Moment, what: What) {
        let key = what.object().key(&self.source);
        self.tell(at, key, what, true);
    }

    fn tell(&mut self, seen: Moment, key: Key, what: What, inferred: bool) {
        self.tell_kept(seen);
        self.ready.push_back(Item::Change(Observed { seen, key, what, inferred }));
    }

    /// Tells the configuration, once: with the first thing there is to tell, as the mark at a trace's beginning may lie
    /// long before it.
    fn tell_kept(&mut self, seen: Moment) {
        if let Some(kept) = self.kept.take() {
            let key = kept.key(&self.source);
            let what = What::Added(kept);
            self.ready.push_back(Item::Change(Observed { seen, key, what, inferred: true }));
        }
    }

    fn unmade(&self, error: &BadObject) -> Error {
        self.cursor.bad(format!("the pods of pod_lifecycles cannot be made up: {error}"))
    }
}

impl Iterator for Reader {
    type Item = Result<Item>;

    fn next(&mut self) -> Option<Result<Item>> {
        let read = self.read();
        if read.is_err() {
            self.step = Step::End;
            self.ready.clear();
        }
        read.transpose()
    }
}
