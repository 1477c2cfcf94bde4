//! Writing a database by the recorder's rules, so that its replayer finds what it would find in its own.
//!
//! Losses of those rules are losses here: a state that was there before is not recorded again, what the hash does not
//! look at is not recorded at all, and a node of an old name and content stays deleted.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Change, Gap, Key, Moment, What};
use serde_json::Value;

use super::info::{
    CsiNodeInfo, DEPLOYMENT, EventInfo, MachineClassInfo, MachineDeploymentInfo, Meta, NodeInfo, PRIORITIES,
    PodInfo, PriorityClassInfo, ScheduleStatus, SettingsInfo, WorkerPoolInfo, is_ready,
};
use super::rows::{Part, Rows};
use super::times::go_micros;
use crate::{Error, Result, Written};

/// Writes a database.
pub struct Writer {
    rows: Rows,
    path: PathBuf,
    /// Its name, for messages.
    file: String,
    /// A database holds one cluster.
    source: Option<Arc<str>>,
    /// When the recording began: events from before are not recorded.
    start: Option<Moment>,
    /// The hash of each machine deployment and class that is there, `None` of one that cannot be read.
    machines: HashMap<Key, Option<String>>,
    /// The hashes of the pools of each Worker that is there, `None` of one that cannot be read.
    workers: HashMap<Key, Option<BTreeMap<String, String>>>,
    /// The newest row of the autoscaler's settings: its time and its content.
    settings: Option<(i64, SettingsInfo)>,
    written: Written,
}

// === impl Writer ===

impl Writer {
    /// Makes a database. There must be no file yet, or an empty one.
    pub fn create(path: &Path) -> Result<Writer> {
        let file = path.display().to_string();
        if path.metadata().is_ok_and(|file| file.len() > 0) {
            return Err(Error::unfit(
                &file,
                "is there already; a scaling history is written into a new file",
            ));
        }
        let rows = Rows::create(path).map_err(|source| cannot_write(&file, source))?;
        Ok(Writer {
            rows,
            path: path.to_owned(),
            file,
            source: None,
            start: None,
            machines: HashMap::new(),
            workers: HashMap::new(),
            settings: None,
            written: Written::default(),
        })
    }

    fn take(&mut self, change: &Change) -> rusqlite::Result<()> {
        if self.start.is_none() {
            self.start = Some(change.at);
            self.rows.begin(change.at)?;
        }
        let (key, gone) = (&change.key, matches!(change.what, What::Deleted(_)));
        type Take = fn(&mut Writer, &Change, &Value) -> rusqlite::Result<Outcome>;
        let take: Take = match (&*key.kind.group, &*key.kind.kind, gone) {
            ("", "Pod", false) => Writer::pod,
            ("", "Pod", true) => Writer::pod_gone,
            ("", "Node", false) => Writer::node,
            ("", "Node", true) => |writer, change, object| writer.gone(Part::Node, change, object),
            ("storage.k8s.io", "CSINode", false) => Writer::csi_node,
            ("storage.k8s.io", "CSINode", true) => {
                |writer, change, object| writer.gone(Part::CsiNode, change, object)
            }
            ("scheduling.k8s.io", "PriorityClass", false) => Writer::priority_class,
            ("machine.sapcloud.io", "MachineDeployment", false) => Writer::machine_deployment,
            ("machine.sapcloud.io", "MachineDeployment", true) => {
                |writer, change, object| writer.machine_gone(Part::MachineDeployment, change, object)
            }
            ("machine.sapcloud.io", "MachineClass", false) => Writer::machine_class,
            ("machine.sapcloud.io", "MachineClass", true) => {
                |writer, change, object| writer.machine_gone(Part::MachineClass, change, object)
            }
            ("extensions.gardener.cloud", "Worker", false) => Writer::worker,
            ("extensions.gardener.cloud", "Worker", true) => {
                self.workers.remove(key);
                return self.leave_out("deletions of Worker");
            }
            ("apps", "Deployment", false) if &*key.name == DEPLOYMENT => Writer::autoscaler,
            ("", "ConfigMap", false) if &*key.name == PRIORITIES => Writer::priorities,
            ("" | "events.k8s.io", "Event", false) => Writer::event,
            (_, kind, false) => return self.leave_out(&format!("changes of {kind}")),
            (_, kind, true) => return self.leave_out(&format!("deletions of {kind}")),
        };
        let outcome = match change.what.object().value() {
            Ok(object) => take(self, change, &object)?,
            Err(_) => UNREADABLE,
        };
        match outcome {
            Ok(()) => self.written.count += 1,
            Err(why) => self.written.left_out.count(why),
        }
        Ok(())
    }

    fn leave_out(&mut self, what: &str) -> rusqlite::Result<()> {
        self.written.left_out.count(what);
        Ok(())
    }

    fn pod(&mut self, _: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let Ok(info) = PodInfo::of(object) else { return Ok(UNREADABLE) };
        if info.meta.deleted.is_some() {
            return Ok(LEAVING);
        }
        if info.status == ScheduleStatus::Pending {
            return Ok(Err("pods that the scheduler has not looked at"));
        }
        let Ok(hash) = info.hash() else { return Ok(UNREADABLE) };
        if let Some(known) = self.known(Part::Pod, &info.uid, &hash)? {
            return Ok(Err(known));
        }
        self.rows.pod(&info, &hash).map(Ok)
    }

    /// Only what carries the time of its deletion is marked, with that time: the end of its grace, not its own.
    fn pod_gone(&mut self, _: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let Ok(Meta { deleted: Some(deleted), .. }) = Meta::of(object) else {
            return Ok(Err("deletions of pods that do not carry its time"));
        };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        self.mark_deleted(Part::Pod, uid, deleted)
    }

    fn node(&mut self, _: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let Ok(info) = NodeInfo::of(object) else { return Ok(UNREADABLE) };
        if info.meta.deleted.is_some() {
            return Ok(LEAVING);
        }
        if !is_ready(object) {
            return Ok(Err("nodes that are not ready"));
        }
        let hash = info.hash();
        if let Some(known) = self.known(Part::Node, &info.meta.name, &hash)? {
            return Ok(Err(known));
        }
        self.rows.node(&info, &hash).map(Ok)
    }

    /// Every change is recorded, whatever changed.
    fn csi_node(&mut self, change: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let Ok(info) = CsiNodeInfo::of(object) else { return Ok(UNREADABLE) };
        self.rows.csi_node(&info, change.at).map(Ok)
    }

    /// The recorder looks for rows whose uid is this name, so it hardly ever finds one.
    fn priority_class(&mut self, change: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let Ok(info) = PriorityClassInfo::of(object) else { return Ok(UNREADABLE) };
        if info.meta.deleted.is_some() {
            return Ok(LEAVING);
        }
        let hash = info.hash();
        if let Some(known) = self.known(Part::PriorityClass, &info.meta.name, &hash)? {
            return Ok(Err(known));
        }
        self.rows.priority_class(&info, &hash, change.at).map(Ok)
    }

    fn machine_deployment(&mut self, change: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let info = MachineDeploymentInfo::of(object);
        let hash = info.as_ref().ok().map(MachineDeploymentInfo::hash);
        if let Some(left_out) = self.machine(Part::MachineDeployment, change, object, hash)? {
            return Ok(left_out);
        }
        let Ok(info) = info else { return Ok(UNREADABLE) };
        let hash = info.hash();
        self.rows.machine_deployment(&info, &hash, change.at).map(Ok)
    }

    fn machine_class(&mut self, change: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let info = MachineClassInfo::of(object);
        let hash = info.as_ref().ok().map(MachineClassInfo::hash);
        if let Some(left_out) = self.machine(Part::MachineClass, change, object, hash)? {
            return Ok(left_out);
        }
        let Ok(info) = info else { return Ok(UNREADABLE) };
        let hash = info.hash();
        self.rows.machine_class(&info, &hash, change.at).map(Ok)
    }

    /// Whether a machine deployment or class is left out: one that is the same as before, or, if it is new, the same
    /// as the newest row of its name. If what was before cannot be read, the recorder gives up on what is now.
    fn machine(
        &mut self,
        part: Part,
        change: &Change,
        object: &Value,
        hash: Option<String>,
    ) -> rusqlite::Result<Option<Outcome>> {
        let before = match self.machines.insert(change.key.clone(), hash.clone()) {
            Some(Some(before)) => Some(before),
            Some(None) => return Ok(Some(UNREADABLE)),
            None if !object["metadata"]["deletionTimestamp"].is_null() => return Ok(Some(LEAVING)),
            None => self.rows.newest_hash(part, &change.key.name)?,
        };
        Ok(match hash {
            None => Some(UNREADABLE),
            hash if hash == before => Some(Err(UNSEEN)),
            Some(_) => None,
        })
    }

    fn machine_gone(&mut self, part: Part, change: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        self.machines.remove(&change.key);
        self.gone(part, change, object)
    }

    /// A row for each pool that is not as its newest row says.
    fn worker(&mut self, change: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let pools = WorkerPoolInfo::all_of(object);
        let hashes = pools.as_ref().ok().map(|pools| {
            pools.iter().map(|(name, pool)| (name.clone(), pool.hash())).collect::<BTreeMap<_, _>>()
        });
        let before = match self.workers.insert(change.key.clone(), hashes) {
            Some(None) => return Ok(UNREADABLE),
            Some(Some(before)) => before,
            None => BTreeMap::new(),
        };
        let Ok(pools) = pools else { return Ok(UNREADABLE) };
        let mut outcome = Err(UNSEEN);
        for (name, info) in &pools {
            let hash = info.hash();
            let newest = self.rows.newest_hash(Part::WorkerPool, name)?.or_else(|| before.get(name).cloned());
            if newest.as_ref() == Some(&hash) {
                continue;
            }
            self.rows.worker_pool(info, &hash)?;
            outcome = Ok(());
        }
        Ok(outcome)
    }

    /// The priorities stay those of the newest row.
    fn autoscaler(&mut self, change: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let Ok(mut settings) = SettingsInfo::of(object) else { return Ok(UNREADABLE) };
        if let Some((_, newest)) = &self.settings {
            settings.priorities.clone_from(&newest.priorities);
        }
        self.settings_row(go_micros(Some(change.at)), settings)
    }

    /// All else stays that of the newest row, its time included.
    fn priorities(&mut self, change: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let (at, mut settings) =
            self.settings.clone().unwrap_or((go_micros(Some(change.at)), SettingsInfo::default()));
        object["data"]["priorities"].as_str().unwrap_or_default().clone_into(&mut settings.priorities);
        self.settings_row(at, settings)
    }

    fn settings_row(&mut self, at: i64, settings: SettingsInfo) -> rusqlite::Result<Outcome> {
        let hash = settings.hash();
        if self.settings.as_ref().is_some_and(|(_, newest)| newest.hash() == hash) {
            return Ok(Err(UNSEEN));
        }
        if settings.groups.is_empty() {
            return Ok(Err("autoscaler settings without node groups"));
        }
        self.rows.settings(at, &settings, &hash)?;
        self.settings = Some((at, settings));
        Ok(Ok(()))
    }

    fn event(&mut self, _: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let info = match EventInfo::of(object) {
            Ok(Some(info)) => info,
            Ok(None) => return Ok(Err("events of other components")),
            Err(_) => return Ok(UNREADABLE),
        };
        if self.start.is_some_and(|start| info.at < start) {
            return Ok(Err("events from before the recording"));
        }
        let inserted = self.rows.event(&info)?;
        Ok(if inserted { Ok(()) } else { Err("repetitions of events") })
    }

    /// Marks all rows of a name, those of earlier lives too.
    fn gone(&mut self, part: Part, change: &Change, object: &Value) -> rusqlite::Result<Outcome> {
        let deleted = Meta::of(object).ok().and_then(|meta| meta.deleted).unwrap_or(change.at);
        self.mark_deleted(part, &change.key.name, deleted)
    }

    fn mark_deleted(&mut self, part: Part, key: &str, deleted: Moment) -> rusqlite::Result<Outcome> {
        let marked = self.rows.mark_deleted(part, key, go_micros(Some(deleted)))?;
        Ok(if marked == 0 { Err("deletions of what was never recorded") } else { Ok(()) })
    }

    /// Why a state is not recorded: it is the newest of this key, or was there before.
    fn known(&self, part: Part, key: &str, hash: &str) -> rusqlite::Result<Option<&'static str>> {
        if self.rows.newest_hash(part, key)?.as_deref() == Some(hash) {
            return Ok(Some(UNSEEN));
        }
        Ok(self.rows.has_hash(part, key, hash)?.then_some("returns to an earlier state"))
    }
}

impl crate::Writer for Writer {
    fn change(&mut self, change: &Change) -> Result<()> {
        match &self.source {
            None => self.source = Some(change.key.source.clone()),
            Some(source) if *source == change.key.source => {}
            Some(source) => {
                let why = format!(
                    "a scaling history holds one cluster, and this history has {source} and {}: choose one",
                    change.key.source
                );
                return Err(Error::unfit(&self.file, why));
            }
        }
        self.take(change).map_err(|source| cannot_write(&self.file, source))
    }

    /// After a gap of everything a recorder has started anew, which it writes down; other gaps it would not know of.
    fn gap(&mut self, gap: &Gap) -> Result<()> {
        if gap.kinds.is_empty() && !gap.is_open() && self.start.is_some() {
            return self.rows.begin(gap.to).map_err(|source| cannot_write(&self.file, source));
        }
        self.written.left_out.count("gaps");
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Written> {
        let Writer { rows, path, file, written, .. } = *self;
        rows.finish().map_err(|source| cannot_write(&file, source))?;
        let synced = std::fs::File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|source| Error::Io { doing: "write", file, source })?;
        Ok(written)
    }
}

/// Whether a change is in the file, or what to call it among what was left out.
type Outcome = std::result::Result<(), &'static str>;

const UNSEEN: &str = "changes that their hash does not see";
const UNREADABLE: Outcome = Err("objects that lack what the recorder needs");
const LEAVING: Outcome = Err("changes of objects on their way out");

fn cannot_write(file: &str, source: rusqlite::Error) -> Error {
    let kind = match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => ErrorKind::StorageFull,
        _ => ErrorKind::Other,
    };
    Error::Io { doing: "write", file: file.to_owned(), source: std::io::Error::new(kind, source) }
}
