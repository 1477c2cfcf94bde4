//! A recorded cluster to look at and to play again, as a library.

mod events;
mod follow;
mod replay;
mod report;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::NodeGroup;
use calibration::{Derived, derive};
use history::{History, Selection};
use model::{Kind, Moment, Object, What, Window};

use crate::play::whole_from;
use crate::snapshot::{ClusterSnapshot, Scaling, is_node, snapshot};

pub use events::{ScalingEvent, ScalingTold};
pub use replay::Replay;
pub use report::{Batch, ReplayReport};

/// A recorded cluster.
pub struct Replayer {
    history: History,
    source: Arc<str>,
    start: Moment,
    whole: Moment,
    end: Moment,
}

/// Why a recorded cluster cannot be shown or played.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file.
    #[error(transparent)]
    History(#[from] history::Error),
    /// The file has no changes.
    #[error("{0} holds no changes: there is nothing to replay")]
    Empty(PathBuf),
    /// The file has several clusters, or not the one that was asked for.
    #[error("{path} holds {}: choose one of them", found.join(" and "))]
    Sources {
        /// The file.
        path: PathBuf,
        /// The recordings in it.
        found: Vec<String>,
    },
    /// A moment before or after all that was recorded.
    #[error("{asked} was not recorded: the recording goes from {start} to {end}")]
    Outside {
        /// The moment.
        asked: Moment,
        /// The first moment that was.
        start: Moment,
        /// The last.
        end: Moment,
    },
    /// A window that ends before it begins.
    #[error("a window from {from} to {to} ends before it begins")]
    Backwards {
        /// Its beginning.
        from: Moment,
        /// Its end.
        to: Moment,
    },
    /// A span of no length.
    #[error("{what} of zero means nothing: give more than zero, or leave it out for {usual}")]
    Zero {
        /// Which span.
        what: &'static str,
        /// What it is if it is left out.
        usual: &'static str,
    },
    /// The recording cannot be played.
    #[error(transparent)]
    Play(#[from] crate::Error),
    /// A scenario could not be handed over.
    #[error("a scenario could not be written")]
    Scenario(#[source] io::Error),
}

// === impl Replayer ===

impl Replayer {
    /// Opens a history of one cluster.
    pub fn open(path: impl AsRef<Path>) -> Result<Replayer, Error> {
        Replayer::begin(path.as_ref(), None)
    }

    /// Opens a history of several clusters, to replay this one.
    pub fn open_source(path: impl AsRef<Path>, source: &str) -> Result<Replayer, Error> {
        Replayer::begin(path.as_ref(), Some(source))
    }

    fn begin(path: &Path, source: Option<&str>) -> Result<Replayer, Error> {
        let history = History::open(path)?;
        let Some((first, last)) = history.span()? else { return Err(Error::Empty(path.to_owned())) };
        let mut sources = history.sources()?;
        if let Some(source) = source {
            sources.retain(|found| **found == *source);
        }
        let [source] = &sources[..] else {
            let found = history.sources()?.iter().map(ToString::to_string).collect();
            return Err(Error::Sources { path: path.to_owned(), found });
        };
        let source = source.clone();
        let end = history.end_of(&source)?.unwrap_or(last);
        let (start, whole) = whole_from(&history, &source, first, end)?;
        Ok(Replayer { history, source, start, whole, end })
    }

    /// The first moment that was recorded. A recorder lists kind after kind, so the cluster is not whole yet.
    pub fn record_start(&self) -> Moment {
        self.start
    }

    /// The first moment at which everything had been seen that was there before the recording began.
    pub fn whole_from(&self) -> Moment {
        self.whole
    }

    /// The last moment that was recorded.
    pub fn record_end(&self) -> Moment {
        self.end
    }

    /// The cluster as it was recorded at a moment.
    pub fn cluster_at(&self, t: Moment) -> Result<ClusterSnapshot, Error> {
        self.check(t)?;
        let objects = self.objects(t)?;
        let derived = derive(objects.iter());
        Ok(shown(t, &objects, &derived.groups, &derived))
    }

    /// What the recording tells of scaling, from a moment to another, both included: what the autoscaler said, and the
    /// nodes of groups that came and went.
    pub fn scaling_events(&self, t1: Moment, t2: Moment) -> Result<Vec<ScalingEvent>, Error> {
        self.check(t1)?;
        self.check(t2)?;
        if t2 < t1 {
            return Err(Error::Backwards { from: t1, to: t2 });
        }
        let window = Window { from: t1, to: t2.plus_nanos(1) };
        let (derived, _) = self.derived(window, &self.objects(t1)?)?;
        // What came at that very moment came within the window.
        let nodes = self.objects(t1.plus_nanos(-1))?.iter().filter_map(node_name).collect();
        Ok(events::scaling_events(&self.history, &self.source, window, &derived.groups, nodes)?)
    }

    /// Plays the recording from where it is whole, for so long, in steps of `batch_interval` or of the autoscaler's scan
    /// interval: see [`Replay`] for all that can be set.
    pub fn replay(
        &self,
        duration: Duration,
        batch_interval: impl Into<Option<Duration>>,
    ) -> Result<ReplayReport, Error> {
        let replay = self.prepare().lasting(duration);
        match batch_interval.into() {
            Some(interval) => replay.batch_interval(interval).run(),
            None => replay.run(),
        }
    }

    /// A replay with all that can be set.
    pub fn prepare(&self) -> Replay<'_> {
        Replay::of(self)
    }

    fn check(&self, asked: Moment) -> Result<(), Error> {
        let (start, end) = (self.start, self.end);
        if asked < start || asked > end { Err(Error::Outside { asked, start, end }) } else { Ok(()) }
    }

    /// All objects at a moment, by kind and name.
    fn objects(&self, at: Moment) -> Result<Vec<Object>, history::Error> {
        let selection = Selection { source: Some(self.source.clone()), ..Selection::default() };
        let cluster = self.history.at(at, &selection)?;
        Ok(cluster.into_objects().into_iter().map(|version| version.object).collect())
    }

    /// What tells of groups and the autoscaler in a window that begins with these objects, and what was taken for granted.
    /// An autoscaler that came within the window is taken to have been there.
    fn derived(&self, window: Window, objects: &[Object]) -> Result<(Derived, Vec<String>), history::Error> {
        let nodes = self.nodes_within(window, objects)?;
        let derived = derive(objects.iter().chain(&nodes));
        if derived.settings.is_none() {
            let objects = self.objects(window.to.plus_nanos(-1))?;
            let later = derive(objects.iter().chain(&self.nodes_within(window, &objects)?));
            if later.settings.is_some() {
                let early =
                    "the autoscaler came within the window, and is taken to have been there".to_owned();
                let assumed = later.assumed.iter().cloned().chain([early]).collect();
                return Ok((later, assumed));
            }
        }
        let mut assumed = derived.assumed.clone();
        if derived.settings.is_none() {
            assumed.push("no autoscaler was recorded".to_owned());
        }
        Ok((derived, assumed))
    }

    /// Nodes that came within a window beside those that are known, each as it was when it came.
    fn nodes_within(&self, window: Window, known: &[Object]) -> Result<Vec<Object>, history::Error> {
        let mut names: BTreeSet<Arc<str>> = known.iter().filter_map(node_name).collect();
        let mut nodes = Vec::new();
        let kinds = Some(vec![Kind::new("", "Node")]);
        let selection = Selection { source: Some(self.source.clone()), kinds, ..Selection::default() };
        for change in self.history.between(window, &selection)? {
            let change = change?;
            if let What::Added(node) | What::Modified(node) = change.what
                && names.insert(change.key.name)
            {
                nodes.push(node);
            }
        }
        Ok(nodes)
    }
}

fn node_name(object: &Object) -> Option<Arc<str>> {
    is_node(object).then(|| (*object.meta().name).into())
}

/// A cluster as it was recorded.
fn shown(at: Moment, objects: &[Object], groups: &[NodeGroup], derived: &Derived) -> ClusterSnapshot {
    let targets: BTreeMap<Arc<str>, i64> =
        derived.groups.iter().filter_map(|group| Some((group.name.clone(), group.target?))).collect();
    let autoscaler = derived.settings.as_ref();
    snapshot(at, objects.iter(), Scaling { groups, targets: &targets, autoscaler })
}
