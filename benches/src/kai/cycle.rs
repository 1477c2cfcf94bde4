//! A cycle on a snapshot in a file, timed part by part.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use ::kai::{Action, Session, Settings, Snapshot};
use formats::{ImportItem, Input, kai_snapshot};
use model::{Moment, Object};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::objects::NOW;
use crate::Result;

/// The times of a cycle in seconds, and what it decided.
#[derive(Serialize, Deserialize)]
pub(super) struct CycleReport {
    /// From the file to parsed objects.
    pub(super) read: f64,
    /// From parsed objects to a session.
    pub(super) open: f64,
    pub(super) actions: Vec<ActionReport>,
    pub(super) nodes: usize,
    pub(super) pods: usize,
}

/// The time of an action in seconds, and its decisions.
#[derive(Serialize, Deserialize)]
pub(super) struct ActionReport {
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) bound: usize,
    pub(super) pipelined: usize,
    pub(super) evicted: usize,
    /// The scenarios that were simulated in search of victims, and the evictions in them.
    pub(super) scenarios: u64,
    pub(super) simulated_evictions: u64,
}

/// The settings as the reader of snapshots returns them.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SettingsObject<'a> {
    #[serde(borrow)]
    config: &'a RawValue,
    #[serde(borrow)]
    scheduler_params: &'a RawValue,
}

/// Reads the snapshot and runs a cycle.
pub(super) fn run_cycle(path: &Path) -> Result<(CycleReport, Session)> {
    let start = Instant::now();
    let (snapshot, nodes, pods) = read(path)?;
    let read = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let mut session = Session::open(&snapshot, NOW.parse::<Moment>()?)?;
    let open = start.elapsed().as_secs_f64();
    drop(snapshot);
    let mut actions = Vec::new();
    for action in Action::ALL {
        let before = session.search_counts();
        let start = Instant::now();
        let decisions = session.run_action(action);
        let seconds = start.elapsed().as_secs_f64();
        let (bound, pipelined, evicted) =
            (decisions.bound.len(), decisions.pipelined.len(), decisions.evicted.len());
        let after = session.search_counts();
        let report = ActionReport {
            name: action.name().to_owned(),
            seconds,
            bound,
            pipelined,
            evicted,
            scenarios: after.scenarios - before.scenarios,
            simulated_evictions: after.evictions - before.evictions,
        };
        actions.push(report);
    }
    Ok((CycleReport { read, open, actions, nodes, pods }, session))
}

/// Reads the file; also returns how many nodes and pods there are.
pub(super) fn read(path: &Path) -> Result<(Snapshot, usize, usize)> {
    let mut settings = None;
    let mut objects: Vec<Object> = Vec::new();
    let input = Input::open("snapshot", Box::new(File::open(path)?))?.with_path(path);
    for item in kai_snapshot::read(input)? {
        match item? {
            ImportItem::Object(object) if object.meta().kind == kai_snapshot::SETTINGS_KIND => {
                let parts: SettingsObject<'_> = object.view()?;
                settings = Some(Settings::parse(parts.config.get(), parts.scheduler_params.get())?);
            }
            ImportItem::Object(object) => objects.push(object),
            other => return Err(format!("unexpected in a snapshot: {other:?}").into()),
        }
    }
    let mut snapshot = Snapshot::new(settings.ok_or("the snapshot has no settings")?);
    let (mut nodes, mut pods) = (0, 0);
    for object in objects {
        nodes += usize::from(object.meta().kind == "Node");
        pods += usize::from(object.meta().kind == "Pod");
        snapshot.add(&object)?;
    }
    Ok((snapshot, nodes, pods))
}
