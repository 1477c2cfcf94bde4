//! What an autoscaler makes of one pod, loop by loop.

use autoscaler::{About, Autoscaler, Event, Increase, Loop, PodView, ScaleUp, ScaleUpResult};
use model::{Moment, NamespacedName};

use super::why_ended;

/// What loops said of a pod.
pub struct PodSeen {
    pod: NamespacedName,
    /// What came of it in the last loop.
    pub outcome: Option<Outcome>,
    /// The last search for new nodes in which it took part.
    pub search: Option<Search>,
    /// When nodes were asked for because of it: the first time and the last ones.
    pub triggered: Vec<Triggered>,
    /// What it was told, each once, in the order in which it was last said.
    said: Vec<Event>,
}

/// Nodes are asked for, again and again until they come.
pub struct Triggered {
    /// When it first did.
    pub first: Moment,
    /// When it last did.
    pub last: Moment,
    /// How often.
    pub times: u64,
    /// Which groups grew.
    pub increases: Vec<Increase>,
}

/// A search for new nodes.
pub struct Search {
    /// When.
    pub at: Moment,
    /// What it found.
    pub found: ScaleUp,
}

/// What comes of a pod in a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is not there, or none of the autoscaler's business.
    Unknown,
    /// It never was, and would have been placed without more ado.
    Scheduled,
    /// It needs no new node, or gets none, for what it is.
    Stands(PodView),
    /// It waits, and all pods that do are so young that others may yet find room for them.
    AllYoung,
    /// There are as many nodes as there may be.
    MaxNodesTotal,
    /// The loop ended before.
    NotTried(String),
    /// Nodes are asked for because of it.
    Triggers(Vec<Increase>),
    /// Nodes that would take it were to be asked for, which failed.
    Failed(String),
    /// A group could help it, and another is chosen for other pods.
    Awaits,
    /// No group helps it.
    Refused,
}

/// A pod that calls for nodes again and again is not remembered each time.
const MOST_TRIGGERED: usize = 10;
const MOST_SAID: usize = 100;

// === impl PodSeen ===

impl PodSeen {
    pub(crate) fn new(pod: NamespacedName) -> PodSeen {
        PodSeen { pod, outcome: None, search: None, triggered: Vec::new(), said: Vec::new() }
    }

    /// A loop ran.
    pub fn see(&mut self, done: Loop, autoscaler: &Autoscaler) {
        let (at, why) = (done.at, why_ended(&done));
        let told = done
            .events
            .into_iter()
            .filter(|event| matches!(&event.about, About::Pod(pod) if *pod == self.pod));
        for event in told {
            match self.said.iter().position(|other| *other == event) {
                Some(place) => self.said[place..].rotate_left(1),
                None if self.said.len() < MOST_SAID => self.said.push(event),
                None => self.said[MOST_SAID - 1] = event,
            }
        }
        let first = done.scale_ups.first().map(|one| one.result);
        let search = done.scale_ups.into_iter().rev().find(|one| is_about(one, &self.pod));
        let outcome = match (&search, autoscaler.view_pod(at, &self.pod)) {
            (_, None) => Outcome::Unknown,
            (Some(search), Some(_)) => outcome(search, &self.pod),
            (None, Some(PodView::Waits)) => match first {
                Some(ScaleUpResult::InCooldown) => Outcome::AllYoung,
                Some(ScaleUpResult::LimitedByMaxNodesTotal) => Outcome::MaxNodesTotal,
                None | Some(ScaleUpResult::NotTried) => Outcome::NotTried(why),
                Some(_) => Outcome::Stands(PodView::Waits),
            },
            (None, Some(view)) => Outcome::Stands(view),
        };
        if let Outcome::Triggers(increases) = &outcome {
            self.trigger(at, increases);
        }
        if let Some(found) = search {
            self.search = Some(Search { at, found });
        }
        self.outcome = Some(outcome);
    }

    fn trigger(&mut self, at: Moment, increases: &[Increase]) {
        if let Some(same) = self.triggered.last_mut().filter(|last| last.increases == increases) {
            (same.last, same.times) = (at, same.times + 1);
            return;
        }
        if self.triggered.len() == MOST_TRIGGERED {
            self.triggered.remove(1);
        }
        self.triggered.push(Triggered { first: at, last: at, times: 1, increases: increases.to_vec() });
    }

    /// Whether it was told the same. The order of reasons is chance in the real autoscaler.
    pub fn has_said(&self, reason: &str, message: &str) -> bool {
        let parts = |message: &str| {
            let message = message.strip_prefix("pod didn't trigger scale-up: ").unwrap_or(message).to_owned();
            let mut parts: Vec<String> = message.split(", ").map(str::to_owned).collect();
            parts.sort_unstable();
            parts
        };
        self.said.iter().any(|event| event.reason == reason && parts(&event.message) == parts(message))
    }

    /// What it was told last, with the reason.
    pub fn last_said(&self) -> Option<&Event> {
        self.said.last()
    }
}

fn is_about(search: &ScaleUp, pod: &NamespacedName) -> bool {
    search.looked_at.iter().any(|same| same.pods.iter().any(|other| other == pod))
}

fn outcome(search: &ScaleUp, pod: &NamespacedName) -> Outcome {
    if search.result == ScaleUpResult::Error {
        return Outcome::Failed(search.error.clone().unwrap_or_default());
    }
    if search.result == ScaleUpResult::Successful && search.triggered.contains(pod) {
        return Outcome::Triggers(search.increases.clone());
    }
    if search.remaining.iter().any(|remaining| remaining.pod == *pod) {
        return Outcome::Refused;
    }
    Outcome::Awaits
}
