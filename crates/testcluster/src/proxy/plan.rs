//! Fault plans: plain data, the same for the same seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// The faults to inject. Each is injected once at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The seed, if the plan was generated.
    pub seed: Option<u64>,
    /// The planned faults. The first that matches a request is injected.
    pub faults: Vec<PlannedFault>,
}

/// A fault for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedFault {
    /// The path of the request without its query: `/api/v1/pods`. Empty for writes, which are matched by number only.
    pub path: String,
    /// The kind of request.
    pub request_kind: RequestKind,
    /// The number of the request among those with the same path and kind, from 1.
    pub nth: u32,
    /// The fault.
    pub fault: FaultKind,
}

/// The kind of a request to a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequestKind {
    /// A list, or a page of one.
    List,
    /// A watch.
    Watch,
    /// A creation, change or deletion.
    Write,
}

/// A fault of a request or its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// The proxy responds with an error; the server never receives the request.
    Respond(ErrorResponse),
    /// The connection is closed without a response; the server never receives the request.
    CloseConnection,
    /// The request reaches the server this much later.
    Delay(Duration),
    /// The server handles the request, but the connection is closed without a response.
    DropResponse,
    /// The connection closes in the middle of a list response.
    TruncateList,
    /// The bookmarks of a watch are removed.
    DropBookmarks,
    /// A fault in the middle of a watch.
    DuringWatch {
        /// The number of events that pass before.
        after: u32,
        /// The fault.
        what: WatchFault,
    },
}

/// An error response as kube-apiserver sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorResponse {
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
pub enum WatchFault {
    /// An ERROR event reports that the version is too old, and the watch ends, as kube-apiserver does it.
    Gone,
    /// The connection closes in the middle of the next event.
    TruncateEvent,
    /// No more events arrive, but the connection stays open until the client closes it.
    Hang,
    /// The last event is repeated; the first one, if none has passed yet.
    RepeatEvent,
}

/// A plan being carried out, with the number of requests so far.
#[derive(Debug)]
pub(crate) struct PlanProgress {
    plan: FaultPlan,
    request_counts: BTreeMap<(String, RequestKind), u32>,
}

// === impl FaultPlan ===

impl FaultPlan {
    /// Plans one of the faults for each of `count` of the first `among` writes.
    pub fn seeded_for_writes(seed: u64, faults: &[FaultKind], count: usize, among: u32) -> FaultPlan {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut numbers = BTreeSet::new();
        while numbers.len() < count.min(among as usize) {
            numbers.insert(rng.random_range(1..=among));
        }
        let planned_faults = numbers.into_iter().map(|nth| {
            let fault = faults[rng.random_range(0..faults.len())];
            PlannedFault { path: String::new(), request_kind: RequestKind::Write, nth, fault }
        });
        FaultPlan { faults: planned_faults.collect(), seed: Some(seed) }
    }

    /// Plans `count` of the faults for lists and watches of the paths, each early enough to be reached by a client that
    /// retries. Neither list may be empty.
    pub fn seeded(seed: u64, paths: &[&str], faults: &[FaultKind], count: usize) -> FaultPlan {
        let mut rng = Pcg64::seed_from_u64(seed);
        let mut last: BTreeMap<(&str, RequestKind), u32> = BTreeMap::new();
        let planned_faults = (0..count).map(|_| {
            let path = paths[rng.random_range(0..paths.len())];
            let fault = faults[rng.random_range(0..faults.len())];
            // A client lists rarely and watches often.
            let request_kind = match fault {
                FaultKind::TruncateList => RequestKind::List,
                fault if fault.is_watch_only() || rng.random_range(0..4) > 0 => RequestKind::Watch,
                _ => RequestKind::List,
            };
            let nth = last.entry((path, request_kind)).or_default();
            *nth += rng.random_range(1..=2);
            PlannedFault { path: path.to_owned(), request_kind, nth: *nth, fault }
        });
        FaultPlan { faults: planned_faults.collect(), seed: Some(seed) }
    }
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.seed {
            Some(seed) => write!(f, "plan of seed {seed}, steps: {}", self.faults.len())?,
            None => write!(f, "plan, steps: {}", self.faults.len())?,
        }
        self.faults.iter().try_for_each(|planned| write!(f, "\n  {planned}"))
    }
}

// === impl PlannedFault ===

impl fmt::Display for PlannedFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let request_kind = match self.request_kind {
            RequestKind::List => "list",
            RequestKind::Watch => "watch",
            RequestKind::Write => return write!(f, "write {}: {}", self.nth, self.fault),
        };
        write!(f, "{request_kind} {} of {}: {}", self.nth, self.path, self.fault)
    }
}

// === impl FaultKind ===

impl FaultKind {
    /// Whether it applies to watches only.
    fn is_watch_only(self) -> bool {
        match self {
            FaultKind::DropBookmarks | FaultKind::DuringWatch { .. } => true,
            FaultKind::Respond(_)
            | FaultKind::CloseConnection
            | FaultKind::Delay(_)
            | FaultKind::DropResponse
            | FaultKind::TruncateList => false,
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FaultKind::Respond(refusal) => write!(f, "answer {}", refusal.status_line()),
            FaultKind::CloseConnection => write!(f, "hang up without an answer"),
            FaultKind::Delay(by) => write!(f, "wait for {by:?}"),
            FaultKind::DropResponse => write!(f, "keep the answer back"),
            FaultKind::TruncateList => write!(f, "give half of the answer"),
            FaultKind::DropBookmarks => write!(f, "no bookmarks"),
            FaultKind::DuringWatch { after, what } => {
                let what = match what {
                    WatchFault::Gone => "the version is too old",
                    WatchFault::TruncateEvent => "cut the next one",
                    WatchFault::Hang => "silence",
                    WatchFault::RepeatEvent => "repeat the last one",
                };
                write!(f, "after {after} events {what}")
            }
        }
    }
}

// === impl ErrorResponse ===

impl ErrorResponse {
    /// The whole HTTP response.
    pub(crate) fn to_http(self) -> String {
        let body = self.body();
        let retry = match self {
            ErrorResponse::TooManyRequests => "Retry-After: 1\r\n",
            ErrorResponse::Unauthorized
            | ErrorResponse::Gone
            | ErrorResponse::InternalError
            | ErrorResponse::Unavailable => "",
        };
        format!(
            "HTTP/1.1 {}\r\nContent-Type: application/json\r\nConnection: close\r\n{retry}Content-Length: {}\r\n\r\n{body}\n",
            self.status_line(),
            body.len() + 1
        )
    }

    fn status_line(self) -> &'static str {
        match self {
            ErrorResponse::Unauthorized => "401 Unauthorized",
            ErrorResponse::Gone => "410 Gone",
            ErrorResponse::TooManyRequests => "429 Too Many Requests",
            ErrorResponse::InternalError => "500 Internal Server Error",
            ErrorResponse::Unavailable => "503 Service Unavailable",
        }
    }

    /// The Status object as Kubernetes 1.36's error constructors print it, with messages that its server uses.
    fn body(self) -> &'static str {
        match self {
            ErrorResponse::Unauthorized => {
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#
            }
            ErrorResponse::Gone => {
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}"#
            }
            ErrorResponse::TooManyRequests => {
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"storage is (re)initializing","reason":"TooManyRequests","details":{"retryAfterSeconds":1},"code":429}"#
            }
            ErrorResponse::InternalError => {
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Internal error occurred: etcdserver: leader changed","reason":"InternalError","details":{"causes":[{"message":"etcdserver: leader changed"}]},"code":500}"#
            }
            ErrorResponse::Unavailable => {
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"apiserver is shutting down","reason":"ServiceUnavailable","code":503}"#
            }
        }
    }

    /// The watch event that reports this error.
    pub(crate) fn to_watch_event(self) -> String {
        format!("{{\"type\":\"ERROR\",\"object\":{}}}\n", self.body())
    }
}

// === impl PlanProgress ===

impl PlanProgress {
    pub(crate) fn new(plan: FaultPlan) -> PlanProgress {
        PlanProgress { plan, request_counts: BTreeMap::new() }
    }

    /// Counts a request and returns its planned fault, if any.
    pub(crate) fn next_fault(&mut self, path: &str, request_kind: RequestKind) -> Option<PlannedFault> {
        let count = self.request_counts.entry((path.to_owned(), request_kind)).or_default();
        *count += 1;
        let fits = |planned: &&PlannedFault| {
            planned.path == path && planned.request_kind == request_kind && planned.nth == *count
        };
        self.plan.faults.iter().find(fits).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAULTS: [FaultKind; 3] = [
        FaultKind::CloseConnection,
        FaultKind::Respond(ErrorResponse::Gone),
        FaultKind::DuringWatch { after: 2, what: WatchFault::TruncateEvent },
    ];

    #[test]
    fn a_seed_always_gives_the_same_plan() {
        let plan = |seed| FaultPlan::seeded(seed, &["/api/v1/pods", "/api/v1/nodes"], &FAULTS, 20);
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7).faults, plan(8).faults);
    }

    #[test]
    fn a_client_that_retries_meets_every_fault_once() {
        for seed in 0..50 {
            let paths = ["/api/v1/pods", "/api/v1/nodes"];
            let plan = FaultPlan::seeded(seed, &paths, &FAULTS, 20);
            let mut progress = PlanProgress::new(plan.clone());
            let mut found = Vec::new();
            for path in paths {
                for request_kind in [RequestKind::List, RequestKind::Watch] {
                    found.extend((0..100).filter_map(|_| progress.next_fault(path, request_kind)));
                }
            }
            let sorted = |mut planned_faults: Vec<PlannedFault>| {
                planned_faults.sort_by_key(PlannedFault::to_string);
                planned_faults
            };
            assert_eq!(sorted(found), sorted(plan.faults), "seed {seed}");
        }
    }

    #[test]
    fn a_plan_is_printed_fault_by_fault() {
        let planned = |fault| PlannedFault {
            path: "/api/v1/pods".to_owned(),
            request_kind: RequestKind::Watch,
            nth: 2,
            fault,
        };
        let plan = FaultPlan { seed: Some(7), faults: FAULTS.map(planned).to_vec() };
        assert_eq!(
            plan.to_string(),
            "plan of seed 7, steps: 3\n  \
             watch 2 of /api/v1/pods: hang up without an answer\n  \
             watch 2 of /api/v1/pods: answer 410 Gone\n  \
             watch 2 of /api/v1/pods: after 2 events cut the next one"
        );
    }
}
