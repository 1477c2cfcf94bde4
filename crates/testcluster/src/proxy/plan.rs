//! Fault plans: plain data, the same for the same seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// The faults to inject. Each is injected once at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The seed, if the plan was generated.
    pub seed: Option<u64>,
    /// The planned faults. The first that matches a request is injected.
    pub steps: Vec<Step>,
}

/// A fault for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The path of the request without its query: `/api/v1/pods`. Empty for writes, which are matched by number only.
    pub path: String,
    /// The kind of request.
    pub asked: Asked,
    /// The number of the request among those with the same path and kind, from 1.
    pub nth: u32,
    /// The fault.
    pub trouble: Trouble,
}

/// The kind of a request to a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Asked {
    /// A list, or a page of one.
    List,
    /// A watch.
    Watch,
    /// A creation, change or deletion.
    Write,
}

/// A fault of a request or its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The proxy responds with an error; the server never receives the request.
    Refuse(Refusal),
    /// The connection is closed without a response; the server never receives the request.
    HangUp,
    /// The request reaches the server this much later.
    Delay(Duration),
    /// The server handles the request, but the connection is closed without a response.
    Unanswered,
    /// The connection closes in the middle of a list response.
    Truncate,
    /// The bookmarks of a watch are removed.
    NoBookmarks,
    /// A fault in the middle of a watch.
    Midway {
        /// The number of events that pass before.
        after: u32,
        /// The fault.
        what: Midway,
    },
}

/// An error response as kube-apiserver sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// 401: the token has expired.
    Unauthorized,
    /// 410: the requested version is too old.
    Gone,
    /// 429, with a retry after one second.
    TooManyRequests,
    /// 500.
    InternalError,
    /// 503.
    Unavailable,
}

/// A fault in the middle of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Midway {
    /// An ERROR event reports that the version is too old, and the watch ends, as kube-apiserver does it.
    Gone,
    /// The connection closes in the middle of the next event.
    Cut,
    /// No more events arrive, but the connection stays open until the client closes it.
    Silence,
    /// The last event is repeated; the first one, if none has passed yet.
    Repeat,
}

/// A plan being carried out, with the number of requests so far.
#[derive(Debug)]
pub(crate) struct Progress {
    plan: Plan,
    asked: BTreeMap<(String, Asked), u32>,
}

// === impl Plan ===

impl Plan {
    /// Plans one of the faults for each of `count` of the first `among` writes.
    pub fn of_writes(seed: u64, troubles: &[Trouble], count: usize, among: u32) -> Plan {
        let mut chance = Pcg64::seed_from_u64(seed);
        let mut numbers = BTreeSet::new();
        while numbers.len() < count.min(among as usize) {
            numbers.insert(chance.random_range(1..=among));
        }
        let steps = numbers.into_iter().map(|nth| {
            let trouble = troubles[chance.random_range(0..troubles.len())];
            Step { path: String::new(), asked: Asked::Write, nth, trouble }
        });
        Plan { steps: steps.collect(), seed: Some(seed) }
    }

    /// Plans `count` of the faults for lists and watches of the paths, each early enough to be reached by a client that
    /// retries. Neither list may be empty.
    pub fn seeded(seed: u64, paths: &[&str], troubles: &[Trouble], count: usize) -> Plan {
        let mut chance = Pcg64::seed_from_u64(seed);
        let mut last: BTreeMap<(&str, Asked), u32> = BTreeMap::new();
        let steps = (0..count).map(|_| {
            let path = paths[chance.random_range(0..paths.len())];
            let trouble = troubles[chance.random_range(0..troubles.len())];
            // A client lists rarely and watches often.
            let asked = match trouble {
                Trouble::Truncate => Asked::List,
                trouble if trouble.is_for_watches() || chance.random_range(0..4) > 0 => Asked::Watch,
                _ => Asked::List,
            };
            let nth = last.entry((path, asked)).or_default();
            *nth += chance.random_range(1..=2);
            Step { path: path.to_owned(), asked, nth: *nth, trouble }
        });
        Plan { steps: steps.collect(), seed: Some(seed) }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seed {
            Some(seed) => write!(f, "plan of seed {seed}, steps: {}", self.steps.len())?,
            None => write!(f, "plan, steps: {}", self.steps.len())?,
        }
        self.steps.iter().try_for_each(|step| write!(f, "\n  {step}"))
    }
}

// === impl Step ===

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let asked = match self.asked {
            Asked::List => "list",
            Asked::Watch => "watch",
            Asked::Write => return write!(f, "write {}: {}", self.nth, self.trouble),
        };
        write!(f, "{asked} {} of {}: {}", self.nth, self.path, self.trouble)
    }
}

// === impl Trouble ===

impl Trouble {
    /// Whether it applies to watches only.
    fn is_for_watches(self) -> bool {
        match self {
            Trouble::NoBookmarks | Trouble::Midway { .. } => true,
            Trouble::Refuse(_)
            | Trouble::HangUp
            | Trouble::Delay(_)
            | Trouble::Unanswered
            | Trouble::Truncate => false,
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Refuse(refusal) => write!(f, "answer {}", refusal.status_line()),
            Trouble::HangUp => write!(f, "hang up without an answer"),
            Trouble::Delay(by) => write!(f, "wait for {by:?}"),
            Trouble::Unanswered => write!(f, "keep the answer back"),
            Trouble::Truncate => write!(f, "give half of the answer"),
            Trouble::NoBookmarks => write!(f, "no bookmarks"),
            Trouble::Midway { after, what } => {
                let what = match what {
                    Midway::Gone => "the version is too old",
                    Midway::Cut => "cut the next one",
                    Midway::Silence => "silence",
                    Midway::Repeat => "repeat the last one",
                };
                write!(f, "after {after} events {what}")
            }
        }
    }
}

// === impl Refusal ===

impl Refusal {
    /// The whole HTTP response.
    pub(crate) fn answer(self) -> String {
        let body = self.body();
        let retry = match self {
            Refusal::TooManyRequests => "Retry-After: 1\r\n",
            Refusal::Unauthorized | Refusal::Gone | Refusal::InternalError | Refusal::Unavailable => "",
        };
        format!(
            "HTTP/1.1 {}\r\nContent-Type: application/json\r\nConnection: close\r\n{retry}Content-Length: {}\r\n\r\n{body}\n",
            self.status_line(),
            body.len() + 1
        )
    }

    fn status_line(self) -> &'static str {
        match self {
            Refusal::Unauthorized => "401 Unauthorized",
            Refusal::Gone => "410 Gone",
            Refusal::TooManyRequests => "429 Too Many Requests",
            Refusal::InternalError => "500 Internal Server Error",
            Refusal::Unavailable => "503 Service Unavailable",
        }
    }

    /// The Status object as Kubernetes 1.36's error constructors print it, with messages that its server uses.
    fn body(self) -> &'static str {
        match self {
            Refusal::Unauthorized => {
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#
            }
            Refusal::Gone => {
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}"#
            }
            Refusal::TooManyRequests => {
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"storage is (re)initializing","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}"#
            }
            Refusal::InternalError => {
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Internal error occurred: etcdserver: leader changed","reason":"InternalError","details":{"causes":[{"message":"etcdserver: leader changed"}]},"code":500}"#
            }
            Refusal::Unavailable => {
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"apiserver is shutting down","reason":"ServiceUnavailable","code":503}"#
            }
        }
    }

    /// The watch event that reports this error.
    pub(crate) fn event(self) -> String {
        format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", self.body())
    }
}

// === impl Progress ===

impl Progress {
    pub(crate) fn new(plan: Plan) -> Progress {
        Progress { plan, asked: BTreeMap::new() }
    }

    /// Counts a request and returns its planned fault, if any.
    pub(crate) fn next(&mut self, path: &str, asked: Asked) -> Option<Step> {
        let count = self.asked.entry((path.to_owned(), asked)).or_default();
        *count += 1;
        let fits = |step: &&Step| step.path == path && step.asked == asked && step.nth == *count;
        self.plan.steps.iter().find(fits).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TROUBLES: [Trouble; 3] =
        [Trouble::HangUp, Trouble::Refuse(Refusal::Gone), Trouble::Midway { after: 2, what: Midway::Cut }];

    #[test]
    fn a_seed_always_gives_the_same_plan() {
        let plan = |seed| Plan::seeded(seed, &["/api/v1/pods", "/api/v1/nodes"], &TROUBLES, 20);
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7).steps, plan(8).steps);
    }

    #[test]
    fn a_client_that_tries_again_meets_every_step_once() {
        for seed in 0..50 {
            let paths = ["/api/v1/pods", "/api/v1/nodes"];
            let plan = Plan::seeded(seed, &paths, &TROUBLES, 20);
            let mut progress = Progress::new(plan.clone());
            let mut met = Vec::new();
            for path in paths {
                for asked in [Asked::List, Asked::Watch] {
                    met.extend((0..100).filter_map(|_| progress.next(path, asked)));
                }
            }
            let sorted = |mut steps: Vec<Step>| {
                steps.sort_by_key(Step::to_string);
                steps
            };
            assert_eq!(sorted(met), sorted(plan.steps), "seed {seed}");
        }
    }

    #[test]
    fn a_plan_reads_as_it_is_carried_out() {
        let step = |trouble| Step { path: "/api/v1/pods".to_owned(), asked: Asked::Watch, nth: 2, trouble };
        let plan = Plan { seed: Some(7), steps: TROUBLES.map(step).to_vec() };
        assert_eq!(
            plan.to_string(),
            "plan of seed 7, steps: 3\n  \
             watch 2 of /api/v1/pods: hang up without an answer\n  \
             watch 2 of /api/v1/pods: answer 410 Gone\n  \
             watch 2 of /api/v1/pods: after 2 events cut the next one"
        );
    }
}
