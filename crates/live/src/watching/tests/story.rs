//! Random stories of a server, told through random faults and restarts: nothing is lost unsaid, nothing is told twice.

use std::collections::{BTreeMap, HashSet};

use model::Gap;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

/// Something that happened on the server.
#[derive(Clone, Debug)]
struct Happened {
    version: u64,
    at: Moment,
    word: &'static str,
    uid: String,
}

/// The server, the recorder's disk and the world's chance.
struct World {
    chance: Pcg64,
    now: Moment,
    version: u64,
    /// Uid and version by name.
    objects: BTreeMap<String, (String, u64)>,
    log: Vec<Happened>,
    /// Watches from before this are too old.
    floor: u64,
    /// The objects shown by the list that is being read, and its version.
    snapshot: (Vec<String>, u64),
    disk: Vec<Told>,
    /// Since when the server was first seen, by its version.
    first_list: Option<u64>,
    faults: u32,
    /// Some servers send none.
    has_bookmarks: bool,
}

impl World {
    fn one_in(&mut self, count: u32) -> bool {
        self.chance.random_range(0..count) == 0
    }

    fn fault(&mut self, one_in: u32) -> bool {
        let happens = self.faults > 0 && self.one_in(one_in);
        self.faults -= u32::from(happens);
        happens
    }

    fn pass_time(&mut self) {
        self.now = self.now.plus_nanos(self.chance.random_range(1..2_000_000_000));
    }

    /// Something happens, as long as things go wrong too.
    fn live(&mut self) {
        for _ in 0..self.chance.random_range(0..3) {
            self.pass_time();
            if self.faults == 0 {
                return;
            }
            let name = ["a", "b", "c", "d", "e"][self.chance.random_range(0..5)];
            self.version += self.chance.random_range(1..4);
            let version = self.version;
            let (word, uid) = match self.objects.get(name).cloned() {
                None => ("ADDED", format!("{name}-{version}")),
                Some((uid, _)) if self.one_in(3) => ("DELETED", uid),
                Some((uid, _)) => ("MODIFIED", uid),
            };
            match word {
                "DELETED" => drop(self.objects.remove(name)),
                _ => drop(self.objects.insert(name.to_owned(), (uid.clone(), version))),
            }
            self.log.push(Happened { version, at: self.now, word, uid });
        }
        if self.fault(20) {
            self.floor = self.version;
        }
    }

    fn failure(&mut self) -> Failure {
        let with = [None, Some(429), Some(500), Some(503), Some(401), Some(403), Some(404), Some(410)];
        let status = with[self.chance.random_range(0..with.len())];
        Failure { status, words: "no".to_owned(), retry_after: None }
    }

    fn list(&mut self, watching: &mut Watching, after: Option<String>) -> Option<Ask> {
        self.live();
        if self.fault(5) {
            let failure = self.failure();
            return self.reply(watching, Reply::Failed(failure));
        }
        let start: usize = after.as_deref().map_or(0, |mark| mark.parse().unwrap());
        if start == 0 {
            let shown = self.objects.values().map(|(uid, version)| format!("{uid}@{version}"));
            self.snapshot = (shown.collect(), self.version);
            self.first_list.get_or_insert(self.version);
        }
        let (all, version) = self.snapshot.clone();
        let end = (start + self.chance.random_range(1..4)).min(all.len());
        let next = if end < all.len() { end.to_string() } else { String::new() };
        let pods: Vec<&str> = all[start..end].iter().map(String::as_str).collect();
        self.reply(watching, Reply::Page(page(&version.to_string(), &next, &pods).as_bytes()))
    }

    fn watch(&mut self, watching: &mut Watching, from: &str) -> Option<Ask> {
        let mut from: u64 = from.parse().unwrap();
        if self.fault(5) {
            let failure = self.failure();
            return self.reply(watching, Reply::Failed(failure));
        }
        if from < self.floor && self.one_in(2) {
            return self.reply(watching, Reply::Failed(status(410)));
        }
        if let Some(ask) = self.reply(watching, Reply::Opened) {
            return Some(ask);
        }
        if from < self.floor {
            return self.reply(watching, Reply::Line(GONE.as_bytes()));
        }
        loop {
            self.live();
            let next = self.log.iter().find(|one| one.version > from).cloned();
            let text = match next {
                Some(next) => {
                    from = next.version;
                    line(next.word, &format!("{}@{}", next.uid, next.version))
                }
                None if self.faults == 0 => return None,
                None if self.has_bookmarks => {
                    from = self.version;
                    bookmark(&from.to_string())
                }
                // After a while it ends.
                None if self.one_in(4) => return self.reply(watching, Reply::Ended),
                None => {
                    self.now = self.now.plus_nanos(60_000_000_000);
                    continue;
                }
            };
            let heard = match self.chance.random_range(0..8) {
                0 if self.fault(1) => Some(Reply::Ended),
                1 if self.fault(1) => Some(Reply::Line(&text.as_bytes()[..text.len() / 2])),
                2 if self.fault(1) => Some(Reply::Line(GONE.as_bytes())),
                3 if self.fault(1) => {
                    self.reply(watching, Reply::Line(text.as_bytes()));
                    Some(Reply::Line(text.as_bytes()))
                }
                _ => None,
            };
            if let Some(ask) = self.reply(watching, heard.unwrap_or(Reply::Line(text.as_bytes()))) {
                return Some(ask);
            }
            if self.one_in(6) {
                self.disk.push(watching.take());
            }
        }
    }

    fn reply(&mut self, watching: &mut Watching, reply: Reply<'_>) -> Option<Ask> {
        self.pass_time();
        watching.hear(reply, self.now, self.chance.random())
    }

    fn changes(&self) -> impl Iterator<Item = &Observed> {
        self.disk.iter().flat_map(|told| &told.news.changes)
    }

    /// What the disk knows, for a recorder that was killed.
    fn restarted(&self) -> Watching {
        let mut objects = HashMap::new();
        for change in self.changes() {
            let (name, seen) = identity(change.what.object());
            match change.what {
                What::Added(_) | What::Modified(_) => drop(objects.insert(name, seen)),
                What::Deleted(_) => drop(objects.remove(&name)),
            }
        }
        let position = self.disk.iter().rev().find_map(|told| told.news.positions.first());
        Watching::new(subject(), position.map(|(_, position)| &**position), objects, None)
    }
}

fn check(seed: u64) -> Result<(), TestCaseError> {
    let mut world = World {
        chance: Pcg64::seed_from_u64(seed),
        now: moment(1000),
        version: 10,
        objects: BTreeMap::new(),
        log: Vec::new(),
        floor: 0,
        snapshot: (Vec::new(), 0),
        disk: Vec::new(),
        first_list: None,
        faults: 40,
        has_bookmarks: seed.is_multiple_of(2),
    };
    world.live();
    let mut watching = Watching::new(subject(), None, [], None);
    let mut ask = watching.ask(0.5);
    for _ in 0..2_000 {
        let next = match ask {
            Ask::Wait(wait) => {
                world.now = world.now.plus_nanos(wait.as_nanos() as i64);
                world.live();
                Some(watching.ask(0.5))
            }
            Ask::List { after, .. } => world.list(&mut watching, after),
            Ask::Watch { from, .. } => world.watch(&mut watching, &from),
        };
        if world.one_in(2) || next.is_none() {
            world.disk.push(watching.take());
        }
        let Some(next) = next else { break };
        ask = next;
        if world.fault(10) {
            watching = world.restarted();
            // Who has seen nothing has missed nothing.
            if world.disk.iter().all(|told| told.news.changes.is_empty() && told.news.positions.is_empty()) {
                world.first_list = None;
            }
            ask = watching.ask(0.5);
        }
    }

    let mut state: BTreeMap<String, (String, u64)> = BTreeMap::new();
    let mut told: HashSet<(&str, String, String)> = HashSet::new();
    for change in world.changes() {
        let meta = change.what.object().meta();
        let (name, uid) = (meta.name.into_owned(), meta.uid.unwrap().into_owned());
        let version = meta.resource_version.unwrap().into_owned();
        match change.what {
            What::Added(_) | What::Modified(_) => {
                drop(state.insert(name, (uid.clone(), version.parse().unwrap())))
            }
            What::Deleted(_) => drop(state.remove(&name)),
        }
        let what =
            if change.what.state().is_some() { ("is", uid, version) } else { ("was", uid, String::new()) };
        prop_assert!(told.insert(what.clone()), "told twice: {what:?}");
    }
    prop_assert_eq!(&state, &world.objects);

    let gaps: Vec<&Gap> = world.disk.iter().flat_map(|told| &told.news.gaps).collect();
    let mut seen_before = Moment::MIN;
    let first = world.first_list.unwrap_or(u64::MAX);
    for one in world.log.iter().filter(|one| one.version > first) {
        let is_it = |change: &&Observed| {
            let meta = change.what.object().meta();
            let is_delete = change.what.state().is_none();
            !change.inferred
                && meta.uid.as_deref() == Some(&one.uid)
                && (is_delete == (one.word == "DELETED"))
                && meta.resource_version.as_deref() == Some(&one.version.to_string())
        };
        match world.changes().find(is_it) {
            Some(change) => seen_before = seen_before.max(change.seen),
            None => {
                // It would have been seen after it happened, and after what was seen before it.
                let due = one.at.max(seen_before);
                let is_covered = gaps.iter().any(|gap| gap.from <= due && one.at <= gap.to);
                prop_assert!(is_covered, "missed unsaid: {one:?}, gaps {gaps:?}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]
    #[test]
    fn nothing_is_lost_unsaid_and_nothing_is_told_twice(seed: u64) {
        check(seed)?;
    }
}
