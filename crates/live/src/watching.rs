//! What to ask an API server about one kind, and what its answers mean: told changes, gaps and positions.
//!
//! There is no socket, clock or chance in here. Answers come in with the moment they were seen, questions go out.

mod failure;
mod reading;
#[cfg(test)]
mod tests;
mod trouble;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use model::{Kind, Moment, Object, Observed, What};

use crate::news::{Name, News, Seen, State};
pub use failure::Failure;
use reading::{Line, Page, Word};

/// What is watched.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The recording.
    pub source: Arc<str>,
    /// `v1`, `apps/v1`: as asked for, and as added to the items of lists, which carry none.
    pub api_version: String,
    /// Group and kind.
    pub kind: Kind,
    /// Which objects are told of. It sees every version of every object, before anything is remembered of it.
    pub keep: fn(&Object) -> bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// List objects, going on after a page if there was one.
    List {
        /// The mark at the end of that page.
        after: Option<String>,
        /// How many at most.
        limit: u32,
    },
    /// Watch, with bookmarks.
    Watch {
        /// The version to go on from.
        from: String,
        /// When the server shall end it.
        seconds: u32,
    },
    /// Wait this long, then do what [`Watching::ask`] says.
    Wait(Duration),
}

/// What came back.
#[derive(Clone, Debug)]
pub enum Reply<'a> {
    /// A page of a list, whole.
    Page(&'a [u8]),
    /// The server has begun to answer a watch.
    Opened,
    /// A line of a watch.
    Line(&'a [u8]),
    /// The watch is over, in order or not.
    Ended,
    /// There is no answer, or a refusal.
    Failed(Failure),
}

/// What was heard since it was last taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// What was learnt.
    pub news: News,
    /// What a user should know of.
    pub troubles: Vec<String>,
}

/// The watching of one kind, or of one namespace of it.
///
/// Of each object it remembers the name, uid and version: its memory follows the cluster, not the number of changes.
#[derive(Debug)]
pub struct Watching {
    subject: Subject,
    objects: HashMap<Name, Entry>,
    /// Counts the lists begun.
    round: u32,
    doing: Doing,
    /// When the server last said something.
    heard: Option<Moment>,
    /// All that happened up to this moment has been told.
    sure: Option<Moment>,
    lost: Option<Lost>,
    /// Failures since a watch last said something. A list that went well is not enough: it may be the watch that fails.
    failures: u32,
    /// A list was begun again since then.
    is_listed_anew: bool,
    /// The failure that is being waited out, and since when there has been no answer.
    waiting: Option<(Failure, Moment)>,
    /// How often the server could not say what came after the position.
    stumbles: u32,
    /// The last watch was cut short, though it had something to say.
    was_short: bool,
    /// How many objects to ask for at once.
    limit: u32,
    /// Those deleted at the very version that the position is: the only ones that could come again unnoticed.
    just_deleted: HashSet<Box<str>>,
    told: Told,
}

#[derive(Debug)]
struct Entry {
    seen: Seen,
    /// The last list it was in.
    round: u32,
}

#[derive(Debug)]
enum Doing {
    /// `began` is when the first page came, and its version: all pages show the cluster as it was before that, and
    /// where they do not, all that came later will be told again.
    Listing { after: Option<String>, began: Option<(Moment, String)> },
    Watching {
        from: String,
        stream: Option<Stream>,
        /// The server may be behind that version: it is asked where it stands before it is believed again.
        is_doubted: bool,
    },
}

/// A watch that the server has begun to answer.
#[derive(Debug)]
struct Stream {
    opened: Moment,
    /// When its last line came, or it was opened.
    last: Moment,
    has_lines: bool,
    has_bookmarks: bool,
    /// The server has sent what had happened before; what comes now happens now.
    is_live: bool,
    /// Nobody listened for a while: what comes now, bookmarks too, had been waiting.
    is_late: bool,
}

/// What is going on is not known.
#[derive(Debug)]
struct Lost {
    /// How far gaps have been told of it.
    since: Moment,
    why: String,
    /// The user has been told that something must be done.
    is_said: bool,
}

/// How many objects a page of a list has at most.
const PAGE: u32 = 500;
/// A version after which the server could not go on this often is given up.
const STUMBLES: u32 = 5;
/// A server that says nothing for this long after the end of a watch has gone without saying so.
const GRACE: Duration = Duration::from_secs(15);
/// One that sends bookmarks sends one a minute.
const HEARTBEATS: i64 = 150_000_000_000;
/// A watch that lasted this long has worked, though nothing happened in it.
const LASTED: i64 = 5_000_000_000;
/// What had happened before is sent without such a pause.
const PAUSE: i64 = 1_000_000_000;
/// How often a long time in the dark is told, so that a recorder that is killed has told most of it.
const LONG_DARK: i64 = 3_600_000_000_000;

// === impl Watching ===

impl Watching {
    /// Goes on from a position as it was told and what was known there; without one with a list.
    ///
    /// A position is `7@2026-11-01T14:03:00Z`: the version to go on from, empty in the middle of a list, and the moment
    /// up to which all was told. `until` stands in for a moment that is missing.
    pub fn new(
        subject: Subject,
        position: Option<&str>,
        objects: impl IntoIterator<Item = (Name, Seen)>,
        until: Option<Moment>,
    ) -> Watching {
        let (version, moment) = position.map_or(("", None), |text| match text.split_once('@') {
            Some((version, moment)) => (version, moment.parse().ok()),
            None => (text, None),
        });
        let heard = moment.or(until);
        let objects = objects.into_iter().map(|(name, seen)| (name, Entry { seen, round: 0 })).collect();
        let (doing, lost) = match version {
            "" => {
                let why = "the recorder did not know where to go on".to_owned();
                let lost = heard.map(|since| Lost { since, why, is_said: false });
                (Doing::listing(), lost)
            }
            from => (Doing::watching(from.to_owned()), None),
        };
        Watching {
            subject,
            objects,
            round: 1,
            doing,
            heard,
            sure: heard,
            lost,
            failures: 0,
            is_listed_anew: false,
            waiting: None,
            stumbles: 0,
            was_short: false,
            limit: PAGE,
            just_deleted: HashSet::new(),
            told: Told::default(),
        }
    }

    /// Says why nothing is known of the time before the first list, if that is not for want of a position.
    pub fn because(mut self, why: String) -> Watching {
        if let Some(lost) = &mut self.lost {
            lost.why = why;
        }
        self
    }

    /// From now on it is asked for in this version of its API.
    pub fn ask_in(&mut self, api_version: String) {
        self.subject.api_version = api_version;
    }

    /// What to ask now. `chance` is between 0 and 1: watches should not all end together.
    pub fn ask(&self, chance: f64) -> Ask {
        match &self.doing {
            Doing::Listing { after, .. } => Ask::List { after: after.clone(), limit: self.limit },
            Doing::Watching { is_doubted: true, .. } => Ask::List { after: None, limit: 1 },
            Doing::Watching { from, .. } => {
                Ask::Watch { from: from.clone(), seconds: 240 + (chance.clamp(0.0, 1.0) * 60.0) as u32 }
            }
        }
    }

    /// Takes what came back. `None`: go on reading the same answer. `chance` is between 0 and 1, for how long to wait.
    pub fn hear(&mut self, reply: Reply<'_>, now: Moment, chance: f64) -> Option<Ask> {
        // Whoever says where it stands cannot yet be watched.
        let is_look = matches!((&reply, &self.doing), (Reply::Page(_), Doing::Watching { .. }));
        if !is_look && !matches!(reply, Reply::Failed(_) | Reply::Ended) {
            self.waiting = None;
        }
        match reply {
            Reply::Page(bytes) => match Page::read(bytes) {
                Ok(page) if is_look => self.looked(&page.version, now),
                Ok(page) => self.page(page, now),
                Err(error) => return Some(self.fail(Failure::said(error.to_string()), now, chance)),
            },
            Reply::Opened => {
                if let Doing::Watching { stream, .. } = &mut self.doing {
                    *stream = Some(Stream {
                        opened: now,
                        last: now,
                        has_lines: false,
                        has_bookmarks: false,
                        is_live: false,
                        is_late: false,
                    });
                }
                // Whatever happened in the meantime will now be told.
                self.found(now);
                return None;
            }
            Reply::Line(bytes) => match Line::read(bytes) {
                Ok(Line::Object(word, object)) => {
                    self.recovered();
                    self.event(word, object, now);
                    return None;
                }
                Ok(Line::Bookmark(version)) => {
                    self.recovered();
                    self.lined(now, true);
                    self.reached(version);
                    return None;
                }
                Ok(Line::Unkept(version, why)) => {
                    self.unreadable(&why, now);
                    self.lined(now, false);
                    self.reached(version);
                    return None;
                }
                Ok(Line::Error(failure)) => return Some(self.fail(failure, now, chance)),
                // It may come right the next time.
                Err(error) => return Some(self.stumble(Failure::said(error.to_string()), now, chance)),
            },
            Reply::Ended => return Some(self.ended(now, chance)),
            Reply::Failed(failure) => return Some(self.fail(failure, now, chance)),
        }
        Some(self.ask(chance))
    }

    /// Nobody will listen any more: a time in the dark that has not ended is told up to now.
    pub fn stop(&mut self, now: Moment) {
        self.tell_lost(now);
    }

    /// Gives up what was heard since this was last called.
    pub fn take(&mut self) -> Told {
        let mut told = std::mem::take(&mut self.told);
        // Of a time in the dark, what has been told as a gap need not be told again.
        let said = self.lost.as_ref().map(|lost| lost.since).or(self.sure).or(self.began());
        if let Some(said) = said {
            for (_, position) in &mut told.news.positions {
                *position = format!("{position}@{said}");
            }
        }
        told
    }

    /// What waits to be taken.
    pub fn untold(&self) -> &Told {
        &self.told
    }

    /// How long a server may say nothing in a watch of so many seconds.
    pub fn patience(&self, seconds: u32) -> Duration {
        match self.doing {
            Doing::Watching { stream: Some(Stream { has_bookmarks: true, .. }), .. } => {
                Duration::from_nanos(HEARTBEATS.unsigned_abs())
            }
            // Nothing happens for hours to some kinds.
            Doing::Watching { .. } | Doing::Listing { .. } => Duration::from_secs(seconds.into()) + GRACE,
        }
    }

    /// What is being done.
    pub fn state(&self) -> State {
        match (&self.waiting, &self.doing) {
            (Some((failure, _)), _) if failure.is_refusal() => State::Forbidden,
            (Some((failure, _)), _) => State::Waiting(failure.to_string()),
            (None, Doing::Listing { .. }) => State::Listing,
            (None, Doing::Watching { .. }) => State::Watching,
        }
    }

    /// How many objects there are.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// When the server last said something.
    pub fn heard(&self) -> Option<Moment> {
        self.heard
    }

    fn page(&mut self, page: Page<'_>, now: Moment) {
        self.limit = (self.limit * 2).min(PAGE);
        // What the later pages show was so when the first one came.
        let first = self.began().unwrap_or(now);
        let is_first = self.began().is_none();
        for item in page.items {
            match reading::named(item, &self.subject.api_version, &self.subject.kind.kind) {
                Ok(object) => self.listed(object, first),
                Err(error) => self.unreadable(&error.to_string(), now),
            }
        }
        if page.next.is_some() && is_first {
            // Whoever is killed before the end of the list must not go on from the position before it: that would
            // tell the past after what the first pages showed.
            self.tell_lost(now);
            self.tell_position(String::new());
        }
        let Doing::Listing { after, began } = &mut self.doing else { return };
        let (first, version) = began.get_or_insert((now, page.version)).clone();
        match page.next {
            Some(next) => *after = Some(next),
            None => self.listed_all(version, first, now),
        }
    }

    fn listed(&mut self, object: Object, now: Moment) {
        let Some(object) = self.subject.disclosed(object) else { return };
        let (name, seen) = identity(&object);
        let round = self.round;
        match self.objects.get_mut(&name) {
            Some(entry) if entry.seen == seen => entry.round = round,
            Some(entry) if entry.seen.uid == seen.uid => {
                *entry = Entry { seen, round };
                self.tell(&name, What::Modified(object), now);
            }
            _ => {
                self.forget(&name, now);
                self.tell(&name, What::Added(object), now);
                self.objects.insert(name, Entry { seen, round });
            }
        }
    }

    fn listed_all(&mut self, version: String, began: Moment, now: Moment) {
        let round = self.round;
        let mut gone: Vec<Name> = self
            .objects
            .iter()
            .filter(|(_, entry)| entry.round != round)
            .map(|(name, _)| name.clone())
            .collect();
        gone.sort_unstable();
        for name in gone {
            self.forget(&name, now);
        }
        self.found(now);
        self.doing = Doing::watching(version.clone());
        (self.heard, self.sure) = (Some(now), Some(began));
        self.reached(version);
    }

    fn event(&mut self, word: Word, object: Object, now: Moment) {
        let (name, seen) = identity(&object);
        match &*seen.resource_version {
            "" => self.unreadable("an event without a resourceVersion", now),
            version => {
                // What comes again says nothing of the time since.
                if !self.is_past(version) {
                    self.lined(now, false);
                }
                self.reached(version.to_owned());
            }
        }
        let Some(object) = self.subject.disclosed(object) else { return };
        let known = self.objects.get(&name).map(|entry| &entry.seen);
        let is_repeated = match word {
            Word::Added | Word::Modified => known.is_some_and(|known| {
                let is_older = is_before(&seen.resource_version, &known.resource_version);
                known == &seen || known.uid == seen.uid && is_older
            }),
            Word::Deleted => self.just_deleted.contains(&seen.uid),
        };
        if is_repeated {
            return;
        }
        if known.is_some_and(|known| known.uid != seen.uid) {
            self.forget(&name, now);
            self.miss("the server did not say when an object was deleted".to_owned(), now);
        }
        let what = match word {
            Word::Added => What::Added(object),
            Word::Modified => What::Modified(object),
            Word::Deleted => What::Deleted(object),
        };
        self.tell(&name, what, now);
        if word == Word::Deleted {
            self.objects.remove(&name);
            self.just_deleted.insert(seen.uid);
        } else {
            self.objects.insert(name, Entry { seen, round: self.round });
        }
    }

    /// Tells that an object has gone, of which the server did not say so.
    fn forget(&mut self, name: &Name, now: Moment) {
        let Some(entry) = self.objects.remove(name) else { return };
        self.told.news.changes.push(self.subject.deleted(name, &entry.seen, now));
    }

    fn tell(&mut self, name: &Name, what: What, seen: Moment) {
        let key = self.subject.key(name);
        self.told.news.changes.push(Observed { seen, key, what, inferred: false });
    }

    /// A line has come. A bookmark comes when there is nothing left to send.
    fn lined(&mut self, now: Moment, is_bookmark: bool) {
        self.heard = Some(now);
        let Doing::Watching { stream: Some(stream), .. } = &mut self.doing else { return };
        let pause = now.nanos_since(stream.last);
        if stream.has_bookmarks && pause >= HEARTBEATS {
            (stream.is_live, stream.is_late) = (false, true);
        } else if pause >= PAUSE {
            (stream.is_live, stream.is_late) = (true, false);
        } else {
            stream.is_live |= is_bookmark && !stream.is_late;
        }
        stream.has_lines = true;
        stream.has_bookmarks |= is_bookmark;
        stream.last = now;
        if stream.is_live {
            self.sure = Some(now);
        }
    }

    /// All up to this version has been told. Servers that have no versions of lists give an empty one.
    fn reached(&mut self, version: String) {
        let Doing::Watching { from, .. } = &mut self.doing else { return };
        if version.is_empty() || is_before(&version, from) {
            return;
        }
        self.stumbles = 0;
        if *from != version {
            self.just_deleted.clear();
            from.clone_from(&version);
        }
        self.tell_position(version);
    }

    fn is_past(&self, version: &str) -> bool {
        matches!(&self.doing, Doing::Watching { from, .. } if from == version || is_before(version, from))
    }

    fn tell_position(&mut self, version: String) {
        match self.told.news.positions.first_mut() {
            Some((_, position)) => *position = version,
            None => self.told.news.positions.push((self.subject.kind.clone(), version)),
        }
    }

    /// When the first page of the list came that is being read.
    fn began(&self) -> Option<Moment> {
        match &self.doing {
            Doing::Listing { began, .. } => began.as_ref().map(|(moment, _)| *moment),
            Doing::Watching { .. } => None,
        }
    }
}

// === impl Told ===

impl Told {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.news.is_empty() && self.troubles.is_empty()
    }
}

// === impl Doing ===

impl Doing {
    fn listing() -> Doing {
        Doing::Listing { after: None, began: None }
    }

    fn watching(from: String) -> Doing {
        Doing::Watching { from, stream: None, is_doubted: false }
    }
}

fn identity(object: &Object) -> (Name, Seen) {
    let meta = object.meta();
    let name = ((*meta.namespace).into(), (*meta.name).into());
    let uid = meta.uid.as_deref().unwrap_or_default().into();
    (name, Seen { uid, resource_version: meta.resource_version.as_deref().unwrap_or_default().into() })
}

/// Whether a version came before another. Those that are no numbers cannot be compared.
fn is_before(one: &str, other: &str) -> bool {
    matches!((one.parse::<u64>(), other.parse::<u64>()), (Ok(one), Ok(other)) if one < other)
}
