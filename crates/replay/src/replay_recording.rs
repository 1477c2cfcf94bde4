//! Recordings of replays as histories.

use std::path::Path;
use std::sync::Arc;

use history::BulkWriter;
use model::{IncomingChange, Kind, Moment, Object, What};
use simulation::{Observer, PodDemand, SimulationEvent};

use crate::play::ReplayObserver;

/// Records a replay into a new history, which appears when it is complete.
pub struct ReplayRecording {
    bulk: BulkWriter,
    source: Arc<str>,
    /// Recorded objects that are not copied: kind, namespace, name (all, if empty).
    skipped: Vec<(Kind, Arc<str>, Arc<str>)>,
    error: Option<history::Error>,
}

impl ReplayRecording {
    /// Creates a recording whose source has this name.
    pub fn create(path: &Path, source: Arc<str>) -> Result<ReplayRecording, history::Error> {
        Ok(ReplayRecording { bulk: BulkWriter::open(path)?, source, skipped: Vec::new(), error: None })
    }

    /// Writes an object of our own first. Recorded objects of its kind are skipped.
    pub fn push_first(&mut self, at: Moment, object: Object) {
        self.skip(object.key(&self.source).kind, "", "");
        self.push(at, What::Added(object));
    }

    /// Writes an object of our own last, so that the history reaches to this moment even if nothing happened.
    pub fn push_last(&mut self, at: Moment, object: Object) {
        self.push(at, What::Modified(object));
    }

    /// Skips a recorded object.
    pub fn skip(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.skipped.push((kind, namespace.into(), name.into()));
    }

    /// Completes the history, and returns the number of changes.
    pub fn finish(self) -> Result<u64, history::Error> {
        match self.error {
            Some(error) => Err(error),
            None => self.bulk.finish(),
        }
    }

    /// The error that ended it, if there is one. The history is not completed.
    pub fn into_error(self) -> Option<history::Error> {
        self.error
    }

    fn push(&mut self, at: Moment, what: What) {
        if self.error.is_none() {
            self.error = self.bulk.push(&IncomingChange::received(at, &self.source, what)).err();
        }
    }

    fn is_skipped(&self, object: &Object) -> bool {
        let meta = object.meta();
        self.skipped.iter().any(|(kind, namespace, name)| {
            *kind.kind == *meta.kind
                && *kind == Kind::of(&meta.api_version, &meta.kind)
                && (name.is_empty() || (**namespace == *meta.namespace && **name == *meta.name))
        })
    }
}

impl Observer for ReplayRecording {
    fn wants_changes(&self) -> bool {
        true
    }

    fn on_change(&mut self, at: Moment, what: What) {
        if !self.is_skipped(what.object()) {
            self.push(at, what);
        }
    }

    fn on_event(&mut self, _: Moment, _: &SimulationEvent<'_>) {}
}

impl ReplayObserver for ReplayRecording {
    fn on_demand(&mut self, _: Moment, _: &PodDemand) {}

    fn should_continue(&self) -> bool {
        self.error.is_none()
    }
}
