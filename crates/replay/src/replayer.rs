//! The library interface to recorded clusters: snapshots, scaling events and replays.

mod events;
mod replay;
mod report;
mod report_collector;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use autoscaler::NodeGroup;
use calibration::{DerivedGroups, derive_node_groups};
use history::{History, Selection};
use model::{Kind, Moment, Object, What, Window};

use crate::history_part::complete_from;
use crate::snapshot::{ClusterSnapshot, ScalingContext, snapshot};

pub use events::{ScalingEvent, ScalingEventKind};
pub use replay::ReplayBuilder;
pub use report::{Batch, ReplayReport};

/// The library's handle on the history of one cluster.
pub struct Replayer {
    history: History,
    source: Arc<str>,
    start: Moment,
    complete_from: Moment,
    end: Moment,
}

/// Errors of a [`Replayer`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayerError {
    /// The file.
    #[error(transparent)]
    History(#[from] history::Error),
    /// The file has no changes.
    #[error("{0} has no changes: nothing to replay")]
    Empty(PathBuf),
    /// The file has several sources, or not the requested one.
    #[error("{path} has the sources {}: specify one", found.join(", "))]
    Sources {
        /// The file.
        path: PathBuf,
        /// The recordings in it.
        found: Vec<String>,
    },
    /// A moment outside the recording.
    #[error("{asked} is outside the recording, which is from {start} to {end}")]
    Outside {
        /// The moment.
        asked: Moment,
        /// The first recorded moment.
        start: Moment,
        /// The last recorded moment.
        end: Moment,
    },
    /// A window that ends before it begins.
    #[error("invalid window: {from} is after {to}")]
    Backwards {
        /// Its beginning.
        from: Moment,
        /// Its end.
        to: Moment,
    },
    /// A duration of zero.
    #[error("{what} must be more than zero; omit it for {usual}")]
    Zero {
        /// The name of the option.
        what: &'static str,
        /// Its default.
        usual: &'static str,
    },
    /// The replay failed.
    #[error(transparent)]
    Play(#[from] crate::Error),
    /// A scenario could not be written.
    #[error("cannot write a scenario")]
    Scenario(#[source] io::Error),
}

// === impl Replayer ===

impl Replayer {
    /// Opens a history of one cluster.
    pub fn open(path: impl AsRef<Path>) -> Result<Replayer, ReplayerError> {
        Replayer::open_history(path.as_ref(), None)
    }

    /// Opens a history of several clusters, to replay this one.
    pub fn open_source(path: impl AsRef<Path>, source: &str) -> Result<Replayer, ReplayerError> {
        Replayer::open_history(path.as_ref(), Some(source))
    }

    fn open_history(path: &Path, source: Option<&str>) -> Result<Replayer, ReplayerError> {
        let history = History::open(path)?;
        let Some((first, last)) = history.span()? else { return Err(ReplayerError::Empty(path.to_owned())) };
        let mut sources = history.sources()?;
        if let Some(source) = source {
            sources.retain(|found| **found == *source);
        }
        let [source] = &sources[..] else {
            let found = history.sources()?.iter().map(ToString::to_string).collect();
            return Err(ReplayerError::Sources { path: path.to_owned(), found });
        };
        let source = source.clone();
        let end = history.end_of(&source)?.unwrap_or(last);
        let (start, complete) = complete_from(&history, &source, first, end)?;
        Ok(Replayer { history, source, start, complete_from: complete, end })
    }

    /// The first recorded moment. A recorder lists one kind after another, so the cluster may be incomplete.
    pub fn record_start(&self) -> Moment {
        self.start
    }

    /// The moment at which the recorder's initial lists were complete.
    pub fn complete_from(&self) -> Moment {
        self.complete_from
    }

    /// The last recorded moment.
    pub fn record_end(&self) -> Moment {
        self.end
    }

    /// Returns the recorded cluster at a moment.
    pub fn cluster_at(&self, t: Moment) -> Result<ClusterSnapshot, ReplayerError> {
        self.check(t)?;
        let objects = self.objects(t)?;
        let derived = derive_node_groups(objects.iter());
        Ok(recorded_snapshot(t, &objects, &derived.groups, &derived))
    }

    /// Returns the recorded scaling events from one moment to another, both included: Events of the autoscaler, and the
    /// nodes of groups that were added and removed.
    pub fn scaling_events(&self, t1: Moment, t2: Moment) -> Result<Vec<ScalingEvent>, ReplayerError> {
        self.check(t1)?;
        self.check(t2)?;
        if t2 < t1 {
            return Err(ReplayerError::Backwards { from: t1, to: t2 });
        }
        let window = Window { from: t1, to: t2.plus_nanos(1) };
        let (derived, _) = self.derive_groups(window, &self.objects(t1)?)?;
        // A node that was added at that very moment was added within the window.
        let nodes = self.objects(t1.plus_nanos(-1))?.iter().filter_map(node_name).collect();
        Ok(events::scaling_events(&self.history, &self.source, window, &derived.groups, nodes)?)
    }

    /// Replays the recording from where it is complete, for a duration, in batches of `batch_interval` or of the
    /// autoscaler's scan interval: see [`ReplayBuilder`] for all settings.
    pub fn replay(
        &self,
        duration: Duration,
        batch_interval: impl Into<Option<Duration>>,
    ) -> Result<ReplayReport, ReplayerError> {
        let replay = self.prepare().lasting(duration);
        match batch_interval.into() {
            Some(interval) => replay.batch_interval(interval).run(),
            None => replay.run(),
        }
    }

    /// Prepares a replay with further settings.
    pub fn prepare(&self) -> ReplayBuilder<'_> {
        ReplayBuilder::new(self)
    }

    fn check(&self, at: Moment) -> Result<(), ReplayerError> {
        let (start, end) = (self.start, self.end);
        if at < start || at > end { Err(ReplayerError::Outside { asked: at, start, end }) } else { Ok(()) }
    }

    /// All objects at a moment, by kind and name.
    fn objects(&self, at: Moment) -> Result<Vec<Object>, history::Error> {
        let selection = Selection { source: Some(self.source.clone()), ..Selection::default() };
        let cluster = self.history.at(at, &selection)?;
        Ok(cluster.into_objects().into_iter().map(|version| version.object).collect())
    }

    /// Derives groups and autoscaler of a window that begins with these objects, and returns the assumptions made. An
    /// autoscaler that was deployed within the window is assumed to have been there from the beginning.
    fn derive_groups(
        &self,
        window: Window,
        objects: &[Object],
    ) -> Result<(DerivedGroups, Vec<String>), history::Error> {
        let nodes = self.nodes_added_within(window, objects)?;
        let derived = derive_node_groups(objects.iter().chain(&nodes));
        if derived.settings.is_none() {
            let objects = self.objects(window.to.plus_nanos(-1))?;
            let later = derive_node_groups(objects.iter().chain(&self.nodes_added_within(window, &objects)?));
            if later.settings.is_some() {
                let assumption =
                    "the autoscaler was created within the window, and is assumed to run from its start"
                        .to_owned();
                let assumptions = later.assumptions.iter().cloned().chain([assumption]).collect();
                return Ok((later, assumptions));
            }
        }
        let mut assumptions = derived.assumptions.clone();
        if derived.settings.is_none() {
            assumptions.push("no autoscaler was recorded".to_owned());
        }
        Ok((derived, assumptions))
    }

    /// Nodes that were added within a window to those known, each in its first version.
    fn nodes_added_within(&self, window: Window, objects: &[Object]) -> Result<Vec<Object>, history::Error> {
        let mut names: BTreeSet<Arc<str>> = objects.iter().filter_map(node_name).collect();
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
    let meta = object.meta();
    (meta.kind == "Node" && meta.api_version == "v1").then(|| (*meta.name).into())
}

/// Returns the snapshot of a recorded cluster.
fn recorded_snapshot(
    at: Moment,
    objects: &[Object],
    groups: &[NodeGroup],
    derived: &DerivedGroups,
) -> ClusterSnapshot {
    let targets: BTreeMap<Arc<str>, i64> =
        derived.groups.iter().filter_map(|group| Some((group.name.clone(), group.target?))).collect();
    let autoscaler = derived.settings.as_ref();
    snapshot(at, objects.iter(), ScalingContext { groups, targets: &targets, autoscaler })
}
