//! A replay filmed: a history of what came of it.

use std::path::Path;
use std::sync::Arc;

use history::Bulk;
use model::{Kind, Moment, Object, Observed, What};
use simulation::{Decided, Demand, Observer};

use crate::play::Follower;

/// Films a replay into a new history, which is there when it is whole.
pub struct Film {
    bulk: Bulk,
    source: Arc<str>,
    /// Objects that are not as recorded, and that nobody in the replay writes: kind, namespace, name (all, if empty).
    skipped: Vec<(Kind, Arc<str>, Arc<str>)>,
    trouble: Option<history::Error>,
}

impl Film {
    /// A film of a recording of that name.
    pub fn into(path: &Path, source: Arc<str>) -> Result<Film, history::Error> {
        Ok(Film { bulk: Bulk::into(path)?, source, skipped: Vec::new(), trouble: None })
    }

    /// Begins with an object of our own. What the recording has of its kind is not filmed.
    pub fn begin(&mut self, at: Moment, object: Object) {
        self.skip(object.key(&self.source).kind, "", "");
        self.push(at, What::Added(object));
    }

    /// Ends with an object of our own, so that the film lasts until then, be it that nothing happened any more.
    pub fn end(&mut self, at: Moment, object: Object) {
        self.push(at, What::Modified(object));
    }

    /// Does not film what the recording has of an object.
    pub fn skip(&mut self, kind: Kind, namespace: &str, name: &str) {
        self.skipped.push((kind, namespace.into(), name.into()));
    }

    /// Makes it count.
    pub fn finish(self) -> Result<u64, history::Error> {
        match self.trouble {
            Some(trouble) => Err(trouble),
            None => self.bulk.finish(),
        }
    }

    fn push(&mut self, at: Moment, what: What) {
        if self.trouble.is_none() {
            self.trouble = self.bulk.push(&Observed::received(at, &self.source, what)).err();
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

impl Observer for Film {
    fn wants_changes(&self) -> bool {
        true
    }

    fn changed(&mut self, at: Moment, what: What) {
        if !self.is_skipped(what.object()) {
            self.push(at, what);
        }
    }

    fn decided(&mut self, _: Moment, _: &Decided<'_>) {}
}

impl Follower for Film {
    fn asked(&mut self, _: Moment, _: &Demand) {}

    fn goes_on(&self) -> bool {
        self.trouble.is_none()
    }
}
