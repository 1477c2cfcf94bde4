//! Thousands of changes while everything goes wrong that can go wrong between a recorder and its server.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use kubernetes::rules::{RedactKey, Rules};
use model::Moment;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;
use testcluster::{Asked, Fault, Midway, Options, Plan, Proxy, Refusal, Step, Trouble};

use crate::common::run;
use crate::film::{Film, Tally, has, has_listed, is_closed, joined};
use crate::recorder::Recorder;
use crate::server::{Churn, PASSWORD, Sight, Sort, client, moment, seed, start, watch};

/// A recorder behind a proxy of its own.
struct Set {
    seed: u64,
    /// `None`: every byte is kept.
    rules: Option<Rules>,
    folder: tempfile::TempDir,
    proxy: Proxy,
    plan: Plan,
    recorder: Option<Recorder>,
}

/// More than a page of a list holds.
const MANY: usize = 520;
const KEY: [u8; 16] = *b"0123456789abcdef";

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_among_faults_is_recorded_or_said_to_be_missed() {
    let Some(cluster) = start(Options::default()) else { return };
    let (seed, begun) = (seed(), Instant::now());
    let client = client(&cluster).await;
    for number in 0..MANY {
        Sort::PriorityClasses.create(&client, &format!("many-{number}")).await;
    }

    let mut sets: Vec<Set> = Vec::new();
    for (seed, rules) in
        [(seed, None), (seed + 1, None), (seed + 2, Some(Rules { redact: Some(RedactKey(KEY)) }))]
    {
        let plan = plan(seed);
        let proxy = Proxy::start(&cluster, plan.clone()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut set = Set { seed, rules, folder, proxy, plan, recorder: None };
        set.start();
        sets.push(set);
    }
    let mut watches = Vec::new();
    for sort in Sort::ALL {
        watches.push((sort, watch(&client, sort.path(), "the-end").await));
    }
    let kinds = Sort::ALL.map(Sort::kind);
    for set in &mut sets {
        let path = set.path();
        set.wait("everything is listed", |_| has_listed(&path, &kinds)).await;
    }

    // Troubles that last end with the recorder, which is told to stop and started again.
    let churn = Churn::start(&cluster, seed, &Sort::ALL, 4, Duration::from_millis(20)).await;
    for round in 1..=ROUNDS {
        for set in &mut sets {
            set.wait(&format!("the faults of round {round} have been met"), |set| set.has_met(round)).await;
            set.recorder.take().unwrap().stop().await.fine();
            let made = churn.made();
            set.start();
            set.wait("something happens", |_| churn.made() > made).await;
        }
    }
    let made = churn.stop().await;
    for sort in Sort::ALL {
        sort.create(&client, "the-end").await;
    }
    let mut seen = Vec::new();
    for (sort, watch) in watches {
        seen.push((sort, watch.await.unwrap()));
    }

    for set in &mut sets {
        let path = set.path();
        set.wait("the end is heard", |_| kinds.iter().all(|kind| has(&path, kind, "the-end"))).await;
        let said = set.recorder.take().unwrap().stop().await;
        assert!(said.err.contains("recorded into h.kine"), "{}", said.err);
        let film = Film::read(&path);
        let faults = set.proxy.faults();
        let mut all = Tally::default();
        for (sort, seen) in &seen {
            let tally = film.judge(&sort.kind(), seen, set.rules.as_ref());
            film.check_state(&client, &sort.kind(), sort.path(), set.rules.as_ref()).await;
            check_gaps(&film, *sort, &faults);
            check_losses(&tally.missing, *sort, seen, &faults);
            all += tally;
        }
        assert!(!all.missing.is_empty(), "the faults of seed {} do no harm: {all}", set.seed);
        check_export(&film, set);
        eprintln!("seed {}: {made} writes; {all}; {}", set.seed, counted(&faults));
    }
    eprintln!("in {:?}", begun.elapsed());
}

impl Set {
    fn path(&self) -> PathBuf {
        self.folder.path().join("h.kine")
    }

    fn start(&mut self) {
        let kinds = Sort::ALL.map(Sort::word).join(",");
        let mut arguments = vec!["--into", "h.kine", "--kinds", &kinds];
        match &self.rules {
            None => arguments.extend(["--everything", "--no-redact"]),
            Some(_) => {
                let key: String = KEY.iter().chain(&KEY).map(|byte| format!("{byte:02x}")).collect();
                std::fs::write(self.folder.path().join("key"), key).unwrap();
                arguments.extend(["--redact-key", "key"]);
            }
        }
        self.recorder = Some(Recorder::start(self.folder.path(), self.proxy.kubeconfig(), &arguments));
    }

    async fn wait(&mut self, what: &str, is_so: impl Fn(&Set) -> bool) {
        let mut recorder = self.recorder.take().unwrap();
        recorder.wait(&format!("seed {}: {what}", self.seed), || is_so(self)).await;
        self.recorder = Some(recorder);
    }

    /// Whether all that goes wrong up to this round has gone wrong.
    fn has_met(&self, round: usize) -> bool {
        let faults = self.proxy.faults();
        let is_met = |step: &Step| faults.iter().any(|fault| fault.step == *step);
        // Bookmarks come once a minute: those of a watch may be dropped without one being due.
        let mut steps = self.plan.steps.iter().filter(|step| step.trouble != Trouble::NoBookmarks);
        steps.all(|step| round_of(step) > round || is_met(step))
    }
}

// === The plan ===

const ROUNDS: usize = 2;
/// How many watches of a kind go wrong in a round; the last one lasts.
const WATCHES: u32 = 11;

/// In which round something goes wrong.
fn round_of(step: &Step) -> usize {
    match step.asked {
        Asked::List | Asked::Write => 1,
        Asked::Watch => step.nth.div_ceil(WATCHES) as usize,
    }
}

/// Everything that can go wrong, with every kind, in an order of its own.
fn plan(seed: u64) -> Plan {
    let mut chance = Pcg64::seed_from_u64(seed);
    let mut steps = Vec::new();
    let lasting: Vec<[Trouble; Sort::ALL.len()]> = (1..=ROUNDS)
        .map(|round| {
            let mut midway = |what| Trouble::Midway { after: chance.random_range(0..9), what };
            let mut lasting = [
                midway(Midway::Silence),
                midway(Midway::Silence),
                midway(Midway::Repeat),
                midway(Midway::Repeat),
                // Nobody can tell when such a watch has begun, so that no other may be waited for after it.
                if round == ROUNDS { Trouble::NoBookmarks } else { midway(Midway::Repeat) },
                Trouble::Delay(Duration::from_millis(chance.random_range(100..900))),
            ];
            shuffle(&mut lasting, &mut chance);
            lasting
        })
        .collect();
    let refused = chance.random_range(0..Sort::ALL.len());
    for (index, sort) in Sort::ALL.into_iter().enumerate() {
        let mut step =
            |asked, nth, trouble| steps.push(Step { path: sort.path().to_owned(), asked, nth, trouble });
        let mut lists = [
            Trouble::Truncate,
            Trouble::HangUp,
            Trouble::Refuse(Refusal::TooManyRequests),
            Trouble::Delay(Duration::from_millis(chance.random_range(100..600))),
            Trouble::Refuse(Refusal::Gone),
        ];
        shuffle(&mut lists, &mut chance);
        for (nth, trouble) in [1, 3, 5].into_iter().zip(lists) {
            step(Asked::List, nth, trouble);
        }
        for round in 0..ROUNDS as u32 {
            let mut refusals = [
                Trouble::Refuse(Refusal::Gone),
                Trouble::Refuse(Refusal::TooManyRequests),
                Trouble::Refuse(Refusal::InternalError),
                Trouble::Refuse(Refusal::Unavailable),
                Trouble::HangUp,
            ];
            if index == refused && round == 0 {
                refusals[3] = Trouble::Refuse(Refusal::Unauthorized);
            }
            shuffle(&mut refusals, &mut chance);
            let mut midways = [Midway::Gone, Midway::Gone, Midway::Cut, Midway::Cut, Midway::Cut];
            shuffle(&mut midways, &mut chance);
            let first = round * WATCHES + 1;
            for (nth, (refusal, what)) in (0..).zip(refusals.into_iter().zip(midways)) {
                step(Asked::Watch, first + 2 * nth, refusal);
                // Whoever hears nothing at all waits longer each time: once is enough.
                let after = if nth == 3 { 0 } else { chance.random_range(1..12) };
                step(Asked::Watch, first + 2 * nth + 1, Trouble::Midway { after, what });
            }
            step(Asked::Watch, first + WATCHES - 1, lasting[round as usize][index]);
        }
    }
    Plan { seed: Some(seed), steps }
}

fn shuffle<T>(list: &mut [T], chance: &mut impl Rng) {
    for place in (1..list.len()).rev() {
        list.swap(place, chance.random_range(0..=place));
    }
}

// === What is looked at besides ===

/// No gap is without a reason, and none without something that the proxy did since there was news last.
fn check_gaps(film: &Film, sort: Sort, faults: &[Fault]) {
    let kind = sort.kind();
    let gaps = film.gaps_of(&kind);
    assert!(gaps.iter().all(|gap| !gap.why.is_empty() && gap.from <= gap.to), "{gaps:?}");
    let faults: Vec<Moment> =
        faults.iter().filter(|fault| fault.step.path == sort.path()).map(|fault| moment(fault.at)).collect();
    for gap in joined(&gaps) {
        let before = film.of(&kind).map(|change| change.seen).filter(|seen| *seen < gap.from);
        let before = before.max().unwrap_or(Moment::MIN);
        let is_made = faults.iter().any(|at| before <= *at && *at <= gap.to);
        assert!(is_made, "{gap:?} of {sort:?}: {faults:?}");
    }
}

/// What is missing could not be had: it came after the last event of a watch that was told that its version is too old,
/// and before the version of the next watch.
fn check_losses(missing: &[u64], sort: Sort, seen: &[Sight], faults: &[Fault]) {
    let is_watch = |fault: &&Fault| fault.step.asked == Asked::Watch && fault.step.path == sort.path();
    let watches: Vec<&Fault> = faults.iter().filter(is_watch).collect();
    let begun_at = |fault: &Fault| -> u64 {
        let version = fault.request.split_once("resourceVersion=").unwrap().1;
        version.split('&').next().unwrap().parse().unwrap()
    };
    let versions: Vec<u64> = seen.iter().filter(|sight| !sight.is_first()).map(Sight::version).collect();
    let mut lost: Vec<(u64, u64)> = Vec::new();
    for (index, watch) in watches.iter().enumerate() {
        let passed = match watch.step.trouble {
            Trouble::Refuse(Refusal::Gone) => 0,
            Trouble::Midway { after, what: Midway::Gone } => after as usize,
            _ => continue,
        };
        let begun = begun_at(watch);
        let heard = versions.iter().filter(|version| **version > begun).take(passed).last().unwrap_or(&begun);
        // Behind the last one, one without bookmarks may have come that has nothing to drop.
        lost.push((*heard, watches.get(index + 1).map_or(u64::MAX, |next| begun_at(next))));
    }
    for version in missing {
        let is_lost = lost.iter().any(|(after, until)| after < version && version <= until);
        assert!(is_lost, "{version} of {sort:?} could have been had: {lost:?}");
    }
}

/// The lines of an export are the changes and gaps in their order, and hold no secret but where they should.
fn check_export(film: &Film, set: &Set) {
    let lines = run(set.folder.path(), &["export", "h.kine", "--format", "jsonl"]).fine();
    let mut changes = film.changes.iter();
    let mut gaps = 0;
    for line in lines.lines() {
        if line.contains(r#""type":"GAP""#) {
            gaps += 1;
            continue;
        }
        let change = changes.next().unwrap();
        assert!(line.contains(change.what.object().as_str()), "{line} is not {change:?}");
        assert!(line.contains(&format!(r#""type":"{}""#, change.what.word())), "{line} is not {change:?}");
    }
    assert!(changes.next().is_none());
    assert_eq!(gaps, film.gaps.len());
    assert_eq!(lines.contains(PASSWORD), set.rules.is_none());
    run(set.folder.path(), &["doctor", "h.kine"]).fine();
    assert!(is_closed(&set.path()));
}

/// `12 × cut the next one, …`
fn counted(faults: &[Fault]) -> String {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for fault in faults {
        let words = fault.step.trouble.to_string();
        // Not after how many events, nor how long.
        let words = words.split_once(" events ").map_or(&*words, |(_, what)| what);
        let words = if words.starts_with("wait for") { "wait" } else { words };
        let list = if fault.step.asked == Asked::List { " to a list" } else { "" };
        *counts.entry(format!("{words}{list}")).or_default() += 1;
    }
    let parts: Vec<String> = counts.into_iter().map(|(what, count)| format!("{count} × {what}")).collect();
    parts.join(", ")
}
