//! The rows of a database that is being written, with an index by the recorder's lookup keys.

use std::collections::BTreeMap;
use std::path::Path;

use model::Moment;
use rusqlite::{Connection, OptionalExtension, ToSql, named_params, params};
use serde_json::{Value, json};

use super::info::{
    CsiNodeInfo, EventInfo, MachineClassInfo, MachineDeploymentInfo, NodeInfo, PodInfo, PriorityClassInfo,
    SettingsInfo, WorkerPoolInfo,
};
use super::timestamps::{go_micros, to_text};
use crate::go_json;

/// The tables, and a temporary index of their rows: the recorder's files have no indexes, so the file gets none.
pub(super) struct RowStore {
    db: Connection,
}

/// The tables whose rows are looked up.
#[derive(Clone, Copy)]
pub(super) enum IndexedTable {
    Pod,
    Node,
    CsiNode,
    PriorityClass,
    MachineDeployment,
    MachineClass,
    WorkerPool,
}

// === impl RowStore ===

impl RowStore {
    /// Creates the tables. An unfinished file is useless anyway, so there is no journal.
    pub(super) fn create(path: &Path) -> rusqlite::Result<RowStore> {
        let db = Connection::open(path)?;
        db.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN")?;
        db.execute_batch(include_str!("schema.sql"))?;
        db.execute_batch(
            "CREATE TEMP TABLE rows (part INTEGER, key TEXT, row INTEGER, hash TEXT, PRIMARY KEY (part, key, row))
             WITHOUT ROWID",
        )?;
        db.set_prepared_statement_cache_capacity(32);
        Ok(RowStore { db })
    }

    /// Records a start of the recorder.
    pub(super) fn insert_start(&self, at: Moment) -> rusqlite::Result<()> {
        self.execute("INSERT INTO recorder_state_info VALUES (?)", &[&go_micros(Some(at))]).map(drop)
    }

    pub(super) fn insert_pod(&self, info: &PodInfo, hash: &str) -> rusqlite::Result<()> {
        self.insert_indexed(
            IndexedTable::Pod,
            &info.uid,
            Some(hash),
            "INSERT INTO pod_info (CreationTimestamp, SnapshotTimestamp, Name, Namespace, UID, NodeName,
                NominatedNodeName, Phase, Labels, Requests, Spec, ScheduleStatus, Hash)
             VALUES (:created, :changed, :name, :namespace, :uid, :node, :nominated, :phase, :labels, :requests,
                :spec, :status, :hash)",
            named_params! {
                ":created": go_micros(info.meta.created), ":changed": go_micros(info.changed),
                ":name": info.meta.name, ":namespace": info.meta.namespace, ":uid": info.uid,
                ":node": info.node_name(), ":nominated": info.nominated, ":phase": info.phase,
                ":labels": json_text(&json!(info.labels)), ":requests": json_text(&json!(info.requests)),
                ":spec": json_text(&info.spec), ":status": info.status as i64, ":hash": hash,
            },
        )
    }

    pub(super) fn insert_node(&self, info: &NodeInfo, hash: &str) -> rusqlite::Result<()> {
        self.insert_indexed(
            IndexedTable::Node,
            &info.meta.name,
            Some(hash),
            "INSERT INTO node_info (CreationTimestamp, SnapshotTimestamp, Name, Namespace, ProviderID,
                AllocatableVolumes, Labels, Taints, Allocatable, Capacity, Hash)
             VALUES (:created, :changed, :name, :namespace, :provider, 0, :labels, :taints, :allocatable, :capacity,
                :hash)",
            named_params! {
                ":created": go_micros(info.meta.created), ":changed": go_micros(info.changed),
                ":name": info.meta.name, ":namespace": info.meta.namespace, ":provider": info.provider_id,
                ":labels": json_text(&json!(info.labels)), ":taints": json_text(&json!(info.taints)),
                ":allocatable": json_text(&json!(info.allocatable)),
                ":capacity": json_text(&json!(info.capacity)), ":hash": hash,
            },
        )
    }

    pub(super) fn insert_csi_node(&self, info: &CsiNodeInfo, seen: Moment) -> rusqlite::Result<()> {
        self.insert_indexed(
            IndexedTable::CsiNode,
            &info.meta.name,
            None,
            "INSERT INTO csi_node_info (CreationTimestamp, SnapshotTimestamp, Name, Namespace, AllocatableVolumes)
             VALUES (:created, :seen, :name, :namespace, :volumes)",
            named_params! {
                ":created": go_micros(info.meta.created), ":seen": go_micros(Some(seen)),
                ":name": info.meta.name, ":namespace": info.meta.namespace, ":volumes": info.volumes,
            },
        )
    }

    pub(super) fn insert_priority_class(
        &self,
        info: &PriorityClassInfo,
        hash: &str,
        seen: Moment,
    ) -> rusqlite::Result<()> {
        self.insert_indexed(
            IndexedTable::PriorityClass,
            &info.uid,
            Some(hash),
            "INSERT INTO pc_info (CreationTimestamp, SnapshotTimestamp, Name, UID, Value, GlobalDefault,
                PreemptionPolicy, Description, Labels, Hash)
             VALUES (:created, :seen, :name, :uid, :value, :default, :policy, :description, :labels, :hash)",
            named_params! {
                ":created": go_micros(info.meta.created), ":seen": go_micros(Some(seen)),
                ":name": info.meta.name, ":uid": info.uid, ":value": info.value,
                ":default": info.global_default, ":policy": info.preemption_policy,
                ":description": info.description, ":labels": json_text(&json!(info.labels)), ":hash": hash,
            },
        )
    }

    pub(super) fn insert_machine_deployment(
        &self,
        info: &MachineDeploymentInfo,
        hash: &str,
        seen: Moment,
    ) -> rusqlite::Result<()> {
        self.insert_indexed(
            IndexedTable::MachineDeployment,
            &info.meta.name,
            Some(hash),
            "INSERT INTO mcd_info (CreationTimestamp, SnapshotTimestamp, Name, Namespace, Replicas, PoolName, Zone,
                MaxSurge, MaxUnavailable, MachineClassName, Labels, Taints, Hash)
             VALUES (:created, :seen, :name, :namespace, :replicas, :pool, :zone, :surge, :unavailable, :class,
                :labels, :taints, :hash)",
            named_params! {
                ":created": go_micros(info.meta.created), ":seen": go_micros(Some(seen)),
                ":name": info.meta.name, ":namespace": info.meta.namespace, ":replicas": info.replicas,
                ":pool": info.pool, ":zone": info.zone, ":surge": info.max_surge,
                ":unavailable": info.max_unavailable, ":class": info.class,
                ":labels": json_text(&json!(info.labels)), ":taints": json_text(&json!(info.taints)),
                ":hash": hash,
            },
        )
    }

    pub(super) fn insert_machine_class(
        &self,
        info: &MachineClassInfo,
        hash: &str,
        seen: Moment,
    ) -> rusqlite::Result<()> {
        self.insert_indexed(
            IndexedTable::MachineClass,
            &info.meta.name,
            Some(hash),
            "INSERT INTO mcc_info (CreationTimestamp, SnapshotTimestamp, Name, Namespace, InstanceType, PoolName,
                Region, Zone, Labels, Capacity, Hash)
             VALUES (:created, :seen, :name, :namespace, :type, :pool, :region, :zone, :labels, :capacity, :hash)",
            named_params! {
                ":created": go_micros(info.meta.created), ":seen": go_micros(Some(seen)),
                ":name": info.meta.name, ":namespace": info.meta.namespace, ":type": info.instance_type,
                ":pool": info.pool, ":region": info.region, ":zone": info.zone,
                ":labels": json_text(&json!(info.labels)), ":capacity": json_text(&json!(info.capacity)),
                ":hash": hash,
            },
        )
    }

    pub(super) fn insert_worker_pool(&self, info: &WorkerPoolInfo, hash: &str) -> rusqlite::Result<()> {
        self.insert_indexed(
                IndexedTable::WorkerPool,
                &info.meta.name,
                Some(hash),
                "INSERT INTO worker_pool_info (CreationTimestamp, SnapshotTimestamp, Name, Namespace, MachineType,
                    Architecture, Minimum, Maximum, MaxSurge, MaxUnavailable, Zones, Hash)
                 VALUES (:created, :changed, :name, :namespace, :type, :architecture, :min, :max, :surge,
                    :unavailable, :zones, :hash)",
                named_params! {
                    ":created": go_micros(info.meta.created), ":changed": go_micros(info.changed),
                    ":name": info.meta.name, ":namespace": info.meta.namespace, ":type": info.machine_type,
                    ":architecture": info.architecture, ":min": info.minimum, ":max": info.maximum,
                    ":surge": info.max_surge, ":unavailable": info.max_unavailable,
                    ":zones": info.zones.join(" "), ":hash": hash,
                },
            )
    }

    pub(super) fn insert_settings(
        &self,
        at: i64,
        settings: &SettingsInfo,
        hash: &str,
    ) -> rusqlite::Result<()> {
        let groups: BTreeMap<&str, Value> = settings
            .groups
            .iter()
            .map(|(name, (min, max))| (name.as_str(), json!({ "Min": min, "Max": max })))
            .collect();
        self.execute(
            "INSERT INTO ca_settings_info (SnapshotTimestamp, Expander, ScanInterval, MaxNodeProvisionTime,
                MaxGracefulTerminationSeconds, NewPodScaleUpDelay, MaxEmptyBulkDelete, IgnoreDaemonSetUtilization,
                MaxNodesTotal, NodeGroupsMinMax, Priorities, Hash)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
            at,
            settings.expander,
            settings.scan_interval_millis,
            settings.max_node_provision_millis,
            settings.max_graceful_termination_seconds,
            settings.new_pod_scale_up_delay_millis,
            settings.max_empty_bulk_delete,
            settings.ignore_daemon_sets,
            settings.max_nodes_total,
            json_text(&json!(groups)),
            settings.priorities,
            hash,
        ]).map(drop)
    }

    /// Inserts an event; returns false if it is there already.
    pub(super) fn insert_event(&self, info: &EventInfo) -> rusqlite::Result<bool> {
        let inserted = self.execute(
            "INSERT INTO event_info (UID, EventTime, ReportingController, Reason, Message, InvolvedObjectKind,
                InvolvedObjectName, InvolvedObjectNamespace, InvolvedObjectUID)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (UID) DO NOTHING",
            params![
            info.uid,
            to_text(info.at),
            info.controller,
            info.reason,
            info.message,
            info.involved_kind,
            info.involved_name,
            info.involved_namespace,
            info.involved_uid,
        ])?;
        Ok(inserted > 0)
    }

    /// Marks all rows of a key as deleted; returns their number.
    pub(super) fn mark_deleted(&self, part: IndexedTable, key: &str, micros: i64) -> rusqlite::Result<usize> {
        let sql = format!(
            "UPDATE {} SET DeletionTimestamp = ? WHERE RowID IN (SELECT row FROM temp.rows WHERE part = ? AND key = ?)",
            part.table_name()
        );
        self.db.prepare_cached(&sql)?.execute(params![micros, part as i64, key])
    }

    /// Whether a key ever had this hash.
    pub(super) fn has_hash(&self, part: IndexedTable, key: &str, hash: &str) -> rusqlite::Result<bool> {
        let sql = "SELECT 1 FROM temp.rows WHERE part = ? AND key = ? AND hash = ? LIMIT 1";
        self.db.prepare_cached(sql)?.exists(params![part as i64, key, hash])
    }

    /// The hash of a key's newest row.
    pub(super) fn newest_hash(&self, part: IndexedTable, key: &str) -> rusqlite::Result<Option<String>> {
        let sql = "SELECT hash FROM temp.rows WHERE part = ? AND key = ? ORDER BY row DESC LIMIT 1";
        let mut find = self.db.prepare_cached(sql)?;
        find.query_row(params![part as i64, key], |row| row.get(0)).optional()
    }

    /// Commits and closes the file.
    pub(super) fn finish(self) -> rusqlite::Result<()> {
        self.db.execute_batch("COMMIT")?;
        self.db.close().map_err(|(_, error)| error)
    }

    /// Writes a row that is not looked up; returns the number of rows written.
    fn execute(&self, sql: &str, values: &[&dyn ToSql]) -> rusqlite::Result<usize> {
        self.db.prepare_cached(sql)?.execute(values)
    }

    /// Writes a row and indexes it by `key`, and by its hash if it has one.
    fn insert_indexed(
        &self,
        part: IndexedTable,
        key: &str,
        hash: Option<&str>,
        sql: &str,
        values: &[(&str, &dyn ToSql)],
    ) -> rusqlite::Result<()> {
        let row = self.db.prepare_cached(sql)?.insert(values)?;
        let mut insert_row = self.db.prepare_cached("INSERT INTO temp.rows VALUES (?, ?, ?, ?)")?;
        insert_row.execute(params![part as i64, key, row, hash]).map(drop)
    }
}

// === impl IndexedTable ===

impl IndexedTable {
    fn table_name(self) -> &'static str {
        match self {
            IndexedTable::Pod => "pod_info",
            IndexedTable::Node => "node_info",
            IndexedTable::CsiNode => "csi_node_info",
            IndexedTable::PriorityClass => "pc_info",
            IndexedTable::MachineDeployment => "mcd_info",
            IndexedTable::MachineClass => "mcc_info",
            IndexedTable::WorkerPool => "worker_pool_info",
        }
    }
}

/// JSON as a column holds it: an empty text for an empty list or map.
fn json_text(value: &Value) -> String {
    let empty = value.as_object().is_some_and(serde_json::Map::is_empty)
        || value.as_array().is_some_and(Vec::is_empty);
    if empty {
        return String::new();
    }
    let mut out = Vec::new();
    go_json::write_value(&mut out, value);
    String::from_utf8(out).expect("JSON is UTF-8")
}
