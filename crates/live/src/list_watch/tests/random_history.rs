//! Property test with random histories of a server, random faults and restarts: every missed event lies in a gap, and
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
            let (event_type, uid) = match self.objects.get(name).cloned() {
                None => ("ADDED", format!("{name}-{version}")),
                Some((uid, _)) if self.one_in(3) => ("DELETED", uid),
                Some((uid, _)) => ("MODIFIED", uid),
            };
            match event_type {
                "DELETED" => drop(self.objects.remove(name)),
                _ => drop(self.objects.insert(name.to_owned(), (uid.clone(), version))),
            }
            self.log.push(ServerEvent { version, at: self.now, event_type, uid });
        }
        if self.fault(20) {
            self.oldest_version = self.version;
        }
    }

    fn failure(&mut self) -> RequestFailure {
        let statuses = [None, Some(429), Some(500), Some(503), Some(401), Some(403), Some(404), Some(410)];
        let status = statuses[self.rng.random_range(0..statuses.len())];
        RequestFailure { status, message: "no".to_owned(), retry_after: None }
    }

    fn list(&mut self, reflector: &mut Reflector, continue_token: Option<String>) -> Option<WatchRequest> {
        self.make_changes();
        if self.fault(5) {
            let failure = self.failure();
            return self.respond(reflector, WatchResponse::Failed(failure));
        }
        let start: usize = continue_token.as_deref().map_or(0, |token| token.parse().unwrap());
        if start == 0 {
            let items = self.objects.values().map(|(uid, version)| format!("{uid}@{version}"));
            self.snapshot = (items.collect(), self.version);
            self.first_list.get_or_insert(self.version);
        }
        let (all, version) = self.snapshot.clone();
        let end = (start + self.rng.random_range(1..4)).min(all.len());
        let next = if end < all.len() { end.to_string() } else { String::new() };
        let pods: Vec<&str> = all[start..end].iter().map(String::as_str).collect();
        self.respond(reflector, WatchResponse::Page(page(&version.to_string(), &next, &pods).as_bytes()))
    }

    fn watch(&mut self, reflector: &mut Reflector, resource_version: &str) -> Option<WatchRequest> {
        let mut resource_version: u64 = resource_version.parse().unwrap();
        if self.fault(5) {
            let failure = self.failure();
            return self.respond(reflector, WatchResponse::Failed(failure));
        }
        if resource_version < self.oldest_version && self.one_in(2) {
            return self.respond(reflector, WatchResponse::Failed(status(410)));
        }
        if let Some(request) = self.respond(reflector, WatchResponse::Opened) {
            return Some(request);
        }
        if resource_version < self.oldest_version {
            return self.respond(reflector, WatchResponse::Line(EXPIRED_EVENT.as_bytes()));
        }
        loop {
            self.make_changes();
            let next = self.log.iter().find(|event| event.version > resource_version).cloned();
            let text = match next {
                Some(next) => {
                    resource_version = next.version;
                    line(next.event_type, &format!("{}@{}", next.uid, next.version))
                }
                None if self.faults == 0 => return None,
                None if self.has_bookmarks => {
                    resource_version = self.version;
                    bookmark(&resource_version.to_string())
                }
                // The watch times out.
                None if self.one_in(4) => return self.respond(reflector, WatchResponse::Ended),
                None => {
                    self.now = self.now.plus_nanos(60_000_000_000);
                    continue;
                }
            };
            let response = match self.rng.random_range(0..8) {
                0 if self.fault(1) => Some(WatchResponse::Ended),
                1 if self.fault(1) => Some(WatchResponse::Line(&text.as_bytes()[..text.len() / 2])),
                2 if self.fault(1) => Some(WatchResponse::Line(EXPIRED_EVENT.as_bytes())),
                3 if self.fault(1) => {
                    self.respond(reflector, WatchResponse::Line(text.as_bytes()));
                    Some(WatchResponse::Line(text.as_bytes()))
                }
                _ => None,
            };
            if let Some(request) =
                self.respond(reflector, response.unwrap_or(WatchResponse::Line(text.as_bytes())))
            {
                return Some(request);
            }
            if self.one_in(6) {
                self.outputs_on_disk.push(reflector.take_output());
            }
        }
    }

    fn respond(&mut self, reflector: &mut Reflector, response: WatchResponse<'_>) -> Option<WatchRequest> {
        self.pass_time();
        reflector.handle(response, self.now, self.rng.random())
    }

    fn changes(&self) -> impl Iterator<Item = &IncomingChange> {
        self.outputs_on_disk.iter().flat_map(|output| &output.batch.changes)
    }

    /// A watch resumed from the disk, after a kill.
    fn resumed_from_disk(&self) -> Reflector {
        let mut objects = HashMap::new();
        for change in self.changes() {
            let (name, version_id) = name_and_version(change.what.object());
            match change.what {
                What::Added(_) | What::Modified(_) => drop(objects.insert(name, version_id)),
                What::Deleted(_) => drop(objects.remove(&name)),
            }
        }
        let position = self.outputs_on_disk.iter().rev().find_map(|output| output.batch.positions.first());
        Reflector::new(watch_subject(), position.map(|(_, position)| &**position), objects, None)
    }
}

fn check(seed: u64) -> Result<(), TestCaseError> {
    let mut server = SimulatedServer {
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
    server.make_changes();
    let mut reflector = Reflector::new(watch_subject(), None, [], None);
    let mut request = reflector.next_request(0.5);
    for _ in 0..2_000 {
        let next = match request {
            WatchRequest::Wait(wait) => {
                server.now = server.now.plus_nanos(wait.as_nanos() as i64);
                server.make_changes();
                Some(reflector.next_request(0.5))
            }
            WatchRequest::List { continue_token, .. } => server.list(&mut reflector, continue_token),
            WatchRequest::Watch { resource_version, .. } => server.watch(&mut reflector, &resource_version),
        };
        if server.one_in(2) || next.is_none() {
            server.outputs_on_disk.push(reflector.take_output());
        }
        let Some(next) = next else { break };
        request = next;
        if server.fault(10) {
            reflector = server.resumed_from_disk();
            // Without any output on disk nothing can be missed.
            if server
                .outputs_on_disk
                .iter()
                .all(|reported| reported.batch.changes.is_empty() && reported.batch.positions.is_empty())
            {
                server.first_list = None;
            }
            request = reflector.next_request(0.5);
        }
    }

    let mut state: BTreeMap<String, (String, u64)> = BTreeMap::new();
    let mut reported: HashSet<(&str, String, String)> = HashSet::new();
    for change in server.changes() {
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
        prop_assert!(reported.insert(what.clone()), "reported twice: {what:?}");
    }
    prop_assert_eq!(&state, &server.objects);

    let gaps: Vec<&Gap> = server.outputs_on_disk.iter().flat_map(|reported| &reported.batch.gaps).collect();
    let mut seen_before = Moment::MIN;
    let first = server.first_list.unwrap_or(u64::MAX);
    for event in server.log.iter().filter(|event| event.version > first) {
        let is_match = |change: &&IncomingChange| {
            let meta = change.what.object().meta();
            let is_delete = change.what.state().is_none();
            !change.inferred
                && meta.uid.as_deref() == Some(&event.uid)
                && (is_delete == (event.event_type == "DELETED"))
                && meta.resource_version.as_deref() == Some(&event.version.to_string())
        };
        match server.changes().find(is_match) {
            Some(change) => seen_before = seen_before.max(change.seen),
            None => {
                // It would have been received after it happened, and after the events before it.
                let due = event.at.max(seen_before);
                let is_covered = gaps.iter().any(|gap| gap.from <= due && event.at <= gap.to);
                prop_assert!(is_covered, "missed outside of gaps: {event:?}, gaps {gaps:?}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, ..ProptestConfig::default() })]
    #[test]
    fn every_missed_event_lies_in_a_gap_and_none_is_reported_twice(seed: u64) {
        check(seed)?;
    }
}
