//! Property test with random histories of a server, random faults and restarts: every lost event lies in a gap, and
//! none is reported twice.

use std::collections::{BTreeMap, HashSet};

use model::Gap;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::*;

/// An event on the server.
#[derive(Clone, Debug)]
struct ServerEvent {
    version: u64,
    at: Moment,
    event_type: &'static str,
    uid: String,
}

/// The simulated server, the recorder's disk, and the random numbers.
struct SimulatedServer {
    rng: Pcg64,
    now: Moment,
    version: u64,
    /// Uid and version by name.
    objects: BTreeMap<String, (String, u64)>,
    log: Vec<ServerEvent>,
    /// Watches from before this version are too old.
    oldest_version: u64,
    /// The objects and version of the list that is being read.
    snapshot: (Vec<String>, u64),
    outputs_on_disk: Vec<WatchOutput>,
    /// The version of the first list.
    first_list: Option<u64>,
    faults: u32,
    /// Some servers send no bookmarks.
    has_bookmarks: bool,
}

impl SimulatedServer {
    fn one_in(&mut self, count: u32) -> bool {
        self.rng.random_range(0..count) == 0
    }

    fn fault(&mut self, one_in: u32) -> bool {
        let happens = self.faults > 0 && self.one_in(one_in);
        self.faults -= u32::from(happens);
        happens
    }

    fn pass_time(&mut self) {
        self.now = self.now.plus_nanos(self.rng.random_range(1..2_000_000_000));
    }

    /// Makes random changes, as long as there are faults left.
    fn make_changes(&mut self) {
        for _ in 0..self.rng.random_range(0..3) {
            self.pass_time();
            if self.faults == 0 {
                return;
            }
            let name = ["a", "b", "c", "d", "e"][self.rng.random_range(0..5)];
            self.version += self.rng.random_range(1..4);
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
            self.log.push(ServerEvent { version, at: self.now, event_type: word, uid });
        }
        if self.fault(20) {
            self.oldest_version = self.version;
        }
    }

    fn failure(&mut self) -> RequestFailure {
        let with = [None, Some(429), Some(500), Some(503), Some(401), Some(403), Some(404), Some(410)];
        let status = with[self.rng.random_range(0..with.len())];
        RequestFailure { status, message: "no".to_owned(), retry_after: None }
    }

    fn list(&mut self, watching: &mut KindWatch, after: Option<String>) -> Option<WatchRequest> {
        self.make_changes();
        if self.fault(5) {
            let failure = self.failure();
            return self.respond(watching, WatchResponse::Failed(failure));
        }
        let start: usize = after.as_deref().map_or(0, |mark| mark.parse().unwrap());
        if start == 0 {
            let shown = self.objects.values().map(|(uid, version)| format!("{uid}@{version}"));
            self.snapshot = (shown.collect(), self.version);
            self.first_list.get_or_insert(self.version);
        }
        let (all, version) = self.snapshot.clone();
        let end = (start + self.rng.random_range(1..4)).min(all.len());
        let next = if end < all.len() { end.to_string() } else { String::new() };
        let pods: Vec<&str> = all[start..end].iter().map(String::as_str).collect();
        self.respond(watching, WatchResponse::Page(page(&version.to_string(), &next, &pods).as_bytes()))
    }

    fn watch(&mut self, watching: &mut KindWatch, from: &str) -> Option<WatchRequest> {
        let mut from: u64 = from.parse().unwrap();
        if self.fault(5) {
            let failure = self.failure();
            return self.respond(watching, WatchResponse::Failed(failure));
        }
        if from < self.oldest_version && self.one_in(2) {
            return self.respond(watching, WatchResponse::Failed(status(410)));
        }
        if let Some(ask) = self.respond(watching, WatchResponse::Opened) {
            return Some(ask);
        }
        if from < self.oldest_version {
            return self.respond(watching, WatchResponse::Line(EXPIRED_EVENT.as_bytes()));
        }
        loop {
            self.make_changes();
            let next = self.log.iter().find(|one| one.version > from).cloned();
            let text = match next {
                Some(next) => {
                    from = next.version;
                    line(next.event_type, &format!("{}@{}", next.uid, next.version))
                }
                None if self.faults == 0 => return None,
                None if self.has_bookmarks => {
                    from = self.version;
                    bookmark(&from.to_string())
                }
                // The watch times out.
                None if self.one_in(4) => return self.respond(watching, WatchResponse::Ended),
                None => {
                    self.now = self.now.plus_nanos(60_000_000_000);
                    continue;
                }
            };
            let heard = match self.rng.random_range(0..8) {
                0 if self.fault(1) => Some(WatchResponse::Ended),
                1 if self.fault(1) => Some(WatchResponse::Line(&text.as_bytes()[..text.len() / 2])),
                2 if self.fault(1) => Some(WatchResponse::Line(EXPIRED_EVENT.as_bytes())),
                3 if self.fault(1) => {
                    self.respond(watching, WatchResponse::Line(text.as_bytes()));
                    Some(WatchResponse::Line(text.as_bytes()))
                }
                _ => None,
            };
            if let Some(ask) = self.respond(watching, heard.unwrap_or(WatchResponse::Line(text.as_bytes()))) {
                return Some(ask);
            }
            if self.one_in(6) {
                self.outputs_on_disk.push(watching.take_output());
            }
        }
    }

    fn respond(&mut self, watching: &mut KindWatch, reply: WatchResponse<'_>) -> Option<WatchRequest> {
        self.pass_time();
        watching.handle(reply, self.now, self.rng.random())
    }

    fn changes(&self) -> impl Iterator<Item = &IncomingChange> {
        self.outputs_on_disk.iter().flat_map(|told| &told.batch.changes)
    }

    /// A watch resumed from the disk, after a kill.
    fn resumed_from_disk(&self) -> KindWatch {
        let mut objects = HashMap::new();
        for change in self.changes() {
            let (name, seen) = name_and_version(change.what.object());
            match change.what {
                What::Added(_) | What::Modified(_) => drop(objects.insert(name, seen)),
                What::Deleted(_) => drop(objects.remove(&name)),
            }
        }
        let position = self.outputs_on_disk.iter().rev().find_map(|told| told.batch.positions.first());
        KindWatch::new(watch_subject(), position.map(|(_, position)| &**position), objects, None)
    }
}

fn check(seed: u64) -> Result<(), TestCaseError> {
    let mut world = SimulatedServer {
        rng: Pcg64::seed_from_u64(seed),
        now: moment(1000),
        version: 10,
        objects: BTreeMap::new(),
        log: Vec::new(),
        oldest_version: 0,
        snapshot: (Vec::new(), 0),
        outputs_on_disk: Vec::new(),
        first_list: None,
        faults: 40,
        has_bookmarks: seed.is_multiple_of(2),
    };
    world.make_changes();
    let mut watching = KindWatch::new(watch_subject(), None, [], None);
    let mut ask = watching.next_request(0.5);
    for _ in 0..2_000 {
        let next = match ask {
            WatchRequest::Wait(wait) => {
                world.now = world.now.plus_nanos(wait.as_nanos() as i64);
                world.make_changes();
                Some(watching.next_request(0.5))
            }
            WatchRequest::List { continue_token: after, .. } => world.list(&mut watching, after),
            WatchRequest::Watch { resource_version: from, .. } => world.watch(&mut watching, &from),
        };
        if world.one_in(2) || next.is_none() {
            world.outputs_on_disk.push(watching.take_output());
        }
        let Some(next) = next else { break };
        ask = next;
        if world.fault(10) {
            watching = world.resumed_from_disk();
            // Without any output on disk nothing can be missed.
            if world
                .outputs_on_disk
                .iter()
                .all(|told| told.batch.changes.is_empty() && told.batch.positions.is_empty())
            {
                world.first_list = None;
            }
            ask = watching.next_request(0.5);
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

    let gaps: Vec<&Gap> = world.outputs_on_disk.iter().flat_map(|told| &told.batch.gaps).collect();
    let mut seen_before = Moment::MIN;
    let first = world.first_list.unwrap_or(u64::MAX);
    for one in world.log.iter().filter(|one| one.version > first) {
        let is_it = |change: &&IncomingChange| {
            let meta = change.what.object().meta();
            let is_delete = change.what.state().is_none();
            !change.inferred
                && meta.uid.as_deref() == Some(&one.uid)
                && (is_delete == (one.event_type == "DELETED"))
                && meta.resource_version.as_deref() == Some(&one.version.to_string())
        };
        match world.changes().find(is_it) {
            Some(change) => seen_before = seen_before.max(change.seen),
            None => {
                // It would have been received after it happened, and after the events before it.
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
    fn every_lost_event_lies_in_a_gap_and_none_is_reported_twice(seed: u64) {
        check(seed)?;
    }
}
