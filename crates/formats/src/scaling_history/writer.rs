//! The writer of a database, which follows the recorder's rules, so that Gardener's replayer finds what the recorder
//! would have written.
//!
//! What those rules lose is lost here too: a state that occurred before is not recorded again, a change that does not
//! affect the hash is not recorded, and a node that returns with its old name and content stays deleted.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use model::{Change, Gap, Key, Moment, What};
use serde_json::Value;

use super::info::{
    AUTOSCALER_DEPLOYMENT, CsiNodeInfo, EventInfo, MachineClassInfo, MachineDeploymentInfo, NodeInfo,
    PRIORITIES_CONFIG_MAP, PodInfo, PriorityClassInfo, ScheduleStatus, SettingsInfo, SnapshotMeta,
    WorkerPoolInfo, is_ready,
};
use super::row_store::{IndexedTable, RowStore};
use super::timestamps::go_micros;
use crate::{Error, Result, WriteSummary};

/// Writes a database.
pub struct ScalingHistoryWriter {
    rows: RowStore,
    path: PathBuf,
    /// Its name, for messages.
    file: String,
    /// A database holds one cluster.
    source: Option<Arc<str>>,
    /// The beginning of the recording: earlier events are not recorded.
    start: Option<Moment>,
    /// The hash of each current machine deployment and class, `None` for one that cannot be parsed.
    machines: HashMap<Key, Option<String>>,
    /// The hashes of the pools of each current Worker, `None` for one that cannot be parsed.
    workers: HashMap<Key, Option<BTreeMap<String, String>>>,
    /// The latest row of the autoscaler's settings: its time and its content.
    settings: Option<(i64, SettingsInfo)>,
    written: WriteSummary,
}

// === impl ScalingHistoryWriter ===

impl ScalingHistoryWriter {
    /// Creates a database. The file must not exist, or be empty.
    pub fn create(path: &Path) -> Result<ScalingHistoryWriter> {
        let file = path.display().to_string();
        if path.metadata().is_ok_and(|file| file.len() > 0) {
            return Err(Error::invalid_file(&file, "already exists; a scaling history requires a new file"));
        }
        let rows = RowStore::create(path).map_err(|source| cannot_write(&file, source))?;
        Ok(ScalingHistoryWriter {
            rows,
            path: path.to_owned(),
            file,
            source: None,
            start: None,
            machines: HashMap::new(),
            workers: HashMap::new(),
            settings: None,
            written: WriteSummary::default(),
        })
    }

    fn write_change(&mut self, change: &Change) -> rusqlite::Result<()> {
        if self.start.is_none() {
            self.start = Some(change.at);
            self.rows.insert_start(change.at)?;
        }
        let (key, deleted) = (&change.key, matches!(change.what, What::Deleted(_)));
        type Take = fn(&mut ScalingHistoryWriter, &Change, &Value) -> rusqlite::Result<WriteOutcome>;
        let write_row: Take = match (&*key.kind.group, &*key.kind.kind, deleted) {
            ("", "Pod", false) => ScalingHistoryWriter::write_pod,
            ("", "Pod", true) => ScalingHistoryWriter::mark_pod_deleted,
            ("", "Node", false) => ScalingHistoryWriter::write_node,
            ("", "Node", true) => {
                |writer, change, object| writer.mark_object_deleted(IndexedTable::Node, change, object)
            }
            ("storage.k8s.io", "CSINode", false) => ScalingHistoryWriter::write_csi_node,
            ("storage.k8s.io", "CSINode", true) => {
                |writer, change, object| writer.mark_object_deleted(IndexedTable::CsiNode, change, object)
            }
            ("scheduling.k8s.io", "PriorityClass", false) => ScalingHistoryWriter::write_priority_class,
            ("machine.sapcloud.io", "MachineDeployment", false) => {
                ScalingHistoryWriter::write_machine_deployment
            }
            ("machine.sapcloud.io", "MachineDeployment", true) => |writer, change, object| {
                writer.mark_machine_deleted(IndexedTable::MachineDeployment, change, object)
            },
            ("machine.sapcloud.io", "MachineClass", false) => ScalingHistoryWriter::write_machine_class,
            ("machine.sapcloud.io", "MachineClass", true) => |writer, change, object| {
                writer.mark_machine_deleted(IndexedTable::MachineClass, change, object)
            },
            ("extensions.gardener.cloud", "Worker", false) => ScalingHistoryWriter::write_worker,
            ("extensions.gardener.cloud", "Worker", true) => {
                self.workers.remove(key);
                return self.count_left_out("deletions of Worker");
            }
            ("apps", "Deployment", false) if &*key.name == AUTOSCALER_DEPLOYMENT => {
                ScalingHistoryWriter::write_autoscaler
            }
            ("", "ConfigMap", false) if &*key.name == PRIORITIES_CONFIG_MAP => {
                ScalingHistoryWriter::write_priorities
            }
            ("" | "events.k8s.io", "Event", false) => ScalingHistoryWriter::write_event,
            (_, kind, false) => return self.count_left_out(&format!("changes of {kind}")),
            (_, kind, true) => return self.count_left_out(&format!("deletions of {kind}")),
        };
        let outcome = match change.what.object().value() {
            Ok(object) => write_row(self, change, &object)?,
            Err(_) => UNPARSABLE,
        };
        match outcome {
            Ok(()) => self.written.count += 1,
            Err(why) => self.written.left_out.count(why),
        }
        Ok(())
    }

    fn count_left_out(&mut self, category: &str) -> rusqlite::Result<()> {
        self.written.left_out.count(category);
        Ok(())
    }

    fn write_pod(&mut self, _: &Change, object: &Value) -> rusqlite::Result<WriteOutcome> {
        let Ok(info) = PodInfo::of(object) else { return Ok(UNPARSABLE) };
        if info.meta.deleted.is_some() {
            return Ok(BEING_DELETED);
        }
        if info.status == ScheduleStatus::Pending {
            return Ok(Err("pods without a PodScheduled condition"));
        }
        let Ok(hash) = info.hash() else { return Ok(UNPARSABLE) };
        if let Some(reason) = self.repetition_reason(IndexedTable::Pod, &info.uid, &hash)? {
            return Ok(Err(reason));
        }
        self.rows.insert_pod(&info, &hash).map(Ok)
    }

    /// Only a pod with a deletion timestamp is marked, with that time: the end of its grace period, not of the pod.
    fn mark_pod_deleted(&mut self, _: &Change, object: &Value) -> rusqlite::Result<WriteOutcome> {
        let Ok(SnapshotMeta { deleted: Some(deleted), .. }) = SnapshotMeta::of(object) else {
            return Ok(Err("deletions of pods without a deletionTimestamp"));
        };
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default();
        self.mark_deleted(IndexedTable::Pod, uid, deleted)
    }

    fn write_node(&mut self, _: &Change, object: &Value) -> rusqlite::Result<WriteOutcome> {
        let Ok(info) = NodeInfo::of(object) else { return Ok(UNPARSABLE) };
        if info.meta.deleted.is_some() {
            return Ok(BEING_DELETED);
        }
        if !is_ready(object) {
            return Ok(Err("nodes not ready"));
        }
        let hash = info.hash();
        if let Some(reason) = self.repetition_reason(IndexedTable::Node, &info.meta.name, &hash)? {
            return Ok(Err(reason));
        }
        self.rows.insert_node(&info, &hash).map(Ok)
    }

    /// Every change is recorded, as there is no hash.
    fn write_csi_node(&mut self, change: &Change, object: &Value) -> rusqlite::Result<WriteOutcome> {
        let Ok(info) = CsiNodeInfo::of(object) else { return Ok(UNPARSABLE) };
        self.rows.insert_csi_node(&info, change.at).map(Ok)
    }

    /// The recorder looks for rows whose UID equals the name, so it hardly ever finds one.
    fn write_priority_class(&mut self, change: &Change, object: &Value) -> rusqlite::Result<WriteOutcome> {
        let Ok(info) = PriorityClassInfo::of(object) else { return Ok(UNPARSABLE) };
        if info.meta.deleted.is_some() {
            return Ok(BEING_DELETED);
        }
        let hash = info.hash();
        if let Some(reason) = self.repetition_reason(IndexedTable::PriorityClass, &info.meta.name, &hash)? {
            return Ok(Err(reason));
        }
        self.rows.insert_priority_class(&info, &hash, change.at).map(Ok)
    }

    fn write_machine_deployment(
        &mut self,
        change: &Change,
        object: &Value,
    ) -> rusqlite::Result<WriteOutcome> {
        let info = MachineDeploymentInfo::of(object);
        let hash = info.as_ref().ok().map(MachineDeploymentInfo::hash);
        if let Some(left_out) =
            self.machine_left_out(IndexedTable::MachineDeployment, change, object, hash)?
        {
            return Ok(left_out);
        }
        let Ok(info) = info else { return Ok(UNPARSABLE) };
        let hash = info.hash();
        self.rows.insert_machine_deployment(&info, &hash, change.at).map(Ok)
    }

    fn write_machine_class(&mut self, change: &Change, object: &Value) -> rusqlite::Result<WriteOutcome> {
        let info = MachineClassInfo::of(object);
        let hash = info.as_ref().ok().map(MachineClassInfo::hash);
        if let Some(left_out) = self.machine_left_out(IndexedTable::MachineClass, change, object, hash)? {
            return Ok(left_out);
        }
        let Ok(info) = info else { return Ok(UNPARSABLE) };
        let hash = info.hash();
        self.rows.insert_machine_class(&info, &hash, change.at).map(Ok)
    }

    /// Whether a machine deployment or class is left out: if its hash is that of the previous version or, for a new
    /// object, of the latest row of its name. If the previous version cannot be parsed, the recorder rejects the
    /// change.
    fn machine_left_out(
        &mut self,
        part: IndexedTable,
        change: &Change,
        object: &Value,
        hash: Option<String>,
    ) -> rusqlite::Result<Option<WriteOutcome>> {
        let previous = match self.machines.insert(change.key.clone(), hash.clone()) {
            Some(Some(previous)) => Some(previous),
            Some(None) => return Ok(Some(UNPARSABLE)),
            None if !object["metadata"]["deletionTimestamp"].is_null() => return Ok(Some(BEING_DELETED)),
            None => self.rows.newest_hash(part, &change.key.name)?,
        };
        Ok(match hash {
            None => Some(UNPARSABLE),
            hash if hash == previous => Some(Err(HASH_UNCHANGED)),
            Some(_) => None,
        })
    }

    fn mark_machine_deleted(
        &mut self,
        part: IndexedTable,
        change: &Change,
        object: &Value,
    ) -> rusqlite::Result<WriteOutcome> {
        self.machines.remove(&change.key);
        self.mark_object_deleted(part, change, object)
    }

    /// Writes a row for each pool whose hash differs from its latest row.
    fn write_worker(&mut self, change: &Change, object: &Value) -> rusqlite::Result<WriteOutcome> {
        let pools = WorkerPoolInfo::pools_of(object);
        let hashes = pools.as_ref().ok().map(|pools| {
            pools.iter().map(|(name, pool)| (name.clone(), pool.hash())).collect::<BTreeMap<_, _>>()
        });
        let previous = match self.workers.insert(change.key.clone(), hashes) {
            Some(None) => return Ok(UNPARSABLE),
            Some(Some(previous)) => previous,
            None => BTreeMap::new(),
        };
        let Ok(pools) = pools else { return Ok(UNPARSABLE) };
        let mut outcome = Err(HASH_UNCHANGED);
        for (name, info) in &pools {
            let hash = info.hash();
            let newest = self
                .rows
                .newest_hash(IndexedTable::WorkerPool, name)?
                .or_else(|| previous.get(name).cloned());
            if newest.as_ref() == Some(&hash) {
                continue;
            }
            self.rows.insert_worker_pool(info, &hash)?;
            outcome = Ok(());
        }
        Ok(outcome)
    }

    /// The priorities stay those of the latest row.
    fn write_autoscaler(&mut self, change: &Change, object: &Value) -> rusqlite::Result<WriteOutcome> {
        let Ok(mut settings) = SettingsInfo::of(object) else { return Ok(UNPARSABLE) };
        if let Some((_, newest)) = &self.settings {
            settings.priorities.clone_from(&newest.priorities);
        }
        self.write_settings(go_micros(Some(change.at)), settings)
    }

    /// Everything else, including the time, stays that of the latest row.
    fn write_priorities(&mut self, change: &Change, object: &Value) -> rusqlite::Result<WriteOutcome> {
        let (at, mut settings) =
            self.settings.clone().unwrap_or((go_micros(Some(change.at)), SettingsInfo::default()));
        object["data"]["priorities"].as_str().unwrap_or_default().clone_into(&mut settings.priorities);
        self.write_settings(at, settings)
    }

    fn write_settings(&mut self, at: i64, settings: SettingsInfo) -> rusqlite::Result<WriteOutcome> {
        let hash = settings.hash();
        if self.settings.as_ref().is_some_and(|(_, newest)| newest.hash() == hash) {
            return Ok(Err(HASH_UNCHANGED));
        }
        if settings.groups.is_empty() {
            return Ok(Err("autoscaler settings without node groups"));
        }
        self.rows.insert_settings(at, &settings, &hash)?;
        self.settings = Some((at, settings));
        Ok(Ok(()))
    }

    fn write_event(&mut self, _: &Change, object: &Value) -> rusqlite::Result<WriteOutcome> {
        let info = match EventInfo::of(object) {
            Ok(Some(info)) => info,
            Ok(None) => return Ok(Err("events of other components")),
            Err(_) => return Ok(UNPARSABLE),
        };
        if self.start.is_some_and(|start| info.at < start) {
            return Ok(Err("events from before the recording"));
        }
        let inserted = self.rows.insert_event(&info)?;
        Ok(if inserted { Ok(()) } else { Err("repetitions of events") })
    }

    /// Marks all rows of a name, including those of earlier objects of that name.
    fn mark_object_deleted(
        &mut self,
        part: IndexedTable,
        change: &Change,
        object: &Value,
    ) -> rusqlite::Result<WriteOutcome> {
        let deleted = SnapshotMeta::of(object).ok().and_then(|meta| meta.deleted).unwrap_or(change.at);
        self.mark_deleted(part, &change.key.name, deleted)
    }

    fn mark_deleted(
        &mut self,
        part: IndexedTable,
        key: &str,
        deleted: Moment,
    ) -> rusqlite::Result<WriteOutcome> {
        let marked = self.rows.mark_deleted(part, key, go_micros(Some(deleted)))?;
        Ok(if marked == 0 { Err("deletions of unknown objects") } else { Ok(()) })
    }

    /// Why a state is not recorded: it is the latest of this key, or occurred before. `None` if it is new.
    fn repetition_reason(
        &self,
        part: IndexedTable,
        key: &str,
        hash: &str,
    ) -> rusqlite::Result<Option<&'static str>> {
        if self.rows.newest_hash(part, key)?.as_deref() == Some(hash) {
            return Ok(Some(HASH_UNCHANGED));
        }
        Ok(self.rows.has_hash(part, key, hash)?.then_some("returns to an earlier state"))
    }
}

impl crate::Writer for ScalingHistoryWriter {
    fn change(&mut self, change: &Change) -> Result<()> {
        match &self.source {
            None => self.source = Some(change.key.source.clone()),
            Some(source) if *source == change.key.source => {}
            Some(source) => {
                let why = format!(
                    "a scaling history has one cluster, but this history has the sources {source} and {}: specify one with --source",
                    change.key.source
                );
                return Err(Error::invalid_file(&self.file, why));
            }
        }
        self.write_change(change).map_err(|source| cannot_write(&self.file, source))
    }

    /// A gap of all kinds is written as a restart of the recorder; a recorder would not know of other gaps.
    fn gap(&mut self, gap: &Gap) -> Result<()> {
        if gap.kinds.is_empty() && !gap.is_open() && self.start.is_some() {
            return self.rows.insert_start(gap.to).map_err(|source| cannot_write(&self.file, source));
        }
        self.written.left_out.count("gaps");
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<WriteSummary> {
        let ScalingHistoryWriter { rows, path, file, written, .. } = *self;
        rows.finish().map_err(|source| cannot_write(&file, source))?;
        let synced = std::fs::File::open(&path).and_then(|file| file.sync_all());
        synced.map_err(|source| Error::Io { doing: "write", file, source })?;
        Ok(written)
    }
}

/// Whether a change was written, or its category among what was left out.
type WriteOutcome = std::result::Result<(), &'static str>;

const HASH_UNCHANGED: &str = "changes that do not affect the row's hash";
const UNPARSABLE: WriteOutcome = Err("objects without fields that the recorder requires");
const BEING_DELETED: WriteOutcome = Err("changes of terminating objects");

fn cannot_write(file: &str, source: rusqlite::Error) -> Error {
    let kind = match source.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DiskFull) => ErrorKind::StorageFull,
        _ => ErrorKind::Other,
    };
    Error::Io { doing: "write", file: file.to_owned(), source: std::io::Error::new(kind, source) }
}
